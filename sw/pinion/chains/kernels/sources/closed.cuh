// Forward dynamics of a chain whose tip is held in all six directions (type I of Fijany 1993, with
// W = 1), by the constraint force algorithm (cfa.cuh), as chains/closed.py has it. With
// the wrench F that the tip exerts, X from the last link to the tip's frame and J_n, W_n of that
// link:
//
//     Lambda^-1 = X J_n X^T - E^T Omega_n      E = W_n^T J_n X^T      A Omega = [0 ... 0 E]
//     (Lambda^-1 + damping) F = Vdot0 - G_C
//
// Omega is all links': it also says by how much F changes their constraint forces, c + Omega F, so
// that step V of table I, the motion under F, needs no second solution: the wrench acts on the last
// link, and the rest follows. One diagonalisation with 1 + 6 right-hand sides.
//
// A refinement is for what the last motion and wrench leave over in both equations,
// tau - ID(q, qd, qdd) - J^T F and Vdot - damping F - G_C, with the same matrix, Omega and
// Lambda^-1. The tip's acceleration Vdot is that of a scan over links with a base that rests, so
// that gravity is none of it; to it comes what the solver's motion adds, before F.
//
// Two arrays of processors (Fijany 1993, VI.C-D: steps I and II at once) are two streams. The blocks,
// their diagonalisation and Omega need q alone (`Part::STEP_I`), while the other has inverse
// dynamics and Vdot of q and qd (`Part::STEP_II`); the rest, `Part::AFTER`, begins when both are
// done. The two write nothing in common: each has the links' transforms. `Part::ALL` is one kernel,
// which has the two after each other and costs no launches besides.
//
// Loops: as cfa.cuh, one more scan for the tip's acceleration and, refining, one for J^T F.
// Threads: as cfa.cuh; the thread of the last link solves for F, while the others wait.
// Memory: as cfa.cuh, with 7 right-hand sides, and 18 numbers more a link, of which the first
// link's are used; in parts 12 more, the transforms of step I.
#pragma once

#include "cfa.cuh"

namespace pinion {
namespace parallel {

constexpr int TIP_ROWS = 18; // components of `Rows` between the links' and the solver's
constexpr int STEP_ROWS = 12; // components before all others, for step I alone: its transforms

// What of it a kernel does.
enum class Part { ALL, STEP_I, STEP_II, AFTER };

// The acceleration of the last link over a base that rests, to component `to` of row 0.
template <int K, class T, class Scope, class V, class A>
PINION_INLINE void tip_acceleration(Scope &scope, const Links<T> &links, int to, const V &qd,
                                    const A &qdd) {
  const int n = links.chain.n, begin = scope.thread() * K;
  typename Moving<T>::Element own = Moving<T>::none();
#pragma unroll 1
  for (int i = begin; i < n && i < begin + K; ++i)
    own = Moving<T>::combine(own,
                             Moving<T>::of(links.X(i), links.chain.joint(i), qd[i], qdd[i]));
  const bool is_last = begin < n && n <= begin + K;
  const typename Moving<T>::Element before = scope.template exclusive<Moving<T>, false>(own);
  if (is_last) keep_spatial(links.rows, to, 0, Moving<T>::combine(before, own).a);
}
template <int K, class T, class V, class A>
PINION_INLINE void tip_acceleration(Thread &, const Links<T> &links, int to, const V &qd,
                                    const A &qdd) {
  Spatial<T> v = no_spatial<T>(), a = no_spatial<T>();
#pragma unroll 1
  for (int i = 0; i < links.chain.n; ++i)
    outwards(links.X(i), links.chain.joint(i), qd[i], qdd[i], v, a);
  keep_spatial(links.rows, to, 0, a);
}

// Efforts that are left, less J^T F for a wrench of the last link.
template <int K, class T, class Scope>
PINION_INLINE void take_wrench(Scope &scope, const Links<T> &links, Spatial<T> wrench) {
  const int n = links.chain.n, begin = scope.thread() * K;
  typename Carried<T>::Element load = Carried<T>::none();
#pragma unroll 1
  for (int i = (begin + K < n ? begin + K : n) - 1; i >= begin; --i)
    load = Carried<T>::combine(
        load, Carried<T>::of(links.X(i), i == n - 1 ? wrench : no_spatial<T>()));
  Spatial<T> f = scope.template exclusive<Carried<T>, true>(load).f;
#pragma unroll 1
  for (int i = (begin + K < n ? begin + K : n) - 1; i >= begin; --i) {
    if (i == n - 1) f = wrench;
    links.take_effort(i, f);
    f = links.X(i).force(f);
  }
}
template <int K, class T>
PINION_INLINE void take_wrench(Thread &, const Links<T> &links, Spatial<T> f) {
#pragma unroll 1
  for (int i = links.chain.n - 1; i >= 0; --i) {
    links.take_effort(i, f);
    f = links.X(i).force(f);
  }
}

template <class T> PINION_INLINE Spatial<T> unit_wrench(int k) {
  Spatial<T> f = no_spatial<T>();
  ((T *)&f)[k] = T(1);
  return f;
}

// The tip: where it is in the last link, its wrench F so far from component F on of row 0, what a
// pass adds to it from MORE on, and the last link's acceleration from ACCELERATION on.
template <class T> struct Tip {
  const Links<T> &links;
  const Placement<T> X;
  static constexpr int F = LINK_ROWS, MORE = F + 6, ACCELERATION = F + 12;

  // The right-hand sides of Omega.
  PINION_INLINE void sides(int i, Place to) const {
#pragma unroll 1
    for (int k = 0; k < 6; ++k) {
      T x[BLOCK] = {T(0), T(0), T(0), T(0), T(0)};
      if (i == links.chain.n - 1)
        links.constraints.works(i, links.constraints.moved(i, X.force(unit_wrench<T>(k))), x);
      write(links.rows, to.R(1 + k), i, x);
    }
  }

  // F from c and Omega of the last link. A wrench that the contact does not determine is NaN: a
  // pivot is no more than rounding of what it were without the other links.
  PINION_INLINE void solve(Place at, T damping, const T *goal, T *Lambda_inverse) const {
    const int last = links.chain.n - 1;
    const T least = sizeof(T) == 8 ? T(3.7e-11) : T(2.4e-5); // eps^(2/3)
    T L[6][6], scale[6], b[6], E[6][BLOCK];
    Spatial<T> free[6];
#pragma unroll 1
    for (int k = 0; k < 6; ++k) {
      const Spatial<T> m = links.constraints.moved(last, X.force(unit_wrench<T>(k)));
      free[k] = X.motion(m);
      links.constraints.works(last, m, E[k]);
    }
#pragma unroll 1
    for (int k = 0; k < 6; ++k) {
      T Omega[BLOCK];
      read(links.rows, at.R(1 + k), last, Omega);
#pragma unroll 1
      for (int row = 0; row < 6; ++row) {
        T x = ((const T *)&free[k])[row];
#pragma unroll
        for (int a = 0; a < BLOCK; ++a) x = fnma(E[row][a], Omega[a], x);
        L[row][k] = x;
      }
    }
    T c[BLOCK];
    read(links.rows, at.R(0), last, c);
    const Spatial<T> more =
        links.constraints.moved(last, links.driven(last) + links.constraints.force(last, c));
    const Spatial<T> Vdot = X.motion(spatial_at(links.rows, ACCELERATION, 0) + more);
#pragma unroll 1
    for (int k = 0; k < 6; ++k) {
      for (int row = 0; row < 6; ++row) Lambda_inverse[6 * row + k] = L[row][k];
      const T full = ((const T *)&free[k])[k] + damping;
      scale[k] = T(1) / sqrt(full);
      L[k][k] = L[k][k] + damping;
      b[k] = scale[k] * (fnma(damping, links.rows.get(F + k, 0), ((const T *)&Vdot)[k]) - goal[k]);
    }
    // L D L^T of the scaled matrix, whose lower triangle is read.
#pragma unroll 1
    for (int j = 0; j < 6; ++j) {
      T scaled[6], d = scale[j] * scale[j] * L[j][j];
      for (int k = 0; k < j; ++k) {
        scaled[k] = L[j][k] * L[k][k];
        d = fnma(scaled[k], L[j][k], d);
      }
      if (!(d > least)) d = T(nan(""));
      for (int i = j + 1; i < 6; ++i) {
        T x = scale[i] * scale[j] * L[i][j];
        for (int k = 0; k < j; ++k) x = fnma(L[i][k], scaled[k], x);
        L[i][j] = x / d;
      }
      L[j][j] = d;
      for (int k = 0; k < j; ++k) b[j] = fnma(L[j][k], b[k], b[j]);
    }
#pragma unroll 1
    for (int j = 5; j >= 0; --j) {
      b[j] = b[j] / L[j][j];
      for (int k = j + 1; k < 6; ++k) b[j] = fnma(L[k][j], b[k], b[j]);
    }
    for (int k = 0; k < 6; ++k) {
      const T x = scale[k] * b[k];
      links.rows.put(MORE + k, 0, x);
      links.rows.put(F + k, 0, links.rows.get(F + k, 0) + x);
    }
  }
  // c + Omega F of a link, for what the pass adds to F.
  PINION_INLINE void constraint_force(int i, Place at, T (&c)[BLOCK]) const {
    read(links.rows, at.R(0), i, c);
#pragma unroll 1
    for (int k = 0; k < 6; ++k) {
      const T more = links.rows.get(MORE + k, 0);
#pragma unroll
      for (int a = 0; a < BLOCK; ++a) c[a] = fma(links.rows.get(at.R(1 + k) + a, i), more, c[a]);
    }
  }
};

// The kernel of any scope and solver, those of a part for `Elimination` alone; parameters are those
// of cfa_kernel, and
//
//     tip             E, row by row, and r: from the last link to the tip's frame (12), or
//                     (robots, 12) where robots have chains of their own
//     G_C             (robots, 6) the tip's spatial acceleration, gravity apart
//     F               (robots, 6) the wrench that the tip exerts, in its frame
//     Lambda_inverse  (robots, 6, 6) without damping
template <class T, int K, template <class> class Solver, class Scope, Part PART = Part::ALL>
PINION_INLINE void closed_kernel(T *shared, void *scratch, Work work, long long robots, long long n,
                                 const T *numbers, long long chain_step, const T *constraints,
                                 long long constraint_step, long long robot_step, long long step,
                                 int refine, T damping, const T *q, const T *qd, const T *tau,
                                 const T *tip, const T *G_C, T *qdd, T *F, T *Lambda_inverse) {
  Scope scope(shared, scratch, n);
  const long long robot = scope.robot();
  if (robot >= robots) return; // a whole warp, or a thread that waits for no other
  const Chain<T> chain(numbers, n, robot, chain_step);
  const Rows<T> whole = work.rows<T>(robot, n);
  constexpr int own = PART == Part::STEP_II || PART == Part::AFTER ? STEP_ROWS : 0;
  const Rows<T> rows = {whole.first + own * n * whole.step, n, whole.step};
  const Links<T> links = {rows, chain, {constraints, n, robot, constraint_step}};
  constexpr int before = PART == Part::STEP_I ? STEP_ROWS : 0;
  const Solver<T> solver = {rows, chain.n, before + LINK_ROWS + TIP_ROWS, 7};
  Placement<T> X;
#pragma unroll
  for (int k = 0; k < 12; ++k) ((T *)&X)[k] = __ldg(tip + (chain_step ? 12 * robot : 0) + k);
  typedef Tip<T> Contact;
  const Contact contact = {links, X};
  const Input<T> angle(q, robot, robot_step, step), rate(qd, robot, robot_step, step),
      effort(tau, robot, robot_step, step);
  const Column<T> left = {rows, Links<T>::LEFT}, found = {rows, Links<T>::QDD};
  const Left<T, Input<T>> rest = {left, effort};
  const bool is_last = scope.thread() == (chain.n - 1) % scope.threads();
  if constexpr (PART != Part::AFTER) place_links<PART != Part::STEP_I>(scope, links, angle);
  if constexpr (PART == Part::STEP_I) { // of a link whose transform the same thread made
#pragma unroll 1
    for (int i = scope.thread(); i < chain.n; i += scope.threads()) {
      links.block(i, solver.first());
      contact.sides(i, solver.first());
    }
    scope.sync();
    solver.solve(scope, true, 1);
    return;
  }
  if (PART != Part::AFTER && is_last)
    for (int k = 0; k < 6; ++k) rows.put(Contact::F + k, 0, T(0));
#pragma unroll 1
  for (int k = 0; k <= refine; ++k) {
    if (PART != Part::AFTER || k > 0) {
      scope.sync();
      tip_acceleration<K>(scope, links, Contact::ACCELERATION, rate, found);
      inverse_of<K>(scope, chain, rows, Links<T>::FORCE, angle, rate, found, rest);
      if (PART == Part::STEP_II) return;
      if (k > 0) take_wrench<K>(scope, links, X.force(spatial_at(rows, Contact::F, 0)));
      scope.sync();
    }
#pragma unroll 1
    for (int i = scope.thread(); i < chain.n; i += scope.threads()) {
      if (PART == Part::ALL && k == 0) {
        links.block(i, solver.first());
        contact.sides(i, solver.first());
      }
      links.side(i, solver.first().R(0));
    }
    scope.sync();
    solver.solve(scope, PART == Part::ALL && k == 0);
    if (is_last)
      contact.solve(solver.last(), damping, G_C + robot * 6, Lambda_inverse + robot * 36);
    scope.sync();
#pragma unroll 1
    for (int i = scope.thread(); i < chain.n; i += scope.threads()) {
      T c[BLOCK];
      contact.constraint_force(i, solver.last(), c);
      links.hold(i, c);
    }
    const Spatial<T> pushed = X.force(spatial_at(rows, Contact::MORE, 0));
    scope.sync();
#pragma unroll 1
    for (int i = scope.thread(); i < chain.n; i += scope.threads()) links.accelerate(i, pushed);
  }
  const Output<T> result(qdd, robot, robot_step, step);
#pragma unroll 1
  for (int i = scope.thread(); i < chain.n; i += scope.threads()) result.put(i, found[i]);
  if (is_last)
    for (int k = 0; k < 6; ++k) F[robot * 6 + k] = rows.get(Contact::F + k, 0);
}

} // namespace parallel
} // namespace pinion
