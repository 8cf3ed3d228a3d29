/* clock: first in, first out with a second chance. Corbató, "A paging experiment with the Multics
 * system", MIT Project MAC report MAC-M-384, 1968. */
#include "queue.h"

typedef struct {
    Policy base;
    Queue queue;
    uint8_t *used;              /* per key: it was hit since the hand passed it */
} Clock;

static Policy *make(const PolicyKind *kind, const PolicyView *view) {
    Clock *p = policy_new(kind, view, sizeof *p);
    p->queue = queue_new(per_key(&p->base, sizeof(Link)));
    p->used = per_key(&p->base, 1);
    return &p->base;
}

static void enter(Policy *policy, uint32_t key) {
    Clock *p = (Clock *)policy;
    p->used[key] = 0;
    queue_push(&p->queue, key, size_of(policy, key));
}

static void touch(Policy *policy, uint32_t key) {
    ((Clock *)policy)->used[key] = 1;
}

static uint32_t victim(Policy *policy, uint32_t incoming) {
    Clock *p = (Clock *)policy;
    while (p->used[p->queue.oldest]) {
        p->used[p->queue.oldest] = 0;
        queue_renew(&p->queue, p->queue.oldest);
    }
    return p->queue.oldest;
}

static void leave(Policy *policy, uint32_t key, bool evicted) {
    queue_remove(&((Clock *)policy)->queue, key, size_of(policy, key));
}

const PolicyKind CLOCK = {.name = "clock", .make = make, .enter = enter,
                          .touch = touch, .victim = victim, .leave = leave};
