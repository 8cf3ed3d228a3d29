/* A serving engine on the virtual clock (docs/serving.md): requests wait and run, running ones hold
 * their blocks, and the order of the plan is the order in which the engine gets to its ops. The
 * numbers in brackets are the rules of that page.
 *
 * Belongs to one thread. Moves are written down as they happen; those of an event that is no op's
 * own wait in `moves` for the next op that is decided.
 */
#include "core.h"
#include "heap.h"
#include "memory.h"

enum { QUEUED, LOADING, RUNNING, DONE, SETTLED };   /* of a request; DONE: one step more to come */
enum {                                      /* of a key */
    UNWRITTEN = 1,              /* its write has not been decided */
    IN_GPU = 2,                 /* the plan has it in gpu: it was stored, and not dropped yet */
    IN_CPU = 4,
    STORING = 8,                /* in the CPU tier, but not to be read yet */
    TAKEN = 16,                 /* by a load that is under way */
    KEPT = 32,                  /* it may not be evicted for the offer that is being made */
    ON_DISK = 64,
    PROMOTED = 128,             /* the plan has not read it from nvme yet, or stored it in cpu */
};
enum { NOT_ASKED, ASKED, ABSENT, PRESENT };     /* of a key: what the disk says of it */
enum { USED = 1, HAS_ASKED = 2 };               /* of a request's block */

/* A block of the GPU's cache. */
typedef struct {
    int32_t key;                /* its name; NONE: it has none */
    int32_t request, index;     /* of a full block that the trace has no name for; NONE */
    int32_t holders;            /* requests that hold it; 0: it is in the queue of free blocks */
    int32_t before, after;      /* in that queue */
    int32_t older, newer;       /* other blocks of the same name */
    int64_t taken;              /* the last step in which a request took it */
} GpuBlock;

typedef struct {
    int32_t oldest, newest;     /* blocks of that name */
    int32_t before, after;      /* in the CPU tier, by recency */
    int32_t loads, writes;      /* that read it in the CPU tier now */
    int32_t promised;           /* blocks that loads have taken for it */
    int32_t job;                /* that brings it to the CPU tier, or from there to the disk */
    int32_t askers;             /* requests that asked the disk for it */
    uint8_t flags, answer;
} KeyState;

typedef struct {
    int64_t load_end;           /* the last step of its load */
    int32_t prompt, answer;     /* tokens */
    int32_t computed, generated;/* tokens */
    int32_t chunk;              /* tokens that this step computes */
    int32_t keys;               /* full blocks that the trace names */
    int32_t held, named;        /* blocks that it holds; those of them with a name */
    int32_t offered;            /* blocks of the prompt up to which the CPU tier was offered them */
    int32_t hits, found;        /* blocks found at its first admission: in gpu; in gpu and cpu */
    int32_t loaded;             /* blocks found at its last admission */
    int32_t next_op, next_name; /* of its ops to decide: the first, and its block if it is full */
    int32_t asked;              /* tokens to generate before that op */
    int32_t next;               /* in the queue */
    int32_t stores, jobs;       /* under way: to the CPU tier; all */
    uint8_t state, preempted, left_disk;
    int32_t *key, *block;       /* by index */
    uint8_t *flags;             /* by index; USED: becomes recent in the CPU tier at its end */
} Asked;

/* Blocks of a request that go from the GPU to the CPU tier, or between that and the disk. */
enum { STORES, READS, WRITES };
typedef struct { int64_t end; int32_t kind, number, request, from, to; } Job;
typedef struct { int32_t head, tail; } Queue;

struct Serving {
    Memory memory;
    const Workload *ops;
    ServingRules rules;
    Load load;
    Asked *requests;
    KeyState *keys;
    GpuBlock *blocks;
    int32_t free_head, free_tail;
    int64_t free;
    int32_t cpu_head, cpu_tail;
    Queue waiting, holding;     /* holding: those with a load */
    int32_t *running, *batch, *finished;
    int64_t running_count, batch_count, finished_count;
    Job *jobs;
    int64_t job_count, job_room;
    int32_t job_number;
    Heap arrivals;              /* (due; request) */
    int64_t entering;           /* row of the first request that may not have come */
    int64_t present;            /* requests that came and are not done */
    int64_t loads;              /* under way */
    bool has_noticed;           /* what the disk has done */
    int32_t *questions;         /* keys that the disk was asked for in this step */
    int64_t question_count, question_room;
    int64_t idle;               /* steps since the last that computed a token */
    int64_t step, now, fraction;/* fraction: of a nanosecond, in parts of tokens_per_s */
    Account account;
    PlannedOp *out;
    int64_t out_count, out_room, handed_ops;
    PlannedMove *moves;
    int64_t move_count, move_room, moves_handed;
};

/* ---- Moves. ---- */
static void emit(Serving *s, int kind, int32_t key, int from, int to, bool background) {
    if (s->move_count == s->move_room)
        s->moves = grown(s->moves, &s->move_room, 1024, sizeof *s->moves);
    s->moves[s->move_count++] =
        (PlannedMove){s->ops->key[key].size, (uint32_t)key, (int8_t)kind, (int8_t)from,
                      (int8_t)to, background};
}

static void enter(Serving *s, int32_t key, int tier) {
    Account *a = &s->account;
    int64_t size = s->ops->key[key].size;
    account_enter(a, tier, size);
    if (size > a->largest) a->largest = size;
}

static void leave(Serving *s, int32_t key, int tier) {
    account_leave(&s->account, tier, s->ops->key[key].size);
}

/* The plan gets the object into gpu, unless it has it there. */
static void show(Serving *s, int32_t key, int kind, int from, bool background) {
    if (s->keys[key].flags & IN_GPU) return;
    s->keys[key].flags |= IN_GPU;
    emit(s, kind, key, from, GPU, background);
    enter(s, key, GPU);
}

/* ---- The GPU's blocks. ---- */
static void queue_last(Serving *s, int32_t at) {
    GpuBlock *b = &s->blocks[at];
    b->before = s->free_tail;
    b->after = NONE;
    *(s->free_tail == NONE ? &s->free_head : &s->blocks[s->free_tail].after) = at;
    s->free_tail = at;
    s->free++;
}

static void queue_first(Serving *s, int32_t at) {
    GpuBlock *b = &s->blocks[at];
    b->after = s->free_head;
    b->before = NONE;
    *(s->free_head == NONE ? &s->free_tail : &s->blocks[s->free_head].before) = at;
    s->free_head = at;
    s->free++;
}

static void leave_queue(Serving *s, int32_t at) {
    GpuBlock *b = &s->blocks[at];
    *(b->before == NONE ? &s->free_head : &s->blocks[b->before].after) = b->after;
    *(b->after == NONE ? &s->free_tail : &s->blocks[b->after].before) = b->before;
    s->free--;
}

static void drop_unless_held(Serving *s, int32_t key) {
    KeyState *k = &s->keys[key];
    if (k->oldest != NONE || k->promised || !(k->flags & IN_GPU)) return;
    k->flags &= (uint8_t)~IN_GPU;
    emit(s, DROP, key, GPU, NONE, true);
    leave(s, key, GPU);
}

static void forget_name(Serving *s, int32_t at) {
    GpuBlock *b = &s->blocks[at];
    b->request = NONE;
    if (b->key == NONE) return;
    KeyState *k = &s->keys[b->key];
    *(b->older == NONE ? &k->oldest : &s->blocks[b->older].newer) = b->newer;
    *(b->newer == NONE ? &k->newest : &s->blocks[b->newer].older) = b->older;
    drop_unless_held(s, b->key);
    b->key = NONE;
}

static void give_name(Serving *s, int32_t at, int32_t key) {
    GpuBlock *b = &s->blocks[at];
    KeyState *k = &s->keys[key];
    b->key = key;
    b->older = k->newest;
    b->newer = NONE;
    *(k->newest == NONE ? &k->oldest : &s->blocks[k->newest].newer) = at;
    k->newest = at;
}

/* [9] The first free blocks lose their names. */
static void take_blocks(Serving *s, Asked *r, int64_t count) {
    assert(count <= s->free);
    for (; count > 0; count--) {
        int32_t at = s->free_head;
        leave_queue(s, at);
        forget_name(s, at);
        s->blocks[at].holders = 1;
        s->blocks[at].taken = s->step;
        r->block[r->held++] = at;
    }
}

/* [8] From the last to the first; those without a name come first in the queue. */
static void release_blocks(Serving *s, Asked *r) {
    for (int32_t i = r->held - 1; i >= 0; i--) {
        GpuBlock *b = &s->blocks[r->block[i]];
        assert(b->holders > 0);
        if (--b->holders) continue;
        if (b->key != NONE || b->request != NONE) queue_last(s, r->block[i]);
        else queue_first(s, r->block[i]);
    }
}

/* ---- Ops: a request's are decided in the order of its rows. ---- */
static void hand_out(Serving *s, int64_t row, int role) {
    if (s->out_count == s->out_room) s->out = grown(s->out, &s->out_room, 1024, sizeof *s->out);
    s->out[s->out_count++] = (PlannedOp){row, role, s->move_count - s->moves_handed};
    s->moves_handed = s->move_count;
}

static bool is_full(const Serving *s, const TraceOp *op) {
    bool is_block = is_of_prompt(op) || (op->phase == DECODE && op->op == WRITE);
    return is_block && op->tokens == s->rules.block_tokens;
}

static void decide_op(Serving *s, Asked *r, int64_t row, bool full, int32_t index) {
    const TraceOp *op = &s->ops->op[row];
    int32_t key = (int32_t)op->key;
    KeyState *k = &s->keys[key];
    int role = op->op == REMOVE ? REMOVE : k->flags & UNWRITTEN ? WRITE : READ;
    if (role != REMOVE) k->flags &= (uint8_t)~UNWRITTEN;
    if (role == REMOVE) {
        emit(s, DELETE, key, NONE, NONE, false);
    } else if (full && index < r->hits) {
        show(s, key, STORE, NONE, true);
        emit(s, HIT, key, GPU, NONE, false);
    } else if (full && index < r->found) {
        emit(s, HIT, key, k->flags & PROMOTED ? NVME : CPU, NONE, false);
        if (k->flags & PROMOTED) emit(s, STORE, key, NONE, CPU, false);
        k->flags &= (uint8_t)~PROMOTED;
        show(s, key, STORE, NONE, false);
    } else if (full && (index < r->named || index < r->loaded)) {
        bool shown = k->flags & IN_GPU;
        if (role == READ || shown) emit(s, MISS, key, NONE, NONE, false);
        show(s, key, STORE, NONE, false);
    } else if (op->phase == DECODE && op->op == READ && k->flags & IN_GPU) {
        emit(s, HIT, key, GPU, NONE, false);
    } else {
        if (role == READ) emit(s, MISS, key, NONE, NONE, false);
        emit(s, BYPASS, key, NONE, NONE, false);
    }
    hand_out(s, row, role);
}

/* Decide the ops that the engine has got to. */
static void decide_ops(Serving *s, Asked *r, bool at_end) {
    const TraceRequest *asked = &s->ops->request[r - s->requests];
    for (; r->next_op < asked->count; r->next_op++) {
        int64_t row = s->ops->rows[asked->begin + r->next_op];
        const TraceOp *op = &s->ops->op[row];
        bool full = is_full(s, op);
        int32_t reached = r->loaded > r->named ? r->loaded : r->named;
        if (!at_end && full && r->next_name >= reached) return;
        if (!at_end && !full && op->phase == DECODE && r->generated < r->asked) return;
        decide_op(s, r, row, full, r->next_name);
        r->next_name += full;
        r->asked += op->new_tokens;
    }
}

/* [6] Blocks that are full by the tokens of this step can be hit from now on. */
static void name_blocks(Serving *s, Asked *r, int64_t tokens) {
    int64_t end = tokens / s->rules.block_tokens;
    if (end > r->held) end = r->held;
    for (; r->named < end; r->named++) {
        int32_t at = r->block[r->named];
        if (r->named >= r->keys) {
            s->blocks[at].request = (int32_t)(r - s->requests);
            s->blocks[at].index = r->named;
            continue;
        }
        int32_t key = r->key[r->named];
        give_name(s, at, key);
        if (r->named < r->loaded) s->keys[key].promised--;
        /* computed once more after a preemption */
        if (r->named < r->next_name) show(s, key, STORE, NONE, true);
    }
    decide_ops(s, r, false);
}

/* ---- The CPU tier: full blocks of prompts, the least recent first. ---- */
static void cpu_append(Serving *s, int32_t key) {
    KeyState *k = &s->keys[key];
    k->before = s->cpu_tail;
    k->after = NONE;
    *(s->cpu_tail == NONE ? &s->cpu_head : &s->keys[s->cpu_tail].after) = key;
    s->cpu_tail = key;
}

static void cpu_unlink(Serving *s, int32_t key) {
    KeyState *k = &s->keys[key];
    *(k->before == NONE ? &s->cpu_head : &s->keys[k->before].after) = k->after;
    *(k->after == NONE ? &s->cpu_tail : &s->keys[k->after].before) = k->before;
}

/* The disk's part of a promotion, for which no op was a hit. */
static void read_from_disk(Serving *s, int32_t key) {
    if (!(s->keys[key].flags & PROMOTED)) return;
    s->keys[key].flags &= (uint8_t)~PROMOTED;
    emit(s, COPY, key, NVME, CPU, true);
}

static void cpu_evict(Serving *s, int32_t key) {
    cpu_unlink(s, key);
    read_from_disk(s, key);
    s->keys[key].flags &= (uint8_t)~IN_CPU;
    emit(s, DROP, key, CPU, NONE, true);
    leave(s, key, CPU);
}

static bool may_leave_cpu(const KeyState *k) {
    return !(k->flags & (KEPT | STORING)) && !k->loads && !k->writes;
}

/* Make room for new objects. Returns false, and evicts nothing, if too much is under way. */
static bool make_room(Serving *s, int64_t count) {
    int64_t lacking = count - (s->rules.cpu_blocks - s->account.resident[CPU]);
    int64_t found = 0;
    int32_t key = s->cpu_head;
    for (; found < lacking && key != NONE; key = s->keys[key].after)
        found += may_leave_cpu(&s->keys[key]);
    if (found < lacking) return false;
    for (key = s->cpu_head; lacking > 0;) {
        int32_t after = s->keys[key].after;
        if (may_leave_cpu(&s->keys[key])) {
            cpu_evict(s, key);
            lacking--;
        }
        key = after;
    }
    return true;
}

static void cpu_enter(Serving *s, int32_t key, int32_t job) {
    s->keys[key].flags |= IN_CPU | STORING;
    s->keys[key].job = job;
    cpu_append(s, key);
    enter(s, key, CPU);
}

static Job *begin_job(Serving *s, int kind, int32_t request, int64_t steps) {
    if (s->job_count == s->job_room) s->jobs = grown(s->jobs, &s->job_room, 64, sizeof *s->jobs);
    s->requests[request].jobs++;
    s->jobs[s->job_count] = (Job){s->step + steps, kind, s->job_number++, request, 0, 0};
    return &s->jobs[s->job_count++];
}

static void notice_disk(Serving *s);

/* [10] Offer the CPU tier the full blocks of the prompt up to so many tokens. */
static void offer_blocks(Serving *s, int32_t request, int64_t tokens) {
    Asked *r = &s->requests[request];
    int64_t end = (tokens < r->prompt ? tokens : r->prompt) / s->rules.block_tokens, count = 0;
    if (end > r->held) end = r->held;
    if (end > r->keys) end = r->keys;
    if (end <= r->offered || !s->rules.cpu_blocks) return;
    if (!s->has_noticed) notice_disk(s);
    for (int64_t i = r->offered; i < end; i++) {
        KeyState *k = &s->keys[r->key[i]];
        if (!(k->flags & STORING)) r->flags[i] |= USED;
        k->flags |= KEPT;
        count += !(k->flags & IN_CPU);
    }
    bool fits = make_room(s, count);
    for (int64_t i = r->offered; i < end; i++) {
        int32_t key = r->key[i];
        KeyState *k = &s->keys[key];
        k->flags &= (uint8_t)~KEPT;
        if (!fits || k->flags & IN_CPU) continue;
        cpu_enter(s, key, s->job_number);
        /* Its block may be another's by now; the engine copies it before that is written. */
        bool shown = k->flags & IN_GPU;
        emit(s, shown ? COPY : STORE, key, shown ? GPU : NONE, CPU, true);
    }
    if (!fits) return;
    if (count) {
        Job *job = begin_job(s, STORES, request, s->rules.transfer_steps);
        job->from = r->offered;
        job->to = (int32_t)end;
        r->stores++;
    }
    r->offered = (int32_t)end;
}

/* [7] What a request used is the most recent when it has ended, its first block above all. */
static void touch_used(Serving *s, const Asked *r) {
    for (int32_t i = r->keys - 1; i >= 0; i--) {
        if (!(r->flags[i] & USED) || !(s->keys[r->key[i]].flags & IN_CPU)) continue;
        cpu_unlink(s, r->key[i]);
        cpu_append(s, r->key[i]);
    }
}

/* A store whose blocks another request takes over, once its own is done, ends at once. */
static bool is_taken_over(const Serving *s, const Job *job) {
    const Asked *r = &s->requests[job->request];
    if (job->kind != STORES || r->state < DONE) return false;
    for (int32_t i = job->from; i < job->to; i++)
        if (s->keys[r->key[i]].job == job->number && s->blocks[r->block[i]].taken == s->step)
            return true;
    return false;
}

/* What the disk said is forgotten when all who asked for the key have ended [12]. */
static void forget_request(Serving *s, Asked *r) {
    if (r->state != SETTLED || r->stores) return;
    for (int32_t i = 0; !r->left_disk && i < r->keys; i++) {
        KeyState *k = &s->keys[r->key[i]];
        if (r->flags[i] & HAS_ASKED && !--k->askers) k->answer = NOT_ASKED;
    }
    r->left_disk = 1;
    if (r->jobs) return;
    free(r->key);
    free(r->block);
    free(r->flags);
    r->key = r->block = NULL;
    r->flags = NULL;
}

/* [11] What has been stored is given to the disk, and stays in the CPU tier until it is written. */
static void begin_write(Serving *s, Job *job) {
    const Asked *r = &s->requests[job->request];
    for (int32_t i = job->from; i < job->to; i++) {
        int32_t key = r->key[i];
        KeyState *k = &s->keys[key];
        if (k->job != job->number) continue;
        k->writes++;
        if (k->flags & ON_DISK) continue;
        emit(s, COPY, key, CPU, NVME, true);
        enter(s, key, NVME);
    }
    job->kind = WRITES;
    job->end = s->step + s->rules.write_steps;
}

/* End the jobs of these kinds whose time has come. */
static void end_jobs(Serving *s, int first, int last) {
    int64_t kept = 0;
    for (int64_t at = 0; at < s->job_count; at++) {
        Job job = s->jobs[at];
        if (job.kind < first || job.kind > last || job.end > s->step) {
            s->jobs[kept++] = job;
            continue;
        }
        Asked *r = &s->requests[job.request];
        for (int32_t i = job.from; i < job.to; i++) {
            KeyState *k = &s->keys[r->key[i]];
            if (k->job != job.number) continue;
            if (job.kind == WRITES) k->writes--;
            else k->flags &= (uint8_t)~STORING;
        }
        r->stores -= job.kind == STORES;
        if (job.kind == STORES && s->rules.has_disk) {
            begin_write(s, &job);
            s->jobs[kept++] = job;
        } else {
            r->jobs--;
        }
        forget_request(s, r);
    }
    s->job_count = kept;
}

/* [14] */
static void notice_disk(Serving *s) {
    s->has_noticed = true;
    end_jobs(s, READS, WRITES);
}

/* [11] What has been written is on the disk, whether that was noticed or not. */
static void end_writes(Serving *s) {
    for (int64_t at = 0; at < s->job_count; at++) {
        const Job *job = &s->jobs[at];
        if (job->kind != WRITES || job->end != s->step) continue;
        const Asked *r = &s->requests[job->request];
        for (int32_t i = job->from; i < job->to; i++)
            if (s->keys[r->key[i]].job == job->number) s->keys[r->key[i]].flags |= ON_DISK;
    }
}

/* ---- Queues. ---- */
static void append(Serving *s, Queue *q, int32_t request) {
    s->requests[request].next = NONE;
    *(q->tail == NONE ? &q->head : &s->requests[q->tail].next) = request;
    q->tail = request;
}

static void prepend(Serving *s, Queue *q, int32_t request) {
    s->requests[request].next = q->head;
    q->head = request;
    if (q->tail == NONE) q->tail = request;
}

/* Take the request after `before`, or the first, out of a queue. */
static void take_out(Serving *s, Queue *q, int32_t before, int32_t request) {
    *(before == NONE ? &q->head : &s->requests[before].next) = s->requests[request].next;
    if (q->tail == request) q->tail = before;
}

/* ---- Admission. ---- */
static int64_t tokens_of(const Asked *r) { return r->prompt + r->generated; }

static int64_t blocks_for(const Serving *s, int64_t tokens) {
    return (tokens + s->rules.block_tokens - 1) / s->rules.block_tokens;
}

/* [4] Count the leading blocks that gpu has, and note which they are. */
static int64_t find_in_gpu(const Serving *s, Asked *r, int64_t most) {
    int64_t found = 0;
    for (; found < most; found++) {
        if (found < r->keys) {
            int32_t at = s->keys[r->key[found]].oldest;
            if (at == NONE) break;
            r->block[found] = at;
            continue;
        }
        /* The request had it before it was preempted; nobody else can have it. */
        const GpuBlock *b = &s->blocks[r->block[found]];
        if (!r->preempted || b->request != r - s->requests || b->index != found) break;
    }
    return found;
}

/* [12] */
static int ask_disk(Serving *s, Asked *r, int64_t at) {
    KeyState *k = &s->keys[r->key[at]];
    if (!(r->flags[at] & HAS_ASKED)) k->askers++;
    r->flags[at] |= HAS_ASKED;
    if (k->answer != NOT_ASKED) return k->answer;
    k->answer = ASKED;
    if (s->question_count == s->question_room)
        s->questions = grown(s->questions, &s->question_room, 64, sizeof *s->questions);
    s->questions[s->question_count++] = r->key[at];
    return ASKED;
}

static void answer_questions(Serving *s) {
    for (int64_t i = 0; i < s->question_count; i++) {
        KeyState *k = &s->keys[s->questions[i]];
        k->answer = k->flags & ON_DISK ? PRESENT : ABSENT;
    }
    s->question_count = 0;
}

/* [13] Begin to read a block from the disk. `job`: of this look-up; -1: none yet. Returns whether there
 * is room for the block. */
static bool promote(Serving *s, Asked *r, int64_t at, int64_t *job) {
    r->flags[at] |= USED;
    if (!make_room(s, 1)) return false;
    int32_t request = (int32_t)(r - s->requests);
    if (*job == NONE) {
        begin_job(s, READS, request, s->rules.read_steps)->from = (int32_t)at;
        *job = s->job_count - 1;
    }
    s->jobs[*job].to = (int32_t)at + 1;
    cpu_enter(s, r->key[at], s->jobs[*job].number);
    s->keys[r->key[at]].flags |= PROMOTED;
    return true;
}

/* [4] Count the blocks from there on that the slower tiers have; -1: wait for one of them. */
static int64_t find_in_slower(Serving *s, Asked *r, int64_t from) {
    int64_t end = tokens_of(r) / s->rules.block_tokens, at = from, job = NONE;
    bool waits = false;
    if (!s->rules.cpu_blocks) end = from;
    for (; at < end; at++) {
        if (at >= r->keys) {    /* nobody stores it, but the disk is asked for it, too */
            if (!s->rules.has_disk || r->flags[at] & HAS_ASKED) break;
            r->flags[at] |= HAS_ASKED;
            waits = true;
            continue;
        }
        const KeyState *k = &s->keys[r->key[at]];
        if (k->flags & IN_CPU) {
            waits |= (k->flags & (STORING | TAKEN)) != 0;
            continue;
        }
        int answer = s->rules.has_disk ? ask_disk(s, r, at) : ABSENT;
        if (answer == ABSENT || (answer == PRESENT && !promote(s, r, at, &job))) break;
        waits = true;
    }
    return waits ? NONE : at - from;
}

/* [3] Blocks that prompts and loads in progress still lack. */
static int64_t blocks_lacking(const Serving *s) {
    int64_t lacking = 0;
    for (int64_t i = 0; i < s->running_count; i++) {
        const Asked *r = &s->requests[s->running[i]];
        int64_t lacks = blocks_for(s, tokens_of(r)) - r->held;
        if (r->computed + r->chunk < tokens_of(r) && lacks > 0) lacking += lacks;
    }
    for (int32_t at = s->holding.head; at != NONE; at = s->requests[at].next) {
        const Asked *r = &s->requests[at];
        int64_t lacks = blocks_for(s, tokens_of(r)) - r->held;
        if (lacks > 0) lacking += lacks;
    }
    return lacking;
}

static void begin_load(Serving *s, Asked *r, int64_t from, int64_t count) {
    bool first = !r->preempted;
    take_blocks(s, r, count);
    r->loaded = (int32_t)(from + count);
    r->offered = r->loaded;
    for (int32_t i = (int32_t)from; i < r->loaded; i++) {
        int32_t key = r->key[i];
        KeyState *k = &s->keys[key];
        k->promised++;
        k->loads++;
        k->flags |= TAKEN;
        r->flags[i] |= USED;
        if (first) continue;
        read_from_disk(s, key);
        show(s, key, COPY, CPU, true);
    }
    if (first) r->found = r->loaded;
    r->computed = (int32_t)((from + count) * s->rules.block_tokens);
    r->state = LOADING;
    r->load_end = s->step + s->rules.transfer_steps - 1;
    s->loads++;
    decide_ops(s, r, false);
}

enum { MISFIT, LATER, LOADS, RUNS };
/* [3, 4, 5] */
static int admit(Serving *s, Asked *r, int64_t budget) {
    int64_t tokens = tokens_of(r), hits = 0, loads = 0, had = r->held, revived = 0;
    if (r->state == LOADING) {
        if (r->load_end >= s->step) return LATER;
        r->state = QUEUED;
        name_blocks(s, r, r->computed);
        if (r->computed > tokens - 1) r->computed = (int32_t)(tokens - 1);
    }
    int64_t computed = r->computed;
    if (!computed) {
        hits = find_in_gpu(s, r, (tokens - 1) / s->rules.block_tokens);
        loads = find_in_slower(s, r, hits);
        if (loads == NONE) return LATER;
        had = hits;
        computed = (hits + loads) * s->rules.block_tokens;
        for (int64_t i = 0; i < hits; i++) revived += !s->blocks[r->block[i]].holders;
    }
    int64_t room = s->free - revived;
    if (blocks_for(s, tokens) - had > room) return MISFIT;
    int64_t chunk = loads ? 0 : tokens - computed < budget ? tokens - computed : budget;
    if (loads) room -= blocks_lacking(s);
    if (blocks_for(s, computed + chunk) - had > room) return MISFIT;
    if (!r->computed) {
        for (int64_t i = 0; i < hits; i++) {
            GpuBlock *b = &s->blocks[r->block[i]];
            if (!b->holders++) leave_queue(s, r->block[i]);
        }
        r->held = r->named = (int32_t)hits;
        r->loaded = (int32_t)hits;
        if (!r->preempted) r->hits = r->found = (int32_t)hits;
    }
    if (loads) {
        begin_load(s, r, hits, loads);
        return LOADS;
    }
    r->computed = (int32_t)computed;
    r->chunk = (int32_t)chunk;
    r->state = RUNNING;
    take_blocks(s, r, blocks_for(s, computed + chunk) - r->held);
    name_blocks(s, r, computed + chunk);
    return RUNS;
}

static void admit_requests(Serving *s, int64_t budget) {
    Queue *queues[] = {&s->holding, &s->waiting};
    for (int at = 0; at < 2; at++) {
        Queue *q = queues[at];
        int32_t before = NONE, request = q->head;
        while (request != NONE && budget > 0 && s->running_count < s->rules.seqs) {
            Asked *r = &s->requests[request];
            int32_t next = r->next;
            int outcome = admit(s, r, budget);
            if (outcome == MISFIT) return;
            if (outcome == LATER) {
                before = request;
            } else {
                take_out(s, q, before, request);
                if (outcome == LOADS) append(s, &s->holding, request);
                else s->running[s->running_count++] = s->batch[s->batch_count++] = request;
                budget -= r->chunk;
            }
            request = next;
        }
        if (request != NONE) return;
    }
}

/* ---- Steps. ---- */
/* [2] The request begins anew, before all that wait; what it generated stays. */
static void preempt(Serving *s, int32_t request) {
    Asked *r = &s->requests[request];
    release_blocks(s, r);
    r->held = r->named = r->loaded = r->computed = 0;
    r->state = QUEUED;
    r->preempted = 1;
    s->account.preemptions++;
    for (int64_t at = 0; at < s->job_count; at++)
        if (s->jobs[at].kind == STORES && s->jobs[at].request == request) s->jobs[at].end = s->step;
    prepend(s, &s->waiting, request);
}

/* [2] Returns the tokens of the budget that are left; -1: a request was preempted. */
static int64_t go_on_running(Serving *s) {
    int64_t budget = s->rules.batched_tokens;
    bool preempted = false;
    for (int64_t i = 0; i < s->running_count && budget > 0; i++) {
        int32_t request = s->running[i];
        Asked *r = &s->requests[request];
        int64_t chunk = tokens_of(r) - r->computed;
        if (chunk > budget) chunk = budget;
        int64_t lacks = blocks_for(s, r->computed + chunk) - r->held;
        while (lacks > s->free) {
            int32_t last = s->running[--s->running_count];
            preempt(s, last);
            preempted = true;
            if (last == request) return NONE;
        }
        take_blocks(s, r, lacks);
        r->chunk = (int32_t)chunk;
        s->batch[s->batch_count++] = request;
        budget -= chunk;
        name_blocks(s, r, r->computed + chunk);
    }
    return preempted ? NONE : budget;
}

static void end_loads(Serving *s) {
    for (int32_t at = s->holding.head; s->loads && at != NONE; at = s->requests[at].next) {
        Asked *r = &s->requests[at];
        if (r->state != LOADING || r->load_end != s->step) continue;
        s->loads--;
        for (int32_t i = r->held - 1; i >= r->named; i--) {
            KeyState *k = &s->keys[r->key[i]];
            if (!--k->loads) k->flags &= (uint8_t)~TAKEN;
        }
    }
}

static void end_request(Serving *s, int32_t request) {
    Asked *r = &s->requests[request];
    int32_t next = s->ops->request[request].next;
    decide_ops(s, r, true);
    release_blocks(s, r);
    r->state = DONE;
    s->finished[s->finished_count++] = request;
    s->present--;
    if (s->load.pace != CLOSED || next == NONE) return;
    int64_t pause = scaled(&s->load, s->ops->request[next].think_ns);
    heap_push(&s->arrivals, (uint64_t)(s->now + pause), next);
}

/* [8] */
static void advance_clock(Serving *s) {
    int64_t tokens = 0;
    for (int64_t i = 0; i < s->batch_count; i++) tokens += s->requests[s->batch[i]].chunk;
    s->idle = tokens ? 0 : s->idle + 1;
    s->fraction += tokens * INT64_C(1000000000);
    int64_t took = s->rules.step_ns / (tokens ? 1 : 10) + s->fraction / s->rules.tokens_per_s;
    s->fraction %= s->rules.tokens_per_s;
    s->now += took;
    s->account.clock_ns += took;
    s->account.held_ns += (double)(s->rules.gpu_blocks - s->free) * (double)took;
}

static void take_step(Serving *s) {
    s->step++;
    s->account.steps++;
    s->batch_count = 0;
    end_writes(s);
    if (!s->has_noticed) notice_disk(s);
    int64_t budget = go_on_running(s);
    if (budget != NONE) admit_requests(s, budget);
    answer_questions(s);
    s->has_noticed = false;     /* an offer of this step notices for the next one, too */
    for (int64_t i = 0; i < s->batch_count; i++) {
        const Asked *r = &s->requests[s->batch[i]];
        offer_blocks(s, s->batch[i], r->computed + r->chunk);
    }
    for (int64_t i = 0; i < s->finished_count; i++) {
        Asked *r = &s->requests[s->finished[i]];
        offer_blocks(s, s->finished[i], r->prompt);
        touch_used(s, r);
        r->state = SETTLED;
        forget_request(s, r);
    }
    s->finished_count = 0;
    for (int64_t at = 0; at < s->job_count; at++)
        if (is_taken_over(s, &s->jobs[at])) s->jobs[at].end = s->step;
    advance_clock(s);
    int64_t kept = 0;
    for (int64_t i = 0; i < s->batch_count; i++) {
        Asked *r = &s->requests[s->batch[i]];
        r->computed += r->chunk;
        r->chunk = 0;
        if (r->computed < tokens_of(r)) continue;
        if (++r->generated == r->answer) end_request(s, s->batch[i]);
    }
    for (int64_t i = 0; i < s->running_count; i++)
        if (s->requests[s->running[i]].state == RUNNING) s->running[kept++] = s->running[i];
    s->running_count = kept;
    end_jobs(s, STORES, STORES);
    end_loads(s);
}

/* ---- Requests come. ---- */
static void enter_request(Serving *s, int32_t request) {
    const TraceRequest *asked = &s->ops->request[request];
    Asked *r = &s->requests[request];
    int64_t answer = 0, prompt = 0;
    s->present++;
    r->key = zeros((size_t)asked->count + 1, sizeof *r->key);
    for (int32_t i = 0; i < asked->count; i++) {
        const TraceOp *op = &s->ops->op[s->ops->rows[asked->begin + i]];
        answer += op->new_tokens;
        if (is_of_prompt(op)) prompt += op->tokens;
        if (is_full(s, op)) r->key[r->keys++] = (int32_t)op->key;
    }
    r->prompt = (int32_t)(prompt ? prompt : 1);
    r->answer = (int32_t)(answer ? answer : 1);
    size_t most = (size_t)blocks_for(s, r->prompt + r->answer) + 1;
    if (r->keys > (int64_t)most - 1) r->keys = (int32_t)most - 1;
    r->block = zeros(most, sizeof *r->block);
    r->flags = zeros(most, 1);
    append(s, &s->waiting, request);
}

static bool is_first_row(const Serving *s, int64_t row) {
    return s->ops->rows[s->ops->request[s->ops->op[row].request].begin] == row;
}

/* The requests whose time has come wait. Returns whether any is to come later. */
static bool let_requests_in(Serving *s) {
    for (; s->load.pace != CLOSED && s->entering < s->ops->ops; s->entering++) {
        int32_t request = s->ops->op[s->entering].request;
        if (!is_first_row(s, s->entering)) continue;
        if (s->load.pace == ASAP) {
            if (s->present >= s->load.workers) return true;
            enter_request(s, request);
        } else {
            if (s->arrivals.count && (int64_t)s->arrivals.entries[0].key > s->now) break;
            int64_t due = scaled(&s->load, s->ops->request[request].time_ns);
            heap_push(&s->arrivals, (uint64_t)due, request);
        }
    }
    while (s->arrivals.count && (int64_t)s->arrivals.entries[0].key <= s->now)
        enter_request(s, (int32_t)heap_pop(&s->arrivals).value);
    return s->arrivals.count > 0;
}

/* Prompts that the CPU tier cannot hold at once may push out each other's blocks for ever. */
static bool is_stuck(const Serving *s) {
    const ServingRules *r = &s->rules;
    return s->idle > 10000 + 10 * (r->transfer_steps + r->read_steps + r->write_steps);
}

/* Forget what has been handed out. The last op is kept back: it gets the moves that come after it. */
static void begin_batch(Serving *s) {
    int64_t kept = s->out_count - s->handed_ops;
    int64_t moves = s->moves_handed - (kept ? s->out[s->handed_ops].moves : 0);
    assert(kept == 0 || kept == 1);
    if (kept) s->out[0] = s->out[s->handed_ops];
    s->out_count = kept;
    s->move_count -= moves;
    s->moves_handed -= moves;
    if (s->move_count)  /* before the first move there is no array */
        memmove(s->moves, s->moves + moves, (size_t)s->move_count * sizeof *s->moves);
}

int64_t serving_plan(Serving *s, int64_t most, const PlannedOp **ops, const PlannedMove **moves) {
    begin_batch(s);
    bool ends = false;
    while (!ends && s->out_count <= most) {
        bool more = let_requests_in(s);
        if (!s->present && !s->finished_count && !s->job_count) {
            ends = !more;
            if (s->arrivals.count) s->now = (int64_t)s->arrivals.entries[0].key;
            continue;
        }
        take_step(s);
        if (is_stuck(s)) return NONE;
    }
    s->handed_ops = s->out_count - !ends;
    if (ends && s->out_count) {
        s->out[s->out_count - 1].moves += s->move_count - s->moves_handed;
        s->moves_handed = s->move_count;
    }
    *ops = s->out;
    *moves = s->moves;
    return s->handed_ops;
}

Serving *serving_new(const Workload *workload, const ServingRules *rules, const Load *load) {
    Serving *volatile made = NULL;
    Attempt attempt;
    attempt_begin(&attempt);
    if (setjmp(attempt.back)) {
        serving_free(made);
        return NULL;
    }
    Serving *s = made = zeros(1, sizeof *s);
    Memory *memory = &s->memory;
    s->ops = workload;
    s->rules = *rules;
    s->load = *load;
    s->requests = array(memory, (size_t)workload->requests + 1, sizeof *s->requests);
    s->keys = array(memory, (size_t)workload->keys + 1, sizeof *s->keys);
    s->blocks = array(memory, (size_t)rules->gpu_blocks + 1, sizeof *s->blocks);
    s->running = array(memory, (size_t)rules->seqs + 1, sizeof *s->running);
    s->batch = array(memory, (size_t)rules->seqs + 1, sizeof *s->batch);
    s->finished = array(memory, (size_t)rules->seqs + 1, sizeof *s->finished);
    s->free_head = s->free_tail = s->cpu_head = s->cpu_tail = NONE;
    s->waiting = s->holding = (Queue){NONE, NONE};
    for (int64_t key = 0; key < workload->keys; key++) {
        s->keys[key].oldest = s->keys[key].newest = NONE;
        s->keys[key].flags = workload->key[key].has_write ? UNWRITTEN : 0;
    }
    for (int32_t at = 0; at < rules->gpu_blocks; at++) {
        s->blocks[at].key = s->blocks[at].request = NONE;
        queue_last(s, at);
    }
    for (int64_t user = 0; load->pace == CLOSED && user < workload->users; user++) {
        int32_t request = workload->first[user];
        if (request == NONE) continue;
        int64_t due = scaled(load, workload->request[request].time_ns);
        heap_push(&s->arrivals, (uint64_t)due, request);
    }
    attempt_end(&attempt);
    return s;
}

void serving_free(Serving *s) {
    if (!s) return;
    for (int64_t request = 0; s->requests && request < s->ops->requests; request++) {
        free(s->requests[request].key);
        free(s->requests[request].block);
        free(s->requests[request].flags);
    }
    memory_free(&s->memory);
    free(s->jobs);
    free(s->questions);
    free(s->arrivals.entries);
    free(s->out);
    free(s->moves);
    free(s);
}

void serving_account(const Serving *s, Account *out) { *out = s->account; }
