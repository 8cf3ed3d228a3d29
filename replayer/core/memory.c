#include "memory.h"
#include <stdio.h>
#include <sys/mman.h>

enum { CACHE_LINE = 64, HUGE_PAGE = 2 << 20 };

static _Thread_local Attempt *innermost;
static _Thread_local int64_t refused;

void attempt_begin(Attempt *attempt) {
    attempt->outer = innermost;
    innermost = attempt;
}

void attempt_end(const Attempt *attempt) {
    assert(innermost == attempt);
    innermost = attempt->outer;
}

int64_t memory_refused(void) { return refused; }

void *checked(void *memory, size_t bytes) {
    if (memory) return memory;
    Attempt *attempt = innermost;
    refused = bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX;
    if (attempt) {
        innermost = attempt->outer;
        longjmp(attempt->back, 1);
    }
    fprintf(stderr, "replayer: out of memory: %zu more bytes are not available.\n", bytes);
    abort();
}

void *passed_on(void *made) { return checked(made, (size_t)refused); }

/* Return the product; more than there can be, if it does not fit. */
static size_t product(size_t count, size_t size) {
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) || bytes > PTRDIFF_MAX ? PTRDIFF_MAX : bytes;
}

void *zeros(size_t count, size_t size) { return checked(calloc(count, size), product(count, size)); }

void *grown(void *array, int64_t *room, int64_t least, size_t size) {
    int64_t more = 2 * *room > least ? 2 * *room : least;
    size_t bytes = product((size_t)more, size);
    array = checked(realloc(array, bytes), bytes);
    *room = more;  /* not before: the owner still has the old array if memory runs out */
    return array;
}

void *array(Memory *owner, size_t count, size_t size) {
    assert(owner->count < MOST_BLOCKS);
    size_t bytes = product(count, size), unit = bytes < HUGE_PAGE ? CACHE_LINE : HUGE_PAGE;
    if (bytes < PTRDIFF_MAX - unit) bytes = (bytes + unit - 1) / unit * unit;
    void *block = checked(aligned_alloc(unit, bytes), bytes);
    if (unit == HUGE_PAGE) madvise(block, bytes, MADV_HUGEPAGE);
    owner->blocks[owner->count++] = block;
    return memset(block, 0, bytes);
}

void give_back(Memory *owner, void *block) {
    int at = 0;
    while (at < owner->count && owner->blocks[at] != block) at++;
    assert(at < owner->count);
    owner->blocks[at] = owner->blocks[--owner->count];
    free(block);
}

void memory_free(Memory *owner) {
    while (owner->count) free(owner->blocks[--owner->count]);
}
