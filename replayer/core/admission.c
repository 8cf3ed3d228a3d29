/* How often each key was touched, of the keys touched most recently: what a tier admits by. */
#include "placement.h"
#include "memory.h"

typedef struct { uint32_t count, older, newer; } Count;
struct TouchCounts {
    Count *of;                  /* per key, and one more: both ends of the list by recency */
    uint32_t end;               /* its index */
    int64_t most, listed;       /* most 0: there is no list */
};

TouchCounts *touch_counts_new(int64_t keys, int64_t most) {
    TouchCounts *c = checked(calloc(1, sizeof *c));
    c->of = array((size_t)keys + 1, sizeof *c->of);
    c->end = (uint32_t)keys;
    c->of[c->end].older = c->of[c->end].newer = c->end;
    c->most = most;
    return c;
}

void touch_counts_free(TouchCounts *c) {
    if (!c) return;
    free(c->of);
    free(c);
}

static void unlink_count(TouchCounts *c, uint32_t key) {
    c->of[c->of[key].older].newer = c->of[key].newer;
    c->of[c->of[key].newer].older = c->of[key].older;
}

void touch_counts_add(TouchCounts *c, uint32_t key) {
    bool known = c->of[key].count > 0;
    if (c->of[key].count < UINT32_MAX) c->of[key].count++;
    if (!c->most) return;
    if (known) unlink_count(c, key);
    else c->listed++;
    uint32_t newest = c->of[c->end].older;
    c->of[key].older = newest;
    c->of[key].newer = c->end;
    c->of[newest].newer = c->of[c->end].older = key;
    if (c->listed <= c->most) return;
    uint32_t oldest = c->of[c->end].newer;
    unlink_count(c, oldest);
    c->of[oldest].count = 0;
    c->listed--;
}

int64_t touch_counts_of(const TouchCounts *c, uint32_t key) { return c->of[key].count; }
