/* A workload's ops and the indices over them; sums over a batch of a plan. */
#include "core.h"

/* Take the next rows of a trace; the tables per request and per key are long enough for their
 * ids. */
void workload_add(const TraceColumns *c, int64_t count, TraceOp *ops, TraceRequest *requests,
                  TraceKey *keys) {
    for (int64_t i = 0; i < count; i++) {
        ops[i] = (TraceOp){
            c->op_id[i],  (uint32_t)c->key[i], (int32_t)c->request_id[i],
            c->step[i],   c->new_tokens[i],    c->tokens[i],
            c->op[i],     c->phase[i],         c->qos[i],
            c->source[i],
        };
        TraceKey *key = &keys[c->key[i]];
        key->tokens = key->stored = c->tokens[i];
        key->has_write |= c->op[i] == WRITE;
        TraceRequest *request = &requests[c->request_id[i]];
        if (!request->count++)
            *request = (TraceRequest){c->time_ns[i], c->think_ns[i], c->session_id[i],
                                      c->user_id[i], c->turn[i], NONE, 0, 1};
    }
}

/* Index the rows by request, and chain each user's requests. `first` and `last`, per user, are -1
 * at the start. */
void workload_index(const Workload *w, TraceRequest *requests, int32_t *rows, int32_t *first,
                    int32_t *last) {
    int32_t begin = 0;
    for (int64_t r = 0; r < w->requests; r++) {
        requests[r].begin = begin;
        begin += requests[r].count;
        requests[r].count = 0;
    }
    for (int64_t row = 0; row < w->ops; row++) {
        int32_t at = w->op[row].request;
        TraceRequest *request = &requests[at];
        rows[request->begin + request->count++] = (int32_t)row;
        if (request->count > 1) continue;
        if (last[request->user] == NONE) first[request->user] = at;
        else requests[last[request->user]].next = at;
        last[request->user] = at;
    }
}

void totals_op(Totals *t, int role) {
    t->ops++;
    t->reads += role == READ;
}

void totals_move(Totals *t, const Workload *w, int64_t row, int64_t seq, const PlannedMove *m) {
    t->counts[m->kind][m->from & 3][m->to & 3]++;
    t->bytes[m->kind][m->from & 3][m->to & 3] += m->size;
    /* A hit of a prompt spares what is stored; the rest of the object is computed again. An object
     * that ends a chunk is stored with tokens of those before it, so its hit spares more than its
     * own tokens: those that the misses before it counted. */
    const TraceKey *key = &w->key[m->key];
    if ((m->kind == HIT || m->kind == PROMOTE) && w->op[row].phase == PREFILL)
        t->recomputed_tokens += key->tokens - key->stored;
    /* An op that missed and was bypassed recomputes its tokens once. */
    if (m->kind == MISS || (m->kind == BYPASS && !seq))
        t->recomputed_tokens += w->key[m->key].tokens;
}
