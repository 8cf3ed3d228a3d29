/* Segmented LRU, which slru.c and the main part of wtinylfu.c share: queues of limited bytes, each
 * in order of use. A hit moves an object up by one segment; what is then too much goes down. */
#pragma once
#include "queue.h"

enum { MOST_SEGMENTS = 4 };
typedef struct {
    Queue queues[MOST_SEGMENTS];    /* the lowest first: it loses objects */
    int64_t most[MOST_SEGMENTS];    /* bytes; an object that no segment has room for exceeds the
                                       lowest one's */
    uint8_t *segment;               /* per key that is in one */
    int count;
} Segments;

static inline int64_t segments_bytes(const Segments *s) {
    int64_t bytes = 0;
    for (int i = 0; i < s->count; i++) bytes += s->queues[i].bytes;
    return bytes;
}

static inline void segments_put(Segments *s, int segment, uint32_t key, int64_t size) {
    assert(segment >= 0 && segment < s->count);
    s->segment[key] = (uint8_t)segment;
    queue_push(&s->queues[segment], key, size);
}

static inline void segments_remove(Segments *s, uint32_t key, int64_t size) {
    queue_remove(&s->queues[s->segment[key]], key, size);
}

/* Put a new object into the lowest segment that has room, or else into the lowest. */
static inline void segments_enter(Segments *s, uint32_t key, int64_t size) {
    int to = 0;
    while (to < s->count && s->queues[to].bytes + size > s->most[to]) to++;
    segments_put(s, to < s->count ? to : 0, key, size);
}

static inline void segments_touch(Segments *s, const Policy *policy, uint32_t key) {
    int64_t size = size_of(policy, key);
    int to = s->segment[key] + 1 < s->count ? s->segment[key] + 1 : s->segment[key];
    segments_remove(s, key, size);
    segments_put(s, to, key, size);
    for (; to; to--)
        while (s->queues[to].bytes > s->most[to]) {
            uint32_t oldest = s->queues[to].oldest;
            segments_remove(s, oldest, size_of(policy, oldest));
            segments_put(s, to - 1, oldest, size_of(policy, oldest));
        }
}

/* Return the oldest object of the lowest segment that has one. */
static inline uint32_t segments_victim(const Segments *s) {
    int from = 0;
    while (from < s->count - 1 && s->queues[from].oldest == NO_KEY) from++;
    return s->queues[from].oldest;
}
