/* Tiers of a reference system on the virtual clock: each transfer takes a latency, then a share of
 * the tier's bandwidth (docs/ordering.md). */
#include "core.h"

#include "heap.h"

#define FRACTION 1024  /* virtual time counts 1/1024 ns */

typedef struct {
    Device model;
    Heap transfers;         /* (virtual time at which it ends; id) */
    int64_t attained, updated;
    int64_t next;           /* real time at which the first transfer ends */
} Pipe;

/* The transfers of a move that are still to be made. */
typedef struct { int64_t bytes; int8_t from, to; } Path;

struct Devices {
    Pipe pipes[TIERS];
    Heap latencies;         /* (end, id << 2 | tier): latencies that precede transfers */
    Path *paths;            /* by id */
    int64_t room;
};

Devices *devices_new(const Device *tiers) {
    Devices *d = zeros(1, sizeof *d);
    for (int tier = 0; tier < TIERS; tier++)
        d->pipes[tier] = (Pipe){.model = tiers[tier], .next = FAR};
    return d;
}

void devices_free(Devices *d) {
    if (!d) return;
    for (int tier = 0; tier < TIERS; tier++) free(d->pipes[tier].transfers.entries);
    free(d->latencies.entries);
    free(d->paths);
    free(d);
}

static int64_t share_count(const Pipe *p) {
    return p->transfers.count > p->model.streams ? p->transfers.count : p->model.streams;
}

static void advance_pipe(Pipe *p, int64_t now) {
    int64_t spent = now - p->updated;
    assert(spent >= 0);
    if (!p->transfers.count) p->attained = 0;
    else if (spent < INT64_MAX / FRACTION) p->attained += spent * FRACTION / share_count(p);
    else p->attained += (int64_t)((__int128)spent * FRACTION / share_count(p));
    p->updated = now;
}

static void update_next(Pipe *p) {
    if (!p->transfers.count) {
        p->attained = 0;
        p->next = FAR;
        return;
    }
    int64_t left = (int64_t)p->transfers.entries[0].key - p->attained, ticks;
    if (__builtin_mul_overflow(left, share_count(p), &ticks) || ticks > INT64_MAX - FRACTION)
        p->next =
            p->updated + (int64_t)(((__int128)left * share_count(p) + FRACTION - 1) / FRACTION);
    else
        p->next = p->updated + (ticks + FRACTION - 1) / FRACTION;
}

static int64_t duration(int64_t bytes, int64_t rate) {
    if (bytes < (INT64_MAX - rate) / 1000000000) return (bytes * 1000000000 + rate - 1) / rate;
    return (int64_t)(((__int128)bytes * 1000000000 + rate - 1) / rate);
}

static void start_latency(Devices *d, int32_t id, int64_t now) {
    Path *path = &d->paths[id];
    int tier = path->from >= 0 ? path->from : path->to;
    const Device *model = &d->pipes[tier].model;
    int64_t latency = path->from >= 0 ? model->read_latency_ns : model->write_latency_ns;
    heap_push(&d->latencies, (uint64_t)(now + latency), (int64_t)id << 2 | tier);
}

void devices_start(Devices *d, int32_t id, int from, int to, int64_t bytes, int64_t now) {
    assert(id >= 0 && bytes >= 0);
    if (id >= d->room) d->paths = grown(d->paths, &d->room, 2 * (int64_t)id + 64, sizeof *d->paths);
    d->paths[id] = (Path){bytes, (int8_t)from, (int8_t)to};
    start_latency(d, id, now);
}

int64_t devices_next(const Devices *d) {
    int64_t next = d->latencies.count ? (int64_t)d->latencies.entries[0].key : FAR;
    for (int tier = 0; tier < TIERS; tier++) {
        if (d->pipes[tier].next < next) next = d->pipes[tier].next;
    }
    return next;
}

int32_t devices_advance(Devices *d, int64_t now, int32_t *ended, int32_t most) {
    int32_t count = 0;
    for (int tier = 0; tier < TIERS; tier++) {
        Pipe *p = &d->pipes[tier];
        if (p->next > now) continue;
        advance_pipe(p, now);
        while (p->transfers.count && (int64_t)p->transfers.entries[0].key <= p->attained &&
               count < most) {
            int32_t id = (int32_t)heap_pop(&p->transfers).value;
            Path *path = &d->paths[id];
            if (path->from >= 0 && path->to >= 0) {  /* it has been read; now it is written */
                path->from = NONE;
                start_latency(d, id, now);
            } else {
                ended[count++] = id;
            }
        }
        update_next(p);
    }
    while (d->latencies.count && d->latencies.entries[0].key <= (uint64_t)now) {
        int64_t value = heap_pop(&d->latencies).value;
        int32_t id = (int32_t)(value >> 2);
        Pipe *p = &d->pipes[value & 3];
        const Path *path = &d->paths[id];
        int64_t rate = path->from >= 0 ? p->model.read_bytes_per_s : p->model.write_bytes_per_s;
        int64_t work = duration(path->bytes, rate);
        advance_pipe(p, now);
        heap_push(&p->transfers, (uint64_t)(p->attained + FRACTION * (work ? work : 1)), id);
        update_next(p);
    }
    return count;
}
