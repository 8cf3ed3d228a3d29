/* s3fifo: a small queue on probation, a main queue, and a queue of ghosts, all first in, first out.
 * Yang, Zhang, Qiu, Yue and Rashmi, "FIFO queues are all you need for cache eviction", SOSP,
 * 2023. */
#include "queue.h"

enum { NO_QUEUE, SMALL, MAIN, GHOSTS, QUEUES };
enum { MOST_USES = 3, PROMOTING_USES = 2 };
typedef struct {
    Policy base;
    Queue queues[QUEUES];
    int64_t small, main;        /* bytes: the sizes meant for the two queues */
    bool evicts;                /* it evicted an object before */
    uint8_t *in;                /* per key: its queue */
    uint8_t *returns;           /* per key: its last ask found its ghost */
    uint8_t *uses;              /* per key: hits that still count, MOST_USES at most */
} S3Fifo;

static Policy *make(const PolicyKind *kind, const PolicyView *view) {
    S3Fifo *p = policy_new(kind, view, sizeof *p);
    Link *links = per_key(&p->base, sizeof *links);
    for (int i = 0; i < QUEUES; i++) p->queues[i] = queue_new(links);
    p->small = view->capacity / 10;
    p->main = view->capacity - p->small;
    p->in = per_key(&p->base, 1);
    p->returns = per_key(&p->base, 1);
    p->uses = per_key(&p->base, 1);
    return &p->base;
}

static void move(S3Fifo *p, uint32_t key, int to) {
    queues_move(p->queues, p->in, key, size_of(&p->base, key), to);
}

static void ask(Policy *policy, uint32_t key) {
    S3Fifo *p = (S3Fifo *)policy;
    p->returns[key] = p->in[key] == GHOSTS;
    move(p, key, NO_QUEUE);
}

static void enter(Policy *policy, uint32_t key) {
    S3Fifo *p = (S3Fifo *)policy;
    if (p->in[key] == GHOSTS) ask(policy, key);
    bool small_is_full = p->queues[SMALL].bytes >= p->small;
    move(p, key, p->returns[key] || (small_is_full && !p->evicts) ? MAIN : SMALL);
    p->returns[key] = p->uses[key] = 0;
}

static void touch(Policy *policy, uint32_t key) {
    S3Fifo *p = (S3Fifo *)policy;
    p->uses[key] += p->uses[key] < MOST_USES;
}

static uint32_t victim(Policy *policy, uint32_t incoming) {
    S3Fifo *p = (S3Fifo *)policy;
    Queue *small = &p->queues[SMALL], *main = &p->queues[MAIN];
    bool from_main = main->bytes > p->main;
    p->evicts = true;
    for (; !from_main && small->oldest != NO_KEY; p->uses[main->newest] = 0) {
        if (p->uses[small->oldest] < PROMOTING_USES) return small->oldest;
        move(p, small->oldest, MAIN);
    }
    for (; p->uses[main->oldest]; queue_renew(main, main->oldest)) p->uses[main->oldest]--;
    return main->oldest;
}

static void leave(Policy *policy, uint32_t key, bool evicted) {
    S3Fifo *p = (S3Fifo *)policy;
    bool haunts = evicted && p->in[key] == SMALL && size_of(policy, key) <= p->main;
    Queue *ghosts = &p->queues[GHOSTS];
    move(p, key, NO_QUEUE);
    if (!haunts) return;
    while (ghosts->bytes + size_of(policy, key) > p->main) move(p, ghosts->oldest, NO_QUEUE);
    move(p, key, GHOSTS);
}

const PolicyKind S3FIFO = {.name = "s3fifo", .make = make, .ask = ask,
                           .enter = enter, .touch = touch, .victim = victim, .leave = leave};
