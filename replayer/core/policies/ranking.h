/* A ranking of keys: a binary heap that knows where each key is, so that a key can be ranked anew
 * or taken out. The least rank comes first; equal ranks are in the order in which they were given.
 * Every call takes O(log n) time. */
#pragma once
#include "policy.h"

typedef struct { double rank; uint64_t turn; uint32_t key; } Ranked;
typedef struct {
    Ranked *entries;            /* with room for every key */
    uint32_t *place;            /* per key: its index in `entries` */
    uint32_t count;
    uint64_t turns;             /* ranks given so far */
} Ranking;

static inline Ranking ranking_new(const Policy *policy) {
    return (Ranking){.entries = per_key(policy, sizeof(Ranked)),
                     .place = per_key(policy, sizeof(uint32_t))};
}

static inline void ranking_put(Ranking *ranking, uint32_t at, Ranked entry) {
    ranking->entries[at] = entry;
    ranking->place[entry.key] = at;
}

static inline bool ranked_before(Ranked a, Ranked b) {
    return a.rank < b.rank || (a.rank == b.rank && a.turn < b.turn);
}

/* Put an entry where it belongs, beginning at an index whose own entry may be overwritten. */
static inline void ranking_settle(Ranking *ranking, uint32_t at, Ranked entry) {
    const Ranked *entries = ranking->entries;
    for (uint32_t above; at && ranked_before(entry, entries[above = (at - 1) / 2]); at = above)
        ranking_put(ranking, at, entries[above]);
    for (uint64_t below; (below = 2 * (uint64_t)at + 1) < ranking->count; at = (uint32_t)below) {
        bool has_next = below + 1 < ranking->count;
        if (has_next && ranked_before(entries[below + 1], entries[below])) below++;
        if (!ranked_before(entries[below], entry)) break;
        ranking_put(ranking, at, entries[below]);
    }
    ranking_put(ranking, at, entry);
}

static inline void ranking_add(Ranking *ranking, uint32_t key, double rank) {
    uint32_t last = ranking->count++;
    ranking_settle(ranking, last, (Ranked){rank, ranking->turns++, key});
}

/* Give a key that is in the ranking another rank. */
static inline void ranking_change(Ranking *ranking, uint32_t key, double rank) {
    ranking_settle(ranking, ranking->place[key], (Ranked){rank, ranking->turns++, key});
}

static inline void ranking_remove(Ranking *ranking, uint32_t key) {
    uint32_t at = ranking->place[key];
    assert(at < ranking->count && ranking->entries[at].key == key);
    Ranked last = ranking->entries[--ranking->count];
    if (at < ranking->count) ranking_settle(ranking, at, last);
}

static inline double rank_of(const Ranking *ranking, uint32_t key) {
    return ranking->entries[ranking->place[key]].rank;
}
