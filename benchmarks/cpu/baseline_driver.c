/* Calls one generated function of the baseline in a loop over states, and measures the time.
 *
 * Compile with -DBASELINE='"FILE.c"' (written by CasADi, included here so that the compiler may inline it)
 * and -DFUNCTION=rnea or the like. With -DSCALAR=float or double and -DLANES=8 or the like a number is a
 * vector, one lane per state; then each literal in FILE.c must be inside R(), which makes a vector of it.
 */
#define _POSIX_C_SOURCE 199309L
#include <math.h>
#include <stddef.h>
#include <time.h>

#ifndef LANES
#define SCALAR double
#define LANES 1
#endif

#if LANES == 1
typedef SCALAR real;
#define R(x) ((SCALAR)(x))
#else
typedef SCALAR real __attribute__((vector_size(LANES * sizeof(SCALAR))));
#define R(x) ((SCALAR)(x) - (real){0})
#endif

/* Sines: of one number by libm, of vectors by libmvec (glibc), a register at a time. */
#define IS_FLOAT (sizeof(SCALAR) == 4)
#if LANES == 1
static inline real lanes_sin(real x) { return IS_FLOAT ? (real)sinf((float)x) : (real)sin(x); }
static inline real lanes_cos(real x) { return IS_FLOAT ? (real)cosf((float)x) : (real)cos(x); }
#else
#if defined(__AVX512F__)
#define BYTES 64
#define MVEC(f, lanes) _ZGVeN##lanes##v_##f
#define NARROW 16
#define WIDE 8
#elif defined(__AVX2__)
#define BYTES 32
#define MVEC(f, lanes) _ZGVdN##lanes##v_##f
#define NARROW 8
#define WIDE 4
#else
#define BYTES 16
#define MVEC(f, lanes) _ZGVbN##lanes##v_##f
#define NARROW 4
#define WIDE 2
#endif
#define NAMED(f, lanes) MVEC(f, lanes)
typedef float narrow __attribute__((vector_size(BYTES)));
typedef double wide __attribute__((vector_size(BYTES)));
narrow NAMED(sinf, NARROW)(narrow);
narrow NAMED(cosf, NARROW)(narrow);
wide NAMED(sin, WIDE)(wide);
wide NAMED(cos, WIDE)(wide);
#define EACH(name, of_float, of_double)                                                            \
  static inline real name(real x)                                                                  \
  {                                                                                                \
    union { real all; narrow n[sizeof(real) / BYTES]; wide w[sizeof(real) / BYTES]; } u = {x};    \
    _Static_assert(sizeof(real) % BYTES == 0, "a whole number of registers");                      \
    for (size_t k = 0; k < sizeof(real) / BYTES; ++k) {                                            \
      if (IS_FLOAT)                                                                                \
        u.n[k] = of_float(u.n[k]);                                                                 \
      else                                                                                         \
        u.w[k] = of_double(u.w[k]);                                                                \
    }                                                                                              \
    return u.all;                                                                                  \
  }
EACH(lanes_sin, NAMED(sinf, NARROW), NAMED(sin, WIDE))
EACH(lanes_cos, NAMED(cosf, NARROW), NAMED(cos, WIDE))
#endif

#define sin lanes_sin
#define cos lanes_cos
#define casadi_real real
#include BASELINE

enum { MOST_ARRAYS = 8 };

static double nanoseconds(clockid_t clock)
{
  struct timespec now;
  clock_gettime(clock, &now);
  return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

/* Evaluates `groups` groups of LANES states, `rounds` times. An array has the elements of one group after
 * those of the previous group, the lanes of an element side by side; `in_size` and `out_size` are elements
 * per group. `cpu` and `wall` receive the nanoseconds of each round: this thread's CPU time, and wall
 * time. Returns 0, or 1 if there are more than MOST_ARRAYS arrays. */
int baseline_time(size_t groups, size_t rounds, size_t inputs, const real *const *in,
                  const size_t *in_size, size_t outputs, real *const *out, const size_t *out_size,
                  double *cpu, double *wall)
{
  if (inputs > MOST_ARRAYS || outputs > MOST_ARRAYS)
    return 1;
  for (size_t round = 0; round < rounds; ++round) {
    const real *arg[MOST_ARRAYS];
    real *res[MOST_ARRAYS];
    for (size_t k = 0; k < inputs; ++k)
      arg[k] = in[k];
    for (size_t k = 0; k < outputs; ++k)
      res[k] = out[k];
    const double wall_from = nanoseconds(CLOCK_MONOTONIC);
    const double cpu_from = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    for (size_t i = 0; i < groups; ++i) {
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
