// Forward dynamics by articulated inertias: Algorithm 3 of Yang, Wu and Pan 2017, equations 7, 18
// and 19.
//
// Given the joints' factors, which need a recursion from the tip (equation 7),
//
//     U_i = J_i S_i     D_i = S_i^T U_i     K_i = U_i / D_i
//     J_{i-1} += X_i^T (J_i - U_i K_i^T) X_i
//
// and the efforts above those of the bias, t = tau - ID(q, qd, 0), everything else is two scans.
// From the tip, p the articulated bias force (the z of equation 18, where K_i t_i has D_i^-1, which
// the text omits), and from the base, a the acceleration beyond that of the bias (equation 19):
//
//     u_i = t_i - S_i^T p_i              p_{i-1} = X_i^T (p_i + K_i u_i)         p_n = 0
//     qdd_i = u_i / D_i - K_i^T X_i a_{i-1}     a_i = X_i a_{i-1} + S_i qdd_i    a_0 = 0
//
// An element of either is x -> M x + b, a 6x6 matrix and a vector; M = X^T (1 - K S^T) is no
// transform of frames. The matrices of the second scan are the transposes of the first's.
//
// bias_kernel: ID(q, qd, 0), as inverse.cuh.
// abia_kernel. Loops: a thread applies its K links to six unit vectors and to b, the scan, and the
// recursion of one vector over its links; back and forth. Threads: of the scope, K links each.
// Memory: shared memory for an element a warp, 42 words. factors: (robots, 7, n), K then 1 / D.
#pragma once

#include "inverse.cuh"

namespace pinion {
namespace parallel {

template <class T> PINION_INLINE T component(const Spatial<T> &a, int k) {
  return ((const T *)&a)[k];
}
template <class T> PINION_INLINE T dot(Spatial<T> a, Spatial<T> b) {
  return sum_of_products(a.angular.x, b.angular.x, a.angular.y, b.angular.y, a.angular.z,
                         b.angular.z) +
         sum_of_products(a.linear.x, b.linear.x, a.linear.y, b.linear.y, a.linear.z, b.linear.z);
}
template <class T> PINION_INLINE Spatial<T> plus_scaled(T k, Spatial<T> a, Spatial<T> b) {
  return {plus_scaled(k, a.angular, b.angular), plus_scaled(k, a.linear, b.linear)};
}
template <class T> PINION_INLINE Spatial<T> unit_spatial(int k) {
  return {{T(k == 0), T(k == 1), T(k == 2)}, {T(k == 3), T(k == 4), T(k == 5)}};
}

// x -> M x + b, M by columns.
template <class T> struct Affine {
  typedef T Word;
  struct Element {
    Spatial<T> column[6], b;
  };
  static PINION_INLINE Element none() {
    Element made;
#pragma unroll
    for (int k = 0; k < 6; ++k) made.column[k] = unit_spatial<T>(k);
    made.b = no_spatial<T>();
    return made;
  }
  static PINION_INLINE Spatial<T> times(const Element &map, Spatial<T> x) {
    Spatial<T> sum = no_spatial<T>();
#pragma unroll
    for (int k = 0; k < 6; ++k) sum = plus_scaled(component(x, k), map.column[k], sum);
    return sum;
  }
  static PINION_INLINE Element combine(const Element &first, const Element &then) {
    Element made;
#pragma unroll
    for (int k = 0; k < 6; ++k) made.column[k] = times(then, first.column[k]);
    made.b = times(then, first.b) + then.b;
    return made;
  }
};

constexpr int AFFINE_WORDS = 42;

// K and 1 / D of a robot's joints, (7, n).
template <class T> struct Factors {
  const T *first;
  int n;
  PINION_INLINE Factors(const T *data, long long robot, long long n)
      : first(data + robot * 7 * n), n((int)n) {}
  PINION_INLINE T number(int k, int link) const { return __ldg(first + (long long)k * n + link); }
  PINION_INLINE Spatial<T> gain(int link) const {
    return {{number(0, link), number(1, link), number(2, link)},
            {number(3, link), number(4, link), number(5, link)}};
  }
  PINION_INLINE T inverse(int link) const { return number(6, link); }
};

// Accelerations of nothing.
template <class T> struct Zeros {
  PINION_INLINE T operator[](int) const { return T(0); }
};

template <class T, int K, class Scope>
PINION_INLINE void bias_kernel(T *shared, void *scratch, long long robots, long long n,
                               const T *numbers, long long chain_step, long long robot_step,
                               long long step, const T *q, const T *qd, T *bias) {
  Scope scope(shared, scratch, n);
  const long long robot = scope.robot();
  if (robot >= robots) return; // a whole warp
  const Chain<T> chain(numbers, n, robot, chain_step);
  inverse_dynamics<T, K>(scope, chain, Input<T>(q, robot, robot_step, step),
                         Input<T>(qd, robot, robot_step, step), Zeros<T>(), chain.base(),
                         Output<T>(bias, robot, n, 1));
}

template <class T, int K, class Scope>
PINION_INLINE void abia_kernel(T *shared, void *scratch, long long robots, long long n,
                               const T *numbers, long long chain_step, long long robot_step,
                               long long step, const T *q, const T *tau, const T *bias,
                               const T *factors, T *qdd) {
  Scope scope(shared, scratch, n);
  const long long robot = scope.robot();
  if (robot >= robots) return; // a whole warp
  const Chain<T> chain(numbers, n, robot, chain_step);
  const Input<T> angle(q, robot, robot_step, step), effort(tau, robot, robot_step, step),
      without(bias, robot, n, 1);
  const Factors<T> joint(factors, robot, n);
  const Output<T> result(qdd, robot, robot_step, step);
  const int links = (int)n, begin = scope.thread() * K;
  const Transforms<T, K, Input<T>> X(chain, angle, begin);

  T u[K]; // t at first
#pragma unroll 1
  for (int k = 0; k < K; ++k)
    u[k] = begin + k < links ? effort[begin + k] - without[begin + k] : T(0);

  typename Affine<T>::Element own = Affine<T>::none();
#pragma unroll 1
  for (int k = K - 1; k >= 0; --k) {
    const int i = begin + k;
    if (i >= links) continue;
    const Placement<T> at = X[i];
    const Joint<T> S = chain.joint(i);
    const Spatial<T> gain = joint.gain(i);
#pragma unroll
    for (int c = 0; c < 6; ++c)
      own.column[c] = at.force(plus_scaled(-S.effort(own.column[c]), gain, own.column[c]));
    own.b = at.force(plus_scaled(u[k] - S.effort(own.b), gain, own.b));
  }
  Spatial<T> p = scope.template exclusive<Affine<T>, true>(own).b;
#pragma unroll 1
  for (int k = K - 1; k >= 0; --k) {
    const int i = begin + k;
    if (i >= links) continue;
    u[k] = u[k] - chain.joint(i).effort(p);
    p = X[i].force(plus_scaled(u[k], joint.gain(i), p));
  }

  own = Affine<T>::none();
#pragma unroll 1
  for (int k = 0; k < K; ++k) {
    const int i = begin + k;
    if (i >= links) continue;
    const Placement<T> at = X[i];
    const Joint<T> S = chain.joint(i);
    const Spatial<T> gain = joint.gain(i);
#pragma unroll
    for (int c = 0; c < 6; ++c) {
      const Spatial<T> moved = at.motion(own.column[c]);
      own.column[c] = moved - S.times(dot(gain, moved));
    }
    const Spatial<T> moved = at.motion(own.b);
    own.b = moved + S.times(fms(u[k], joint.inverse(i), dot(gain, moved)));
  }
  Spatial<T> a = scope.template exclusive<Affine<T>, false>(own).b;
#pragma unroll 1
  for (int k = 0; k < K; ++k) {
    const int i = begin + k;
    if (i >= links) continue;
    const Spatial<T> moved = X[i].motion(a);
    const T x = fms(u[k], joint.inverse(i), dot(joint.gain(i), moved));
    a = moved + chain.joint(i).times(x);
    result.put(i, x);
  }
}

} // namespace parallel
} // namespace pinion
