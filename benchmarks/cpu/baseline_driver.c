/* Calls one generated function of the baseline in a loop over states, and takes the time.
 *
 * Compile with -DBASELINE='"FILE.c"' (what CasADi wrote, included here so that the compiler may
 * inline it) and -DFUNCTION=rnea and the like.
 */
#define _POSIX_C_SOURCE 199309L
#include BASELINE

#include <stddef.h>
#include <time.h>

enum { MOST_ARRAYS = 8 };

static double nanoseconds(clockid_t clock)
{
  struct timespec now;
  clock_gettime(clock, &now);
  return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

/* Evaluates `states` states, `rounds` times over. An array holds its elements of one state after
 * those of the state before; `in_size` and `out_size` are elements a state. `cpu` and `wall` take
 * the nanoseconds of each round: of this thread's processor time, and by the clock on the wall.
 * Returns 0, or 1 where there are more arrays than it has room for. */
int baseline_time(size_t states, size_t rounds, size_t inputs, const double *const *in,
                  const size_t *in_size, size_t outputs, double *const *out,
                  const size_t *out_size, double *cpu, double *wall)
{
  if (inputs > MOST_ARRAYS || outputs > MOST_ARRAYS)
    return 1;
  for (size_t round = 0; round < rounds; ++round) {
    const double *arg[MOST_ARRAYS];
    double *res[MOST_ARRAYS];
    for (size_t k = 0; k < inputs; ++k)
      arg[k] = in[k];
    for (size_t k = 0; k < outputs; ++k)
      res[k] = out[k];
    const double wall_from = nanoseconds(CLOCK_MONOTONIC);
    const double cpu_from = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    for (size_t i = 0; i < states; ++i) {
      FUNCTION(arg, res, 0, 0, 0);
      for (size_t k = 0; k < inputs; ++k)
        arg[k] += in_size[k];
      for (size_t k = 0; k < outputs; ++k)
        res[k] += out_size[k];
    }
    cpu[round] = nanoseconds(CLOCK_THREAD_CPUTIME_ID) - cpu_from;
    wall[round] = nanoseconds(CLOCK_MONOTONIC) - wall_from;
  }
  return 0;
}
