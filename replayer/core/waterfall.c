/* The waterfall: which tier holds what, decided from the order of ops alone (docs/waterfall.md). */
#include "core.h"
#include <stdlib.h>
#include <string.h>

#include "heap.h"

struct Waterfall {
    const Workload *ops;
    Rules rules;
    int64_t position;
    int64_t used[TIERS], resident[TIERS], peak[TIERS], peak_objects[TIERS], largest;
    uint8_t *tier_of;       /* per key */
    uint8_t *unwritten;     /* per key: its write is still to come; only where whoever comes first writes */
    uint32_t *recency_of;   /* per key: the position of the last op that touched it */
    uint8_t *broken;        /* per request: past its first prefill write or miss */
    Heap residents[TIERS];  /* of bounded tiers: (recency, key); recency here may lag behind recency_of */
    Planned *moves;
    int64_t count, room;
};

Waterfall *waterfall_new(const Workload *workload, const Rules *rules) {
    Waterfall *w = calloc(1, sizeof *w);
    w->ops = workload;
    w->rules = *rules;
    size_t keys = (size_t)workload->keys + 1;
    w->tier_of = malloc(keys);
    memset(w->tier_of, NOWHERE, keys);
    w->recency_of = calloc(keys, sizeof *w->recency_of);
    w->broken = calloc((size_t)workload->requests + 1, 1);
    if (rules->first_writes) {
        w->unwritten = malloc(keys);
        memcpy(w->unwritten, workload->has_write, (size_t)workload->keys);
    }
    return w;
}

void waterfall_free(Waterfall *w) {
    if (!w) return;
    for (int tier = 0; tier < TIERS; tier++) free(w->residents[tier].entries);
    free(w->tier_of);
    free(w->unwritten);
    free(w->recency_of);
    free(w->broken);
    free(w->moves);
    free(w);
}

static void emit(Waterfall *w, int kind, uint32_t key, int from, int to) {
    if (w->count == w->room) {
        w->room = w->room ? 2 * w->room : 64;
        w->moves = realloc(w->moves, (size_t)w->room * sizeof *w->moves);
    }
    w->moves[w->count++] = (Planned){w->ops->size[key], key, (int8_t)kind, (int8_t)from, (int8_t)to};
}

static bool can_hold(const Waterfall *w, int tier, int64_t size) {
    return w->rules.usable[tier] && size <= w->rules.usable[tier];
}

/* Leave one entry for each key that lies in the tier, so that its heap does not grow with the trace. */
static void sweep(Waterfall *w, int tier) {
    Heap *heap = &w->residents[tier];
    int64_t kept = 0;
    for (int64_t i = 0; i < heap->count; i++) {
        int64_t key = heap->entries[i].value;
        if (w->tier_of[key] != tier) continue;
        w->tier_of[key] |= 0x80;  /* once */
        heap->entries[kept++] = (Entry){w->recency_of[key], key};
    }
    heap->count = 0;
    for (int64_t i = 0; i < kept; i++) {
        w->tier_of[heap->entries[i].value] &= 0x7f;
        heap_push(heap, heap->entries[i].key, heap->entries[i].value);
    }
}

static void enter(Waterfall *w, uint32_t key, int tier, int kind, int from) {
    int64_t size = w->ops->size[key];
    emit(w, kind, key, from, tier);
    w->tier_of[key] = (uint8_t)tier;
    w->used[tier] += size;
    w->resident[tier]++;
    if (w->used[tier] > w->peak[tier]) w->peak[tier] = w->used[tier];
    if (w->resident[tier] > w->peak_objects[tier]) w->peak_objects[tier] = w->resident[tier];
    if (w->rules.usable[tier] == UNLIMITED) return;
    heap_push(&w->residents[tier], w->recency_of[key], key);
    if (w->residents[tier].count > 2 * w->resident[tier] + 64) sweep(w, tier);
}

static void leave(Waterfall *w, uint32_t key, int tier) {
    w->tier_of[key] = NOWHERE;
    w->used[tier] -= w->ops->size[key];
    w->resident[tier]--;
}

/* A touch does not move an entry, so entries are lower bounds: one that lags behind is put back with the present
 * recency. Entries of keys that left by promotion or deletion are passed over. */
static uint32_t least_recent(Waterfall *w, int tier) {
    Heap *heap = &w->residents[tier];
    for (;;) {
        Entry entry = heap->entries[0];
        int64_t key = entry.value;
        if (w->tier_of[key] != tier) {
            heap_pop(heap);
        } else if (w->recency_of[key] == entry.key) {
            heap_pop(heap);
            return (uint32_t)key;
        } else {
            heap_replace(heap, w->recency_of[key], key);
        }
    }
}

/* Demote the least recent objects until `size` more bytes fit: each to the next slower tier that can hold it, or out. */
static void make_room(Waterfall *w, int tier, int64_t size) {
    while (w->used[tier] + size > w->rules.usable[tier]) {
        uint32_t key = least_recent(w, tier);
        int64_t bytes = w->ops->size[key];
        int slower = tier + 1;
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

static void store(Waterfall *w, uint32_t key) {
    int64_t size = w->ops->size[key];
    for (int tier = 0; tier < TIERS; tier++) {
        if (!can_hold(w, tier, size)) continue;
        make_room(w, tier, size);
        w->recency_of[key] = (uint32_t)w->position;
        enter(w, key, tier, STORE, NONE);
        return;
    }
    emit(w, BYPASS, key, NONE, NONE);
}

static bool promotes(const Waterfall *w, int tier, int64_t size) {
    for (int faster = 0; w->rules.promote && faster < tier; faster++)
        if (can_hold(w, faster, size)) return true;
    return false;
}

static void read_key(Waterfall *w, uint32_t key, int phase, int32_t request) {
    int tier = w->tier_of[key];
    bool late = w->rules.contiguous && phase == PREFILL && w->broken[request];
    if (tier == NOWHERE || late) {
        emit(w, MISS, key, NONE, NONE);
        w->broken[request] |= phase == PREFILL;
        if (tier == NOWHERE) store(w, key);
        else w->recency_of[key] = (uint32_t)w->position;
    } else if (promotes(w, tier, w->ops->size[key])) {
        emit(w, PROMOTE, key, tier, NONE);
        leave(w, key, tier);
        store(w, key);
    } else {
        w->recency_of[key] = (uint32_t)w->position;
        emit(w, HIT, key, tier, NONE);
    }
}

int waterfall_decide(Waterfall *w, int64_t row, const Planned **moves, int64_t *count) {
    uint32_t key = w->ops->key[row];
    int role = op_of(w->ops, row), phase = phase_of(w->ops, row), tier = w->tier_of[key];
    w->count = 0;
    if (w->ops->size[key] > w->largest) w->largest = w->ops->size[key];
    if (w->unwritten && role != REMOVE) {
        role = w->unwritten[key] ? WRITE : READ;
        w->unwritten[key] = 0;
    }
    if (role == READ) {
        read_key(w, key, phase, w->ops->request[row]);
    } else if (role == WRITE) {
        store(w, key);
        w->broken[w->ops->request[row]] |= phase == PREFILL;
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

int64_t waterfall_heap_sizes(const Waterfall *w) {
    int64_t sum = 0;
    for (int tier = 0; tier < TIERS; tier++) sum += w->residents[tier].count;
    return sum;
}

void totals_op(Totals *t, int role) {
    t->ops++;
    t->reads += role == READ;
}

void totals_move(Totals *t, const Workload *w, int64_t seq, const Planned *m) {
    t->counts[m->kind][m->from & 3][m->to & 3]++;
    t->bytes[m->kind][m->from & 3][m->to & 3] += m->size;
    if (m->kind == HIT || m->kind == PROMOTE || m->kind == DEMOTE || m->kind == STORE) t->moved_bytes += m->size;
    /* An op that missed and could not be stored either is recomputed once. */
    if (m->kind == MISS || (m->kind == BYPASS && !seq)) t->recomputed_tokens += w->tokens[m->key];
}
