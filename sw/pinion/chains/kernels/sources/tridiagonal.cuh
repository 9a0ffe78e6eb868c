// Symmetric positive definite block tridiagonal systems with blocks of 5x5, made diagonal by
// odd-even elimination (OEE), odd-even reduction (OER) or from one row to the next (L D L^T).
//
//     U_{i-1}^T x_{i-1} + D_i x_i + U_i x_{i+1} = R_i
//
// All three take multiples of neighbours' rows, as chains/tridiagonal.py does (Fijany
// 1993, equations 90-93; Yang, Wu and Pan 2016, equation 19 and algorithm 2, whose mistakes it
// lists):
//
//     E = U_i D_{i+h}^-1      K = U_{i-h}^T D_{i-h}^-1
//     D_i -= E U_i^T + K U_{i-h}      U_i = -E U_{i+h}      R_i -= E R_{i+h} + K R_{i-h}
//
// A row is written by its owner alone. E and K are kept, so that a later right-hand side costs two
// products a level. D = L diag(d) L^T is factorised by its owner; with A = L^-1 U_i^T the row loses
// A^T diag(d)^-1 A, which is symmetric, and E^T = L^-T diag(d)^-1 A.
//
// Loops: OEE ceil(log2 n) levels, h = 1, 2, 4, ..., each of all rows, and a solve. OER floor(log2
// n) levels, each of every other row of the last, a solve, and as many levels back. L D L^T 2n - 1
// rows by one thread.
// Threads: of the scope; thread t has rows t, t + threads, ... of what a level has. All threads of
// the scope meet after each level: rows of OEE are read from one place and written to another,
// those of OER that are read at a level are not written at it.
// Memory: `Rows`, numbers by component and row, which neighbours read: 55 + 5 M a row, twice for
// OEE, where M is the number of right-hand sides, and E and K, 50 a row, for OEE at each level.
// Registers: 236 to 255 in double, in kernels of cfa.cuh.
#pragma once

#include "scan.cuh"

namespace pinion {
namespace parallel {

// A robot's numbers by component and row, which its threads write and read: component c of row i is
// first[(c n + i) step]. In device memory, or in a block's shared memory.
template <class T> struct Rows {
  PINION_SHARED(T) *first;
  long long n, step;
  PINION_INLINE T get(int c, int row) const { return first[(c * n + row) * step]; }
  PINION_INLINE void put(int c, int row, T x) const { first[(c * n + row) * step] = x; }
};

constexpr int BLOCK = 5;         // rows of a block
constexpr int TRIANGLE = 15;     // numbers of a symmetric one, its lower triangle row by row
constexpr int SQUARE = 25;       // of any other, row by row
constexpr int COUPLING = 2 * SQUARE; // E and K

PINION_INLINE constexpr int lower(int row, int column) { return row * (row + 1) / 2 + column; }

// L with the reciprocals of d in place of the ones on its diagonal: D = L diag(d) L^T. A pivot that
// is not positive makes every result that comes from it NaN.
template <class T> struct Factor {
  T of[TRIANGLE];

  PINION_INLINE void make(const T (&D)[TRIANGLE]) {
#pragma unroll
    for (int j = 0; j < BLOCK; ++j) {
      T scaled[BLOCK];
      T d = D[lower(j, j)];
#pragma unroll
      for (int k = 0; k < j; ++k) {
        scaled[k] = of[lower(j, k)] * scaled_pivot[k];
        d = fnma(scaled[k], of[lower(j, k)], d);
      }
      const T inverse = d > T(0) ? T(1) / d : T(nan(""));
#pragma unroll
      for (int i = j + 1; i < BLOCK; ++i) {
        T x = D[lower(i, j)];
#pragma unroll
        for (int k = 0; k < j; ++k) x = fnma(of[lower(i, k)], scaled[k], x);
        of[lower(i, j)] = x * inverse;
      }
      of[lower(j, j)] = inverse;
      scaled_pivot[j] = d;
    }
  }
  // x = L^-1 x
  PINION_INLINE void forward(T (&x)[BLOCK]) const {
#pragma unroll
    for (int i = 1; i < BLOCK; ++i)
#pragma unroll
      for (int k = 0; k < i; ++k) x[i] = fnma(of[lower(i, k)], x[k], x[i]);
  }
  // x = L^-T diag(d)^-1 x
  PINION_INLINE void backward(T (&x)[BLOCK]) const {
#pragma unroll
    for (int i = BLOCK - 1; i >= 0; --i) {
      x[i] = x[i] * of[lower(i, i)];
#pragma unroll
      for (int k = i + 1; k < BLOCK; ++k) x[i] = fnma(of[lower(k, i)], x[k], x[i]);
    }
  }

private:
  T scaled_pivot[BLOCK];
};

// Where the numbers of a row are, from component `at` on, with M right-hand sides.
struct Place {
  int at;
  PINION_INLINE constexpr int D() const { return at; }
  PINION_INLINE constexpr int factor() const { return at + TRIANGLE; }
  PINION_INLINE constexpr int U() const { return at + 2 * TRIANGLE; }
  PINION_INLINE constexpr int R(int side) const {
    return at + 2 * TRIANGLE + SQUARE + side * BLOCK;
  }
};
PINION_INLINE constexpr int place_words(int sides) { return 2 * TRIANGLE + SQUARE + sides * BLOCK; }

template <int COUNT, class T>
PINION_INLINE void read(const Rows<T> &rows, int c, int row, T (&x)[COUNT]) {
#pragma unroll
  for (int k = 0; k < COUNT; ++k) x[k] = rows.get(c + k, row);
}
template <int COUNT, class T>
PINION_INLINE void write(const Rows<T> &rows, int c, int row, const T (&x)[COUNT]) {
#pragma unroll
  for (int k = 0; k < COUNT; ++k) rows.put(c + k, row, x[k]);
}

// A row's own block, and its factors with it.
template <class T>
PINION_INLINE void keep_block(const Rows<T> &rows, Place to, int row, const T (&D)[TRIANGLE]) {
  Factor<T> factor;
  factor.make(D);
  write(rows, to.D(), row, D);
  write(rows, to.factor(), row, factor.of);
}

// D -= B D_s^-1 B^T for the row's coupling B to row s, and B D_s^-1 to `coupling` of the row
// `slot`. B = U_i for a row s after this one, which is U's row `i`; B = U_s^T for one before it.
template <bool AFTER, class T>
PINION_INLINE void take_block(const Rows<T> &rows, Place from, int i, int s, int coupling, int slot,
                              T (&D)[TRIANGLE]) {
  T A[BLOCK][BLOCK]; // A[a] is column a of L^-1 B^T
  Factor<T> factor;
  read(rows, from.factor(), s, factor.of);
#pragma unroll
  for (int a = 0; a < BLOCK; ++a) {
#pragma unroll
    for (int b = 0; b < BLOCK; ++b)
      A[a][b] = rows.get(from.U() + (AFTER ? BLOCK * a + b : BLOCK * b + a), AFTER ? i : s);
    factor.forward(A[a]);
  }
#pragma unroll
  for (int b = 0; b < BLOCK; ++b)
#pragma unroll
    for (int a = 0; a < BLOCK; ++a) {
      const T scaled = A[a][b] * factor.of[lower(b, b)];
#pragma unroll
      for (int c = 0; c <= a; ++c) D[lower(a, c)] = fnma(scaled, A[c][b], D[lower(a, c)]);
    }
#pragma unroll
  for (int a = 0; a < BLOCK; ++a) {
    factor.backward(A[a]);
#pragma unroll
    for (int b = 0; b < BLOCK; ++b) rows.put(coupling + BLOCK * a + b, slot, A[a][b]);
  }
}

// x -= C y, C from component `coupling` of the row `slot`, transposed or not.
template <bool TRANSPOSED, class T>
PINION_INLINE void take_multiple(const Rows<T> &rows, int coupling, int slot, const T (&y)[BLOCK],
                                 T (&x)[BLOCK]) {
#pragma unroll
  for (int a = 0; a < BLOCK; ++a)
#pragma unroll
    for (int b = 0; b < BLOCK; ++b)
      x[a] = fnma(rows.get(coupling + (TRANSPOSED ? BLOCK * b + a : BLOCK * a + b), slot), y[b],
                  x[a]);
}

// Row i loses its neighbours at the distance h. E is kept with the row `after`, K with `before`.
template <class T> struct Step {
  const Rows<T> &rows;
  int n, i, h, coupling, after, before;
  PINION_INLINE bool has_after() const { return i + h < n; }
  PINION_INLINE bool has_before() const { return i >= h; }
  PINION_INLINE int E() const { return coupling; }
  PINION_INLINE int K() const { return coupling + SQUARE; }

  // The matrix's row, from one place to another or the same.
  PINION_INLINE void matrix(Place from, Place to) const {
    T D[TRIANGLE];
    read(rows, from.D(), i, D);
    if (has_before()) take_block<false>(rows, from, i, i - h, K(), before, D);
    if (has_after()) {
      take_block<true>(rows, from, i, i + h, E(), after, D);
      if (i + 2 * h < n) {
#pragma unroll
        for (int b = 0; b < BLOCK; ++b) {
          T y[BLOCK], x[BLOCK] = {T(0), T(0), T(0), T(0), T(0)};
#pragma unroll
          for (int a = 0; a < BLOCK; ++a) y[a] = rows.get(from.U() + BLOCK * a + b, i + h);
          take_multiple<false>(rows, E(), after, y, x);
#pragma unroll
          for (int a = 0; a < BLOCK; ++a) rows.put(to.U() + BLOCK * a + b, i, x[a]);
        }
      }
    }
    keep_block(rows, to, i, D);
  }
  // A right-hand side.
  PINION_INLINE void side(int from, int to) const {
    T x[BLOCK], y[BLOCK];
    read(rows, from, i, x);
    if (has_after()) {
      read(rows, from, i + h, y);
      take_multiple<false>(rows, E(), after, y, x);
    }
    if (has_before()) {
      read(rows, from, i - h, y);
      take_multiple<false>(rows, K(), before, y, x);
    }
    write(rows, to, i, x);
  }
};

// R = D^-1 R of every row, in its place, for right-hand sides `first_side` to `sides` - 1.
template <class T, class Scope>
PINION_INLINE void solve_blocks(const Scope &scope, const Rows<T> &rows, int n, Place at,
                                int first_side, int sides) {
#pragma unroll 1
  for (int i = scope.thread(); i < n; i += scope.threads()) {
    Factor<T> factor;
    read(rows, at.factor(), i, factor.of);
#pragma unroll 1
    for (int side = first_side; side < sides; ++side) {
      T x[BLOCK];
      read(rows, at.R(side), i, x);
      factor.forward(x);
      factor.backward(x);
      write(rows, at.R(side), i, x);
    }
  }
}

// A solver has the rows from component `begin` on; D, its factor, U and R are to be put where
// first() says. solve() with `matrix` makes the matrix diagonal and solves for all right-hand
// sides (of OEE, for those from `begin_side` on), and later, without it, for the first of them
// alone; x is then where last() says. Threads are to have met before. After it a thread may read the
// rows of its own, t, t + threads, ...; others' need a meeting first.

template <class T> struct Elimination {
  const Rows<T> rows;
  const int n, begin, sides;
  PINION_INLINE Place first() const { return {begin}; }
  PINION_INLINE Place last() const { return {odd_levels() ? begin + place_words(sides) : begin}; }

  template <class Scope>
  PINION_INLINE void solve(Scope &scope, bool matrix, int begin_side = 0) const {
    const int count = matrix ? sides : 1;
    int coupling = begin + 2 * place_words(sides);
    Place from = first(), to = {begin + place_words(sides)};
#pragma unroll 1
    for (int h = 1; h < n; h *= 2) {
#pragma unroll 1
      for (int i = scope.thread(); i < n; i += scope.threads()) {
        const Step<T> step = {rows, n, i, h, coupling, i, i};
        if (matrix) step.matrix(from, to);
#pragma unroll 1
        for (int side = begin_side; side < count; ++side) step.side(from.R(side), to.R(side));
      }
      scope.sync();
      const Place other = from;
      from = to;
      to = other;
      coupling += COUPLING;
    }
    solve_blocks(scope, rows, n, from, begin_side, count);
  }

private:
  PINION_INLINE bool odd_levels() const {
    bool odd = false;
    for (int h = 1; h < n; h *= 2) odd = !odd;
    return odd;
  }
};

// E and K are kept with the row that leaves: each does once.
template <class T> struct Reduction {
  const Rows<T> rows;
  const int n, begin, sides;
  PINION_INLINE Place first() const { return {begin}; }
  PINION_INLINE Place last() const { return first(); }

  template <class Scope> PINION_INLINE void solve(Scope &scope, bool matrix) const {
    const int count = matrix ? sides : 1, coupling = begin + place_words(sides);
    const Place at = first();
    int h = 1;
#pragma unroll 1
    for (; 2 * h <= n; h *= 2) {
#pragma unroll 1
      for (int i = 2 * h * scope.thread() + 2 * h - 1; i < n; i += 2 * h * scope.threads()) {
        const Step<T> step = {rows, n, i, h, coupling, i + h, i - h};
        if (matrix) step.matrix(at, at);
#pragma unroll 1
        for (int side = 0; side < count; ++side) step.side(at.R(side), at.R(side));
      }
      scope.sync();
    }
    solve_blocks(scope, rows, n, at, 0, count);
    scope.sync();
#pragma unroll 1
    for (h /= 2; h >= 1; h /= 2) {
#pragma unroll 1
      for (int i = 2 * h * scope.thread() + h - 1; i < n; i += 2 * h * scope.threads()) {
#pragma unroll 1
        for (int side = 0; side < count; ++side) {
          T x[BLOCK], y[BLOCK];
          read(rows, at.R(side), i, x);
          if (i + h < n) {
            read(rows, at.R(side), i + h, y);
            take_multiple<true>(rows, coupling + SQUARE, i, y, x);
          }
          if (i >= h) {
            read(rows, at.R(side), i - h, y);
            take_multiple<true>(rows, coupling, i, y, x);
          }
          write(rows, at.R(side), i, x);
        }
      }
      scope.sync();
    }
  }
};

// The first thread of the scope alone.
template <class T> struct Sweep {
  const Rows<T> rows;
  const int n, begin, sides;
  PINION_INLINE Place first() const { return {begin}; }
  PINION_INLINE Place last() const { return first(); }

  template <class Scope> PINION_INLINE void solve(Scope &scope, bool matrix) const {
    const int count = matrix ? sides : 1, coupling = begin + place_words(sides);
    const Place at = first();
    if (scope.thread() == 0) {
#pragma unroll 1
      for (int i = 1; i < n; ++i) {
        // As if the chain ended here: the rows after it come later.
        const Step<T> step = {rows, i + 1, i, 1, coupling, i, i - 1};
        if (matrix) step.matrix(at, at);
#pragma unroll 1
        for (int side = 0; side < count; ++side) step.side(at.R(side), at.R(side));
      }
    }
    scope.sync();
    solve_blocks(scope, rows, n, at, 0, count);
    scope.sync();
    if (scope.thread() == 0) {
#pragma unroll 1
      for (int side = 0; side < count; ++side)
#pragma unroll 1
        for (int i = n - 2; i >= 0; --i) {
          T x[BLOCK], y[BLOCK];
          read(rows, at.R(side), i, x);
          read(rows, at.R(side), i + 1, y);
          take_multiple<true>(rows, coupling + SQUARE, i, y, x);
          write(rows, at.R(side), i, x);
        }
    }
    scope.sync();
  }
};

} // namespace parallel
} // namespace pinion
