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

/* Slots in chunks, which stay where they are: a pointer to a slot holds until the slot is freed. Nearly
 * all slots in use are in the first chunk, which is found without a look at the table. The kernel backs
 * what is used of a chunk. */
enum { CHUNK_BITS = 16, CHUNK = 1 << CHUNK_BITS };
#define POOL(Type) \
    struct { Type *first, **chunks; int64_t count, room; int32_t unused, fresh; }

struct Scheduler {
    Memory memory;              /* of all that does not grow */
    const Workload *ops;
    Placement *decides;         /* NULL: a plan is executed */
    Load load;
    bool inclusive;             /* several tiers may hold an object */
    double prefill_ns, token_ns;
    RequestState *requests;
    int64_t *freed;             /* as many times per request as it has ops */
    int64_t depth;
    Heap timed;                 /* (due, row << 32 | op): ops released before they are due */
    Heap waiting;               /* (class, request's start; request): one entry per op to decide */
    Heap ready, set_aside;      /* (class, number; move) */
    int64_t permits;
    int64_t entering;           /* first row whose request may not have begun; not if closed */
    int64_t in_progress;        /* requests begun and not ended */
    POOL(Op) op;
    POOL(Move) move;
    POOL(Edge) edge;
    POOL(Group) group;
    POOL(Need) need;
    KeyOrder *keys;             /* per key; if inclusive, per key and tier */
    Ledger ledgers[TIERS];
    int32_t *order;             /* ring of ops by position */
    int64_t head, tail, order_room;
    int64_t decided, no_more, number, window_bytes;
};

/* ---- Pools: free slots are linked through `next`. ---- */
#define POOL_FUNCTIONS(Type, name)                                                          \
    static inline Type *name##_at(const Scheduler *s, int32_t at) {                         \
        if (__builtin_expect(at < CHUNK, 1)) return &s->name.first[at];                    \
        return &s->name.chunks[at >> CHUNK_BITS][at & (CHUNK - 1)];                         \
    }                                                                                       \
    static void free_##name(Scheduler *s, int32_t at) {                                     \
        name##_at(s, at)->next = s->name.unused;                                            \
        s->name.unused = at;                                                                \
    }                                                                                       \
    static __attribute__((noinline)) void add_chunk_of_##name(Scheduler *s) {               \
        assert(s->name.fresh <= INT32_MAX - CHUNK);                                         \
        if (s->name.count == s->name.room)                                                  \
            s->name.chunks = grown(s->name.chunks, &s->name.room, 16, sizeof(Type *));      \
        s->name.chunks[s->name.count] = zeros(CHUNK, sizeof(Type));                         \
        s->name.count++;                                                                    \
        s->name.first = s->name.chunks[0];                                                  \
    }                                                                                       \
    static inline int32_t new_##name(Scheduler *s) {                                        \
        int32_t slot = s->name.unused;                                                      \
        if (slot == NONE) {                                                                 \
            if (s->name.fresh == s->name.count << CHUNK_BITS) add_chunk_of_##name(s);       \
            return s->name.fresh++;                                                         \
        }                                                                                   \
        s->name.unused = name##_at(s, slot)->next;                                          \
        return slot;                                                                        \
    }                                                                                       \
    static int64_t used_##name(const Scheduler *s) {                                        \
        int64_t used = s->name.fresh;                                                       \
        for (int32_t at = s->name.unused; at != NONE; at = name##_at(s, at)->next) used--;  \
        return used;                                                                        \
    }                                                                                       \
    static void free_all_##name(Scheduler *s) {                                             \
        for (int64_t chunk = 0; chunk < s->name.count; chunk++) free(s->name.chunks[chunk]); \
        free(s->name.chunks);                                                               \
    }
POOL_FUNCTIONS(Op, op)
POOL_FUNCTIONS(Move, move)
POOL_FUNCTIONS(Edge, edge)
POOL_FUNCTIONS(Group, group)
POOL_FUNCTIONS(Need, need)

static int64_t key_orders(const Scheduler *s) {
    return s->inclusive ? s->ops->keys * TIERS : s->ops->keys;
}

Scheduler *scheduler_new(const Workload *workload, const int64_t *capacity, const Load *load,
                         Placement *decides, bool inclusive) {
    Scheduler *volatile made = NULL;
    Attempt attempt;
    attempt_begin(&attempt);
    if (setjmp(attempt.back)) {
        scheduler_free(made);
        return NULL;
    }
    Scheduler *s = made = zeros(1, sizeof *s);
    s->op.unused = s->move.unused = s->edge.unused = s->group.unused = s->need.unused = NONE;
    s->ops = workload;
    s->decides = decides;
    s->inclusive = inclusive;
    s->load = *load;
    s->token_ns = load->token_ms * 1e6;
    s->prefill_ns = load->prefill_tok_s > 0 ? 1e9 / load->prefill_tok_s : 0;
    s->requests = array(&s->memory, (size_t)workload->requests + 1, sizeof *s->requests);
    for (int64_t r = 0; r < workload->requests; r++) s->requests[r].start_ns = NEVER;
    s->depth = load->depth;
    if (s->depth) s->freed = array(&s->memory, (size_t)workload->ops + 1, sizeof *s->freed);
    s->permits = load->allocs ? load->allocs : INT64_MAX;
    s->keys = array(&s->memory, (size_t)key_orders(s) + 1, sizeof *s->keys);
    for (int tier = 0; tier < TIERS; tier++) {
        Ledger *l = &s->ledgers[tier];
        l->bounded = capacity[tier] != UNLIMITED;
        l->entries = grown(NULL, &l->room, 64, sizeof *l->entries);
        if (l->bounded && capacity[tier])
            l->entries[l->tail++] = (LedgerEntry){capacity[tier], NONE};
    }
    s->order = grown(NULL, &s->order_room, 1024, sizeof *s->order);
    s->no_more = INT64_MAX;
    attempt_end(&attempt);
    return s;
}

void scheduler_free(Scheduler *s) {
    if (!s) return;
    memory_free(&s->memory);
    free(s->timed.entries);
    free(s->waiting.entries);
    free(s->ready.entries);
    free(s->set_aside.entries);
    free_all_op(s);
    free_all_move(s);
    free_all_edge(s);
    free_all_group(s);
    free_all_need(s);
    for (int tier = 0; tier < TIERS; tier++) free(s->ledgers[tier].entries);
    free(s->order);
    free(s);
}

Op *scheduler_op(Scheduler *s, int32_t op) { return op_at(s, op); }
Move *scheduler_move(Scheduler *s, int32_t move) { return move_at(s, move); }
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
static void wait_for(Scheduler *s, Move *m, int32_t move, int32_t blocker, int why) {
    Move *b = move_at(s, blocker);
    assert(b->number < m->number);  /* so the lowest move that is not done waits for nothing */
    int32_t edge = new_edge(s);
    *edge_at(s, edge) = (Edge){move, b->dependents, (int8_t)why};
    b->dependents = edge;
    m->blockers++;
    if (s->decides) return;
    int32_t need = new_need(s);
    *need_at(s, need) = (Need){b->number, blocker, m->needs};
    m->needs = need;
}

static int64_t due_time(const Scheduler *s, const Move *m) {
    return m->pulled_ns != NEVER ? m->pulled_ns : op_at(s, m->op)->due_ns;
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
    Move *m = move_at(s, move);
    if (when > m->ready_ns) {
        m->ready_ns = when;
        m->waited_for = (int8_t)why;
        m->order_ns = blocker && !s->decides ? order_wait(s, m, blocker) : 0;
    }
    assert(m->blockers > 0);
    if (--m->blockers) return;
    for (int32_t need = m->needs; need != NONE;) {
        int32_t next = need_at(s, need)->next;
        free_need(s, need);
        need = next;
    }
    m->needs = NONE;
    heap_push(&s->ready, (uint64_t)op_at(s, m->op)->qos << QOS_SHIFT | (uint64_t)m->number, move);
}

/* Return the order of a key in a tier; NULL: there is none, because no tier is named. */
static KeyOrder *order_in(Scheduler *s, uint32_t key, int tier) {
    if (!s->inclusive) return &s->keys[key];
    return tier < 0 ? NULL : &s->keys[(int64_t)key * TIERS + tier];
}

/* Reads share an object; they wait for its barrier. */
static void read_in_order(Scheduler *s, Move *m, int32_t move, KeyOrder *key) {
    int32_t barrier = key->barrier - 1;
    if (!key->group) {
        int32_t group = new_group(s);
        *group_at(s, group) = (Group){0, NONE, NONE};
        key->group = group + 1;
    }
    m->group = key->group - 1;
    group_at(s, m->group)->left++;
    if (barrier != NONE) wait_for(s, m, move, barrier, WAIT_DATA);
}

/* A move that begins or ends a copy waits for the reads of it, and later moves wait for the move. */
static void change_in_order(Scheduler *s, Move *m, int32_t move, KeyOrder *key) {
    if (key->group) {
        Group *group = group_at(s, key->group - 1);
        assert(group->left > 0 && group->waiter == NONE);
        group->waiter = move;
        m->blockers++;
        key->group = 0;
    } else if (key->barrier) {
        wait_for(s, m, move, key->barrier - 1, WAIT_DATA);
    }
    key->barrier = move + 1;
}

static void order_by_key(Scheduler *s, Move *m, int32_t move) {
    if (m->kind == MISS || m->kind == BYPASS) return;
    bool reads = m->kind == HIT || m->kind == COPY;
    KeyOrder *from = order_in(s, m->key, m->from), *to = order_in(s, m->key, m->to);
    if (from && reads) read_in_order(s, m, move, from);
    else if (from) change_in_order(s, m, move, from);
    if (to && to != from) change_in_order(s, m, move, to);
}

static void finish_on_key(Scheduler *s, const Move *m, int32_t move, int64_t end_ns) {
    KeyOrder *from = order_in(s, m->key, m->from), *to = order_in(s, m->key, m->to);
    if (from && from->barrier == move + 1) from->barrier = 0;
    if (to && to->barrier == move + 1) to->barrier = 0;
    if (m->group == NONE) return;
    Group *group = group_at(s, m->group);
    assert(from && group->left > 0);
    if (--group->left) return;
    if (group->waiter != NONE) unblock(s, group->waiter, end_ns, WAIT_DATA, m);
    if (from->group == m->group + 1) from->group = 0;
    free_group(s, m->group);
}

/* Double a ring of 2^n entries, which keep their positions: each is in both halves now. */
static void *grown_ring(void *ring, int64_t *room, size_t size) {
    size_t half = (size_t)*room * size;
    char *longer = grown(ring, room, 2 * *room, size);
    memcpy(longer + half, longer, half);
    return longer;
}

/* The free room of a bounded tier, first freed, first used: a move takes its bytes from the
 * front. */
static LedgerEntry *ledger_entry(Ledger *l, int64_t at) { return &l->entries[at & (l->room - 1)]; }

static void draw_room(Scheduler *s, Move *m, int32_t move, Ledger *l) {
    int64_t size = m->size;
    while (size) {
        assert(l->head < l->tail);  /* a plan never puts more into a tier than it holds */
        LedgerEntry *front = ledger_entry(l, l->head);
        int64_t used = front->bytes < size ? front->bytes : size;
        assert(used > 0);
        if (front->move != NONE) {
            bool own = move_at(s, front->move)->op == m->op;
            wait_for(s, m, move, front->move, own ? WAIT_EVICTION : WAIT_ROOM);
        }
        front->bytes -= used;
        size -= used;
        if (!front->bytes) l->head++;
    }
}

static void promise_room(Move *m, int32_t move, Ledger *l) {
    int64_t folded = 0;  /* room that is already free becomes one entry, to keep the ledger short */
    if (l->tail - l->head + 2 > l->room)
        l->entries = grown_ring(l->entries, &l->room, sizeof *l->entries);
    while (l->tail > l->head && ledger_entry(l, l->tail - 1)->move == NONE)
        folded += ledger_entry(l, --l->tail)->bytes;
    if (folded) *ledger_entry(l, l->tail++) = (LedgerEntry){folded, NONE};
    m->ledger = (int32_t)(l->tail & INT32_MAX);
    *ledger_entry(l, l->tail++) = (LedgerEntry){m->size, move};
}

static void release_room(const Move *m, int32_t move, Ledger *l) {
    /* The entry may have been used up, and its slot reused by another move's entry. */
    int64_t low = l->tail & INT32_MAX, at = l->tail - ((low - m->ledger) & INT32_MAX);
    if (at >= l->head && at < l->tail && ledger_entry(l, at)->move == move)
        ledger_entry(l, at)->move = NONE;
}

static bool frees(const Move *m) { return m->from >= 0 && leaves_source(m->kind); }

/* ---- An op gets its position and its moves. ---- */
static bool has_miss(const PlannedMove *moves, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (moves[i].kind == MISS || moves[i].kind == BYPASS) return true;
    return false;
}

static void admit_op(Scheduler *s, int32_t at, int64_t position, int role, const PlannedMove *moves,
                     int64_t count, int64_t now) {
    Op *op = op_at(s, at);
    op->position = position;
    op->role = (int8_t)role;
    op->admitted_ns = now;
    op->left = op->moves = (int32_t)count;
    op->foreground = 0;
    op->first_move = op->last_move = NONE;
    const TraceOp *asked = &s->ops->op[op->row];
    bool computed =
        role == WRITE ? asked->phase != DECODE : role == READ && has_miss(moves, count);
    int32_t served = NONE;
    op->wait_ns = (int64_t)((double)asked->new_tokens * s->token_ns +
                            (computed ? (double)asked->tokens : 0) * s->prefill_ns);
    for (int64_t i = 0; i < count; i++) {
        int32_t move = new_move(s);
        Move *m = move_at(s, move);
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
        if (i) move_at(s, op->last_move)->next = move;
        else op->first_move = move;
        op->last_move = move;
        op->foreground += !m->background;
        if (m->to >= 0) s->window_bytes += m->size;
        order_by_key(s, m, move);
        if (m->kind == HIT) served = move;
        /* It stores in another tier what the hit reads. */
        if (m->kind == STORE && served != NONE && s->inclusive)
            wait_for(s, m, move, served, WAIT_DATA);
        if (m->to >= 0 && s->ledgers[m->to].bounded) draw_room(s, m, move, &s->ledgers[m->to]);
        if (frees(m) && s->ledgers[m->from].bounded) promise_room(m, move, &s->ledgers[m->from]);
    }
    if (s->tail - s->head == s->order_room)
        s->order = grown_ring(s->order, &s->order_room, sizeof *s->order);
    op->planned = op->row;
    op->place = (int32_t)(s->tail & INT32_MAX);
    s->order[s->tail++ & (s->order_room - 1)] = at;
    s->decided++;
}

/* An eviction is made for the op that needs the room. If this system is slower or faster than the
 * reference, an op that is due may need an eviction that the plan gave to an op which is not due.
 * Such an eviction is pulled: it starts without waiting for its own op. */
static void pull_evictions(Scheduler *s, const Move *needing, int64_t now) {
    for (int32_t at = needing->needs; at != NONE;) {
        const Need *need = need_at(s, at);
        int32_t other = need->move;
        Move *m = move_at(s, other);
        at = need->next;
        /* The move may be done, and its slot may hold another one. */
        if (m->number != need->number || m->pulled_ns != NEVER || op_at(s, m->op)->is_due) continue;
        if (m->kind != DEMOTE && m->kind != DROP) continue;
        assert(m->number < needing->number);  /* so this ends */
        m->pulled_ns = now;
        pull_evictions(s, m, now);
        unblock(s, other, now, WAIT_NONE, NULL);
    }
}

/* Give the op of another slot what the plan has for this one. */
static void hand_over(Scheduler *s, int32_t to, const Op *plan) {
    Op *op = op_at(s, to);
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
    for (int32_t move = op->first_move; move != NONE; move = move_at(s, move)->next)
        move_at(s, move)->op = to;
}

static bool may_trade(const Scheduler *s, const Op *op) {
    const TraceOp *asked = &s->ops->op[op->row];
    return asked->phase == PREFILL && asked->op != REMOVE && !asked->new_tokens;
}

/* Who comes first to a prompt that sessions share depends on the system. An op that is due and would
 * only read what an op of another session has yet to store, which is not due, trades places with
 * it. */
static void trade_for_store(Scheduler *s, int32_t at) {
    const Op *reads = op_at(s, at);
    const Move *hit = move_at(s, reads->first_move);
    if (reads->foreground != 1 || hit->kind != HIT || hit->blockers != 2 || !may_trade(s, reads))
        return;
    assert(hit->needs != NONE);
    const Move *store = move_at(s, need_at(s, hit->needs)->move);
    int32_t other = store->op;
    const Op *stores = op_at(s, other);
    const TraceRequest *request = s->ops->request;
    if (store->kind != STORE || stores->is_due || !may_trade(s, stores) ||
        request[stores->request].session == request[reads->request].session)
        return;
    Op read_plan = *reads, store_plan = *stores;
    hand_over(s, at, &store_plan);
    hand_over(s, other, &read_plan);
}

static void enqueue(Scheduler *s, RequestState *r, int32_t at) {
    if (r->queue == NONE) r->queue = at;
    else op_at(s, r->queue_end)->next = at;
    r->queue_end = at;
}

static int32_t dequeue(Scheduler *s, RequestState *r) {
    int32_t at = r->queue;
    assert(at != NONE);
    r->queue = op_at(s, at)->next;
    op_at(s, at)->next = NONE;
    return at;
}

/* The op's due time has come: from now on only dependencies hold its moves back. */
static void become_due(Scheduler *s, int32_t at) {
    Op *op = op_at(s, at);
    if (s->decides) {
        RequestState *r = &s->requests[op->request];
        heap_push(&s->waiting, (uint64_t)op->qos << QOS_SHIFT | (uint64_t)r->start_ns, op->request);
        enqueue(s, r, at);
        return;
    }
    int64_t due = op->due_ns;
    op->is_due = 1;
    trade_for_store(s, at);
    for (int32_t move = op->first_move; move != NONE;) {
        const Move *m = move_at(s, move);
        pull_evictions(s, m, due);
        if (m->pulled_ns == NEVER) unblock(s, move, due, WAIT_NONE, NULL);
        move = m->next;
    }
}

static void decide(Scheduler *s) {
    int32_t at = dequeue(s, &s->requests[heap_pop(&s->waiting).value]);
    const Op *op = op_at(s, at);
    const PlannedMove *moves;
    int64_t count, due = op->due_ns;
    int role = placement_decide(s->decides, op->row, &moves, &count);
    admit_op(s, at, s->decided, role, moves, count, due);
    for (int32_t move = op->first_move; move != NONE; move = move_at(s, move)->next)
        unblock(s, move, due, WAIT_NONE, NULL);
}

/* ---- Pacing. ---- */
static void release_op(Scheduler *s, int32_t at, int64_t due, int64_t now) {
    Op *op = op_at(s, at);
    op->due_ns = due;
    if (due <= now) become_due(s, at);
    else heap_push(&s->timed, (uint64_t)due, (int64_t)op->row << 32 | at);
}

static int32_t create_op(Scheduler *s, int64_t row) {
    int32_t at = new_op(s);
    const TraceOp *asked = &s->ops->op[row];
    *op_at(s, at) = (Op){.position = NONE,
                          .row = (int32_t)row,
                          .request = asked->request,
                          .next = NONE,
                          .first_move = NONE,
                          .last_move = NONE,
                          .due_ns = NEVER,
                          .qos = (int8_t)asked->qos};
    return at;
}

/* The times at which slots of a request became free, as a ring. No step needs more slots than the
 * request has ops, so it has as many entries, from the request's first row on. */
static int64_t *freed_slot(const Scheduler *s, int32_t request, int64_t number) {
    const TraceRequest *asked = &s->ops->request[request];
    assert(number < 2 * (int64_t)asked->count);
    return &s->freed[asked->begin + (number < asked->count ? number : number - asked->count)];
}

/* An op takes the slot of the first op that ended. Returns when it became free. */
static int64_t take_freed_slot(Scheduler *s, int32_t request) {
    RequestState *r = &s->requests[request];
    assert(r->freed_count > 0);
    int64_t freed = *freed_slot(s, request, r->freed);
    r->freed = r->freed + 1 < s->ops->request[request].count ? r->freed + 1 : 0;
    r->freed_count--;
    return freed;
}

/* Release the ops that the order within their request allows. */
static void advance_request(Scheduler *s, int32_t request, int64_t now) {
    RequestState *r = &s->requests[request];
    const TraceRequest *asked = &s->ops->request[request];
    while (r->begun && r->start_ns != NEVER && r->next < asked->count) {
        if (!s->decides && r->queue == NONE) return;
        int64_t row = s->decides ? s->ops->rows[asked->begin + r->next] : op_at(s, r->queue)->row;
        if (s->ops->op[row].step != r->step) {
            if (r->running) return;
            r->step = s->ops->op[row].step;
            r->due_ns = r->end_ns + r->wait_ns;
            r->slots = 0;
            r->wait_ns = 0;
            r->freed = r->freed_count = 0;
        }
        if (s->depth && r->running >= s->depth) return;
        int32_t at = s->decides ? create_op(s, row) : dequeue(s, r);
        r->next++;
        r->running++;
        int64_t due = r->due_ns;
        if (s->depth && (int64_t)r->slots >= s->depth) {
            int64_t freed = take_freed_slot(s, request);
            if (freed > due) due = freed;
        }
        r->slots++;
        release_op(s, at, due, now);
    }
}

/* When the trace says that a request starts; NEVER: what was before it decides. */
static int64_t timed_start(const Scheduler *s, int64_t request) {
    const TraceRequest *asked = &s->ops->request[request];
    bool is_timed = s->load.pace == OPEN ||
                    (s->load.pace == CLOSED && s->ops->first[asked->user] == request);
    return is_timed ? scaled(&s->load, asked->time_ns) : NEVER;
}

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
            start = timed_start(s, request);
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
            begin_request(s, request, timed_start(s, request));
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
    if (!r->begun) begin_request(s, request, s->load.pace == ASAP ? now : timed_start(s, request));
    enqueue(s, r, at);
    advance_request(s, request, now);
}

static void end_request(Scheduler *s, int32_t request, int64_t now) {
    int32_t next = s->ops->request[request].next;
    assert(s->in_progress > 0);
    s->in_progress--;
    if (s->decides && s->load.pace == ASAP) enter_requests(s, now);
    if (s->load.pace != CLOSED || next == NONE) return;
    RequestState *r = &s->requests[request], *after = &s->requests[next];
    int64_t start = r->end_ns + r->wait_ns + scaled(&s->load, s->ops->request[next].think_ns);
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
    int64_t start = s->requests[request].start_ns;
    return start == NEVER ? timed_start(s, request) : start;
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
    for (int32_t move = op_at(s, at)->first_move; move != NONE;) {
        Move *m = move_at(s, move);
        int32_t next = m->next;
        if (m->to >= 0) s->window_bytes -= m->size;
        m->number = NONE;  /* needs that still name the slot do not find the move any more */
        free_move(s, move);
        move = next;
    }
    assert(s->window_bytes >= 0);
    free_op(s, at);
}

/* The moves that its request waits for are done. */
static void finish_op(Scheduler *s, int32_t at, int64_t now) {
    Op *op = op_at(s, at);
    int32_t request = op->request;
    RequestState *r = &s->requests[request];
    assert(r->running > 0);
    r->running--;
    if (op->end_ns > r->end_ns) r->end_ns = op->end_ns;
    r->wait_ns += op->wait_ns;
    if (s->depth) {
        *freed_slot(s, request, (int64_t)r->freed + r->freed_count) = op->end_ns;
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
        int64_t start = timed_start(s, s->ops->op[s->entering].request);
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
        const Move *m = move_at(s, (int32_t)top.value);
        assert(!m->blockers);
        if (m->kind != STORE) return (int32_t)top.value;
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
    if (move_at(s, move)->kind == STORE) free_permit(s);
}

void scheduler_complete(Scheduler *s, int32_t move, int64_t end_ns, int64_t now) {
    Move *m = move_at(s, move);
    int32_t at = m->op;
    Op *op = op_at(s, at);
    assert(!m->blockers && op->left > 0);
    for (int32_t edge = m->dependents; edge != NONE;) {
        Edge e = *edge_at(s, edge);
        unblock(s, e.move, end_ns, e.why, m);
        free_edge(s, edge);
        edge = e.next;
    }
    m->dependents = NONE;
    if (m->kind == STORE) free_permit(s);
    if (m->kind != MISS && m->kind != BYPASS) finish_on_key(s, m, move, end_ns);
    if (frees(m) && s->ledgers[m->from].bounded) release_room(m, move, &s->ledgers[m->from]);
    bool background = m->background;
    op->left--;
    if (!background && end_ns > op->end_ns) op->end_ns = end_ns;
    assert(background || op->foreground > 0);
    if (!background && --op->foreground == 0) finish_op(s, at, now);
    if (!op->left && op->retired) free_op_and_moves(s, at);
}

int32_t scheduler_lowest(const Scheduler *s) {
    return s->head == s->tail ? NONE : s->order[s->head & (s->order_room - 1)];
}

void scheduler_retire(Scheduler *s) {
    assert(s->head < s->tail);
    int32_t at = s->order[s->head++ & (s->order_room - 1)];
    Op *op = op_at(s, at);
    assert(!op->retired);
    op->retired = 1;
    if (!op->left) free_op_and_moves(s, at);
}
