/* What a plan does, counted as it is made (docs/simulating.md): one pass over each of its
 * stretches. Reads of `replayer plan`, `simulate`, `size` and `why` are all counted here. */
#include "core.h"

enum { HAS_OP = 1, HAS_READ = 2, HAS_MISSED = 4, HAS_LOST = 8 };    /* of a request */

/* A read hits, or misses. Decode reads, of what the request has just written, are in no hit rate. */
static void count_read(Counter *c, Counts *sums, const TraceOp *op, const TraceKey *key, int tier) {
    if (op->phase != PREFILL) return;
    sums->reads[op->source]++;
    uint8_t *request = &c->request[op->request];
    sums->reading_requests += !(*request & HAS_READ);
    *request |= HAS_READ;
    if (tier == NONE) {
        sums->missing_requests += !(*request & HAS_MISSED);
        *request |= HAS_MISSED;
        return;
    }
    sums->hits[op->source][tier]++;
    sums->spared_tokens[op->source][tier] += key->stored;   /* the rest is computed again */
}

/* Per key: bit t: tier t holds the object; bit 4 + t: and nothing has read that entry yet. */
static void count_entry(Counts *sums, uint8_t *held, int tier) {
    sums->entries[tier]++;
    *held |= (uint8_t)(0x11 << tier);
}

/* Count the entry that a read finds unread. */
static void count_use(Counts *sums, uint8_t *held, int tier) {
    sums->read_entries[tier] += *held >> (4 + tier) & 1;
    *held &= (uint8_t) ~(0x10 << tier);
}

static void leave(uint8_t *held, int tier) { *held &= (uint8_t) ~(0x11 << tier); }

static void count_drop(Counts *sums, uint8_t *held, int tier) {
    leave(held, tier);
    bool is_free = (*held & 0x0f) >> tier;  /* a slower tier still holds the object */
    if (is_free) sums->free_drops[tier]++;
    else sums->drops[tier]++;
}

static void count_move(Counter *c, Counts *sums, const Workload *w, const TraceOp *op,
                       const PlannedMove *m, int64_t (*bytes)[TIERS]) {
    uint8_t *held = &c->key[m->key];
    switch (m->kind) {
    case HIT:
    case PROMOTE:
        count_read(c, sums, op, &w->key[m->key], m->from);
        count_use(sums, held, m->from);
        bytes[0][m->from] += m->size;
        if (m->kind == PROMOTE) leave(held, m->from);
        break;
    case MISS:
        count_read(c, sums, op, &w->key[m->key], NONE);
        break;
    case DEMOTE:
    case COPY:
        bytes[0][m->from] += m->size;
        if (m->kind == DEMOTE) leave(held, m->from);
        /* fall through */
    case STORE:
        bytes[1][m->to] += m->size;
        count_entry(sums, held, m->to);
        break;
    case DROP:
        count_drop(sums, held, m->from);
        break;
    case DELETE:
        if (m->from != NONE) leave(held, m->from);
        break;
    }
}

/* A read that misses is stored anew, unless a tier still has the object and only the beginning of
 * its prefix is gone. */
static void count_headless(Counter *c, Counts *sums, const TraceOp *op, const PlannedMove *moves,
                           int64_t count) {
    bool missed = false, stored = false;
    for (int64_t i = 0; i < count; i++) {
        missed |= moves[i].kind == MISS;
        stored |= moves[i].kind == STORE || moves[i].kind == BYPASS;
    }
    if (!missed) return;
    uint8_t *request = &c->request[op->request];
    if (stored) *request |= HAS_LOST;
    else sums->headless += !!(*request & HAS_LOST);
}

static void count_op(Counter *c, const Workload *w, const PlannedOp *planned,
                     const PlannedMove *moves) {
    const TraceOp *op = &w->op[planned->row];
    int part = c->part_of && c->part_of[op->request];
    Counts *sums = &c->parts[part];
    int64_t unwanted[2][TIERS] = {{0}};
    int64_t(*bytes)[TIERS] = unwanted;
    if (c->minute) {
        int64_t minute = part * c->minutes + c->minute[op->request];
        bytes = (int64_t(*)[TIERS])c->bytes + 2 * minute;
    }
    totals_op(&sums->totals, (int)planned->role);
    sums->requests += !(c->request[op->request] & HAS_OP);
    c->request[op->request] |= HAS_OP;
    if (op->phase == PREFILL && planned->role != REMOVE)
        sums->prompt_tokens[op->source] += w->key[op->key].tokens;
    for (int64_t seq = 0; seq < planned->moves; seq++) {
        totals_move(&sums->totals, w, planned->row, seq, &moves[seq]);
        count_move(c, sums, w, op, &moves[seq], bytes);
    }
    count_headless(c, sums, op, moves, planned->moves);
}

/* Add a batch of a plan, the next in order. `rows`: gets seven numbers per move, those that the
 * fingerprint covers; or NULL. */
void stretch_count(const Workload *w, const PlannedOp *ops, int64_t count, const PlannedMove *moves,
                   Counter *c, int64_t *rows) {
    for (int64_t i = 0; i < count; moves += ops[i++].moves) {
        count_op(c, w, &ops[i], moves);
        for (int64_t seq = 0; rows && seq < ops[i].moves; seq++)
            rows = write_row(rows, w->op[ops[i].row].op_id, seq, &moves[seq]);
    }
}
