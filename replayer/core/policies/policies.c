/* The table of eviction policies, in the order of docs/policies.md. */
#include "policy.h"

extern const PolicyKind LRU, FIFO, LFU, CLOCK, SIEVE, ARC, SLRU, S3FIFO, WTINYLFU, GDSF, LEAF_LRU,
    BELADY;

static const PolicyKind *const KINDS[] = {
    &LRU,
    &FIFO,
    &LFU,
    &CLOCK,
    &SIEVE,
    &ARC,
    &SLRU,
    &S3FIFO,
    &WTINYLFU,
    &GDSF,
    &LEAF_LRU,
    &BELADY,
};

int64_t policy_count(void) {
    return sizeof KINDS / sizeof *KINDS;
}

const PolicyKind *policy_at(int64_t index) {
    return KINDS[index];
}

const PolicyKind *policy_find(const char *name) {
    for (int64_t i = 0; i < policy_count(); i++)
        if (!strcmp(KINDS[i]->name, name)) return KINDS[i];
    return NULL;
}
