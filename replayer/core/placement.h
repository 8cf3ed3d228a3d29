/* What placement.c and keys.c share. */
#pragma once
#include "core.h"
#include "memory.h"

/* ---- keys.c: what is known of the keys before the first op. ---- */
void mark_pinned(Memory *memory, const Workload *ops, int64_t sources, uint8_t *places, uint8_t mark);
int32_t *find_owners(Memory *memory, const Workload *ops);      /* users, by key */
int32_t *find_parents(Memory *memory, const Workload *ops);     /* keys or -1, by key */
