/* A workload's ops and indices over them, and what a stretch of a plan adds up to. */
#include "core.h"

/* Take the next rows of a trace; the tables per key and per request are long enough for their ids. */
void workload_add(const TraceColumns *c, int64_t count, int64_t begin, const Tables *t) {
    for (int64_t i = 0; i < count; i++) {
        int64_t row = begin + i, key = c->key[i], request = c->request_id[i];
        t->op_id[row] = c->op_id[i];
        t->key[row] = (uint32_t)key;
        t->request[row] = (int32_t)request;
        t->step[row] = c->step[i];
        t->new_tokens[row] = c->new_tokens[i];
        t->what[row] = (uint8_t)(c->op[i] | c->phase[i] << 2 | c->qos[i] << 3 | c->source[i] << 5);
        t->tokens[key] = c->tokens[i];
        t->has_write[key] |= c->op[i] == WRITE;
        if (t->turn[request]) continue;  /* a request is told by its first op; turns begin at 1 */
        t->time_ns[request] = c->time_ns[i];
        t->think_ns[request] = c->think_ns[i];
        t->session[request] = c->session_id[i];
        t->user[request] = c->user_id[i];
        t->turn[request] = c->turn[i];
    }
}

/* Rows by request, in order (counting sort): `begins` has a place more than there are requests. */
void workload_index(const int32_t *request, int64_t ops, int64_t requests, int64_t *begins, int32_t *rows) {
    for (int64_t r = 0; r <= requests; r++) begins[r] = 0;
    for (int64_t row = 0; row < ops; row++) begins[request[row] + 1]++;
    for (int64_t r = 0; r < requests; r++) begins[r + 1] += begins[r];
    for (int64_t row = 0; row < ops; row++) rows[begins[request[row]]++] = (int32_t)row;
    for (int64_t r = requests; r > 0; r--) begins[r] = begins[r - 1];
    begins[0] = 0;
}

/* Of each request the same user's next one, of each user the first one, and `last` for the way; all -1 before. */
void workload_chain(const Workload *w, int32_t *next, int32_t *first, int32_t *last) {
    for (int64_t row = 0; row < w->ops; row++) {
        int32_t request = w->request[row];
        if (w->rows[w->begins[request]] != row) continue;
        int64_t user = w->user[request];
        if (last[user] == NONE) first[user] = request;
        else next[last[user]] = request;
        last[user] = request;
    }
}

/* Add a stretch of a plan to the totals, and write what the fingerprint covers: seven numbers per move. */
void stretch_tell(const Workload *w, const PlannedOp *ops, int64_t count, const Planned *moves, Totals *totals, int64_t *rows) {
    for (int64_t i = 0; i < count; i++) {
        totals_op(totals, (int)ops[i].role);
        for (int64_t seq = 0; seq < ops[i].moves; seq++, moves++, rows += 7) {
            totals_move(totals, w, seq, moves);
            rows[0] = w->op_id[ops[i].row];
            rows[1] = seq;
            rows[2] = moves->kind;
            rows[3] = moves->key;
            rows[4] = moves->from;
            rows[5] = moves->to;
            rows[6] = moves->size;
        }
    }
}
