// Sine and cosine together: sincos(x, s, c) for the vectors and scalars of vec.hpp, x in radians.
//
//             fast range          largest error    instructions of the pair with AVX-512
//    float    |x| <   205,886     1.5 ulp          23
//    double   |x| < 1,647,098     0.9 ulp          32
//
// without loads, moves and the one branch. Double has 1.1 ulp where there is no fused multiply-add.
// Lanes beyond the fast range are left to the C library, one by one; all others keep the very bits
// that they have without such neighbours. Infinities and NaN give NaN, sin(-0) is -0.
//
// Method: x = k pi/2 + r. The integer k next to 2x/pi comes from adding a large constant, whose
// last bits then hold it, and r from subtracting k times parts of pi/2, so many that r keeps its
// relative precision next to the multiples of pi/2 (Cody and Waite, Software Manual for the
// Elementary Functions, 1980). Minimax polynomials give sine and cosine of r (they are made by
// tests/compute/minimax.py; their errors are next to them), bit 0 of k swaps the two, bits 0 and 1
// give the signs. Huge arguments need hundreds of digits of 2/pi (Payne and Hanek 1983), not here.
// The errors are measured, float's over all floats, in the rounding to nearest that this relies on.
#pragma once

#include "vec.hpp"

namespace pinion {
namespace trigonometry {

// What depends on the scalar type. `large` is 1.5 2^23 + 2^17 or 1.5 2^52 + 2^20. Added to 2x/pi it
// leaves k + 2^17 (k + 2^20) in the last bits; those of the mask `outside` are the bits of `inside`
// exactly where -2^17 <= k < 2^17.
template <class T> struct Parameters;
template <> struct Parameters<float> {
  static constexpr float two_over_pi = 0x1.45f306p-1f, large = 0x1.84p+23f;
  static constexpr int32_t outside = ~0x3ffff, inside = 0x4b400000, sign = INT32_MIN;
};
template <> struct Parameters<double> {
  static constexpr double two_over_pi = 0x1.45f306dc9c883p-1, large = 0x1.80000001p+52;
  static constexpr int64_t outside = ~0x1fffffll, inside = 0x4338000000000000ll, sign = INT64_MIN;
};

// Replaces s and c of lanes where `outside` is not zero by what the library gives.
#if PINION_ISA_CUDA
template <class V> PINION_INLINE void by_library(Ints<V> outside, V x, V &s, V &c) {
  if (outside == 0) return;
  if constexpr (sizeof(V) == 4)
    ::sincosf(x, &s, &c);
  else
    ::sincos(x, &s, &c);
}
#else
// Not inline and behind pointers, so that the code around the fast path keeps its registers. A
// float's sine is that of the double, rounded.
template <class V>
static PINION_COLD void lane_by_lane(const Ints<V> *outside, const V *x, V *s, V *c) {
  constexpr int lanes = Traits<V>::lanes;
  typename Traits<Scalar<V>>::ints marks[lanes];
  Scalar<V> angles[lanes], sines[lanes], cosines[lanes];
  memcpy(marks, outside, sizeof marks);
  memcpy(angles, x, sizeof angles);
  memcpy(sines, s, sizeof sines);
  memcpy(cosines, c, sizeof cosines);
  for (int lane = 0; lane < lanes; ++lane) {
    if (marks[lane] == 0) continue;
    sines[lane] = (Scalar<V>)__builtin_sin((double)angles[lane]);
    cosines[lane] = (Scalar<V>)__builtin_cos((double)angles[lane]);
  }
  memcpy(s, sines, sizeof sines);
  memcpy(c, cosines, sizeof cosines);
}
template <class V> PINION_INLINE void by_library(Ints<V> outside, V x, V &s, V &c) {
  if (__builtin_expect(!any(outside), 1)) return;
  // Copies, so that x, s and c themselves need no address.
  const Ints<V> marks = outside;
  const V angle = x;
  V sine = s, cosine = c;
  lane_by_lane(&marks, &angle, &sine, &cosine);
  s = sine;
  c = cosine;
}
#endif

// x - k pi/2 as r - tail. r1 = x - k p1 is exact where p1 has a float's or a double's precision and
// the product is fused: a multiple of p1's last place, and below 1.
//
// For floats, p2 has a float's precision too, and the tail is k p3: what the rounding of r loses
// remains lost.
#if !PINION_ISA_PORTABLE
template <class V> PINION_INLINE void reduce_float(V k, V x, V &r, V &tail) {
  r = fnma(k, splat<V>(0x1.4442d2p-24f), fnma(k, splat<V>(0x1.921fb4p+0f), x));
  tail = k * splat<V>(-0x1.ee59dap-50f);
}
#else
// Without fused products in doubles: k times p1, of 33 bits, is exact.
template <class D> PINION_INLINE void subtract_turns(const D &k, D &x) {
  x = x - k * 0x1.921fb544p+0 - k * 0x1.0b4611a626331p-34;
}
PINION_INLINE void reduce_float(float k, float x, float &r, float &tail) {
  double wide = x;
  subtract_turns((double)k, wide);
  r = (float)wide;
  tail = (float)((double)r - wide);
}
PINION_INLINE void reduce_float(f32v k, f32v x, f32v &r, f32v &tail) {
  typedef double f64w __attribute__((vector_size(2 * PINION_VECTOR_BYTES)));
  f64w wide = __builtin_convertvector(x, f64w);
  subtract_turns(__builtin_convertvector(k, f64w), wide);
  r = __builtin_convertvector(wide, f32v);
  tail = __builtin_convertvector(__builtin_convertvector(r, f64w) - wide, f32v);
}
#endif

// For doubles, k p2 is exact: k has 20 bits and a sign, p2 has 33. So the tail also has what the
// rounding of r loses, without error: r1 - r is exact, as r is exact or r1 is larger than k p2.
template <class V> PINION_INLINE void reduce_double(V k, V x, V &r, V &tail) {
#if !PINION_ISA_PORTABLE
  const V r1 = fnma(k, splat<V>(0x1.921fb54442d18p+0), x);
  r = fnma(k, splat<V>(0x1.1a626331p-54), r1);
  tail = fms(k, splat<V>(0x1.1a626331p-54), r1 - r);
  tail = fma(k, splat<V>(0x1.1701b839a252p-88), tail);
#else
  // The same with 33 bits a constant, p3 like p2.
  const V r1 = x - k * splat<V>(0x1.921fb544p+0), second = k * splat<V>(0x1.0b4611a6p-34);
  const V r2 = r1 - second, third = k * splat<V>(0x1.3198a2ep-69);
  r = r2 - third;
  tail = (second - (r1 - r2)) + (third - (r2 - r));
  tail = fma(k, splat<V>(0x1.b839a252049c1p-104), tail);
#endif
}

// sin and cos of r - tail, |r| <= 0.8.
template <class V> PINION_INLINE void evaluate_float(V r, V tail, V &s, V &c) {
  const V z = r * r;
  // sin(r - tail) = r - (tail - r (z P(z))), relative error of the polynomial at most 9.3e-10
  // (1 + 30 (r/0.8)^6); the best has 8.8e-10. +0 is added to z P, so that from r = -0 a +0 is
  // subtracted.
  V p = fma(z, splat<V>(-0x1.9abf5p-13f), splat<V>(0x1.110bbap-7f));
  p = fma(z, p, splat<V>(-0x1.55555p-3f));
  s = r - fnma(r, fma(z, p, splat<V>(0.0f)), tail);
  // cos(r - tail) = 1 + z (-1/2 + z P(z)), absolute error 1.3e-10. The tail, at most half an ulp
  // of r, is left out.
  p = fma(z, splat<V>(0x1.99d83ap-16f), splat<V>(-0x1.6c0c08p-10f));
  p = fma(z, p, splat<V>(0x1.55554ap-5f));
  p = fma(z, p, splat<V>(-0.5f));
  c = fma(z, p, splat<V>(1.0f));
}

// sin and cos of r - tail, |r| <= 0.7854.
template <class V> PINION_INLINE void evaluate_double(V r, V tail, V &s, V &c) {
  const V z = r * r, cube = r * z;
  // sin(r - tail) = r - (tail - r z P(z)), relative error of the polynomial 3.8e-18 (the best has
  // 3.7e-18). P is made with the other sign, so that from r = -0 a +0 is subtracted.
  V p = fma(z, splat<V>(-0x1.5d8b5584a6eeep-33), splat<V>(0x1.ae5e4b83b65b3p-26));
  p = fma(z, p, splat<V>(-0x1.71de35552b247p-19));
  p = fma(z, p, splat<V>(0x1.a01a019be9215p-13));
  p = fma(z, p, splat<V>(-0x1.111111110f730p-7));
  p = fma(z, p, splat<V>(0x1.5555555555548p-3));
  s = r - fma(cube, p, tail);
  // cos(r - tail) = 1 + r (tail + r z P(z) - r/2), absolute error 4.8e-20. Not 1 - z/2: the
  // rounding of z would be up to a quarter of an ulp of the cosine.
  p = fma(z, splat<V>(-0x1.8fb130eba80d3p-37), splat<V>(0x1.1ee9f15278c51p-29));
  p = fma(z, p, splat<V>(-0x1.27e4f812b6541p-22));
  p = fma(z, p, splat<V>(0x1.a01a019cbf628p-16));
  p = fma(z, p, splat<V>(-0x1.6c16c16c1521fp-10));
  p = fma(z, p, splat<V>(0x1.555555555554cp-5));
  p = fma(r, splat<V>(-0.5), fma(cube, p, tail));
  c = fma(r, p, splat<V>(1.0));
}

// From sine and cosine of r those of k pi/2 + r: s, c; c, -s; -s, -c; -c, s for k modulo 4. The
// last bits of `turns` hold k.
template <class V> PINION_INLINE void place(Ints<V> turns, V sine, V cosine, V &s, V &c) {
  const Ints<V> half = turns << (8 * sizeof(Scalar<V>) - 2);
  sine = from_bits<V>(bits(sine) ^ (half & Parameters<Scalar<V>>::sign));
  cosine = from_bits<V>(bits(cosine) ^ (half & Parameters<Scalar<V>>::sign));
  const Ints<V> odd = half << 1 < 0;
  s = select<V>(odd, cosine, sine);
  c = select<V>(odd, -sine, cosine);
}
#if PINION_ISA_AVX512
// The same in six instructions; compilers make eight or more of the above. 0x78: a ^ (b & c).
PINION_INLINE void place(i32v turns, f32v sine, f32v cosine, f32v &s, f32v &c) {
  const __m512i half = (__m512i)(turns << 30), sign = _mm512_set1_epi32(INT32_MIN);
  const __mmask16 odd = _mm512_test_epi32_mask((__m512i)turns, _mm512_set1_epi32(1));
  sine = (f32v)_mm512_ternarylogic_epi32((__m512i)sine, half, sign, 0x78);
  cosine = (f32v)_mm512_ternarylogic_epi32((__m512i)cosine, half, sign, 0x78);
  s = _mm512_mask_blend_ps(odd, sine, cosine);
  c = _mm512_mask_sub_ps(cosine, odd, _mm512_setzero_ps(), sine);
}
PINION_INLINE void place(i64v turns, f64v sine, f64v cosine, f64v &s, f64v &c) {
  const __m512i half = (__m512i)(turns << 62), sign = _mm512_set1_epi64(INT64_MIN);
  const __mmask8 odd = _mm512_test_epi64_mask((__m512i)turns, _mm512_set1_epi64(1));
  sine = (f64v)_mm512_ternarylogic_epi64((__m512i)sine, half, sign, 0x78);
  cosine = (f64v)_mm512_ternarylogic_epi64((__m512i)cosine, half, sign, 0x78);
  s = _mm512_mask_blend_pd(odd, sine, cosine);
  c = _mm512_mask_sub_pd(cosine, odd, _mm512_setzero_pd(), sine);
}
#endif

} // namespace trigonometry

// x : angle [rad]; s, c : its sine and cosine, which x is not.
template <class V> PINION_INLINE void sincos(V x, V &s, V &c) {
  typedef trigonometry::Parameters<Scalar<V>> P;
  const V shifted = fma(x, splat<V>(P::two_over_pi), splat<V>(P::large));
  const V k = shifted - splat<V>(P::large);
  const Ints<V> turns = bits(shifted);
  V r, tail, sine, cosine;
  if constexpr (sizeof(Scalar<V>) == 4) {
    trigonometry::reduce_float(k, x, r, tail);
    trigonometry::evaluate_float(r, tail, sine, cosine);
  } else {
    trigonometry::reduce_double(k, x, r, tail);
    trigonometry::evaluate_double(r, tail, sine, cosine);
  }
  trigonometry::place(turns, sine, cosine, s, c);
  trigonometry::by_library<V>((turns ^ P::inside) & P::outside, x, s, c);
}

} // namespace pinion
