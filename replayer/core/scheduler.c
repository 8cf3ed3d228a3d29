/* The scheduler: which moves may start now, and when ops are due (docs/ordering.md). It has no
 * clock, no threads and does no I/O.
 *
 * It is used in two ways. Executing a plan, ops come by scheduler_admit in the plan's order, with
 * their moves. Deciding placement during the run, the scheduler knows every request from the start
 * and decides an op when a worker could start it. Dependencies point backwards in plan order only,
 * so the lowest unfinished op can always proceed.
 *
 * Locks: there are none here. One thread at a time may call: the engine holds `Engine.lock`, which
 * therefore guards every field of a Scheduler; a planner has a scheduler of its own.
 */
#include "core.h"
#include "heap.h"
#include "memory.h"

#define QOS_SHIFT 60

typedef struct {
    int64_t start_ns, due_ns, end_ns, wait_ns;  /* due: of its current step */
    int32_t next;               /* index among the request's rows of the next op to release */
    int32_t step, running;
    uint32_t slots : 31, begun : 1;
    int32_t queue, queue_end;   /* ops admitted but not released; without a plan: to be decided */
    int32_t freed, freed_count; /* ring of the times at which slots became free */
} RequestState;  /* one cache line */

typedef struct { int32_t move, next; int8_t why; } Edge;
typedef struct { int64_t number; int32_t move, next; } Need;
typedef struct { int32_t left, waiter, next; } Group;  /* reads since the last barrier */
typedef struct { int64_t bytes; int32_t move; } LedgerEntry;
typedef struct { LedgerEntry *entries; int64_t head, tail, room; bool bounded; } Ledger;

/* What later moves of a key wait for: its barrier, which is the last move that did not only read,
 * and the group of reads since. If several tiers may hold an object, each has its own. Both are
 * indices plus one; 0: none. */
typedef struct { int32_t barrier, group; } KeyOrder;

struct Scheduler {
    const Workload *ops;
    Placement *decides;         /* NULL: a plan is executed */
    Load load;
    bool inclusive;             /* several tiers may hold an object */
    double prefill_ns, token_ns;
    RequestState *requests;
    int64_t *freed;             /* `depth` times per request */
    int64_t depth;
    Heap timed;                 /* (due, row << 32 | op): ops released before they are due */
    Heap waiting;               /* (class, request's start; request): one entry per op to decide */
    Heap ready, set_aside;      /* (class, number; move) */
    int64_t permits;
    int64_t entering;           /* first row whose request may not have begun; not if closed */
    int64_t in_progress;        /* requests begun and not ended */
    Op *op_pool;
    Move *move_pool;
    Edge *edge_pool;
    Group *group_pool;
    Need *need_pool;
    int32_t free_op, free_move, free_edge, free_group, free_need;
    int64_t op_room, move_room, edge_room, group_room, need_room;
    KeyOrder *keys;             /* per key; if inclusive, per key and tier */
    Ledger ledgers[TIERS];
    int32_t *order;             /* ring of ops by position */
    int64_t head, tail, order_room;
    int64_t decided, no_more, number, window_bytes;
};

static int64_t key_orders(const Scheduler *s) {
    return s->inclusive ? s->ops->keys * TIERS : s->ops->keys;
}

Scheduler *scheduler_new(const Workload *workload, const int64_t *capacity, const Load *load,
                         Placement *decides, bool inclusive) {
    Scheduler *s = checked(calloc(1, sizeof *s));
    s->ops = workload;
    s->decides = decides;
    s->inclusive = inclusive;
    s->load = *load;
    s->token_ns = load->token_ms * 1e6;
    s->prefill_ns = load->prefill_tok_s > 0 ? 1e9 / load->prefill_tok_s : 0;
    s->requests = array((size_t)workload->requests + 1, sizeof *s->requests);
    for (int64_t r = 0; r < workload->requests; r++) s->requests[r].start_ns = NEVER;
    s->depth = load->depth;
    if (s->depth) {  /* no step needs more slots than the longest request has ops */
        int64_t longest = 1;
        for (int64_t r = 0; r < workload->requests; r++) {
            if (workload->request[r].count > longest) longest = workload->request[r].count;
        }
        if (s->depth > longest) s->depth = longest;
        s->freed = checked(calloc((size_t)(workload->requests * s->depth) + 1, sizeof *s->freed));
    }
    s->permits = load->allocs ? load->allocs : INT64_MAX;
    s->free_op = s->free_move = s->free_edge = s->free_group = s->free_need = NONE;
    s->keys = array((size_t)key_orders(s) + 1, sizeof *s->keys);
    for (int tier = 0; tier < TIERS; tier++) {
        Ledger *l = &s->ledgers[tier];
        l->bounded = capacity[tier] != UNLIMITED;
        l->room = 64;
        l->entries = checked(malloc((size_t)l->room * sizeof *l->entries));
        if (l->bounded && capacity[tier])
            l->entries[l->tail++] = (LedgerEntry){capacity[tier], NONE};
    }
    s->order_room = 1024;
    s->order = checked(malloc((size_t)s->order_room * sizeof *s->order));
    s->no_more = INT64_MAX;
    return s;
}

void scheduler_free(Scheduler *s) {
    if (!s) return;
    free(s->requests);
    free(s->freed);
    free(s->timed.entries);
    free(s->waiting.entries);
    free(s->ready.entries);
    free(s->set_aside.entries);
    free(s->op_pool);
    free(s->move_pool);
    free(s->edge_pool);
    free(s->group_pool);
    free(s->need_pool);
    free(s->keys);
    for (int tier = 0; tier < TIERS; tier++) free(s->ledgers[tier].entries);
    free(s->order);
    free(s);
}

/* ---- Pools: free slots are linked through `next`. ---- */
#define POOL(Type, name, pool, free_one, room)                                              \
    static int32_t new_##name(Scheduler *s) {                                               \
        if (s->free_one == NONE) {                                                          \
            int64_t old = s->room, more = old ? 2 * old : 256;                              \
            s->pool = checked(realloc(s->pool, (size_t)more * sizeof(Type)));               \
            s->room = more;                                                                 \
            for (int64_t i = more - 1; i >= old; i--) {                                     \
                s->pool[i].next = s->free_one;                                              \
                s->free_one = (int32_t)i;                                                   \
            }                                                                               \
        }                                                                                   \
        int32_t slot = s->free_one;                                                         \
        s->free_one = s->pool[slot].next;                                                   \
        s->pool[slot].next = NONE;                                                          \
        return slot;                                                                        \
    }                                                                                       \
    static void free_##name(Scheduler *s, int32_t at) {                                     \
        s->pool[at].next = s->free_one;                                                     \
        s->free_one = at;                                                                   \
    }                                                                                       \
    static int64_t used_##name(const Scheduler *s) {                                        \
        int64_t used = s->room;                                                             \
        for (int32_t at = s->free_one; at != NONE; at = s->pool[at].next) used--;           \
        return used;                                                                        \
    }
POOL(Op, op, op_pool, free_op, op_room)
POOL(Move, move, move_pool, free_move, move_room)
POOL(Edge, edge, edge_pool, free_edge, edge_room)
POOL(Group, group, group_pool, free_group, group_room)
POOL(Need, need, need_pool, free_need, need_room)

Op *scheduler_op(Scheduler *s, int32_t op) { return &s->op_pool[op]; }
Move *scheduler_move(Scheduler *s, int32_t move) { return &s->move_pool[move]; }
int64_t scheduler_ready(const Scheduler *s) {
    return s->ready.count + (s->decided < s->no_more ? s->waiting.count : 0);
}
int64_t scheduler_decided(const Scheduler *s) { return s->decided; }
void scheduler_decide_no_more(Scheduler *s, int64_t positions) { s->no_more = positions; }
int64_t scheduler_window_bytes(const Scheduler *s) { return s->window_bytes; }
int64_t scheduler_in_window(const Scheduler *s) { return s->tail - s->head; }

void scheduler_account(const Scheduler *s, int64_t *out) {
    for (int tier = 0; tier < TIERS; tier++)
        out[tier] = s->ledgers[tier].tail - s->ledgers[tier].head;
    out[TIERS] = used_op(s);
    out[TIERS + 1] = used_move(s);
    out[TIERS + 2] = used_edge(s);
    out[TIERS + 3] = used_group(s);
    out[TIERS + 4] = used_need(s);
    out[TIERS + 5] = 0;
    for (int64_t key = 0; key < key_orders(s); key++)
        out[TIERS + 5] += s->keys[key].barrier || s->keys[key].group;
}

/* ---- Dependencies. ---- */
static void wait_for(Scheduler *s, int32_t move, int32_t blocker, int why) {
    int32_t edge = new_edge(s);
    s->edge_pool[edge] = (Edge){move, s->move_pool[blocker].dependents, (int8_t)why};
    s->move_pool[blocker].dependents = edge;
    s->move_pool[move].blockers++;
    if (s->decides) return;
    int32_t need = new_need(s);
    s->need_pool[need] = (Need){s->move_pool[blocker].number, blocker, s->move_pool[move].needs};
    s->move_pool[move].needs = need;
}

static int64_t due_time(const Scheduler *s, const Move *m) {
    return m->pulled_ns != NEVER ? m->pulled_ns : s->op_pool[m->op].due_ns;
}

/* How long a move has waited only because of the plan's order: until its blocker was due, and then
 * as long as the blocker itself waited for the order. The rest of the wait is work that a server
 * without a plan would wait for, too. */
static int64_t order_wait(const Scheduler *s, const Move *m, const Move *blocker) {
    int64_t due = due_time(s, m), blocker_due = due_time(s, blocker);
    if (due == NEVER) return 0;  /* not released yet: nothing waits */
    int64_t until_due = blocker_due > due ? blocker_due - due : 0,
            from = blocker_due > due ? blocker_due : due;
    int64_t own = blocker->ready_ns > from ? blocker->ready_ns - from : 0;
    return until_due + (blocker->order_ns < own ? blocker->order_ns : own);
}

static void unblock(Scheduler *s, int32_t move, int64_t when, int why, const Move *blocker) {
    Move *m = &s->move_pool[move];
    if (when > m->ready_ns) {
        m->ready_ns = when;
        m->waited_for = (int8_t)why;
        m->order_ns = blocker && !s->decides ? order_wait(s, m, blocker) : 0;
    }
    if (--m->blockers) return;
    for (int32_t need = m->needs; need != NONE;) {
        int32_t next = s->need_pool[need].next;
        free_need(s, need);
        need = next;
    }
    m->needs = NONE;
    heap_push(&s->ready, (uint64_t)s->op_pool[m->op].qos << QOS_SHIFT | (uint64_t)m->number, move);
}

/* Return the order of a key in a tier; NULL: there is none, because no tier is named. */
static KeyOrder *order_in(Scheduler *s, uint32_t key, int tier) {
    if (!s->inclusive) return &s->keys[key];
    return tier < 0 ? NULL : &s->keys[(int64_t)key * TIERS + tier];
}

/* Reads share an object; they wait for its barrier. */
static void read_in_order(Scheduler *s, int32_t move, KeyOrder *key) {
    int32_t barrier = key->barrier - 1, group = key->group - 1;
    if (group == NONE) {
        group = new_group(s);
        s->group_pool[group].left = 0;
        s->group_pool[group].waiter = NONE;
        key->group = group + 1;
    }
    s->group_pool[group].left++;
    s->move_pool[move].group = group;
    if (barrier != NONE) wait_for(s, move, barrier, WAIT_DATA);
}

/* A move that begins or ends a copy waits for the reads of it, and later moves wait for the move. */
static void change_in_order(Scheduler *s, int32_t move, KeyOrder *key) {
    int32_t barrier = key->barrier - 1, group = key->group - 1;
    if (group != NONE) {
        s->group_pool[group].waiter = move;
        s->move_pool[move].blockers++;
        key->group = 0;
    } else if (barrier != NONE) {
        wait_for(s, move, barrier, WAIT_DATA);
    }
    key->barrier = move + 1;
}

static void order_by_key(Scheduler *s, int32_t move) {
    const Move *m = &s->move_pool[move];
    if (m->kind == MISS || m->kind == BYPASS) return;
    bool reads = m->kind == HIT || m->kind == COPY;
    KeyOrder *from = order_in(s, m->key, m->from), *to = order_in(s, m->key, m->to);
    if (from && reads) read_in_order(s, move, from);
    else if (from) change_in_order(s, move, from);
    if (to && to != from) change_in_order(s, move, to);
}

static void finish_on_key(Scheduler *s, int32_t move, int64_t end_ns) {
    Move *m = &s->move_pool[move];
    KeyOrder *from = order_in(s, m->key, m->from), *to = order_in(s, m->key, m->to);
    if (from && from->barrier == move + 1) from->barrier = 0;
    if (to && to->barrier == move + 1) to->barrier = 0;
    if (m->group == NONE) return;
    Group *group = &s->group_pool[m->group];
    if (--group->left) return;
    if (group->waiter != NONE) unblock(s, group->waiter, end_ns, WAIT_DATA, m);
    if (from->group == m->group + 1) from->group = 0;
    free_group(s, m->group);
}

/* The free room of a bounded tier, first freed, first used: a move takes its bytes from the
 * front. */
static LedgerEntry *ledger_entry(Ledger *l, int64_t at) { return &l->entries[at & (l->room - 1)]; }

static void draw_room(Scheduler *s, int32_t move, Ledger *l) {
    int64_t size = s->move_pool[move].size;
    while (size) {
        LedgerEntry *front = ledger_entry(l, l->head);
        int64_t used = front->bytes < size ? front->bytes : size;
        if (front->move != NONE) {
            bool own = s->move_pool[front->move].op == s->move_pool[move].op;
            wait_for(s, move, front->move, own ? WAIT_EVICTION : WAIT_ROOM);
        }
        front->bytes -= used;
        size -= used;
        if (!front->bytes) l->head++;
    }
}

static void promise_room(Scheduler *s, int32_t move, Ledger *l) {
    int64_t folded = 0;  /* room that is already free becomes one entry, to keep the ledger short */
    while (l->tail > l->head && ledger_entry(l, l->tail - 1)->move == NONE)
        folded += ledger_entry(l, --l->tail)->bytes;
    if (l->tail - l->head + 2 > l->room) {
        LedgerEntry *more = checked(malloc(2 * (size_t)l->room * sizeof *more));
        for (int64_t at = l->head; at < l->tail; at++)
            more[at & (2 * l->room - 1)] = *ledger_entry(l, at);
        free(l->entries);
        l->entries = more;
        l->room *= 2;
    }
    if (folded) *ledger_entry(l, l->tail++) = (LedgerEntry){folded, NONE};
    s->move_pool[move].ledger = (int32_t)(l->tail & INT32_MAX);
    *ledger_entry(l, l->tail++) = (LedgerEntry){s->move_pool[move].size, move};
}

static void release_room(Scheduler *s, int32_t move, Ledger *l) {
    /* The entry may have been used up, and its slot reused by another move's entry. */
    int64_t low = l->tail & INT32_MAX,
            at = l->tail - ((low - s->move_pool[move].ledger) & INT32_MAX);
    if (at >= l->head && at < l->tail && ledger_entry(l, at)->move == move)
        ledger_entry(l, at)->move = NONE;
}

static bool frees(const Move *m) {
    return m->from >= 0 &&
           (m->kind == DEMOTE || m->kind == PROMOTE || m->kind == DROP || m->kind == DELETE);
}

/* ---- An op gets its position and its moves. ---- */
static bool has_miss(const PlannedMove *moves, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (moves[i].kind == MISS || moves[i].kind == BYPASS) return true;
    return false;
}

static int32_t count_foreground(const PlannedMove *moves, int64_t count) {
    int32_t foreground = 0;
    for (int64_t i = 0; i < count; i++) foreground += !moves[i].background;
    return foreground;
}

static void admit_op(Scheduler *s, int32_t at, int64_t position, int role, const PlannedMove *moves,
                     int64_t count, int64_t now) {
    Op *op = &s->op_pool[at];
    op->position = position;
    op->role = (int8_t)role;
    op->admitted_ns = now;
    op->left = op->moves = (int32_t)count;
    op->foreground = count_foreground(moves, count);
    op->first_move = op->last_move = NONE;
    const TraceOp *asked = &s->ops->op[op->row];
    bool computed =
        role == WRITE ? asked->phase != DECODE : role == READ && has_miss(moves, count);
    int32_t served = NONE;
    op->wait_ns = (int64_t)((double)asked->new_tokens * s->token_ns +
                            (computed ? (double)asked->tokens : 0) * s->prefill_ns);
    for (int64_t i = 0; i < count; i++) {
        int32_t move = new_move(s);
        Move *m = &s->move_pool[move];
        *m = (Move){
            .number = s->number++,
            .size = moves[i].size,
            .ready_ns = now,
            .key = moves[i].key,
            .op = at,
            .next = NONE,
            .dependents = NONE,
            .blockers = 1,
            .group = NONE,
            .ledger = NONE,
            .needs = NONE,
            .pulled_ns = NEVER,
            .seq = (int32_t)i,
            .kind = moves[i].kind,
            .from = moves[i].from,
            .to = moves[i].to,
            .waited_for = WAIT_NONE,
            .background = moves[i].background,
        };
        op = &s->op_pool[at];
        if (i) s->move_pool[op->last_move].next = move;
        else op->first_move = move;
        op->last_move = move;
        if (m->to >= 0) s->window_bytes += m->size;
        order_by_key(s, move);
        m = &s->move_pool[move];
        if (m->kind == HIT) served = move;
        /* It stores in another tier what the hit reads. */
        if (m->kind == STORE && served != NONE && s->inclusive)
            wait_for(s, move, served, WAIT_DATA);
        m = &s->move_pool[move];
        if (m->to >= 0 && s->ledgers[m->to].bounded) draw_room(s, move, &s->ledgers[m->to]);
        m = &s->move_pool[move];
        if (frees(m) && s->ledgers[m->from].bounded) promise_room(s, move, &s->ledgers[m->from]);
    }
    if (s->tail - s->head == s->order_room) {
        int32_t *more = checked(malloc(2 * (size_t)s->order_room * sizeof *more));
        for (int64_t i = s->head; i < s->tail; i++)
            more[i & (2 * s->order_room - 1)] = s->order[i & (s->order_room - 1)];
        free(s->order);
        s->order = more;
        s->order_room *= 2;
    }
    op->planned = op->row;
    op->place = (int32_t)(s->tail & INT32_MAX);
    s->order[s->tail++ & (s->order_room - 1)] = at;
    s->decided++;
}

/* An eviction is made for the op that needs the room. If this system is slower or faster than the
 * reference, an op that is due may need an eviction that the plan gave to an op which is not due.
 * Such an eviction is pulled: it starts without waiting for its own op. */
static void pull_evictions(Scheduler *s, int32_t move, int64_t now) {
    for (int32_t need = s->move_pool[move].needs; need != NONE; need = s->need_pool[need].next) {
        int32_t other = s->need_pool[need].move;
        Move *m = &s->move_pool[other];
        if (m->number != s->need_pool[need].number || m->pulled_ns != NEVER ||
            s->op_pool[m->op].is_due)
            continue;
        if (m->kind != DEMOTE && m->kind != DROP) continue;
        m->pulled_ns = now;
        pull_evictions(s, other, now);
        unblock(s, other, now, WAIT_NONE, NULL);
    }
}

/* Give the op of another slot what the plan has for this one. */
static void hand_over(Scheduler *s, int32_t to, const Op *plan) {
    Op *op = &s->op_pool[to];
    op->position = plan->position;
    op->planned = plan->planned;
    op->place = plan->place;
    op->role = plan->role;
    op->wait_ns = plan->wait_ns;
    op->moves = plan->moves;
    op->left = plan->left;
    op->foreground = plan->foreground;
    op->first_move = plan->first_move;
    op->last_move = plan->last_move;
    s->order[op->place & (s->order_room - 1)] = to;
    for (int32_t move = op->first_move; move != NONE; move = s->move_pool[move].next)
        s->move_pool[move].op = to;
}

static bool may_trade(const Scheduler *s, const Op *op) {
    const TraceOp *asked = &s->ops->op[op->row];
    return asked->phase == PREFILL && asked->op != REMOVE && !asked->new_tokens;
}

/* Who comes first to a prompt that users share depends on the system. An op that is due and would
 * only read what an op of another user has yet to store, which is not due, trades places with
 * it. */
static void trade_for_store(Scheduler *s, int32_t at) {
    const Op *reads = &s->op_pool[at];
    const Move *hit = &s->move_pool[reads->first_move];
    if (reads->foreground != 1 || hit->kind != HIT || hit->blockers != 2 || !may_trade(s, reads))
        return;
    const Move *store = &s->move_pool[s->need_pool[hit->needs].move];
    int32_t other = store->op;
    const Op *stores = &s->op_pool[other];
    const TraceRequest *request = s->ops->request;
    if (store->kind != STORE || stores->is_due || !may_trade(s, stores) ||
        request[stores->request].user == request[reads->request].user)
        return;
    Op read_plan = *reads, store_plan = *stores;
    hand_over(s, at, &store_plan);
    hand_over(s, other, &read_plan);
}

static void enqueue(Scheduler *s, RequestState *r, int32_t at) {
    if (r->queue == NONE) r->queue = at;
    else s->op_pool[r->queue_end].next = at;
    r->queue_end = at;
}

static int32_t dequeue(Scheduler *s, RequestState *r) {
    int32_t at = r->queue;
    r->queue = s->op_pool[at].next;
    s->op_pool[at].next = NONE;
    return at;
}

/* The op's due time has come: from now on only dependencies hold its moves back. */
static void become_due(Scheduler *s, int32_t at) {
    Op *op = &s->op_pool[at];
    if (s->decides) {
        RequestState *r = &s->requests[op->request];
        heap_push(&s->waiting, (uint64_t)op->qos << QOS_SHIFT | (uint64_t)r->start_ns, op->request);
        enqueue(s, r, at);
        return;
    }
    int64_t due = op->due_ns;
    op->is_due = 1;
    trade_for_store(s, at);
    for (int32_t move = op->first_move; move != NONE; move = s->move_pool[move].next) {
        pull_evictions(s, move, due);
        if (s->move_pool[move].pulled_ns == NEVER) unblock(s, move, due, WAIT_NONE, NULL);
    }
}

static void decide(Scheduler *s) {
    int32_t at = dequeue(s, &s->requests[heap_pop(&s->waiting).value]);
    const PlannedMove *moves;
    int64_t count, due = s->op_pool[at].due_ns;
    int role = placement_decide(s->decides, s->op_pool[at].row, &moves, &count);
    admit_op(s, at, s->decided, role, moves, count, due);
    for (int32_t move = s->op_pool[at].first_move; move != NONE; move = s->move_pool[move].next)
        unblock(s, move, due, WAIT_NONE, NULL);
}

/* ---- Pacing. ---- */
static void release_op(Scheduler *s, int32_t at, int64_t due, int64_t now) {
    s->op_pool[at].due_ns = due;
    if (due <= now) become_due(s, at);
    else heap_push(&s->timed, (uint64_t)due, (int64_t)s->op_pool[at].row << 32 | at);
}

static int32_t create_op(Scheduler *s, int64_t row) {
    int32_t at = new_op(s);
    const TraceOp *asked = &s->ops->op[row];
    s->op_pool[at] = (Op){.position = NONE,
                          .row = (int32_t)row,
                          .request = asked->request,
                          .next = NONE,
                          .first_move = NONE,
                          .last_move = NONE,
                          .due_ns = NEVER,
                          .qos = (int8_t)asked->qos};
    return at;
}

/* Release the ops that the order within their request allows. */
static void advance_request(Scheduler *s, int32_t request, int64_t now) {
    RequestState *r = &s->requests[request];
    const TraceRequest *asked = &s->ops->request[request];
    while (r->begun && r->start_ns != NEVER && r->next < asked->count) {
        if (!s->decides && r->queue == NONE) return;
        int64_t row = s->decides ? s->ops->rows[asked->begin + r->next] : s->op_pool[r->queue].row;
        if (s->ops->op[row].step != r->step) {
            if (r->running) return;
            r->step = s->ops->op[row].step;
            r->due_ns = r->end_ns + r->wait_ns;
            r->slots = 0;
            r->wait_ns = 0;
            r->freed = r->freed_count = 0;
        }
        if (s->depth && r->running >= s->depth) return;
        int32_t at;
        if (s->decides) {
            at = create_op(s, row);
        } else {
            at = dequeue(s, r);
        }
        r->next++;
        r->running++;
        int64_t due = r->due_ns;
        if (s->depth &&
            (int64_t)r->slots >= s->depth) { /* it takes the slot of the first op that ended */
            int64_t freed = s->freed[request * s->depth + r->freed];
            r->freed = (int32_t)((r->freed + 1) % s->depth);
            r->freed_count--;
            if (freed > due) due = freed;
        }
        r->slots++;
        release_op(s, at, due, now);
    }
}

static int64_t scale_time(int64_t ns, double speedup) { return (int64_t)((double)ns / speedup); }

static void begin_request(Scheduler *s, int32_t request, int64_t start) {
    RequestState *r = &s->requests[request];
    r->begun = 1;
    s->in_progress++;
    r->queue = r->queue_end = NONE;
    r->step = s->ops->op[s->ops->rows[s->ops->request[request].begin]].step;
    if (start != NEVER) r->start_ns = r->due_ns = start;
}

/* Begin requests whose start follows from the clock or from the number in progress, if no plan
 * brings them. */
static void enter_requests(Scheduler *s, int64_t now) {
    const Workload *w = s->ops;
    if (s->load.pace == CLOSED) return;
    for (; s->entering < w->ops; s->entering++) {
        int32_t request = w->op[s->entering].request;
        if (w->rows[w->request[request].begin] != s->entering) continue;
        int64_t start = now;
        if (s->load.pace == OPEN) {
            start = scale_time(w->request[request].time_ns, s->load.speedup);
            if (start > now) return;
        } else if (s->in_progress >= s->load.workers) {
            return;
        }
        begin_request(s, request, start);
        advance_request(s, request, now);
    }
}

void scheduler_begin(Scheduler *s, int64_t now) {
    if (!s->decides) return;
    if (s->load.pace == CLOSED) {
        for (int64_t user = 0; user < s->ops->users; user++) {
            int32_t request = s->ops->first[user];
            if (request == NONE) continue;
            begin_request(s, request,
                          scale_time(s->ops->request[request].time_ns, s->load.speedup));
            advance_request(s, request, now);
        }
    }
    enter_requests(s, now);
}

void scheduler_admit(Scheduler *s, int64_t position, int64_t row, int role,
                     const PlannedMove *moves, int64_t count, int64_t now) {
    int32_t at = create_op(s, row), request = s->ops->op[row].request;
    admit_op(s, at, position, role, moves, count, now);
    RequestState *r = &s->requests[request];
    if (!r->begun) {
        int64_t start = now;
        if (s->load.pace == OPEN)
            start = scale_time(s->ops->request[request].time_ns, s->load.speedup);
        if (s->load.pace == CLOSED) {
            bool first = s->ops->first[s->ops->request[request].user] == request;
            start = first ? scale_time(s->ops->request[request].time_ns, s->load.speedup) : NEVER;
        }
        begin_request(s, request, start);
    }
    enqueue(s, r, at);
    advance_request(s, request, now);
}

static void end_request(Scheduler *s, int32_t request, int64_t now) {
    int32_t next = s->ops->request[request].next;
    s->in_progress--;
    if (s->decides && s->load.pace == ASAP) enter_requests(s, now);
    if (s->load.pace != CLOSED || next == NONE) return;
    RequestState *r = &s->requests[request], *after = &s->requests[next];
    int64_t start =
        r->end_ns + r->wait_ns + scale_time(s->ops->request[next].think_ns, s->load.speedup);
    if (s->decides) begin_request(s, next, start);
    after->start_ns = after->due_ns = start;
    advance_request(s, next, now);
}

/* ---- Requests that are not done. ---- */
static bool is_in_prefill(const Scheduler *s, int64_t request) {
    const RequestState *r = &s->requests[request];
    const TraceRequest *asked = &s->ops->request[request];
    for (int32_t i = 0; i < asked->count; i++) {
        const TraceOp *op = &s->ops->op[s->ops->rows[asked->begin + i]];
        bool is_open = i >= r->next || (r->running && op->step == r->step);
        if (is_open && op->phase == PREFILL) return true;
    }
    return false;
}

/* When a request was due; NEVER: it is not known, because its user's last one is not done. */
static int64_t request_due(const Scheduler *s, int64_t request) {
    const TraceRequest *asked = &s->ops->request[request];
    int64_t start = s->requests[request].start_ns;
    bool is_timed = s->load.pace == OPEN ||
                    (s->load.pace == CLOSED && s->ops->first[asked->user] == request);
    return start == NEVER && is_timed ? scale_time(asked->time_ns, s->load.speedup) : start;
}

int64_t scheduler_unfinished(const Scheduler *s, int64_t until, Unfinished *out, int64_t room) {
    int64_t count = 0;
    for (int64_t request = 0; request < s->ops->requests; request++) {
        const RequestState *r = &s->requests[request];
        const TraceRequest *asked = &s->ops->request[request];
        int64_t due = request_due(s, request);
        if (!asked->count || (r->next == asked->count && !r->running)) continue;
        if (due == NEVER || (until == NEVER ? !r->next : due >= until)) continue;
        int32_t qos = s->ops->op[s->ops->rows[asked->begin]].qos;
        if (count < room)
            out[count] = (Unfinished){request, due, qos, is_in_prefill(s, request)};
        count++;
    }
    return count;
}

static void free_op_and_moves(Scheduler *s, int32_t at) {
    for (int32_t move = s->op_pool[at].first_move; move != NONE;) {
        int32_t next = s->move_pool[move].next;
        if (s->move_pool[move].to >= 0) s->window_bytes -= s->move_pool[move].size;
        free_move(s, move);
        move = next;
    }
    free_op(s, at);
}

/* The moves that its request waits for are done. */
static void finish_op(Scheduler *s, int32_t at, int64_t now) {
    Op *op = &s->op_pool[at];
    int32_t request = op->request;
    RequestState *r = &s->requests[request];
    r->running--;
    if (op->end_ns > r->end_ns) r->end_ns = op->end_ns;
    r->wait_ns += op->wait_ns;
    if (s->depth) {
        s->freed[request * s->depth + (r->freed + r->freed_count) % s->depth] = op->end_ns;
        r->freed_count++;
    }
    if (r->next < s->ops->request[request].count) advance_request(s, request, now);
    else if (!r->running) end_request(s, request, now);
}

void scheduler_release(Scheduler *s, int64_t now) {
    while (s->timed.count && s->timed.entries[0].key <= (uint64_t)now)
        become_due(s, (int32_t)(heap_pop(&s->timed).value & INT32_MAX));
    if (s->decides && s->load.pace == OPEN) enter_requests(s, now);
}

int64_t scheduler_next_due(const Scheduler *s) {
    int64_t due = s->timed.count ? (int64_t)s->timed.entries[0].key : FAR;
    if (s->decides && s->load.pace == OPEN && s->entering < s->ops->ops) {
        int64_t start =
            scale_time(s->ops->request[s->ops->op[s->entering].request].time_ns, s->load.speedup);
        if (start < due) due = start;
    }
    return due;
}

/* ---- Moves start and end. ---- */
int32_t scheduler_take(Scheduler *s) {
    for (;;) {
        if (s->waiting.count && s->decided < s->no_more) {
            uint64_t class = s->waiting.entries[0].key >> QOS_SHIFT;
            if (!s->ready.count || class < s->ready.entries[0].key >> QOS_SHIFT) {
                decide(s);
                continue;
            }
        }
        if (!s->ready.count) return NONE;
        Entry top = heap_pop(&s->ready);
        if (s->move_pool[top.value].kind != STORE) return (int32_t)top.value;
        if (s->permits) {
            s->permits--;
            return (int32_t)top.value;
        }
        heap_push(&s->set_aside, top.key, top.value);
    }
}

static void free_permit(Scheduler *s) {
    s->permits++;
    if (!s->set_aside.count) return;
    Entry top = heap_pop(&s->set_aside);
    heap_push(&s->ready, top.key, top.value);
}

void scheduler_give_back(Scheduler *s, int32_t move) {
    if (s->move_pool[move].kind == STORE) free_permit(s);
}

void scheduler_complete(Scheduler *s, int32_t move, int64_t end_ns, int64_t now) {
    Move *m = &s->move_pool[move];
    int32_t at = m->op;
    for (int32_t edge = m->dependents; edge != NONE;) {
        Edge e = s->edge_pool[edge];
        unblock(s, e.move, end_ns, e.why, m);
        free_edge(s, edge);
        edge = e.next;
    }
    m->dependents = NONE;
    if (m->kind == STORE) free_permit(s);
    if (m->kind != MISS && m->kind != BYPASS) finish_on_key(s, move, end_ns);
    if (frees(m) && s->ledgers[m->from].bounded) release_room(s, move, &s->ledgers[m->from]);
    Op *op = &s->op_pool[at];
    bool background = m->background;
    op->left--;
    if (!background && end_ns > op->end_ns) op->end_ns = end_ns;
    if (!background && --op->foreground == 0) finish_op(s, at, now);
    op = &s->op_pool[at];
    if (!op->left && op->retired) free_op_and_moves(s, at);
}

int32_t scheduler_lowest(const Scheduler *s) {
    return s->head == s->tail ? NONE : s->order[s->head & (s->order_room - 1)];
}

void scheduler_retire(Scheduler *s) {
    int32_t at = s->order[s->head++ & (s->order_room - 1)];
    s->op_pool[at].retired = 1;
    if (!s->op_pool[at].left) free_op_and_moves(s, at);
}
