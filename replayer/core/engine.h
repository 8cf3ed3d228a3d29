/* What the engine shares with its caller: settings, a move made elsewhere, the rows of the log. */
#pragma once
#include "core.h"

typedef struct {
    int64_t workers, chunk, verify;         /* verify: 0 off, 1 stamps, 2 every byte */
    int64_t window_ops, window_bytes;
    int64_t duration_ns, drain_ns, most_ops; /* -1: none; drain_ns counts from the cut */
    int64_t warmup_position, warmup_ns, max_errors;
    int64_t trace_order;                    /* positions are op_ids */
} Settings;

/* A move, and how it went; start_ns … done_ns on clock_ns(). */
typedef struct {
    int64_t kind, key, from, to, size;
    int64_t status, start_ns, done_ns, read_ns, write_ns, device_read_ns, device_write_ns, verify_ns;
    Fault fault;
} Job;

typedef struct {
    int64_t op_id, position, request_id, session_id, user_id, key, size_bytes;
    int64_t due_ns, ready_ns, start_ns, end_ns, read_ns, write_ns, device_read_ns, device_write_ns, verify_ns, window_ns, order_ns;
    int32_t seq, turn, step, new_tokens, tokens, worker, error;    /* error: number of its fault, or -1 */
    int8_t qos, phase, op, source, move, status, from_tier, to_tier, waited_for, warmup;
} Record;

typedef struct {
    int64_t over, cut, cut_ns, stopped_ns, issued_ns, ended_ns, steady_ns, retired, executed, failures, warmup_position;
    int64_t nvme_read_bytes, log_stalled_ns, reads, hits, moved_bytes, in_window, too_many_errors, stuck;
    int64_t left;               /* of a run that is cut: positions that are still to be executed, at most */
} State;

typedef struct Engine Engine;
Engine *engine_new(const Workload *ops, const Settings *settings, const Load *load, Planner *planner, Waterfall *live,
                   const Rules *rules, Tier *const *tiers, const Payload *payload);
void engine_free(Engine *e);
void engine_feed(Engine *e);                    /* plans ahead; a thread of its own, for as long as there is a plan */
int64_t engine_start(Engine *e, int64_t most_ns); /* when the window is full the clock starts: clock_ns() then, else 0 */
/* Works till a move must be made elsewhere (1), or the run is over (0). `resumed`: the job's move has been made. */
int engine_work(Engine *e, int64_t worker, void *buffer, Job *job, int resumed);
int engine_wait(Engine *e, int64_t most_ns);    /* whether the run is over */
void engine_stop(Engine *e);                    /* nothing more is started */
/* How long all workers so far waited for a CPU in ns; -1: the kernel does not say. One caller at a time. */
int64_t engine_run_delay(Engine *e);
void engine_state(Engine *e, State *out);
void engine_totals(Engine *e, Totals *out);
/* What has been recorded since the last call, valid until the next: rows of the log; moves of ops executed, in the plan's
 * order, seven numbers each, for the fingerprint. */
int64_t engine_take_records(Engine *e, const Record **out);
int64_t engine_take_rows(Engine *e, const int64_t **out);
void records_split(const char *records, int64_t count, int64_t stride, const int64_t (*fields)[2], char *const *out, int64_t columns);
void engine_fault(Engine *e, int64_t number, Fault *out);
/* For tests: sizes of the structures that are shared with callers, as they stand in core.h and then here. */
int64_t core_sizes(int64_t *out);
