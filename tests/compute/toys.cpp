// Kernels whose results are known exactly, linked with the batch runtime.
#include <pthread.h>
#include <time.h>

#include <atomic>

#include "runtime.cpp"

using namespace pinion;

// How many vectors were computed, and by which threads. No locks: a fork could find them taken.
static std::atomic<unsigned> calls;
static std::atomic<uintptr_t> seen[64];
// So many threads have to meet in a kernel before any of them goes on after the first few calls.
static std::atomic<unsigned> crowd;
constexpr unsigned BEFORE_MEETING = 8;

static unsigned count_seen() {
  unsigned count = 0;
  while (count < 64 && seen[count].load()) ++count;
  return count;
}

static void attend() {
  const unsigned call = calls.fetch_add(1);
  if (!crowd.load()) return;
  const uintptr_t self = (uintptr_t)pthread_self();
  for (auto &slot : seen) {
    uintptr_t found = 0;
    if (slot.compare_exchange_strong(found, self) || found == self) break;
  }
  // Slow enough that the work is worth sharing.
  const timespec moment = {0, 20000};
  do nanosleep(&moment, nullptr);
  while (call >= BEFORE_MEETING && count_seen() < crowd.load());
}

// What the last call found in the lanes of its first element.
static double last_lanes[BLOCK];

// Inputs a1, a2, ... of these sizes; outputs b1, b2, ...: element e is 2 a[e] - (e + 1) a1.
static const pinion_array A[] = {{"a1", 1},   {"a2", 2},   {"a3", 3},   {"a7", 7},  {"a12", 12},
                                 {"a16", 16}, {"a17", 17}, {"a30", 30}, {"a49", 49}};
static const pinion_array B[] = {{"b1", 1},   {"b2", 2},   {"b3", 3},   {"b7", 7},  {"b12", 12},
                                 {"b16", 16}, {"b17", 17}, {"b30", 30}, {"b49", 49}};
constexpr uint32_t PAIRS = sizeof A / sizeof *A;

template <class T> void sums(const void *const *in, void *const *out) {
  typedef typename Widest<T>::type V;
  attend();
  const V a1 = load<V>((const T *)in[0]);
  if (!crowd.load())
    for (int i = 0; i < Traits<V>::lanes; ++i) last_lanes[i] = (double)a1[i];
  for (uint32_t i = 0; i < PAIRS; ++i)
    for (uint32_t e = 0; e < A[i].size; ++e) {
      const V a = load<V>((const T *)in[i] + e * BLOCK);
      store<V>((T *)out[i] + e * BLOCK, a + a - splat<V>((T)(e + 1)) * a1);
    }
}

// Arrays that no stack should hold: the output is the input, bit for bit.
static const pinion_array WIDE_IN[] = {{"x", 301}};
static const pinion_array WIDE_OUT[] = {{"y", 301}};

template <class T> void copies(const void *const *in, void *const *out) {
  typedef typename Widest<T>::type V;
  attend();
  for (uint32_t e = 0; e < WIDE_IN[0].size; ++e)
    store<V>((T *)out[0] + e * BLOCK, load<V>((const T *)in[0] + e * BLOCK));
}

template <class T>
static const pinion_kernel SUMS = {PINION_ABI,
                                   sizeof(T),
                                   (uint32_t)Traits<typename Widest<T>::type>::lanes,
                                   PAIRS,
                                   PAIRS,
                                   A,
                                   B,
                                   sums<T>,
                                   "toy"};
template <class T>
static const pinion_kernel COPIES = {PINION_ABI,
                                     sizeof(T),
                                     (uint32_t)Traits<typename Widest<T>::type>::lanes,
                                     1,
                                     1,
                                     WIDE_IN,
                                     WIDE_OUT,
                                     copies<T>,
                                     "toy"};

extern "C" {
const pinion_kernel *sums_kernel(int bytes) { return bytes == 4 ? &SUMS<float> : &SUMS<double>; }
const pinion_kernel *copies_kernel(int bytes) {
  return bytes == 4 ? &COPIES<float> : &COPIES<double>;
}
// Forgets what was counted; from now on so many threads have to meet (0: none, at full speed).
void expect_crowd(unsigned threads) {
  calls.store(0);
  for (auto &slot : seen) slot.store(0);
  crowd.store(threads);
}
unsigned count_calls() { return calls.load(); }
const double *lanes_of_last_call() { return last_lanes; }
unsigned count_threads() { return count_seen(); }
}
