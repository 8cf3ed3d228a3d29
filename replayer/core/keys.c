/* What is known of the keys of a trace before its first op is decided. */
#include "placement.h"

/* Mark the objects whose first op belongs to one of these sources. */
void mark_pinned(Memory *memory, const Workload *ops, int64_t sources, uint8_t *places, uint8_t mark) {
    uint8_t *seen = array(memory, (size_t)ops->keys + 1, 1);
    for (int64_t row = 0; row < ops->ops; row++) {
        const TraceOp *op = &ops->op[row];
        if (!seen[op->key] && sources >> op->source & 1) places[op->key] |= mark;
        seen[op->key] = 1;
    }
    give_back(memory, seen);
}

int32_t *find_owners(Memory *memory, const Workload *ops) {
    int32_t *owner = array(memory, (size_t)ops->keys + 1, sizeof *owner);
    for (int64_t key = 0; key < ops->keys; key++) owner[key] = NONE;
    for (int64_t row = 0; row < ops->ops; row++) {
        const TraceOp *op = &ops->op[row];
        if (owner[op->key] == NONE) owner[op->key] = (int32_t)ops->request[op->request].user;
    }
    return owner;
}

/* The objects of a request's prompt and answer come in the order of their first ops in it. */
static bool is_in_prompt(const TraceOp *op) {
    return is_of_prompt(op) || op->op == WRITE;
}

/* Find, per key, the request whose prompt or answer has it first in the trace, or -1. */
static void find_first_requests(const Workload *ops, int32_t *first) {
    for (int64_t key = 0; key < ops->keys; key++) first[key] = NONE;
    for (int64_t row = ops->ops - 1; row >= 0; row--)
        if (is_in_prompt(&ops->op[row])) first[ops->op[row].key] = ops->op[row].request;
}

int32_t *find_parents(Memory *memory, const Workload *ops) {
    int32_t *parent = array(memory, (size_t)ops->keys + 1, sizeof *parent);
    int32_t *seen = array(memory, (size_t)ops->keys + 1, sizeof *seen); /* the last request, from 1 */
    int32_t *first = array(memory, (size_t)ops->keys + 1, sizeof *first);
    find_first_requests(ops, first);
    for (int64_t key = 0; key < ops->keys; key++) parent[key] = NONE;
    for (int64_t r = 0; r < ops->requests; r++) {
        int32_t before = NONE;
        for (int32_t i = 0; i < ops->request[r].count; i++) {
            const TraceOp *op = &ops->op[ops->rows[ops->request[r].begin + i]];
            if (!is_in_prompt(op) || seen[op->key] == r + 1) continue;
            if (first[op->key] == r) parent[op->key] = before;
            seen[op->key] = (int32_t)r + 1;
            before = (int32_t)op->key;
        }
    }
    give_back(memory, first);
    give_back(memory, seen);
    return parent;
}

static int64_t chunk_end(int64_t offset, int64_t chunk, bool keep) {
    return (offset + (keep ? chunk - 1 : 0)) / chunk * chunk;
}

/* Mark the keys that an answer, the decode writes of a request, writes last. */
static void find_ends_of_answers(const Workload *ops, int32_t *ends) {
    for (int64_t r = 0; r < ops->requests; r++) {
        const TraceOp *last = NULL;
        for (int32_t i = 0; i < ops->request[r].count; i++) {
            const TraceOp *op = &ops->op[ops->rows[ops->request[r].begin + i]];
            if (op->phase == DECODE && op->op == WRITE) last = op;
        }
        if (last) ends[last->key] = 1;
    }
}

static bool is_part(const TraceOp *op, int phase, int64_t block) {
    return op && op->phase == phase && op->tokens < block;
}

/* Where a walk over the objects of a request is: tokens of its objects, stored, spared. */
typedef struct { int64_t offset, end, spared; } Walk;

/* Write the tokens that each object takes in a cache of chunks of the prompt, and set the tokens
 * that a hit on it spares. `keep`: the tail of a prompt takes a whole chunk; else it is not stored.
 * `unsaved`: last tokens of an answer that are not stored. `block`: tokens of a block, or 0;
 * `latest`: per session, its last request. `scratch`: three zeros per key. */
void workload_store(const Workload *ops, TraceKey *keys, int64_t chunk, int keep, int64_t unsaved,
                    int32_t *held, int32_t *scratch, int64_t block, const int64_t *latest) {
    int32_t *seen = scratch;                    /* the last request, from 1 */
    int32_t *first = scratch + ops->keys;
    int32_t *ends_answer = first + ops->keys;
    find_first_requests(ops, first);
    find_ends_of_answers(ops, ends_answer);
    for (int64_t key = 0; key < ops->keys; key++) keys[key].stored = 0;
    for (int64_t r = 0; r < ops->requests; r++) {
        Walk walk = {0}, before = {0};
        const TraceOp *last = NULL;
        for (int32_t i = 0; i < ops->request[r].count; i++) {
            const TraceOp *op = &ops->op[ops->rows[ops->request[r].begin + i]];
            if (!is_in_prompt(op) || seen[op->key] == r + 1) continue;
            if (op->phase == DECODE && is_part(last, PREFILL, block)) {
                walk = before;  /* the answer begins where the part of a block does */
                if (first[last->key] == r) held[last->key] = keys[last->key].stored = 0;
            }
            before = walk;
            walk.offset += op->tokens;
            int64_t saved = walk.offset - (ends_answer[op->key] ? unsaved : 0);
            if (saved < 0) saved = 0;
            walk.end = chunk_end(saved, chunk, keep);
            walk.spared = keep ? saved : walk.end;
            if (first[op->key] == r) {
                int64_t takes = walk.end - before.end, spares = walk.spared - before.spared;
                held[op->key] = takes > 0 ? (int32_t)takes : 0;
                keys[op->key].stored = spares > 0 ? (int32_t)spares : 0;
            }
            seen[op->key] = (int32_t)r + 1;
            last = op;
        }
        /* The session's next prompt holds it again. */
        if (is_part(last, DECODE, block) && latest[ops->request[r].session] > r &&
            first[last->key] == r)
            held[last->key] = keys[last->key].stored = 0;
    }
}
