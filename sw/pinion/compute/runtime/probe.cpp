// How fast this machine multiplies and adds: the limit that kernels are measured against.
#include <time.h>

#include "vec.hpp"

namespace pinion {
namespace {

double nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

#if PINION_ISA_PORTABLE
#define PINION_KEEP(x) asm volatile("" : "+x"(x))
#elif PINION_ISA_NEON
#define PINION_KEEP(x) asm volatile("" : "+w"(x))
#else
#define PINION_KEEP(x) asm volatile("" : "+v"(x))
#endif

// Twelve chains keep two units with six cycles of latency busy; with two operands and a sum they
// need 14 registers.
template <class V> double one_round(int turns) {
  V x[12];
  for (int k = 0; k < 12; ++k) x[k] = splat<V>((Scalar<V>)k);
  V a = splat<V>((Scalar<V>)0.999), b = splat<V>((Scalar<V>)0.001);
  PINION_KEEP(a);
  PINION_KEEP(b);
  const double start = nanoseconds();
  for (int turn = 0; turn < turns; ++turn) {
#define PINION_TURN(k)                                                                             \
  x[k] = fma(x[k], a, b);                                                                          \
  PINION_KEEP(x[k]);
    PINION_TURN(0) PINION_TURN(1) PINION_TURN(2) PINION_TURN(3)
    PINION_TURN(4) PINION_TURN(5) PINION_TURN(6) PINION_TURN(7)
    PINION_TURN(8) PINION_TURN(9) PINION_TURN(10) PINION_TURN(11)
#undef PINION_TURN
  }
  return (nanoseconds() - start) / (12.0 * turns);
}

} // namespace
} // namespace pinion

// Nanoseconds of a fused multiply-add of vectors, of doubles when `bytes` is 8, else of floats.
extern "C" __attribute__((visibility("default"))) double pinion_fma_ns(int bytes) {
  const int turns = 20000;
  return bytes == 8 ? pinion::one_round<pinion::f64v>(turns)
                    : pinion::one_round<pinion::f32v>(turns);
}
