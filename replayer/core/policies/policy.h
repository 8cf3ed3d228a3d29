/* Eviction policies: which object of a tier goes next. docs/policy-rules.md has the rule of each, and
 * how to add one. policies.c has the table.
 *
 * One Policy serves one tier and belongs to one thread. It orders the objects that the tier gives
 * it; the tier does the account: it evicts until there is room, and it never gives pinned objects
 * to the policy. Memory is O(keys); a call takes O(log n) time, amortized.
 */
#pragma once
#include "../core.h"
#include "../memory.h"

#define NO_KEY UINT32_MAX
#pragma GCC diagnostic ignored "-Wunused-parameter"  /* few policies need all that they are told */

/* What every policy may read. The arrays belong to the caller and change as the plan goes on. */
typedef struct {
    Memory *memory;             /* the caller's: what a policy takes of it, the caller frees */
    const Workload *ops;        /* key[k].size in bytes; op[row] */
    int64_t capacity;           /* usable bytes of the tier */
    const int64_t *position;    /* of the op that is being decided: 0, 1, ... */
    const uint32_t *last_touch; /* per key: position of the last op that touched it; it is set
                                   before enter and touch are called */
    const uint32_t *key_at;     /* per position: the key that its op touched */
    const uint32_t *next_use;   /* per position: position of the next op on the same key, or
                                   UINT32_MAX; NULL if the order is not known beforehand */
    const int32_t *parent;      /* per key: the key before it in its prefix, or -1; NULL unless
                                   needs_parent */
    int64_t positions;          /* number of ops in the plan */
} PolicyView;

typedef struct Policy Policy;
typedef struct PolicyKind PolicyKind;
struct PolicyKind {
    const char *name;
    bool needs_future, needs_parent;
    Policy *(*make)(const PolicyKind *, const PolicyView *);
    /* An op asks for an object that is not in the tier, before room is made for it. NULL: the
     * policy does not care. An object may enter without it. */
    void (*ask)(Policy *, uint32_t key);
    void (*enter)(Policy *, uint32_t key);  /* the object enters the tier; its room has been made */
    void (*touch)(Policy *, uint32_t key);  /* an op hits the object, which is in the tier */
    /* Choose the object to evict next, to make room for `incoming` (NO_KEY: a watermark). The
     * policy holds an object. It may reorder its queues. */
    uint32_t (*victim)(Policy *, uint32_t incoming);
    /* Two ops change places: an object whose recency is the position of the one gets that of the
     * other. Either may be absent from the tier (NO_KEY). NULL: the policy has no recencies. */
    void (*swap)(Policy *, uint32_t one, uint32_t one_at, uint32_t other, uint32_t other_at);
    /* The object leaves. evicted: it is the victim just chosen; else it is deleted, promoted or
     * expired, and leaves no ghost. */
    void (*leave)(Policy *, uint32_t key, bool evicted);
};

struct Policy {                 /* each policy's own structure begins with it */
    const PolicyKind *kind;
    PolicyView view;
};

const PolicyKind *policy_at(int64_t index);
int64_t policy_count(void);
/* By position, the position of the next op on the same key, or UINT32_MAX. */
uint32_t *next_uses(Memory *owner, const uint32_t *keys, int64_t count, int64_t distinct);

/* Take a policy's own structure, of so many bytes, all zero after its head. */
static inline void *policy_new(const PolicyKind *kind, const PolicyView *view, size_t bytes) {
    Policy *policy = array(view->memory, 1, bytes);
    policy->kind = kind;
    policy->view = *view;
    return policy;
}

/* Take an array with one zero per key. */
static inline void *per_key(const Policy *policy, size_t size) {
    return array(policy->view.memory, (size_t)policy->view.ops->keys + 1, size);
}

static inline int64_t size_of(const Policy *policy, uint32_t key) {
    return policy->view.ops->key[key].size;
}
