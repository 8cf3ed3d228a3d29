/* lru: evict the least recent object. The textbook rule, and that of docs/waterfall.md; analyzed
 * by Mattson, Gecsei, Slutz and Traiger, "Evaluation techniques for storage hierarchies", IBM
 * Systems Journal, 1970. */
#include "../numbers.h"
#include "policy.h"

typedef struct {
    Policy base;
    uint32_t *recency;          /* per key: position of the op that counts as its last */
    Numbers order;              /* recencies of all objects; no two are equal */
} Lru;

static Policy *make(const PolicyKind *kind, const PolicyView *view) {
    Lru *p = policy_new(kind, view, sizeof *p);
    p->recency = per_key(&p->base, sizeof *p->recency);
    numbers_new(&p->order, view->positions);
    return &p->base;
}

static void release(Policy *policy) {
    Lru *p = (Lru *)policy;
    free(p->recency);
    numbers_free(&p->order);
    free(p);
}

static void enter(Policy *policy, uint32_t key) {
    Lru *p = (Lru *)policy;
    p->recency[key] = p->base.view.last_touch[key];
    numbers_add(&p->order, p->recency[key]);
}

static void leave(Policy *policy, uint32_t key, bool evicted) {
    (void)evicted;
    Lru *p = (Lru *)policy;
    numbers_remove(&p->order, p->recency[key]);
}

static void touch(Policy *policy, uint32_t key) {
    leave(policy, key, false);
    enter(policy, key);
}

static uint32_t victim(Policy *policy, uint32_t incoming) {
    (void)incoming;
    const Lru *p = (Lru *)policy;
    return p->base.view.key_at[numbers_least(&p->order)];
}

const PolicyKind LRU = {.name = "lru", .make = make, .release = release, .enter = enter,
                        .touch = touch, .victim = victim, .leave = leave};
