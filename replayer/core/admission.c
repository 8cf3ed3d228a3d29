/* How often each key was touched, of the keys touched most recently: what a tier admits by. */
#include "placement.h"
#include "policies/queue.h"

struct TouchCounts {
    uint32_t *of;               /* per key */
    Link *links;
    Queue listed;               /* keys with a count; each counts 1 in its bytes */
    int64_t most;               /* 0: all keys; then nothing is listed */
};

TouchCounts *touch_counts_new(Memory *owner, int64_t keys, int64_t most) {
    TouchCounts *c = array(owner, 1, sizeof *c);
    c->of = array(owner, (size_t)keys + 1, sizeof *c->of);
    if (most) c->links = array(owner, (size_t)keys + 1, sizeof *c->links);
    c->listed = queue_new(c->links);
    c->most = most;
    return c;
}

void touch_counts_add(TouchCounts *c, uint32_t key) {
    bool known = c->of[key] > 0;
    if (c->of[key] < UINT32_MAX) c->of[key]++;
    if (!c->most) return;
    if (known) queue_renew(&c->listed, key);
    else queue_push(&c->listed, key, 1);
    if (c->listed.bytes <= c->most) return;
    uint32_t oldest = c->listed.oldest;
    queue_remove(&c->listed, oldest, 1);
    c->of[oldest] = 0;
}

int64_t touch_counts_of(const TouchCounts *c, uint32_t key) { return c->of[key]; }
