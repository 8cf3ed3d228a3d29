/* A set of numbers as a hierarchical bitmap: one bit per number; on each higher level, one bit per
 * word below that is not empty. Adding, removing and finding the least touch one word per level, so
 * their time does not depend on how many numbers there are. */
#pragma once
#include "memory.h"

enum { NUMBER_LEVELS = 6 };  /* 64^6 > 2^31 */
typedef struct { uint64_t *words[NUMBER_LEVELS]; int levels; } Numbers;

/* Make room for numbers below `limit`. */
static inline void numbers_new(Numbers *set, Memory *owner, int64_t limit) {
    set->levels = 0;
    do {
        limit = (limit + 63) / 64;
        assert(set->levels < NUMBER_LEVELS);
        set->words[set->levels++] = array(owner, (size_t)limit + 1, sizeof(uint64_t));
    } while (limit > 1);
}

static inline void numbers_add(Numbers *set, uint32_t number) {
    for (int level = 0; level < set->levels; level++, number >>= 6) {
        uint64_t *word = &set->words[level][number >> 6], before = *word;
        *word = before | UINT64_C(1) << (number & 63);
        if (before) return;
    }
}

static inline void numbers_remove(Numbers *set, uint32_t number) {
    for (int level = 0; level < set->levels; level++, number >>= 6) {
        uint64_t *word = &set->words[level][number >> 6];
        *word &= ~(UINT64_C(1) << (number & 63));
        if (*word) return;
    }
}

/* Return the least number of a set that is not empty. */
static inline uint32_t numbers_least(const Numbers *set) {
    uint32_t least = 0;
    assert(set->words[set->levels - 1][0]);
    for (int level = set->levels - 1; level >= 0; level--)
        least = least << 6 | (uint32_t)__builtin_ctzll(set->words[level][least]);
    return least;
}
