// Between rows of samples and rows of elements: the transposes of arrays of structures.
//
// A piece is 16 bytes of a row, Q elements. Vectors are loaded piece by piece, each from a row of
// its own, because a load into a part of a vector needs no shuffle unit; what is left to shuffle is
// Q x Q inside the pieces. Groups of columns overlap where Q does not divide the size, so that
// nothing outside of a row is touched.
#pragma once

#include <stddef.h>

#include "abi.h"
#include "vec.hpp"

namespace pinion {
namespace {

constexpr int BLOCK = PINION_BLOCK;

// A vector of N pieces: join loads them `step` elements apart, split stores them so. low and high
// interleave the first and the last halves of the pieces of two vectors by elements, low2 and high2
// by pairs of elements.
template <class T, int N> struct Pieces;

typedef float f32q __attribute__((vector_size(16)));
typedef double f64q __attribute__((vector_size(16)));
typedef float f32q_memory __attribute__((vector_size(16), aligned(4), may_alias));
typedef double f64q_memory __attribute__((vector_size(16), aligned(8), may_alias));

#if defined(__clang__) || __GNUC__ >= 12
#define PINION_SHUFFLE(a, b, mask, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PINION_SHUFFLE(a, b, mask, ...) __builtin_shuffle(a, b, (mask){__VA_ARGS__})
typedef int32_t i32q __attribute__((vector_size(16)));
typedef int64_t i64q __attribute__((vector_size(16)));
#endif

template <> struct Pieces<float, 1> {
  typedef f32q V;
  static PINION_INLINE V load(const float *p) { return *(const f32q_memory *)p; }
  static PINION_INLINE void store(float *p, V v) { *(f32q_memory *)p = v; }
  static PINION_INLINE V join(const float *p, ptrdiff_t) { return load(p); }
  static PINION_INLINE void split(float *p, ptrdiff_t, V v) { store(p, v); }
  static PINION_INLINE V low(V a, V b) { return PINION_SHUFFLE(a, b, i32q, 0, 4, 1, 5); }
  static PINION_INLINE V high(V a, V b) { return PINION_SHUFFLE(a, b, i32q, 2, 6, 3, 7); }
  static PINION_INLINE V low2(V a, V b) { return PINION_SHUFFLE(a, b, i32q, 0, 1, 4, 5); }
  static PINION_INLINE V high2(V a, V b) { return PINION_SHUFFLE(a, b, i32q, 2, 3, 6, 7); }
};

template <> struct Pieces<double, 1> {
  typedef f64q V;
  static PINION_INLINE V load(const double *p) { return *(const f64q_memory *)p; }
  static PINION_INLINE void store(double *p, V v) { *(f64q_memory *)p = v; }
  static PINION_INLINE V join(const double *p, ptrdiff_t) { return load(p); }
  static PINION_INLINE void split(double *p, ptrdiff_t, V v) { store(p, v); }
  static PINION_INLINE V low(V a, V b) { return PINION_SHUFFLE(a, b, i64q, 0, 2); }
  static PINION_INLINE V high(V a, V b) { return PINION_SHUFFLE(a, b, i64q, 1, 3); }
};

#if PINION_ISA_AVX2 || PINION_ISA_AVX512
template <> struct Pieces<float, 2> {
  typedef __m256 V;
  static PINION_INLINE V load(const float *p) { return _mm256_loadu_ps(p); }
  static PINION_INLINE void store(float *p, V v) { _mm256_storeu_ps(p, v); }
  static PINION_INLINE V join(const float *p, ptrdiff_t step) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + step), 1);
  }
  static PINION_INLINE void split(float *p, ptrdiff_t step, V v) {
    _mm_storeu_ps(p, _mm256_castps256_ps128(v));
    _mm_storeu_ps(p + step, _mm256_extractf128_ps(v, 1));
  }
  static PINION_INLINE V low(V a, V b) { return _mm256_unpacklo_ps(a, b); }
  static PINION_INLINE V high(V a, V b) { return _mm256_unpackhi_ps(a, b); }
  static PINION_INLINE V low2(V a, V b) { return _mm256_shuffle_ps(a, b, 0x44); }
  static PINION_INLINE V high2(V a, V b) { return _mm256_shuffle_ps(a, b, 0xee); }
};

template <> struct Pieces<double, 2> {
  typedef __m256d V;
  static PINION_INLINE V load(const double *p) { return _mm256_loadu_pd(p); }
  static PINION_INLINE void store(double *p, V v) { _mm256_storeu_pd(p, v); }
  static PINION_INLINE V join(const double *p, ptrdiff_t step) {
    return _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(p)), _mm_loadu_pd(p + step), 1);
  }
  static PINION_INLINE void split(double *p, ptrdiff_t step, V v) {
    _mm_storeu_pd(p, _mm256_castpd256_pd128(v));
    _mm_storeu_pd(p + step, _mm256_extractf128_pd(v, 1));
  }
  static PINION_INLINE V low(V a, V b) { return _mm256_unpacklo_pd(a, b); }
  static PINION_INLINE V high(V a, V b) { return _mm256_unpackhi_pd(a, b); }
};
#endif

#if PINION_ISA_AVX512
// A mask that hides nothing: the plain forms draw wrong warnings from gcc (its bug 105593).
constexpr int ALL = -1;
template <> struct Pieces<float, 4> {
  typedef __m512 V;
  static PINION_INLINE V load(const float *p) { return _mm512_loadu_ps(p); }
  static PINION_INLINE void store(float *p, V v) { _mm512_storeu_ps(p, v); }
  static PINION_INLINE V join(const float *p, ptrdiff_t step) {
    V v = _mm512_castps256_ps512(Pieces<float, 2>::join(p, step));
    v = _mm512_maskz_insertf32x4(ALL, v, _mm_loadu_ps(p + 2 * step), 2);
    return _mm512_maskz_insertf32x4(ALL, v, _mm_loadu_ps(p + 3 * step), 3);
  }
  static PINION_INLINE void split(float *p, ptrdiff_t step, V v) {
    _mm_storeu_ps(p, _mm512_maskz_extractf32x4_ps(ALL, v, 0));
    _mm_storeu_ps(p + step, _mm512_maskz_extractf32x4_ps(ALL, v, 1));
    _mm_storeu_ps(p + 2 * step, _mm512_maskz_extractf32x4_ps(ALL, v, 2));
    _mm_storeu_ps(p + 3 * step, _mm512_maskz_extractf32x4_ps(ALL, v, 3));
  }
  static PINION_INLINE V low(V a, V b) { return _mm512_maskz_unpacklo_ps(ALL, a, b); }
  static PINION_INLINE V high(V a, V b) { return _mm512_maskz_unpackhi_ps(ALL, a, b); }
  static PINION_INLINE V low2(V a, V b) { return _mm512_maskz_shuffle_ps(ALL, a, b, 0x44); }
  static PINION_INLINE V high2(V a, V b) { return _mm512_maskz_shuffle_ps(ALL, a, b, 0xee); }
};

template <> struct Pieces<double, 4> {
  typedef __m512d V;
  static PINION_INLINE V load(const double *p) { return _mm512_loadu_pd(p); }
  static PINION_INLINE void store(double *p, V v) { _mm512_storeu_pd(p, v); }
  static PINION_INLINE V join(const double *p, ptrdiff_t step) {
    V v = _mm512_castpd256_pd512(Pieces<double, 2>::join(p, step));
    v = _mm512_maskz_insertf64x2(ALL, v, _mm_loadu_pd(p + 2 * step), 2);
    return _mm512_maskz_insertf64x2(ALL, v, _mm_loadu_pd(p + 3 * step), 3);
  }
  static PINION_INLINE void split(double *p, ptrdiff_t step, V v) {
    _mm_storeu_pd(p, _mm512_maskz_extractf64x2_pd(ALL, v, 0));
    _mm_storeu_pd(p + step, _mm512_maskz_extractf64x2_pd(ALL, v, 1));
    _mm_storeu_pd(p + 2 * step, _mm512_maskz_extractf64x2_pd(ALL, v, 2));
    _mm_storeu_pd(p + 3 * step, _mm512_maskz_extractf64x2_pd(ALL, v, 3));
  }
  static PINION_INLINE V low(V a, V b) { return _mm512_maskz_unpacklo_pd(ALL, a, b); }
  static PINION_INLINE V high(V a, V b) { return _mm512_maskz_unpackhi_pd(ALL, a, b); }
};
#endif

// How many pieces the widest vector has.
constexpr int WIDEST = PINION_VECTOR_BYTES / 16;

// N Q rows of Q elements, `pitch` apart, to Q rows of N Q elements, `apart` apart. (The loops are
// written out because gcc does not unroll at -O2.)
template <int N, class T>
PINION_INLINE void gather(const T *from, ptrdiff_t pitch, T *to, ptrdiff_t apart) {
  typedef Pieces<T, N> P;
  if constexpr (sizeof(T) == 4) {
    const auto a = P::join(from, 4 * pitch), b = P::join(from + pitch, 4 * pitch);
    const auto c = P::join(from + 2 * pitch, 4 * pitch), d = P::join(from + 3 * pitch, 4 * pitch);
    const auto ab = P::low(a, b), cd = P::low(c, d), AB = P::high(a, b), CD = P::high(c, d);
    P::store(to, P::low2(ab, cd));
    P::store(to + apart, P::high2(ab, cd));
    P::store(to + 2 * apart, P::low2(AB, CD));
    P::store(to + 3 * apart, P::high2(AB, CD));
  } else {
    const auto a = P::join(from, 2 * pitch), b = P::join(from + pitch, 2 * pitch);
    P::store(to, P::low(a, b));
    P::store(to + apart, P::high(a, b));
  }
}

// The other way: Q rows of N Q elements to N Q rows of Q elements.
template <int N, class T>
PINION_INLINE void scatter(const T *from, ptrdiff_t pitch, T *to, ptrdiff_t apart) {
  typedef Pieces<T, N> P;
  if constexpr (sizeof(T) == 4) {
    const auto a = P::load(from), b = P::load(from + pitch);
    const auto c = P::load(from + 2 * pitch), d = P::load(from + 3 * pitch);
    const auto ab = P::low(a, b), cd = P::low(c, d), AB = P::high(a, b), CD = P::high(c, d);
    P::split(to, 4 * apart, P::low2(ab, cd));
    P::split(to + apart, 4 * apart, P::high2(ab, cd));
    P::split(to + 2 * apart, 4 * apart, P::low2(AB, CD));
    P::split(to + 3 * apart, 4 * apart, P::high2(AB, CD));
  } else {
    const auto a = P::load(from), b = P::load(from + pitch);
    P::split(to, 2 * apart, P::low(a, b));
    P::split(to + apart, 2 * apart, P::high(a, b));
  }
}

// 16 elements, one by one.
template <class T>
PINION_INLINE void column(const T *from, ptrdiff_t step, T *to, ptrdiff_t apart) {
  for (int s = 0; s < BLOCK; s += 4, from += 4 * step, to += 4 * apart) {
    const T a = from[0], b = from[step], c = from[2 * step], d = from[3 * step];
    to[0] = a;
    to[apart] = b;
    to[2 * apart] = c;
    to[3 * apart] = d;
  }
}

// 16 rows, `stride` elements apart, of an array of structures to a block.
template <class T> void to_block(const T *rows, ptrdiff_t stride, size_t size, T *block) {
  constexpr size_t Q = 16 / sizeof(T), L = WIDEST * Q;
  if (size < Q) {
    for (size_t e = 0; e < size; ++e) column(rows + e, stride, block + e * BLOCK, 1);
    return;
  }
  for (size_t e = 0; e < size; e += Q) {
    if (e + Q > size) e = size - Q;
    for (size_t s = 0; s < BLOCK; s += L)
      gather<WIDEST>(rows + s * stride + e, stride, block + e * BLOCK + s, BLOCK);
  }
}

// The elements from e on that fill vectors of N pieces, and then those that fill narrower ones;
// returns the first element that is left.
template <int N, class T>
PINION_INLINE size_t wide_columns(const T *block, size_t e, size_t size, T *rows,
                                  ptrdiff_t stride) {
  constexpr size_t Q = 16 / sizeof(T), L = N * Q;
  for (; e + L <= size; e += L)
    for (size_t s = 0; s < BLOCK; s += Q)
      gather<N>(block + e * BLOCK + s, BLOCK, rows + s * stride + e, stride);
  if constexpr (N > 2) e = wide_columns<N / 2>(block, e, size, rows, stride);
  return e;
}

// A block to 16 rows.
template <class T> void from_block(const T *block, size_t size, T *rows, ptrdiff_t stride) {
  constexpr size_t Q = 16 / sizeof(T), L = WIDEST * Q;
  size_t e = 0;
  if constexpr (WIDEST > 1) e = wide_columns<WIDEST>(block, e, size, rows, stride);
  // A single column is cheaper element by element, and so are those of a row without a piece.
  while (size - e > 1 && size >= Q) {
    if (e + Q > size) e = size - Q;
    for (size_t s = 0; s < BLOCK; s += L)
      scatter<WIDEST>(block + e * BLOCK + s, BLOCK, rows + s * stride + e, stride);
    e += Q;
  }
  for (; e < size; ++e) column(block + e * BLOCK, 1, rows + e, stride);
}

} // namespace
} // namespace pinion
