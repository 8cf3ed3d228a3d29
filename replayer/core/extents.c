/* Free room as runs of units. An allocation takes one run if one is large enough, else several:
 * however fragmented the free room is, an object of that many units fits. Runs carry their length
 * at both ends (boundary tags), so that neighbours are joined at once; runs of similar size are
 * linked. No lock of its own: Tier.lock guards it.
 */
#include "core.h"
#include <stdlib.h>

enum { BINS = 40 };

struct Extents {
    int64_t units, room;
    uint32_t *head, *tail;      /* at a free run's first and last unit: its length; else 0 */
    int32_t *next, *before;     /* by first unit: neighbours in the list of the run's bin */
    int32_t bins[BINS];         /* runs of 2^i to 2^(i+1) - 1 units; -1: none */
};

Extents *extents_new(int64_t units) {
    Extents *e = calloc(1, sizeof *e);
    e->units = units;
    size_t count = (size_t)units + 1;
    e->head = calloc(count, sizeof *e->head);
    e->tail = calloc(count, sizeof *e->tail);
    e->next = calloc(count, sizeof *e->next);
    e->before = calloc(count, sizeof *e->before);
    if (!e->head || !e->tail || !e->next || !e->before) abort();
    for (int i = 0; i < BINS; i++) e->bins[i] = NONE;
    if (units) extents_give(e, 0, units);
    return e;
}

void extents_free(Extents *e) {
    if (!e) return;
    free(e->head);
    free(e->tail);
    free(e->next);
    free(e->before);
    free(e);
}

int64_t extents_room(const Extents *e) { return e->room; }

static int bin_of(int64_t length) { return 63 - __builtin_clzll((unsigned long long)length); }

static void link_run(Extents *e, int64_t start, int64_t length) {
    int bin = bin_of(length);
    e->head[start] = e->tail[start + length - 1] = (uint32_t)length;
    e->before[start] = NONE;
    e->next[start] = e->bins[bin];
    if (e->bins[bin] != NONE) e->before[e->bins[bin]] = (int32_t)start;
    e->bins[bin] = (int32_t)start;
}

static void unlink_run(Extents *e, int64_t start) {
    int64_t length = e->head[start];
    if (e->before[start] != NONE) e->next[e->before[start]] = e->next[start];
    else e->bins[bin_of(length)] = e->next[start];
    if (e->next[start] != NONE) e->before[e->next[start]] = e->before[start];
    e->head[start] = e->tail[start + length - 1] = 0;
}

/* Choose a run of at least `units` if one is among the first few of its bin or in a larger bin;
 * else the first of the largest bin there is. */
static int64_t choose_run(const Extents *e, int64_t units) {
    int bin = bin_of(units);
    int64_t at = e->bins[bin];
    for (int tries = 0; tries < 8 && at != NONE; tries++, at = e->next[at])
        if (e->head[at] >= units) return at;
    for (int i = bin + 1; i < BINS; i++)
        if (e->bins[i] != NONE) return e->bins[i];
    for (int i = bin; i >= 0; i--)
        if (e->bins[i] != NONE) return e->bins[i];
    return NONE;
}

int64_t extents_take(Extents *e, int64_t units, Extent *out, int64_t most) {
    if (units > e->room) return 0;
    int64_t count = 0, left = units;
    while (left) {
        if (count == most) {
            while (count--) extents_give(e, out[count].start, out[count].bytes);
            return -1;
        }
        int64_t start = choose_run(e, left), length = e->head[start],
                used = length < left ? length : left;
        unlink_run(e, start);
        if (used < length) link_run(e, start + used, length - used);
        out[count++] = (Extent){start, used};
        e->room -= used;
        left -= used;
    }
    return count;
}

void extents_give(Extents *e, int64_t start, int64_t units) {
    e->room += units;
    int64_t after = start + units;
    if (after < e->units && e->head[after]) {
        units += e->head[after];
        unlink_run(e, after);
    }
    if (start && e->tail[start - 1]) {
        int64_t length = e->tail[start - 1];
        start -= length;
        units += length;
        unlink_run(e, start);
    }
    link_run(e, start, units);
}
