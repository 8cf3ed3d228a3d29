/* What the objects of each user take in a tier, and the order in which they would go. */
#include "placement.h"
#include "memory.h"

typedef struct { uint32_t older, newer; } Link;
struct UserShares {
    const int32_t *owner;
    int64_t keys;
    Link *links;                /* per key, then one per user: both ends of its list */
    int64_t *used;              /* bytes per user */
};

UserShares *user_shares_new(const Workload *ops, const int32_t *owner) {
    UserShares *s = checked(calloc(1, sizeof *s));
    s->owner = owner;
    s->keys = ops->keys;
    s->links = array((size_t)(ops->keys + ops->users) + 1, sizeof *s->links);
    for (int64_t end = ops->keys; end < ops->keys + ops->users; end++)
        s->links[end] = (Link){(uint32_t)end, (uint32_t)end};
    s->used = checked(calloc((size_t)ops->users + 1, sizeof *s->used));
    return s;
}

void user_shares_free(UserShares *s) {
    if (!s) return;
    free(s->links);
    free(s->used);
    free(s);
}

static uint32_t end_of(const UserShares *s, uint32_t key) {
    return (uint32_t)(s->keys + s->owner[key]);
}

static void append(UserShares *s, uint32_t key) {
    uint32_t end = end_of(s, key), newest = s->links[end].older;
    s->links[key] = (Link){newest, end};
    s->links[newest].newer = s->links[end].older = key;
}

static void take_out(UserShares *s, uint32_t key) {
    s->links[s->links[key].older].newer = s->links[key].newer;
    s->links[s->links[key].newer].older = s->links[key].older;
}

void user_shares_enter(UserShares *s, uint32_t key, int64_t bytes) {
    append(s, key);
    s->used[s->owner[key]] += bytes;
}

void user_shares_touch(UserShares *s, uint32_t key) {
    take_out(s, key);
    append(s, key);
}

void user_shares_leave(UserShares *s, uint32_t key, int64_t bytes) {
    take_out(s, key);
    s->used[s->owner[key]] -= bytes;
}

int64_t user_shares_used(const UserShares *s, uint32_t key) { return s->used[s->owner[key]]; }

uint32_t user_shares_oldest(const UserShares *s, uint32_t key) {
    return s->links[end_of(s, key)].newer;
}
