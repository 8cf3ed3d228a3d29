/* Memory of the core. None of these functions returns NULL. Where memory runs out, the thread returns to
 * the innermost call that has begun an Attempt; that call gives back what it holds and returns an error,
 * which Python puts into words. A thread that has begun none ends the process with a sentence.
 *
 * Memory that is sized once belongs to a Memory, and is given back with it, so that a call that fails
 * halfway leaves nothing behind. Arrays that grow belong to the structure that has them.
 */
#pragma once
#include <assert.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(NDEBUG)
#error "asserts hold the core's accounts: build it without NDEBUG"
#endif

typedef struct Attempt { jmp_buf back; struct Attempt *outer; } Attempt;
/* To be followed by `if (setjmp(attempt->back))`, whose branch returns the error. */
void attempt_begin(Attempt *attempt);
void attempt_end(const Attempt *attempt);
int64_t memory_refused(void);   /* bytes that this thread asked for in vain, the last time */

void *checked(void *memory, size_t bytes);
void *passed_on(void *made);    /* what another call has made; its failure is this call's, too */
void *zeros(size_t count, size_t size);
/* Make an array longer that has `room` elements: twice as long, and at least of so many elements. Returns
 * it and sets the new room. */
void *grown(void *array, int64_t *room, int64_t least, size_t size);

enum { MOST_BLOCKS = 96 };
typedef struct { void *blocks[MOST_BLOCKS]; int count; } Memory;
/* Zeros from the start of a cache line; a large array, which is read at random, is on huge pages if the
 * kernel has them. */
void *array(Memory *owner, size_t count, size_t size);
void give_back(Memory *owner, void *block);     /* before the owner ends */
void memory_free(Memory *owner);
