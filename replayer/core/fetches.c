/* Which tiers a request asks: those of which it misses enough tokens, while the tokens of all
 * requests in flight are within the limit. */
#include "placement.h"

typedef struct {
    int32_t left;               /* prefill ops to be decided */
    uint8_t begun, asked;
    int64_t missing[TIERS];     /* tokens in flight, of tiers that are limited and asked */
} Fetch;
struct Fetches {
    Fetch *of;                  /* per request */
    int64_t in_flight[TIERS];   /* tokens */
};

Fetches *fetches_new(Memory *owner, const Workload *ops) {
    Fetches *f = array(owner, 1, sizeof *f);
    f->of = array(owner, (size_t)ops->requests + 1, sizeof *f->of);
    return f;
}

bool fetches_begun(const Fetches *f, int32_t request) { return f->of[request].begun; }

void fetches_begin(Fetches *f, int32_t request, int32_t left, const int64_t *missing,
                   const Rules *rules, Account *account) {
    Fetch *fetch = &f->of[request];
    assert(!fetch->begun);
    fetch->begun = 1;
    fetch->left = left;
    for (int tier = 0; tier < TIERS; tier++) {
        const TierRules *of = &rules->tier[tier];
        bool limited = of->fetch_tokens || of->fetch_in_flight != UNLIMITED;
        bool asks = missing[tier] >= of->fetch_tokens &&
                    (of->fetch_in_flight == UNLIMITED ||
                     f->in_flight[tier] + missing[tier] <= of->fetch_in_flight);
        fetch->asked |= (uint8_t)((tier == GPU || asks) << tier);
        if (tier == GPU || !limited) continue;
        if (asks) account->fetches[tier]++;
        else account->fetches_refused[tier]++;
        fetch->missing[tier] = asks ? missing[tier] : 0;
        f->in_flight[tier] += fetch->missing[tier];
    }
}

int fetches_asked(const Fetches *f, int32_t request) {
    return f->of[request].begun ? f->of[request].asked : ALL_TIERS;
}

void fetches_end_op(Fetches *f, int32_t request) {
    Fetch *fetch = &f->of[request];
    assert(fetch->begun && fetch->left > 0);
    if (--fetch->left) return;
    for (int tier = 0; tier < TIERS; tier++) {
        f->in_flight[tier] -= fetch->missing[tier];
        assert(f->in_flight[tier] >= 0);
    }
}
