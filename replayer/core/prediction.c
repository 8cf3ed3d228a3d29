/* A prediction: the execution of a plan on the computed clock of a measured machine
 * (docs/predicting.md). One thread. */
#include "heap.h"
#include "memory.h"
#include "run.h"
#include "stations.h"

enum { STRETCH = 256 };  /* ops planned at a time */

/* What a worker does for a move, in this order; steps that take no time are left out. */
enum { MAKE, READ_SOURCE, CHECK, WRITE_TARGET, REMOVE_SOURCE, COMPLETE, CHECK_LATE, BOOK, FREE };

typedef struct {
    Record record;
    int32_t move;
    int step;
    int64_t entered;            /* when the step began */
} Worker;

typedef struct {
    Run run;                    /* the first, as functions of run.c take a prediction */
    const Profile *profile;
    Stations *stations;
    int64_t now;
    bool over;                  /* no worker takes another move */
    Worker *workers;
    Heap free_workers;          /* (number; number) */
    int32_t *ended;             /* workers whose stage has ended */
    /* the stretch of the plan that is being admitted */
    const PlannedOp *ops;
    const PlannedMove *moves;
    int64_t count, at, position;
} Prediction;

void prediction_free(Prediction *p) {
    if (!p) return;
    run_end(&p->run);
    stations_free(p->stations);
    free(p->workers);
    free(p->free_workers.entries);
    free(p->ended);
    free(p);
}

Prediction *prediction_new(const Workload *ops, const Settings *settings, const Load *load,
                           Planner *planner, Placement *live, const Rules *rules,
                           const Profile *profile) {
    Prediction *volatile made = NULL;
    Attempt attempt;
    attempt_begin(&attempt);
    if (setjmp(attempt.back)) {
        prediction_free(made);
        return NULL;
    }
    Prediction *p = made = zeros(1, sizeof *p);
    run_begin(&p->run, ops, settings, load, planner, live, rules);
    p->profile = profile;
    p->stations = stations_new(profile, settings->workers);
    p->workers = zeros((size_t)settings->workers, sizeof *p->workers);
    p->ended = zeros((size_t)settings->workers, sizeof *p->ended);
    for (int64_t worker = 0; worker < settings->workers; worker++)
        heap_push(&p->free_workers, (uint64_t)worker, worker);
    p->now = NEVER;
    attempt_end(&attempt);
    return p;
}

/* ---- The plan comes in. ---- */
/* Make sure that there is an op to admit. Returns false at the end of the plan. */
static bool has_op(Prediction *p) {
    int64_t most = p->run.set.most_ops;
    if (p->run.exhausted) return false;
    if (p->at == p->count && (most < 0 || p->position < most)) {
        p->count = planner_next(p->run.planner, STRETCH, &p->ops, &p->moves);
        p->at = 0;
        if (p->count == OUT_OF_MEMORY) run_refuse(&p->run);
        else if (p->count < 0) p->run.state.stuck = p->run.stopping = true;
    }
    p->run.exhausted = p->at >= p->count || (most >= 0 && p->position >= most);
    return !p->run.exhausted;
}

static void admit_plan(Prediction *p) {
    while (p->run.planner && has_op(p) && run_has_room(&p->run)) {
        const PlannedOp *op = &p->ops[p->at++];
        run_admit(&p->run, p->position++, op, p->moves, p->now);
        p->moves += op->moves;
    }
}

/* ---- A move, step by step. ---- */
static uint64_t draw(uint64_t state) { return mix(state + UINT64_C(0x9E3779B97F4A7C15)); }

/* Return the number in [0, 1) that the factor of a move's visit is drawn by. */
static double chance(const Record *r, int tier, int direction) {
    uint64_t h = draw(draw((uint64_t)r->op_id) + 8 * (uint64_t)r->seq + 2 * (uint64_t)tier +
                      (uint64_t)direction);
    return (double)(h >> 11) * 0x1p-53;
}

/* Return the bytes that a move reads and checks when it is done: the last piece of a hit. */
static int64_t late_bytes(const Prediction *p, const Record *r) {
    int64_t piece = p->run.set.chunk;
    return r->move == HIT ? r->size_bytes - (r->size_bytes - 1) / piece * piece : 0;
}

static int64_t cpu_work(const Prediction *p, const Worker *w) {
    const Profile *cpu = p->profile;
    const Record *r = &w->record;
    double check_byte_ns = p->run.set.verify ? cpu->check_byte_ns : 0, work_ns = 0;
    if (w->step == MAKE) work_ns = (double)r->size_bytes * cpu->make_byte_ns;
    if (w->step == CHECK) work_ns = (double)(r->size_bytes - late_bytes(p, r)) * check_byte_ns;
    if (w->step == CHECK_LATE) work_ns = (double)late_bytes(p, r) * check_byte_ns;
    if (w->step == BOOK) work_ns = cpu->move_ns;
    int64_t whole = (int64_t)work_ns;
    return whole < work_ns ? whole + 1 : whole;
}

static bool compute(Prediction *p, int32_t worker) {
    int64_t work_ns = cpu_work(p, &p->workers[worker]);
    if (work_ns) stations_compute(p->stations, worker, work_ns, p->now);
    return work_ns > 0;
}

static bool transfer(Prediction *p, int32_t worker, int tier, int direction) {
    const Record *r = &p->workers[worker].record;
    int64_t pieces = (r->size_bytes + p->run.set.chunk - 1) / p->run.set.chunk;
    return stations_transfer(p->stations, worker, tier, direction, r->size_bytes, pieces,
                             chance(r, tier, direction), p->now);
}

/* Moves that wait for this one may start. */
static void complete(Prediction *p, Worker *w) {
    Record *r = &w->record;
    bool instant = r->move == MISS || r->move == BYPASS;
    r->end_ns = instant ? r->start_ns : p->now - r->verify_ns;
    scheduler_complete(p->run.scheduler, w->move, p->now, p->now);
    run_retire(&p->run);
}

/* Begin the worker's step. Returns false if the step takes no time. */
static bool begin_step(Prediction *p, int32_t worker) {
    Worker *w = &p->workers[worker];
    const Record *r = &w->record;
    bool moves_bytes = transfers(r->move);
    int from = r->from_tier, to = r->to_tier;
    w->entered = p->now;
    switch (w->step) {
        case MAKE: return r->move == STORE && compute(p, worker);
        case READ_SOURCE: return moves_bytes && from >= 0 && transfer(p, worker, from, READS);
        case CHECK: return moves_bytes && from >= 0 && compute(p, worker);
        case WRITE_TARGET: return moves_bytes && to >= 0 && transfer(p, worker, to, WRITES);
        case REMOVE_SOURCE:
            return leaves_source(r->move) && from >= 0 &&
                   stations_remove(p->stations, worker, from, p->now);
        case COMPLETE: complete(p, w); return false;
        case CHECK_LATE: return r->move == HIT && compute(p, worker);
        default: return compute(p, worker);
    }
}

static void end_step(Prediction *p, int32_t worker) {
    Worker *w = &p->workers[worker];
    Record *r = &w->record;
    int64_t spent = p->now - w->entered, inside = p->now - stations_opened(p->stations, worker);
    switch (w->step) {
        case READ_SOURCE:
            r->read_ns = spent;
            r->device_read_ns = inside;
            break;
        case WRITE_TARGET:
            r->write_ns = spent;
            r->device_write_ns = inside;
            break;
        case MAKE:
        case CHECK:
        case CHECK_LATE: r->verify_ns += spent; break;
        default: break;
    }
}

/* Begin the worker's first step from its present one on that takes time; after the last one the
 * worker is free. */
static void go_on(Prediction *p, int32_t worker) {
    Worker *w = &p->workers[worker];
    while (w->step < FREE && !begin_step(p, worker)) w->step++;
    if (w->step < FREE) return;
    run_record(&p->run, &w->record);
    heap_push(&p->free_workers, (uint64_t)worker, worker);
}

static bool end_if_over(Prediction *p) {
    p->over |= p->run.stopping || run_is_finished(&p->run);
    return p->over;
}

static void start_moves(Prediction *p) {
    while (!end_if_over(p) && p->free_workers.count) {
        int32_t move = run_take(&p->run);
        if (move == NONE) return;
        int32_t worker = (int32_t)heap_pop(&p->free_workers).value;
        Worker *w = &p->workers[worker];
        w->move = move;
        w->step = MAKE;
        run_describe(&p->run, move, worker, &w->record);
        w->record.start_ns = p->now;
        go_on(p, worker);
        admit_plan(p);
    }
}

/* ---- The clock. ---- */
static void take_steps(Prediction *p) {
    if (!p->over) run_apply_limits(&p->run, p->now);
    int64_t count = stations_end(p->stations, p->now, p->ended);
    for (int64_t i = 0; i < count; i++) {
        int32_t worker = p->ended[i];
        if (stations_go_on(p->stations, worker, p->now)) continue;
        end_step(p, worker);
        p->workers[worker].step++;
        go_on(p, worker);
    }
    scheduler_release(p->run.scheduler, p->now);
    admit_plan(p);
    start_moves(p);
}

/* Go on to the next event. Returns whether there is one; a run that is over waits for its moves in
 * flight only. */
static bool advance_clock(Prediction *p) {
    int64_t next = stations_next(p->stations);
    if (!p->over) {
        int64_t due = scheduler_next_due(p->run.scheduler);
        if (due < next) next = due;
        int64_t limit = run_next_limit(&p->run, p->now);
        if (limit < next) next = limit;
    }
    if (next == FAR) return false;
    p->now = next;
    return true;
}

/* Go on until at least `most` rows of the log wait to be taken (returns 1) or the run is over and
 * no move is in flight (returns 0). */
int prediction_run(Prediction *p, int64_t most) {
    Attempt attempt;
    attempt_begin(&attempt);
    if (setjmp(attempt.back)) {
        run_refuse(&p->run);
        return 0;
    }
    if (p->now == NEVER) {
        p->now = 0;
        if (p->run.live) scheduler_begin(p->run.scheduler, 0);
        take_steps(p);
    }
    while (p->run.records.count < most) {
        if (!advance_clock(p)) {
            p->run.state.stuck |= !p->over && !run_is_finished(&p->run);
            break;
        }
        take_steps(p);
    }
    attempt_end(&attempt);
    return p->run.records.count >= most;
}

/* Start no more moves. */
void prediction_stop(Prediction *p) { p->run.stopping = true; }
