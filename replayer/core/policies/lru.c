/* lru: evict the least recent object. The textbook rule, and that of docs/waterfall.md; analyzed
 * by Mattson, Gecsei, Slutz and Traiger, "Evaluation techniques for storage hierarchies", IBM
 * Systems Journal, 1970.
 * leaf-lru: the least recent object that has no child in the tier, so that prefixes stay whole. The
 * radix cache of SGLang: Zheng and others, "SGLang: efficient execution of structured language
 * model programs", NeurIPS, 2024. */
#include "../numbers.h"
#include "policy.h"

typedef struct {
    Policy base;
    uint32_t *recency;          /* per key: position of the op that counts as its last */
    Numbers order;              /* recencies of the objects that may go; no two are equal */
    uint32_t *children;         /* of leaf-lru, per key: its children in the tier */
    uint8_t *inside;            /* of leaf-lru, per key: it is in the tier */
} Lru;

static Policy *make(const PolicyKind *kind, const PolicyView *view) {
    Lru *p = policy_new(kind, view, sizeof *p);
    p->recency = per_key(&p->base, sizeof *p->recency);
    numbers_new(&p->order, view->memory, view->positions);
    if (!kind->needs_parent) return &p->base;
    p->children = per_key(&p->base, sizeof *p->children);
    p->inside = per_key(&p->base, 1);
    return &p->base;
}

static bool may_go(const Lru *p, uint32_t key) { return !p->children || !p->children[key]; }

static void enter(Policy *policy, uint32_t key) {
    Lru *p = (Lru *)policy;
    p->recency[key] = p->base.view.last_touch[key];
    if (may_go(p, key)) numbers_add(&p->order, p->recency[key]);
}

static void leave(Policy *policy, uint32_t key, bool evicted) {
    Lru *p = (Lru *)policy;
    if (may_go(p, key)) numbers_remove(&p->order, p->recency[key]);
}

static void touch(Policy *policy, uint32_t key) {
    leave(policy, key, false);
    enter(policy, key);
}

static void enter_below(Policy *policy, uint32_t key) {
    Lru *p = (Lru *)policy;
    int32_t parent = p->base.view.parent[key];
    p->inside[key] = 1;
    enter(policy, key);
    if (parent >= 0 && !p->children[parent]++ && p->inside[parent])
        numbers_remove(&p->order, p->recency[parent]);
}

static void leave_parent(Policy *policy, uint32_t key, bool evicted) {
    Lru *p = (Lru *)policy;
    int32_t parent = p->base.view.parent[key];
    p->inside[key] = 0;
    leave(policy, key, evicted);
    assert(parent < 0 || p->children[parent] > 0);
    if (parent >= 0 && !--p->children[parent] && p->inside[parent])
        numbers_add(&p->order, p->recency[parent]);
}

static bool take_out(Lru *p, uint32_t key, uint32_t position) {
    if (key == NO_KEY || p->recency[key] != position) return false;
    if (may_go(p, key)) numbers_remove(&p->order, position);
    return true;
}

static void put_in(Lru *p, uint32_t key, uint32_t position) {
    p->recency[key] = position;
    if (may_go(p, key)) numbers_add(&p->order, position);
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
const PolicyKind LEAF_LRU = {.name = "leaf-lru", .needs_parent = true, .make = make,
                             .enter = enter_below, .touch = touch, .swap = swap,
                             .victim = victim, .leave = leave_parent};
