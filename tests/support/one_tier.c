/* One tier with one policy of the core: what is asked for and is
 * not there enters, objects above the capacity apart. */
#include "policy.h"

typedef struct {
    int64_t hits, misses, bypasses, deletes, evictions, used, peak;
    int64_t strays;             /* victims that were not in the tier: a defect of the policy */
} OneTier;

typedef struct {
    Policy *policy;
    const Workload *ops;
    uint8_t *inside;            /* per key */
    uint32_t *evicted;          /* of each eviction: the position and the key; NULL: not wanted */
    OneTier *sums;
} Tally;

static void take_out(Tally *t, uint32_t key, bool evicted) {
    t->inside[key] = 0;
    t->sums->used -= t->ops->key[key].size;
    t->policy->kind->leave(t->policy, key, evicted);
}

static void read_key(Tally *t, uint32_t key, const PolicyView *view) {
    const PolicyKind *kind = t->policy->kind;
    OneTier *sums = t->sums;
    int64_t size = t->ops->key[key].size;
    if (t->inside[key]) {
        sums->hits++;
        kind->touch(t->policy, key);
        return;
    }
    sums->misses++;
    if (kind->ask) kind->ask(t->policy, key);
    if (size > view->capacity) {
        sums->bypasses++;
        return;
    }
    while (sums->used + size > view->capacity) {
        uint32_t victim = kind->victim(t->policy, key);
        if (victim >= t->ops->keys || !t->inside[victim]) {
            sums->strays++;
            return;
        }
        if (t->evicted) {
            t->evicted[2 * sums->evictions] = (uint32_t)*view->position;
            t->evicted[2 * sums->evictions + 1] = victim;
        }
        sums->evictions++;
        take_out(t, victim, true);
    }
    t->inside[key] = 1;
    sums->used += size;
    if (sums->used > sums->peak) sums->peak = sums->used;
    kind->enter(t->policy, key);
}

/* Run ops over a policy of the table: reads, or deletes where `deletes` (or NULL) is not 0. The
 * workload needs its keys and their number only; `parent` may be NULL unless the policy needs it.
 * `evicted` has room for two numbers an op, or is NULL. */
void policy_run(int64_t index, int64_t capacity, const Workload *workload, const int32_t *parent,
                const uint32_t *keys, const uint8_t *deletes, int64_t count, OneTier *sums,
                uint32_t *evicted) {
    int64_t position = 0;
    Memory memory = {.count = 0};
    uint32_t *last = array(&memory, (size_t)workload->keys + 1, sizeof *last);
    uint32_t *at = array(&memory, (size_t)count + 1, sizeof *at);
    const PolicyKind *kind = policy_at(index);
    uint32_t *next = kind->needs_future ? next_uses(&memory, keys, count, workload->keys) : NULL;
    PolicyView view = {&memory, workload, capacity, &position, last, at, next, parent, count};
    uint8_t *inside = array(&memory, (size_t)workload->keys + 1, 1);
    Tally tally = {kind->make(kind, &view), workload, inside, evicted, sums};
    *sums = (OneTier){0};
    for (; position < count; position++) {
        uint32_t key = keys[position];
        bool is_delete = deletes && deletes[position];
        at[position] = key;
        if (!is_delete) {
            last[key] = (uint32_t)position;
            read_key(&tally, key, &view);
        } else if (tally.inside[key]) {
            sums->deletes++;
            take_out(&tally, key, false);
        }
    }
    memory_free(&memory);
}
