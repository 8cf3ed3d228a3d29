/* The compiled core: what its files share. docs/waterfall.md, docs/ordering.md and docs/core.md say what it does.
 *
 * One file each: heap.h, numbers.h (a set whose least is found at once), memory.h, waterfall.c (what lies where),
 * scheduler.c (what may run, and when it is due), devices.c (shared bandwidth on the virtual clock), planner.c (a plan in
 * some order), payload.c, extents.c, tiers.c, uring.c (I/O), engine.c (workers on the real clock). Times are nanoseconds.
 * Indices of moves and ops are pool slots; -1 is none.
 * No file knows Python: replayer/bindings/compiled.py calls these functions through ctypes, which releases the interpreter's lock.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { GPU, CPU, NVME, TIERS };
enum { HIT, STORE, MISS, DEMOTE, PROMOTE, DROP, BYPASS, DELETE };
enum { WRITE, READ, REMOVE };           /* what an op asks for: tracegen.schema's codes of `op` */
enum { PREFILL, DECODE };
enum { OK, ERROR, UPSTREAM };
enum { WAIT_NONE = -1, WAIT_DATA, WAIT_EVICTION, WAIT_ROOM };
#define NONE (-1)
#define NOWHERE TIERS
#define UNLIMITED (INT64_C(1) << 62)
#define NEVER (-1)
#define FAR (INT64_C(1) << 62)

/* ---- The ops of a trace that are taken, in memory; the arrays belong to the caller. What one step of the core needs of an op,
 * a request or a key lies in one structure, because it is seldom in the CPU's caches. ---- */
typedef struct {
    int64_t op_id;
    uint32_t key;
    int32_t request, step, new_tokens, tokens;
    uint8_t op, phase, qos, source;
} TraceOp;
typedef struct {
    int64_t time_ns, think_ns, session, user;   /* of its first op */
    int32_t turn;
    int32_t next;               /* the user's next request, or -1 */
    int32_t begin, count;       /* its ops in `rows` */
} TraceRequest;
typedef struct {
    int64_t size;               /* bytes */
    int32_t tokens;
    int32_t has_write;          /* its write is among the ops */
} TraceKey;
typedef struct {
    int64_t ops, requests, users, keys;
    const TraceOp *op;          /* by row */
    const TraceRequest *request;
    const TraceKey *key;
    const int32_t *rows;        /* by request, in order */
    const int32_t *first;       /* per user: its first request, or -1 */
} Workload;
/* Columns of a trace as tracegen.schema has them. */
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
} Planned;

/* ---- waterfall.c ---- */
typedef struct Waterfall Waterfall;
typedef struct {
    int64_t usable[TIERS];      /* UNLIMITED; 0: no such tier */
    int64_t capacity[TIERS];    /* the same with the headroom, which holds what is in transit */
    int64_t promote, contiguous, first_writes;  /* flags; first_writes: whoever comes first to a key writes it */
    int64_t spills;             /* a store takes the fastest tier with room, and nothing is demoted */
} Rules;

Waterfall *waterfall_new(const Workload *workload, const Rules *rules);
void waterfall_free(Waterfall *w);
/* Decide the op of a row, the next in order: its role (WRITE, READ, REMOVE) and its moves, valid until the next call. */
int waterfall_decide(Waterfall *w, int64_t row, const Planned **moves, int64_t *count);
/* used, resident, peak bytes and peak objects per tier, then the largest object: 13 numbers. */
void waterfall_account(const Waterfall *w, int64_t *out);

/* ---- Sums over moves: counts and bytes per (move, from, to), -1 the last of four. ---- */
typedef struct {
    int64_t ops, reads, recomputed_tokens, moved_bytes;
    int64_t counts[8][4][4], bytes[8][4][4];
} Totals;
void totals_op(Totals *t, int role);
void totals_move(Totals *t, const Workload *w, int64_t seq, const Planned *m);

/* ---- scheduler.c: one state for a plan that is executed and for a placement that is decided on the way. ---- */
typedef struct {
    int64_t pace;               /* 0 asap, 1 closed, 2 open */
    double speedup, token_ms, prefill_tok_s;   /* prefill_tok_s 0: takes no time */
    int64_t depth;              /* ops of a step at once; 0: all */
    int64_t allocs;             /* stores in flight; 0: any number */
    int64_t workers;            /* asap without a plan: requests in progress */
} Load;
enum { ASAP, CLOSED, OPEN };

typedef struct {
    int64_t position, due_ns, end_ns, wait_ns, admitted_ns;
    int32_t row, request, first_move, last_move, left, next, moves;
    int8_t qos, role;
    int8_t is_due;              /* of a plan */
    int8_t retired;
} Op;

typedef struct {
    int64_t number, size, ready_ns;
    int64_t order_ns;           /* of ready - due: waiting for what was not due itself */
    int64_t pulled_ns;          /* an eviction that another op needs before its own op is due: since when; else NEVER */
    uint32_t key;
    int32_t op, next, dependents, blockers, group, ledger;
    int32_t needs;              /* of a plan: what it was told to wait for */
    int32_t seq;
    int8_t kind, from, to, waited_for;
} Move;

typedef struct Scheduler Scheduler;
Scheduler *scheduler_new(const Workload *workload, const int64_t *capacity, const Load *load, Waterfall *decides);
void scheduler_free(Scheduler *s);
void scheduler_begin(Scheduler *s, int64_t now);
void scheduler_admit(Scheduler *s, int64_t position, int64_t row, int role, const Planned *moves, int64_t count, int64_t now);
void scheduler_release(Scheduler *s, int64_t now);
int64_t scheduler_next_due(const Scheduler *s);
int32_t scheduler_take(Scheduler *s);   /* a move to start, or NONE */
void scheduler_give_back(Scheduler *s, int32_t move);
void scheduler_complete(Scheduler *s, int32_t move, int64_t end_ns, int64_t now);
int64_t scheduler_ready(const Scheduler *s);
Op *scheduler_op(Scheduler *s, int32_t op);
Move *scheduler_move(Scheduler *s, int32_t move);
int32_t scheduler_lowest(const Scheduler *s);           /* the op of the lowest position not retired, or NONE */
void scheduler_retire(Scheduler *s);                    /* the caller needs it no more: it goes when its moves are done */
int64_t scheduler_decided(const Scheduler *s);
void scheduler_decide_no_more(Scheduler *s, int64_t positions);  /* none from this position on */
int64_t scheduler_window_bytes(const Scheduler *s);
int64_t scheduler_in_window(const Scheduler *s);
/* For tests, what is remembered: entries of each tier's ledger; ops, moves, edges, groups and needs in use; keys waited for. */
void scheduler_account(const Scheduler *s, int64_t *out);

/* ---- devices.c ---- */
typedef struct {
    int64_t read_bytes_per_s, write_bytes_per_s, streams, read_latency_ns, write_latency_ns;
} Device;
typedef struct Devices Devices;
Devices *devices_new(const Device *tiers);
void devices_free(Devices *d);
void devices_start(Devices *d, int32_t id, int from, int to, int64_t bytes, int64_t now);
int64_t devices_next(const Devices *d);                 /* when something happens next, or FAR */
int32_t devices_advance(Devices *d, int64_t now, int32_t *ended, int32_t most);  /* ids whose last transfer ended */

/* ---- planner.c ---- */
enum { BY_TRACE, BY_ROWS, BY_REFERENCE };
typedef struct Planner Planner;
typedef struct { int64_t row, role, moves; } PlannedOp;
Planner *planner_new(const Workload *workload, const Rules *rules, int64_t order, const int32_t *rows, int64_t count,
                     const Load *load, const Device *devices, int64_t workers);
void planner_free(Planner *p);
/* The next ops and their moves, valid until the next call, about `most` ops; how many. 0: there are no more; -1: nothing
 * can go on, which would be a defect. */
int64_t planner_next(Planner *p, int64_t most, const PlannedOp **ops, const Planned **moves);
const Waterfall *planner_waterfall(const Planner *p);

/* ---- payload.c ---- */
enum { SECTOR = 512, BLOCK = 1 << 20 };
typedef struct Payload Payload;
Payload *payload_new(const uint64_t *pool);
void payload_free(Payload *p);
void payload_fill(const Payload *p, void *buffer, uint64_t key, int64_t offset, int64_t length);
void payload_pad(const Payload *p, void *buffer, uint64_t key, int64_t offset, int64_t length, int64_t whole);
int payload_check(const Payload *p, const void *buffer, uint64_t key, int64_t offset, int64_t length, int every_byte,
                  char *text, int64_t size);            /* 0, or 1 and what is wrong */

/* ---- tiers.c: I/O and nothing else. Calls return 0 or an errno, and say more in the fault. ---- */
enum { ALIGNMENT = 4096 };
enum { FAULT_CALL, FAULT_OWN, FAULT_CORRUPT };
typedef struct {
    int64_t error, kind;        /* errno; FAULT_CALL: text is a path, else it is what went wrong */
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
    int64_t promised;           /* bytes of a new file that are not written yet */
    Extent one;
    Extent *many;
    int fd;
} Object;
Tier *tier_null(void);
Tier *tier_memory(void *arena, int64_t bytes, int64_t unit, const char *name);
Tier *tier_files(int folder, const char *path, const BlockIO *io, int direct);
Tier *tier_slab(const int *files, int64_t count, int64_t slab, int64_t bytes, int64_t unit, const BlockIO *io, const char *path);
Tier *tier_elsewhere(void);     /* its moves are made by the caller of engine_work */
void tier_free(Tier *t);
void tier_budget(Tier *t, int64_t bytes);
void tier_reserve(Tier *t, int64_t bytes);
void tier_throttle(Tier *t, double read_mib_s, double write_mib_s, double latency_us);
void tier_wait_turn(Tier *t, int side, int64_t bytes, int64_t began);
void tier_stop_waiting(Tier *t);
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

/* ---- extents.c: free room as runs of units; an allocation is as many extents as it takes. ---- */
typedef struct Extents Extents;
Extents *extents_new(int64_t units);
void extents_free(Extents *e);
int64_t extents_room(const Extents *e);
/* Up to `most` extents (in units) for so many units; how many, 0: not so much is free, -1: `most` are too few. */
int64_t extents_take(Extents *e, int64_t units, Extent *out, int64_t most);
void extents_give(Extents *e, int64_t start, int64_t units);

/* ---- uring.c ---- */
typedef struct { int fd; int write; int64_t at; char *memory; int64_t bytes, least, done; int error; } Request;
int uring_probe(void);          /* 0, or the errno that forbids it */
int uring_run(Request *requests, int64_t count, int64_t depth);  /* each request to its end; 0 or an errno of the ring */

int64_t clock_ns(void);
