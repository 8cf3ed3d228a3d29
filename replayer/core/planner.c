/* A plan, op by op, in the order of the trace, of a list of rows, or of a reference system (docs/ordering.md). */
#include "core.h"
#include <stdlib.h>
#include <string.h>

struct Planner {
    const Workload *ops;
    Waterfall *waterfall;
    int64_t order, at, count;
    const int32_t *rows;
    /* A reference system. */
    Scheduler *scheduler;
    Devices *devices;
    int64_t now, workers, busy;
    int32_t *ended;
    /* What is handed out. */
    PlannedOp *told;
    Planned *moves;
    int64_t told_room, moves_room, moves_used;
};

Planner *planner_new(const Workload *workload, const Rules *rules, int64_t order, const int32_t *rows, int64_t count,
                     const Load *load, const Device *devices, int64_t workers) {
    Planner *p = calloc(1, sizeof *p);
    p->ops = workload;
    p->waterfall = waterfall_new(workload, rules);
    p->order = order;
    p->rows = rows;
    p->count = count;
    if (order == BY_REFERENCE) {
        p->scheduler = scheduler_new(workload, rules->capacity, load, p->waterfall);
        p->devices = devices_new(devices);
        p->workers = workers;
        p->ended = malloc((size_t)workers * sizeof *p->ended);
        scheduler_begin(p->scheduler, 0);
    }
    return p;
}

void planner_free(Planner *p) {
    if (!p) return;
    waterfall_free(p->waterfall);
    scheduler_free(p->scheduler);
    devices_free(p->devices);
    free(p->ended);
    free(p->told);
    free(p->moves);
    free(p);
}

const Waterfall *planner_waterfall(const Planner *p) { return p->waterfall; }

/* Start what can start now. */
static void start_moves(Planner *p) {
    while (p->busy < p->workers) {
        int32_t move = scheduler_take(p->scheduler);
        if (move == NONE) return;
        Move *m = scheduler_move(p->scheduler, move);
        if (m->kind == HIT || m->kind == PROMOTE || m->kind == STORE || m->kind == DEMOTE) {
            p->busy++;
            devices_start(p->devices, move, m->kind == STORE ? NONE : m->from, m->to, m->size, p->now);
        } else {
            scheduler_complete(p->scheduler, move, p->now, p->now);
        }
    }
}

/* Go on to the next time at which something happens; whether there is one. */
static bool tick(Planner *p) {
    int64_t next = devices_next(p->devices), due = scheduler_next_due(p->scheduler);
    if (due < next) next = due;
    if (next == FAR) return false;
    p->now = next;
    int32_t count = devices_advance(p->devices, next, p->ended, (int32_t)p->workers);
    p->busy -= count;
    for (int32_t i = 0; i < count; i++) scheduler_complete(p->scheduler, p->ended[i], next, next);
    scheduler_release(p->scheduler, next);
    return true;
}

static Planned *more_moves(Planner *p, int64_t count) {
    if (p->moves_used + count > p->moves_room) {
        p->moves_room = 2 * (p->moves_used + count);
        p->moves = realloc(p->moves, (size_t)p->moves_room * sizeof *p->moves);
        if (!p->moves) abort();
    }
    Planned *found = &p->moves[p->moves_used];
    p->moves_used += count;
    return found;
}

/* Hand out ops that are done, in order of position; how many there are now. */
static int64_t hand_out(Planner *p, int64_t told, int64_t most) {
    for (int32_t at; told < most && (at = scheduler_lowest(p->scheduler)) != NONE;) {
        const Op *op = scheduler_op(p->scheduler, at);
        if (op->left) break;
        p->told[told++] = (PlannedOp){op->row, op->role, op->moves};
        Planned *out = more_moves(p, op->moves);
        for (int32_t move = op->first_move; move != NONE;) {
            const Move *m = scheduler_move(p->scheduler, move);
            *out++ = (Planned){m->size, m->key, m->kind, m->from, m->to};
            move = m->next;
        }
        scheduler_retire(p->scheduler);
    }
    return told;
}

enum { AT_ONCE = 256 };  /* ops decided before what is done is handed out: more leave the CPU's caches */

static int64_t next_by_reference(Planner *p, int64_t most) {
    int64_t told = hand_out(p, 0, most);
    bool goes_on = true;
    while (told < most && goes_on) {
        for (int64_t until = scheduler_decided(p->scheduler) + AT_ONCE; goes_on && scheduler_decided(p->scheduler) < until;) {
            start_moves(p);
            goes_on = tick(p);
        }
        told = hand_out(p, told, most);
    }
    return told || scheduler_lowest(p->scheduler) == NONE ? told : -1;
}

int64_t planner_next(Planner *p, int64_t most, const PlannedOp **ops, const Planned **moves) {
    if (most > p->told_room) {
        p->told_room = most;
        p->told = realloc(p->told, (size_t)most * sizeof *p->told);
    }
    p->moves_used = 0;
    int64_t told = 0;
    if (p->order == BY_REFERENCE) {
        told = next_by_reference(p, most);
    } else {
        for (; told < most && p->at < p->count; told++, p->at++) {
            int64_t row = p->order == BY_ROWS ? p->rows[p->at] : p->at, count;
            const Planned *decided;
            int role = waterfall_decide(p->waterfall, row, &decided, &count);
            p->told[told] = (PlannedOp){row, role, count};
            memcpy(more_moves(p, count), decided, (size_t)count * sizeof *decided);
        }
    }
    *ops = p->told;
    *moves = p->moves;
    return told;
}
