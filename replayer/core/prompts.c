/* Where the prefill ops of each request stand in the plan. */
#include "placement.h"
#include "memory.h"

struct Prompts {
    const Workload *ops;
    uint32_t *position;         /* per row */
    int32_t *left;              /* per request: prefill ops to be decided */
};

Prompts *prompts_new(const Workload *ops) {
    Prompts *p = checked(calloc(1, sizeof *p));
    p->ops = ops;
    p->position = array((size_t)ops->ops + 1, sizeof *p->position);
    p->left = array((size_t)ops->requests + 1, sizeof *p->left);
    for (int64_t row = 0; row < ops->ops; row++) {
        const TraceOp *op = &ops->op[row];
        p->left[op->request] += is_of_prompt(op);
    }
    return p;
}

void prompts_free(Prompts *p) {
    if (!p) return;
    free(p->position);
    free(p->left);
    free(p);
}

bool prompts_end_op(Prompts *p, int64_t row, int64_t position) {
    p->position[row] = (uint32_t)position;
    return !--p->left[p->ops->op[row].request];
}

uint32_t prompts_position(const Prompts *p, int64_t row) { return p->position[row]; }
