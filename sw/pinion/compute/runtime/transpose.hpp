// Between rows of samples and rows of elements: the transposes of arrays of structures.
//
// A piece is a part of a row, Q elements. Vectors hold one or two pieces, each loaded from a row of
// its own, because a load into a half of a vector needs no shuffle unit; what is left to shuffle is
// Q x Q inside the pieces. Groups of columns overlap where Q does not divide the size, so that
// nothing outside of a row is touched.
#pragma once

#include <stddef.h>

#include "abi.h"
#include "vec.hpp"

namespace pinion {
namespace {

constexpr int BLOCK = PINION_BLOCK;

// A vector V of N pieces of Q elements. join loads its pieces from p and q, split stores them there
// (q is unused where N is 1); turn transposes the Q x Q matrices that the pieces of Q vectors make.
template <class T> struct Pieces;

#if PINION_ISA_AVX512

// Pieces are 32 bytes. Where a function takes a count, it reads or writes the first elements of
// each piece alone; no half is extracted for a masked store, because gcc makes one instruction of
// the two, and that one faults on hidden elements. All shuffles have a mask, which hides nothing,
// because those without draw wrong warnings from gcc (its bug 105593).
constexpr int ALL = -1;

// The 16-byte quarters 0 and 2 of two vectors, and 1 and 3, in turns.
PINION_INLINE void turn_quarters(__m512d &a, __m512d &b) {
  const __m512d even = _mm512_permutex2var_pd(a, _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), b);
  b = _mm512_permutex2var_pd(a, _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15), b);
  a = even;
}

template <> struct Pieces<float> {
  typedef __m512 V;
  static constexpr int Q = 8, N = 2;
  static PINION_INLINE V load(const float *p) { return _mm512_loadu_ps(p); }
  static PINION_INLINE void store(float *p, V v) { _mm512_storeu_ps(p, v); }
  static PINION_INLINE V join(const float *p, const float *q) {
    return _mm512_maskz_insertf32x8(ALL, _mm512_castps256_ps512(_mm256_loadu_ps(p)),
                                    _mm256_loadu_ps(q), 1);
  }
  static PINION_INLINE V join(const float *p, const float *q, int count) {
    const int mask = (1 << count) - 1;
    const V low = _mm512_castps256_ps512(_mm256_maskz_loadu_ps((__mmask8)mask, p));
    return _mm512_mask_loadu_ps(low, (__mmask16)(mask << Q), q - Q);
  }
  static PINION_INLINE void split(float *p, float *q, V v) {
    _mm256_storeu_ps(p, _mm512_maskz_extractf32x8_ps(ALL, v, 0));
    _mm256_storeu_ps(q, _mm512_maskz_extractf32x8_ps(ALL, v, 1));
  }
  static PINION_INLINE void split(float *p, float *q, V v, int count) {
    const int mask = (1 << count) - 1;
    _mm512_mask_storeu_ps(p, (__mmask16)mask, v);
    _mm512_mask_storeu_ps(q - Q, (__mmask16)(mask << Q), v);
  }
  static PINION_INLINE void turn(V *v) {
    PINION_UNROLL for (int j = 0; j < Q; j += 4) {
      const V ab = _mm512_maskz_unpacklo_ps(ALL, v[j], v[j + 1]);
      const V AB = _mm512_maskz_unpackhi_ps(ALL, v[j], v[j + 1]);
      const V cd = _mm512_maskz_unpacklo_ps(ALL, v[j + 2], v[j + 3]);
      const V CD = _mm512_maskz_unpackhi_ps(ALL, v[j + 2], v[j + 3]);
      v[j] = _mm512_maskz_shuffle_ps(ALL, ab, cd, 0x44);
      v[j + 1] = _mm512_maskz_shuffle_ps(ALL, ab, cd, 0xee);
      v[j + 2] = _mm512_maskz_shuffle_ps(ALL, AB, CD, 0x44);
      v[j + 3] = _mm512_maskz_shuffle_ps(ALL, AB, CD, 0xee);
    }
    PINION_UNROLL for (int j = 0; j < 4; ++j) {
      __m512d a = _mm512_castps_pd(v[j]), b = _mm512_castps_pd(v[j + 4]);
      turn_quarters(a, b);
      v[j] = _mm512_castpd_ps(a);
      v[j + 4] = _mm512_castpd_ps(b);
    }
  }
};

template <> struct Pieces<double> {
  typedef __m512d V;
  static constexpr int Q = 4, N = 2;
  static PINION_INLINE V load(const double *p) { return _mm512_loadu_pd(p); }
  static PINION_INLINE void store(double *p, V v) { _mm512_storeu_pd(p, v); }
  static PINION_INLINE V join(const double *p, const double *q) {
    return _mm512_maskz_insertf64x4(ALL, _mm512_castpd256_pd512(_mm256_loadu_pd(p)),
                                    _mm256_loadu_pd(q), 1);
  }
  static PINION_INLINE V join(const double *p, const double *q, int count) {
    const int mask = (1 << count) - 1;
    const V low = _mm512_castpd256_pd512(_mm256_maskz_loadu_pd((__mmask8)mask, p));
    return _mm512_mask_loadu_pd(low, (__mmask8)(mask << Q), q - Q);
  }
  static PINION_INLINE void split(double *p, double *q, V v) {
    _mm256_storeu_pd(p, _mm512_maskz_extractf64x4_pd(ALL, v, 0));
    _mm256_storeu_pd(q, _mm512_maskz_extractf64x4_pd(ALL, v, 1));
  }
  static PINION_INLINE void split(double *p, double *q, V v, int count) {
    const int mask = (1 << count) - 1;
    _mm512_mask_storeu_pd(p, (__mmask8)mask, v);
    _mm512_mask_storeu_pd(q - Q, (__mmask8)(mask << Q), v);
  }
  static PINION_INLINE void turn(V *v) {
    const V ab = _mm512_maskz_unpacklo_pd(ALL, v[0], v[1]);
    const V AB = _mm512_maskz_unpackhi_pd(ALL, v[0], v[1]);
    const V cd = _mm512_maskz_unpacklo_pd(ALL, v[2], v[3]);
    const V CD = _mm512_maskz_unpackhi_pd(ALL, v[2], v[3]);
    v[0] = ab, v[2] = cd, v[1] = AB, v[3] = CD;
    turn_quarters(v[0], v[2]);
    turn_quarters(v[1], v[3]);
  }
};

#elif PINION_ISA_AVX2

template <> struct Pieces<float> {
  typedef __m256 V;
  static constexpr int Q = 4, N = 2;
  static PINION_INLINE V load(const float *p) { return _mm256_loadu_ps(p); }
  static PINION_INLINE void store(float *p, V v) { _mm256_storeu_ps(p, v); }
  static PINION_INLINE V join(const float *p, const float *q) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(q), 1);
  }
  static PINION_INLINE void split(float *p, float *q, V v) {
    _mm_storeu_ps(p, _mm256_castps256_ps128(v));
    _mm_storeu_ps(q, _mm256_extractf128_ps(v, 1));
  }
  static PINION_INLINE void turn(V *v) {
    const V ab = _mm256_unpacklo_ps(v[0], v[1]), AB = _mm256_unpackhi_ps(v[0], v[1]);
    const V cd = _mm256_unpacklo_ps(v[2], v[3]), CD = _mm256_unpackhi_ps(v[2], v[3]);
    v[0] = _mm256_shuffle_ps(ab, cd, 0x44);
    v[1] = _mm256_shuffle_ps(ab, cd, 0xee);
    v[2] = _mm256_shuffle_ps(AB, CD, 0x44);
    v[3] = _mm256_shuffle_ps(AB, CD, 0xee);
  }
};

template <> struct Pieces<double> {
  typedef __m256d V;
  static constexpr int Q = 2, N = 2;
  static PINION_INLINE V load(const double *p) { return _mm256_loadu_pd(p); }
  static PINION_INLINE void store(double *p, V v) { _mm256_storeu_pd(p, v); }
  static PINION_INLINE V join(const double *p, const double *q) {
    return _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(p)), _mm_loadu_pd(q), 1);
  }
  static PINION_INLINE void split(double *p, double *q, V v) {
    _mm_storeu_pd(p, _mm256_castpd256_pd128(v));
    _mm_storeu_pd(q, _mm256_extractf128_pd(v, 1));
  }
  static PINION_INLINE void turn(V *v) {
    const V low = _mm256_unpacklo_pd(v[0], v[1]);
    v[1] = _mm256_unpackhi_pd(v[0], v[1]);
    v[0] = low;
  }
};

#else

#if defined(__clang__) || __GNUC__ >= 12
#define PINION_SHUFFLE(a, b, mask, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PINION_SHUFFLE(a, b, mask, ...) __builtin_shuffle(a, b, (mask){__VA_ARGS__})
#endif

template <> struct Pieces<float> {
  typedef f32v V;
  static constexpr int Q = 4, N = 1;
  static PINION_INLINE V load(const float *p) { return pinion::load<V>(p); }
  static PINION_INLINE void store(float *p, V v) { pinion::store<V>(p, v); }
  static PINION_INLINE V join(const float *p, const float *) { return load(p); }
  static PINION_INLINE void split(float *p, float *, V v) { store(p, v); }
  static PINION_INLINE void turn(V *v) {
    const V ab = PINION_SHUFFLE(v[0], v[1], i32v, 0, 4, 1, 5);
    const V AB = PINION_SHUFFLE(v[0], v[1], i32v, 2, 6, 3, 7);
    const V cd = PINION_SHUFFLE(v[2], v[3], i32v, 0, 4, 1, 5);
    const V CD = PINION_SHUFFLE(v[2], v[3], i32v, 2, 6, 3, 7);
    v[0] = PINION_SHUFFLE(ab, cd, i32v, 0, 1, 4, 5);
    v[1] = PINION_SHUFFLE(ab, cd, i32v, 2, 3, 6, 7);
    v[2] = PINION_SHUFFLE(AB, CD, i32v, 0, 1, 4, 5);
    v[3] = PINION_SHUFFLE(AB, CD, i32v, 2, 3, 6, 7);
  }
};

template <> struct Pieces<double> {
  typedef f64v V;
  static constexpr int Q = 2, N = 1;
  static PINION_INLINE V load(const double *p) { return pinion::load<V>(p); }
  static PINION_INLINE void store(double *p, V v) { pinion::store<V>(p, v); }
  static PINION_INLINE V join(const double *p, const double *) { return load(p); }
  static PINION_INLINE void split(double *p, double *, V v) { store(p, v); }
  static PINION_INLINE void turn(V *v) {
    const V low = PINION_SHUFFLE(v[0], v[1], i64v, 0, 2);
    v[1] = PINION_SHUFFLE(v[0], v[1], i64v, 1, 3);
    v[0] = low;
  }
};

#endif

// N Q rows of Q elements, `pitch` apart, to Q rows of N Q elements, `apart` apart.
template <class T>
PINION_INLINE void gather(const T *from, ptrdiff_t pitch, T *to, ptrdiff_t apart) {
  typedef Pieces<T> P;
  typename P::V v[P::Q];
  const T *p = from, *q = from + P::Q * pitch;
  PINION_UNROLL for (int j = 0; j < P::Q; ++j, p += pitch, q += pitch) v[j] = P::join(p, q);
  P::turn(v);
  PINION_UNROLL for (int j = 0; j < P::Q; ++j, to += apart) P::store(to, v[j]);
}

// The reverse: Q rows of N Q elements to N Q rows of Q elements.
template <class T>
PINION_INLINE void scatter(const T *from, ptrdiff_t pitch, T *to, ptrdiff_t apart) {
  typedef Pieces<T> P;
  typename P::V v[P::Q];
  PINION_UNROLL for (int j = 0; j < P::Q; ++j) v[j] = P::load(from + j * pitch);
  P::turn(v);
  T *p = to, *q = to + P::Q * apart;
  PINION_UNROLL for (int j = 0; j < P::Q; ++j, p += apart, q += apart) P::split(p, q, v[j]);
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

// Fewer than Q columns.
#if PINION_ISA_AVX512
template <class T>
PINION_INLINE void few_to_block(const T *rows, ptrdiff_t stride, int count, T *block) {
  typedef Pieces<T> P;
  if (count == 1) return column(rows, stride, block, 1);
  for (int s = 0; s < BLOCK; s += P::N * P::Q) {
    const T *p = rows + s * stride, *q = p + P::Q * stride;
    typename P::V v[P::Q];
    PINION_UNROLL for (int j = 0; j < P::Q; ++j, p += stride, q += stride)
      v[j] = P::join(p, q, count);
    P::turn(v);
    PINION_UNROLL for (int j = 0; j < P::Q; ++j)
      if (j < count) P::store(block + j * BLOCK + s, v[j]);
  }
}

template <class T>
PINION_INLINE void few_from_block(const T *block, int count, T *rows, ptrdiff_t stride) {
  typedef Pieces<T> P;
  if (count == 1) return column(block, 1, rows, stride);
  for (int s = 0; s < BLOCK; s += P::N * P::Q) {
    T *p = rows + s * stride, *q = p + P::Q * stride;
    typename P::V v[P::Q];
    PINION_UNROLL for (int j = 0; j < P::Q; ++j)
      v[j] = P::load(block + (j < count ? j : 0) * BLOCK + s);
    P::turn(v);
    PINION_UNROLL for (int j = 0; j < P::Q; ++j, p += stride, q += stride)
      P::split(p, q, v[j], count);
  }
}
#else
template <class T>
PINION_INLINE void few_to_block(const T *rows, ptrdiff_t stride, int count, T *block) {
  for (int e = 0; e < count; ++e) column(rows + e, stride, block + e * BLOCK, 1);
}

template <class T>
PINION_INLINE void few_from_block(const T *block, int count, T *rows, ptrdiff_t stride) {
  for (int e = 0; e < count; ++e) column(block + e * BLOCK, 1, rows + e, stride);
}
#endif

// 16 rows, `stride` elements apart, of an array of structures to a block.
template <class T> void to_block(const T *rows, ptrdiff_t stride, size_t size, T *block) {
  constexpr size_t Q = Pieces<T>::Q, L = Pieces<T>::N * Q;
  if (size < Q) return few_to_block(rows, stride, (int)size, block);
  for (size_t e = 0; e < size; e += Q) {
    if (e + Q > size) e = size - Q;
    for (size_t s = 0; s < BLOCK; s += L)
      gather(rows + s * stride + e, stride, block + e * BLOCK + s, BLOCK);
  }
}

// A block to 16 rows.
template <class T> void from_block(const T *block, size_t size, T *rows, ptrdiff_t stride) {
  constexpr size_t Q = Pieces<T>::Q, N = Pieces<T>::N, L = N * Q;
  if (size < Q) return few_from_block(block, (int)size, rows, stride);
  size_t e = 0;
  if constexpr (N > 1)
    for (; e + L <= size; e += L)
      for (size_t s = 0; s < BLOCK; s += Q)
        gather(block + e * BLOCK + s, BLOCK, rows + s * stride + e, stride);
  while (size - e > 1) {
    if (e + Q > size) e = size - Q;
    for (size_t s = 0; s < BLOCK; s += L)
      scatter(block + e * BLOCK + s, BLOCK, rows + s * stride + e, stride);
    e += Q;
  }
  // A single column is cheaper one by one.
  if (e < size) column(block + e * BLOCK, 1, rows + e, stride);
}

} // namespace
} // namespace pinion
