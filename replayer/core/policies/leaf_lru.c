/* leaf-lru: evict the least recent object that has no child in the tier, so that prefixes stay
 * whole. The radix cache of SGLang: Zheng and others, "SGLang: efficient execution of structured
 * language model programs", NeurIPS, 2024. */
#include "../numbers.h"
#include "policy.h"

typedef struct { uint32_t recency, children; } Node;    /* children: those in the tier */
typedef struct {
    Policy base;
    Node *nodes;                /* per key */
    uint8_t *inside;            /* per key: it is in the tier */
    Numbers leaves;             /* recencies of the objects without a child */
} LeafLru;

static Policy *make(const PolicyKind *kind, const PolicyView *view) {
    LeafLru *p = policy_new(kind, view, sizeof *p);
    p->nodes = per_key(&p->base, sizeof *p->nodes);
    p->inside = per_key(&p->base, 1);
    numbers_new(&p->leaves, view->memory, view->positions);
    return &p->base;
}

static void enter(Policy *policy, uint32_t key) {
    LeafLru *p = (LeafLru *)policy;
    int32_t parent = p->base.view.parent[key];
    p->inside[key] = 1;
    p->nodes[key].recency = p->base.view.last_touch[key];
    if (!p->nodes[key].children) numbers_add(&p->leaves, p->nodes[key].recency);
    if (parent >= 0 && !p->nodes[parent].children++ && p->inside[parent])
        numbers_remove(&p->leaves, p->nodes[parent].recency);
}

static void leave(Policy *policy, uint32_t key, bool evicted) {
    LeafLru *p = (LeafLru *)policy;
    int32_t parent = p->base.view.parent[key];
    p->inside[key] = 0;
    if (!p->nodes[key].children) numbers_remove(&p->leaves, p->nodes[key].recency);
    assert(parent < 0 || p->nodes[parent].children > 0);
    if (parent >= 0 && !--p->nodes[parent].children && p->inside[parent])
        numbers_add(&p->leaves, p->nodes[parent].recency);
}

static void touch(Policy *policy, uint32_t key) {
    leave(policy, key, false);
    enter(policy, key);
}

static bool take_out(LeafLru *p, uint32_t key, uint32_t position) {
    if (key == NO_KEY || p->nodes[key].recency != position) return false;
    if (!p->nodes[key].children) numbers_remove(&p->leaves, position);
    return true;
}

static void put_in(LeafLru *p, uint32_t key, uint32_t position) {
    p->nodes[key].recency = position;
    if (!p->nodes[key].children) numbers_add(&p->leaves, position);
}

static void swap(Policy *policy, uint32_t one, uint32_t one_at, uint32_t other, uint32_t other_at) {
    LeafLru *p = (LeafLru *)policy;
    bool first = take_out(p, one, one_at), second = take_out(p, other, other_at);
    if (first) put_in(p, one, other_at);
    if (second) put_in(p, other, one_at);
}

static uint32_t victim(Policy *policy, uint32_t incoming) {
    const LeafLru *p = (LeafLru *)policy;
    return p->base.view.key_at[numbers_least(&p->leaves)];
}

const PolicyKind LEAF_LRU = {.name = "leaf-lru", .needs_parent = true, .make = make, .enter = enter, .touch = touch, .swap = swap,
                             .victim = victim, .leave = leave};
