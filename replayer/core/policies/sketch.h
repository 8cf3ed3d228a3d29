/* A sketch of frequencies: a counting Bloom filter (Fan, Cao, Almeida and Broder, "Summary cache",
 * SIGCOMM, 1998) with ten counters a key, whose least is the estimate, for a false positive rate of
 * 0.001. The hash is XXH64 of the key as eight bytes. */
#pragma once
#include "policy.h"

enum { SKETCH_HASHES = 10, SKETCH_SEED_A = 0x12345678, SKETCH_SEED_B = 0x12344321 };
#define SKETCH_COUNTERS_PER_KEY 14.37758756605116   /* -ln(0.001) / ln(2)^2 */

typedef struct { uint32_t *counters, count; } Sketch;

static inline Sketch sketch_new(const Policy *policy, int64_t keys) {
    double count = SKETCH_COUNTERS_PER_KEY * (double)keys;
    uint32_t whole = count < 2 * SKETCH_HASHES ? 2 * SKETCH_HASHES
                     : count > INT32_MAX       ? INT32_MAX
                                               : (uint32_t)count + (count > (uint32_t)count);
    return (Sketch){array(policy->view.memory, whole, sizeof(uint32_t)), whole};
}

static inline uint64_t rotate(uint64_t bits, int by) {
    return bits << by | bits >> (64 - by);
}

static inline uint64_t sketch_hash(uint64_t key, uint64_t seed) {
    const uint64_t p1 = 0x9E3779B185EBCA87, p2 = 0xC2B2AE3D27D4EB4F, p3 = 0x165667B19E3779F9,
                   p4 = 0x85EBCA77C2B2AE63, p5 = 0x27D4EB2F165667C5;
    uint64_t hash = seed + p5 + sizeof key;
    hash ^= rotate(key * p2, 31) * p1;
    hash = rotate(hash, 27) * p1 + p4;
    hash = (hash ^ hash >> 33) * p2;
    hash = (hash ^ hash >> 29) * p3;
    return hash ^ hash >> 32;
}

/* Return the estimate, then count the key `more` times. */
static inline uint32_t sketch_count(Sketch *sketch, uint32_t key, uint32_t more) {
    uint32_t a = (uint32_t)sketch_hash(key, SKETCH_SEED_A);
    uint32_t b = (uint32_t)sketch_hash(key, SKETCH_SEED_B), least = UINT32_MAX;
    for (uint32_t i = 0; i < SKETCH_HASHES; i++) {
        uint32_t *counter = &sketch->counters[(a + i * b) % sketch->count];
        if (*counter < least) least = *counter;
        *counter += more;
    }
    return least;
}

static inline void sketch_halve(Sketch *sketch) {
    for (uint32_t i = 0; i < sketch->count; i++) sketch->counters[i] >>= 1;
}
