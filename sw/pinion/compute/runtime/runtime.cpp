// The runtime's functions: batches through kernels, and the search for what is not finite.
#include <atomic>

#include "abi.h"
#include "batch.hpp"
#include "pool.hpp"
#include "scratch.hpp"
#include "vec.hpp"

namespace pinion {
namespace {

// Scratch up to this size is on the stack; the gradients of an arm of 7 joints need 22 kB.
constexpr size_t STACK_BYTES = 32 << 10;
// The work for which a helper is worth waking, and the work that a thread takes at a time.
constexpr int64_t HELPER_NS = 15000, CHUNK_NS = 8000;

// Blocks that threads take, a chunk at a time.
struct Share {
  const Batch *batch;
  size_t chunk;
  alignas(128) std::atomic<size_t> next;
};

template <class T> void take_chunks(Share &share, void *scratch) {
  Range<T> range(*share.batch, scratch);
  const size_t blocks = share.batch->blocks;
  for (;;) {
    const size_t first = share.next.fetch_add(share.chunk, std::memory_order_relaxed);
    if (first >= blocks) return;
    const size_t rest = blocks - first;
    range.compute(first, first + (rest < share.chunk ? rest : share.chunk));
  }
}

// What a helper does. One that finds no memory leaves the work to the others.
template <class T> void help(void *context) {
  Share &share = *(Share *)context;
  if (share.batch->scratch <= STACK_BYTES) {
    alignas(64) char scratch[STACK_BYTES];
    take_chunks<T>(share, scratch);
  } else if (void *scratch = scratch_of_thread(share.batch->scratch)) {
    take_chunks<T>(share, scratch);
  }
}

template <class T> void run(const Batch &batch, void *scratch, unsigned threads) {
  Range<T> range(batch, scratch);
  if (threads == 1 || batch.blocks <= 2) return range.compute(0, batch.blocks);
  // The first block fetches the code, the second one tells what a block costs.
  range.compute(0, 1);
  const int64_t start = nanoseconds();
  range.compute(1, 2);
  const int64_t cost = nanoseconds() - start + 1, rest = (int64_t)batch.blocks - 2;
  int64_t helpers = rest * cost / HELPER_NS;
  if (helpers == 0) return range.compute(2, batch.blocks);
  Processors cpus;
  processors_of_caller(cpus);
  if (threads == 0) threads = cpus.count;
  if (helpers > (int64_t)threads - 1) helpers = (int64_t)threads - 1;
  if (helpers == 0) return range.compute(2, batch.blocks);
  const int64_t chunk = CHUNK_NS / cost;
  Share work;
  work.batch = &batch;
  work.chunk = chunk > 1 ? (size_t)chunk : 1;
  work.next.store(2, std::memory_order_relaxed);
  share((unsigned)helpers, cpus, help<T>, &work);
}

// Numbers with the largest exponent are infinite or no numbers at all. Less this exponent, those of
// all others are negative, and so is what their bits have in common.
template <class T> int64_t first_nonfinite(const T *x, size_t n) {
  typedef typename Widest<T>::type V;
  typedef Ints<V> I;
  typedef Ints<T> Integer;
  constexpr size_t L = Traits<V>::lanes, CHUNK = 4096 / sizeof(T);
  constexpr Integer EXPONENT = sizeof(T) == 4 ? 0x7f800000 : (Integer)0x7ff0000000000000;
  const I exponent = I{} + EXPONENT;
  for (size_t i = 0; i < n;) {
    const size_t end = n - i < CHUNK ? n : i + CHUNK;
    size_t j = i;
    I a = ~I{}, b = a, c = a, d = a;
    for (; j + 4 * L <= end; j += 4 * L) {
      a &= (bits<V>(load<V>(x + j)) & exponent) - exponent;
      b &= (bits<V>(load<V>(x + j + L)) & exponent) - exponent;
      c &= (bits<V>(load<V>(x + j + 2 * L)) & exponent) - exponent;
      d &= (bits<V>(load<V>(x + j + 3 * L)) & exponent) - exponent;
    }
    const bool found = any((I)((a & b & c & d) >= 0));
    for (j = found ? i : j; j < end; ++j)
      if ((bits<T>(x[j]) & EXPONENT) == EXPONENT) return (int64_t)j;
    i = end;
  }
  return -1;
}

} // namespace
} // namespace pinion

extern "C" {

PINION_API int PINION_RUN(const pinion_kernel *kernel, size_t n, const pinion_view *in,
                          const pinion_view *out, unsigned threads) {
  return PINION_RUN_FLAGGED(kernel, n, in, out, nullptr, threads);
}

PINION_API int PINION_RUN_FLAGGED(const pinion_kernel *kernel, size_t n, const pinion_view *in,
                                  const pinion_view *out, uint8_t *flags, unsigned threads) {
  using namespace pinion;
  Batch batch;
  const int fault = check(kernel, n, in, out, batch);
  batch.flags = flags;
  if (fault != PINION_DONE || n == 0) return fault;
  alignas(64) char stack[STACK_BYTES];
  void *scratch = stack;
  if (batch.scratch > sizeof stack) {
    scratch = scratch_of_thread(batch.scratch);
    if (!scratch) return PINION_NO_MEMORY;
  }
  if (kernel->bytes == 4)
    run<float>(batch, scratch, threads);
  else
    run<double>(batch, scratch, threads);
  return PINION_DONE;
}

PINION_API int64_t PINION_FIRST_NONFINITE(const void *data, int bytes, size_t n) {
  using namespace pinion;
  if (bytes == 4) return first_nonfinite((const float *)data, n);
  if (bytes == 8) return first_nonfinite((const double *)data, n);
  return -2;
}

} // extern "C"
