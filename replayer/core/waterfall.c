/* The waterfall: which tier holds which object, decided from the order of ops alone
 * (docs/waterfall.md). Belongs to one thread, or is guarded by Engine.lock. */
#include "core.h"
#include "memory.h"
#include "numbers.h"

typedef struct {
    uint32_t recency;       /* position of the last op that touched the key */
    uint8_t tier;
    uint8_t unwritten;      /* its write is still to come; only if the first op on a key writes */
} Place;

struct Waterfall {
    const Workload *ops;
    Rules rules;
    int64_t position;
    int64_t used[TIERS], resident[TIERS], peak[TIERS], peak_objects[TIERS], largest;
    Place *places;          /* per key */
    uint8_t *broken;        /* per request: it is past its first prefill write or miss */
    uint32_t *key_at;       /* per position: the key that its op touched */
    Numbers residents[TIERS];  /* of bounded tiers: the recency of each object, which is unique */
    PlannedMove *moves;
    int64_t count, room;
};

static bool bounded(const Waterfall *w, int tier) {
    return w->rules.usable[tier] && w->rules.usable[tier] != UNLIMITED;
}

Waterfall *waterfall_new(const Workload *workload, const Rules *rules) {
    Waterfall *w = checked(calloc(1, sizeof *w));
    w->ops = workload;
    w->rules = *rules;
    w->places = array((size_t)workload->keys + 1, sizeof *w->places);
    for (int64_t key = 0; key < workload->keys; key++)
        w->places[key] = (Place){0, NOWHERE, rules->first_writes && workload->key[key].has_write};
    w->broken = checked(calloc((size_t)workload->requests + 1, 1));
    w->key_at = array((size_t)workload->ops + 1, sizeof *w->key_at);
    for (int tier = 0; tier < TIERS; tier++)
        if (bounded(w, tier)) numbers_new(&w->residents[tier], workload->ops);
    return w;
}

void waterfall_free(Waterfall *w) {
    if (!w) return;
    for (int tier = 0; tier < TIERS; tier++) numbers_free(&w->residents[tier]);
    free(w->places);
    free(w->broken);
    free(w->key_at);
    free(w->moves);
    free(w);
}

static void emit(Waterfall *w, int kind, uint32_t key, int from, int to) {
    if (w->count == w->room) {
        w->room = w->room ? 2 * w->room : 64;
        w->moves = realloc(w->moves, (size_t)w->room * sizeof *w->moves);
    }
    w->moves[w->count++] =
        (PlannedMove){w->ops->key[key].size, key, (int8_t)kind, (int8_t)from, (int8_t)to, 0};
}

static bool can_hold(const Waterfall *w, int tier, int64_t size) {
    return w->rules.usable[tier] && size <= w->rules.usable[tier];
}

static bool has_room(const Waterfall *w, int tier, int64_t size) {
    return can_hold(w, tier, size) && size <= w->rules.usable[tier] - w->used[tier];
}

static void enter(Waterfall *w, uint32_t key, int tier, int kind, int from) {
    emit(w, kind, key, from, tier);
    w->places[key].tier = (uint8_t)tier;
    w->used[tier] += w->ops->key[key].size;
    w->resident[tier]++;
    if (w->used[tier] > w->peak[tier]) w->peak[tier] = w->used[tier];
    if (w->resident[tier] > w->peak_objects[tier]) w->peak_objects[tier] = w->resident[tier];
    if (bounded(w, tier)) numbers_add(&w->residents[tier], w->places[key].recency);
}

static void leave(Waterfall *w, uint32_t key, int tier) {
    w->places[key].tier = NOWHERE;
    w->used[tier] -= w->ops->key[key].size;
    w->resident[tier]--;
    if (bounded(w, tier)) numbers_remove(&w->residents[tier], w->places[key].recency);
}

/* The op of this position touches the key: if a tier holds it, it is the tier's most recent now. */
static void touch(Waterfall *w, uint32_t key) {
    Place *place = &w->places[key];
    bool moves = place->tier != NOWHERE && bounded(w, place->tier);
    if (moves) numbers_remove(&w->residents[place->tier], place->recency);
    place->recency = (uint32_t)w->position;
    w->key_at[w->position] = key;
    if (moves) numbers_add(&w->residents[place->tier], place->recency);
}

/* Demote the least recent objects until `size` more bytes fit: each to the next slower tier that
 * can hold it; if none can, or if stores spill, drop it. */
static void make_room(Waterfall *w, int tier, int64_t size) {
    while (w->used[tier] + size > w->rules.usable[tier]) {
        uint32_t key = w->key_at[numbers_least(&w->residents[tier])];
        int64_t bytes = w->ops->key[key].size;
        int slower = w->rules.spills ? TIERS : tier + 1;
        while (slower < TIERS && !can_hold(w, slower, bytes)) slower++;
        if (slower == TIERS) {
            emit(w, DROP, key, tier, NONE);
            leave(w, key, tier);
        } else {
            make_room(w, slower, bytes);
            leave(w, key, tier);
            enter(w, key, slower, DEMOTE, tier);
        }
    }
}

/* Return the tier that takes a new object, or TIERS: the fastest that can hold it. If stores spill:
 * the fastest that has room; if none has, the slowest that can hold it. */
static int tier_for(const Waterfall *w, int64_t size) {
    int choice = TIERS;
    for (int tier = TIERS - 1; tier >= 0; tier--) {
        bool takes =
            w->rules.spills && choice != TIERS ? has_room(w, tier, size) : can_hold(w, tier, size);
        if (takes) choice = tier;
    }
    return choice;
}

static void store(Waterfall *w, uint32_t key) {
    int64_t size = w->ops->key[key].size;
    int tier = tier_for(w, size);
    if (tier == TIERS) {
        emit(w, BYPASS, key, NONE, NONE);
        return;
    }
    make_room(w, tier, size);
    touch(w, key);
    enter(w, key, tier, STORE, NONE);
}

static bool promotes(const Waterfall *w, int tier, int64_t size) {
    return w->rules.promote && tier_for(w, size) < tier;
}

static void read_key(Waterfall *w, uint32_t key, int phase, int32_t request) {
    int tier = w->places[key].tier;
    bool late = w->rules.contiguous && phase == PREFILL && w->broken[request];
    if (tier == NOWHERE || late) {
        emit(w, MISS, key, NONE, NONE);
        w->broken[request] |= phase == PREFILL;
        if (tier == NOWHERE) store(w, key);
        else touch(w, key);
    } else if (promotes(w, tier, w->ops->key[key].size)) {
        emit(w, PROMOTE, key, tier, NONE);
        leave(w, key, tier);
        store(w, key);
    } else {
        touch(w, key);
        emit(w, HIT, key, tier, NONE);
    }
}

int waterfall_decide(Waterfall *w, int64_t row, const PlannedMove **moves, int64_t *count) {
    const TraceOp *op = &w->ops->op[row];
    uint32_t key = op->key;
    int role = op->op, phase = op->phase, tier = w->places[key].tier;
    w->count = 0;
    if (w->ops->key[key].size > w->largest) w->largest = w->ops->key[key].size;
    if (w->rules.first_writes && role != REMOVE) {
        role = w->places[key].unwritten ? WRITE : READ;
        w->places[key].unwritten = 0;
    }
    if (role == READ) {
        read_key(w, key, phase, op->request);
    } else if (role == WRITE) {
        store(w, key);
        w->broken[op->request] |= phase == PREFILL;
    } else {
        emit(w, DELETE, key, tier == NOWHERE ? NONE : tier, NONE);
        if (tier != NOWHERE) leave(w, key, tier);
    }
    w->position++;
    *moves = w->moves;
    *count = w->count;
    return role;
}

void waterfall_account(const Waterfall *w, int64_t *out) {
    for (int tier = 0; tier < TIERS; tier++) {
        out[tier] = w->used[tier];
        out[TIERS + tier] = w->resident[tier];
        out[2 * TIERS + tier] = w->peak[tier];
        out[3 * TIERS + tier] = w->peak_objects[tier];
    }
    out[4 * TIERS] = w->largest;
}

void totals_op(Totals *t, int role) {
    t->ops++;
    t->reads += role == READ;
}

void totals_move(Totals *t, const Workload *w, int64_t seq, const PlannedMove *m) {
    t->counts[m->kind][m->from & 3][m->to & 3]++;
    t->bytes[m->kind][m->from & 3][m->to & 3] += m->size;
    if (m->kind == HIT || m->kind == PROMOTE || m->kind == DEMOTE || m->kind == STORE ||
        m->kind == COPY)
        t->moved_bytes += m->size;
    /* An op that missed and was bypassed recomputes its tokens once. */
    if (m->kind == MISS || (m->kind == BYPASS && !seq))
        t->recomputed_tokens += w->key[m->key].tokens;
}
