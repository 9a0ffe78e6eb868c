// What a controller is made for, and what it answers: see period.hpp.
#pragma once

#include <stdint.h>

#include "abi.h"

namespace pinion {
namespace {

// Answers of update().
enum { DONE = 0, NO_PERIOD = 1, NOT_FINITE = 2, DIVERGED = 3, ALL_FLAGGED = 4 };

// Reference arrays have `rows` rows, one for every period of a motion; or a single one, the target
// of all periods.
template <class T> struct Problem {
  // `lost`: deviations from the motion, of positions (tangents) or rates, at which a plan has
  // diverged.
  const pinion_kernel *forward, *gradient, *running, *final;
  const pinion_kernel *moved, *difference, *gains, *planned, *plan; // where joints turn
  int64_t rows, stride, iterations, rungs;
  double step, lost;
  const double *ladder, *limit, *rate_weights, *final_rate_weights, *effort_weights;
  const T *q, *qd, *tau, *tip, *active;
};

// The law until the next period, counts, and seconds by part; read by the caller.
template <class T, int NQ, int NV, int NU> struct Law {
  T u[NU], K[NU][2 * NV], begin[NQ + NV], rate[2 * NV];
};
struct Log {
  int64_t flagged, gradients, restarts;
  double seconds[3]; // gradients, backward, rest
};

} // namespace
} // namespace pinion
