/* slru: four segments, and a hit moves an object up by one. Karedla, Love and Wherry, "Caching
 * strategies to improve disk system performance", IEEE Computer, 1994, has two; four as in Huang
 * and others, "An analysis of Facebook photo caching", SOSP, 2013. */
#include "segments.h"

typedef struct { Policy base; Segments main; } Slru;

static Policy *make(const PolicyKind *kind, const PolicyView *view) {
    Slru *p = policy_new(kind, view, sizeof *p);
    Link *links = per_key(&p->base, sizeof *links);
    p->main.count = 4;
    p->main.segment = per_key(&p->base, 1);
    for (int i = 0; i < p->main.count; i++) {
        p->main.queues[i] = queue_new(links);
        p->main.most[i] = view->capacity / p->main.count;
    }
    p->main.most[0] = view->capacity - 3 * p->main.most[1];
    return &p->base;
}

static void enter(Policy *policy, uint32_t key) {
    segments_enter(&((Slru *)policy)->main, key, size_of(policy, key));
}

static void touch(Policy *policy, uint32_t key) {
    segments_touch(&((Slru *)policy)->main, policy, key);
}

static uint32_t victim(Policy *policy, uint32_t incoming) {
    return segments_victim(&((Slru *)policy)->main);
}

static void leave(Policy *policy, uint32_t key, bool evicted) {
    segments_remove(&((Slru *)policy)->main, key, size_of(policy, key));
}

const PolicyKind SLRU = {.name = "slru", .make = make, .enter = enter,
                         .touch = touch, .victim = victim, .leave = leave};
