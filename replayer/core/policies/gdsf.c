/* gdsf: greedy dual with size and frequency. Cherkasova, "Improving WWW proxies performance with
 * greedy-dual-size-frequency caching policy", HP Laboratories report HPL-98-69R1, 1998. */
#include "ranking.h"

typedef struct {
    Policy base;
    Ranking ranking;
    uint32_t *uses;             /* per key: uses since it entered */
    double inflation;           /* the rank of the last victim */
    double asked_at;            /* the inflation when an op asked for the key `asked` */
    uint32_t asked;
} Gdsf;

static Policy *make(const PolicyKind *kind, const PolicyView *view) {
    Gdsf *p = policy_new(kind, view, sizeof *p);
    p->ranking = ranking_new(&p->base);
    p->uses = per_key(&p->base, sizeof *p->uses);
    p->asked = NO_KEY;
    return &p->base;
}

static double worth(const Gdsf *p, uint32_t key) {
    return (double)p->uses[key] / (double)size_of(&p->base, key);
}

/* The paper ranks a new object before it makes room for it. */
static void ask(Policy *policy, uint32_t key) {
    Gdsf *p = (Gdsf *)policy;
    p->asked = key;
    p->asked_at = p->inflation;
}

static void enter(Policy *policy, uint32_t key) {
    Gdsf *p = (Gdsf *)policy;
    p->uses[key] = 1;
    ranking_add(&p->ranking, key, (p->asked == key ? p->asked_at : p->inflation) + worth(p, key));
    p->asked = NO_KEY;
}

static void touch(Policy *policy, uint32_t key) {
    Gdsf *p = (Gdsf *)policy;
    p->uses[key]++;
    ranking_change(&p->ranking, key, p->inflation + worth(p, key));
}

static uint32_t victim(Policy *policy, uint32_t incoming) {
    return ((Gdsf *)policy)->ranking.entries[0].key;
}

static void leave(Policy *policy, uint32_t key, bool evicted) {
    Gdsf *p = (Gdsf *)policy;
    if (evicted) p->inflation = rank_of(&p->ranking, key);
    ranking_remove(&p->ranking, key);
}

const PolicyKind GDSF = {.name = "gdsf", .make = make, .ask = ask,
                         .enter = enter, .touch = touch, .victim = victim, .leave = leave};
