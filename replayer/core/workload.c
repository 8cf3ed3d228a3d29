/* Indices over a workload's ops, and what a stretch of a plan adds up to. */
#include "core.h"

/* Rows by request, in order (counting sort): `begins` has a place more than there are requests. */
void workload_index(const int32_t *request, int64_t ops, int64_t requests, int64_t *begins, int32_t *rows) {
    for (int64_t r = 0; r <= requests; r++) begins[r] = 0;
    for (int64_t row = 0; row < ops; row++) begins[request[row] + 1]++;
    for (int64_t r = 0; r < requests; r++) begins[r + 1] += begins[r];
    for (int64_t row = 0; row < ops; row++) rows[begins[request[row]]++] = (int32_t)row;
    for (int64_t r = requests; r > 0; r--) begins[r] = begins[r - 1];
    begins[0] = 0;
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
