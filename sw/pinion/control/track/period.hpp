// One period of a model predictive controller: the same as update() of mpc.py, which says what it
// does, in one call. All memory is the caller's; nothing is allocated, locked or asked of the system.
//
// The value function is a quadratic form of [q; qd; 1]: gradients are a column of Hessians. Rows
// have two halves, [q | 1] and [qd | 0], of whole vectors. With F = [dqdd/dq, dqdd/dqd],
// W = [h^2; h], A = A0 + W F and B = W M^-1,
//
//   S = W' V A0     P = W' V W     T = S + P F
//   Quu = R + M^-1 P M^-1      [Qux | Qu] = M^-1 T + [0 | lu]      [K | k] = Quu^-1 [Qux | Qu]
//   V = [lxx | lx] + A0' V A0 + F' T + S' F - Qux' K
//
// as riccati_function of control/solve/kernels.py derives it.
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

namespace pinion {
namespace {

template <class T, int N, int KNOTS, int TIP, size_t SCRATCH> class Controller {
  typedef typename Widest<T>::type V;
  static constexpr int LANES = Traits<V>::lanes, PARTS = (N + LANES) / LANES, H = PARTS * LANES;
#if PINION_ISA_AVX2 || PINION_ISA_PORTABLE
  static constexpr int REGISTERS = 12;
#else
  static constexpr int REGISTERS = 28;
#endif
  typedef T Half[H];
  typedef T Row[2 * H];

  struct alignas(64) Linear {
    Row F[KNOTS][N];
    Half M[KNOTS][N];
  };

public:
  Law<T, N> law;
  Log log;

  static constexpr int WIDTH = H;

  void open(const Problem<T> &given) {
    memset((void *)this, 0, sizeof *this);
    problem = given;
    planned = -1;
    every = problem.rows > 1;
    for (int i = 0; i < N; ++i) limit[i] = (T)problem.limit[i];
    step = (T)problem.step;
    for (int k = 0; k < KNOTS; ++k) instants[k] = k * problem.stride;
  }

  int update(int64_t number, const double *state) {
    const double began = seconds();
    double spent[2] = {0, 0};
    const int64_t periods = every ? problem.rows - KNOTS * problem.stride : INT64_MAX / 2;
    if (number < 0 || number >= periods) return NO_PERIOD;
    T x[2 * N];
    for (int i = 0; i < 2 * N; ++i) {
      if (!isfinite(state[i])) return NOT_FINITE;
      x[i] = (T)state[i];
    }
    if (planned >= 0 && number > planned)
      shift((double)(number - planned) / (double)problem.stride);
    bool convex = true;
    for (int64_t i = 0; i < problem.iterations; ++i) {
      if (!roll(number, x, true)) {
        lose();
        if (!roll(number, x, false)) {
          ++log.restarts;
          return DIVERGED;
        }
      }
      double mark = seconds();
      gradients();
      spent[0] += seconds() - mark;
      if (!trust(number)) return ALL_FLAGGED;
      costs(number);
      mark = seconds();
      convex = regularised();
      spent[1] += seconds() - mark;
      if (!convex) ++log.restarts;
      plan(number, convex);
    }
    write_law(x, convex);
    planned = number;
    log.seconds[0] = spent[0];
    log.seconds[1] = spent[1];
    log.seconds[2] = seconds() - began - spent[0] - spent[1];
    return DONE;
  }

  // A step of the robot as the controller knows it, from x with efforts held.
  void simulate(double seconds, double *x, const double *efforts) {
    for (int i = 0; i < N; ++i) {
      in[0][i * PINION_BLOCK] = (T)x[i];
      in[1][i * PINION_BLOCK] = (T)x[N + i];
      in[2][i * PINION_BLOCK] = (T)efforts[i];
    }
    accelerate();
    for (int i = 0; i < N; ++i) {
      x[N + i] += seconds * out[i * PINION_BLOCK];
      x[i] += seconds * x[N + i];
    }
  }

private:
  Problem<T> problem;
  int64_t every; // rows from one period to the next
  int64_t planned, instants[KNOTS];
  bool trusted;
  int current; // of the two linearisations; the other one is the last trusted
  T limit[N], step;
  // The plan, as deviations from the motion.
  T plan_q[KNOTS + 1][N], plan_qd[KNOTS + 1][N], plan_u[KNOTS][N];
  T q[KNOTS + 1][N], qd[KNOTS + 1][N], u[KNOTS][N];
  T by_qd[KNOTS + 1][N], by_u[KNOTS][N];
  uint8_t flags[KNOTS];
  alignas(64) T in[3][N * PINION_BLOCK];
  alignas(64) T out[N * PINION_BLOCK];
  Linear linear[2];
  alignas(64) Half by_q[KNOTS + 1][N]; // [lqq | lq]
  alignas(64) Row gains[KNOTS][N];     // [K | k], and after a pass that is not convex the last one
  alignas(64) Row next_gains[KNOTS][N];
  alignas(64) Row value[2 * N];
  Row S[N], Tr[N], Qux[N];
  Half P[N], G[N], Quu[N];
  T lower[N][N], inverse[N];
  alignas(64) char scratch[SCRATCH];

  static double seconds() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
  }

  const T *reference(const T *rows, int64_t row, int64_t size) const {
    return rows + every * row * size;
  }

  // Accelerations `out` of the state and efforts `in`.
  void accelerate() {
    const void *const request[3] = {in[0], in[1], in[2]};
    void *const result[1] = {out};
    problem.forward->compute(request, result);
  }

  // ---- plan --------------------------------------------------------------------------------------

  void shift(double by) {
    shifted(&plan_q[0][0], KNOTS + 1, by);
    shifted(&plan_qd[0][0], KNOTS + 1, by);
    shifted(&plan_u[0][0], KNOTS, by);
    const int knots = (int)nearbyint(by < KNOTS ? by : KNOTS);
    for (int k = 0; k < KNOTS && knots > 0; ++k) {
      const int from = k + knots < KNOTS ? k + knots : KNOTS - 1;
      if (from != k) memcpy(gains[k], gains[from], sizeof gains[k]);
    }
  }

  // Rows moved by a number of knots that need not be whole; the last one is repeated.
  static void shifted(T *rows, int count, double by) {
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
    memset(gains, 0, sizeof gains);
  }

  // Whether all states stay within bounds.
  bool roll(int64_t number, const T *x, bool feedback) {
    memcpy(q[0], x, sizeof q[0]);
    memcpy(qd[0], x + N, sizeof qd[0]);
    for (int k = 0; k < KNOTS; ++k) {
      const int64_t row = number + k * problem.stride;
      const T *const q_ref = reference(problem.q, row, N), *const qd_ref = reference(problem.qd, row, N);
      const T *const tau_ref = reference(problem.tau, row, N);
      if (feedback) {
        V off[2 * PARTS] = {};
        for (int i = 0; i < N; ++i) {
          lane(off, i) = q[k][i] - (q_ref[i] + plan_q[k][i]);
          lane(off + PARTS, i) = qd[k][i] - (qd_ref[i] + plan_qd[k][i]);
        }
        alignas(64) T sums[N][LANES];
        PINION_UNROLL
        for (int i = 0; i < N; ++i) {
          V sum = {};
          PINION_UNROLL
          for (int p = 0; p < 2 * PARTS; ++p)
            sum = fma(load<V>(gains[k][i] + p * LANES), off[p], sum);
          store<V>(sums[i], sum);
        }
        for (int i = 0; i < N; ++i) {
          T sum = 0;
          for (int l = 0; l < LANES; ++l) sum += sums[i][l];
          u[k][i] = tau_ref[i] + plan_u[k][i] - sum;
        }
      } else {
        memcpy(u[k], tau_ref, sizeof u[k]);
      }
      for (int i = 0; i < N; ++i) {
        u[k][i] = clamp<T>(u[k][i], -limit[i], limit[i]);
        in[0][i * PINION_BLOCK] = q[k][i];
        in[1][i * PINION_BLOCK] = qd[k][i];
        in[2][i * PINION_BLOCK] = u[k][i];
      }
      accelerate();
      bool inside = true;
      for (int i = 0; i < N; ++i) {
        qd[k + 1][i] = qd[k][i] + step * out[i * PINION_BLOCK];
        q[k + 1][i] = q[k][i] + step * qd[k + 1][i];
        // False for NaN too.
        inside &= std_abs(qd[k + 1][i]) < (T)problem.lost && std_abs(q[k + 1][i]) < (T)problem.lost;
      }
      if (!inside) return false;
    }
    return true;
  }

  static T std_abs(T x) { return x < 0 ? -x : x; }

  static T &lane(V *vectors, int i) { return ((T *)vectors)[i]; }

  void plan(int64_t number, bool convex) {
    for (int k = 0; k <= KNOTS; ++k) {
      const int64_t row = number + k * problem.stride;
      const T *const q_ref = reference(problem.q, row, N), *const qd_ref = reference(problem.qd, row, N);
      for (int i = 0; i < N; ++i) {
        plan_q[k][i] = q[k][i] - q_ref[i];
        plan_qd[k][i] = qd[k][i] - qd_ref[i];
      }
      if (k == KNOTS) break;
      const T *const tau_ref = reference(problem.tau, row, N);
      for (int i = 0; i < N; ++i)
        plan_u[k][i] = u[k][i] - (convex ? gains[k][i][N] : 0) - tau_ref[i];
    }
  }

  void write_law(const T *x, bool convex) {
    T feedforward[N];
    for (int i = 0; i < N; ++i) feedforward[i] = convex ? gains[0][i][N] : 0;
    for (int i = 0; i < N; ++i) {
      law.u[i] = clamp<T>(u[0][i] - feedforward[i], -limit[i], limit[i]);
      T late = 0;
      for (int j = 0; j < N; ++j) late += linear[1 - current].M[0][i][j] * feedforward[j];
      const T next_qd = qd[1][i] - step * late, next_q = q[1][i] - step * step * late;
      law.begin[i] = x[i];
      law.begin[N + i] = x[N + i];
      law.rate[i] = (next_q - x[i]) / step;
      law.rate[N + i] = (next_qd - x[N + i]) / step;
      memcpy(law.K[i], gains[0][i], sizeof(T) * N);
      memcpy(law.K[i] + N, gains[0][i] + H, sizeof(T) * N);
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

  void gradients() {
    Linear &now = linear[current];
    const pinion_view from[] = {{q, PINION_AOS, N}, {qd, PINION_AOS, N}, {u, PINION_AOS, N}};
    const pinion_view to[] = {{now.F, PINION_AOS, 2 * H * N}, {now.M, PINION_AOS, H * N}};
    run(problem.gradient, KNOTS, from, to, flags);
  }

  // Replaces gradients that are not finite; false: there is none for them.
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
        memcpy(next.F[k], source.F[nearest], sizeof next.F[k]);
        memcpy(next.M[k], source.M[nearest], sizeof next.M[k]);
        sources[k] = times[nearest];
      }
      memcpy(now, sources, sizeof now);
    }
    memcpy(instants, now, sizeof instants);
    trusted = true;
    current = 1 - current;
    return true;
  }

  static int64_t distance(int64_t a, int64_t b) { return a < b ? b - a : a - b; }

  void costs(int64_t number) {
    const int64_t stride = problem.stride, apart = every * stride;
    const pinion_view from[] = {
        {q, PINION_AOS, N},
        {qd, PINION_AOS, N},
        {(void *)reference(problem.q, number, N), PINION_AOS, apart * N},
        {(void *)reference(problem.qd, number, N), PINION_AOS, apart * N},
        {(void *)reference(problem.tip, number, TIP), PINION_AOS, apart * TIP},
    };
    const pinion_view to[] = {{by_q, PINION_AOS, H * N}, {by_qd, PINION_AOS, N}};
    run(problem.running, KNOTS, from, to, nullptr);
    const int64_t last = number + KNOTS * stride;
    const pinion_view from_last[] = {
        {q[KNOTS], PINION_AOS, N},
        {qd[KNOTS], PINION_AOS, N},
        {(void *)reference(problem.q, last, N), PINION_AOS, N},
        {(void *)reference(problem.qd, last, N), PINION_AOS, N},
        {(void *)reference(problem.tip, last, TIP), PINION_AOS, TIP},
    };
    const pinion_view to_last[] = {{by_q[KNOTS], PINION_AOS, H * N}, {by_qd[KNOTS], PINION_AOS, N}};
    run(problem.final, 1, from_last, to_last, nullptr);
    for (int k = 0; k < KNOTS; ++k) {
      const T *const tau_ref = reference(problem.tau, number + k * stride, N);
      for (int i = 0; i < N; ++i) by_u[k][i] = (T)problem.effort_weights[i] * (u[k][i] - tau_ref[i]);
    }
  }

  // ---- backward pass -------------------------------------------------------------------------------

  // With the smallest regularisation of efforts, 0 first, that makes the problem convex.
  bool regularised() {
    bool finite = true;
    bool convex = backward(0, finite);
    for (int64_t k = 0; k < problem.rungs && !convex && finite; ++k)
      convex = backward((T)problem.ladder[k], finite);
    if (convex) memcpy(gains, next_gains, sizeof gains);
    return convex;
  }

  // A product that is added: sum over j < N of left[r * row + j * next] right[j] to row r.
  struct Term {
    const T *left, *right;
    int row, next;
  };

  // ROWS rows of COLUMNS vectors, whose sums stay in registers.
  template <bool MINUS, int ROWS, int COLUMNS, int TERMS>
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
      for (int j = 0; j < N; ++j, left += term.next, right += width) {
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

  // N rows of C vectors, in columns of the same rows, as many as the machine has registers for.
  // Sums begin with the rows of `from`, or with zeros if it is null; rows of all three are `width`
  // apart.
  template <int C, bool MINUS = false, int TERMS>
  static PINION_INLINE void add(T *to, const T *from, int width, const Term (&terms)[TERMS]) {
    constexpr int COLUMNS = C < 2 ? C : 2, FIT = REGISTERS / COLUMNS;
    constexpr int TILES = (N + FIT - 1) / FIT, ROWS = (N + TILES - 1) / TILES, REST = N % ROWS;
    for (int c = 0; c + COLUMNS <= C; c += COLUMNS)
      add_columns<MINUS, ROWS, REST, COLUMNS>(to, from, width, terms, c * LANES);
    if constexpr (C % COLUMNS != 0)
      add_columns<MINUS, ROWS, REST, C % COLUMNS>(to, from, width, terms,
                                           (C - C % COLUMNS) * LANES);
  }

  template <bool MINUS, int ROWS, int REST, int COLUMNS, int TERMS>
  static PINION_INLINE void add_columns(T *to, const T *from, int width,
                                        const Term (&terms)[TERMS], int at) {
    for (int first = 0; first < N; first += ROWS) {
      Term moved[TERMS];
      PINION_UNROLL
      for (int t = 0; t < TERMS; ++t)
        moved[t] = {terms[t].left + first * terms[t].row, terms[t].right + at, terms[t].row, terms[t].next};
      T *const rows = to + first * width + at;
      const T *const start = from ? from + first * width + at : nullptr;
      if (first + ROWS <= N)
        add_tile<MINUS, ROWS, COLUMNS>(rows, start, width, moved);
      else if constexpr (REST != 0)
        add_tile<MINUS, REST, COLUMNS>(rows, start, width, moved);
    }
  }

  bool backward(T regularisation, bool &finite) {
    const T h = step;
    const V one_step = splat<V>(h), two_steps = splat<V>(h * h);
    memset(value, 0, sizeof value);
    for (int i = 0; i < N; ++i) {
      memcpy(value[i], by_q[KNOTS][i], sizeof(Half));
      value[N + i][N] = by_qd[KNOTS][i];
      value[N + i][H + i] = (T)problem.final_rate_weights[i];
    }
    bool convex = true;
    for (int k = KNOTS - 1; k >= 0; --k) {
      const Linear &knot = linear[1 - current];
      const T *const F = knot.F[k][0], *const M = knot.M[k][0];
      for (int i = 0; i < N; ++i) {
        PINION_UNROLL
        for (int p = 0; p < PARTS; ++p) {
          const int at = p * LANES;
          const V by_position = fma(two_steps, load<V>(value[i] + at), one_step * load<V>(value[N + i] + at));
          const V by_rate =
              fma(two_steps, load<V>(value[i] + H + at), one_step * load<V>(value[N + i] + H + at));
          const V shifted_rate = fma(one_step, by_position, by_rate);
          store<V>(S[i] + at, by_position);
          store<V>(S[i] + H + at, shifted_rate);
          store<V>(P[i] + at, one_step * shifted_rate);
        }
      }
      add<2 * PARTS>(Tr[0], S[0], 2 * H, {{P[0], F, H, 1}});
      add<PARTS>(G[0], nullptr, H, {{M, P[0], H, 1}});
      add<2 * PARTS>(Qux[0], nullptr, 2 * H, {{M, Tr[0], H, 1}});
      add<PARTS>(Quu[0], nullptr, H, {{G[0], M, H, 1}});
      for (int i = 0; i < N; ++i) Quu[i][i] += (T)problem.effort_weights[i] + regularisation;
      // A chain of scalars, beside which the processor has the products that follow.
      convex &= factorise();
      if (!convex) break;
      add<2 * PARTS>(Qux[0], nullptr, 2 * H, {{M, Tr[0], H, 1}});
      for (int i = 0; i < N; ++i) Qux[i][N] += by_u[k][i];
      for (int i = 0; i < N; ++i) {
        PINION_UNROLL
        for (int p = 0; p < PARTS; ++p) {
          const int at = p * LANES;
          const V qq = load<V>(value[i] + at), qv = load<V>(value[i] + H + at);
          const V vq = fma(one_step, qq, load<V>(value[N + i] + at));
          const V vv = fma(one_step, qv, load<V>(value[N + i] + H + at));
          store<V>(value[i] + at, qq + load<V>(by_q[k][i] + at));
          store<V>(value[i] + H + at, fma(one_step, qq, qv));
          store<V>(value[N + i] + at, vq);
          store<V>(value[N + i] + H + at, fma(one_step, vq, vv));
        }
        value[N + i][N] += by_qd[k][i];
        value[N + i][H + i] += (T)problem.rate_weights[i];
      }
      // The half [q][qd] is that of [qd][q], transposed.
      add<PARTS>(value[0], value[0], 2 * H,
                 {{F, Tr[0], 1, 2 * H}, {S[0], F, 1, 2 * H}});
      add<2 * PARTS>(value[N], value[N], 2 * H,
                     {{F + H, Tr[0], 1, 2 * H}, {S[0] + H, F, 1, 2 * H}});
      Row *const K = next_gains[k];
      substitute(K);
      add<PARTS, true>(value[0], value[0], 2 * H, {{Qux[0], K[0], 1, 2 * H}});
      add<2 * PARTS, true>(value[N], value[N], 2 * H, {{Qux[0] + H, K[0], 1, 2 * H}});
      for (int i = 0; i < N; ++i)
        for (int j = 0; j < N; ++j) value[i][H + j] = value[N + j][i];
    }
    // Also what is not finite at one knot is so at the first one.
    T sum = 0;
    for (int i = 0; i < 2 * N; ++i) sum += value[i][N];
    finite = sum - sum == 0;
    return convex && finite;
  }

  // Quu = L D L' of the lower triangle; false: a pivot is not above zero.
  PINION_INLINE bool factorise() {
    T scaled[N][N];
    bool positive = true;
    PINION_UNROLL
    for (int i = 0; i < N; ++i) {
      PINION_UNROLL
      for (int j = 0; j < i; ++j) {
        T x = Quu[i][j];
        PINION_UNROLL
        for (int m = 0; m < j; ++m) x = fnma(scaled[i][m], lower[j][m], x);
        scaled[i][j] = x;
        lower[i][j] = x * inverse[j];
      }
      T pivot = Quu[i][i];
      PINION_UNROLL
      for (int m = 0; m < i; ++m) pivot = fnma(scaled[i][m], lower[i][m], pivot);
      positive &= pivot > 0;
      inverse[i] = 1 / pivot;
    }
    return positive;
  }

  // K = (L D L')^-1 Qux.
  PINION_INLINE void substitute(Row *K) {
    for (int i = 0; i < N; ++i) {
      V x[2 * PARTS];
      PINION_UNROLL
      for (int p = 0; p < 2 * PARTS; ++p) x[p] = load<V>(Qux[i] + p * LANES);
      for (int j = 0; j < i; ++j) {
        const V factor = splat<V>(lower[i][j]);
        PINION_UNROLL
        for (int p = 0; p < 2 * PARTS; ++p) x[p] = fnma(factor, load<V>(K[j] + p * LANES), x[p]);
      }
      PINION_UNROLL
      for (int p = 0; p < 2 * PARTS; ++p) store<V>(K[i] + p * LANES, x[p]);
    }
    for (int i = N - 1; i >= 0; --i) {
      V x[2 * PARTS];
      const V scale = splat<V>(inverse[i]);
      PINION_UNROLL
      for (int p = 0; p < 2 * PARTS; ++p) x[p] = load<V>(K[i] + p * LANES) * scale;
      for (int j = i + 1; j < N; ++j) {
        const V factor = splat<V>(lower[j][i]);
        PINION_UNROLL
        for (int p = 0; p < 2 * PARTS; ++p) x[p] = fnma(factor, load<V>(K[j] + p * LANES), x[p]);
      }
      PINION_UNROLL
      for (int p = 0; p < 2 * PARTS; ++p) store<V>(K[i] + p * LANES, x[p]);
    }
  }
};

} // namespace
} // namespace pinion
