/* fifo: evict the object that entered first. The textbook rule; Belady, "A study of replacement
 * algorithms for a virtual-storage computer", IBM Systems Journal, 1966. */
#include "queue.h"

typedef struct { Policy base; Queue queue; } Fifo;

static Policy *make(const PolicyKind *kind, const PolicyView *view) {
    Fifo *p = policy_new(kind, view, sizeof *p);
    p->queue = queue_new(per_key(&p->base, sizeof(Link)));
    return &p->base;
}

static void enter(Policy *policy, uint32_t key) {
    queue_push(&((Fifo *)policy)->queue, key, size_of(policy, key));
}

static void touch(Policy *policy, uint32_t key) {}

static uint32_t victim(Policy *policy, uint32_t incoming) {
    return ((Fifo *)policy)->queue.oldest;
}

static void leave(Policy *policy, uint32_t key, bool evicted) {
    queue_remove(&((Fifo *)policy)->queue, key, size_of(policy, key));
}

const PolicyKind FIFO = {.name = "fifo", .make = make, .enter = enter,
                         .touch = touch, .victim = victim, .leave = leave};
