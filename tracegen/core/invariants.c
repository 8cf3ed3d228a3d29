/* The invariants of a trace, checked in one pass over its rows.
 *
 * tracegen/trace/invariants.py calls this through ctypes and puts the rules into words.
 *
 * Each table has one entry per op, because a dense id is below the number of ops; the kernel backs only the
 * pages that are used. A table stores values plus one: 0 means that the id has not been seen.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
    const int64_t *op_id, *time_ns, *request_id, *session_id, *user_id, *key, *think_ns;
    const int32_t *turn, *step, *tokens, *new_tokens;
    const uint8_t *qos, *op;
} Columns;

/* The rules, in the order of _RULES in invariants.py. */
enum {
    ROW_NUMBER, LEAST_TIME, LEAST_TURN, LEAST_STEP, LEAST_TOKENS, LEAST_NEW_TOKENS, LEAST_THINK,
    RANGE_REQUEST, RANGE_SESSION, RANGE_USER, RANGE_KEY,
    SORTED_TIME, SORTED_USER, SORTED_REQUEST,
    DENSE_REQUEST, SAME_SESSION, SAME_TURN, SAME_QOS, SAME_USER,
    TURN_ORDER, STEP_ORDER, ONE_REQUEST, THINK_FIRST_OP, THINK_FIRST_REQUEST,
    DENSE_KEY, READ_BEFORE_WRITE, WRITTEN_TWICE, SAME_TOKENS,
};

enum { DESCRIBED_MAX = 100 };  /* violations stored by row and rule; later ones are only counted */
typedef struct { int64_t row, rule; } Broken;
typedef struct { int64_t session, turn, qos, step; } Request;
typedef struct { int64_t user, turn; } Session;

typedef struct {
    int64_t ops, row;
    int64_t last_time, last_user, last_request;     /* values of the previous row */
    int64_t highest_request, highest_key;           /* the ids that appeared most recently for the first time */
    Request *requests;
    Session *sessions;
    int64_t *request_of_user;
    int32_t *tokens_of_key;
    Broken broken[DESCRIBED_MAX];
    int64_t described, violations;
} Invariants;

void invariants_free(Invariants *s) {
    free(s->requests);
    free(s->sessions);
    free(s->request_of_user);
    free(s->tokens_of_key);
    free(s);
}

/* Return NULL if there is not enough memory. */
Invariants *invariants_new(int64_t ops) {
    size_t ids = (size_t)ops + 1;
    Invariants *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->ops = ops;
    s->highest_request = s->highest_key = -1;
    s->requests = calloc(ids, sizeof *s->requests);
    s->sessions = calloc(ids, sizeof *s->sessions);
    s->request_of_user = calloc(ids, sizeof *s->request_of_user);
    s->tokens_of_key = calloc(ids, sizeof *s->tokens_of_key);
    if (s->requests && s->sessions && s->request_of_user && s->tokens_of_key) return s;
    invariants_free(s);
    return NULL;
}

static void expect(Invariants *s, bool holds, int64_t rule) {
    if (holds) return;
    s->violations++;
    if (s->described < DESCRIBED_MAX) s->broken[s->described++] = (Broken){s->row, rule};
}

static void check_request(Invariants *s, const Columns *c, int64_t i) {
    int64_t id = c->request_id[i], user = c->user_id[i], turn = c->turn[i], step = c->step[i];
    Request *request = &s->requests[id];
    Session *session = &s->sessions[c->session_id[i]];
    bool is_first = !request->session;
    expect(s, !is_first || id == s->highest_request + 1, DENSE_REQUEST);
    if (is_first) {
        s->highest_request = id;
        *request = (Request){c->session_id[i] + 1, turn + 1, c->qos[i] + 1, 0};
        if (!session->user) session->user = user + 1;
    }
    expect(s, request->session == c->session_id[i] + 1, SAME_SESSION);
    expect(s, request->turn == turn + 1, SAME_TURN);
    expect(s, request->qos == c->qos[i] + 1, SAME_QOS);
    expect(s, session->user == user + 1, SAME_USER);
    if (is_first) {
        int64_t before = session->turn > 1 ? session->turn - 1 : 0;
        expect(s, turn == before + 1, TURN_ORDER);
        session->turn = turn + 1;
    }
    int64_t step_before = request->step - 1, request_before = s->request_of_user[user] - 1;
    expect(s, step >= step_before && step <= step_before + 1, STEP_ORDER);
    request->step = step + 1;
    expect(s, id >= request_before, ONE_REQUEST);
    s->request_of_user[user] = id + 1;
    if (!c->think_ns[i]) return;
    expect(s, is_first, THINK_FIRST_OP);
    expect(s, request_before >= 0, THINK_FIRST_REQUEST);
}

static void check_key(Invariants *s, const Columns *c, int64_t i) {
    int64_t key = c->key[i];
    bool is_first = !s->tokens_of_key[key], is_write = c->op[i] == 0;
    if (is_first) {
        expect(s, key == s->highest_key + 1, DENSE_KEY);
        s->highest_key = key;
        s->tokens_of_key[key] = c->tokens[i] > 1 ? c->tokens[i] : 1;
    }
    expect(s, !is_first || is_write, READ_BEFORE_WRITE);
    expect(s, is_first || !is_write, WRITTEN_TWICE);
    expect(s, c->tokens[i] < 1 || c->tokens[i] == s->tokens_of_key[key], SAME_TOKENS);
}

static bool check_range(Invariants *s, int64_t id, int64_t rule) {
    bool holds = id >= 0 && id < s->ops;
    expect(s, holds, rule);
    return holds;
}

/* Check the next `count` rows.
 *
 * Point `broken` to the violations stored for these rows, in order of rows, and return their number. Set
 * `violations` to the number of all violations so far.
 */
int64_t invariants_feed(
    Invariants *s, const Columns *c, int64_t count, const Broken **broken, int64_t *violations
) {
    int64_t before = s->described;
    for (int64_t i = 0; i < count; i++, s->row++) {
        expect(s, c->op_id[i] == s->row, ROW_NUMBER);
        expect(s, c->time_ns[i] >= 0, LEAST_TIME);
        expect(s, c->turn[i] >= 1, LEAST_TURN);
        expect(s, c->step[i] >= 0, LEAST_STEP);
        expect(s, c->tokens[i] >= 1, LEAST_TOKENS);
        expect(s, c->new_tokens[i] >= 0, LEAST_NEW_TOKENS);
        expect(s, c->think_ns[i] >= 0, LEAST_THINK);
        bool in_range = check_range(s, c->request_id[i], RANGE_REQUEST);
        in_range &= check_range(s, c->session_id[i], RANGE_SESSION);
        in_range &= check_range(s, c->user_id[i], RANGE_USER);
        in_range &= check_range(s, c->key[i], RANGE_KEY);
        if (s->row) {
            bool same_time = c->time_ns[i] == s->last_time;
            bool same_user = same_time && c->user_id[i] == s->last_user;
            expect(s, c->time_ns[i] >= s->last_time, SORTED_TIME);
            expect(s, !same_time || c->user_id[i] >= s->last_user, SORTED_USER);
            expect(s, !same_user || c->request_id[i] >= s->last_request, SORTED_REQUEST);
        }
        s->last_time = c->time_ns[i];
        s->last_user = c->user_id[i];
        s->last_request = c->request_id[i];
        if (!in_range) continue;  /* the ids index the tables */
        check_request(s, c, i);
        check_key(s, c, i);
    }
    *broken = s->broken + before;
    *violations = s->violations;
    return s->described - before;
}

/* Write the number of ids below `ops` that have been seen, the highest of them and the lowest id not seen; -1: none. */
static void count_ids(const int64_t *seen, int64_t stride, int64_t ops, int64_t *out) {
    out[0] = 0;
    out[1] = out[2] = -1;
    for (int64_t id = 0; id < ops; id++) {
        if (seen[id * stride]) {
            out[0]++;
            out[1] = id;
        } else if (out[2] < 0) {
            out[2] = id;
        }
    }
}

/* Write 9 numbers: ops, the highest request and key, then the results of `count_ids` for sessions and for users. */
void invariants_counts(const Invariants *s, int64_t *out) {
    out[0] = s->row;
    out[1] = s->highest_request;
    out[2] = s->highest_key;
    count_ids(&s->sessions[0].turn, sizeof(Session) / sizeof(int64_t), s->ops, &out[3]);
    count_ids(s->request_of_user, 1, s->ops, &out[6]);
}
