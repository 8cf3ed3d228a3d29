#include "stations.h"
#include <math.h>

#include "heap.h"
#include "memory.h"

/* Transfers have a stage for each size of turns, 2^0 to 2^40 bytes: visits in one progress alike. */
enum { OPEN_STAGE, LATENCY, TRANSFER, SIZES = 41, REMOVING = TRANSFER + SIZES, STAGES };

static const double QUANTILE_AT[QUANTILES] = {0, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1};

typedef struct {
    Heap visits;                /* (target as bits of a double, which sort alike; worker) */
    double progress;            /* units that each visit has received; 0: the stage is empty */
    int64_t next;               /* when the first visit leaves, or FAR */
} Stage;

typedef struct {
    Stage stage[STAGES];
    const Station *model;
    int64_t present;            /* visits, those between two stages included */
    double turns;               /* the sum of their turns, in bytes */
    bool opens, waits, removes; /* whether the stages open, latency and removing have any cost */
} Side;

typedef struct {
    Side side[2];
    int64_t updated;
    bool changed;               /* flag: `next` of its stages is not known */
} TierClock;

typedef struct {
    int8_t tier, direction, stage;
    int8_t size;                /* of its turns: 2^size bytes */
    double factor, bytes;
    int64_t opened;
} Visit;

struct Stations {
    TierClock tiers[TIERS];
    Stage cpu;
    double cores;
    int64_t cpu_updated;
    bool cpu_changed;
    Visit visits[];             /* by worker; tier NONE: the CPU */
};

static bool has_cost(const Station *m, const double *costs) {
    for (int64_t at = 0; at < m->points; at++)
        if (costs[at] > 0) return true;
    return false;
}

Stations *stations_new(const Profile *profile, int64_t workers) {
    Stations *s = zeros(1, sizeof *s + (size_t)workers * sizeof *s->visits);
    for (int tier = 0; tier < TIERS; tier++)
        for (int direction = 0; direction < 2; direction++) {
            Side *side = &s->tiers[tier].side[direction];
            side->model = &profile->tier[tier][direction];
            side->opens = has_cost(side->model, side->model->open_ns);
            side->waits = has_cost(side->model, side->model->latency_ns);
            side->removes = has_cost(side->model, side->model->remove_ns);
            for (int stage = 0; stage < STAGES; stage++) side->stage[stage].next = FAR;
        }
    s->cpu.next = FAR;
    s->cores = profile->cores;
    return s;
}

void stations_free(Stations *s) {
    if (!s) return;
    for (int tier = 0; tier < TIERS; tier++)
        for (int direction = 0; direction < 2; direction++)
            for (int stage = 0; stage < STAGES; stage++)
                free(s->tiers[tier].side[direction].stage[stage].visits.entries);
    free(s->cpu.visits.entries);
    free(s);
}

/* ---- Costs. ---- */
static const double *stage_costs(const Station *m, int stage) {
    if (stage == OPEN_STAGE) return m->open_ns;
    if (stage == LATENCY) return m->latency_ns;
    return stage == REMOVING ? m->remove_ns : m->byte_ns;
}

static double load_of(const TierClock *t, int direction) {
    const Side *own = &t->side[direction], *other = &t->side[!direction];
    return (double)own->present + own->model->other_weight * (double)other->present;
}

/* Return the greatest point whose load is at most x; the first one, if x is less than all. */
static int64_t point_below(const Station *m, double x) {
    int64_t at = 0;
    while (at + 1 < m->points && m->load[at + 1] <= x) at++;
    return at;
}

static double cost_at_load(const Station *m, const double *costs, double x) {
    const double *load = m->load;
    int64_t at = point_below(m, x);
    if (x <= load[at] && !at) return costs[0];
    if (at == m->points - 1) return costs[at] * (x / load[at]);
    return costs[at] +
           (costs[at + 1] - costs[at]) * ((x - load[at]) / (load[at + 1] - load[at]));
}

/* The cost of a stage now. A transfer takes its own time, and waits for the turns of the others. */
static double cost_of(const TierClock *t, int direction, int stage) {
    const Side *own = &t->side[direction], *other = &t->side[!direction];
    const double *costs = stage_costs(own->model, stage);
    double x = load_of(t, direction), cost = cost_at_load(own->model, costs, x);
    if (stage < TRANSFER || stage == REMOVING || !(x > 1) || !(cost > costs[0])) return cost;
    double turn = (double)(INT64_C(1) << (stage - TRANSFER));
    double others = own->turns + own->model->other_weight * other->turns - turn;
    return costs[0] + (cost - costs[0]) * (others / ((x - 1) * turn));
}

static double draw_factor(const Station *m, double x, double u) {
    if (!m->has_spread) return 1;
    assert(u >= 0 && u < 1);
    const double *quantiles = m->spread[point_below(m, x)];
    int above = 1;
    while (u >= QUANTILE_AT[above]) above++;
    double p = QUANTILE_AT[above - 1], q = QUANTILE_AT[above];
    return quantiles[above - 1] +
           (quantiles[above] - quantiles[above - 1]) * ((u - p) / (q - p));
}

/* ---- Stages. ---- */
static uint64_t bits_of(double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}
static double first_target(const Stage *stage) {
    double target;
    memcpy(&target, &stage->visits.entries[0].key, sizeof target);
    return target;
}

/* Return the first whole nanosecond at or after the end of a span that begins at `from`. */
static int64_t end_of(int64_t from, double span_ns) {
    if (span_ns <= 0) return from;
    return span_ns < 1e18 ? from + (int64_t)ceil(span_ns) : FAR;
}

static void progress_stage(Stage *stage, int64_t spent_ns, double cost) {
    if (stage->visits.count) stage->progress += (double)spent_ns / cost;
}

static void plan_end(Stage *stage, int64_t now, double cost) {
    stage->next = FAR;
    if (stage->visits.count)
        stage->next = end_of(now, (first_target(stage) - stage->progress) * cost);
}

static void join_stage(Stage *stage, double units, int64_t worker) {
    heap_push(&stage->visits, bits_of(stage->progress + units), worker);
}

/* Take out the visits whose target is reached; they are at the first one's. */
static int64_t leave_stage(Stage *stage, int64_t now, int32_t *out) {
    if (stage->next > now) return 0;
    assert(stage->visits.count > 0);
    int64_t count = 0;
    if (stage->progress < first_target(stage)) stage->progress = first_target(stage);
    while (stage->visits.count && first_target(stage) <= stage->progress)
        out[count++] = (int32_t)heap_pop(&stage->visits).value;
    if (!stage->visits.count) stage->progress = 0;
    return count;
}

static void update_tier(TierClock *t, int64_t now) {
    for (int direction = 0; direction < 2 && now > t->updated; direction++) {
        Side *side = &t->side[direction];
        if (!side->present) continue;
        for (int stage = 0; stage < STAGES; stage++)
            if (side->stage[stage].visits.count)
                progress_stage(&side->stage[stage], now - t->updated,
                               cost_of(t, direction, stage));
    }
    t->updated = now;
    t->changed = true;
}

static double cpu_cost(const Stations *s) {
    double load = (double)s->cpu.visits.count / s->cores;
    return load > 1 ? load : 1;
}

static void update_cpu(Stations *s, int64_t now) {
    progress_stage(&s->cpu, now - s->cpu_updated, cpu_cost(s));
    s->cpu_updated = now;
    s->cpu_changed = true;
}

/* ---- Visits. ---- */
/* Return the least power of two, as its exponent, that a visit's turns fit into. */
static int8_t turn_size(const Station *m, double bytes) {
    double turn = bytes < m->turn_bytes ? bytes : m->turn_bytes;
    int8_t size = 0;
    while (size < SIZES - 1 && (double)(INT64_C(1) << size) < turn) size++;
    return size;
}

static void count_visit(Side *side, const Visit *v, int by) {
    side->present += by;
    assert(side->present >= 0);
    side->turns += (double)by * (double)(INT64_C(1) << v->size);
}

/* Enter the first stage that takes time, from the one that is the visit's now on. Returns false if
 * there is none. */
static bool enter_stage(Stations *s, int64_t worker, int64_t now) {
    Visit *v = &s->visits[worker];
    Side *side = &s->tiers[v->tier].side[v->direction];
    for (; v->stage <= TRANSFER; v->stage++) {
        if (v->stage == LATENCY) v->opened = now;
        if ((v->stage == OPEN_STAGE && !side->opens) || (v->stage == LATENCY && !side->waits))
            continue;
        double units = v->stage == TRANSFER ? v->bytes : 1;
        if (v->stage == TRANSFER) v->stage = (int8_t)(TRANSFER + v->size);
        join_stage(&side->stage[v->stage], v->factor * units, worker);
        return true;
    }
    count_visit(side, v, -1);
    return false;
}

static void begin_visit(Stations *s, int64_t worker, Visit visit, int64_t now) {
    TierClock *t = &s->tiers[visit.tier];
    update_tier(t, now);
    s->visits[worker] = visit;
    count_visit(&t->side[visit.direction], &visit, 1);
}

bool stations_transfer(Stations *s, int64_t worker, int tier, int direction, int64_t bytes,
                       int64_t pieces, double u, int64_t now) {
    const TierClock *t = &s->tiers[tier];
    const Station *model = t->side[direction].model;
    Visit visit = {.tier = (int8_t)tier,
                   .direction = (int8_t)direction,
                   .size = turn_size(model, (double)bytes),
                   .bytes = (double)bytes,
                   .opened = now};
    begin_visit(s, worker, visit, now);
    double factor = draw_factor(model, load_of(t, direction), u);
    s->visits[worker].factor = 1 + (factor - 1) / sqrt((double)pieces);
    return enter_stage(s, worker, now);
}

bool stations_remove(Stations *s, int64_t worker, int tier, int64_t now) {
    Side *side = &s->tiers[tier].side[WRITES];
    if (!side->removes) return false;
    Visit visit = {.tier = (int8_t)tier, .direction = WRITES, .stage = REMOVING};
    begin_visit(s, worker, visit, now);
    join_stage(&side->stage[REMOVING], 1, worker);
    return true;
}

void stations_compute(Stations *s, int64_t worker, int64_t work_ns, int64_t now) {
    update_cpu(s, now);
    s->visits[worker] = (Visit){.tier = NONE};
    join_stage(&s->cpu, (double)work_ns, worker);
}

bool stations_go_on(Stations *s, int32_t worker, int64_t now) {
    Visit *v = &s->visits[worker];
    if (v->tier == NONE) return false;
    v->stage++;
    return enter_stage(s, worker, now);
}

int64_t stations_opened(const Stations *s, int32_t worker) { return s->visits[worker].opened; }

/* ---- The clock. ---- */
static void plan_tier(TierClock *t) {
    for (int direction = 0; direction < 2; direction++) {
        Side *side = &t->side[direction];
        for (int stage = 0; stage < STAGES; stage++) {
            bool busy = side->stage[stage].visits.count > 0;
            plan_end(&side->stage[stage], t->updated, busy ? cost_of(t, direction, stage) : 0);
        }
    }
    t->changed = false;
}

int64_t stations_next(Stations *s) {
    int64_t next = FAR;
    for (int tier = 0; tier < TIERS; tier++) {
        TierClock *t = &s->tiers[tier];
        if (t->changed) plan_tier(t);
        for (int direction = 0; direction < 2; direction++)
            for (int stage = 0; stage < STAGES; stage++)
                if (t->side[direction].stage[stage].next < next)
                    next = t->side[direction].stage[stage].next;
    }
    if (s->cpu_changed) {
        plan_end(&s->cpu, s->cpu_updated, cpu_cost(s));
        s->cpu_changed = false;
    }
    return s->cpu.next < next ? s->cpu.next : next;
}

int64_t stations_end(Stations *s, int64_t now, int32_t *out) {
    int64_t count = 0;
    for (int tier = 0; tier < TIERS; tier++) {
        TierClock *t = &s->tiers[tier];
        for (int direction = 0; direction < 2; direction++)
            for (int stage = 0; stage < STAGES; stage++) {
                Stage *of = &t->side[direction].stage[stage];
                if (of->next > now) continue;
                update_tier(t, now);
                count += leave_stage(of, now, out + count);
            }
    }
    if (s->cpu.next <= now) {
        update_cpu(s, now);
        count += leave_stage(&s->cpu, now, out + count);
    }
    return count;
}
