/* The table of eviction policies, in the order of docs/policy-rules.md. */
#include "policy.h"

extern const PolicyKind LRU, FIFO, LFU, CLOCK, SIEVE, ARC, SLRU, S3FIFO, WTINYLFU, GDSF, LEAF_LRU,
    BELADY;

static const PolicyKind *const KINDS[] = {
    &LRU,  &FIFO,   &LFU,      &CLOCK, &SIEVE,    &ARC,
    &SLRU, &S3FIFO, &WTINYLFU, &GDSF,  &LEAF_LRU, &BELADY,
};

int64_t policy_count(void) { return sizeof KINDS / sizeof *KINDS; }

const PolicyKind *policy_at(int64_t index) {
    assert(index >= 0 && index < policy_count());
    return KINDS[index];
}

uint32_t *next_uses(Memory *owner, const uint32_t *keys, int64_t count, int64_t distinct) {
    uint32_t *next = array(owner, (size_t)count + 1, sizeof *next);
    uint32_t *later = array(owner, (size_t)distinct + 1, sizeof *later);
    memset(later, 0xff, (size_t)distinct * sizeof *later);
    for (int64_t at = count - 1; at >= 0; at--) {
        next[at] = later[keys[at]];
        later[keys[at]] = (uint32_t)at;
    }
    give_back(owner, later);
    return next;
}
