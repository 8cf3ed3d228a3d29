/* What placement.c and keys.c share. */
#pragma once
#include "core.h"
#include "memory.h"

/* Whether an op reads or writes an object of its request's prompt. */
static inline bool is_of_prompt(const TraceOp *op) {
    return op->phase == PREFILL && op->op != REMOVE;
}

/* ---- keys.c: what is known of the keys before the first op. ---- */
void mark_pinned(Memory *memory, const Workload *ops, int64_t sources, uint8_t *places, uint8_t mark);
int32_t *find_owners(Memory *memory, const Workload *ops);      /* users, by key */
int32_t *find_parents(Memory *memory, const Workload *ops);     /* keys or -1, by key */
