/* What the objects of each user take in a tier, and the order in which they would go. */
#include "placement.h"
#include "policies/queue.h"

struct UserShares {
    const int32_t *owner;
    Link *links;                /* per key */
    Queue *queues;              /* per user: its objects, the one touched the longest ago first */
};

UserShares *user_shares_new(Memory *memory, const Workload *ops, const int32_t *owner) {
    UserShares *s = array(memory, 1, sizeof *s);
    s->owner = owner;
    s->links = array(memory, (size_t)ops->keys + 1, sizeof *s->links);
    s->queues = array(memory, (size_t)ops->users + 1, sizeof *s->queues);
    for (int64_t user = 0; user < ops->users; user++) s->queues[user] = queue_new(s->links);
    return s;
}

static Queue *queue_of(const UserShares *s, uint32_t key) { return &s->queues[s->owner[key]]; }

void user_shares_enter(UserShares *s, uint32_t key, int64_t bytes) {
    queue_push(queue_of(s, key), key, bytes);
}

void user_shares_touch(UserShares *s, uint32_t key) { queue_renew(queue_of(s, key), key); }

void user_shares_leave(UserShares *s, uint32_t key, int64_t bytes) {
    queue_remove(queue_of(s, key), key, bytes);
}

int64_t user_shares_used(const UserShares *s, uint32_t key) { return queue_of(s, key)->bytes; }

uint32_t user_shares_oldest(const UserShares *s, uint32_t key) { return queue_of(s, key)->oldest; }
