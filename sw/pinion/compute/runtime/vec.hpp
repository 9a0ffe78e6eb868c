// Vectors of samples: native vector types with the few operations that a kernel needs.
//
// A kernel is a template over V: a vector here, a float in a scalar build or on a GPU. Lanes never
// meet: lane i of a result depends on lane i of the operands alone. Products that are summed are
// fused where the printer says so, by fma() and its relatives, and nowhere else: compile with
// -ffp-contract=off. Where the machine has no fused multiply-add (PINION_ISA_PORTABLE), the same
// functions round twice. CUDA (PINION_ISA_CUDA, nvcc -fmad=false) has the scalars alone.
#pragma once

#if defined(__CUDACC_RTC__)
// NVRTC brings no headers of C.
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#ifndef INT32_MIN
#define INT32_MIN (-2147483647 - 1)
#endif
#ifndef INT64_MIN
#define INT64_MIN (-9223372036854775807ll - 1)
#endif
#else
#include <stdint.h>
#include <string.h>
#endif

// PINION_CUDA_HOST: CUDA's text, compiled as C++ for a test (tests/support/cuda_host.hpp).
#if defined(__CUDACC__) || defined(__CUDACC_RTC__) || defined(PINION_CUDA_HOST)
#define PINION_INLINE __device__ __forceinline__
#else
#define PINION_INLINE inline __attribute__((always_inline))
#define PINION_COLD __attribute__((noinline, cold))
#endif

// Loops whose bodies index an array of vectors: unrolled, or the vectors live in memory.
#if defined(__clang__)
#define PINION_UNROLL _Pragma("unroll")
#else
#define PINION_UNROLL _Pragma("GCC unroll 8")
#endif

#if defined(__CUDACC__) || defined(__CUDACC_RTC__) || defined(PINION_CUDA_HOST)
#define PINION_ISA_CUDA 1
#define PINION_ISA "cuda"
#elif defined(__AVX512F__)
#define PINION_ISA_AVX512 1
#define PINION_ISA "avx512"
#define PINION_VECTOR_BYTES 64
#include <immintrin.h>
#elif defined(__AVX2__) && defined(__FMA__)
#define PINION_ISA_AVX2 1
#define PINION_ISA "avx2"
#define PINION_VECTOR_BYTES 32
#include <immintrin.h>
#elif defined(__aarch64__)
#define PINION_ISA_NEON 1
#define PINION_ISA "neon"
#define PINION_VECTOR_BYTES 16
#include <arm_neon.h>
#else
#define PINION_ISA_PORTABLE 1
#define PINION_ISA "portable"
#define PINION_VECTOR_BYTES 16
#endif

namespace pinion {

#if !PINION_ISA_CUDA
typedef float f32v __attribute__((vector_size(PINION_VECTOR_BYTES)));
typedef double f64v __attribute__((vector_size(PINION_VECTOR_BYTES)));
typedef int32_t i32v __attribute__((vector_size(PINION_VECTOR_BYTES)));
typedef int64_t i64v __attribute__((vector_size(PINION_VECTOR_BYTES)));
// The same in memory, where no more than an element's alignment is guaranteed.
typedef float f32m __attribute__((vector_size(PINION_VECTOR_BYTES), aligned(4), may_alias));
typedef double f64m __attribute__((vector_size(PINION_VECTOR_BYTES), aligned(8), may_alias));
#endif

// Of a vector type, or of a scalar, which is a vector of one: its scalar, the integer type of the
// same shape (also that of comparisons), the type in memory, the number of lanes.
template <class V> struct Traits;
#if !PINION_ISA_CUDA
template <> struct Traits<f32v> {
  typedef float scalar;
  typedef i32v ints;
  typedef f32m memory;
  static constexpr int lanes = PINION_VECTOR_BYTES / 4;
};
template <> struct Traits<f64v> {
  typedef double scalar;
  typedef i64v ints;
  typedef f64m memory;
  static constexpr int lanes = PINION_VECTOR_BYTES / 8;
};
#endif
template <> struct Traits<float> {
  typedef float scalar;
  typedef int32_t ints;
  typedef float memory;
  static constexpr int lanes = 1;
};
template <> struct Traits<double> {
  typedef double scalar;
  typedef int64_t ints;
  typedef double memory;
  static constexpr int lanes = 1;
};
template <class V> using Scalar = typename Traits<V>::scalar;
template <class V> using Ints = typename Traits<V>::ints;

// The widest vector of a scalar type.
#if !PINION_ISA_CUDA
template <class T> struct Widest;
template <> struct Widest<float> {
  typedef f32v type;
};
template <> struct Widest<double> {
  typedef f64v type;
};
#endif

// Every lane the same.
template <class V> PINION_INLINE V splat(Scalar<V> x) { return x - V{}; }
template <> PINION_INLINE float splat<float>(float x) { return x; }
template <> PINION_INLINE double splat<double>(double x) { return x; }

template <class V> PINION_INLINE V load(const Scalar<V> *p) {
  return *(const typename Traits<V>::memory *)p;
}
template <class V> PINION_INLINE void store(Scalar<V> *p, V x) {
  *(typename Traits<V>::memory *)p = x;
}

// fma: a b + c, fms: a b - c, fnma: c - a b, fnms: -a b - c, each rounded once.
#define PINION_FUSED(V, FMA, FMS, FNMA, FNMS)                                                      \
  PINION_INLINE V fma(V a, V b, V c) { return FMA; }                                               \
  PINION_INLINE V fms(V a, V b, V c) { return FMS; }                                               \
  PINION_INLINE V fnma(V a, V b, V c) { return FNMA; }                                             \
  PINION_INLINE V fnms(V a, V b, V c) { return FNMS; }

#if PINION_ISA_AVX512
PINION_FUSED(f32v, _mm512_fmadd_ps(a, b, c), _mm512_fmsub_ps(a, b, c), _mm512_fnmadd_ps(a, b, c),
             _mm512_fnmsub_ps(a, b, c))
PINION_FUSED(f64v, _mm512_fmadd_pd(a, b, c), _mm512_fmsub_pd(a, b, c), _mm512_fnmadd_pd(a, b, c),
             _mm512_fnmsub_pd(a, b, c))
#elif PINION_ISA_AVX2
PINION_FUSED(f32v, _mm256_fmadd_ps(a, b, c), _mm256_fmsub_ps(a, b, c), _mm256_fnmadd_ps(a, b, c),
             _mm256_fnmsub_ps(a, b, c))
PINION_FUSED(f64v, _mm256_fmadd_pd(a, b, c), _mm256_fmsub_pd(a, b, c), _mm256_fnmadd_pd(a, b, c),
             _mm256_fnmsub_pd(a, b, c))
#elif PINION_ISA_NEON
PINION_FUSED(f32v, vfmaq_f32(c, a, b), vfmaq_f32(-c, a, b), vfmsq_f32(c, a, b),
             vfmsq_f32(-c, a, b))
PINION_FUSED(f64v, vfmaq_f64(c, a, b), vfmaq_f64(-c, a, b), vfmsq_f64(c, a, b),
             vfmsq_f64(-c, a, b))
#elif PINION_ISA_PORTABLE
PINION_FUSED(f32v, a *b + c, a *b - c, c - a * b, -(a * b) - c)
PINION_FUSED(f64v, a *b + c, a *b - c, c - a * b, -(a * b) - c)
#endif

// Scalars are fused where that is one instruction.
#if PINION_ISA_PORTABLE
PINION_FUSED(float, a *b + c, a *b - c, c - a * b, -(a * b) - c)
PINION_FUSED(double, a *b + c, a *b - c, c - a * b, -(a * b) - c)
#elif PINION_ISA_CUDA
PINION_FUSED(float, __fmaf_rn(a, b, c), __fmaf_rn(a, b, -c), __fmaf_rn(-a, b, c),
             __fmaf_rn(-a, b, -c))
PINION_FUSED(double, __fma_rn(a, b, c), __fma_rn(a, b, -c), __fma_rn(-a, b, c),
             __fma_rn(-a, b, -c))
#else
PINION_FUSED(float, __builtin_fmaf(a, b, c), __builtin_fmaf(a, b, -c), __builtin_fmaf(-a, b, c),
             __builtin_fmaf(-a, b, -c))
PINION_FUSED(double, __builtin_fma(a, b, c), __builtin_fma(a, b, -c), __builtin_fma(-a, b, c),
             __builtin_fma(-a, b, -c))
#endif

template <class V> PINION_INLINE V recip(V x) { return splat<V>(1) / x; }

// Lane by lane: where the mask is set (all ones), a; elsewhere b.
template <class V> PINION_INLINE V select(Ints<V> mask, V a, V b) { return mask ? a : b; }
template <> PINION_INLINE float select<float>(int32_t mask, float a, float b) {
  return mask ? a : b;
}
template <> PINION_INLINE double select<double>(int64_t mask, double a, double b) {
  return mask ? a : b;
}

// x between two ends, else the nearer one; NaN stays.
template <class V> PINION_INLINE V clamp(V x, V low, V high) {
  return select<V>(x < low, low, select<V>(x > high, high, x));
}

// The bits of a vector as integers, and back.
template <class V> PINION_INLINE Ints<V> bits(V x) {
  Ints<V> i;
  memcpy(&i, &x, sizeof i);
  return i;
}
template <class V> PINION_INLINE V from_bits(Ints<V> i) {
  V x;
  memcpy(&x, &i, sizeof x);
  return x;
}

// Whether any lane of a mask is set.
#if PINION_ISA_AVX512
PINION_INLINE bool any(i32v m) { return _mm512_test_epi32_mask((__m512i)m, (__m512i)m) != 0; }
PINION_INLINE bool any(i64v m) { return _mm512_test_epi64_mask((__m512i)m, (__m512i)m) != 0; }
#elif PINION_ISA_AVX2
PINION_INLINE bool any(i32v m) { return !_mm256_testz_si256((__m256i)m, (__m256i)m); }
PINION_INLINE bool any(i64v m) { return !_mm256_testz_si256((__m256i)m, (__m256i)m); }
#elif !PINION_ISA_CUDA
template <class I> PINION_INLINE bool any(I mask) {
  uint64_t halves[2];
  static_assert(sizeof halves == sizeof mask, "a mask has 16 bytes here");
  memcpy(halves, &mask, sizeof halves);
  return (halves[0] | halves[1]) != 0;
}
#endif
PINION_INLINE bool any(int32_t mask) { return mask != 0; }
PINION_INLINE bool any(int64_t mask) { return mask != 0; }

// Square roots; of what is below zero, zero. NaN stays.
#if PINION_ISA_AVX512
PINION_INLINE f32v correct_root(f32v x) { return _mm512_sqrt_ps(x); }
PINION_INLINE f64v correct_root(f64v x) { return _mm512_sqrt_pd(x); }
#elif PINION_ISA_AVX2
PINION_INLINE f32v correct_root(f32v x) { return _mm256_sqrt_ps(x); }
PINION_INLINE f64v correct_root(f64v x) { return _mm256_sqrt_pd(x); }
#elif PINION_ISA_NEON
PINION_INLINE f32v correct_root(f32v x) { return vsqrtq_f32(x); }
PINION_INLINE f64v correct_root(f64v x) { return vsqrtq_f64(x); }
#elif PINION_ISA_PORTABLE
PINION_INLINE f32v correct_root(f32v x) {
  for (int i = 0; i < Traits<f32v>::lanes; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
}
PINION_INLINE f64v correct_root(f64v x) {
  for (int i = 0; i < Traits<f64v>::lanes; ++i) x[i] = __builtin_sqrt(x[i]);
  return x;
}
#endif
#if PINION_ISA_CUDA
PINION_INLINE float correct_root(float x) { return __fsqrt_rn(x); }
PINION_INLINE double correct_root(double x) { return __dsqrt_rn(x); }
#else
PINION_INLINE float correct_root(float x) { return __builtin_sqrtf(x); }
PINION_INLINE double correct_root(double x) { return __builtin_sqrt(x); }
#endif
template <class V> PINION_INLINE V square_root(V x) {
  return correct_root(select<V>(x < splat<V>(0), splat<V>(0), x));
}

// atan(w) / w in w^2, for |w| up to tan(pi/8): interpolated at Chebyshev's nodes, to 7e-10 and
// 2e-18.
template <class T> struct Arctangent;
template <> struct Arctangent<float> {
  static constexpr int terms = 6;
  PINION_INLINE static float term(int k) {
    constexpr float terms[] = {
      0.9999999993708759f, -0.33333306880874064f, 0.19998182384330435f, -0.14239520496655997f,
      0.10569738024915738f, -0.06026070970504976f};
    return terms[k];
  }
};
template <> struct Arctangent<double> {
  static constexpr int terms = 12;
  PINION_INLINE static double term(int k) {
    constexpr double terms[] = {
      1.0, -0.3333333333333312, 0.19999999999940837, -0.14285714279244968, 0.11111110744657099,
      -0.09090896801472813, 0.07692045194561481, -0.06662950246036792, 0.05846866752275139,
      -0.05035049795312439, 0.03796390316111083, -0.01780389639481256};
    return terms[k];
  }
};

// The angle of the vector (x, y), which is finite; 0 for (0, 0). Error at most 3 ulp of pi.
template <class V> PINION_INLINE V arctan2(V y, V x) {
  typedef Scalar<V> T;
  const V zero = splat<V>(0), quarter = splat<V>(T(0.78539816339744830962));
  const V across = select<V>(x < zero, -x, x), up = select<V>(y < zero, -y, y);
  // First an angle from 0 to pi/4; above pi/8 its difference to pi/4, so that one division does.
  const V less = select<V>(up > across, across, up), more = select<V>(up > across, up, across);
  const Ints<V> past = less > more * splat<V>(T(0.41421356237309504880));
  const V over = select<V>(past, less - more, less), under = select<V>(past, less + more, more);
  const V w = over / select<V>(under == zero, splat<V>(1), under), square = w * w;
  V even = splat<V>(Arctangent<T>::term(Arctangent<T>::terms - 1));
  PINION_UNROLL
  for (int k = Arctangent<T>::terms - 2; k >= 0; --k)
    even = fma(even, square, splat<V>(Arctangent<T>::term(k)));
  V angle = fma(even, w, select<V>(past, quarter, zero));
  angle = select<V>(up > across, quarter + quarter - angle, angle);
  const V half_turn = splat<V>(T(3.14159265358979323846));
  angle = select<V>(x < zero, half_turn - angle, angle);
  return select<V>(y < zero, -angle, angle);
}

// A polynomial of the segment that x is in, around its middle; rows of degree + 1 coefficients.
// Segments are `step` wide, the first one is number `first` from zero; x counts from low to high.
template <int degree, class V>
PINION_INLINE V look_up(V x, Scalar<V> low, Scalar<V> high, Scalar<V> step, int first, int count,
                        const Scalar<V> *rows) {
  typedef Scalar<V> T;
  T lanes[Traits<V>::lanes];
  store<V>(lanes, clamp(x, splat<V>(low), splat<V>(high)));
  for (int lane = 0; lane < Traits<V>::lanes; ++lane) {
    const T at = lanes[lane];
    int segment = at == at ? (int)(at / step - (T)first) : 0;
    segment = segment >= count ? count - 1 : segment;
    const T t = at - ((T)(first + segment) + T(0.5)) * step;
    const T *row = rows + segment * (degree + 1);
    T value = row[degree];
    for (int k = degree - 1; k >= 0; --k) value = fma(value, t, row[k]);
    lanes[lane] = value;
  }
  return load<V>(lanes);
}

} // namespace pinion
