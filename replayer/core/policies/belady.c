/* belady: evict the object whose next use is farthest. With objects of equal size no policy misses
 * less. Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems
 * Journal, 1966. */
#include "ranking.h"

typedef struct { Policy base; Ranking ranking; } Belady;    /* rank: minus the next use */

static Policy *make(const PolicyKind *kind, const PolicyView *view) {
    Belady *p = policy_new(kind, view, sizeof *p);
    p->ranking = ranking_new(&p->base);
    return &p->base;
}

static double rank(const Policy *policy, uint32_t key) {
    return -(double)policy->view.next_use[policy->view.last_touch[key]];
}

static void enter(Policy *policy, uint32_t key) {
    ranking_add(&((Belady *)policy)->ranking, key, rank(policy, key));
}

static void touch(Policy *policy, uint32_t key) {
    ranking_change(&((Belady *)policy)->ranking, key, rank(policy, key));
}

static uint32_t victim(Policy *policy, uint32_t incoming) {
    return ((Belady *)policy)->ranking.entries[0].key;
}

static void leave(Policy *policy, uint32_t key, bool evicted) {
    ranking_remove(&((Belady *)policy)->ranking, key);
}

const PolicyKind BELADY = {.name = "belady", .needs_future = true, .make = make, .enter = enter, .touch = touch, .victim = victim,
                           .leave = leave};
