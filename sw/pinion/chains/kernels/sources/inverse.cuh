// Inverse dynamics of a chain by two scans: Algorithm 1 of Yang, Wu and Pan 2017 ("Parallel
// Dynamics Computation using Prefix Sum Operations") in its Lie form, equations 13 and 14, where
// velocities and accelerations take one scan.
//
//     V_i  = X_i V_{i-1} + S_i qd_i                                       V_0 = 0
//     A_i  = X_i A_{i-1} + S_i qdd_i + V_i x S_i qd_i                     A_0 = -gravity
//     F_i  = I_i A_i + V_i x* I_i V_i + X_{i+1}^T F_{i+1}                 F_{n+1} = 0
//     tau_i = S_i^T F_i
//
// An element of the first scan is what links a to b do to whatever moves before them: the transform
// X from a's parent to b, and V and A of b if a's parent rests and gravity is away. Two that follow
// each other:
//
//     X = X2 X1      V = X2 V1 + V2      A = X2 A1 + A2 + (X2 V1) x V2
//
// 24 words. One of the second scan, which runs from the tip: X, and the force that links a to b
// hand to a's parent if nothing is behind b; X = X1 X2 and F = X2^T F1 + F2, 18 words. Forces stay
// in links' own coordinates, so that a joint's effort is as accurate as what is beyond it, however
// far from the base.
//
// Loops: a thread folds its K links, the scan, and the recursion over its K links; forward and
// back. Each link's transform is made four times where K > 1, which is less than keeping 12 words
// a link.
// Threads: of the scope (scan.cuh), K links each, n <= K times their number.
// Loops over links are not unrolled: what is in the kernel once per link would be there K times.
// Memory: forces of K links in registers where K is 1 and in local memory where it is more; shared
// memory for an element a warp, 24 words.
#pragma once

#include "scan.cuh"

namespace pinion {
namespace parallel {

template <class T> struct Moving {
  typedef T Word;
  struct Element {
    Placement<T> X;
    Spatial<T> v, a;
  };
  static PINION_INLINE Element none() { return {no_move<T>(), no_spatial<T>(), no_spatial<T>()}; }
  static PINION_INLINE Element combine(const Element &first, const Element &then) {
    const Spatial<T> v = then.X.motion(first.v);
    return {then.X.after(first.X), v + then.v,
            then.X.motion(first.a) + then.a + cross_motion(v, then.v)};
  }
  static PINION_INLINE Element of(const Placement<T> &X, const Joint<T> &S, T qd, T qdd) {
    return {X, S.times(qd), S.times(qdd)};
  }
};

template <class T> struct Carried {
  typedef T Word;
  struct Element {
    Placement<T> X;
    Spatial<T> f;
  };
  static PINION_INLINE Element none() { return {no_move<T>(), no_spatial<T>()}; }
  static PINION_INLINE Element combine(const Element &first, const Element &then) {
    return {first.X.after(then.X), then.X.force(first.f) + then.f};
  }
  static PINION_INLINE Element of(const Placement<T> &X, Spatial<T> f) { return {X, X.force(f)}; }
};

constexpr int INVERSE_WORDS = 24;

// The force that moves a link: I a + v x* I v.
template <class T>
PINION_INLINE Spatial<T> moving_force(const Rigid<T> &I, Spatial<T> v, Spatial<T> a) {
  return I.times(a) + cross_force(v, I.times(v));
}

// One step of V and A, from link i - 1 to link i.
template <class T>
PINION_INLINE void outwards(const Placement<T> &X, const Joint<T> &S, T qd, T qdd, Spatial<T> &v,
                            Spatial<T> &a) {
  const Spatial<T> rate = S.times(qd);
  v = X.motion(v) + rate;
  a = X.motion(a) + S.times(qdd) + cross_motion(v, rate);
}

// Transforms of a thread's links: kept where there is one, made anew where there are more.
template <class T, int K, class Numbers> struct Transforms {
  const Chain<T> &chain;
  const Numbers &q;
  Placement<T> only;
  PINION_INLINE Transforms(const Chain<T> &chain, const Numbers &q, int begin)
      : chain(chain), q(q), only(no_move<T>()) {
    if (K == 1 && begin < chain.n) only = chain.placement(begin, q[begin]);
  }
  PINION_INLINE Placement<T> operator[](int link) const {
    if constexpr (K == 1) return only;
    return chain.placement(link, q[link]);
  }
};

// q, qd, qdd: anything with operator[](link). base: acceleration of the base. tau: anything with
// put(link, effort).
template <class T, int K, class Scope, class Q, class V, class A, class Result>
PINION_INLINE void inverse_dynamics(Scope &scope, const Chain<T> &chain, const Q &q, const V &qd,
                                    const A &qdd, Spatial<T> base, const Result &tau) {
  const int n = chain.n, begin = scope.thread() * K;
  const Transforms<T, K, Q> X(chain, q, begin);
  typename Moving<T>::Element own = Moving<T>::none();
#pragma unroll 1
  for (int i = begin; i < n && i < begin + K; ++i)
    own = Moving<T>::combine(own, Moving<T>::of(X[i], chain.joint(i), qd[i], qdd[i]));
  own = scope.template exclusive<Moving<T>, false>(own);
  Spatial<T> v = own.v, a = own.X.motion(base) + own.a;

  Spatial<T> f[K];
#pragma unroll 1
  for (int k = 0; k < K; ++k) {
    const int i = begin + k;
    f[k] = no_spatial<T>();
    if (i >= n) continue;
    outwards(X[i], chain.joint(i), qd[i], qdd[i], v, a);
    f[k] = moving_force(chain.inertia(i), v, a);
  }

  typename Carried<T>::Element load = Carried<T>::none();
#pragma unroll 1
  for (int k = K - 1; k >= 0; --k)
    if (begin + k < n) load = Carried<T>::combine(load, Carried<T>::of(X[begin + k], f[k]));
  load = scope.template exclusive<Carried<T>, true>(load);
  Spatial<T> from = load.f;
#pragma unroll 1
  for (int k = K - 1; k >= 0; --k) {
    const int i = begin + k;
    if (i >= n) continue;
    const Spatial<T> whole = f[k] + from;
    tau.put(i, chain.joint(i).effort(whole));
    from = X[i].force(whole);
  }
}

// The kernel of any scope. robots, n, numbers, chain_step, robot_step and step: chain.cuh; shared
// and scratch: scan.cuh.
template <class T, int K, class Scope>
PINION_INLINE void inverse_kernel(T *shared, void *scratch, long long robots, long long n,
                                  const T *numbers, long long chain_step, long long robot_step,
                                  long long step, const T *q, const T *qd, const T *qdd, T *tau) {
  Scope scope(shared, scratch, n);
  const long long robot = scope.robot();
  if (robot >= robots) return; // a whole warp
  const Chain<T> chain(numbers, n, robot, chain_step);
  inverse_dynamics<T, K>(scope, chain, Input<T>(q, robot, robot_step, step),
                         Input<T>(qd, robot, robot_step, step),
                         Input<T>(qdd, robot, robot_step, step), chain.base(),
                         Output<T>(tau, robot, robot_step, step));
}

} // namespace parallel
} // namespace pinion
