/* The figures of a log so far: one pass over the rows that the caller has taken. */
#include <stddef.h>
#include <string.h>

#include "run.h"

/* Times below 32 ns have a bucket each; then each power of two has 32. */
static int bucket_of(int64_t ns) {
    if (ns < 32) return ns < 0 ? 0 : (int)ns;
    int power = 63 - __builtin_clzll((uint64_t)ns);
    return (power - 4) * 32 + (int)(ns >> (power - 5) & 31);
}

/* A request's time to first byte grows while its prefill goes on: its count moves on with it. */
static void add_to_request(Figures *f, const Record *r, int64_t *request) {
    int64_t *due = &request[0], *end = &request[1];
    if (*end) f->first_bytes[bucket_of(*end - *due)]--;
    if (!*due || r->due_ns + 1 < *due) *due = r->due_ns + 1;
    if (r->phase == PREFILL && r->end_ns + 1 > *end) *end = r->end_ns + 1;
    if (*end) f->first_bytes[bucket_of(*end - *due)]++;
}

static void end_warmup(Figures *f, int64_t (*requests)[2]) {
    memset(&f->is_steady, 0, sizeof *f - offsetof(Figures, is_steady));
    memset(requests, 0, (size_t)f->requests * sizeof *requests);
    f->is_steady = 1;
}

/* A read of a prefill, or the first touch of an object that is not a document's. */
static bool is_prompt(const Record *r) {
    if (r->phase != PREFILL) return false;
    if (r->move == HIT || r->move == PROMOTE || r->move == MISS) return true;
    return r->op == WRITE && r->source != RAG && (r->move == STORE || r->move == BYPASS);
}

static void add_row(Figures *f, const Record *r, int64_t (*requests)[2]) {
    bool succeeded = r->status == OK && transfers(r->move);
    if (succeeded && r->from_tier >= 0) f->bytes[r->from_tier][READS] += r->size_bytes;
    if (succeeded && r->to_tier >= 0) f->bytes[r->to_tier][WRITES] += r->size_bytes;
    if (r->warmup && f->is_steady) return;
    if (is_prompt(r)) {
        f->prompt_tokens += r->tokens;
        if (r->move == HIT || r->move == PROMOTE) f->hit_tokens += r->status == OK ? r->tokens : 0;
    }
    if (succeeded && r->from_tier == NVME) f->nvme_reads[bucket_of(r->read_ns)]++;
    if (f->requests && r->move != DEMOTE && r->move != DROP && r->move != COPY)
        add_to_request(f, r, requests[r->request_id]);
}

void figures_add(Figures *f, const Record *rows, int64_t count, int64_t (*requests)[2]) {
    for (int64_t i = 0; i < count; i++) {
        if (!rows[i].warmup && !f->is_steady) end_warmup(f, requests);
        add_row(f, &rows[i], requests);
    }
}
