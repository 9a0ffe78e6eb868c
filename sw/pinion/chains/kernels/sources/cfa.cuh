// Forward dynamics of a chain by the constraint force algorithm (Featherstone and Fijany 1999,
// equation 16; Yang, Wu and Pan 2016, algorithm 1), as chains/cfa.py has it: links are
// free bodies, and the constraint forces c at their joints are what keeps them together. With
// J_i = I_i^-1, the joint's motion H_i, the forces W_i that do no work on it and T_i = H_i / H_i^T
// H_i:
//
//     u = tau - ID(q, qd, qdd so far)
//     F_i = T_i u_i + W_i c_i
//     a_i = J_i (F_i - X_{i+1}^T F_{i+1})
//     qdd_i += T_i^T (a_i - X_i a_{i-1})
//
// where W_i^T (a_i - X_i a_{i-1}) = 0 is the block tridiagonal system (tridiagonal.cuh) of
//
//     D_i = W_i^T J_i W_i + A^T Y     U_{i-1} = -W_{i-1}^T Y     A = X_i^T W_i     Y = J_{i-1} A
//
// Each refinement does this again with the same matrix, for what the last result leaves over.
//
// What depends on the chain alone is read (chains/kernels/device_cfa.py): component c of link i
// is constraints[c n + i],
//
//     c        what
//     0 - 20   J, its upper triangle row by row
//     21 - 23  W c = [l c_0, l c_1, p c_4; c_2, c_3, s c_4]: l, p, s, which divide moments by the
//              link's radius of gyration l
//     24, 25   T, about and along z
//     26 - 40  W^T J W, its lower triangle row by row
//
// Joints have one velocity and canonical frames (chain.cuh), so that blocks are of 5x5.
//
// Loops: inverse dynamics (two scans), the blocks, the solver's levels; for a refinement inverse
// dynamics, the right-hand sides, the levels without the matrix.
// Threads: of the scope. In inverse dynamics thread t has K links from t K on, n <= K threads; in
// all else links t, t + threads, .... A thread alone (`Thread`) does inverse dynamics by the
// recursion.
// Memory: 20 numbers a link in `Rows` and those of the solver; what the scans need.
#pragma once

#include "inverse.cuh"
#include "tridiagonal.cuh"

namespace pinion {
namespace parallel {

constexpr int LINK_ROWS = 20; // components of `Rows` before the solver's

template <class T> struct Constraints {
  const T *numbers;
  long long n;
  PINION_INLINE Constraints(const T *data, long long n, long long robot, long long step)
      : numbers(data + robot * step), n(n) {}
  PINION_INLINE T number(int component, int link) const {
    return __ldg(numbers + component * n + link);
  }
  // J f
  PINION_INLINE Spatial<T> moved(int link, Spatial<T> f) const {
    Spatial<T> a = no_spatial<T>();
    const T *const force = (const T *)&f;
    T *const motion = (T *)&a;
#pragma unroll
    for (int row = 0, c = 0; row < 6; ++row)
#pragma unroll
      for (int column = row; column < 6; ++column, ++c) {
        const T x = number(c, link);
        motion[row] = fma(x, force[column], motion[row]);
        if (column != row) motion[column] = fma(x, force[row], motion[column]);
      }
    return a;
  }
  // W c
  PINION_INLINE Spatial<T> force(int link, const T (&c)[BLOCK]) const {
    const T length = number(21, link);
    return {{length * c[0], length * c[1], number(22, link) * c[4]},
            {c[2], c[3], number(23, link) * c[4]}};
  }
  // W^T a
  PINION_INLINE void works(int link, Spatial<T> a, T (&x)[BLOCK]) const {
    const T length = number(21, link);
    x[0] = length * a.angular.x;
    x[1] = length * a.angular.y;
    x[2] = a.linear.x;
    x[3] = a.linear.y;
    x[4] = fma(number(22, link), a.angular.z, number(23, link) * a.linear.z);
  }
  // T
  PINION_INLINE Joint<T> driving(int link) const { return {number(24, link), number(25, link)}; }
};

template <class T> PINION_INLINE Placement<T> placement_at(const Rows<T> &rows, int c, int link) {
  Placement<T> X;
#pragma unroll
  for (int k = 0; k < 12; ++k) ((T *)&X)[k] = rows.get(c + k, link);
  return X;
}
template <class T> PINION_INLINE Spatial<T> spatial_at(const Rows<T> &rows, int c, int link) {
  Spatial<T> x;
#pragma unroll
  for (int k = 0; k < 6; ++k) ((T *)&x)[k] = rows.get(c + k, link);
  return x;
}
template <class T>
PINION_INLINE void keep_spatial(const Rows<T> &rows, int c, int link, const Spatial<T> &x) {
#pragma unroll
  for (int k = 0; k < 6; ++k) rows.put(c + k, link, ((const T *)&x)[k]);
}

// A component of Rows, as inverse dynamics reads and writes it.
template <class T> struct Column {
  const Rows<T> &rows;
  int c;
  PINION_INLINE T operator[](int link) const { return rows.get(c, link); }
  PINION_INLINE void put(int link, T x) const { rows.put(c, link, x); }
};
// What is left of efforts, in the place of inverse dynamics' result.
template <class T, class Efforts> struct Left {
  const Column<T> &to;
  const Efforts &tau;
  PINION_INLINE void put(int link, T x) const { to.put(link, tau[link] - x); }
};

// Inverse dynamics by threads that meet, and by one alone: from base to tip, with the force of each
// link in `rows` from c on, and back.
template <int K, class T, class Scope, class Q, class V, class A, class Result>
PINION_INLINE void inverse_of(Scope &scope, const Chain<T> &chain, const Rows<T> &, int, const Q &q,
                              const V &qd, const A &qdd, const Result &tau) {
  inverse_dynamics<T, K>(scope, chain, q, qd, qdd, chain.base(), tau);
}
template <int K, class T, class Q, class V, class A, class Result>
PINION_INLINE void inverse_of(Thread &, const Chain<T> &chain, const Rows<T> &rows, int c,
                              const Q &q, const V &qd, const A &qdd, const Result &tau) {
  Spatial<T> v = no_spatial<T>(), a = chain.base(), f = no_spatial<T>();
#pragma unroll 1
  for (int i = 0; i < chain.n; ++i) {
    outwards(chain.placement(i, q[i]), chain.joint(i), qd[i], qdd[i], v, a);
    keep_spatial(rows, c, i, moving_force(chain.inertia(i), v, a));
  }
#pragma unroll 1
  for (int i = chain.n - 1; i >= 0; --i) {
    f = f + spatial_at(rows, c, i);
    tau.put(i, chain.joint(i).effort(f));
    f = chain.placement(i, q[i]).force(f);
  }
}

// The chain as free links, with their numbers in `rows`: X from 0 on, the efforts that are left in
// 12, qdd so far in 13, forces F from 14 on, the solver's from LINK_ROWS on.
template <class T> struct Links {
  const Rows<T> &rows;
  const Chain<T> &chain;
  const Constraints<T> constraints;
  static constexpr int LEFT = 12, QDD = 13, FORCE = 14;

  PINION_INLINE Placement<T> X(int i) const { return placement_at(rows, 0, i); }
  PINION_INLINE Spatial<T> driven(int i) const {
    return constraints.driving(i).times(rows.get(LEFT, i));
  }

  PINION_INLINE void take_effort(int i, Spatial<T> f) const {
    rows.put(LEFT, i, rows.get(LEFT, i) - chain.joint(i).effort(f));
  }

  // D_i and its factors, and U_{i-1}. X_i has been written.
  PINION_INLINE void block(int i, Place to) const {
    T D[TRIANGLE];
#pragma unroll
    for (int k = 0; k < TRIANGLE; ++k) D[k] = constraints.number(26 + k, i);
    if (i > 0) {
      const Placement<T> before = X(i);
#pragma unroll
      for (int column = 0; column < BLOCK; ++column) {
        T unit[BLOCK] = {T(0), T(0), T(0), T(0), T(0)}, x[BLOCK];
        unit[column] = T(1);
        const Spatial<T> y =
            constraints.moved(i - 1, before.force(constraints.force(i, unit)));
        constraints.works(i - 1, y, x);
#pragma unroll
        for (int row = 0; row < BLOCK; ++row)
          rows.put(to.U() + BLOCK * row + column, i - 1, -x[row]);
        constraints.works(i, before.motion(y), x);
#pragma unroll
        for (int row = column; row < BLOCK; ++row)
          D[lower(row, column)] = D[lower(row, column)] + x[row];
      }
    }
    keep_block(rows, to, i, D);
  }

  // a_i - X_i a_{i-1} under forces of the joints, by number, and one that the tip exerts.
  // a: of link i.
  template <class Forces>
  PINION_INLINE Spatial<T> apart(int i, const Forces &force, Spatial<T> tip, Spatial<T> &a) const {
    const Spatial<T> f = force(i);
    a = constraints.moved(i, f - (i + 1 < chain.n ? X(i + 1).force(force(i + 1)) : tip));
    if (i == 0) return a;
    const Placement<T> before = X(i);
    return a - before.motion(constraints.moved(i - 1, force(i - 1) - before.force(f)));
  }

  // The right-hand side of the efforts that are left.
  PINION_INLINE void side(int i, int to) const {
    T x[BLOCK];
    Spatial<T> a;
    constraints.works(
        i, apart(i, [this](int k) { return driven(k); }, no_spatial<T>(), a), x);
#pragma unroll
    for (int k = 0; k < BLOCK; ++k) x[k] = -x[k];
    write(rows, to, i, x);
  }
  // F_i, with constraint forces.
  PINION_INLINE void hold(int i, const T (&c)[BLOCK]) const {
    keep_spatial(rows, FORCE, i, driven(i) + constraints.force(i, c));
  }
  // Adds what the forces accelerate the joint by.
  PINION_INLINE void accelerate(int i, Spatial<T> tip) const {
    Spatial<T> a;
    const Spatial<T> d =
        apart(i, [this](int k) { return spatial_at(rows, FORCE, k); }, tip, a);
    rows.put(QDD, i, rows.get(QDD, i) + constraints.driving(i).effort(d));
  }
};

// Where the chain is at q and, unless transforms are all that is wanted, no acceleration so far.
template <bool MOVES = true, class T, class Scope, class Q>
PINION_INLINE void place_links(Scope &scope, const Links<T> &links, const Q &q) {
#pragma unroll 1
  for (int i = scope.thread(); i < links.chain.n; i += scope.threads()) {
    const Placement<T> X = links.chain.placement(i, q[i]);
#pragma unroll
    for (int k = 0; k < 12; ++k) links.rows.put(k, i, ((const T *)&X)[k]);
    if constexpr (MOVES) links.rows.put(Links<T>::QDD, i, T(0));
  }
}

// What a kernel knows of its robot and of where its numbers are. work: n (LINK_ROWS + words of the
// solver) numbers a robot, those of robot b from b work_step on, by component and row; rows are
// row_step apart. (With work_step 1 and row_step `robots`, robots are next to each other.)
struct Work {
  void *numbers;
  long long step, row_step;
  template <class T> PINION_INLINE Rows<T> rows(long long robot, long long n) const {
    return {(PINION_SHARED(T) *)numbers + robot * step, n, row_step};
  }
};

// The kernel of any scope and solver. shared, scratch: scan.cuh; the other numbers: chain.cuh.
template <class T, int K, template <class> class Solver, class Scope>
PINION_INLINE void cfa_kernel(T *shared, void *scratch, Work work, long long robots, long long n,
                              const T *numbers, long long chain_step, const T *constraints,
                              long long constraint_step, long long robot_step, long long step,
                              int refine, const T *q, const T *qd, const T *tau, T *qdd) {
  Scope scope(shared, scratch, n);
  const long long robot = scope.robot();
  if (robot >= robots) return; // a whole warp, or a thread that waits for no other
  const Chain<T> chain(numbers, n, robot, chain_step);
  const Rows<T> rows = work.rows<T>(robot, n);
  const Links<T> links = {rows, chain, {constraints, n, robot, constraint_step}};
  const Solver<T> solver = {rows, chain.n, LINK_ROWS, 1};
  const Input<T> angle(q, robot, robot_step, step), rate(qd, robot, robot_step, step),
      effort(tau, robot, robot_step, step);
  const Column<T> left = {rows, Links<T>::LEFT}, found = {rows, Links<T>::QDD};
  const Left<T, Input<T>> rest = {left, effort};
  place_links(scope, links, angle);
#pragma unroll 1
  for (int k = 0; k <= refine; ++k) {
    scope.sync();
    inverse_of<K>(scope, chain, rows, Links<T>::FORCE, angle, rate, found, rest);
    scope.sync();
#pragma unroll 1
    for (int i = scope.thread(); i < chain.n; i += scope.threads()) {
      if (k == 0) links.block(i, solver.first());
      links.side(i, solver.first().R(0));
    }
    scope.sync();
    solver.solve(scope, k == 0);
#pragma unroll 1
    for (int i = scope.thread(); i < chain.n; i += scope.threads()) {
      T c[BLOCK];
      read(rows, solver.last().R(0), i, c);
      links.hold(i, c);
    }
    scope.sync();
#pragma unroll 1
    for (int i = scope.thread(); i < chain.n; i += scope.threads())
      links.accelerate(i, no_spatial<T>());
  }
  const Output<T> result(qdd, robot, robot_step, step);
#pragma unroll 1
  for (int i = scope.thread(); i < chain.n; i += scope.threads()) result.put(i, found[i]);
}

} // namespace parallel
} // namespace pinion
