/* Tiers: null, memory, files and slabs; any of them may be throttled. They do I/O and nothing else:
 * the plan decides which tier holds which object.
 *
 * Calls on different keys may overlap, from any number of threads; calls on one key overlap only if
 * all of them read.
 */
#define _GNU_SOURCE
#include "core.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* Tests replace these. */
ssize_t (*call_pread)(int, void *, size_t, off_t) = pread;
ssize_t (*call_pwrite)(int, const void *, size_t, off_t) = pwrite;
int (*call_fdatasync)(int) = fdatasync;

typedef enum { NULL_TIER, MEMORY, FILES, SLABS, ELSEWHERE } TierKind;

typedef struct {
    uint64_t key;
    int64_t size, extents;      /* extents 0: the slot is empty */
    Extent extent;              /* in bytes, not units; the first of several */
    Extent *extent_list;        /* NULL: there is one extent */
} Held;

typedef struct {
    double ns_per_byte, latency_ns; /* set by tier_throttle, before the run */
    pthread_mutex_t lock;       /* guards free_ns */
    double free_ns;             /* when the last transfer so far ends */
} Channel;

struct Tier {
    /* Set before the run and not changed afterwards. */
    TierKind kind;
    char name[240];             /* for messages: of a memory tier; the folder of files and slabs */
    char *arena;
    int folder, direct;
    const int *files;
    int64_t slab, slabs;        /* bytes of one slab; number of slabs */
    int64_t unit;               /* bytes of one unit of room */
    int64_t reserve;            /* bytes that new files leave free; 0: free space is not checked */
    BlockIO io;
    int64_t throttled;          /* number of the throttle, unique in the process; 0: none */

    pthread_mutex_t lock;       /* guards the fields from here to `budget` */
    Held *held;                 /* hash table by key, open addressing */
    int64_t held_room, held_count;
    Extents *room;
    int64_t budget;             /* bytes that may still be taken, before rounding to units */

    /* Atomic: not guarded by the lock. */
    int64_t claimed;            /* bytes of files being written that are not written yet */
    int64_t unchecked;          /* bytes of new files until free space is checked again */
    int stopped_waiting;        /* flag: the throttle's waits end at once */

    Channel channels[2];        /* reads, writes; each has a lock of its own */
};

int64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static Tier *new_tier(TierKind kind, const char *name) {
    Tier *t = calloc(1, sizeof *t);
    t->kind = kind;
    snprintf(t->name, sizeof t->name, "%s", name);
    pthread_mutex_init(&t->lock, NULL);
    t->held_room = 64;
    t->held = calloc((size_t)t->held_room, sizeof *t->held);
    return t;
}

Tier *tier_null(void) { return new_tier(NULL_TIER, "null tier"); }
Tier *tier_elsewhere(void) { return new_tier(ELSEWHERE, ""); }

Tier *tier_memory(void *arena, int64_t bytes, int64_t unit, const char *name) {
    Tier *t = new_tier(MEMORY, name);
    t->arena = arena;
    t->unit = unit;
    t->budget = INT64_MAX;
    t->room = extents_new(bytes / unit);
    return t;
}

Tier *tier_files(int folder, const char *path, const BlockIO *io, int direct) {
    Tier *t = new_tier(FILES, path);
    t->folder = folder;
    t->io = *io;
    t->direct = direct;
    return t;
}

Tier *tier_slab(const int *files, int64_t count, int64_t slab, int64_t bytes, int64_t unit,
                const BlockIO *io, const char *path) {
    Tier *t = new_tier(SLABS, path);
    int *own = malloc((size_t)(count + 1) * sizeof *own);
    memcpy(own, files, (size_t)count * sizeof *own);
    t->files = own;
    t->slab = slab;
    t->slabs = count;
    t->unit = unit;
    t->budget = INT64_MAX;
    t->room = extents_new(bytes / unit);
    t->io = *io;
    return t;
}

void tier_free(Tier *t) {
    if (!t) return;
    for (int64_t i = 0; i < t->held_room; i++)
        if (t->held[i].extents) free(t->held[i].extent_list);
    free(t->held);
    extents_free(t->room);
    if (t->kind == SLABS) free((void *)t->files);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

/* Limit the bytes of objects to fewer than the units add up to. Called before the run. */
void tier_budget(Tier *t, int64_t bytes) { t->budget = bytes; }

/* Leave bytes free on the file system when new files are created. Called before the run. */
void tier_reserve(Tier *t, int64_t bytes) { t->reserve = bytes; }

int tier_keeps_bytes(const Tier *t) { return t->kind != NULL_TIER; }
int tier_chunked(const Tier *t) { return t->kind != NULL_TIER || t->throttled; }
int tier_is_elsewhere(const Tier *t) { return t->kind == ELSEWHERE; }

/* ---- Throttle: transfers of one direction pass one by one, each taking its time. ---- */
void tier_throttle(Tier *t, double read_mib_s, double write_mib_s, double latency_us) {
    static int64_t last;
    t->throttled = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
    for (int direction = 0; direction < 2; direction++) {
        pthread_mutex_init(&t->channels[direction].lock, NULL);
        t->channels[direction].ns_per_byte =
            1e9 / ((direction ? write_mib_s : read_mib_s) * 1048576);
        t->channels[direction].latency_ns = latency_us * 1e3;
    }
}

void tier_stop_waiting(Tier *t) { __atomic_store_n(&t->stopped_waiting, 1, __ATOMIC_RELAXED); }

/* A sleep ends late. This thread's next transfer in that direction counts as begun earlier by the
 * same time, or small transfers would never reach the device's bandwidth; by LATE_NS at most, as
 * longer delays are the machine's. */
enum { NAP_NS = 100000000, LATE_NS = 5000000, LATE_TIERS = 8 };

static int64_t *lateness(const Tier *t, int direction) {
    static _Thread_local struct { int64_t tier, ns; } late[2][LATE_TIERS];
    int64_t at = t->throttled % LATE_TIERS;
    if (late[direction][at].tier != t->throttled) {
        late[direction][at].tier = t->throttled;
        late[direction][at].ns = 0;
    }
    return &late[direction][at].ns;
}

static void wait_turn(Tier *t, int direction, int64_t bytes, int64_t began) {
    Channel *c = &t->channels[direction];
    int64_t *late_ns = lateness(t, direction);
    double early = (double)(began - *late_ns);
    pthread_mutex_lock(&c->lock);
    c->free_ns = (c->free_ns > early ? c->free_ns : early) + (double)bytes * c->ns_per_byte;
    double until = (c->free_ns > (double)began ? c->free_ns : (double)began) + c->latency_ns;
    pthread_mutex_unlock(&c->lock);
    int64_t end = (int64_t)until, now;
    while ((now = clock_ns()) < end && !__atomic_load_n(&t->stopped_waiting, __ATOMIC_RELAXED)) {
        int64_t to = end - now > NAP_NS ? now + NAP_NS : end;
        struct timespec at = {to / 1000000000, to % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    }
    *late_ns = now - end < LATE_NS ? now - end : LATE_NS;
}

/* For moves made elsewhere: return when the throttled tier would have moved the bytes. */
void tier_wait_turn(Tier *t, int direction, int64_t bytes, int64_t began) {
    wait_turn(t, direction, bytes, began);
}

/* ---- Objects held in memory or slabs. ---- */
static int fault(Fault *f, int error, int kind, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
#include <stdarg.h>
static int fault(Fault *f, int error, int kind, const char *format, ...) {
    va_list values;
    va_start(values, format);
    f->error = error;
    f->kind = kind;
    vsnprintf(f->text, sizeof f->text, format, values);
    va_end(values);
    return error;
}

static int64_t hash_slot(const Tier *t, uint64_t key) {
    uint64_t hash = key * UINT64_C(0x9E3779B97F4A7C15);
    return (int64_t)(hash >> 32 & (uint64_t)(t->held_room - 1));
}

static Held *find_held(const Tier *t, uint64_t key) {
    int64_t at = hash_slot(t, key);
    while (t->held[at].extents && t->held[at].key != key) at = (at + 1) & (t->held_room - 1);
    return &t->held[at];
}

static void add_held(Tier *t, Held held) {
    if (2 * (t->held_count + 1) > t->held_room) {
        Held *old = t->held;
        int64_t count = t->held_room;
        t->held_room *= 2;
        t->held = calloc((size_t)t->held_room, sizeof *t->held);
        for (int64_t i = 0; i < count; i++)
            if (old[i].extents) *find_held(t, old[i].key) = old[i];
        free(old);
    }
    *find_held(t, held.key) = held;
    t->held_count++;
}

static void remove_held(Tier *t, Held *held) {
    int64_t gap = held - t->held, mask = t->held_room - 1;
    for (int64_t at = (gap + 1) & mask; t->held[at].extents; at = (at + 1) & mask) {
        int64_t home = hash_slot(t, t->held[at].key);
        if (((at - home) & mask) < ((at - gap) & mask)) continue;
        t->held[gap] = t->held[at];
        gap = at;
    }
    t->held[gap].extents = 0;
    t->held_count--;
}

static int no_room_fault(Tier *t, int64_t size, Fault *f) {
    if (t->kind == SLABS)
        return fault(f, ENOSPC, FAULT_OWN, "no %lld bytes free in the slabs", (long long)size);
    return fault(f, ENOMEM, FAULT_OWN, "no %lld bytes free in the %s's arena", (long long)size,
                 t->name);
}

static int take_room(Tier *t, Object *o, Fault *f) {
    int64_t units = (o->size + t->unit - 1) / t->unit, room = 16;
    if (o->size > t->budget) return no_room_fault(t, o->size, f);
    Extent few[16], *extents = few;
    for (;;) {
        int64_t count = extents_take(t->room, units, extents, room);
        if (!count) return no_room_fault(t, o->size, f);
        if (count > 0) {
            o->extents = count;
            break;
        }
        room *= 8;
        extents = realloc(extents == few ? NULL : extents, (size_t)room * sizeof *extents);
    }
    for (int64_t i = 0; i < o->extents; i++)
        extents[i] = (Extent){extents[i].start * t->unit, extents[i].bytes * t->unit};
    o->extent = extents[0];
    if (o->extents > 1) {
        o->extent_list = malloc((size_t)o->extents * sizeof *o->extent_list);
        memcpy(o->extent_list, extents, (size_t)o->extents * sizeof *o->extent_list);
    }
    if (extents != few) free(extents);
    t->budget -= o->size;
    return 0;
}

static int create_held(Tier *t, Object *o, Fault *f) {
    int error = 0;
    pthread_mutex_lock(&t->lock);
    if (t->room) error = take_room(t, o, f);
    else o->extents = 1;
    if (!error) add_held(t, (Held){o->key, o->size, o->extents, o->extent, o->extent_list});
    pthread_mutex_unlock(&t->lock);
    return error;
}

static int open_held(Tier *t, Object *o, Fault *f) {
    pthread_mutex_lock(&t->lock);
    Held held = *find_held(t, o->key);
    pthread_mutex_unlock(&t->lock);
    if (!held.extents)
        return fault(f, ENOENT, FAULT_OWN, "no object %llu in the %s", (unsigned long long)o->key,
                     t->kind == SLABS ? "slabs" : t->name);
    o->extents = held.extents;
    o->extent = held.extent;
    o->extent_list = held.extent_list;
    return 0;
}

static void discard_held(Tier *t, uint64_t key) {
    pthread_mutex_lock(&t->lock);
    Held *held = find_held(t, key);
    if (held->extents) {
        const Extent *extents = held->extent_list ? held->extent_list : &held->extent;
        for (int64_t i = 0; t->room && i < held->extents; i++)
            extents_give(t->room, extents[i].start / t->unit, extents[i].bytes / t->unit);
        t->budget += held->size;
        free(held->extent_list);
        remove_held(t, held);
    }
    pthread_mutex_unlock(&t->lock);
}

/* ---- Objects. ---- */
static void format_object_name(uint64_t key, char *name, size_t size) {
    snprintf(name, size, "%08llx.kv", (unsigned long long)key);
}

/* Format the name of the object's file, or of the slab with that descriptor. */
static void format_file_name(const Tier *t, uint64_t key, int fd, char *name, size_t size) {
    int64_t slab = 0;
    while (slab < t->slabs && t->files[slab] != fd) slab++;
    if (t->kind == SLABS) snprintf(name, size, "slab-%lld.kv", (long long)slab);
    else format_object_name(key, name, size);
}

static int path_fault(const Tier *t, uint64_t key, int fd, int error, Fault *f) {
    char name[32];
    format_file_name(t, key, fd, name, sizeof name);
    return fault(f, error, FAULT_CALL, "%.200s/%s", t->name, name);
}

static int64_t aligned(int64_t length) { return (length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static int open_file(Tier *t, Object *o, int flags, Fault *f) {
    char name[32];
    format_object_name(o->key, name, sizeof name);
    o->fd =
        openat(t->folder, name, flags | O_CLOEXEC | O_NOFOLLOW | (t->direct ? O_DIRECT : 0), 0600);
    return o->fd < 0 ? path_fault(t, o->key, NONE, errno, f) : 0;
}

enum { CHECK_BYTES = 256 << 20 };

static void release_claim(Object *o, int64_t bytes) {
    if (bytes > o->claimed) bytes = o->claimed;
    if (!bytes) return;
    o->claimed -= bytes;
    __atomic_sub_fetch(&o->tier->claimed, bytes, __ATOMIC_RELAXED);
}

/* Check that a new file leaves the reserve free. Free space is asked for once per CHECK_BYTES of
 * new files, not for each. */
static int claim_space(Tier *t, Object *o, Fault *f) {
    o->claimed = aligned(o->size);
    int64_t claimed = __atomic_add_fetch(&t->claimed, o->claimed, __ATOMIC_RELAXED);
    if (__atomic_sub_fetch(&t->unchecked, o->claimed, __ATOMIC_RELAXED) >= 0) return 0;
    struct statvfs now;
    int error = fstatvfs(t->folder, &now) ? path_fault(t, o->key, NONE, errno, f) : 0;
    int64_t left = error ? 0 : (int64_t)now.f_bavail * (int64_t)now.f_frsize - t->reserve - claimed;
    if (left < 0)
        error = fault(f, ENOSPC, FAULT_OWN, "No space left above the reserve of free space");
    if (error) release_claim(o, o->claimed);
    __atomic_store_n(&t->unchecked,
                     error                ? 0
                     : left < CHECK_BYTES ? left
                                          : CHECK_BYTES,
                     __ATOMIC_RELAXED);
    return error;
}

static int create_file(Tier *t, Object *o, Fault *f) {
    int error = t->reserve ? claim_space(t, o, f) : 0;
    if (!error && (error = open_file(t, o, O_WRONLY | O_CREAT | O_EXCL, f)))
        release_claim(o, o->claimed);
    return error;
}

int object_create(Tier *t, Object *o, uint64_t key, int64_t size, Fault *f) {
    *o = (Object){.tier = t, .key = key, .size = size, .fd = -1};
    return t->kind == FILES ? create_file(t, o, f) : create_held(t, o, f);
}

int object_open(Tier *t, Object *o, uint64_t key, int64_t size, Fault *f) {
    *o = (Object){.tier = t, .key = key, .size = size, .fd = -1};
    return t->kind == FILES ? open_file(t, o, O_RDONLY, f) : open_held(t, o, f);
}

void object_close(Object *o) {
    release_claim(o, o->claimed);
    if (o->fd >= 0) close(o->fd);
    o->fd = -1;
}

int object_discard(Tier *t, uint64_t key, Fault *f) {
    if (t->kind != FILES) {
        discard_held(t, key);
        return 0;
    }
    char name[32];
    format_object_name(key, name, sizeof name);
    return unlinkat(t->folder, name, 0) && errno != ENOENT ? path_fault(t, key, NONE, errno, f) : 0;
}

static void copy_memory(Object *o, int64_t offset, int64_t length, char *buffer, int write) {
    const Extent *extents = o->extent_list ? o->extent_list : &o->extent;
    int64_t begin = 0;
    for (int64_t i = 0; i < o->extents && begin < offset + length; i++) {
        int64_t low = offset > begin ? offset : begin, end = begin + extents[i].bytes;
        int64_t high = offset + length < end ? offset + length : end;
        if (low < high) {
            char *there = o->tier->arena + extents[i].start + low - begin,
                 *here = buffer + low - offset;
            if (write) memcpy(there, here, (size_t)(high - low));
            else memcpy(here, there, (size_t)(high - low));
        }
        begin = end;
    }
}

/* Make the requests one by one, or several at once if the depth allows; continue short ones. */
static int run_requests(Object *o, IoRequest *requests, int64_t count, Fault *f) {
    Tier *t = o->tier;
    int error = 0;
    if (t->io.uring) {
        error = uring_run(requests, count, t->io.depth);
        if (error) return path_fault(t, o->key, requests[0].fd, error, f);
    }
    for (int64_t i = 0; !t->io.uring && i < count; i++) {
        IoRequest *r = &requests[i];
        while (r->done < r->least) {
            char *memory = r->memory + r->done;
            size_t left = (size_t)(r->bytes - r->done);
            ssize_t result = r->write ? call_pwrite(r->fd, memory, left, r->at + r->done)
                                     : call_pread(r->fd, memory, left, r->at + r->done);
            if (result < 0 && errno == EINTR) continue;
            if (result < 0) r->error = errno;
            if (result <= 0) break;
            r->done += result;
        }
        if (r->done < r->least) break;
    }
    for (int64_t i = 0; i < count; i++) {
        const IoRequest *r = &requests[i];
        if (r->error) return path_fault(t, o->key, r->fd, r->error, f);
        if (r->done < r->least) {
            char name[32];
            format_file_name(t, o->key, r->fd, name, sizeof name);
            return fault(f, EIO, FAULT_OWN, "short %s: ends at byte %lld: '%.150s/%s'",
                         r->write ? "write" : "read", (long long)(r->at + r->done), t->name, name);
        }
    }
    return 0;
}

enum { BATCH = 256 };

static int move_files(Object *o, int64_t offset, int64_t length, char *buffer, int write,
                      Fault *f) {
    Tier *t = o->tier;
    IoRequest requests[BATCH];
    int64_t count = 0, whole = aligned(length), begin = 0;
    const Extent everything = {0, INT64_MAX};
    const Extent *extents = o->extent_list ? o->extent_list : &o->extent;
    int64_t number = t->kind == FILES ? 1 : o->extents;
    if (t->kind == FILES) extents = &everything;
    for (int64_t i = 0; i < number && begin < offset + whole; i++) {
        int64_t end = t->kind == FILES ? INT64_MAX : begin + extents[i].bytes,
                low = offset > begin ? offset : begin;
        int64_t high = offset + whole < end ? offset + whole : end;
        for (int64_t at = low; at < high;) {
            int64_t start = extents[i].start + at - begin, bytes = high - at;
            if (bytes > t->io.request_bytes) bytes = t->io.request_bytes;
            int fd = o->fd;
            if (t->kind == SLABS) {
                if (bytes > t->slab - start % t->slab) bytes = t->slab - start % t->slab;
                fd = t->files[start / t->slab];
                start %= t->slab;
            }
            int64_t asked = at - offset + bytes > length ? length - (at - offset) : bytes;
            requests[count++] = (IoRequest){
                fd, write, start, buffer + (at - offset), bytes, write ? bytes : asked, 0, 0};
            at += bytes;
            if (count == BATCH || (at >= high && (i + 1 == number || end >= offset + whole))) {
                int error = run_requests(o, requests, count, f);
                if (error) return error;
                count = 0;
            }
        }
        begin = end;
    }
    return count ? run_requests(o, requests, count, f) : 0;
}

static int move_bytes(Object *o, int64_t offset, int64_t length, char *buffer, int write,
                      Fault *f) {
    Tier *t = o->tier;
    if (t->kind == NULL_TIER && !t->throttled) return 0;
    int64_t began = clock_ns();
    int error = 0;
    if (t->kind == MEMORY) copy_memory(o, offset, length, buffer, write);
    else if (t->kind == FILES && write)
        release_claim(o, aligned(length)); /* from now on the file system may count it */
    if (t->kind == FILES || t->kind == SLABS)
        error = move_files(o, offset, length, buffer, write, f);
    if (t->throttled && !error) wait_turn(t, write, length, began);
    o->device_ns += clock_ns() - began;
    return error;
}

int object_read(Object *o, int64_t offset, int64_t length, void *buffer, Fault *f) {
    return move_bytes(o, offset, length, buffer, 0, f);
}

int object_write(Object *o, int64_t offset, int64_t length, const void *buffer, Fault *f) {
    return move_bytes(o, offset, length, (char *)buffer, 1, f);
}

/* Make the object as durable as its tier promises. */
int object_finish(Object *o, Fault *f) {
    Tier *t = o->tier;
    if (!t->io.fsync) return 0;
    int64_t began = clock_ns();
    int error = 0, fd = o->fd;
    if (t->kind == FILES) {
        if (call_fdatasync(fd)) error = errno;
    } else if (t->kind == SLABS) {
        const Extent *extents = o->extent_list ? o->extent_list : &o->extent;
        char *synced = calloc((size_t)t->slabs, 1);
        for (int64_t i = 0; i < o->extents && !error; i++)
            for (int64_t at = extents[i].start / t->slab;
                 at * t->slab < extents[i].start + extents[i].bytes && !error; at++) {
                fd = t->files[at];
                if (!synced[at] && call_fdatasync(fd)) error = errno;
                synced[at] = 1;
            }
        free(synced);
    }
    o->device_ns += clock_ns() - began;
    return error ? path_fault(t, o->key, fd, error, f) : 0;
}
