/* The compiled core: the declarations that its files share. docs/waterfall.md, docs/ordering.md and
 * docs/serving.md describe what it does.
 *
 * The files: heap.h, numbers.h (a set whose least number is found at once), memory.h, placement.c
 * (which tier holds which object), policies/ (which object is evicted), scheduler.c (which moves may
 * run, and when ops are due), devices.c (shared bandwidth on the virtual clock), serving.c (an
 * engine's scheduler on it), planner.c (a plan in some order), workload.c and keys.c (the ops of a
 * trace), counting.c (counts of a plan), payload.c, extents.c, tiers.c, uring.c (I/O),
 * run.c (book-keeping of an execution), engine.c (workers on the real clock), stations.c and
 * prediction.c (an execution on the computed clock of a measured machine). Times are nanoseconds.
 * Indices of moves and ops are pool slots; -1: none.
 *
 * No file knows Python: replayer/bindings/compiled.py calls these functions through ctypes, which
 * releases the GIL.
 *
 * Locks: Engine has one (engine.c), each Tier one for the objects it holds and one per direction
 * for its throttle (tiers.c). Everything else belongs to one thread at a time.
 */
#pragma once
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

enum { GPU, CPU, NVME, TIERS };
enum { HIT, STORE, MISS, DEMOTE, PROMOTE, DROP, BYPASS, DELETE, COPY, MOVE_KINDS };
enum { WRITE, READ, REMOVE };   /* what an op asks for: `op` of a trace */
enum { PREFILL, DECODE };
enum { OK, ERROR, UPSTREAM };
enum { WAIT_NONE = -1, WAIT_DATA, WAIT_EVICTION, WAIT_ROOM };
#define NONE (-1)
#define NOWHERE TIERS
#define UNLIMITED (INT64_C(1) << 62)
#define NEVER (-1)
#define FAR (INT64_C(1) << 62)
#define OUT_OF_MEMORY (-2)      /* memory.h; functions that make something return NULL */

/* The selected ops of a trace, in memory; the arrays belong to the caller. All that one step of the
 * core needs of an op, a request or a key is in one structure, because it is seldom in the CPU's
 * caches. Nothing here changes after workload_index, so threads read it without a lock. */
typedef struct {
    int64_t op_id;
    uint32_t key;
    int32_t request, step, new_tokens, tokens;
    uint8_t op, phase, qos, source;
} TraceOp;
typedef struct {
    int64_t time_ns, think_ns, session, user;   /* of the request's first op */
    int32_t turn;
    int32_t next;               /* the user's next request, or -1 */
    int32_t begin, count;       /* its ops in `rows` */
} TraceRequest;
typedef struct {
    int64_t size;               /* in bytes, of the tokens that are stored */
    int32_t tokens;
    int32_t stored;             /* tokens of it that are stored (docs/arrangements.md, Chunks) */
    int32_t has_write;          /* one of the ops writes it */
} TraceKey;
typedef struct {
    int64_t ops, requests, users, keys;
    const TraceOp *op;          /* by row */
    const TraceRequest *request;
    const TraceKey *key;
    const int32_t *rows;        /* by request, in order */
    const int32_t *first;       /* per user: the first request, or -1 */
} Workload;
/* Columns of a trace, as tracegen.schema declares them. */
typedef struct {
    const int64_t *op_id, *time_ns, *request_id, *session_id, *user_id, *key, *think_ns;
    const int32_t *turn, *step, *tokens, *new_tokens;
    const uint8_t *qos, *phase, *op, *source;
} TraceColumns;

/* ---- A move as it is decided. ---- */
typedef struct {
    int64_t size;
    uint32_t key;
    int8_t kind, from, to;      /* tiers; -1: the host */
    int8_t background;          /* flag: its request does not wait for it */
} PlannedMove;

static inline bool transfers(int kind) {
    return kind == HIT || kind == STORE || kind == DEMOTE || kind == PROMOTE || kind == COPY;
}

static inline bool leaves_source(int64_t kind) {
    return kind == DEMOTE || kind == PROMOTE || kind == DROP || kind == DELETE;
}

/* ---- placement.c: an arrangement of the tiers (docs/arrangements.md). ---- */
enum { ON_EVICT, ON_STORE, ON_TOUCH };      /* down */
enum { STAY, MOVE_UP, COPY_UP, COPY_TOP };  /* up */
typedef struct {
    int64_t usable;             /* bytes; UNLIMITED; 0: no such tier */
    int64_t capacity;           /* usable plus the headroom, which holds objects in transit */
    int64_t down, touches;      /* touches: of ON_TOUCH */
    int64_t admit_touches;      /* 1: always */
    int64_t admit_table;        /* keys; 0: all */
    int64_t up;
    int64_t policy;             /* its index in the table of policies */
    int64_t high, low;          /* bytes; high UNLIMITED: nothing is evicted in the background */
    int64_t evict_ppm;          /* millionths of the bytes used, instead of down to `low`; 0: none */
    int64_t fetch_tokens;
    int64_t fetch_in_flight;    /* tokens; UNLIMITED */
    int64_t user_quota;         /* bytes; UNLIMITED */
} TierRules;
typedef struct {
    TierRules tier[TIERS];
    int64_t inclusive, contiguous; /* flags */
    int64_t first_writes;       /* flag: the first op on a key writes it */
    int64_t with_room;          /* flag: a store takes the fastest tier with room; no demotions */
    int64_t touch_all;          /* flag: a hit touches the object in all its tiers */
    int64_t tail_first;         /* flag: of a prompt's objects the last is the least recent */
    int64_t ttl_ns;             /* 0: objects do not expire */
    int64_t pinned;             /* bit s: objects of source s are never evicted */
} Rules;

/* The finaliser of SplitMix64 (Steele et al., OOPSLA'14), a bijection on 64-bit words. */
static inline uint64_t mix(uint64_t word) {
    word = (word ^ word >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    word = (word ^ word >> 27) * UINT64_C(0x94D049BB133111EB);
    return word ^ word >> 31;
}

static inline void capacities(const Rules *rules, int64_t *out) {
    for (int tier = 0; tier < TIERS; tier++) out[tier] = rules->tier[tier].capacity;
}

typedef struct Placement Placement;
/* `rows`: the `count` ops in the order in which they will be decided; NULL: that of the trace. */
Placement *placement_new(const Workload *workload, const Rules *rules, const int32_t *rows,
                         int64_t count);
void placement_free(Placement *p);
/* Decide the op of a row, the next in order. Returns its role (WRITE, READ, REMOVE); its moves are
 * valid until the next call. */
int placement_decide(Placement *p, int64_t row, const PlannedMove **moves, int64_t *count);
/* What a placement has done so far, per tier. */
typedef struct {
    int64_t used[TIERS], resident[TIERS], peak[TIERS], peak_objects[TIERS];
    int64_t admitted[TIERS], refused[TIERS];    /* offers to a tier with admit_touches above 1 */
    int64_t fetches[TIERS], fetches_refused[TIERS]; /* requests that asked, or could not ask */
    int64_t largest;            /* bytes of the largest object asked for */
    /* of a serving engine: clock_ns: without the time in which it had nothing to do; held_ns: of
     * that time, summed over the blocks that requests held */
    int64_t steps, preemptions, clock_ns;
    double held_ns;
} Account;
void placement_account(const Placement *p, Account *out);
static inline void account_enter(Account *a, int tier, int64_t size) {
    a->used[tier] += size;
    a->resident[tier]++;
    if (a->used[tier] > a->peak[tier]) a->peak[tier] = a->used[tier];
    if (a->resident[tier] > a->peak_objects[tier]) a->peak_objects[tier] = a->resident[tier];
}
static inline void account_leave(Account *a, int tier, int64_t size) {
    a->used[tier] -= size;
    a->resident[tier]--;
    assert(a->used[tier] >= 0 && a->resident[tier] >= 0);
}

/* ---- Sums over moves: counts and bytes per (move, from, to); tier -1 is the last of four. ---- */
typedef struct {
    int64_t ops, reads, recomputed_tokens;
    int64_t counts[MOVE_KINDS][4][4], bytes[MOVE_KINDS][4][4];
} Totals;
void totals_op(Totals *t, int role);
/* Add a move of the op of a row, the `seq`-th. */
void totals_move(Totals *t, const Workload *w, int64_t row, int64_t seq, const PlannedMove *m);

/* ---- scheduler.c: for executing a plan, and for deciding placement during the run. ---- */
typedef struct {
    int64_t pace;               /* 0 asap, 1 closed, 2 open */
    double speedup, token_ms, prefill_tok_s;   /* prefill_tok_s 0: takes no time */
    int64_t depth;              /* ops of a step in flight; 0: all */
    int64_t allocs;             /* stores in flight; 0: any number */
    int64_t workers;            /* asap without a plan: requests in progress */
} Load;
enum { ASAP, CLOSED, OPEN };
/* A time or a pause of the trace, as the load has it. */
static inline int64_t scaled(const Load *load, int64_t ns) {
    return (int64_t)((double)ns / load->speedup);
}
/* Whether an op reads or writes an object of its request's prompt. */
static inline bool is_of_prompt(const TraceOp *op) {
    return op->phase == PREFILL && op->op != REMOVE;
}

typedef struct {
    int64_t position, due_ns, end_ns, wait_ns, admitted_ns;
    int32_t row, request, first_move, last_move, next, moves;
    int32_t planned;            /* row of the op that the plan gave its moves to */
    int32_t place;              /* in the ring of ops by position */
    int32_t left;               /* moves that are not done */
    int32_t foreground;         /* of them, those that its request waits for */
    int8_t qos, role;
    int8_t is_due;              /* of a plan */
    int8_t retired;
} Op;

typedef struct {
    int64_t number, size, ready_ns;
    int64_t order_ns;           /* of ready_ns - due_ns: waiting for moves that were not due */
    int64_t pulled_ns;          /* when an eviction was pulled (scheduler.c); else NEVER */
    uint32_t key;
    int32_t op, next, dependents, blockers, group, ledger;
    int32_t needs;              /* of a plan: moves that it waited for when it was admitted */
    int32_t seq;
    int8_t kind, from, to, waited_for;
    int8_t background;          /* as planned */
} Move;

typedef struct Scheduler Scheduler;
/* `inclusive`: several tiers may hold an object, so moves are ordered per key and tier; else per
 * key. */
Scheduler *scheduler_new(const Workload *workload, const int64_t *capacity, const Load *load,
                         Placement *decides, bool inclusive);
void scheduler_free(Scheduler *s);
void scheduler_begin(Scheduler *s, int64_t now);
void scheduler_admit(Scheduler *s, int64_t position, int64_t row, int role,
                     const PlannedMove *moves, int64_t count, int64_t now);
void scheduler_release(Scheduler *s, int64_t now);
int64_t scheduler_next_due(const Scheduler *s);
int32_t scheduler_take(Scheduler *s);   /* returns a move to start, or NONE */
void scheduler_give_back(Scheduler *s, int32_t move);
void scheduler_complete(Scheduler *s, int32_t move, int64_t end_ns, int64_t now);
int64_t scheduler_ready(const Scheduler *s);
Op *scheduler_op(Scheduler *s, int32_t op);
Move *scheduler_move(Scheduler *s, int32_t move);
/* The op of the lowest position not retired, or NONE. */
int32_t scheduler_lowest(const Scheduler *s);
/* The caller is done with the lowest op, which is freed when its moves are done. */
void scheduler_retire(Scheduler *s);
int64_t scheduler_decided(const Scheduler *s);
void scheduler_decide_no_more(Scheduler *s, int64_t positions);  /* none from this position on */
int64_t scheduler_window_bytes(const Scheduler *s);
int64_t scheduler_in_window(const Scheduler *s);
/* A request that was due and is not done. */
typedef struct {
    int64_t request, due_ns;
    int32_t qos;
    int32_t in_prefill;         /* flag: ops of its prefill are not done */
} Unfinished;
/* List the requests that were due before `until` and are not done; NEVER: those that have begun.
 * Returns their number, and the first `room` of them in `out`. */
int64_t scheduler_unfinished(const Scheduler *s, int64_t until, Unfinished *out, int64_t room);
/* For tests: entries of each tier's ledger; ops, moves, edges, groups, needs in use; keys waited
 * for. */
void scheduler_account(const Scheduler *s, int64_t *out);

/* ---- devices.c ---- */
typedef struct {
    int64_t read_bytes_per_s, write_bytes_per_s, streams, read_latency_ns, write_latency_ns;
} Device;
typedef struct Devices Devices;
Devices *devices_new(const Device *tiers);
void devices_free(Devices *d);
void devices_start(Devices *d, int32_t id, int from, int to, int64_t bytes, int64_t now);
int64_t devices_next(const Devices *d);                 /* time of the next event, or FAR */
/* Returns the number of moves whose last transfer ended, and their ids. */
int32_t devices_advance(Devices *d, int64_t now, int32_t *ended, int32_t most);

/* ---- serving.c: a serving engine on the virtual clock (docs/serving.md). ---- */
typedef struct {
    int64_t block_tokens, gpu_blocks, cpu_blocks;
    int64_t seqs, batched_tokens;           /* at most, in a step */
    int64_t step_ns, tokens_per_s;
    int64_t has_disk;                       /* flag: behind the CPU tier */
    int64_t transfer_steps, read_steps, write_steps;    /* read, write: of the disk */
} ServingRules;
typedef struct Serving Serving;
typedef struct { int64_t row, role, moves; } PlannedOp;
Serving *serving_new(const Workload *workload, const ServingRules *rules, const Load *load);
void serving_free(Serving *s);
/* Take steps until about `most` more ops are decided; as planner_next. */
int64_t serving_plan(Serving *s, int64_t most, const PlannedOp **ops, const PlannedMove **moves);
void serving_account(const Serving *s, Account *out);

/* ---- planner.c ---- */
enum { BY_TRACE, BY_ROWS, BY_REFERENCE, BY_SERVING };
typedef struct Planner Planner;
/* `devices`: of a reference system; `serving`: of a serving engine, in place of `rules`. */
Planner *planner_new(const Workload *workload, const Rules *rules, int64_t order,
                     const int32_t *rows, int64_t count, const Load *load, const Device *devices,
                     const ServingRules *serving, int64_t workers);
void planner_free(Planner *p);
/* Plan about `most` more ops; they and their moves are valid until the next call. Returns the
 * number of ops; 0: the plan is complete; -1: no op can proceed, which would be a defect;
 * OUT_OF_MEMORY. */
int64_t planner_next(Planner *p, int64_t most, const PlannedOp **ops, const PlannedMove **moves);
void planner_account(const Planner *p, Account *out);

/* Write what the fingerprint covers of an op's move, seven numbers. Returns the next row. */
static inline int64_t *write_row(int64_t *row, int64_t op_id, int64_t seq, const PlannedMove *m) {
    const int64_t numbers[7] = {op_id, seq, m->kind, m->key, m->from, m->to, m->size};
    memcpy(row, numbers, sizeof numbers);
    return row + 7;
}

/* ---- counting.c: what a plan does, in sums (docs/simulating.md). ---- */
enum { RAG = 4, SOURCES };      /* `source` of a trace: a document's, and how many words it has */
enum { PARTS = 2 };             /* of the requests of a trace */
typedef struct {
    Totals totals;
    int64_t reads[SOURCES], hits[SOURCES][TIERS];   /* of prefills, as all that follow */
    int64_t prompt_tokens[SOURCES];
    int64_t spared_tokens[SOURCES][TIERS];          /* of reads that hit */
    /* with an op; with a read; with a read that missed */
    int64_t requests, reading_requests, missing_requests;
    int64_t headless;           /* reads that missed what a tier holds, behind a lost beginning */
    int64_t entries[TIERS], read_entries[TIERS];    /* objects that came; that were read there */
    int64_t drops[TIERS], free_drops[TIERS];    /* free: a slower tier holds the object */
} Counts;
/* The arrays belong to the caller, who zeroes them at the start. */
typedef struct {
    Counts parts[PARTS];
    const uint8_t *part_of;     /* per request: its part; NULL: all are of the first */
    const int32_t *minute;      /* per request: when it arrives; NULL: no bytes by minute */
    int64_t minutes;
    int64_t *bytes;             /* [part][minute][read or write][tier] */
    uint8_t *request, *key;     /* per request and key: flags */
} Counter;

/* ---- payload.c ---- */
enum { SECTOR = 512, BLOCK = 1 << 20 };
typedef struct Payload Payload;
void payload_fill(const Payload *p, void *buffer, uint64_t key, int64_t offset, int64_t length);
void payload_pad(const Payload *p, void *buffer, uint64_t key, int64_t offset, int64_t length,
                 int64_t whole);
/* Returns 0 if the bytes are right, else 1, and `text` says what is wrong. */
int payload_check(const Payload *p, const void *buffer, uint64_t key, int64_t offset,
                  int64_t length, int every_byte, char *text, int64_t size);

/* ---- tiers.c: I/O. Calls return 0 or an errno, and describe the error in the fault. ---- */
enum { ALIGNMENT = 4096 };
enum { FAULT_CALL, FAULT_OWN, FAULT_CORRUPT };
typedef struct {
    int64_t error, kind;        /* error: errno; FAULT_CALL: text is a path, else the reason */
    char text[240];
} Fault;
typedef struct {
    int64_t request_bytes, depth, fsync, uring;
} BlockIO;
typedef struct Tier Tier;
typedef struct { int64_t start, bytes; } Extent;
typedef struct {
    Tier *tier;
    uint64_t key;
    int64_t size, device_ns, extents;
    int64_t claimed;           /* bytes of a new file that are not written yet */
    Extent extent;              /* the first of several */
    Extent *extent_list;        /* NULL: there is one extent */
    int fd;
} Object;
void tier_wait_at_most(Tier *t, int64_t until);    /* when a throttle's waits end, on clock_ns() */
int tier_keeps_bytes(const Tier *t);
int tier_chunked(const Tier *t);
int tier_is_elsewhere(const Tier *t);
int object_create(Tier *t, Object *o, uint64_t key, int64_t size, Fault *f);
int object_open(Tier *t, Object *o, uint64_t key, int64_t size, Fault *f);
int object_read(Object *o, int64_t offset, int64_t length, void *buffer, Fault *f);
int object_write(Object *o, int64_t offset, int64_t length, const void *buffer, Fault *f);
int object_finish(Object *o, Fault *f);
void object_close(Object *o);
int object_discard(Tier *t, uint64_t key, Fault *f);

/* ---- extents.c: free room as runs of units; an allocation takes one or more. ---- */
typedef struct Extents Extents;
Extents *extents_new(int64_t units);
void extents_free(Extents *e);
int64_t extents_room(const Extents *e);
/* Take `units` as up to `most` extents, in units. Returns their number; 0: too few units are free;
 * -1: `most` extents are too few. */
int64_t extents_take(Extents *e, int64_t units, Extent *out, int64_t most);
void extents_give(Extents *e, int64_t start, int64_t units);

/* ---- uring.c ---- */
typedef struct {
    int fd;
    int write;
    int64_t at;
    char *memory;
    int64_t bytes, least, done; /* asked for; needed; transferred so far */
    int error;
} IoRequest;
int uring_probe(void);          /* 0, or the errno with which io_uring is refused */
/* Completes all requests; returns 0 or an errno of the ring. */
int uring_run(IoRequest *requests, int64_t count, int64_t depth);

int64_t clock_ns(void);
