/* The structures that the engine and predictions share with their caller: settings, a move made
 * elsewhere, rows of the log, a measured machine. Functions that only the caller uses are not
 * declared in headers: bindings/compiled.py has their signatures. */
#pragma once
#include "core.h"

typedef struct {
    int64_t workers, chunk, verify;         /* verify: 0 off, 1 stamps, 2 every byte */
    int64_t window_ops, window_bytes;
    int64_t duration_ns, drain_ns, most_ops; /* -1: no limit; drain_ns counts from the cut */
    int64_t warmup_position, warmup_ns, max_errors;
    int64_t trace_order;                    /* flag: positions are op_ids */
    int64_t cores;                          /* that workers may use */
} Settings;

/* A move, its times and its outcome; start_ns and done_ns are on clock_ns(). */
typedef struct {
    int64_t kind, key, from, to, size;
    int64_t status, start_ns, done_ns, read_ns, write_ns, device_read_ns, device_write_ns,
        verify_ns;
    Fault fault;
} Job;

typedef struct {
    int64_t op_id, position, request_id, session_id, user_id, key, size_bytes;
    int64_t due_ns, ready_ns, start_ns, end_ns, read_ns, write_ns, device_read_ns, device_write_ns,
        verify_ns, window_ns, order_ns;
    int32_t seq, turn, step, new_tokens, tokens, worker;
    int32_t error;              /* number of its fault, or -1 */
    int8_t qos, phase, op, source, move, status, from_tier, to_tier, waited_for, warmup;
} Record;

typedef struct {
    int64_t over, cut, cut_ns, stopped_ns, issued_ns, ended_ns, steady_ns, retired, executed,
        failures, warmup_position;
    int64_t nvme_read_bytes, log_stalled_ns, in_window, too_many_errors, stuck;
    int64_t left;               /* of a run that was cut: most positions still to be executed */
    int64_t in_flight, queued;  /* moves that workers make; moves that wait for a worker */
    int64_t refused_bytes;      /* 0, or the memory for want of which the run ended */
} State;

/* ---- A measured machine (docs/predicting.md). ---- */
enum { POINTS = 16 };
enum { QUANTILES = 9 };
/* Reads or writes of a tier: costs at some loads, in ascending order. A stage whose costs are all 0
 * is skipped. */
typedef struct {
    int64_t points;
    int64_t has_spread;         /* flag */
    double load[POINTS];
    double open_ns[POINTS], latency_ns[POINTS], byte_ns[POINTS];
    double remove_ns[POINTS];   /* of the write station */
    double spread[POINTS][QUANTILES];
    double other_weight;        /* how much a visit to the tier's other station adds to the load */
    double turn_bytes;          /* what one visit transfers before the next has its turn */
} Station;
typedef struct {
    Station tier[TIERS][2];     /* by direction: READS, WRITES */
    double cores;
    double make_byte_ns, check_byte_ns, move_ns;    /* work of the CPU */
} Profile;
enum { READS, WRITES };
