// How fast this machine multiplies and adds, and moves bytes: the limits that kernels are measured
// against.
#include <time.h>

#include "batch.hpp"
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
// need 14 registers. Each chain is a variable of its own: gcc 12 stores the elements of an array
// in every turn, and then the stores are what is measured.
template <class V> double one_round(int turns) {
  V a = splat<V>((Scalar<V>)0.999), b = splat<V>((Scalar<V>)0.001);
  PINION_KEEP(a);
  PINION_KEEP(b);
#define PINION_CHAINS(each)                                                                        \
  each(x0) each(x1) each(x2) each(x3) each(x4) each(x5)                                            \
  each(x6) each(x7) each(x8) each(x9) each(x10) each(x11)
#define PINION_START(x) V x = a;
#define PINION_TURN(x)                                                                             \
  x = fma(x, a, b);                                                                                \
  PINION_KEEP(x);
  PINION_CHAINS(PINION_START)
  const double start = nanoseconds();
  for (int turn = 0; turn < turns; ++turn) {
    PINION_CHAINS(PINION_TURN)
  }
#undef PINION_TURN
#undef PINION_START
#undef PINION_CHAINS
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

// Reads `in` and writes `out`, each a number of records with as many whole cache lines as given,
// and computes nothing; `stream` is whether stores go around the caches.
extern "C" __attribute__((visibility("default"))) void
pinion_copy(const char *in, size_t in_lines, char *out, size_t out_lines, size_t records,
            int stream) {
  using namespace pinion;
  uint64_t seen = 0;
  for (size_t r = 0; r < records; ++r, in += in_lines * LINE, out += out_lines * LINE) {
    for (size_t k = 0; k < out_lines; ++k) {
      const char *from = in + k % in_lines * LINE;
      if (stream)
        stream_lines(out + k * LINE, from, LINE);
      else
        memcpy(out + k * LINE, from, LINE);
    }
    for (size_t k = out_lines; k < in_lines; ++k) seen ^= *(const uint64_t *)(in + k * LINE);
  }
  asm volatile("" : : "r"(seen) : "memory");
  stream_fence();
}
