// What a batch costs around its kernel: nanoseconds a sample of a kernel that only writes, called
// through arrays of every layout, beside a memcpy that moves as many bytes. Prints one JSON object.
// Compiled and started by batch.py.
#include <stdio.h>
#include <stdlib.h>

#include "runtime.cpp"

using namespace pinion;

// The gradient of the dynamics of an arm of 7 joints.
static const pinion_array INPUT[] = {{"q", 7}, {"qd", 7}, {"tau", 7}};
static const pinion_array OUTPUT[] = {{"qdd", 7}, {"dqdd_dq", 49}, {"dqdd_dqd", 49}};
constexpr int INPUTS = 3, OUTPUTS = 3, IN = 21, OUT = 105;

template <class T> void compute(const void *const *in, void *const *out) {
  typedef typename Widest<T>::type V;
  const V x = load<V>((const T *)in[0]), y = load<V>((const T *)in[1] + 6 * BLOCK);
  for (int o = 0; o < OUTPUTS; ++o)
    for (uint32_t e = 0; e < OUTPUT[o].size; e += 7) {
      T *const to = (T *)out[o] + e * BLOCK;
      store<V>(to, x), store<V>(to + BLOCK, y), store<V>(to + 2 * BLOCK, x);
      store<V>(to + 3 * BLOCK, y), store<V>(to + 4 * BLOCK, x), store<V>(to + 5 * BLOCK, y);
      store<V>(to + 6 * BLOCK, x);
    }
}

template <class F> double best(double units, F f) {
  double found = 1e300, spent = 0;
  for (int round = 0; round < 20000 && (round < 5 || spent < 2e8); ++round) {
    const int64_t start = nanoseconds();
    f();
    const double took = (double)(nanoseconds() - start);
    spent += took;
    if (took < found) found = took;
  }
  return found / units;
}

struct Space {
  char *base, *at;
  template <class T> T *take(size_t elements) {
    T *const p = (T *)at;
    at += (elements * sizeof(T) + 63) / 64 * 64 + 128;
    return p;
  }
};

template <class T> void measure(const char *name, unsigned threads) {
  typedef typename Widest<T>::type V;
  const pinion_kernel kernel = {PINION_ABI, sizeof(T), (uint32_t)Traits<V>::lanes, INPUTS, OUTPUTS,
                                INPUT,      OUTPUT,    compute<T>,                 "?"};
  static const char *const LAYOUTS[] = {"aos", "soa", "blocks"};
  static const size_t COUNTS[] = {1, 16, 4096, 100000, 1000000};
  const size_t largest = 1000000 + 64, bytes = (IN + OUT) * largest * sizeof(T) + 4096;
  Space space = {(char *)aligned_alloc(64, bytes / 64 * 64), nullptr};
  if (!space.base) exit(1);
  memset(space.base, 0, bytes / 64 * 64);
  printf("  \"%s\": {", name);
  const char *comma = "\n";
  for (size_t n : COUNTS) {
    const size_t whole = (n + BLOCK - 1) / BLOCK * BLOCK, calls = n < 100 ? 1000 : 1;
    printf("%s    \"%zu\": {", comma, n);
    comma = ",\n";
    for (int layout = PINION_AOS; layout <= PINION_BLOCKS; ++layout) {
      space.at = space.base;
      pinion_view in[INPUTS], out[OUTPUTS];
      for (int i = 0; i < INPUTS; ++i) {
        const int64_t size = INPUT[i].size;
        in[i] = {space.take<T>(size * whole), layout, layout == PINION_AOS ? size : (int64_t)whole};
      }
      for (int o = 0; o < OUTPUTS; ++o) {
        const int64_t size = OUTPUT[o].size;
        out[o] = {space.take<T>(size * whole), layout,
                  layout == PINION_AOS ? size : (int64_t)whole};
      }
      const double took = best((double)(n * calls), [&] {
        for (size_t c = 0; c < calls; ++c)
          if (pinion_run(&kernel, n, in, out, threads) != PINION_DONE) exit(1);
      });
      printf("\"%s\": %.2f, ", LAYOUTS[layout], took);
    }
    const size_t half = (IN + OUT) * n * sizeof(T) / 2;
    const double took = best((double)(n * calls), [&] {
      for (size_t c = 0; c < calls; ++c) {
        memcpy(space.base + bytes / 2 / 64 * 64, space.base, half);
        __asm__ volatile("" ::: "memory");
      }
    });
    printf("\"memcpy\": %.2f}", took);
    fflush(stdout);
  }
  printf("\n  }");
  free(space.base);
}

int main(int count, char **arguments) {
  const unsigned threads = count > 1 ? (unsigned)atoi(arguments[1]) : 1;
  printf("{\n");
  measure<float>("float32", threads);
  printf(",\n");
  measure<double>("float64", threads);
  printf("\n}\n");
}
