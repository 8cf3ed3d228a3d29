/* Memory allocation that ends the process on failure. */
#pragma once
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LINE 64
#define HUGE_PAGE ((size_t)2 << 20)

static inline void *checked(void *memory) {
    if (!memory) abort();
    return memory;
}

/* Allocate zeros from the start of a cache line; a large array, which is read at random, on huge
 * pages if the kernel has them. */
static inline void *array(size_t count, size_t size) {
    size_t bytes = count * size, unit = bytes < HUGE_PAGE ? LINE : HUGE_PAGE;
    bytes = (bytes + unit - 1) / unit * unit;
    void *memory = checked(aligned_alloc(unit, bytes));
    if (unit == HUGE_PAGE) madvise(memory, bytes, MADV_HUGEPAGE);
    return memset(memory, 0, bytes);
}
