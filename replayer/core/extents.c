/* Free room as runs of units. An allocation takes one run if one is large enough, else several:
 * however fragmented the free room is, an object of that many units fits. Runs carry their length
 * at both ends (boundary tags), so that neighbours are joined at once; runs of similar size are
 * linked. No lock of its own: Tier.lock guards it.
 */
#include "core.h"
#include <assert.h>
#include <stdlib.h>

enum { BINS = 40 };

typedef struct {
    uint32_t head, tail;        /* of a free run's first and last unit: its length; else 0 */
    int32_t next, before;       /* of a first unit: neighbours in the list of the run's bin */
} Unit;

struct Extents {
    int64_t units, room;
    Unit *at;                   /* by unit; the kernel backs what is used */
    int32_t bins[BINS];         /* runs of 2^i to 2^(i+1) - 1 units; -1: none */
};

Extents *extents_new(int64_t units) {
    assert(units >= 0 && units < INT32_MAX);
    Extents *e = calloc(1, sizeof *e);
    Unit *at = calloc((size_t)units + 1, sizeof *at);
    if (!e || !at) {
        free(e);
        free(at);
        return NULL;
    }
    e->units = units;
    e->at = at;
    for (int i = 0; i < BINS; i++) e->bins[i] = NONE;
    if (units) extents_give(e, 0, units);
    return e;
}

void extents_free(Extents *e) {
    if (!e) return;
    free(e->at);
    free(e);
}

int64_t extents_room(const Extents *e) { return e->room; }

static int bin_of(int64_t length) { return 63 - __builtin_clzll((unsigned long long)length); }

static void link_run(Extents *e, int64_t start, int64_t length) {
    int bin = bin_of(length);
    e->at[start].head = e->at[start + length - 1].tail = (uint32_t)length;
    e->at[start].before = NONE;
    e->at[start].next = e->bins[bin];
    if (e->bins[bin] != NONE) e->at[e->bins[bin]].before = (int32_t)start;
    e->bins[bin] = (int32_t)start;
}

static void unlink_run(Extents *e, int64_t start) {
    int64_t length = e->at[start].head;
    if (e->at[start].before != NONE) e->at[e->at[start].before].next = e->at[start].next;
    else e->bins[bin_of(length)] = e->at[start].next;
    if (e->at[start].next != NONE) e->at[e->at[start].next].before = e->at[start].before;
    e->at[start].head = e->at[start + length - 1].tail = 0;
}

/* Choose a run of at least `units` if one is among the first few of its bin or in a larger bin;
 * else the first of the largest bin there is. */
static int64_t choose_run(const Extents *e, int64_t units) {
    int bin = bin_of(units);
    int64_t at = e->bins[bin];
    for (int tries = 0; tries < 8 && at != NONE; tries++, at = e->at[at].next)
        if (e->at[at].head >= units) return at;
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
        int64_t start = choose_run(e, left);
        assert(start != NONE);  /* e->room says that there are runs */
        int64_t length = e->at[start].head,
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
    assert(units > 0 && start >= 0 && start + units <= e->units);
    assert(!e->at[start].head && e->room + units <= e->units);
    e->room += units;
    int64_t after = start + units;
    if (after < e->units && e->at[after].head) {
        units += e->at[after].head;
        unlink_run(e, after);
    }
    if (start && e->at[start - 1].tail) {
        int64_t length = e->at[start - 1].tail;
        start -= length;
        units += length;
        unlink_run(e, start);
    }
    link_run(e, start, units);
}
