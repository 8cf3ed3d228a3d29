/* Queues of keys, from oldest to newest, as doubly linked lists. A key is in one queue at most, so
 * all queues of a policy share one array of links. Every call takes constant time. */
#pragma once
#include "policy.h"

typedef struct { uint32_t newer, older; } Link;     /* the neighbours; NO_KEY at an end */
typedef struct {
    Link *links;                /* per key */
    uint32_t newest, oldest;    /* NO_KEY: the queue is empty */
    int64_t bytes;              /* of all objects in the queue */
} Queue;

static inline Queue queue_new(Link *links) {
    return (Queue){links, NO_KEY, NO_KEY, 0};
}

static inline void queue_push(Queue *queue, uint32_t key, int64_t size) {
    queue->links[key] = (Link){NO_KEY, queue->newest};
    if (queue->newest == NO_KEY) queue->oldest = key;
    else queue->links[queue->newest].newer = key;
    queue->newest = key;
    queue->bytes += size;
}

static inline void queue_remove(Queue *queue, uint32_t key, int64_t size) {
    assert(queue->oldest != NO_KEY && queue->bytes >= size);
    Link link = queue->links[key];
    if (link.newer == NO_KEY) queue->newest = link.older;
    else queue->links[link.newer].older = link.older;
    if (link.older == NO_KEY) queue->oldest = link.newer;
    else queue->links[link.older].newer = link.newer;
    queue->bytes -= size;
}

/* Make the key the newest of its queue. */
static inline void queue_renew(Queue *queue, uint32_t key) {
    queue_remove(queue, key, 0);
    queue_push(queue, key, 0);
}

/* Move a key between the queues of a policy; queue 0 is none. `in`: per key, its queue. */
static inline void queues_move(Queue *queues, uint8_t *in, uint32_t key, int64_t size, int to) {
    if (in[key]) queue_remove(&queues[in[key]], key, size);
    if (to) queue_push(&queues[to], key, size);
    in[key] = (uint8_t)to;
}
