#include "run.h"
#include <sched.h>

#include "memory.h"

static void *append(RecordBuffer *b, size_t size) {
    if (b->count == b->room) b->filling = grown(b->filling, &b->room, RECORDS_MOST, size);
    return b->filling + (size_t)b->count++ * size;
}

static int64_t take(RecordBuffer *b, const void **out) {
    int64_t count = b->count, room = b->room;
    char *full = b->filling;
    b->filling = b->taken;
    b->room = b->taken_room;
    b->taken = full;
    b->taken_room = room;
    b->count = 0;
    *out = full;
    return count;
}

void run_begin(Run *r, const Workload *ops, const Settings *settings, const Load *load,
               Planner *planner, Placement *live, const Rules *rules) {
    int64_t capacity[TIERS];
    capacities(rules, capacity);
    *r = (Run){.ops = ops,
               .set = *settings,
               .planner = planner,
               .live = live,
               .inclusive = rules->inclusive != 0,
               .limit = NONE,
               .highest = NONE};
    r->scheduler = passed_on(scheduler_new(ops, capacity, load, live, r->inclusive));
    r->state.steady_ns = r->state.stopped_ns = NEVER;
    r->state.warmup_position = settings->warmup_ns ? FAR : settings->warmup_position;
    if (live && settings->most_ops >= 0) scheduler_decide_no_more(r->scheduler, settings->most_ops);
}

void run_end(Run *r) {
    scheduler_free(r->scheduler);
    free(r->records.filling);
    free(r->records.taken);
    free(r->rows.filling);
    free(r->rows.taken);
}

/* ---- Time limits. ---- */
bool run_apply_limits(Run *r, int64_t now) {
    bool changed = false;
    if (r->set.duration_ns >= 0 && !r->state.cut && now >= r->set.duration_ns) {
        r->state.cut = 1;
        r->state.cut_ns = now;
        r->limit = r->highest;
        if (r->live) {
            r->limit = scheduler_decided(r->scheduler) - 1;
            scheduler_decide_no_more(r->scheduler, 0);
        }
        changed = true;
    }
    if (r->state.cut && r->set.drain_ns >= 0 && !r->stopping &&
        now >= r->set.duration_ns + r->set.drain_ns) {
        r->state.stopped_ns = now;
        r->stopping = true;
        changed = true;
    }
    if (r->state.warmup_position == FAR && now >= r->set.warmup_ns)
        r->state.warmup_position = r->highest + 1;
    return changed;
}

void run_refuse(Run *r) {
    r->state.refused_bytes = memory_refused();
    r->stopping = true;
}

int64_t run_next_limit(const Run *r, int64_t now) {
    int64_t next = FAR;
    int64_t limits[] = {r->set.duration_ns,
                        r->set.drain_ns >= 0 ? r->set.duration_ns + r->set.drain_ns : -1,
                        r->set.warmup_ns};
    for (int i = 0; i < 3; i++)
        if (limits[i] > now && limits[i] < next) next = limits[i];
    return next;
}

bool run_is_finished(const Run *r) {
    int32_t lowest = scheduler_lowest(r->scheduler);
    if (lowest != NONE)
        return r->state.cut && scheduler_op(r->scheduler, lowest)->position > r->limit;
    if (r->state.cut) return true;
    if (!r->live) return r->exhausted;
    int64_t wanted = r->ops->ops;
    if (r->set.most_ops >= 0 && r->set.most_ops < wanted) wanted = r->set.most_ops;
    return scheduler_decided(r->scheduler) >= wanted;
}

/* ---- The window. ---- */
bool run_has_room(const Run *r) {
    int64_t inside = scheduler_in_window(r->scheduler);
    return !inside || (inside < r->set.window_ops &&
                       scheduler_window_bytes(r->scheduler) < r->set.window_bytes && !r->state.cut);
}

void run_admit(Run *r, int64_t position, const PlannedOp *op, const PlannedMove *moves,
               int64_t now) {
    int64_t at = r->set.trace_order ? r->ops->op[op->row].op_id : position;
    scheduler_admit(r->scheduler, at, op->row, (int)op->role, moves, op->moves, now);
}

int32_t run_take(Run *r) {
    for (;;) {
        int32_t move = scheduler_take(r->scheduler);
        if (move == NONE) return NONE;
        const Move *m = scheduler_move(r->scheduler, move);
        int64_t position = scheduler_op(r->scheduler, m->op)->position;
        if (r->state.cut && position > r->limit) {
            scheduler_give_back(r->scheduler, move);
            continue;
        }
        if (position > r->highest && m->pulled_ns == NEVER) r->highest = position;
        r->in_flight++;
        return move;
    }
}

bool run_retire(Run *r) {
    bool some = false;
    for (int32_t at; (at = scheduler_lowest(r->scheduler)) != NONE; some = true) {
        const Op *op = scheduler_op(r->scheduler, at);
        assert(op->left >= 0);
        if (op->left) break;
        int64_t seq = 0, op_id = r->ops->op[op->planned].op_id;
        totals_op(&r->totals, op->role);
        for (int32_t move = op->first_move; move != NONE; seq++) {
            const Move *m = scheduler_move(r->scheduler, move);
            PlannedMove planned = {m->size, m->key, m->kind, m->from, m->to, m->background};
            totals_move(&r->totals, r->ops, op->planned, seq, &planned);
            write_row(append(&r->rows, 7 * sizeof(int64_t)), op_id, seq, &planned);
            move = m->next;
        }
        assert(seq == op->moves && op->position >= r->state.executed);
        r->state.retired++;
        r->state.executed = op->position + 1;
        scheduler_retire(r->scheduler);
    }
    return some;
}

/* ---- Rows of the log. ---- */
void run_describe(Run *r, int32_t move, int64_t worker, Record *out) {
    const Move *m = scheduler_move(r->scheduler, move);
    const Op *op = scheduler_op(r->scheduler, m->op);
    const TraceOp *asked = &r->ops->op[op->row];
    const TraceRequest *request = &r->ops->request[op->request];
    int64_t due = m->pulled_ns == NEVER ? op->due_ns : m->pulled_ns;
    int64_t wait = m->ready_ns - due, outside = op->admitted_ns - due;
    outside = outside < 0 ? 0 : outside < wait ? outside : wait;
    wait -= outside;
    *out = (Record){
        .op_id = r->ops->op[op->planned].op_id,
        .position = op->position,
        .request_id = op->request,
        .session_id = request->session,
        .user_id = request->user,
        .key = m->key,
        .size_bytes = m->size,
        .due_ns = due,
        .ready_ns = m->ready_ns,
        .window_ns = outside,
        .order_ns = m->order_ns < wait ? m->order_ns : wait,
        .seq = m->seq,
        .turn = request->turn,
        .step = asked->step,
        .new_tokens = m->seq ? 0 : asked->new_tokens,
        .tokens = r->ops->key[m->key].tokens,
        .worker = (int32_t)worker,
        .error = NONE,
        .qos = op->qos,
        .phase = (int8_t)asked->phase,
        .op = op->role,
        .source = (int8_t)asked->source,
        .move = m->kind,
        .from_tier = m->from,
        .to_tier = m->to,
        .waited_for = m->waited_for,
    };
}

void run_record(Run *r, Record *record) {
    State *s = &r->state;
    assert(r->in_flight > 0);
    r->in_flight--;
    record->warmup = record->position < s->warmup_position;
    if (record->start_ns > s->issued_ns) s->issued_ns = record->start_ns;
    if (record->end_ns > s->ended_ns) s->ended_ns = record->end_ns;
    if (!record->warmup && (s->steady_ns == NEVER || record->start_ns < s->steady_ns))
        s->steady_ns = record->start_ns;
    if (record->status == OK && record->from_tier == NVME && transfers(record->move))
        s->nvme_read_bytes += record->size_bytes;
    *(Record *)append(&r->records, sizeof *record) = *record;
}

/* Split records into columns, a block at a time that stays in the CPU's caches. `fields` gives the
 * offset and bytes (1, 4 or 8) of each. It yields the core to a worker that has been woken on it:
 * the kernel would otherwise let the worker wait for milliseconds. */
void records_split(const char *records, int64_t count, int64_t stride, const int64_t (*fields)[2],
                   char *const *out, int64_t columns) {
    enum { BLOCK_RECORDS = 64 };
    for (int64_t begin = 0; begin < count; begin += BLOCK_RECORDS) {
        sched_yield();
        int64_t end = begin + BLOCK_RECORDS < count ? begin + BLOCK_RECORDS : count;
        for (int64_t column = 0; column < columns; column++) {
            const char *from = records + begin * stride + fields[column][0];
            size_t bytes = (size_t)fields[column][1];
            char *to = out[column] + (size_t)begin * bytes;
            assert(bytes == 8 || bytes == 4 || bytes == 1);
            for (int64_t i = begin; i < end; i++, from += stride, to += bytes) {
                if (bytes == 8) memcpy(to, from, 8);
                else if (bytes == 4) memcpy(to, from, 4);
                else *to = *from;
            }
        }
    }
}

/* ---- Functions of the main thread, on what begins with its Run: an engine or a prediction. ---- */
static void hold(const Run *r) {
    if (r->lock) pthread_mutex_lock(r->lock);
}

static void let_go(const Run *r) {
    if (r->lock) pthread_mutex_unlock(r->lock);
}

/* List the requests that were due before the cut and are not done, as scheduler_unfinished. */
int64_t run_unfinished(const Run *r, Unfinished *out, int64_t room) {
    hold(r);
    int64_t until = r->state.cut ? r->state.cut_ns : NEVER;
    int64_t count = scheduler_unfinished(r->scheduler, until, out, room);
    let_go(r);
    return count;
}

void run_state(const Run *r, State *out) {
    hold(r);
    *out = r->state;
    out->over = run_is_finished(r);
    out->in_window = scheduler_in_window(r->scheduler);
    out->in_flight = r->in_flight;
    out->queued = scheduler_ready(r->scheduler);
    out->left = out->cut && r->limit >= out->executed ? r->limit + 1 - out->executed : 0;
    let_go(r);
}

void run_totals(const Run *r, Totals *out) {
    hold(r);
    *out = r->totals;
    let_go(r);
}

/* Take what has been recorded since the last call; it is valid until the next. Records: rows of the
 * log. Rows: the moves of executed ops in the plan's order, seven numbers each, for the
 * fingerprint. */
int64_t run_take_records(Run *r, const void **out) {
    hold(r);
    int64_t count = take(&r->records, out);
    if (r->drained) pthread_cond_broadcast(r->drained);
    let_go(r);
    return count;
}

int64_t run_take_rows(Run *r, const void **out) {
    hold(r);
    int64_t count = take(&r->rows, out);
    let_go(r);
    return count;
}
