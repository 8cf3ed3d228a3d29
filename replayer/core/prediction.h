/* A prediction: the execution of a plan on the computed clock of a measured machine
 * (docs/predicting.md). One thread. */
#pragma once
#include "run.h"
#include "stations.h"

typedef struct Prediction Prediction;
Prediction *prediction_new(const Workload *ops, const Settings *settings, const Load *load,
                           Planner *planner, Placement *live, const Rules *rules,
                           const Profile *profile);
void prediction_free(Prediction *p);
/* Go on until at least `most` rows of the log wait to be taken (returns 1) or the run is over and
 * no move is in flight (returns 0). */
int prediction_run(Prediction *p, int64_t most);
/* Start no more moves. */
void prediction_stop(Prediction *p);
void prediction_state(const Prediction *p, State *out);
void prediction_totals(const Prediction *p, Totals *out);
/* As of engine.h. */
int64_t prediction_unfinished(const Prediction *p, Unfinished *out, int64_t room);
int64_t prediction_take_records(Prediction *p, const Record **out);
int64_t prediction_take_rows(Prediction *p, const int64_t **out);
