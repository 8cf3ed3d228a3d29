/* The engine: workers on the real clock take the most urgent move, make it and record it. Moves are
 * made outside the lock. The threads are the caller's: each worker calls engine_work, the feeder
 * calls engine_feed, and the main thread the other functions.
 *
 * `Engine.lock` guards the scheduler and all fields that change, unless their comment says
 * otherwise.
 */
#define _GNU_SOURCE
#include "memory.h"
#include "run.h"
#include <errno.h>
#include <sys/prctl.h>
#include <time.h>

enum { FEED_OPS = 256, ADMIT_OPS = 64, FAULTS_MOST = 1 << 16 };
/* At the end of the drain, throttled moves in flight end within this time, or a slow throttle would keep
 * them for hours. */
#define LAST_WAIT_NS INT64_C(10000000000)

/* What threads wait for. */
enum {
    WORK,                       /* followers: a move is ready */
    TIMER,                      /* the leader: an op is due earlier than it waits for */
    ENDED,                      /* the main thread: the run is over */
    ROOM,                       /* the feeder: the window has room */
    PREFILLED,                  /* the main thread: the window is full, the clock may start */
    DRAINED,                    /* workers: the main thread has taken the records */
    CONDITIONS
};

/* The move that a worker makes, or has its caller make elsewhere; the worker's alone. */
typedef struct { int32_t move; Record record; } MoveInHand;

typedef struct {
    Run run;                    /* the first, as functions of run.c take an engine; guarded by the
                                   lock, but its planner is the feeder's alone */

    /* Set by engine_new and not changed afterwards. */
    Tier *tiers[TIERS];
    const Payload *payload;
    MoveInHand *in_hand;        /* per worker */

    pthread_mutex_t lock;       /* guards all fields below, and what they point to */
    pthread_cond_t conditions[CONDITIONS];
    int64_t began;              /* clock_ns() at the run's time 0 */
    int64_t timer_due;          /* what the leader waits for; FAR: there is no leader */
    int64_t idle;               /* followers that wait */
    bool full;                  /* the window was full once */
    bool over;                  /* no worker takes another move */
    Fault *faults;
    int64_t faults_count, faults_room;

    /* Atomic: not guarded by the lock. */
    uint8_t *lost;              /* per key: bits of copies (copy_bit) that a failed move lost and
                                   none has replaced */
} Engine;

static void make_locks(Engine *e) {
    pthread_mutexattr_t of_lock;
    pthread_mutexattr_init(&of_lock);
    /* Adaptive: the lock is held for less time than a sleep takes. */
    pthread_mutexattr_settype(&of_lock, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&e->lock, &of_lock);
    pthread_mutexattr_destroy(&of_lock);
    pthread_condattr_t of_condition;
    pthread_condattr_init(&of_condition);
    pthread_condattr_setclock(&of_condition, CLOCK_MONOTONIC);
    for (int i = 0; i < CONDITIONS; i++) pthread_cond_init(&e->conditions[i], &of_condition);
    pthread_condattr_destroy(&of_condition);
}

void engine_free(Engine *e) {
    if (!e) return;
    run_end(&e->run);
    free(e->lost);
    free(e->faults);
    free(e->in_hand);
    for (int i = 0; i < CONDITIONS; i++) pthread_cond_destroy(&e->conditions[i]);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

Engine *engine_new(const Workload *ops, const Settings *settings, const Load *load,
                   Planner *planner, Placement *live, const Rules *rules, Tier *const *tiers,
                   const Payload *payload) {
    Engine *volatile made = NULL;
    Attempt attempt;
    attempt_begin(&attempt);
    if (setjmp(attempt.back)) {
        engine_free(made);
        return NULL;
    }
    Engine *e = made = zeros(1, sizeof *e);
    make_locks(e);
    run_begin(&e->run, ops, settings, load, planner, live, rules);
    e->run.lock = &e->lock;
    e->run.drained = &e->conditions[DRAINED];
    memcpy(e->tiers, tiers, sizeof e->tiers);
    e->payload = payload;
    e->lost = zeros((size_t)ops->keys + 1, 1);
    e->in_hand = zeros((size_t)settings->workers, sizeof *e->in_hand);
    e->timer_due = FAR;
    attempt_end(&attempt);
    return e;
}

static int64_t run_time(const Engine *e) { return e->began ? clock_ns() - e->began : 0; }

static void wait_for(Engine *e, int condition) {
    pthread_cond_wait(&e->conditions[condition], &e->lock);
}

static void wait_until(Engine *e, int condition, int64_t when) {
    int64_t at = e->began + when;
    struct timespec until = {at / 1000000000, at % 1000000000};
    pthread_cond_timedwait(&e->conditions[condition], &e->lock, &until);
}

static void wake(Engine *e, int condition) { pthread_cond_signal(&e->conditions[condition]); }

static void wake_all(Engine *e) {
    for (int i = 0; i < CONDITIONS; i++) pthread_cond_broadcast(&e->conditions[i]);
}

/* Apply the time limits. Workers call this, too, as the main thread may be busy with the log. Holds
 * the lock. */
static void apply_limits(Engine *e, int64_t now) {
    if (!run_apply_limits(&e->run, now)) return;
    for (int tier = 0; e->run.stopping && tier < TIERS; tier++)
        if (e->tiers[tier]) tier_wait_at_most(e->tiers[tier], clock_ns() + LAST_WAIT_NS);
    wake_all(e);
}

static bool end_if_over(Engine *e) {
    if (!e->over && (e->run.stopping || run_is_finished(&e->run))) {
        e->over = true;
        wake_all(e);
    }
    return e->over;
}

/* ---- The feeder: the plan comes in. ---- */
static void wake_workers(Engine *e, bool quick);

static __attribute__((noinline)) void feed(Engine *e) {
    int64_t position = 0, taken = 0, most = e->run.set.most_ops;
    if (most < 0) most = INT64_MAX;
    const PlannedOp *ops;
    const PlannedMove *moves;
    while (position < most && (taken = planner_next(e->run.planner, FEED_OPS, &ops, &moves)) > 0) {
        pthread_mutex_lock(&e->lock);
        for (int64_t i = 0; i < taken && position < most; i++, position++) {
            while (!run_has_room(&e->run) && !e->over) {
                if (!e->full) {
                    e->full = true;
                    pthread_cond_broadcast(&e->conditions[PREFILLED]);
                }
                wake_workers(e, false);  /* for ops admitted since the last wake-up */
                wait_for(e, ROOM);
            }
            if (e->over) break;
            run_admit(&e->run, position, &ops[i], moves, run_time(e));
            moves += ops[i].moves;
            if (i % ADMIT_OPS == ADMIT_OPS - 1) {  /* the workers wait for the lock meanwhile */
                wake_workers(e, false);
                pthread_mutex_unlock(&e->lock);
                pthread_mutex_lock(&e->lock);
            }
        }
        wake_workers(e, false);
        bool over = e->over;
        pthread_mutex_unlock(&e->lock);
        if (over) break;
    }
    pthread_mutex_lock(&e->lock);
    if (taken == OUT_OF_MEMORY) run_refuse(&e->run);
    else if (position < most && taken < 0) e->run.state.stuck = e->run.stopping = true;
    e->run.exhausted = position >= most || !taken;  /* false if the run was stopped */
    e->full = true;
    end_if_over(e);
    wake_all(e);
    pthread_mutex_unlock(&e->lock);
}

/* Plan ahead, in a thread of its own, until the plan is complete. */
void engine_feed(Engine *e) {
    Attempt attempt;  /* planner_next has its own; what runs out of memory here holds the lock */
    attempt_begin(&attempt);
    if (setjmp(attempt.back)) {
        run_refuse(&e->run);
        end_if_over(e);
        pthread_mutex_unlock(&e->lock);
        return;
    }
    feed(e);
    attempt_end(&attempt);
}

/* When the window is full, start the clock and return clock_ns(); else return 0. */
int64_t engine_start(Engine *e, int64_t most_ns) {
    pthread_mutex_lock(&e->lock);
    if (e->run.planner && !e->full && !e->run.stopping)
        wait_until(e, PREFILLED, clock_ns() + most_ns);
    bool ready = !e->run.planner || e->full || e->run.stopping;
    if (ready) {
        e->began = clock_ns();
        Attempt attempt;  /* ops become due */
        attempt_begin(&attempt);
        if (setjmp(attempt.back)) {
            run_refuse(&e->run);
        } else {
            if (e->run.live) scheduler_begin(e->run.scheduler, 0);
            attempt_end(&attempt);
        }
        wake_all(e);
    }
    pthread_mutex_unlock(&e->lock);
    return ready ? e->began : 0;
}

/* ---- Executed ops leave the window. ---- */
static void retire_ops(Engine *e) {
    bool some = run_retire(&e->run);
    if (!some || !e->run.planner || !run_has_room(&e->run)) return;
    int64_t inside = scheduler_in_window(e->run.scheduler), free = e->run.set.window_ops - inside;
    /* Enough room that the feeder need not wake up for each op. */
    bool enough = free >= FEED_OPS || free >= e->run.set.window_ops / 2;
    if (enough || !inside || e->run.set.window_bytes < UNLIMITED) wake(e, ROOM);
}

/* ---- Workers. ---- */
/* Wake one idle worker per ready move, and one to watch the clock if nobody does. `quick`: the
 * caller will be back for the next move before another thread could wake up, so it wakes at most
 * one more worker, and none if no core is free. */
static void wake_workers(Engine *e, bool quick) {
    int64_t ready = scheduler_ready(e->run.scheduler), woken = ready < e->idle ? ready : e->idle;
    if (quick && woken) woken = ready > 1 && e->run.set.workers - e->idle < e->run.set.cores;
    for (int64_t i = 0; i < woken; i++) wake(e, WORK);
    bool watched = e->timer_due != FAR;
    if (ready > e->idle && watched && !quick) wake(e, TIMER);
    int64_t due = scheduler_next_due(e->run.scheduler);
    if (due < e->timer_due) {
        if (watched) wake(e, TIMER);
        else if (e->idle > woken) wake(e, WORK);
    }
}

/* Wait for work. One idle worker, the leader, watches the clock for ops that will be due; the
 * others are followers and wait to be woken (leader/followers: Schmidt et al., PLoP 2000). */
static void sleep_for_work(Engine *e) {
    int64_t due = scheduler_next_due(e->run.scheduler);
    if (due == FAR || due >= e->timer_due) {
        e->idle++;
        wait_for(e, WORK);
        e->idle--;
        return;
    }
    /* The leader waits for a later time: relieve it. */
    if (e->timer_due != FAR) wake(e, TIMER);
    e->timer_due = due;
    wait_until(e, TIMER, due);
    if (e->timer_due == due) e->timer_due = FAR;
}

static bool is_elsewhere(const Engine *e, int tier) {
    return tier >= 0 && tier_is_elsewhere(e->tiers[tier]);
}
static bool is_chunked(const Engine *e, int tier) {
    return tier >= 0 && tier_chunked(e->tiers[tier]);
}
/* ---- Copies that failed moves lost. ---- */
/* Return the bit of `lost` for the copy in a tier; 0: no tier is named. If only one tier may hold
 * an object, the object is lost as a whole. */
static uint8_t copy_bit(const Engine *e, int64_t tier) {
    if (!e->run.inclusive) return 1;
    return tier < 0 ? 0 : (uint8_t)(1 << tier);
}

/* A failed move loses the copy that it begins, else the copy that it reads or ends. */
static void note_lost(Engine *e, const Job *job) {
    uint8_t bit = copy_bit(e, job->to >= 0 ? job->to : job->from);
    __atomic_fetch_or(&e->lost[job->key], bit, __ATOMIC_RELAXED);
}

/* Return whether a move starts from a lost copy; then the copy that it begins is lost, too. */
static bool starts_lost(Engine *e, const Job *job) {
    if (job->kind == MISS || job->kind == BYPASS) return false;
    uint8_t lost = __atomic_load_n(&e->lost[job->key], __ATOMIC_RELAXED);
    bool is_lost = job->kind != STORE && lost & copy_bit(e, job->from);
    if (job->to < 0) return is_lost;
    uint8_t bit = copy_bit(e, job->to);
    if (is_lost) __atomic_fetch_or(&e->lost[job->key], bit, __ATOMIC_RELAXED);
    else __atomic_fetch_and(&e->lost[job->key], (uint8_t)~bit, __ATOMIC_RELAXED);
    return is_lost;
}

static void wait_for_log(Engine *e) {
    int64_t began = clock_ns();
    while (e->run.records.count >= RECORDS_MOST && !e->over)
        wait_for(e, DRAINED);
    e->run.state.log_stalled_ns += clock_ns() - began;
}

static int32_t next_move(Engine *e) {
    while (!end_if_over(e)) {
        if (e->run.records.count >= RECORDS_MOST) {
            wait_for_log(e);
            continue;
        }
        int64_t now = run_time(e);
        apply_limits(e, now);
        scheduler_release(e->run.scheduler, now);
        if (e->run.stopping) continue;
        int32_t move = run_take(&e->run);
        if (move != NONE) {
            const Move *m = scheduler_move(e->run.scheduler, move);
            wake_workers(e,
                         !transfers(m->kind) || !(is_chunked(e, m->from) || is_chunked(e, m->to)));
            return move;
        }
        if (!end_if_over(e)) sleep_for_work(e);
    }
    return NONE;
}

static void describe_move(Engine *e, int32_t move, int64_t worker, Record *r, Job *job) {
    const Move *m = scheduler_move(e->run.scheduler, move);
    run_describe(&e->run, move, worker, r);
    *job = (Job){.kind = m->kind, .key = m->key, .from = m->from, .to = m->to, .size = m->size};
    if (starts_lost(e, job)) job->status = UPSTREAM;
}

/* ---- Moves. ---- */
/* The check of a hit's last chunk, which is made after the moves that wait for the hit may
 * start. */
typedef struct { int64_t offset, length; bool due; } PendingCheck;

static void make_bytes(Engine *e, Job *job, int64_t offset, int64_t length, char *buffer) {
    if (!tier_keeps_bytes(e->tiers[job->to])) return;
    int64_t began = clock_ns(), whole = (length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (job->from < 0) payload_fill(e->payload, buffer, (uint64_t)job->key, offset, whole);
    else if (whole > length)
        payload_pad(e->payload, buffer, (uint64_t)job->key, offset, length, whole);
    job->verify_ns += clock_ns() - began;
}

static int check_bytes(Engine *e, Job *job, int64_t offset, int64_t length, const char *buffer) {
    int64_t began = clock_ns();
    int wrong = payload_check(e->payload, buffer, (uint64_t)job->key, offset, length,
                              e->run.set.verify == 2, job->fault.text, sizeof job->fault.text);
    job->verify_ns += clock_ns() - began;
    if (wrong) {
        job->fault.kind = FAULT_CORRUPT;
        job->fault.error = EIO;
    }
    return wrong;
}

/* Return the time since `began`, and set it to now, where the next interval begins. */
static int64_t lap(int64_t *began) {
    int64_t now = clock_ns(), spent = now - *began;
    *began = now;
    return spent;
}

/* Read chunk by chunk: verify each chunk, and write it to the target if there is one. */
static int read_object(Engine *e, Job *job, Object *to, char *buffer, PendingCheck *left) {
    Tier *tier = e->tiers[job->from];
    int64_t step = tier_chunked(tier) || to ? e->run.set.chunk : job->size,
            began = to ? clock_ns() : job->start_ns;
    Object from;
    int error = object_open(tier, &from, (uint64_t)job->key, job->size, &job->fault);
    if (error) {
        job->read_ns += lap(&began);
        return error;
    }
    for (int64_t offset = 0; offset < job->size && !error; offset += step) {
        int64_t length = job->size - offset < step ? job->size - offset : step;
        error = object_read(&from, offset, length, buffer, &job->fault);
        bool checked = e->run.set.verify && tier_keeps_bytes(tier);
        bool last = offset + length == job->size;
        if (error || (!checked && !to)) continue;
        job->read_ns += lap(&began);
        if (checked && last && job->kind == HIT) *left = (PendingCheck){offset, length, true};
        else if (checked) error = check_bytes(e, job, offset, length, buffer);
        if (to && !error) {
            make_bytes(e, job, offset, length, buffer);
            began = clock_ns();
            error = object_write(to, offset, length, buffer, &job->fault);
            job->write_ns += lap(&began);
        } else {
            began = clock_ns();
        }
    }
    job->device_read_ns = from.device_ns;
    object_close(&from);
    job->read_ns += lap(&began);
    return error;
}

/* Write chunk by chunk: make the object's bytes, the first chunk's excepted, and write them. */
static int write_object(Engine *e, Job *job, Object *to, char *buffer, int64_t *began) {
    int64_t step = tier_chunked(e->tiers[job->to]) ? e->run.set.chunk : job->size;
    int error = 0;
    for (int64_t offset = 0; offset < job->size && !error; offset += step) {
        int64_t length = job->size - offset < step ? job->size - offset : step;
        if (offset) {
            job->write_ns += lap(began);
            make_bytes(e, job, offset, length, buffer);
            *began = clock_ns();
        }
        error = object_write(to, offset, length, buffer, &job->fault);
    }
    return error;
}

static int transfer(Engine *e, Job *job, char *buffer, PendingCheck *left) {
    if (job->to < 0) return read_object(e, job, NULL, buffer, left);
    Tier *tier = e->tiers[job->to];
    int64_t began = job->start_ns;
    if (job->from < 0 && tier_chunked(tier)) {
        make_bytes(e, job, 0, job->size < e->run.set.chunk ? job->size : e->run.set.chunk, buffer);
        began = clock_ns();
    }
    Object to;
    int error = object_create(tier, &to, (uint64_t)job->key, job->size, &job->fault);
    if (!error && job->from >= 0) {
        job->write_ns += lap(&began);
        error = read_object(e, job, &to, buffer, left);
        began = clock_ns();
    } else if (!error) {
        error = write_object(e, job, &to, buffer, &began);
    }
    if (!error) error = object_finish(&to, &job->fault);
    object_close(&to);
    job->write_ns += lap(&began);
    job->device_write_ns = to.device_ns;
    return error;
}

/* Remove a lost key from the tiers that the move takes it out of or brings it into. */
static void discard_lost(Engine *e, const Job *job) {
    Fault ignored;  /* the move's own row carries the error */
    if (leaves_source(job->kind) && job->from >= 0)
        object_discard(e->tiers[job->from], (uint64_t)job->key, &ignored);
    if (job->to >= 0) object_discard(e->tiers[job->to], (uint64_t)job->key, &ignored);
}

static void make_move(Engine *e, Job *job, char *buffer, PendingCheck *left) {
    job->start_ns = clock_ns();
    if (job->status == UPSTREAM) {
        discard_lost(e, job);
    } else if (job->kind != MISS && job->kind != BYPASS) {
        int error = transfers((int)job->kind) ? transfer(e, job, buffer, left) : 0;
        if (!error && leaves_source(job->kind) && job->from >= 0)
            error = object_discard(e->tiers[job->from], (uint64_t)job->key, &job->fault);
        if (error) {
            job->status = ERROR;
            note_lost(e, job);
            discard_lost(e, job);
            left->due = false;
        }
    }
    job->done_ns = job->kind == MISS || job->kind == BYPASS ? job->start_ns : clock_ns();
}

static void note_fault(Engine *e, Record *r, const Job *job) {
    if (job->status == OK) return;
    if (job->status == ERROR && e->faults_count < FAULTS_MOST) {
        if (e->faults_count == e->faults_room)
            e->faults = grown(e->faults, &e->faults_room, 64, sizeof *e->faults);
        r->error = (int32_t)e->faults_count;
        e->faults[e->faults_count++] = job->fault;
    }
    e->run.state.failures += job->status == ERROR;
    if (e->run.state.failures > e->run.set.max_errors && !e->run.stopping) {
        e->run.state.too_many_errors = 1;
        e->run.stopping = true;
        end_if_over(e);
    }
}

static void finish_record(Engine *e, Record *r, const Job *job, int64_t late_ns) {
    r->status = (int8_t)job->status;
    r->start_ns = job->start_ns - e->began;
    r->end_ns = job->done_ns - e->began - (job->verify_ns - late_ns);
    r->read_ns = job->read_ns;
    r->write_ns = job->write_ns;
    r->device_read_ns = job->device_read_ns;
    r->device_write_ns = job->device_write_ns;
    r->verify_ns = job->verify_ns;
    note_fault(e, r, job);
    run_record(&e->run, r);
}

/* The move is done: moves that wait for it may start. */
static void complete_move(Engine *e, int32_t move, const Job *job) {
    int64_t end_ns = job->done_ns - e->began;
    scheduler_complete(e->run.scheduler, move, end_ns, end_ns);
    retire_ops(e);
}

/* The check of a hit's last chunk; no move waits for it any more. */
static void check_late(Engine *e, Job *job, const PendingCheck *left, const char *buffer) {
    if (!left->due) return;
    wake_workers(e, false);
    pthread_mutex_unlock(&e->lock);
    if (check_bytes(e, job, left->offset, left->length, buffer)) {
        job->status = ERROR;
        note_lost(e, job);
    }
    pthread_mutex_lock(&e->lock);
}

/* Work until a move must be made elsewhere (returns 1) or the run is over (returns 0). `resumed`:
 * the move in `job` has been made. */
int engine_work(Engine *e, int64_t worker, void *buffer, Job *job, int resumed) {
    MoveInHand *hand = &e->in_hand[worker];
    assert(worker >= 0 && worker < e->run.set.workers);
    prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
    pthread_mutex_lock(&e->lock);
    Attempt attempt;  /* memory is taken under the lock only: what runs out of it holds the lock */
    attempt_begin(&attempt);
    if (setjmp(attempt.back)) {
        run_refuse(&e->run);
        end_if_over(e);
        pthread_mutex_unlock(&e->lock);
        return 0;
    }
    if (resumed) {
        if (job->status == ERROR) note_lost(e, job);
        complete_move(e, hand->move, job);
        finish_record(e, &hand->record, job, 0);
    }
    while ((hand->move = next_move(e)) != NONE) {
        describe_move(e, hand->move, worker, &hand->record, job);
        pthread_mutex_unlock(&e->lock);
        if (is_elsewhere(e, (int)job->from) || is_elsewhere(e, (int)job->to)) {
            attempt_end(&attempt);
            return 1;
        }
        PendingCheck left = {0, 0, false};
        make_move(e, job, buffer, &left);
        pthread_mutex_lock(&e->lock);
        complete_move(e, hand->move, job);
        int64_t early_ns = job->verify_ns;
        check_late(e, job, &left, buffer);
        finish_record(e, &hand->record, job, job->verify_ns - early_ns);
    }
    attempt_end(&attempt);
    pthread_mutex_unlock(&e->lock);
    return 0;
}

/* ---- Functions of the main thread. ---- */
/* Returns whether the run is over. */
int engine_wait(Engine *e, int64_t most_ns) {
    pthread_mutex_lock(&e->lock);
    int64_t now = run_time(e), until = now + most_ns, limit = run_next_limit(&e->run, now);
    apply_limits(e, now);
    if (limit < until) until = limit;
    if (!end_if_over(e)) wait_until(e, ENDED, until);
    apply_limits(e, run_time(e));
    int over = end_if_over(e);
    pthread_mutex_unlock(&e->lock);
    return over;
}

/* Start no more moves. */
void engine_stop(Engine *e) {
    pthread_mutex_lock(&e->lock);
    e->run.stopping = e->over = true;
    wake_all(e);
    pthread_mutex_unlock(&e->lock);
}

void engine_fault(Engine *e, int64_t number, Fault *out) {
    pthread_mutex_lock(&e->lock);
    assert(number >= 0 && number < e->faults_count);
    *out = e->faults[number];
    pthread_mutex_unlock(&e->lock);
}

/* For tests: sizes of the structures that callers share, in the order of core.h and then of
 * engine.h. */
int64_t core_sizes(int64_t *out) {
    const int64_t sizes[] = {
        sizeof(TraceOp),     sizeof(TraceRequest), sizeof(TraceKey), sizeof(Workload),
        sizeof(PlannedMove), sizeof(TierRules),    sizeof(Rules),    sizeof(Account),
        sizeof(Totals),      sizeof(Load),         sizeof(Op),       sizeof(Move),
        sizeof(Unfinished),  sizeof(Device),       sizeof(ServingRules), sizeof(PlannedOp),
        sizeof(Counts),      sizeof(Counter),
        sizeof(Fault),       sizeof(BlockIO),      sizeof(Extent),   sizeof(Object),
        sizeof(Settings),    sizeof(Job),          sizeof(Record),   sizeof(State),
        sizeof(Station),     sizeof(Profile),
    };
    memcpy(out, sizes, sizeof sizes);
    return sizeof sizes / sizeof *sizes;
}
