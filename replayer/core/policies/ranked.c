/* Policies that rank objects and evict the one of the least rank.
 *
 * lfu: by uses since the object entered. The textbook rule; Aho, Denning and Ullman, "Principles
 * of optimal page replacement", Journal of the ACM, 1971.
 * belady: by minus the next use. With objects of equal size no policy misses less. Belady, "A study
 * of replacement algorithms for a virtual-storage computer", IBM Systems Journal, 1966.
 * gdsf: greedy dual with size and frequency. Cherkasova, "Improving WWW proxies performance with
 * greedy-dual-size-frequency caching policy", HP Laboratories report HPL-98-69R1, 1998. */
#include "ranking.h"

typedef struct {
    Policy base;
    Ranking ranking;
    double inflation;           /* the rank of the last victim */
    /* of gdsf */
    uint32_t *uses;             /* per key: uses since it entered */
    double asked_at;            /* the inflation when an op asked for the key `asked` */
    uint32_t asked;
} ByRank;

static Policy *make(const PolicyKind *kind, const PolicyView *view) {
    ByRank *p = policy_new(kind, view, sizeof *p);
    p->ranking = ranking_new(&p->base);
    p->asked = NO_KEY;
    if (kind->ask) p->uses = per_key(&p->base, sizeof *p->uses);
    return &p->base;
}

static uint32_t victim(Policy *policy, uint32_t incoming) {
    return ((ByRank *)policy)->ranking.entries[0].key;
}

static void leave(Policy *policy, uint32_t key, bool evicted) {
    ByRank *p = (ByRank *)policy;
    if (evicted) p->inflation = rank_of(&p->ranking, key);
    ranking_remove(&p->ranking, key);
}

static void lfu_enter(Policy *policy, uint32_t key) {
    ranking_add(&((ByRank *)policy)->ranking, key, 1);
}

static void lfu_touch(Policy *policy, uint32_t key) {
    ByRank *p = (ByRank *)policy;
    ranking_change(&p->ranking, key, rank_of(&p->ranking, key) + 1);
}

static double next_rank(const Policy *policy, uint32_t key) {
    return -(double)policy->view.next_use[policy->view.last_touch[key]];
}

static void belady_enter(Policy *policy, uint32_t key) {
    ranking_add(&((ByRank *)policy)->ranking, key, next_rank(policy, key));
}

static void belady_touch(Policy *policy, uint32_t key) {
    ranking_change(&((ByRank *)policy)->ranking, key, next_rank(policy, key));
}

static double worth(const ByRank *p, uint32_t key) {
    return (double)p->uses[key] / (double)size_of(&p->base, key);
}

/* The paper ranks a new object before it makes room for it. */
static void gdsf_ask(Policy *policy, uint32_t key) {
    ByRank *p = (ByRank *)policy;
    p->asked = key;
    p->asked_at = p->inflation;
}

static void gdsf_enter(Policy *policy, uint32_t key) {
    ByRank *p = (ByRank *)policy;
    p->uses[key] = 1;
    ranking_add(&p->ranking, key, (p->asked == key ? p->asked_at : p->inflation) + worth(p, key));
    p->asked = NO_KEY;
}

static void gdsf_touch(Policy *policy, uint32_t key) {
    ByRank *p = (ByRank *)policy;
    p->uses[key]++;
    ranking_change(&p->ranking, key, p->inflation + worth(p, key));
}

const PolicyKind LFU = {.name = "lfu", .make = make, .enter = lfu_enter, .touch = lfu_touch,
                        .victim = victim, .leave = leave};
const PolicyKind BELADY = {.name = "belady", .needs_future = true, .make = make,
                           .enter = belady_enter, .touch = belady_touch, .victim = victim,
                           .leave = leave};
const PolicyKind GDSF = {.name = "gdsf", .make = make, .ask = gdsf_ask, .enter = gdsf_enter,
                         .touch = gdsf_touch, .victim = victim, .leave = leave};
