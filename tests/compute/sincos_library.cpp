// What test_sincos.py calls: sincos.hpp on arrays, and its errors against the C library.
#include <float.h>
#include <math.h>

#include "sincos.hpp"

namespace {

template <class V, class T> void run(long n, const T *x, T *s, T *c) {
  for (long i = 0; i < n; i += pinion::Traits<V>::lanes) {
    V sine, cosine;
    pinion::sincos(pinion::load<V>(x + i), sine, cosine);
    pinion::store<V>(s + i, sine);
    pinion::store<V>(c + i, cosine);
  }
}

// |value - exact| in units of the last place that a float or a double next to `exact` has. NaN is
// an error too.
double ulps(float value, double exact) {
  int exponent = 0;
  frexp(exact, &exponent);
  if (exponent < FLT_MIN_EXP) exponent = FLT_MIN_EXP;
  const double error = fabs(ldexp(value - exact, FLT_MANT_DIG - exponent));
  return error <= 1e9 ? error : 1e9;
}
double ulps(double value, long double exact) {
  int exponent = 0;
  frexpl(exact, &exponent);
  if (exponent < DBL_MIN_EXP) exponent = DBL_MIN_EXP;
  const double error = (double)fabsl(ldexpl(value - exact, DBL_MANT_DIG - exponent));
  return error <= 1e9 ? error : 1e9;
}

} // namespace

extern "C" {

int long_double_digits() { return LDBL_MANT_DIG; }
int float_lanes() { return pinion::Traits<pinion::f32v>::lanes; }
int double_lanes() { return pinion::Traits<pinion::f64v>::lanes; }

// What the C library makes of x, a float by way of the double.
void float_library(long n, const float *x, float *s, float *c) {
  for (long i = 0; i < n; ++i) s[i] = (float)sin((double)x[i]), c[i] = (float)cos((double)x[i]);
}
void double_library(long n, const double *x, double *s, double *c) {
  for (long i = 0; i < n; ++i) s[i] = sin(x[i]), c[i] = cos(x[i]);
}

// n a multiple of the lanes.
void float_vector(long n, const float *x, float *s, float *c) { run<pinion::f32v>(n, x, s, c); }
void double_vector(long n, const double *x, double *s, double *c) {
  run<pinion::f64v>(n, x, s, c);
}
void float_scalar(long n, const float *x, float *s, float *c) { run<float>(n, x, s, c); }
void double_scalar(long n, const double *x, double *s, double *c) { run<double>(n, x, s, c); }

void float_errors(long n, const float *x, const float *s, const float *c, double *es, double *ec) {
  for (long i = 0; i < n; ++i) {
    es[i] = ulps(s[i], sin((double)x[i]));
    ec[i] = ulps(c[i], cos((double)x[i]));
  }
}
void double_errors(long n, const double *x, const double *s, const double *c, double *es,
                   double *ec) {
  for (long i = 0; i < n; ++i) {
    es[i] = ulps(s[i], sinl(x[i]));
    ec[i] = ulps(c[i], cosl(x[i]));
  }
}

// The largest errors over all floats with bits from `first` to before `last`, every `step`-th.
void all_floats(uint32_t first, uint32_t last, uint32_t step, double *largest) {
  constexpr int lanes = pinion::Traits<pinion::f32v>::lanes;
  for (uint64_t start = first; start < last; start += (uint64_t)lanes * step) {
    float x[lanes], s[lanes], c[lanes];
    for (int i = 0; i < lanes; ++i) {
      const uint32_t pattern = (uint32_t)(start + (uint64_t)i * step);
      memcpy(x + i, &pattern, sizeof pattern);
    }
    run<pinion::f32v>(lanes, x, s, c);
    for (int i = 0; i < lanes; ++i) {
      const double es = ulps(s[i], sin((double)x[i]));
      const double ec = ulps(c[i], cos((double)x[i]));
      if (es > largest[0]) largest[0] = es;
      if (ec > largest[1]) largest[1] = ec;
    }
  }
}
}
