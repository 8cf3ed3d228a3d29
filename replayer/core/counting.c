/* What a plan does, counted as it is made (docs/simulating.md): one pass over each of its
 * stretches. */
#include "core.h"

enum { HAS_OP = 1, HAS_READ = 2, HAS_MISSED = 4 };  /* of a request */

/* A read hits, or misses. Decode reads, of what the request has just written, are in no hit rate. */
static void count_read(Counts *c, const TraceOp *op, const TraceKey *key, int tier) {
    if (op->phase != PREFILL) return;
    c->reads[op->source]++;
    uint8_t *request = &c->request[op->request];
    c->reading_requests += !(*request & HAS_READ);
    *request |= HAS_READ;
    if (tier == NONE) {
        c->missing_requests += !(*request & HAS_MISSED);
        *request |= HAS_MISSED;
        return;
    }
    c->hits[op->source][tier]++;
    c->spared_tokens[op->source][tier] += key->stored;  /* what was not stored is computed again */
}

/* Per key: bit t: tier t holds the object; bit 4 + t: and nothing has read that entry yet. */
static void count_entry(Counts *c, uint8_t *held, int tier) {
    c->entries[tier]++;
    *held |= (uint8_t)(0x11 << tier);
}

/* Count the entry that a read finds unread. */
static void count_use(Counts *c, uint8_t *held, int tier) {
    c->read_entries[tier] += *held >> (4 + tier) & 1;
    *held &= (uint8_t) ~(0x10 << tier);
}

static void leave(uint8_t *held, int tier) { *held &= (uint8_t) ~(0x11 << tier); }

static void count_drop(Counts *c, uint8_t *held, int tier) {
    leave(held, tier);
    bool is_free = (*held & 0x0f) >> tier;  /* a slower tier still holds the object */
    if (is_free) c->free_drops[tier]++;
    else c->drops[tier]++;
}

static void count_move(Counts *c, const Workload *w, const TraceOp *op, const PlannedMove *m,
                       int64_t (*bytes)[TIERS]) {
    uint8_t *held = &c->key[m->key];
    switch (m->kind) {
    case HIT:
    case PROMOTE:
        count_read(c, op, &w->key[m->key], m->from);
        count_use(c, held, m->from);
        bytes[0][m->from] += m->size;
        if (m->kind == PROMOTE) leave(held, m->from);
        break;
    case MISS:
        count_read(c, op, &w->key[m->key], NONE);
        break;
    case DEMOTE:
    case COPY:
        bytes[0][m->from] += m->size;
        if (m->kind == DEMOTE) leave(held, m->from);
        /* fall through */
    case STORE:
        bytes[1][m->to] += m->size;
        count_entry(c, held, m->to);
        break;
    case DROP:
        count_drop(c, held, m->from);
        break;
    case DELETE:
        if (m->from != NONE) leave(held, m->from);
        break;
    }
}

void stretch_count(const Workload *w, const PlannedOp *ops, int64_t count, const PlannedMove *moves,
                   Counts *c) {
    for (int64_t i = 0; i < count; i++) {
        const TraceOp *op = &w->op[ops[i].row];
        int64_t(*bytes)[TIERS] = (int64_t(*)[TIERS])c->bytes + 2 * (int64_t)c->minute[op->request];
        totals_op(c->totals, (int)ops[i].role);
        c->requests += !(c->request[op->request] & HAS_OP);
        c->request[op->request] |= HAS_OP;
        if (op->phase == PREFILL && ops[i].role != REMOVE)
            c->prompt_tokens[op->source] += w->key[op->key].tokens;
        for (int64_t seq = 0; seq < ops[i].moves; seq++, moves++) {
            totals_move(c->totals, w, ops[i].row, seq, moves);
            count_move(c, w, op, moves, bytes);
        }
    }
}
