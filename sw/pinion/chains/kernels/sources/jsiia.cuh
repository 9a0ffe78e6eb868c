// The joint space inertia inversion algorithm: Algorithm 2 of Yang, Wu and Pan 2017. Its two
// kernels are all of it.
//
// columns_kernel: M and the bias by n + 1 inverse dynamics in one batch, equation 17.
//
//     bias = ID(q, qd, 0)      column j of M = ID(q, 0, e_j) without gravity
//
// Loops and threads: as inverse.cuh; robot b's inverse dynamics j is number b (n + 1) + j of the
// launch, the bias is j = n.
// Memory: as inverse.cuh; results in device memory, (robots, n + 1, n).
//
// solve_kernel: M qdd = tau - bias by M = L D L^T (Cholesky's without roots, in place,
// right-looking). The right side is one more row of M, so that the factorisation brings it to L^-1
// (tau - bias). Entries below the diagonal stay L_ik d_k, which saves a barrier a column:
//
//     C_ij -= C_ik C_jk / d_k   for i > k, k < j <= i        then D L^T qdd = C_n
//
// Loops: n columns, in each of them rows over the threads; n steps back. A pivot that is zero gives
// infinities and NaN, which the caller sees in the results.
// Threads: a warp or a block a robot; a barrier a column and a step back.
// Memory: (n + 1) (n + 2) / 2 + n words of shared memory a robot. In the 48 KiB that every device
// has, n is at most 108 in double and 154 in float.
#pragma once

#include "inverse.cuh"

namespace pinion {
namespace parallel {

// What is given, or zeros.
template <class T> struct Masked {
  Input<T> given;
  bool on;
  PINION_INLINE T operator[](int link) const { return on ? given[link] : T(0); }
};
template <class T> struct UnitVector {
  int one;
  PINION_INLINE T operator[](int link) const { return link == one ? T(1) : T(0); }
};

// matrix: (robots, n + 1, n), rows are the columns of M and then the bias.
template <class T, int K, class Scope>
PINION_INLINE void columns_kernel(T *shared, void *scratch, long long robots, long long n,
                                  const T *numbers, long long chain_step, long long robot_step,
                                  long long step, const T *q, const T *qd, T *matrix) {
  Scope scope(shared, scratch, n);
  const long long number = scope.robot();
  if (number >= robots * (n + 1)) return; // a whole warp
  const long long robot = number / (n + 1);
  const int column = (int)(number % (n + 1));
  const bool bias = column == (int)n;
  const Chain<T> chain(numbers, n, robot, chain_step);
  inverse_dynamics<T, K>(scope, chain, Input<T>(q, robot, robot_step, step),
                         Masked<T>{Input<T>(qd, robot, robot_step, step), bias},
                         UnitVector<T>{column}, bias ? chain.base() : no_spatial<T>(),
                         Output<T>(matrix, number, n, 1));
}

template <class T, class Scope>
PINION_INLINE void solve_kernel(T *shared, long long robots, long long n, long long robot_step,
                                long long step, const T *tau, const T *matrix, T *qdd) {
  Scope scope(shared, nullptr, n);
  const long long robot = scope.robot();
  if (robot >= robots) return; // a whole warp
  const int size = (int)n, thread = scope.thread(), threads = scope.threads();
  typedef PINION_SHARED(T) Word;
  // A warp's part of the block's memory.
  const int words = (size + 1) * (size + 2) / 2 + size;
  Word *const C = (Word *)shared + (scope.threads() == WARP ? threadIdx.x / WARP : 0) * words;
  Word *const x = C + (size + 1) * (size + 2) / 2;
  const T *const given = matrix + robot * (n + 1) * n;
  const Input<T> effort(tau, robot, robot_step, step);
  const auto row = [](int i) { return i * (i + 1) / 2; };

  for (int k = thread; k < size; k += threads) {
    for (int i = k; i < size; ++i) C[row(i) + k] = __ldg(given + (long long)k * n + i);
    C[row(size) + k] = effort[k] - __ldg(given + n * n + k);
  }
  for (int k = 0; k < size; ++k) {
    scope.sync();
    const T scale = T(1) / C[row(k) + k];
    for (int i = k + 1 + thread; i <= size; i += threads) {
      const T factor = C[row(i) + k] * scale;
      for (int j = k + 1; j <= i && j < size; ++j)
        C[row(i) + j] = fnma(factor, (T)C[row(j) + k], (T)C[row(i) + j]);
    }
  }
  scope.sync();
  for (int k = thread; k < size; k += threads) x[k] = C[row(size) + k] / C[row(k) + k];
  for (int k = size - 1; k >= 0; --k) {
    scope.sync();
    const T known = x[k];
    for (int i = thread; i < k; i += threads)
      x[i] = fnma(C[row(k) + i] / C[row(i) + i], known, (T)x[i]);
  }
  scope.sync();
  const Output<T> result(qdd, robot, robot_step, step);
  for (int k = thread; k < size; k += threads) result.put(k, x[k]);
}

} // namespace parallel
} // namespace pinion
