/* io_uring by system calls: several requests of one object in flight from one thread. Each thread
 * has a ring of its own, so there are no locks. */
#include "core.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#define HAVE_URING 1
#endif
#endif

/* Tests replace these, and make requests smaller. */
static int enter_ring(int ring, unsigned count, unsigned least, unsigned flags) {
    return (int)syscall(SYS_io_uring_enter, ring, count, least, flags, NULL, 0);
}
int (*call_enter)(int, unsigned, unsigned, unsigned) = enter_ring;
int64_t submit_most = 1 << 30;

#ifdef HAVE_URING

enum { ENTRIES = 64 };

typedef struct {
    int fd;
    unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
    void *rings;
    size_t rings_bytes, sqes_bytes;
} Ring;

static pthread_key_t of_thread;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void ring_close(void *memory) {
    Ring *ring = memory;
    if (ring->rings != MAP_FAILED) munmap(ring->rings, ring->rings_bytes);
    if (ring->sqes != MAP_FAILED) munmap(ring->sqes, ring->sqes_bytes);
    if (ring->fd >= 0) close(ring->fd);
    free(ring);
}

static Ring *give_up(Ring *ring, int reason, int *error) {
    ring_close(ring);
    *error = reason;
    return NULL;
}

static void make_key(void) { pthread_key_create(&of_thread, ring_close); }

/* Return this thread's ring; NULL and an errno if it cannot have one. */
static Ring *ring_of_thread(int *error) {
    pthread_once(&once, make_key);
    Ring *ring = pthread_getspecific(of_thread);
    if (ring) return ring;
    ring = calloc(1, sizeof *ring);
    if (!ring) {
        *error = ENOMEM;
        return NULL;
    }
    struct io_uring_params params;
    memset(&params, 0, sizeof params);
    int fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &params);
    ring->rings = ring->sqes = MAP_FAILED;
    ring->fd = fd;
    if (fd < 0) return give_up(ring, errno, error);
    if (!(params.features & IORING_FEAT_SINGLE_MMAP))  /* Linux before 5.4 */
        return give_up(ring, ENOSYS, error);
    size_t sq = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    size_t cq = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    ring->rings_bytes = sq > cq ? sq : cq;
    ring->sqes_bytes = params.sq_entries * sizeof(struct io_uring_sqe);
    char *rings = ring->rings = mmap(NULL, ring->rings_bytes, PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQ_RING);
    if (rings == MAP_FAILED) return give_up(ring, errno, error);
    ring->sqes = mmap(NULL, ring->sqes_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
                      IORING_OFF_SQES);
    if (ring->sqes == MAP_FAILED) return give_up(ring, errno, error);
    ring->sq_tail = (unsigned *)(rings + params.sq_off.tail);
    ring->sq_mask = (unsigned *)(rings + params.sq_off.ring_mask);
    ring->sq_array = (unsigned *)(rings + params.sq_off.array);
    ring->cq_head = (unsigned *)(rings + params.cq_off.head);
    ring->cq_tail = (unsigned *)(rings + params.cq_off.tail);
    ring->cq_mask = (unsigned *)(rings + params.cq_off.ring_mask);
    ring->cqes = (struct io_uring_cqe *)(rings + params.cq_off.cqes);
    pthread_setspecific(of_thread, ring);
    return ring;
}

static void submit(Ring *ring, const IoRequest *request, int64_t index) {
    unsigned tail = *ring->sq_tail, at = tail & *ring->sq_mask;
    struct io_uring_sqe *sqe = &ring->sqes[at];
    memset(sqe, 0, sizeof *sqe);
    sqe->opcode = request->write ? IORING_OP_WRITE : IORING_OP_READ;
    sqe->fd = request->fd;
    sqe->off = (uint64_t)(request->at + request->done);
    sqe->addr = (uint64_t)(uintptr_t)(request->memory + request->done);
    int64_t left = request->bytes - request->done;
    sqe->len = (uint32_t)(left < submit_most ? left : submit_most);
    sqe->user_data = (uint64_t)index;
    ring->sq_array[at] = at;
    __atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
}

/* Take the result of a request. Returns whether the request must be submitted again. */
static bool take_result(IoRequest *request, int32_t result) {
    if (result == -EAGAIN || result == -EINTR) return true;
    if (result < 0) request->error = -result;
    else request->done += result;
    return result > 0 && request->done < request->least;
}

int uring_run(IoRequest *requests, int64_t count, int64_t depth) {
    int error = 0;
    Ring *ring = ring_of_thread(&error);
    if (!ring) return error;
    if (depth > ENTRIES) depth = ENTRIES;
    int64_t next = 0, in_flight = 0;
    unsigned fresh = 0;
    while (next < count || in_flight) {
        while (next < count && in_flight < depth) {
            submit(ring, &requests[next], next);
            next++, in_flight++, fresh++;
        }
        int taken = error ? usleep(100) : call_enter(ring->fd, fresh, 1, IORING_ENTER_GETEVENTS);
        if (taken >= 0) {
            fresh -= (unsigned)taken;
        } else if (errno != EINTR && errno != EAGAIN && errno != EBUSY) {
            error = errno;  /* wait for the requests that the kernel holds, then give the ring up */
            in_flight -= fresh;
            next = count;
        }
        unsigned head = *ring->cq_head;
        while (head != __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE)) {
            const struct io_uring_cqe *cqe = &ring->cqes[head & *ring->cq_mask];
            int64_t index = (int64_t)cqe->user_data;
            in_flight--;
            if (take_result(&requests[index], cqe->res) && !error) {
                submit(ring, &requests[index], index);
                in_flight++, fresh++;
            }
            head++;
        }
        __atomic_store_n(ring->cq_head, head, __ATOMIC_RELEASE);
    }
    if (error) {
        pthread_setspecific(of_thread, NULL);
        ring_close(ring);
    }
    return error;
}

int uring_probe(void) {
    int error = 0;
    return ring_of_thread(&error) ? 0 : error;
}

#else

int uring_run(IoRequest *requests, int64_t count, int64_t depth) {
    (void)requests, (void)count, (void)depth;
    return ENOSYS;
}

int uring_probe(void) { return ENOSYS; }

#endif
