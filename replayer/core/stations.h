/* Stations of a measured machine on a computed clock (docs/predicting.md, "The model"): moves pass
 * through stages whose speed depends on how many moves are in the tier. Times are nanoseconds.
 *
 * A worker is in one station at a time; visits are known by their worker.
 */
#pragma once
#include "engine.h"

typedef struct Stations Stations;
Stations *stations_new(const Profile *profile, int64_t workers);
void stations_free(Stations *s);
/* Begin a visit to transfer bytes in a number of pieces, with the number u in [0, 1) that its factor
 * is drawn by. Like stations_remove it returns false if the visit takes no time and is over. */
bool stations_transfer(Stations *s, int64_t worker, int tier, int direction, int64_t bytes,
                       int64_t pieces, double u, int64_t now);
/* Begin a visit to remove an object. */
bool stations_remove(Stations *s, int64_t worker, int tier, int64_t now);
void stations_compute(Stations *s, int64_t worker, int64_t work_ns, int64_t now);
int64_t stations_next(Stations *s);     /* when the next stage of a visit ends, or FAR */
/* Take the visits whose stage ends now out of their stages; returns how many. `out` has room for
 * all workers. */
int64_t stations_end(Stations *s, int64_t now, int32_t *out);
/* Go on to the next stage of a visit that was taken out. Returns false if there is none; then the
 * visit is over. */
bool stations_go_on(Stations *s, int32_t worker, int64_t now);
int64_t stations_opened(const Stations *s, int32_t worker);    /* when its stage `open` ended */
