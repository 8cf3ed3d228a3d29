/* wtinylfu: an LRU window, whose losers take the place of the main part's only if they were asked
 * for more often. Einziger, Friedman and Manes, "TinyLFU: a highly efficient cache admission
 * policy", ACM Transactions on Storage, 2017. */
#include "segments.h"
#include "sketch.h"

enum { ABSENT, WINDOW, MAIN };
enum { SAMPLE = 32 };           /* the sketch is halved after hits of so many times main's bytes */
typedef struct {
    Policy base;
    Queue window;
    Segments main;
    int64_t main_most;          /* bytes */
    uint8_t *in;                /* per key */
    Sketch sketch;
    int64_t hit_bytes;          /* of main, since the sketch was halved */
    uint32_t winner;            /* it takes the victim's place in main; NO_KEY: none does */
} WTinyLfu;

/* Return how many objects of mean size main can hold, the number of keys at most. */
static int64_t objects_in_main(const WTinyLfu *p) {
    const Workload *ops = p->base.view.ops;
    double bytes = 0;
    for (int64_t key = 0; key < ops->keys; key++) bytes += (double)ops->key[key].size;
    double objects = (double)p->main_most * (double)ops->keys / (bytes ? bytes : 1);
    return objects < (double)ops->keys ? (int64_t)objects : ops->keys;
}

static Policy *make(const PolicyKind *kind, const PolicyView *view) {
    WTinyLfu *p = policy_new(kind, view, sizeof *p);
    Link *links = per_key(&p->base, sizeof *links);
    p->main_most = view->capacity - view->capacity / 100;
    p->window = p->main.queues[0] = p->main.queues[1] = queue_new(links);
    p->main.count = 2;
    p->main.most[0] = p->main_most / 5;
    p->main.most[1] = p->main_most - p->main.most[0];
    p->main.segment = per_key(&p->base, 1);
    p->in = per_key(&p->base, 1);
    p->sketch = sketch_new(&p->base, objects_in_main(p));
    p->winner = NO_KEY;
    return &p->base;
}

static void move(WTinyLfu *p, uint32_t key, int to) {
    int64_t size = size_of(&p->base, key);
    if (p->in[key] == WINDOW) queue_remove(&p->window, key, size);
    if (p->in[key] == MAIN) segments_remove(&p->main, key, size);
    if (to == WINDOW) queue_push(&p->window, key, size);
    if (to == MAIN) segments_enter(&p->main, key, size);
    p->in[key] = (uint8_t)to;
}

static void enter(Policy *policy, uint32_t key) {
    WTinyLfu *p = (WTinyLfu *)policy;
    move(p, key, WINDOW);
    sketch_count(&p->sketch, key, 1);
}

static void touch(Policy *policy, uint32_t key) {
    WTinyLfu *p = (WTinyLfu *)policy;
    if (p->in[key] == WINDOW) {
        queue_renew(&p->window, key);
        return;
    }
    segments_touch(&p->main, policy, key);
    sketch_count(&p->sketch, key, 1);
    p->hit_bytes += size_of(policy, key);
    if (p->hit_bytes / SAMPLE < p->main_most) return;
    p->hit_bytes = 0;
    sketch_halve(&p->sketch);
}

static uint32_t victim(Policy *policy, uint32_t incoming) {
    WTinyLfu *p = (WTinyLfu *)policy;
    for (uint32_t key; (key = p->window.oldest) != NO_KEY;) {
        bool fits = segments_bytes(&p->main) + size_of(policy, key) <= p->main_most;
        uint32_t rival = segments_victim(&p->main);
        bool wins = !fits && rival != NO_KEY &&
                    sketch_count(&p->sketch, key, 0) > sketch_count(&p->sketch, rival, 0);
        sketch_count(&p->sketch, key, 1);
        if (fits) {
            move(p, key, MAIN);
            continue;
        }
        p->winner = wins ? key : NO_KEY;
        return wins ? rival : key;
    }
    return segments_victim(&p->main);
}

static void leave(Policy *policy, uint32_t key, bool evicted) {
    WTinyLfu *p = (WTinyLfu *)policy;
    uint32_t winner = evicted ? p->winner : NO_KEY;
    move(p, key, ABSENT);
    p->winner = NO_KEY;
    if (winner == NO_KEY) return;
    bool fits = segments_bytes(&p->main) + size_of(policy, winner) <= p->main_most;
    if (fits) move(p, winner, MAIN);
}

const PolicyKind WTINYLFU = {.name = "wtinylfu", .make = make,
                             .enter = enter, .touch = touch, .victim = victim, .leave = leave};
