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
    numbers_new(&p->order, view->memory, view->positions);
    return &p->base;
}

static void enter(Policy *policy, uint32_t key) {
    Lru *p = (Lru *)policy;
    p->recency[key] = p->base.view.last_touch[key];
    numbers_add(&p->order, p->recency[key]);
}

static void leave(Policy *policy, uint32_t key, bool evicted) {
    Lru *p = (Lru *)policy;
    numbers_remove(&p->order, p->recency[key]);
}

static void touch(Policy *policy, uint32_t key) {
    leave(policy, key, false);
    enter(policy, key);
}

static bool take_out(Lru *p, uint32_t key, uint32_t position) {
    if (key == NO_KEY || p->recency[key] != position) return false;
    numbers_remove(&p->order, position);
    return true;
}

static void put_in(Lru *p, uint32_t key, uint32_t position) {
    p->recency[key] = position;
    numbers_add(&p->order, position);
}

static void swap(Policy *policy, uint32_t one, uint32_t one_at, uint32_t other, uint32_t other_at) {
    Lru *p = (Lru *)policy;
    bool first = take_out(p, one, one_at), second = take_out(p, other, other_at);
    if (first) put_in(p, one, other_at);
    if (second) put_in(p, other, one_at);
}

static uint32_t victim(Policy *policy, uint32_t incoming) {
    const Lru *p = (Lru *)policy;
    return p->base.view.key_at[numbers_least(&p->order)];
}

const PolicyKind LRU = {.name = "lru", .make = make, .enter = enter,
                        .touch = touch, .swap = swap, .victim = victim, .leave = leave};
