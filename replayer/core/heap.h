/* A binary heap of (key, value), least first; equal keys are ordered by value. */
#pragma once
#include "memory.h"

typedef struct { uint64_t key; int64_t value; } Entry;
typedef struct { Entry *entries; int64_t count, room; } Heap;

static inline int entry_before(Entry a, Entry b) {
    return a.key < b.key || (a.key == b.key && a.value < b.value);
}

static inline void heap_push(Heap *heap, uint64_t key, int64_t value) {
    if (heap->count == heap->room)
        heap->entries = grown(heap->entries, &heap->room, 64, sizeof(Entry));
    Entry entry = {key, value};
    int64_t at = heap->count++;
    while (at > 0) {
        int64_t above = (at - 1) >> 1;
        if (!entry_before(entry, heap->entries[above])) break;
        heap->entries[at] = heap->entries[above];
        at = above;
    }
    heap->entries[at] = entry;
}

static inline void heap_sift(Heap *heap, int64_t at, Entry entry) {
    for (;;) {
        int64_t below = 2 * at + 1;
        if (below >= heap->count) break;
        if (below + 1 < heap->count && entry_before(heap->entries[below + 1], heap->entries[below]))
            below++;
        if (!entry_before(heap->entries[below], entry)) break;
        heap->entries[at] = heap->entries[below];
        at = below;
    }
    heap->entries[at] = entry;
}

static inline Entry heap_pop(Heap *heap) {
    assert(heap->count > 0);
    Entry top = heap->entries[0], last = heap->entries[--heap->count];
    if (heap->count) heap_sift(heap, 0, last);
    return top;
}

/* Replace the least entry. */
static inline void heap_replace(Heap *heap, uint64_t key, int64_t value) {
    heap_sift(heap, 0, (Entry){key, value});
}
