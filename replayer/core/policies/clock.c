/* Policies of one queue, in the order in which objects entered.
 *
 * fifo: evict the object that entered first. The textbook rule; Belady, "A study of replacement
 * algorithms for a virtual-storage computer", IBM Systems Journal, 1966.
 * clock: first in, first out with a second chance. Corbató, "A paging experiment with the Multics
 * system", MIT Project MAC report MAC-M-384, 1968.
 * sieve: a hand sweeps a queue whose order never changes. Zhang, Yang, Yue, Vigfusson and Rashmi,
 * "SIEVE is simpler than LRU", NSDI, 2024. */
#include "queue.h"

typedef struct {
    Policy base;
    Queue queue;
    uint32_t hand;              /* of sieve: the object to look at next; NO_KEY: the oldest */
    uint8_t *used;              /* per key: it was hit since the hand passed it */
} Clock;

static Policy *make(const PolicyKind *kind, const PolicyView *view) {
    Clock *p = policy_new(kind, view, sizeof *p);
    p->queue = queue_new(per_key(&p->base, sizeof(Link)));
    p->used = per_key(&p->base, 1);
    p->hand = NO_KEY;
    return &p->base;
}

static void enter(Policy *policy, uint32_t key) {
    Clock *p = (Clock *)policy;
    p->used[key] = 0;
    queue_push(&p->queue, key, size_of(policy, key));
}

static void touch(Policy *policy, uint32_t key) { ((Clock *)policy)->used[key] = 1; }

static void leave(Policy *policy, uint32_t key, bool evicted) {
    Clock *p = (Clock *)policy;
    if (p->hand == key) p->hand = p->queue.links[key].newer;
    queue_remove(&p->queue, key, size_of(policy, key));
}

static void fifo_touch(Policy *policy, uint32_t key) {}

static uint32_t fifo_victim(Policy *policy, uint32_t incoming) {
    return ((Clock *)policy)->queue.oldest;
}

static uint32_t clock_victim(Policy *policy, uint32_t incoming) {
    Clock *p = (Clock *)policy;
    while (p->used[p->queue.oldest]) {
        p->used[p->queue.oldest] = 0;
        queue_renew(&p->queue, p->queue.oldest);
    }
    return p->queue.oldest;
}

static uint32_t sieve_victim(Policy *policy, uint32_t incoming) {
    Clock *p = (Clock *)policy;
    for (;; p->hand = p->queue.links[p->hand].newer) {
        if (p->hand == NO_KEY) p->hand = p->queue.oldest;
        if (!p->used[p->hand]) return p->hand;
        p->used[p->hand] = 0;
    }
}

const PolicyKind FIFO = {.name = "fifo", .make = make, .enter = enter,
                         .touch = fifo_touch, .victim = fifo_victim, .leave = leave};
const PolicyKind CLOCK = {.name = "clock", .make = make, .enter = enter,
                          .touch = touch, .victim = clock_victim, .leave = leave};
const PolicyKind SIEVE = {.name = "sieve", .make = make, .enter = enter,
                          .touch = touch, .victim = sieve_victim, .leave = leave};
