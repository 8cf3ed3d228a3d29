/* lfu: evict the object that was used least often since it entered. The textbook rule; Aho, Denning
 * and Ullman, "Principles of optimal page replacement", Journal of the ACM, 1971. */
#include "ranking.h"

typedef struct { Policy base; Ranking ranking; } Lfu;       /* rank: uses since the entry */

static Policy *make(const PolicyKind *kind, const PolicyView *view) {
    Lfu *p = policy_new(kind, view, sizeof *p);
    p->ranking = ranking_new(&p->base);
    return &p->base;
}

static void enter(Policy *policy, uint32_t key) {
    ranking_add(&((Lfu *)policy)->ranking, key, 1);
}

static void touch(Policy *policy, uint32_t key) {
    Lfu *p = (Lfu *)policy;
    ranking_change(&p->ranking, key, rank_of(&p->ranking, key) + 1);
}

static uint32_t victim(Policy *policy, uint32_t incoming) {
    return ((Lfu *)policy)->ranking.entries[0].key;
}

static void leave(Policy *policy, uint32_t key, bool evicted) {
    ranking_remove(&((Lfu *)policy)->ranking, key);
}

const PolicyKind LFU = {.name = "lfu", .make = make, .enter = enter,
                        .touch = touch, .victim = victim, .leave = leave};
