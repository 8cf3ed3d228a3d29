/* Where the prefill ops of each request stand in the plan. */
#include "placement.h"

struct Prompts {
    const Workload *ops;
    uint32_t *position;         /* per row */
    int32_t *left;              /* per request: prefill ops to be decided */
};

Prompts *prompts_new(Memory *owner, const Workload *ops) {
    Prompts *p = array(owner, 1, sizeof *p);
    p->ops = ops;
    p->position = array(owner, (size_t)ops->ops + 1, sizeof *p->position);
    p->left = array(owner, (size_t)ops->requests + 1, sizeof *p->left);
    for (int64_t row = 0; row < ops->ops; row++) {
        const TraceOp *op = &ops->op[row];
        p->left[op->request] += is_of_prompt(op);
    }
    return p;
}

bool prompts_end_op(Prompts *p, int64_t row, int64_t position) {
    int32_t *left = &p->left[p->ops->op[row].request];
    assert(*left > 0);
    p->position[row] = (uint32_t)position;
    return !--*left;
}

uint32_t prompts_position(const Prompts *p, int64_t row) { return p->position[row]; }
