/* What placement.c and the files of its rules share: admission.c (counting tables), quotas.c (what
 * the objects of a user take), fetches.c (which tiers a request may ask), keys.c (what is known of
 * the keys before the first op). */
#pragma once
#include "core.h"
#include "policies/policy.h"

/* Whether an op reads or writes an object of its request's prompt. */
static inline bool is_of_prompt(const TraceOp *op) {
    return op->phase == PREFILL && op->op != REMOVE;
}

/* ---- admission.c: how often the most recent keys were touched. ---- */
typedef struct TouchCounts TouchCounts;
/* most 0: all keys */
TouchCounts *touch_counts_new(Memory *owner, int64_t keys, int64_t most);
void touch_counts_add(TouchCounts *c, uint32_t key);
int64_t touch_counts_of(const TouchCounts *c, uint32_t key);

/* ---- quotas.c: a tier's objects by owner, the one touched the longest ago first. ---- */
typedef struct UserShares UserShares;
UserShares *user_shares_new(Memory *memory, const Workload *ops, const int32_t *owner);
void user_shares_enter(UserShares *s, uint32_t key, int64_t bytes);
void user_shares_touch(UserShares *s, uint32_t key);
void user_shares_leave(UserShares *s, uint32_t key, int64_t bytes);
int64_t user_shares_used(const UserShares *s, uint32_t key);    /* bytes of the key's owner */
uint32_t user_shares_oldest(const UserShares *s, uint32_t key); /* of the key's owner */

/* ---- fetches.c: tiers that a request asks. ---- */
typedef struct Fetches Fetches;
Fetches *fetches_new(Memory *owner, const Workload *ops);
bool fetches_begun(const Fetches *f, int32_t request);
/* Decide for a request with `left` prefill ops, of which so many tokens are missing per tier. */
void fetches_begin(Fetches *f, int32_t request, int32_t left, const int64_t *missing,
                   const Rules *rules, Account *account);
int fetches_asked(const Fetches *f, int32_t request);           /* a bit per tier */
void fetches_end_op(Fetches *f, int32_t request);               /* a prefill op has been decided */

/* ---- prompts.c: where the ops of each request stand in the plan. ---- */
typedef struct Prompts Prompts;
Prompts *prompts_new(Memory *owner, const Workload *ops);
/* A prefill op of a row has been decided. Returns whether it is its request's last. */
bool prompts_end_op(Prompts *p, int64_t row, int64_t position);
uint32_t prompts_position(const Prompts *p, int64_t row);

/* ---- keys.c ---- */
void mark_pinned(Memory *memory, const Workload *ops, int64_t sources, uint8_t *places, uint8_t mark);
int32_t *find_owners(Memory *memory, const Workload *ops);      /* users, by key */
int32_t *find_parents(Memory *memory, const Workload *ops);     /* keys or -1, by key */

enum { ALL_TIERS = (1 << TIERS) - 1 };  /* a bit per tier */

struct Placement {
    Memory memory;              /* of all that does not grow */
    const Workload *ops;
    Rules rules;
    int64_t position;           /* of the op that is being decided */
    int64_t now_ns;             /* the op's time */
    Account account;
    int64_t pinned[TIERS];      /* bytes of pinned objects */
    uint8_t *places;            /* per key: its holders, and flags */
    uint8_t *touches[TIERS];    /* per key: touches of the object in the tier */
    uint32_t *last_touch;       /* per key: position of the last op on it */
    uint32_t *key_at;           /* per position: the key of its op */
    int64_t *touched_ns;        /* per key, with a time to live */
    uint8_t *broken;            /* per request: it is past its first prefill write or miss */
    int32_t *owner, *parent;    /* per key, if a rule needs them */
    uint32_t *next_use;         /* per position, if a policy needs it */
    PolicyView view;
    Policy *policies[TIERS];    /* NULL: nothing is evicted from the tier */
    TouchCounts *counts[TIERS]; /* NULL: the tier admits everything */
    UserShares *shares[TIERS];  /* NULL: no quota */
    Prompts *prompts;           /* NULL: recency is that of ops */
    Fetches *fetches;           /* NULL: every request asks every tier */
    int8_t in_background;       /* flag of the moves that are emitted */
    PlannedMove *moves;
    int64_t count, room;
};
