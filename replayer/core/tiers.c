/* Tiers: null, memory, files and slabs; any of them may be throttled. They do I/O and nothing else:
 * the plan decides which tier holds which object.
 *
 * Calls on different keys may overlap, from any number of threads; calls on one key overlap only if
 * all of them read.
 */
#define _GNU_SOURCE
#include "core.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
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
    int64_t waits_until;        /* when the throttle's waits end at the latest, on clock_ns() */

    Channel channels[2];        /* reads, writes; each has a lock of its own */
};

int64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Make a tier with room for so many bytes, in units; 0: it does not count its room. Returns NULL if
 * there is not enough memory. */
static Tier *new_tier(TierKind kind, const char *name, int64_t bytes, int64_t unit) {
    enum { HELD = 64 };
    Tier *t = calloc(1, sizeof *t);
    Held *held = calloc(HELD, sizeof *held);
    Extents *room = unit ? extents_new(bytes / unit) : NULL;
    if (!t || !held || (unit && !room)) {
        free(t);
        free(held);
        extents_free(room);
        return NULL;
    }
    t->kind = kind;
    snprintf(t->name, sizeof t->name, "%s", name);
    pthread_mutex_init(&t->lock, NULL);
    for (int direction = 0; direction < 2; direction++)
        pthread_mutex_init(&t->channels[direction].lock, NULL);
    t->held_room = HELD;
    t->held = held;
    t->room = room;
    t->unit = unit;
    t->budget = t->waits_until = INT64_MAX;
    return t;
}

void tier_free(Tier *t) {
    if (!t) return;
    for (int64_t i = 0; i < t->held_room; i++)
        if (t->held[i].extents) free(t->held[i].extent_list);
    free(t->held);
    extents_free(t->room);
    free((void *)t->files);
    pthread_mutex_destroy(&t->lock);
    for (int direction = 0; direction < 2; direction++)
        pthread_mutex_destroy(&t->channels[direction].lock);
    free(t);
}

Tier *tier_null(void) { return new_tier(NULL_TIER, "null tier", 0, 0); }
/* Its moves are made by the caller of engine_work. */
Tier *tier_elsewhere(void) { return new_tier(ELSEWHERE, "", 0, 0); }

Tier *tier_memory(void *arena, int64_t bytes, int64_t unit, const char *name) {
    Tier *t = new_tier(MEMORY, name, bytes, unit);
    if (t) t->arena = arena;
    return t;
}

Tier *tier_files(int folder, const char *path, const BlockIO *io, int direct) {
    Tier *t = new_tier(FILES, path, 0, 0);
    if (!t) return NULL;
    t->folder = folder;
    t->io = *io;
    t->direct = direct;
    return t;
}

Tier *tier_slab(const int *files, int64_t count, int64_t slab, int64_t bytes, int64_t unit,
                const BlockIO *io, const char *path) {
    Tier *t = new_tier(SLABS, path, bytes, unit);
    int *own = malloc((size_t)(count + 1) * sizeof *own);
    if (!t || !own) {
        free(own);
        tier_free(t);
        return NULL;
    }
    memcpy(own, files, (size_t)count * sizeof *own);
    t->files = own;
    t->slab = slab;
    t->slabs = count;
    t->io = *io;
    return t;
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
        t->channels[direction].ns_per_byte =
            1e9 / ((direction ? write_mib_s : read_mib_s) * 1048576);
        t->channels[direction].latency_ns = latency_us * 1e3;
    }
}

void tier_wait_at_most(Tier *t, int64_t until) {
    __atomic_store_n(&t->waits_until, until, __ATOMIC_RELAXED);
}

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

/* Return when the throttled tier would have moved the bytes. */
void tier_wait_turn(Tier *t, int direction, int64_t bytes, int64_t began) {
    Channel *c = &t->channels[direction];
    int64_t *late_ns = lateness(t, direction);
    double early = (double)(began - *late_ns);
    pthread_mutex_lock(&c->lock);
    c->free_ns = (c->free_ns > early ? c->free_ns : early) + (double)bytes * c->ns_per_byte;
    double until = (c->free_ns > (double)began ? c->free_ns : (double)began) + c->latency_ns;
    pthread_mutex_unlock(&c->lock);
    int64_t end = until < (double)FAR ? (int64_t)until : FAR, now;
    while ((now = clock_ns()) < end && now < __atomic_load_n(&t->waits_until, __ATOMIC_RELAXED)) {
        int64_t to = end - now > NAP_NS ? now + NAP_NS : end;
        struct timespec at = {to / 1000000000, to % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    }
    *late_ns = now - end < LATE_NS ? now - end : LATE_NS;
}

/* ---- Objects held in memory or slabs. ---- */
__attribute__((format(printf, 4, 5)))
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

/* Make sure that the table has a slot for one more object. Returns whether there is the memory. */
static bool reserve_held(Tier *t) {
    if (2 * (t->held_count + 1) <= t->held_room) return true;
    Held *old = t->held, *more = calloc(2 * (size_t)t->held_room, sizeof *more);
    if (!more) return false;
    int64_t count = t->held_room;
    t->held_room *= 2;
    t->held = more;
    for (int64_t i = 0; i < count; i++)
        if (old[i].extents) *find_held(t, old[i].key) = old[i];
    free(old);
    return true;
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
    assert(t->held_count > 0);
    t->held_count--;
}

static int no_room_fault(Tier *t, int64_t size, Fault *f) {
    if (t->kind == SLABS)
        return fault(f, ENOSPC, FAULT_OWN, "no %lld bytes free in the slabs", (long long)size);
    return fault(f, ENOMEM, FAULT_OWN, "no %lld bytes free in the %s's arena", (long long)size,
                 t->name);
}

static int no_memory_fault(Fault *f) {
    return fault(f, ENOMEM, FAULT_OWN, "no memory for the book-keeping of the tier");
}

static int take_room(Tier *t, Object *o, Fault *f) {
    int64_t units = (o->size + t->unit - 1) / t->unit, most = 1;
    if (o->size > t->budget) return no_room_fault(t, o->size, f);
    Extent *extents = &o->extent;
    while ((o->extents = extents_take(t->room, units, extents, most)) < 0) {  /* more are needed */
        most *= 16;
        extents = realloc(o->extent_list, (size_t)most * sizeof *extents);
        if (!extents) free(o->extent_list);
        o->extent_list = extents;
        if (!extents) return no_memory_fault(f);
    }
    if (!o->extents) {
        free(o->extent_list);
        return no_room_fault(t, o->size, f);
    }
    for (int64_t i = 0; i < o->extents; i++)
        extents[i] = (Extent){extents[i].start * t->unit, extents[i].bytes * t->unit};
    o->extent = extents[0];
    t->budget -= o->size;
    assert(t->budget >= 0);
    return 0;
}

static int create_held(Tier *t, Object *o, Fault *f) {
    int error = 0;
    o->extents = 1;
    pthread_mutex_lock(&t->lock);
    if (!reserve_held(t)) error = no_memory_fault(f);
    else if (t->room) error = take_room(t, o, f);
    if (!error) {
        Held *slot = find_held(t, o->key);
        assert(!slot->extents || !t->room);  /* it would keep the room of the object that was there */
        t->held_count += !slot->extents;
        *slot = (Held){o->key, o->size, o->extents, o->extent, o->extent_list};
    }
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
        if (t->room) t->budget += held->size;
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
    int64_t unchecked = error ? 0 : left < CHECK_BYTES ? left : CHECK_BYTES;
    __atomic_store_n(&t->unchecked, unchecked, __ATOMIC_RELAXED);
    return error;
}

static int create_file(Tier *t, Object *o, Fault *f) {
    int error = t->reserve ? claim_space(t, o, f) : 0;
    if (!error && (error = open_file(t, o, O_WRONLY | O_CREAT | O_EXCL, f)))
        release_claim(o, o->claimed);
    return error;
}

/* A file is one extent, which begins where the file does. */
static Object new_object(Tier *t, uint64_t key, int64_t size) {
    return (Object){.tier = t, .key = key, .size = size, .fd = -1, .extent = {0, INT64_MAX}};
}

int object_create(Tier *t, Object *o, uint64_t key, int64_t size, Fault *f) {
    *o = new_object(t, key, size);
    return t->kind == FILES ? create_file(t, o, f) : create_held(t, o, f);
}

int object_open(Tier *t, Object *o, uint64_t key, int64_t size, Fault *f) {
    *o = new_object(t, key, size);
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

/* The extents of an object, one after the other: where the one that is looked at begins in it. */
typedef struct { const Extent *extent; int64_t begin; } Cursor;

static Cursor first_extent(const Object *o) {
    return (Cursor){o->extent_list ? o->extent_list : &o->extent, 0};
}

/* Return the bytes of an object from `at` on that lie together, up to `end`, by their place in the
 * tier. `at` grows from call to call. */
static Extent next_piece(Cursor *c, int64_t at, int64_t end) {
    while (c->begin + c->extent->bytes <= at) c->begin += c->extent++->bytes;
    int64_t inside = at - c->begin, left = c->extent->bytes - inside;
    return (Extent){c->extent->start + inside, left < end - at ? left : end - at};
}

static void copy_memory(Object *o, int64_t offset, int64_t length, char *buffer, int write) {
    Cursor cursor = first_extent(o);
    for (int64_t done = 0; done < length;) {
        Extent piece = next_piece(&cursor, offset + done, offset + length);
        char *there = o->tier->arena + piece.start, *here = buffer + done;
        if (write) memcpy(there, here, (size_t)piece.bytes);
        else memcpy(here, there, (size_t)piece.bytes);
        done += piece.bytes;
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
    int64_t count = 0, whole = aligned(length);
    Cursor cursor = first_extent(o);
    for (int64_t done = 0; done < whole;) {
        Extent piece = next_piece(&cursor, offset + done, offset + whole);
        if (piece.bytes > t->io.request_bytes) piece.bytes = t->io.request_bytes;
        int fd = o->fd;
        if (t->kind == SLABS) {
            fd = t->files[piece.start / t->slab];
            piece.start %= t->slab;
            if (piece.bytes > t->slab - piece.start) piece.bytes = t->slab - piece.start;
        }
        int64_t asked = done + piece.bytes > length ? length - done : piece.bytes;
        requests[count++] = (IoRequest){fd,          write, piece.start, buffer + done,
                                        piece.bytes, write ? piece.bytes : asked, 0, 0};
        done += piece.bytes;
        if (count < BATCH && done < whole) continue;
        int error = run_requests(o, requests, count, f);
        if (error) return error;
        count = 0;
    }
    return 0;
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
    if (t->throttled && !error) tier_wait_turn(t, write, length, began);
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
        const Extent *extents = first_extent(o).extent;
        char *synced = calloc((size_t)t->slabs, 1);
        if (!synced) return no_memory_fault(f);
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
