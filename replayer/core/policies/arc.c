/* arc: two queues, of objects used once and more often, whose shares follow the ghosts that are
 * asked for. Megiddo and Modha, "ARC: a self-tuning, low overhead replacement cache", FAST, 2003;
 * T1, T2, B1, B2 and p as in the paper, in bytes. */
#include "queue.h"

enum { NO_QUEUE, T1, T2, B1, B2, QUEUES };
typedef struct {
    Policy base;
    Queue queues[QUEUES];
    uint8_t *in;                /* per key: its queue */
    uint8_t *was;               /* per key: the ghosts' queue in which its last ask found it */
    double p;                   /* bytes that T1 should have */
    bool forget;                /* the victim leaves no ghost */
} Arc;

static Policy *make(const PolicyKind *kind, const PolicyView *view) {
    Arc *p = policy_new(kind, view, sizeof *p);
    Link *links = per_key(&p->base, sizeof *links);
    for (int i = 0; i < QUEUES; i++) p->queues[i] = queue_new(links);
    p->in = per_key(&p->base, 1);
    p->was = per_key(&p->base, 1);
    return &p->base;
}

static void move(Arc *p, uint32_t key, int to) {
    queues_move(p->queues, p->in, key, size_of(&p->base, key), to);
}

/* A ghost that is asked for shifts p towards the queue that lost it. */
static void ask(Policy *policy, uint32_t key) {
    Arc *p = (Arc *)policy;
    int ghosts = p->was[key] = p->in[key];
    if (ghosts == NO_QUEUE) return;
    double own = (double)p->queues[ghosts].bytes, other = (double)p->queues[B1 + B2 - ghosts].bytes;
    double shift = (double)size_of(policy, key) * (other > own ? other / own : 1);
    double capacity = (double)p->base.view.capacity;
    p->p += ghosts == B1 ? shift : -shift;
    p->p = p->p < 0 ? 0 : p->p > capacity ? capacity : p->p;
    move(p, key, NO_QUEUE);
}

static void enter(Policy *policy, uint32_t key) {
    Arc *p = (Arc *)policy;
    if (p->in[key] != NO_QUEUE) ask(policy, key);
    move(p, key, p->was[key] == NO_QUEUE ? T1 : T2);
    p->was[key] = NO_QUEUE;
}

static void touch(Policy *policy, uint32_t key) {
    move((Arc *)policy, key, T2);
}

/* The paper's REPLACE. */
static uint32_t replace(const Arc *p, bool was_in_b2) {
    const Queue *t1 = &p->queues[T1], *t2 = &p->queues[T2];
    double bytes = (double)t1->bytes;
    bool from_t1 = t1->oldest != NO_KEY && (bytes > p->p || (bytes == p->p && was_in_b2));
    return from_t1 || t2->oldest == NO_KEY ? t1->oldest : t2->oldest;
}

/* The paper's case IV, unless `incoming` was a ghost. */
static uint32_t victim(Policy *policy, uint32_t incoming) {
    Arc *p = (Arc *)policy;
    Queue *queues = p->queues;
    int was = incoming == NO_KEY ? NO_QUEUE : p->was[incoming];
    int64_t size = incoming == NO_KEY ? 0 : size_of(policy, incoming);
    int64_t capacity = p->base.view.capacity, first = queues[T1].bytes + queues[B1].bytes;
    p->forget = false;
    if (was == NO_QUEUE && first + size > capacity) {
        p->forget = queues[B1].oldest == NO_KEY && queues[T1].oldest != NO_KEY;
        if (p->forget) return queues[T1].oldest;
        if (queues[B1].oldest != NO_KEY) move(p, queues[B1].oldest, NO_QUEUE);
    } else if (was == NO_QUEUE && first + queues[T2].bytes + queues[B2].bytes >= 2 * capacity) {
        if (queues[B2].oldest != NO_KEY) move(p, queues[B2].oldest, NO_QUEUE);
    }
    return replace(p, was == B2);
}

static void leave(Policy *policy, uint32_t key, bool evicted) {
    Arc *p = (Arc *)policy;
    int ghosts = p->in[key] == T1 ? B1 : B2;
    move(p, key, evicted && !p->forget ? ghosts : NO_QUEUE);
}

const PolicyKind ARC = {.name = "arc", .make = make, .ask = ask,
                        .enter = enter, .touch = touch, .victim = victim, .leave = leave};
