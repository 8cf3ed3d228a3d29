/* The book-keeping of an execution, which engine.c (on the real clock) and prediction.c (on a
 * computed one) share: the window, the time limits, what has been executed, and rows of the log.
 *
 * Locks: one thread at a time may call what is declared here; an engine's threads hold its lock.
 */
#pragma once
#include "engine.h"
#include <pthread.h>

/* Records that wait for the caller; taken by swapping buffers. It has room for many from the start,
 * which the kernel backs when it is used: while a growing buffer was copied, every thread would
 * wait. */
enum { RECORDS_MOST = 1 << 18 };
typedef struct { char *filling, *taken; int64_t count, room, taken_room; } RecordBuffer;

typedef struct {
    pthread_mutex_t *lock;      /* an engine's; NULL: there is one thread */
    pthread_cond_t *drained;    /* an engine's: the records have been taken */

    /* Set by run_begin and not changed afterwards. */
    const Workload *ops;
    Settings set;
    Planner *planner;           /* NULL: placement is decided during the run */
    Placement *live;            /* decides placement during the run; NULL: a plan is executed */
    bool inclusive;             /* several tiers may hold an object */

    Scheduler *scheduler;
    bool exhausted;             /* the whole plan has been admitted */
    bool stopping;              /* the run ends before its plan does */
    int64_t limit, highest;     /* positions: where the run is cut; the highest one started */
    State state;
    Totals totals;
    int64_t in_flight;          /* moves taken and not recorded */
    RecordBuffer records, rows;
} Run;

void run_begin(Run *r, const Workload *ops, const Settings *settings, const Load *load,
               Planner *planner, Placement *live, const Rules *rules);
void run_end(Run *r);           /* frees what it holds */

/* Apply the time limits: cut the run, end its drain, end the warm-up. Returns whether the run is
 * cut or stopped now and was not before. */
bool run_apply_limits(Run *r, int64_t now);
void run_refuse(Run *r);        /* memory ran out: no more moves start */
/* The time of the next limit after now, or FAR. */
int64_t run_next_limit(const Run *r, int64_t now);
bool run_is_finished(const Run *r);
bool run_has_room(const Run *r);        /* the window may admit one more op */
void run_admit(Run *r, int64_t position, const PlannedOp *op, const PlannedMove *moves,
               int64_t now);
/* Take the most urgent move that this run may start, or NONE. */
int32_t run_take(Run *r);
void run_describe(Run *r, int32_t move, int64_t worker, Record *out);
/* Fill in the record's outcome, count it, and add it to the log. */
void run_record(Run *r, Record *record);
/* Ops that are executed leave the window. Returns whether there were any. */
bool run_retire(Run *r);
