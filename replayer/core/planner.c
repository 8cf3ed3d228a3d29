/* A plan, op by op: in the order of the trace, of a list of rows, or of a reference system
 * (docs/ordering.md). */
#include "core.h"
#include "memory.h"

struct Planner {
    const Workload *ops;
    Placement *placement;       /* NULL: a serving engine decides */
    Serving *serving;
    int64_t order, at, count;
    const int32_t *rows;
    /* of a reference system */
    Scheduler *scheduler;
    Devices *devices;
    int64_t now, workers, busy;
    int32_t *ended;
    /* the ops and moves handed out by the last call */
    PlannedOp *out_ops;
    PlannedMove *moves;
    int64_t out_count, out_room, moves_room, moves_used;
};

Planner *planner_new(const Workload *workload, const Rules *rules, int64_t order,
                     const int32_t *rows, int64_t count, const Load *load, const Device *devices,
                     const ServingRules *serving, int64_t workers) {
    Planner *volatile made = NULL;
    Attempt attempt;
    attempt_begin(&attempt);
    if (setjmp(attempt.back)) {
        planner_free(made);
        return NULL;
    }
    Planner *p = made = zeros(1, sizeof *p);
    p->ops = workload;
    if (order == BY_SERVING) p->serving = passed_on(serving_new(workload, serving, load));
    else p->placement = passed_on(placement_new(workload, rules, order == BY_ROWS ? rows : NULL, count));
    p->order = order;
    p->rows = rows;
    p->count = count;
    if (order == BY_REFERENCE) {
        int64_t capacity[TIERS];
        capacities(rules, capacity);
        p->scheduler = passed_on(
            scheduler_new(workload, capacity, load, p->placement, rules->inclusive != 0));
        p->devices = devices_new(devices);
        p->workers = workers;
        p->ended = zeros((size_t)workers, sizeof *p->ended);
        scheduler_begin(p->scheduler, 0);
    }
    attempt_end(&attempt);
    return p;
}

void planner_free(Planner *p) {
    if (!p) return;
    placement_free(p->placement);
    serving_free(p->serving);
    scheduler_free(p->scheduler);
    devices_free(p->devices);
    free(p->ended);
    free(p->out_ops);
    free(p->moves);
    free(p);
}

void planner_account(const Planner *p, Account *out) {
    if (p->serving) serving_account(p->serving, out);
    else placement_account(p->placement, out);
}

static PlannedMove *reserve_moves(Planner *p, int64_t count) {
    if (p->moves_used + count > p->moves_room)
        p->moves = grown(p->moves, &p->moves_room, p->moves_used + count, sizeof *p->moves);
    PlannedMove *moves = &p->moves[p->moves_used];
    p->moves_used += count;
    return moves;
}

/* Hand out the ops that have just been decided; the scheduler keeps each op until its moves are
 * done. */
static void hand_out_decided(Planner *p) {
    for (int32_t at; (at = scheduler_lowest(p->scheduler)) != NONE;
         scheduler_retire(p->scheduler)) {
        const Op *op = scheduler_op(p->scheduler, at);
        if (p->out_count == p->out_room)
            p->out_ops = grown(p->out_ops, &p->out_room, 64, sizeof *p->out_ops);
        p->out_ops[p->out_count++] = (PlannedOp){op->row, op->role, op->moves};
        PlannedMove *out = reserve_moves(p, op->moves);
        for (int32_t move = op->first_move; move != NONE;) {
            const Move *m = scheduler_move(p->scheduler, move);
            *out++ = (PlannedMove){m->size, m->key, m->kind, m->from, m->to, m->background};
            move = m->next;
        }
    }
}

/* Start all moves that can start now. */
static void start_moves(Planner *p) {
    while (p->busy < p->workers) {
        int32_t move = scheduler_take(p->scheduler);
        hand_out_decided(p);
        if (move == NONE) return;
        Move *m = scheduler_move(p->scheduler, move);
        if (transfers(m->kind)) {
            p->busy++;
            devices_start(p->devices, move, m->from, m->to, m->size, p->now);
        } else {
            scheduler_complete(p->scheduler, move, p->now, p->now);
        }
    }
}

/* Go on to the time of the next event. Returns whether there is one. */
static bool advance_clock(Planner *p) {
    int64_t next = devices_next(p->devices), due = scheduler_next_due(p->scheduler);
    if (due < next) next = due;
    if (next == FAR) return false;
    p->now = next;
    int32_t count = devices_advance(p->devices, next, p->ended, (int32_t)p->workers);
    p->busy -= count;
    assert(p->busy >= 0);
    for (int32_t i = 0; i < count; i++) scheduler_complete(p->scheduler, p->ended[i], next, next);
    scheduler_release(p->scheduler, next);
    return true;
}

/* Simulate until `most` ops are decided. Returns false if nothing can proceed; once the last op is
 * decided, the plan is complete. */
static bool follow_reference(Planner *p, int64_t most) {
    while (p->out_count < most) {
        start_moves(p);
        if (scheduler_decided(p->scheduler) == p->count) return true;
        if (!advance_clock(p)) return false;
    }
    return true;
}

int64_t planner_next(Planner *p, int64_t most, const PlannedOp **ops, const PlannedMove **moves) {
    Attempt attempt;
    attempt_begin(&attempt);
    if (setjmp(attempt.back)) return OUT_OF_MEMORY;
    if (p->serving) {
        int64_t count = serving_plan(p->serving, most, ops, moves);
        attempt_end(&attempt);
        return count;
    }
    if (most > p->out_room) p->out_ops = grown(p->out_ops, &p->out_room, most, sizeof *p->out_ops);
    p->moves_used = p->out_count = 0;
    bool goes_on = true;
    if (p->order == BY_REFERENCE) goes_on = follow_reference(p, most);
    for (; p->order != BY_REFERENCE && p->out_count < most && p->at < p->count; p->at++) {
        int64_t row = p->order == BY_ROWS ? p->rows[p->at] : p->at, count;
        const PlannedMove *decided;
        int role = placement_decide(p->placement, row, &decided, &count);
        PlannedMove *out = reserve_moves(p, count);
        p->out_ops[p->out_count++] = (PlannedOp){row, role, count};
        memcpy(out, decided, (size_t)count * sizeof *decided);
    }
    attempt_end(&attempt);
    *ops = p->out_ops;
    *moves = p->moves;
    return goes_on || p->out_count ? p->out_count : -1;
}
