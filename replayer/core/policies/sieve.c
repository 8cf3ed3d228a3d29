/* sieve: a hand sweeps a queue whose order never changes. Zhang, Yang, Yue, Vigfusson and Rashmi,
 * "SIEVE is simpler than LRU", NSDI, 2024. */
#include "queue.h"

typedef struct {
    Policy base;
    Queue queue;
    uint32_t hand;              /* the object to look at next; NO_KEY: the oldest */
    uint8_t *used;              /* per key: it was hit since the hand passed it */
} Sieve;

static Policy *make(const PolicyKind *kind, const PolicyView *view) {
    Sieve *p = policy_new(kind, view, sizeof *p);
    p->queue = queue_new(per_key(&p->base, sizeof(Link)));
    p->used = per_key(&p->base, 1);
    p->hand = NO_KEY;
    return &p->base;
}

static void enter(Policy *policy, uint32_t key) {
    Sieve *p = (Sieve *)policy;
    p->used[key] = 0;
    queue_push(&p->queue, key, size_of(policy, key));
}

static void touch(Policy *policy, uint32_t key) {
    ((Sieve *)policy)->used[key] = 1;
}

static uint32_t victim(Policy *policy, uint32_t incoming) {
    Sieve *p = (Sieve *)policy;
    for (;; p->hand = p->queue.links[p->hand].newer) {
        if (p->hand == NO_KEY) p->hand = p->queue.oldest;
        if (!p->used[p->hand]) return p->hand;
        p->used[p->hand] = 0;
    }
}

static void leave(Policy *policy, uint32_t key, bool evicted) {
    Sieve *p = (Sieve *)policy;
    if (p->hand == key) p->hand = p->queue.links[key].newer;
    queue_remove(&p->queue, key, size_of(policy, key));
}

const PolicyKind SIEVE = {.name = "sieve", .make = make, .enter = enter,
                          .touch = touch, .victim = victim, .leave = leave};
