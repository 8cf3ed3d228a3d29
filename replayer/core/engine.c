/* The engine: workers on the real clock take the most urgent move, make it and record it. Moves are
 * made outside the lock. The threads are the caller's: each worker calls engine_work, the feeder
 * calls engine_feed, and the main thread the other functions.
 *
 * `Engine.lock` guards the scheduler and all fields that change, unless their comment says
 * otherwise.
 */
#define _GNU_SOURCE
#include "run.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FEED_OPS = 256, ADMIT_OPS = 64, FAULTS_MOST = 1 << 16 };

/* How long a worker waited for a CPU: as it reported when it ended, and as last seen while it
 * worked. `thread` and `ended_ns` are atomic; `seen_ns` belongs to the caller of
 * engine_run_delay. */
typedef struct { int64_t thread, ended_ns, seen_ns; } Delay;

struct Engine {
    /* Set by engine_new and not changed afterwards. */
    Tier *tiers[TIERS];
    const Payload *payload;
    int64_t cores;

    pthread_mutex_t lock;       /* guards all fields below, and what they point to */
    pthread_cond_t work;        /* for followers: a move is ready */
    pthread_cond_t timer;       /* for the leader: an op is due earlier than it waits for */
    pthread_cond_t ended;       /* for the main thread: the run is over */
    pthread_cond_t room;        /* for the feeder: the window has room */
    pthread_cond_t prefilled;   /* for the main thread: the window is full, the clock may start */
    pthread_cond_t drained;     /* for workers: the main thread has taken the records */
    Run run;                    /* its planner is the feeder's alone */
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
    Delay *delays;              /* per worker */
};

static void new_condition(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

Engine *engine_new(const Workload *ops, const Settings *settings, const Load *load,
                   Planner *planner, Placement *live, const Rules *rules, Tier *const *tiers,
                   const Payload *payload) {
    Engine *e = calloc(1, sizeof *e);
    run_begin(&e->run, ops, settings, load, planner, live, rules);
    memcpy(e->tiers, tiers, sizeof e->tiers);
    e->payload = payload;
    e->lost = calloc((size_t)ops->keys + 1, 1);
    e->delays = calloc((size_t)settings->workers, sizeof *e->delays);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    /* Adaptive: the lock is held for less time than a sleep takes. */
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&e->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    cpu_set_t cores;
    e->cores = sched_getaffinity(0, sizeof cores, &cores) ? 1 : CPU_COUNT(&cores);
    pthread_cond_t *all[] = {&e->work, &e->timer, &e->ended, &e->room, &e->prefilled, &e->drained};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) new_condition(all[i]);
    e->timer_due = FAR;
    return e;
}

void engine_free(Engine *e) {
    if (!e) return;
    run_end(&e->run);
    free(e->lost);
    free(e->faults);
    free(e->delays);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

static int64_t run_time(const Engine *e) { return e->began ? clock_ns() - e->began : 0; }

static void wait_until(Engine *e, pthread_cond_t *condition, int64_t when) {
    int64_t at = e->began + when;
    struct timespec until = {at / 1000000000, at % 1000000000};
    pthread_cond_timedwait(condition, &e->lock, &until);
}

static void wake_all(Engine *e) {
    pthread_cond_broadcast(&e->work);
    pthread_cond_broadcast(&e->timer);
    pthread_cond_broadcast(&e->ended);
    pthread_cond_broadcast(&e->room);
    pthread_cond_broadcast(&e->prefilled);
    pthread_cond_broadcast(&e->drained);
}

/* Apply the time limits. Workers call this, too, as the main thread may be busy with the log. Holds
 * the lock. */
static void apply_limits(Engine *e, int64_t now) {
    if (run_apply_limits(&e->run, now)) wake_all(e);
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

void engine_feed(Engine *e) {
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
                    pthread_cond_broadcast(&e->prefilled);
                }
                wake_workers(e, false);  /* for ops admitted since the last wake-up */
                pthread_cond_wait(&e->room, &e->lock);
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
    if (position < most && taken < 0) e->run.state.stuck = e->run.stopping = true;
    e->run.exhausted = position >= most || !taken;  /* false if the run was stopped */
    e->full = true;
    end_if_over(e);
    wake_all(e);
    pthread_mutex_unlock(&e->lock);
}

int64_t engine_start(Engine *e, int64_t most_ns) {
    pthread_mutex_lock(&e->lock);
    if (e->run.planner && !e->full && !e->run.stopping)
        wait_until(e, &e->prefilled, clock_ns() + most_ns);
    bool ready = !e->run.planner || e->full || e->run.stopping;
    if (ready) {
        e->began = clock_ns();
        if (e->run.live) scheduler_begin(e->run.scheduler, 0);
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
    if (enough || !inside || e->run.set.window_bytes < UNLIMITED) pthread_cond_signal(&e->room);
}

/* ---- Workers. ---- */
/* Wake one idle worker per ready move, and one to watch the clock if nobody does. `quick`: the
 * caller will be back for the next move before another thread could wake up, so it wakes at most
 * one more worker, and none if no core is free. */
static void wake_workers(Engine *e, bool quick) {
    int64_t ready = scheduler_ready(e->run.scheduler), wake = ready < e->idle ? ready : e->idle;
    if (quick && wake) wake = ready > 1 && e->run.set.workers - e->idle < e->cores;
    for (int64_t i = 0; i < wake; i++) pthread_cond_signal(&e->work);
    bool watched = e->timer_due != FAR;
    if (ready > e->idle && watched && !quick) pthread_cond_signal(&e->timer);
    int64_t due = scheduler_next_due(e->run.scheduler);
    if (due < e->timer_due) {
        if (watched) pthread_cond_signal(&e->timer);
        else if (e->idle > wake) pthread_cond_signal(&e->work);
    }
}

/* Wait for work. One idle worker, the leader, watches the clock for ops that will be due; the
 * others are followers and wait to be woken (leader/followers: Schmidt et al., PLoP 2000). */
static void sleep_for_work(Engine *e) {
    int64_t due = scheduler_next_due(e->run.scheduler);
    if (due == FAR || due >= e->timer_due) {
        e->idle++;
        pthread_cond_wait(&e->work, &e->lock);
        e->idle--;
        return;
    }
    /* The leader waits for a later time: relieve it. */
    if (e->timer_due != FAR) pthread_cond_signal(&e->timer);
    e->timer_due = due;
    wait_until(e, &e->timer, due);
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
        pthread_cond_wait(&e->drained, &e->lock);
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
        if (e->faults_count == e->faults_room) {
            e->faults_room = e->faults_room ? 2 * e->faults_room : 64;
            e->faults = realloc(e->faults, (size_t)e->faults_room * sizeof *e->faults);
        }
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

/* Return how long a thread was ready but waited for a CPU (second number of schedstat); -1:
 * unknown. */
static int64_t run_delay(int64_t thread) {
    char path[64], text[96];
    snprintf(path, sizeof path, "/proc/self/task/%lld/schedstat", (long long)thread);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    text[got > 0 ? got : 0] = 0;
    long long waited;
    return sscanf(text, "%*d %lld", &waited) == 1 ? waited : -1;
}

static void worker_begins(Engine *e, int64_t worker) {
    __atomic_store_n(&e->delays[worker].thread, (int64_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
}

static void worker_ends(Engine *e, int64_t worker) {
    __atomic_store_n(&e->delays[worker].ended_ns, run_delay(syscall(SYS_gettid)), __ATOMIC_RELEASE);
}

int64_t engine_run_delay(Engine *e) {
    int64_t sum = 0;
    for (int64_t worker = 0; worker < e->run.set.workers; worker++) {
        Delay *d = &e->delays[worker];
        int64_t thread = __atomic_load_n(&d->thread, __ATOMIC_ACQUIRE),
                now = thread ? run_delay(thread) : 0;
        int64_t ended = __atomic_load_n(&d->ended_ns, __ATOMIC_ACQUIRE);
        if (now < 0 && !d->seen_ns && ended <= 0) return -1;
        if (now > d->seen_ns) d->seen_ns = now;
        sum += ended > d->seen_ns ? ended : d->seen_ns;
    }
    return sum;
}

/* The move of a worker while its caller makes it elsewhere. */
typedef struct { int32_t move; Record record; } MoveInHand;
static _Thread_local MoveInHand in_hand;

int engine_work(Engine *e, int64_t worker, void *buffer, Job *job, int resumed) {
    prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
    if (!resumed) worker_begins(e, worker);
    pthread_mutex_lock(&e->lock);
    if (resumed) {
        if (job->status == ERROR) note_lost(e, job);
        complete_move(e, in_hand.move, job);
        finish_record(e, &in_hand.record, job, 0);
    }
    while ((in_hand.move = next_move(e)) != NONE) {
        describe_move(e, in_hand.move, worker, &in_hand.record, job);
        pthread_mutex_unlock(&e->lock);
        if (is_elsewhere(e, (int)job->from) || is_elsewhere(e, (int)job->to)) return 1;
        PendingCheck left = {0, 0, false};
        make_move(e, job, buffer, &left);
        pthread_mutex_lock(&e->lock);
        complete_move(e, in_hand.move, job);
        int64_t early_ns = job->verify_ns;
        if (left.due) {  /* no move waits for it any more */
            wake_workers(e, false);
            pthread_mutex_unlock(&e->lock);
            if (check_bytes(e, job, left.offset, left.length, buffer)) {
                job->status = ERROR;
                note_lost(e, job);
            }
            pthread_mutex_lock(&e->lock);
        }
        finish_record(e, &in_hand.record, job, job->verify_ns - early_ns);
    }
    pthread_mutex_unlock(&e->lock);
    worker_ends(e, worker);
    return 0;
}

/* ---- Functions of the main thread. ---- */
int engine_wait(Engine *e, int64_t most_ns) {
    pthread_mutex_lock(&e->lock);
    int64_t now = run_time(e), until = now + most_ns, limit = run_next_limit(&e->run, now);
    apply_limits(e, now);
    if (limit < until) until = limit;
    if (!end_if_over(e)) wait_until(e, &e->ended, until);
    apply_limits(e, run_time(e));
    int over = end_if_over(e);
    pthread_mutex_unlock(&e->lock);
    return over;
}

void engine_stop(Engine *e) {
    pthread_mutex_lock(&e->lock);
    e->run.stopping = e->over = true;
    wake_all(e);
    pthread_mutex_unlock(&e->lock);
}

void engine_state(Engine *e, State *out) {
    pthread_mutex_lock(&e->lock);
    run_state(&e->run, out);
    pthread_mutex_unlock(&e->lock);
}

void engine_totals(Engine *e, Totals *out) {
    pthread_mutex_lock(&e->lock);
    *out = e->run.totals;
    pthread_mutex_unlock(&e->lock);
}

int64_t engine_unfinished(Engine *e, Unfinished *out, int64_t room) {
    pthread_mutex_lock(&e->lock);
    int64_t count = run_unfinished(&e->run, out, room);
    pthread_mutex_unlock(&e->lock);
    return count;
}

int64_t engine_take_records(Engine *e, const Record **out) {
    pthread_mutex_lock(&e->lock);
    int64_t count = run_take_records(&e->run.records, (const void **)out);
    pthread_cond_broadcast(&e->drained);
    pthread_mutex_unlock(&e->lock);
    return count;
}

int64_t engine_take_rows(Engine *e, const int64_t **out) {
    pthread_mutex_lock(&e->lock);
    int64_t count = run_take_records(&e->run.rows, (const void **)out);
    pthread_mutex_unlock(&e->lock);
    return count;
}

/* Split records into columns, a block at a time that stays in the CPU's caches. `fields` gives the
 * offset and bytes (1, 4 or 8) of each. It yields the core to a worker that has been woken on it:
 * the kernel would otherwise let the worker wait for milliseconds. */
void records_split(const char *records, int64_t count, int64_t stride, const int64_t (*fields)[2],
                   char *const *out, int64_t columns) {
    enum { BLOCK_RECORDS = 64 };
    for (int64_t begin = 0; begin < count; begin += BLOCK_RECORDS) {
        sched_yield();
        int64_t end = begin + BLOCK_RECORDS < count ? begin + BLOCK_RECORDS : count;
        for (int64_t column = 0; column < columns; column++) {
            const char *from = records + begin * stride + fields[column][0];
            for (int64_t i = begin; i < end; i++, from += stride) {
                if (fields[column][1] == 8) ((int64_t *)out[column])[i] = *(const int64_t *)from;
                else if (fields[column][1] == 4)
                    ((int32_t *)out[column])[i] = *(const int32_t *)from;
                else out[column][i] = *from;
            }
        }
    }
}

void engine_fault(Engine *e, int64_t number, Fault *out) {
    pthread_mutex_lock(&e->lock);
    *out = e->faults[number];
    pthread_mutex_unlock(&e->lock);
}

int64_t core_sizes(int64_t *out) {
    const int64_t sizes[] = {
        sizeof(TraceOp),     sizeof(TraceRequest), sizeof(TraceKey), sizeof(Workload),
        sizeof(PlannedMove), sizeof(TierRules),    sizeof(Rules),    sizeof(Account),
        sizeof(Totals),      sizeof(Load),         sizeof(Op),       sizeof(Move),
        sizeof(Unfinished),  sizeof(Device),       sizeof(PlannedOp), sizeof(Counts),
        sizeof(Fault),       sizeof(BlockIO),      sizeof(Extent),   sizeof(Object),
        sizeof(Settings),    sizeof(Job),          sizeof(Record),   sizeof(State),
        sizeof(Station),     sizeof(Profile),
    };
    memcpy(out, sizes, sizeof sizes);
    return sizeof sizes / sizeof *sizes;
}
