/* Placement: which tiers hold which object, decided from the order of ops alone, under the rules of
 * an arrangement (docs/arrangements.md, docs/waterfall.md). Belongs to one thread, or is guarded by
 * Engine.lock. */
#include "placement.h"
#include "policies/queue.h"

/* How often each key was touched, of the keys touched most recently: what a tier admits by. */
typedef struct {
    uint32_t *of;               /* per key */
    Queue listed;               /* keys with a count; each counts 1 in its bytes */
    int64_t most;               /* 0: all keys; then nothing is listed */
} TouchCounts;

/* What a request asks of the tiers. */
typedef struct {
    uint8_t begun, asked;       /* asked: a bit per tier */
    int64_t missing[TIERS];     /* tokens in flight, of tiers that are limited and asked */
} Fetch;

enum { ALL_TIERS = (1 << TIERS) - 1 };  /* a bit per tier */

struct Placement {
    Memory memory;              /* of all that does not grow */
    const Workload *ops;
    Rules rules;
    int64_t position;           /* of the op that is being decided */
    int64_t now_ns;             /* the op's time */
    Account account;
    int64_t pinned[TIERS];      /* bytes of pinned objects */
    uint8_t *places;            /* per key: its holders, and flags */
    uint8_t *touches[TIERS];    /* per key: touches of the object in the tier */
    uint32_t *last_touch;       /* per key: position of the last op on it */
    uint32_t *key_at;           /* per position: the key of its op */
    int64_t *touched_ns;        /* per key, with a time to live */
    uint8_t *broken;            /* per request: it is past its first prefill write or miss */
    int32_t *owner, *parent;    /* per key, if a rule needs them */
    uint32_t *next_use;         /* per position, if a policy needs it */
    PolicyView view;
    Policy *policies[TIERS];    /* NULL: nothing is evicted from the tier */
    TouchCounts *counts[TIERS]; /* NULL: the tier admits everything */
    Queue *shares[TIERS];       /* per user: its objects, the one touched the longest ago first;
                                   NULL: no quota */
    int32_t *prompt_left;       /* per request: prefill ops to be decided, if a rule needs it */
    uint32_t *prompt_at;        /* per row: position of a prefill op; NULL: recency is that of ops */
    Fetch *fetches;             /* per request; NULL: every request asks every tier */
    int64_t fetching[TIERS];    /* tokens of requests in flight */
    int8_t in_background;       /* flag of the moves that are emitted */
    PlannedMove *moves;
    int64_t count, room;
};

enum { UNWRITTEN = 1 << 3, PINNED = 1 << 4 };  /* of Placement.places */
enum { MOST_TOUCHES = 127 };                                            /* of Placement.touches */

static bool is_bounded(const TierRules *rules) {
    return rules->usable && rules->usable != UNLIMITED;
}

static TouchCounts *new_counts(Placement *p, int64_t most) {
    TouchCounts *c = array(&p->memory, 1, sizeof *c);
    size_t keys = (size_t)p->ops->keys + 1;
    c->of = array(&p->memory, keys, sizeof *c->of);
    c->listed = queue_new(most ? array(&p->memory, keys, sizeof(Link)) : NULL);
    c->most = most;
    return c;
}

static Queue *new_shares(Placement *p) {
    Queue *shares = array(&p->memory, (size_t)p->ops->users + 1, sizeof *shares);
    Link *links = array(&p->memory, (size_t)p->ops->keys + 1, sizeof *links);
    for (int64_t user = 0; user < p->ops->users; user++) shares[user] = queue_new(links);
    return shares;
}

static void count_prompts(Placement *p) {
    const Workload *w = p->ops;
    p->prompt_left = array(&p->memory, (size_t)w->requests + 1, sizeof *p->prompt_left);
    for (int64_t row = 0; row < w->ops; row++)
        p->prompt_left[w->op[row].request] += is_of_prompt(&w->op[row]);
}

static void open_tier(Placement *p, int tier) {
    const TierRules *rules = &p->rules.tier[tier];
    size_t keys = (size_t)p->ops->keys + 1;
    p->touches[tier] = array(&p->memory, rules->usable ? keys : 1, 1);
    if (is_bounded(rules)) {
        PolicyView view = p->view;
        view.capacity = rules->usable;
        const PolicyKind *kind = policy_at(rules->policy);
        p->policies[tier] = kind->make(kind, &view);
    }
    if (rules->usable && rules->admit_touches > 1)
        p->counts[tier] = new_counts(p, rules->admit_table);
    if (rules->usable && rules->user_quota != UNLIMITED) p->shares[tier] = new_shares(p);
}

static bool asks_for(const Rules *rules, bool (*of)(const TierRules *)) {
    for (int tier = 0; tier < TIERS; tier++)
        if (rules->tier[tier].usable && of(&rules->tier[tier])) return true;
    return false;
}
static bool needs_future(const TierRules *r) {
    return is_bounded(r) && policy_at(r->policy)->needs_future;
}
static bool needs_parent(const TierRules *r) {
    return is_bounded(r) && policy_at(r->policy)->needs_parent;
}
static bool has_quota(const TierRules *r) { return r->user_quota != UNLIMITED; }
static bool limits_fetches(const TierRules *r) {
    return r->fetch_tokens || r->fetch_in_flight != UNLIMITED;
}

Placement *placement_new(const Workload *workload, const Rules *rules, const int32_t *rows,
                         int64_t count) {
    Placement *volatile made = NULL;
    Attempt attempt;
    attempt_begin(&attempt);
    if (setjmp(attempt.back)) {
        placement_free(made);
        return NULL;
    }
    Placement *p = made = zeros(1, sizeof *p);
    Memory *memory = &p->memory;
    p->ops = workload;
    p->rules = *rules;
    size_t keys = (size_t)workload->keys + 1;
    p->places = array(memory, keys, 1);
    p->last_touch = array(memory, keys, sizeof *p->last_touch);
    p->key_at = array(memory, (size_t)workload->ops + 1, sizeof *p->key_at);
    p->broken = array(memory, (size_t)workload->requests + 1, 1);
    if (rules->first_writes)
        for (int64_t key = 0; key < workload->keys; key++)
            if (workload->key[key].has_write) p->places[key] = UNWRITTEN;
    if (rules->pinned) mark_pinned(memory, workload, rules->pinned, p->places, PINNED);
    if (asks_for(rules, has_quota)) p->owner = find_owners(memory, workload);
    if (asks_for(rules, needs_parent)) p->parent = find_parents(memory, workload);
    if (asks_for(rules, needs_future)) {
        int64_t positions = rows ? count : workload->ops;
        for (int64_t position = 0; position < positions; position++)
            p->key_at[position] = workload->op[rows ? rows[position] : position].key;
        p->next_use = next_uses(memory, p->key_at, positions, workload->keys);
    }
    if (asks_for(rules, limits_fetches))
        p->fetches = array(memory, (size_t)workload->requests + 1, sizeof *p->fetches);
    if (rules->tail_first)
        p->prompt_at = array(memory, (size_t)workload->ops + 1, sizeof *p->prompt_at);
    if (p->fetches || p->prompt_at) count_prompts(p);
    if (rules->ttl_ns) p->touched_ns = array(memory, keys, sizeof *p->touched_ns);
    p->view = (PolicyView){.memory = memory,
                           .ops = workload,
                           .position = &p->position,
                           .last_touch = p->last_touch,
                           .key_at = p->key_at,
                           .next_use = p->next_use,
                           .parent = p->parent,
                           .positions = workload->ops};
    for (int tier = 0; tier < TIERS; tier++) open_tier(p, tier);
    attempt_end(&attempt);
    return p;
}

void placement_free(Placement *p) {
    if (!p) return;
    memory_free(&p->memory);
    free(p->moves);
    free(p);
}

/* ---- What lies where. ---- */
static int64_t bytes_of(const Placement *p, uint32_t key) { return p->ops->key[key].size; }

static bool holds(const Placement *p, int tier, uint32_t key) {
    return p->places[key] >> tier & 1;
}

static bool can_hold(const Placement *p, int tier, uint32_t key) {
    const TierRules *rules = &p->rules.tier[tier];
    int64_t size = bytes_of(p, key);
    int64_t pinned = p->pinned[tier];
    if (p->places[key] & PINNED) pinned -= holds(p, tier, key) ? size : 0;
    else if (size > rules->user_quota) return false;
    return size && rules->usable && size <= rules->usable - pinned;
}

/* Return the next slower tier that can hold the object, or TIERS. */
static int slower_tier(const Placement *p, int tier, uint32_t key) {
    do tier++;
    while (tier < TIERS && !can_hold(p, tier, key));
    return tier;
}

static Queue *share_of(const Placement *p, int tier, uint32_t key) {
    return &p->shares[tier][p->owner[key]];
}

static void emit(Placement *p, int kind, uint32_t key, int from, int to) {
    if (p->count == p->room) p->moves = grown(p->moves, &p->room, 64, sizeof *p->moves);
    p->moves[p->count++] = (PlannedMove){bytes_of(p, key), key,        (int8_t)kind,
                                         (int8_t)from,    (int8_t)to, p->in_background};
}

static void enter(Placement *p, uint32_t key, int tier, int kind, int from) {
    assert(!holds(p, tier, key));
    emit(p, kind, key, from, tier);
    Account *a = &p->account;
    int64_t size = bytes_of(p, key);
    p->places[key] |= (uint8_t)(1 << tier);
    p->touches[tier][key] = key == p->key_at[p->position];
    account_enter(a, tier, size);
    assert(a->used[tier] <= p->rules.tier[tier].usable);
    if (p->places[key] & PINNED) {
        p->pinned[tier] += size;
        return;
    }
    if (p->shares[tier]) queue_push(share_of(p, tier, key), key, size);
    Policy *policy = p->policies[tier];
    if (policy) policy->kind->enter(policy, key);
}

static void leave(Placement *p, uint32_t key, int tier, bool evicted) {
    int64_t size = bytes_of(p, key);
    assert(holds(p, tier, key));
    p->places[key] &= (uint8_t)~(1 << tier);
    account_leave(&p->account, tier, size);
    if (p->places[key] & PINNED) {
        p->pinned[tier] -= size;
        assert(p->pinned[tier] >= 0);
        return;
    }
    if (p->shares[tier]) queue_remove(share_of(p, tier, key), key, size);
    Policy *policy = p->policies[tier];
    if (policy) policy->kind->leave(policy, key, evicted);
}

static void touch(Placement *p, uint32_t key, int tier) {
    assert(holds(p, tier, key));
    if (p->touches[tier][key] < MOST_TOUCHES) p->touches[tier][key]++;
    if (p->places[key] & PINNED) return;
    if (p->shares[tier]) queue_renew(share_of(p, tier, key), key);
    Policy *policy = p->policies[tier];
    if (policy) policy->kind->touch(policy, key);
}

/* An op touches the object in the tier that serves it, or in all that hold it. */
static void touch_holders(Placement *p, uint32_t key, int serving) {
    for (int tier = 0; tier < TIERS; tier++)
        if (tier == serving || (p->rules.touch_all && holds(p, tier, key))) touch(p, key, tier);
}

/* ---- Objects make room for others. ---- */
static void count_touch(TouchCounts *c, uint32_t key) {
    bool known = c->of[key] > 0;
    if (c->of[key] < UINT32_MAX) c->of[key]++;
    if (!c->most) return;
    if (known) queue_renew(&c->listed, key);
    else queue_push(&c->listed, key, 1);
    if (c->listed.bytes <= c->most) return;
    uint32_t oldest = c->listed.oldest;
    queue_remove(&c->listed, oldest, 1);
    c->of[oldest] = 0;
}

static bool admits(Placement *p, int tier, uint32_t key) {
    if (!p->counts[tier]) return true;
    bool admitted = p->counts[tier]->of[key] >= p->rules.tier[tier].admit_touches;
    if (admitted) p->account.admitted[tier]++;
    else p->account.refused[tier]++;
    return admitted;
}

static void make_room(Placement *p, int tier, uint32_t key);

/* An eviction may need room in a slower tier, which evicts in turn: `tier` grows with each call, so this
 * ends at the slowest. */
static void evict(Placement *p, uint32_t key, int tier, bool by_policy) {
    assert(key < p->ops->keys && holds(p, tier, key) && !(p->places[key] & PINNED));
    int slower = p->rules.with_room ? TIERS : slower_tier(p, tier, key);
    bool demotes = slower < TIERS && !holds(p, slower, key) &&
                   p->rules.tier[slower].down == ON_EVICT && admits(p, slower, key);
    if (!demotes) {
        emit(p, DROP, key, tier, NONE);
        leave(p, key, tier, by_policy);
        return;
    }
    assert(slower > tier);
    make_room(p, slower, key);
    leave(p, key, tier, by_policy);
    enter(p, key, slower, DEMOTE, tier);
}

static void make_room(Placement *p, int tier, uint32_t key) {
    const TierRules *rules = &p->rules.tier[tier];
    int64_t size = bytes_of(p, key);
    if (p->shares[tier] && !(p->places[key] & PINNED)) {
        const Queue *share = share_of(p, tier, key);
        while (share->bytes + size > rules->user_quota) evict(p, share->oldest, tier, false);
    }
    while (p->account.used[tier] + size > rules->usable) {
        Policy *policy = p->policies[tier];
        assert(policy && p->account.used[tier] > p->pinned[tier]);  /* so the policy has a victim */
        evict(p, policy->kind->victim(policy, key), tier, true);
    }
}

/* Above the high watermark, evict down to the low one. */
static void evict_in_background(Placement *p, int tier) {
    const TierRules *rules = &p->rules.tier[tier];
    int64_t used = p->account.used[tier], low = rules->low;
    if (used <= rules->high) return;
    assert(is_bounded(rules));
    if (rules->evict_ppm) low = used - (int64_t)((__int128)used * rules->evict_ppm / 1000000);
    Policy *policy = p->policies[tier];
    p->in_background = 1;
    while (p->account.used[tier] > low && p->account.used[tier] > p->pinned[tier])
        evict(p, policy->kind->victim(policy, NO_KEY), tier, true);
    p->in_background = 0;
}

/* ---- Objects come in. ---- */
/* Offer an object to the next slower tier, which gets copies of what is stored or touched. */
static void offer(Placement *p, uint32_t key, int tier) {
    while (holds(p, tier, key)) {
        int slower = slower_tier(p, tier, key);
        if (slower == TIERS || holds(p, slower, key)) return;
        const TierRules *rules = &p->rules.tier[slower];
        if (rules->down == ON_EVICT) return;
        if (rules->down == ON_TOUCH && p->touches[tier][key] < rules->touches) return;
        if (!admits(p, slower, key)) return;
        p->in_background = 1;
        make_room(p, slower, key);
        enter(p, key, slower, COPY, tier);
        p->in_background = 0;
        tier = slower;
    }
}

/* Return the tier that takes a new object, or TIERS. */
static int tier_for(const Placement *p, uint32_t key) {
    int choice = TIERS;
    for (int tier = TIERS - 1; tier >= 0; tier--) {
        if (!can_hold(p, tier, key)) continue;
        int64_t room = p->rules.tier[tier].usable - p->account.used[tier];
        if (!p->rules.with_room || choice == TIERS || bytes_of(p, key) <= room) choice = tier;
    }
    return choice;
}

static void store(Placement *p, uint32_t key) {
    int tier = tier_for(p, key);
    if (tier == TIERS) {
        emit(p, BYPASS, key, NONE, NONE);
        return;
    }
    if (holds(p, tier, key)) {
        touch_holders(p, key, tier);
    } else {
        make_room(p, tier, key);
        enter(p, key, tier, STORE, NONE);
    }
    offer(p, key, tier);
}

/* Copy an object that has been read into a faster tier. */
static void lift(Placement *p, uint32_t key, int tier) {
    if (holds(p, tier, key) || !can_hold(p, tier, key) || !admits(p, tier, key)) return;
    make_room(p, tier, key);
    enter(p, key, tier, STORE, NONE);
}

static void hit(Placement *p, uint32_t key, int tier) {
    int64_t up = p->rules.tier[tier].up;
    if (up == MOVE_UP && tier_for(p, key) < tier) {
        emit(p, PROMOTE, key, tier, NONE);
        leave(p, key, tier, false);
        store(p, key);
        return;
    }
    touch_holders(p, key, tier);
    emit(p, HIT, key, tier, NONE);
    if (up == COPY_UP) {
        for (int faster = tier - 1; faster >= 0; faster--) lift(p, key, faster);
    } else if (up == COPY_TOP) {
        int faster = 0;
        while (faster < tier && !can_hold(p, faster, key)) faster++;
        if (faster < tier) lift(p, key, faster);
    }
    offer(p, key, tier);
}

/* ---- Ops. ---- */
static int fastest_holder(const Placement *p, uint32_t key, int asked) {
    int held = p->places[key] & ALL_TIERS & asked;
    return held ? __builtin_ctz((unsigned)held) : NOWHERE;
}

static void leave_all(Placement *p, uint32_t key, int kind) {
    for (int tier = 0; tier < TIERS; tier++) {
        if (!holds(p, tier, key)) continue;
        emit(p, kind, key, tier, NONE);
        leave(p, key, tier, false);
    }
}

static void read_key(Placement *p, const TraceOp *op, int asked) {
    uint32_t key = op->key;
    bool late = p->rules.contiguous && op->phase == PREFILL && p->broken[op->request];
    int tier = late ? NOWHERE : fastest_holder(p, key, asked);
    if (tier != NOWHERE) {
        hit(p, key, tier);
        return;
    }
    emit(p, MISS, key, NONE, NONE);
    /* An object that stores nothing shares its chunk with the next one, which counts the miss. */
    p->broken[op->request] |= op->phase == PREFILL && bytes_of(p, key);
    int holder = fastest_holder(p, key, ALL_TIERS);
    if (late && holder != NOWHERE) {
        touch_holders(p, key, holder);
        return;
    }
    if (holder != NOWHERE && !p->rules.inclusive) leave_all(p, key, DROP);
    store(p, key);
}

/* An object that was not touched for the time to live is gone. */
static void expire(Placement *p, uint32_t key) {
    bool expired = p->now_ns - p->touched_ns[key] > p->rules.ttl_ns;
    if (expired && !(p->places[key] & PINNED)) leave_all(p, key, DROP);
    p->touched_ns[key] = p->now_ns;
}

static void tell_policies(Placement *p, uint32_t key) {
    if (p->places[key] & PINNED || !bytes_of(p, key)) return;
    for (int tier = 0; tier < TIERS; tier++) {
        Policy *policy = p->policies[tier];
        if (policy && policy->kind->ask && !holds(p, tier, key)) policy->kind->ask(policy, key);
    }
}

/* A request asks a tier of which it misses enough tokens, while the tokens of all requests in flight
 * are within the limit. */
static void begin_fetch(Placement *p, Fetch *fetch, const int64_t *missing) {
    assert(!fetch->begun);
    fetch->begun = 1;
    for (int tier = 0; tier < TIERS; tier++) {
        const TierRules *of = &p->rules.tier[tier];
        bool asks = missing[tier] >= of->fetch_tokens &&
                    (of->fetch_in_flight == UNLIMITED ||
                     p->fetching[tier] + missing[tier] <= of->fetch_in_flight);
        fetch->asked |= (uint8_t)((tier == GPU || asks) << tier);
        if (tier == GPU || !limits_fetches(of)) continue;
        if (asks) p->account.fetches[tier]++;
        else p->account.fetches_refused[tier]++;
        fetch->missing[tier] = asks ? missing[tier] : 0;
        p->fetching[tier] += fetch->missing[tier];
    }
}

static void end_fetch(Placement *p, const Fetch *fetch) {
    for (int tier = 0; tier < TIERS; tier++) {
        p->fetching[tier] -= fetch->missing[tier];
        assert(p->fetching[tier] >= 0);
    }
}

/* At a request's first prefill op: which tiers may the request ask? */
static void decide_fetches(Placement *p, int32_t request) {
    const TraceRequest *asked = &p->ops->request[request];
    const int32_t *rows = &p->ops->rows[asked->begin];
    int64_t missing[TIERS] = {0}, leading[TIERS] = {0};
    bool leads[TIERS] = {true, true, true};
    for (int32_t i = 0; i < asked->count; i++) {
        const TraceOp *op = &p->ops->op[rows[i]];
        if (!is_of_prompt(op)) continue;
        for (int tier = 0; tier < TIERS; tier++) {
            bool held = fastest_holder(p, op->key, (1 << tier) - 1) != NOWHERE;
            leads[tier] &= held || !bytes_of(p, op->key);
            leading[tier] += leads[tier] && held ? op->tokens : 0;
            missing[tier] += op->tokens;
        }
    }
    for (int tier = 0; tier < TIERS; tier++) missing[tier] -= leading[tier];
    begin_fetch(p, &p->fetches[request], missing);
}

static uint32_t key_in(const Placement *p, int tier, uint32_t key) {
    return holds(p, tier, key) && !(p->places[key] & PINNED) ? key : NO_KEY;
}

/* Two ops change places in the order of recency. */
static void swap_ops(Placement *p, int64_t one, int64_t other) {
    uint32_t key = p->ops->op[one].key, other_key = p->ops->op[other].key;
    uint32_t at = p->prompt_at[one], other_at = p->prompt_at[other];
    bool was_last = p->last_touch[key] == at, other_was_last = p->last_touch[other_key] == other_at;
    for (int tier = 0; tier < TIERS; tier++) {
        Policy *policy = p->policies[tier];
        if (policy && policy->kind->swap)
            policy->kind->swap(policy, key_in(p, tier, key), at, key_in(p, tier, other_key),
                               other_at);
    }
    if (was_last) p->last_touch[key] = other_at;
    if (other_was_last) p->last_touch[other_key] = at;
    if (p->next_use) {
        uint32_t next = p->next_use[at];
        p->next_use[at] = p->next_use[other_at];
        p->next_use[other_at] = next;
    }
    p->key_at[at] = other_key;
    p->key_at[other_at] = key;
}

/* The prompt of a request is complete: its end becomes older than its beginning. */
static void turn_round(Placement *p, int32_t request) {
    const int32_t *rows = &p->ops->rows[p->ops->request[request].begin];
    int32_t low = 0, high = p->ops->request[request].count - 1;
    for (;; low++, high--) {
        while (low < high && !is_of_prompt(&p->ops->op[rows[low]])) low++;
        while (low < high && !is_of_prompt(&p->ops->op[rows[high]])) high--;
        if (low >= high) return;
        swap_ops(p, rows[low], rows[high]);
    }
}

static void end_prompt_op(Placement *p, int64_t row, int32_t request) {
    assert(p->prompt_left[request] > 0);
    bool is_last = !--p->prompt_left[request];
    if (p->prompt_at) p->prompt_at[row] = (uint32_t)p->position;
    if (p->prompt_at && is_last) turn_round(p, request);
    if (p->fetches && is_last) end_fetch(p, &p->fetches[request]);
}

int placement_decide(Placement *p, int64_t row, const PlannedMove **moves, int64_t *count) {
    assert(row >= 0 && row < p->ops->ops && p->position < p->ops->ops);
    const TraceOp *op = &p->ops->op[row];
    uint32_t key = op->key;
    int role = op->op, asked = ALL_TIERS;
    p->count = 0;
    if (bytes_of(p, key) > p->account.largest) p->account.largest = bytes_of(p, key);
    for (int tier = 0; tier < TIERS; tier++)
        if (p->counts[tier] && is_of_prompt(op)) count_touch(p->counts[tier], key);
    const Fetch *fetch = p->fetches ? &p->fetches[op->request] : NULL;
    if (fetch && is_of_prompt(op) && !fetch->begun) decide_fetches(p, op->request);
    if (fetch && fetch->begun) asked = fetch->asked;
    if (p->rules.first_writes && role != REMOVE) {
        role = p->places[key] & UNWRITTEN ? WRITE : READ;
        p->places[key] &= (uint8_t)~UNWRITTEN;
    }
    p->key_at[p->position] = key;
    int64_t time_ns = p->ops->request[op->request].time_ns;
    if (time_ns > p->now_ns) p->now_ns = time_ns;
    if (role == REMOVE) {
        if (!(p->places[key] & ALL_TIERS)) emit(p, DELETE, key, NONE, NONE);
        leave_all(p, key, DELETE);
    } else {
        tell_policies(p, key);
        if (p->touched_ns) expire(p, key);
        p->last_touch[key] = (uint32_t)p->position;
        if (role == READ) read_key(p, op, asked);
        else store(p, key);
        if (role == WRITE) p->broken[op->request] |= op->phase == PREFILL;
    }
    for (int tier = 0; tier < TIERS; tier++) evict_in_background(p, tier);
    if (p->prompt_left && is_of_prompt(op)) end_prompt_op(p, row, op->request);
    p->position++;
    *moves = p->moves;
    *count = p->count;
    return role;
}

void placement_account(const Placement *p, Account *out) { *out = p->account; }
