// One period of a model predictive controller: the same as update() of mpc.py, which says what it
// does, in one call. All memory is the caller's; nothing is allocated, locked or asked of the system.
//
// The value function is a quadratic form of [q; qd; 1]: gradients are a column of Hessians. Rows
// have two halves, [q | 1] and [qd | 0], of whole vectors. With F = [dqdd/dq, dqdd/dqd],
// M = dqdd/du, W = [h^2; h], A = A0 + W F and B = W M,
//
//   S = W' V A0     P = W' V W     T = S + P F
//   Quu = R + M' P M      [Qux | Qu] = M' T + [0 | lu]      [K | k] = Quu^-1 [Qux | Qu]
//   V = [lxx | lx] + A0' V A0 + F' T + S' F - Qux' K
//
// as riccati_function of control/solve/kernels.py derives it. Gaps of rates are a column of F, those
// of positions are added to the gradient of V. With friction cones, forces with the
// gradient [X, U] have a cost with the Hessian C and the gradient g, which adds X' [C X | g] to V,
// U' [C X | g] to [Qux | Qu], and U' C U to Quu. Where joints turn, kernels give all of this in the
// coordinates of control/solve/coordinates.py, in which A0 and W are the same; `gains` and
// `plan` lead back.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "abi.h"
#include "batch.hpp"
#include "problem.hpp"
#include "vec.hpp"

// Loops over rows of efforts, whose vectors stay in registers only if all is unrolled.
#if defined(__clang__)
#define PINION_UNROLL_ROWS _Pragma("unroll")
#else
#define PINION_UNROLL_ROWS _Pragma("GCC unroll 16")
#endif

namespace pinion {
namespace {

// Inputs and results of a kernel that computes one sample.
template <class T, int SIZE> struct Sample {
  alignas(64) T in[4][SIZE * PINION_BLOCK];
  alignas(64) T out[SIZE * PINION_BLOCK];

  PINION_INLINE void put(int input, const T *values, int count) {
    for (int i = 0; i < count; ++i) in[input][i * PINION_BLOCK] = values[i];
  }

  PINION_INLINE void take(T *values, int count) const {
    for (int i = 0; i < count; ++i) values[i] = out[i * PINION_BLOCK];
  }

  PINION_INLINE void compute(const pinion_kernel *kernel) {
    const void *const request[4] = {in[0], in[1], in[2], in[3]};
    void *const result[1] = {out};
    kernel->compute(request, result);
  }
};

// NQ, NV and NU numbers of positions, rates and efforts; MASK of contacts that may be in the air,
// FORCES of components of their forces that have a cost.
template <class T, int NQ, int NV, int NU, int MASK, int FORCES, int KNOTS, int TIP, size_t SCRATCH>
class Controller {
  typedef typename Widest<T>::type V;
  static constexpr int LANES = Traits<V>::lanes, PARTS = (NV + LANES) / LANES, H = PARTS * LANES;
  static constexpr int Q = Pieces<T>::Q;
  static constexpr int EFFORT_PARTS = (NU + LANES - 1) / LANES, HU = EFFORT_PARTS * LANES;
  static constexpr bool TURNING = NQ != NV;
  static constexpr int CONES = FORCES ? KNOTS : 1, ROWS = FORCES ? FORCES : 1;
#if PINION_ISA_AVX2 || PINION_ISA_PORTABLE
  static constexpr int REGISTERS = 12;
#else
  static constexpr int REGISTERS = 28;
#endif
  typedef T Half[H];
  typedef T Row[2 * H];
  typedef T Efforts[HU];
  typedef Sample<T, NQ + MASK> One;

  struct alignas(64) Linear {
    Row F[KNOTS][NV]; // the column after the first half: gaps of rates, divided by the step
    Efforts M[KNOTS][NV];
    Row force_x[CONES][ROWS], weighted_x[CONES][ROWS];
    Efforts force_u[CONES][ROWS], weighted_u[CONES][ROWS];
  };

public:
  Law<T, NQ, NV, NU> law;
  Log log;
  double carried[NU]; // efforts of a load, which act besides the law's; the caller's, 0 at first

  static constexpr int WIDTH = H, EFFORT_WIDTH = HU;

  void open(const Problem<T> &given) {
    memset((void *)this, 0, sizeof *this);
    problem = given;
    planned = -1;
    every = problem.rows > 1;
    step = (T)problem.step;
    for (int k = 0; k < KNOTS; ++k) instants[k] = k * problem.stride;
  }

  int update(int64_t number, const double *state) {
    const double began = seconds();
    double spent[2] = {0, 0};
    const int64_t periods = every ? problem.rows - KNOTS * problem.stride : INT64_MAX / 2;
    if (number < 0 || number >= periods) return NO_PERIOD;
    T x[NQ + NV];
    for (int i = 0; i < NQ + NV; ++i) {
      if (!isfinite(state[i])) return NOT_FINITE;
      x[i] = (T)state[i];
    }
    for (int i = 0; i < NU; ++i) {
      low[i] = (T)(carried[i] - problem.limit[i]);
      high[i] = (T)(carried[i] + problem.limit[i]);
    }
    if (planned >= 0 && number > planned)
      shift((double)(number - planned) / (double)problem.stride);
    for (int64_t i = 0; i < problem.iterations; ++i) {
      int answer = iterate(number, x, spent);
      if (answer == DIVERGED) {
        lose();
        answer = iterate(number, x, spent);
        if (answer == DIVERGED) ++log.restarts;
      }
      if (answer) return answer;
    }
    write_law(number, x);
    planned = number;
    log.seconds[0] = spent[0];
    log.seconds[1] = spent[1];
    log.seconds[2] = seconds() - began - spent[0] - spent[1];
    return DONE;
  }

  // A step of the robot as the controller knows it, from x with efforts held.
  // Contacts of a robot that has any are those of a period, or of the nearest one.
  void simulate(int64_t number, double seconds, double *x, const double *efforts) {
    T q_now[NQ], qd_now[NV], u_now[NU], move[NV];
    if (number >= problem.rows) number = problem.rows - 1;
    if (number < 0) number = 0;
    for (int i = 0; i < NQ; ++i) q_now[i] = (T)x[i];
    for (int i = 0; i < NV; ++i) qd_now[i] = (T)x[NQ + i];
    for (int i = 0; i < NU; ++i) u_now[i] = (T)efforts[i];
    const T *const qdd = accelerate(number, q_now, qd_now, u_now);
    for (int i = 0; i < NV; ++i) {
      x[NQ + i] += seconds * qdd[i * PINION_BLOCK];
      move[i] = (T)(seconds * x[NQ + i]);
      if (!TURNING) x[i] += seconds * x[NQ + i];
    }
    if (!TURNING) return;
    integrate(q_now, move, q_now);
    for (int i = 0; i < NQ; ++i) x[i] = q_now[i];
  }

  // Efforts of a law, some time after its update, with the kernels and limits of a problem.
  static void efforts(const Law<T, NQ, NV, NU> &law, const Problem<T> &kernels, double seconds,
                      const double *x, double *u) {
    double off[2 * NV];
    if constexpr (TURNING) {
      One one;
      T q_now[NQ], change[NV], planned[NQ];
      for (int i = 0; i < NV; ++i) change[i] = (T)(seconds * law.rate[i]);
      integrate(kernels.moved, one, law.begin, change, planned);
      for (int i = 0; i < NQ; ++i) q_now[i] = (T)x[i];
      difference(kernels.difference, one, planned, q_now, change);
      for (int i = 0; i < NV; ++i) off[i] = change[i];
    } else {
      for (int i = 0; i < NV; ++i) off[i] = x[i] - law.begin[i] - seconds * law.rate[i];
    }
    for (int i = 0; i < NV; ++i)
      off[NV + i] = x[NQ + i] - law.begin[NQ + i] - seconds * law.rate[NV + i];
    for (int i = 0; i < NU; ++i) {
      double sum = law.u[i];
      for (int j = 0; j < 2 * NV; ++j) sum -= law.K[i][j] * off[j];
      const double most = kernels.limit[i];
      u[i] = sum < -most ? -most : sum > most ? most : sum; // NaN stays
    }
  }

private:
  Problem<T> problem;
  int64_t every; // rows from one period to the next
  int64_t planned, instants[KNOTS];
  bool trusted;
  int current; // of the two linearisations; the other one is the last trusted
  T low[NU], high[NU], step; // of the plan's efforts, which include the load
  // The plan, as deviations from the motion.
  T plan_q[KNOTS + 1][NV], plan_qd[KNOTS + 1][NV], plan_u[KNOTS][NU];
  T K[NU][2 * NV]; // of the last pass, at its first knot
  T q[KNOTS + 1][NQ], qd[KNOTS + 1][NV], u[KNOTS][NU];
  T gap[KNOTS][NV]; // of positions, beside what those of rates add
  T z[KNOTS + 1][NV], w[KNOTS + 1][NV];
  T fresh_q[KNOTS + 1][NV], fresh_qd[KNOTS + 1][NV], fresh_u[KNOTS][NU];
  T by_qd[KNOTS + 1][NV], by_u[KNOTS][NU];
  uint8_t flags[KNOTS];
  Linear linear[2];
  alignas(64) Half by_q[KNOTS + 1][NV];               // [lqq | lq]
  alignas(64) Half turned[TURNING ? KNOTS + 1 : 1][NV]; // lqdqd
  alignas(64) Row gains[KNOTS][NU]; // [K | k]
  alignas(64) Row value[NV + (NV + LANES - 1) / LANES * LANES]; // and zeros, which mirror() reads
  Row S[NV], Tr[NV], Qux[NU];
  Half P[NV], G[NU];
  Efforts Quu[NU];
  T lower[NU][NU], scaled[NU][NU], inverse[NU];
  One one;
  alignas(64) char scratch[SCRATCH];

  static double seconds() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
  }

  const T *reference(const T *rows, int64_t row, int64_t size) const {
    return rows + every * row * size;
  }

  // Accelerations of a state with efforts, and the contacts of a period: PINION_BLOCK apart.
  PINION_INLINE const T *accelerate(int64_t number, const T *at_q, const T *at_qd,
                                    const T *with_u) {
    one.put(0, at_q, NQ);
    one.put(1, at_qd, NV);
    one.put(2, with_u, NU);
    if (MASK) one.put(3, reference(problem.active, number, MASK), MASK);
    one.compute(problem.forward);
    return one.out;
  }

  // Positions after a change, which may replace those before.
  static PINION_INLINE void integrate(const pinion_kernel *moved, One &one, const T *from,
                                      const T *change, T *end) {
    if constexpr (TURNING) {
      one.put(0, from, NQ);
      one.put(1, change, NV);
      one.compute(moved);
      one.take(end, NQ);
    } else {
      for (int i = 0; i < NV; ++i) end[i] = from[i] + change[i];
    }
  }

  PINION_INLINE void integrate(const T *from, const T *change, T *end) {
    integrate(problem.moved, one, from, change, end);
  }

  // The change from positions to others.
  static PINION_INLINE void difference(const pinion_kernel *between, One &one, const T *from,
                                       const T *end, T *change) {
    if constexpr (TURNING) {
      one.put(0, from, NQ);
      one.put(1, end, NQ);
      one.compute(between);
      one.take(change, NV);
    } else {
      for (int i = 0; i < NV; ++i) change[i] = end[i] - from[i];
    }
  }

  PINION_INLINE void difference(const T *from, const T *end, T *change) {
    difference(problem.difference, one, from, end, change);
  }

  // ---- plan --------------------------------------------------------------------------------------

  void shift(double by) {
    shifted<NV>(&plan_q[0][0], KNOTS + 1, by);
    shifted<NV>(&plan_qd[0][0], KNOTS + 1, by);
    shifted<NU>(&plan_u[0][0], KNOTS, by);
  }

  // Rows moved by a number of knots that need not be whole; the last one is repeated.
  template <int N> static void shifted(T *rows, int count, double by) {
    for (int k = 0; k < count; ++k) {
      const double at = k + by < count - 1 ? k + by : count - 1;
      const int low = (int)at, high = low + 1 < count ? low + 1 : count - 1;
      const T share = (T)(at - low);
      for (int i = 0; i < N; ++i)
        rows[k * N + i] = (1 - share) * rows[low * N + i] + share * rows[high * N + i];
    }
  }

  void lose() {
    ++log.restarts;
    memset(plan_q, 0, sizeof plan_q);
    memset(plan_qd, 0, sizeof plan_qd);
    memset(plan_u, 0, sizeof plan_u);
    memset(K, 0, sizeof K);
  }

  // Improves the plan from the state x. DIVERGED leaves the plan as it was.
  int iterate(int64_t number, const T *x, double *spent) {
    start(number, x);
    double mark = seconds();
    gradients(number);
    spent[0] += seconds() - mark;
    if (!trust(number)) return ALL_FLAGGED;
    costs(number);
    mark = seconds();
    const bool convex = regularised();
    spent[1] += seconds() - mark;
    if (convex) return sweep(number) ? DONE : DIVERGED;
    ++log.restarts;
    keep(number, x);
    return DONE;
  }

  // States and efforts of the plan, which begins with the state x.
  void start(int64_t number, const T *x) {
    const int64_t stride = problem.stride, apart = every * stride;
    if constexpr (TURNING) {
      const pinion_view from[] = {
          {(void *)reference(problem.q, number, NQ), PINION_AOS, apart * NQ},
          {plan_q, PINION_AOS, NV}};
      const pinion_view to[] = {{q, PINION_AOS, NQ}};
      run(problem.planned, KNOTS + 1, from, to, nullptr);
    }
    for (int k = 0; k <= KNOTS; ++k) {
      const int64_t row = number + k * stride;
      const T *const q_ref = reference(problem.q, row, NQ);
      const T *const qd_ref = reference(problem.qd, row, NV);
      for (int i = 0; i < NV; ++i) {
        if (!TURNING) q[k][i] = q_ref[i] + plan_q[k][i];
        qd[k][i] = qd_ref[i] + plan_qd[k][i];
      }
      if (k == KNOTS) break;
      const T *const tau_ref = reference(problem.tau, row, NU);
      for (int i = 0; i < NU; ++i) u[k][i] = tau_ref[i] + plan_u[k][i];
    }
    memcpy(q[0], x, sizeof q[0]);
    memcpy(qd[0], x + NQ, sizeof qd[0]);
  }

  // The linear steps under the feedback, with efforts inside their limits. False: a state is so far
  // from the motion that the plan has diverged, and the plan stays as it was.
  bool sweep(int64_t number) {
    const int64_t stride = problem.stride, apart = every * stride;
    V change[2 * PARTS] = {}, efforts[EFFORT_PARTS] = {};
    for (int k = 0;; ++k) {
      for (int i = 0; i < NV; ++i) {
        z[k][i] = lane(change, i);
        w[k][i] = lane(change + PARTS, i);
      }
      if (k == KNOTS) break;
      const Linear &knot = linear[1 - current];
      // The column of the feedforward, and of the gaps.
      lane(change, NV) = 1;
      T sums[NU > NV ? NU : NV];
      multiply<NU, 2 * PARTS>(sums, gains[k][0], change);
      const T *const tau_ref = reference(problem.tau, number + k * stride, NU);
      for (int i = 0; i < NU; ++i) {
        const T next = clamp<T>(u[k][i] - sums[i], low[i], high[i]);
        lane(efforts, i) = next - u[k][i];
        fresh_u[k][i] = next - tau_ref[i];
      }
      multiply<NV, 2 * PARTS>(sums, knot.F[k][0], change);
      T driven[NV];
      multiply<NV, EFFORT_PARTS>(driven, knot.M[k][0], efforts);
      for (int i = 0; i < NV; ++i) {
        const T rate = lane(change + PARTS, i) + step * (sums[i] + driven[i]);
        lane(change + PARTS, i) = rate;
        lane(change, i) += step * rate + gap[k][i];
      }
    }
    if constexpr (TURNING) {
      const pinion_view from[] = {
          {q, PINION_AOS, NQ},
          {qd, PINION_AOS, NV},
          {z, PINION_AOS, NV},
          {w, PINION_AOS, NV},
          {(void *)reference(problem.q, number, NQ), PINION_AOS, apart * NQ},
          {q[0], PINION_ONE, NQ}};
      const pinion_view to[] = {{fresh_q, PINION_AOS, NV}, {fresh_qd, PINION_AOS, NV}};
      run(problem.plan, KNOTS + 1, from, to, nullptr);
    }
    bool inside = true;
    for (int k = 0; k <= KNOTS; ++k) {
      const int64_t row = number + k * stride;
      const T *const q_ref = reference(problem.q, row, NQ);
      const T *const qd_ref = reference(problem.qd, row, NV);
      for (int i = 0; i < NV; ++i) {
        if (!TURNING) fresh_q[k][i] = q[k][i] + z[k][i] - q_ref[i];
        fresh_qd[k][i] = (TURNING ? fresh_qd[k][i] : qd[k][i] + w[k][i]) - qd_ref[i];
        // False for NaN too.
        inside &= magnitude(fresh_q[k][i]) < (T)problem.lost;
        inside &= magnitude(fresh_qd[k][i]) < (T)problem.lost;
      }
    }
    if (!inside) return false;
    memcpy(plan_q, fresh_q, sizeof plan_q);
    memcpy(plan_qd, fresh_qd, sizeof plan_qd);
    memcpy(plan_u, fresh_u, sizeof plan_u);
    write_gains();
    return true;
  }

  // ROWS sums over a row's `COUNT` vectors.
  template <int ROWS, int COUNT>
  static PINION_INLINE void multiply(T *to, const T *matrix, const V *vector) {
    alignas(64) T sums[ROWS][LANES];
    PINION_UNROLL
    for (int i = 0; i < ROWS; ++i) {
      V sum = {};
      PINION_UNROLL
      for (int p = 0; p < COUNT; ++p)
        sum = fma(load<V>(matrix + (i * COUNT + p) * LANES), vector[p], sum);
      store<V>(sums[i], sum);
    }
    // By halves, which are vectors too.
    PINION_UNROLL
    for (int i = 0; i < ROWS; ++i) {
      PINION_UNROLL
      for (int half = LANES / 2; half > 0; half /= 2) {
        PINION_UNROLL
        for (int l = 0; l < half; ++l) sums[i][l] += sums[i][l + half];
      }
      to[i] = sums[i][0];
    }
  }

  static T magnitude(T x) { return x < 0 ? -x : x; }

  static T &lane(V *vectors, int i) { return ((T *)vectors)[i]; }

  // Keeps the plan, but for its begin: the state x, with the effort of the last law's feedback. A
  // further iteration finds the plan at x, and adds no feedback again.
  void keep(int64_t number, const T *x) {
    const T *const q_ref = reference(problem.q, number, NQ);
    const T *const qd_ref = reference(problem.qd, number, NV);
    const T *const tau_ref = reference(problem.tau, number, NU);
    T start_q[NQ], off[2 * NV];
    integrate(q_ref, plan_q[0], start_q);
    difference(start_q, x, off);
    for (int i = 0; i < NV; ++i) off[NV + i] = x[NQ + i] - (qd_ref[i] + plan_qd[0][i]);
    for (int i = 0; i < NU; ++i) {
      T sum = u[0][i];
      for (int j = 0; j < 2 * NV; ++j) sum -= K[i][j] * off[j];
      plan_u[0][i] = clamp<T>(sum, low[i], high[i]) - tau_ref[i];
    }
    difference(q_ref, x, plan_q[0]);
    for (int i = 0; i < NV; ++i) plan_qd[0][i] = x[NQ + i] - qd_ref[i];
  }

  // The gains of the first knot, for tangents.
  void write_gains() {
    const Row *first = gains[0];
    if constexpr (TURNING) {
      const pinion_view from[] = {{q, PINION_AOS, NQ},
                                  {qd, PINION_AOS, NV},
                                  {gains, PINION_AOS, 2 * H * NU},
                                  {q[0], PINION_ONE, NQ}};
      const pinion_view to[] = {{Qux, PINION_AOS, 2 * H * NU}};
      run(problem.gains, 1, from, to, nullptr);
      first = Qux;
    }
    for (int i = 0; i < NU; ++i) {
      memcpy(K[i], first[i], sizeof(T) * NV);
      memcpy(K[i] + NV, first[i] + H, sizeof(T) * NV);
    }
  }

  void write_law(int64_t number, const T *x) {
    const int64_t row = number + problem.stride;
    const T *const tau_ref = reference(problem.tau, number, NU);
    const T *const qd_ref = reference(problem.qd, row, NV);
    T following[NQ], change[NV];
    integrate(reference(problem.q, row, NQ), plan_q[1], following);
    difference(x, following, change);
    memcpy(law.K, K, sizeof K);
    memcpy(law.begin, x, sizeof law.begin);
    for (int i = 0; i < NU; ++i) law.u[i] = tau_ref[i] + plan_u[0][i] - (T)carried[i];
    for (int i = 0; i < NV; ++i) {
      law.rate[i] = change[i] / step;
      law.rate[NV + i] = (qd_ref[i] + plan_qd[1][i] - x[NQ + i]) / step;
    }
  }

  // ---- batches of knots ----------------------------------------------------------------------------

  void run(const pinion_kernel *kernel, size_t n, const pinion_view *from, const pinion_view *to,
           uint8_t *nonfinite) {
    Batch batch;
    check(kernel, n, from, to, batch);
    batch.flags = nonfinite;
    Range<T>(batch, scratch).compute(0, batch.blocks);
  }

  void gradients(int64_t number) {
    Linear &now = linear[current];
    pinion_view from[7] = {{q, PINION_AOS, NQ}, {qd, PINION_AOS, NV}, {u, PINION_AOS, NU}};
    int last = 3;
    if (MASK)
      from[last++] = {(void *)reference(problem.active, number, MASK), PINION_AOS,
                      every * problem.stride * MASK};
    from[last++] = {q[1], PINION_AOS, NQ};
    from[last++] = {qd[1], PINION_AOS, NV};
    if (TURNING) from[last++] = {q[0], PINION_ONE, NQ};
    const pinion_view to[] = {{now.F, PINION_AOS, 2 * H * NV},
                              {now.M, PINION_AOS, HU * NV},
                              {gap, PINION_AOS, NV},
                              {now.force_x, PINION_AOS, 2 * H * ROWS},
                              {now.force_u, PINION_AOS, HU * ROWS},
                              {now.weighted_x, PINION_AOS, 2 * H * ROWS},
                              {now.weighted_u, PINION_AOS, HU * ROWS}};
    run(problem.gradient, KNOTS, from, to, flags);
  }

  // Replaces gradients that are not finite; false: there is none for them. Those of turning joints
  // stay in the coordinates of the period from which they are.
  bool trust(int64_t number) {
    int64_t now[KNOTS];
    int count = 0;
    for (int k = 0; k < KNOTS; ++k) {
      now[k] = number + k * problem.stride;
      count += flags[k];
    }
    log.gradients += KNOTS;
    log.flagged += count;
    if (count) {
      Linear &next = linear[current];
      const Linear &source = trusted ? linear[1 - current] : next;
      int64_t sources[KNOTS];
      memcpy(sources, now, sizeof sources);
      if (!trusted && count == KNOTS) return false;
      const int64_t *const times = trusted ? instants : now;
      for (int k = 0; k < KNOTS; ++k) {
        if (!flags[k]) continue;
        int nearest = -1;
        for (int j = 0; j < KNOTS; ++j) {
          if (!trusted && flags[j]) continue;
          if (nearest < 0 || distance(times[j], now[k]) < distance(times[nearest], now[k])) nearest = j;
        }
        replace(next.F[k], source.F[nearest], gap[k]);
        memcpy(next.M[k], source.M[nearest], sizeof next.M[k]);
        if (FORCES) {
          memcpy(next.force_x[k], source.force_x[nearest], sizeof next.force_x[k]);
          memcpy(next.force_u[k], source.force_u[nearest], sizeof next.force_u[k]);
          memcpy(next.weighted_x[k], source.weighted_x[nearest], sizeof next.weighted_x[k]);
          memcpy(next.weighted_u[k], source.weighted_u[nearest], sizeof next.weighted_u[k]);
        }
        sources[k] = times[nearest];
      }
      memcpy(now, sources, sizeof now);
    }
    memcpy(instants, now, sizeof instants);
    trusted = true;
    current = 1 - current;
    return true;
  }

  // Replaces a gradient, but for its gaps, which are zero if one of them is not finite.
  static void replace(Row *F, const Row *source, T *gap) {
    T sum = 0;
    for (int i = 0; i < NV; ++i) sum += F[i][NV] - F[i][NV] + gap[i] - gap[i];
    for (int i = 0; i < NV; ++i) {
      const T late = sum == 0 ? F[i][NV] : 0;
      memcpy(F[i], source[i], sizeof F[i]);
      F[i][NV] = late;
      if (sum != 0) gap[i] = 0;
    }
  }

  static int64_t distance(int64_t a, int64_t b) { return a < b ? b - a : a - b; }

  void costs(int64_t number) {
    const int64_t stride = problem.stride;
    expand(problem.running, number, 0, KNOTS);
    expand(problem.final, number + KNOTS * stride, KNOTS, 1);
    for (int k = 0; k < KNOTS; ++k) {
      const T *const tau_ref = reference(problem.tau, number + k * stride, NU);
      for (int i = 0; i < NU; ++i) by_u[k][i] = (T)problem.effort_weights[i] * (u[k][i] - tau_ref[i]);
    }
  }

  // Costs of `count` knots from one on, whose reference is a row.
  void expand(const pinion_kernel *kernel, int64_t row, int knot, int count) {
    const int64_t apart = every * problem.stride;
    pinion_view from[6] = {
        {q[knot], PINION_AOS, NQ},
        {qd[knot], PINION_AOS, NV},
        {(void *)reference(problem.q, row, NQ), PINION_AOS, apart * NQ},
        {(void *)reference(problem.qd, row, NV), PINION_AOS, apart * NV},
    };
    int last = 4;
    if (TIP) from[last++] = {(void *)reference(problem.tip, row, TIP), PINION_AOS, apart * TIP};
    if (TURNING) from[last++] = {q[0], PINION_ONE, NQ};
    const pinion_view to[] = {{by_q[knot], PINION_AOS, H * NV},
                              {by_qd[knot], PINION_AOS, NV},
                              {turned[TURNING ? knot : 0], PINION_AOS, H * NV}};
    run(kernel, count, from, to, nullptr);
  }

  // ---- backward pass -------------------------------------------------------------------------------

  // With the smallest regularisation of efforts, 0 first, that makes the problem convex.
  bool regularised() {
    bool finite = true;
    bool convex = backward(0, finite);
    for (int64_t k = 0; k < problem.rungs && !convex && finite; ++k)
      convex = backward((T)problem.ladder[k], finite);
    return convex;
  }

  // A product that is added: sum over j < J of left[r * row + j * next] right[j] to row r.
  struct Term {
    const T *left, *right;
    int row, next;
  };

  // ROWS rows of COLUMNS vectors, whose sums stay in registers.
  template <bool MINUS, int J, int ROWS, int COLUMNS, int TERMS>
  static PINION_INLINE void add_tile(T *to, const T *from, int width, const Term (&terms)[TERMS]) {
    V sums[ROWS][COLUMNS] = {};
    if (from) {
      PINION_UNROLL
      for (int r = 0; r < ROWS; ++r) {
        PINION_UNROLL
        for (int c = 0; c < COLUMNS; ++c) sums[r][c] = load<V>(from + r * width + c * LANES);
      }
    }
    PINION_UNROLL
    for (int t = 0; t < TERMS; ++t) {
      const Term &term = terms[t];
      const T *left = term.left, *right = term.right;
      PINION_UNROLL
      for (int j = 0; j < J; ++j, left += term.next, right += width) {
        V x[COLUMNS];
        PINION_UNROLL
        for (int c = 0; c < COLUMNS; ++c) x[c] = load<V>(right + c * LANES);
        PINION_UNROLL
        for (int r = 0; r < ROWS; ++r) {
          const V factor = splat<V>(left[r * term.row]);
          PINION_UNROLL
          for (int c = 0; c < COLUMNS; ++c)
            sums[r][c] = MINUS ? fnma(factor, x[c], sums[r][c]) : fma(factor, x[c], sums[r][c]);
        }
      }
    }
    PINION_UNROLL
    for (int r = 0; r < ROWS; ++r) {
      PINION_UNROLL
      for (int c = 0; c < COLUMNS; ++c) store<V>(to + r * width + c * LANES, sums[r][c]);
    }
  }

  // R rows of C vectors, in columns of the same rows, as many as the machine has registers for.
  // Sums begin with the rows of `from`, or with zeros if it is null; rows of all three are `width`
  // apart.
  template <int R, int J, int C, bool MINUS = false, int TERMS>
  static PINION_INLINE void add(T *to, const T *from, int width, const Term (&terms)[TERMS]) {
    constexpr int COLUMNS = C % 3 == 0 && REGISTERS > 20 ? 3 : C < 2 ? C : 2;
    constexpr int FIT = REGISTERS / COLUMNS;
    constexpr int TILES = (R + FIT - 1) / FIT, ROWS = (R + TILES - 1) / TILES, REST = R % ROWS;
    for (int c = 0; c + COLUMNS <= C; c += COLUMNS)
      add_columns<MINUS, R, J, ROWS, REST, COLUMNS>(to, from, width, terms, c * LANES);
    if constexpr (C % COLUMNS != 0)
      add_columns<MINUS, R, J, ROWS, REST, C % COLUMNS>(to, from, width, terms,
                                           (C - C % COLUMNS) * LANES);
  }

  template <bool MINUS, int R, int J, int ROWS, int REST, int COLUMNS, int TERMS>
  static PINION_INLINE void add_columns(T *to, const T *from, int width,
                                        const Term (&terms)[TERMS], int at) {
    for (int first = 0; first < R; first += ROWS) {
      Term moved[TERMS];
      PINION_UNROLL
      for (int t = 0; t < TERMS; ++t)
        moved[t] = {terms[t].left + first * terms[t].row, terms[t].right + at, terms[t].row, terms[t].next};
      T *const rows = to + first * width + at;
      const T *const start = from ? from + first * width + at : nullptr;
      if (first + ROWS <= R)
        add_tile<MINUS, J, ROWS, COLUMNS>(rows, start, width, moved);
      else if constexpr (REST != 0)
        add_tile<MINUS, J, REST, COLUMNS>(rows, start, width, moved);
    }
  }

  bool backward(T regularisation, bool &finite) {
    const T h = step;
    const V one_step = splat<V>(h), two_steps = splat<V>(h * h);
    memset(value, 0, sizeof value);
    for (int i = 0; i < NV; ++i) {
      memcpy(value[i], by_q[KNOTS][i], sizeof(Half));
      value[NV + i][NV] = by_qd[KNOTS][i];
      if (TURNING)
        memcpy(value[NV + i] + H, turned[KNOTS][i], sizeof(Half));
      else
        value[NV + i][H + i] = (T)problem.final_rate_weights[i];
    }
    bool convex = true;
    for (int k = KNOTS - 1; k >= 0; --k) {
      const Linear &knot = linear[1 - current];
      const T *const F = knot.F[k][0], *const M = knot.M[k][0];
      add_gap(gap[k]);
      for (int i = 0; i < NV; ++i) {
        PINION_UNROLL
        for (int p = 0; p < PARTS; ++p) {
          const int at = p * LANES;
          const V by_position = fma(two_steps, load<V>(value[i] + at), one_step * load<V>(value[NV + i] + at));
          const V by_rate =
              fma(two_steps, load<V>(value[i] + H + at), one_step * load<V>(value[NV + i] + H + at));
          const V shifted_rate = fma(one_step, by_position, by_rate);
          store<V>(S[i] + at, by_position);
          store<V>(S[i] + H + at, shifted_rate);
          store<V>(P[i] + at, one_step * shifted_rate);
        }
      }
      add<NU, NV, PARTS>(G[0], nullptr, H, {{M, P[0], 1, HU}});
      add<NU, NV, EFFORT_PARTS>(Quu[0], nullptr, HU, {{G[0], M, H, 1}});
      if constexpr (FORCES != 0)
        add<NU, FORCES, EFFORT_PARTS>(Quu[0], Quu[0], HU,
                                      {{knot.force_u[k][0], knot.weighted_u[k][0], 1, HU}});
      for (int i = 0; i < NU; ++i) Quu[i][i] += (T)problem.effort_weights[i] + regularisation;
      // Pivots are a chain of scalars: their steps are between the products that do not need them.
      convex &= factorise<0, NU / 6>();
      add<NV, NV, 2 * PARTS>(Tr[0], S[0], 2 * H, {{P[0], F, H, 1}});
      convex &= factorise<NU / 6, 2 * NU / 6>();
      add<NU, NV, 2 * PARTS>(Qux[0], nullptr, 2 * H, {{M, Tr[0], 1, HU}});
      if constexpr (FORCES != 0)
        add<NU, FORCES, 2 * PARTS>(Qux[0], Qux[0], 2 * H,
                                   {{knot.force_u[k][0], knot.weighted_x[k][0], 1, HU}});
      for (int i = 0; i < NU; ++i) Qux[i][NV] += by_u[k][i];
      convex &= factorise<2 * NU / 6, 3 * NU / 6>();
      for (int i = 0; i < NV; ++i) {
        PINION_UNROLL
        for (int p = 0; p < PARTS; ++p) {
          const int at = p * LANES;
          const V qq = load<V>(value[i] + at), qv = load<V>(value[i] + H + at);
          const V vq = fma(one_step, qq, load<V>(value[NV + i] + at));
          const V vv = fma(one_step, qv, load<V>(value[NV + i] + H + at));
          store<V>(value[i] + at, qq + load<V>(by_q[k][i] + at));
          store<V>(value[NV + i] + at, vq);
          store<V>(value[NV + i] + H + at, fma(one_step, vq, vv));
        }
        value[NV + i][NV] += by_qd[k][i];
        if (TURNING) {
          PINION_UNROLL
          for (int p = 0; p < PARTS; ++p) {
            T *const rates = value[NV + i] + H + p * LANES;
            store<V>(rates, load<V>(rates) + load<V>(turned[k][i] + p * LANES));
          }
        } else {
          value[NV + i][H + i] += (T)problem.rate_weights[i];
        }
      }
      convex &= factorise<3 * NU / 6, 4 * NU / 6>();
      // The half [q][qd] is that of [qd][q], transposed.
      add<NV, NV, PARTS>(value[0], value[0], 2 * H,
                 {{F, Tr[0], 1, 2 * H}, {S[0], F, 1, 2 * H}});
      convex &= factorise<4 * NU / 6, 5 * NU / 6>();
      add<NV, NV, 2 * PARTS>(value[NV], value[NV], 2 * H, {{F + H, Tr[0], 1, 2 * H}});
      convex &= factorise<5 * NU / 6, NU>();
      add<NV, NV, 2 * PARTS>(value[NV], value[NV], 2 * H, {{S[0] + H, F, 1, 2 * H}});
      if constexpr (FORCES != 0) {
        const T *const X = knot.force_x[k][0], *const HX = knot.weighted_x[k][0];
        add<NV, FORCES, PARTS>(value[0], value[0], 2 * H, {{X, HX, 1, 2 * H}});
        add<NV, FORCES, 2 * PARTS>(value[NV], value[NV], 2 * H, {{X + H, HX, 1, 2 * H}});
      }
      if (!convex) break;
      Row *const knot_gains = gains[k];
      eliminate(knot_gains);
      add<NV, NU, PARTS, true>(value[0], value[0], 2 * H, {{Qux[0], knot_gains[0], 1, 2 * H}});
      add<NV, NU, 2 * PARTS, true>(value[NV], value[NV], 2 * H, {{Qux[0] + H, knot_gains[0], 1, 2 * H}});
      substitute(knot_gains);
      mirror();
    }
    // Also what is not finite at one knot is so at the first one.
    T sum = 0;
    for (int i = 0; i < 2 * NV; ++i) sum += value[i][NV];
    finite = sum - sum == 0;
    return convex && finite;
  }

  // Adds the gradient from a gap of positions to that of the value.
  PINION_INLINE void add_gap(const T *gap) {
    V sums[2 * PARTS] = {};
    for (int j = 0; j < NV; ++j) {
      const V factor = splat<V>(gap[j]);
      PINION_UNROLL
      for (int p = 0; p < 2 * PARTS; ++p)
        sums[p] = fma(factor, load<V>(value[j] + p * LANES), sums[p]);
    }
    for (int i = 0; i < NV; ++i) {
      value[i][NV] += lane(sums, i);
      value[NV + i][NV] += lane(sums + PARTS, i);
    }
  }

  // The half [q][qd] of V from [qd][q].
  PINION_INLINE void mirror() {
    if constexpr (NV < Q) {
      for (int i = 0; i < NV; ++i)
        for (int j = 0; j < NV; ++j) value[i][H + j] = value[NV + j][i];
    } else {
      for (int column = 0; column < NV; column += Q) {
        if (column + Q > NV) column = NV - Q;
        for (int row = 0; row < NV; row += LANES)
          gather(value[NV + row] + column, 2 * H, value[column] + H + row, 2 * H);
      }
    }
  }

  // Rows FIRST to LAST of Quu = L D L', of the lower triangle; false: a pivot is not above zero.
  template <int FIRST, int LAST> PINION_INLINE bool factorise() {
    bool positive = true;
    PINION_UNROLL_ROWS
    for (int i = FIRST; i < LAST; ++i) {
      PINION_UNROLL_ROWS
      for (int j = 0; j < i; ++j) {
        T x = Quu[i][j];
        PINION_UNROLL_ROWS
        for (int m = 0; m < j; ++m) x = fnma(scaled[i][m], lower[j][m], x);
        scaled[i][j] = x;
        lower[i][j] = x * inverse[j];
      }
      T pivot = Quu[i][i];
      PINION_UNROLL_ROWS
      for (int m = 0; m < i; ++m) pivot = fnma(scaled[i][m], lower[i][m], pivot);
      positive &= pivot > 0;
      inverse[i] = 1 / pivot;
    }
    return positive;
  }

  // Qux = L^-1 Qux and K = D^-1 Qux: Qux' K is that of the gains, which substitute() completes off
  // the chain from knot to knot. Columns of rows stay in registers.
  PINION_INLINE void eliminate(Row *K) {
    for (int p = 0; p < 2 * PARTS; ++p) {
      V x[NU];
      PINION_UNROLL_ROWS
      for (int i = 0; i < NU; ++i) x[i] = load<V>(Qux[i] + p * LANES);
      PINION_UNROLL_ROWS
      for (int j = 0; j < NU; ++j) {
        PINION_UNROLL_ROWS
        for (int i = j + 1; i < NU; ++i) x[i] = fnma(splat<V>(lower[i][j]), x[j], x[i]);
      }
      PINION_UNROLL_ROWS
      for (int i = 0; i < NU; ++i) {
        store<V>(Qux[i] + p * LANES, x[i]);
        store<V>(K[i] + p * LANES, x[i] * splat<V>(inverse[i]));
      }
    }
  }

  // K = L'^-1 K.
  PINION_INLINE void substitute(Row *K) {
    for (int p = 0; p < 2 * PARTS; ++p) {
      V x[NU];
      PINION_UNROLL_ROWS
      for (int i = 0; i < NU; ++i) x[i] = load<V>(K[i] + p * LANES);
      PINION_UNROLL_ROWS
      for (int j = NU - 1; j > 0; --j) {
        PINION_UNROLL_ROWS
        for (int i = 0; i < j; ++i) x[i] = fnma(splat<V>(lower[j][i]), x[j], x[i]);
      }
      PINION_UNROLL_ROWS
      for (int i = 0; i < NU; ++i) store<V>(K[i] + p * LANES, x[i]);
    }
  }
};

} // namespace
} // namespace pinion
