// A batch: arrays in any layout, block by block through a kernel.
//
// Arrays in blocks are handed to the kernel as they are, all others pass through a block in the L1
// cache. One thread's share of a batch is a range of blocks.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "abi.h"
#include "transpose.hpp"
#include "vec.hpp"

namespace pinion {
namespace {

// At this size in bytes or more, inputs and outputs together, outputs bypass the caches: they would
// evict each other before they are read, and a store that fills a line need not read it.
constexpr size_t STREAM_BYTES = size_t(16) << 20;
constexpr size_t LINE = 64;

// Stores around the caches, a whole number of lines to an address that 64 divides.
PINION_INLINE void stream_lines(void *to, const void *from, size_t bytes) {
#if defined(__SSE2__)
  char *t = (char *)to;
  const char *f = (const char *)from;
  for (size_t i = 0; i < bytes; i += LINE) {
#if PINION_ISA_AVX512
    _mm512_stream_si512((__m512i *)(t + i), _mm512_loadu_si512(f + i));
#elif PINION_ISA_AVX2
    const __m256i a = _mm256_loadu_si256((const __m256i *)(f + i));
    const __m256i b = _mm256_loadu_si256((const __m256i *)(f + i + 32));
    _mm256_stream_si256((__m256i *)(t + i), a);
    _mm256_stream_si256((__m256i *)(t + i + 32), b);
#else
    for (size_t j = i; j < i + LINE; j += 16)
      _mm_stream_si128((__m128i *)(t + j), _mm_loadu_si128((const __m128i *)(f + j)));
#endif
  }
#else
  memcpy(to, from, bytes);
#endif
}

// Other threads see what was streamed.
PINION_INLINE void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

PINION_INLINE bool lines(const void *data) { return (uintptr_t)data % LINE == 0; }

// What all threads of a call share.
struct Batch {
  const pinion_kernel *kernel;
  size_t samples, blocks;
  const pinion_view *in, *out;
  uint8_t *flags; // for each sample whether one of its results is not finite; or null
  bool large;
  size_t scratch; // bytes that a thread needs; its address is a multiple of 64

  // Where a thread's scratch keeps what: pointers for the kernel, 16 rows of the largest array, and
  // behind them the blocks.
  size_t rows_at, blocks_at;

  bool streams(uint32_t o) const {
    const pinion_view &view = out[o];
    if (!large || !lines(view.data)) return false;
    if (view.layout == PINION_AOS) return view.stride == (int64_t)kernel->output[o].size;
    return view.layout != PINION_SOA || view.stride * (int64_t)kernel->bytes % (int64_t)LINE == 0;
  }
};

// Looks at a call's arguments; returns PINION_DONE, PINION_BAD_KERNEL or PINION_BAD_VIEW.
inline int check(const pinion_kernel *k, size_t n, const pinion_view *in, const pinion_view *out,
                 Batch &batch) {
  if (!k || k->abi != PINION_ABI || (k->bytes != 4 && k->bytes != 8) || k->lanes == 0 ||
      k->lanes > BLOCK || (k->lanes & (k->lanes - 1)) != 0 || !k->compute)
    return PINION_BAD_KERNEL;
  size_t elements = 0, largest = 0, blocks = 0;
  for (uint32_t i = 0; i < k->inputs; ++i) {
    const size_t size = k->input[i].size;
    const bool direct = in[i].layout == PINION_BLOCKS;
    if (in[i].layout < PINION_AOS || in[i].layout > PINION_ONE) return PINION_BAD_VIEW;
    if (!in[i].data && size && n) return PINION_BAD_VIEW;
    if (in[i].layout != PINION_ONE) elements += size;
    if (!direct) blocks += size;
    if (size > largest) largest = size;
  }
  for (uint32_t o = 0; o < k->outputs; ++o) {
    const size_t size = k->output[o].size;
    const int64_t stride = out[o].stride, apart = stride < 0 ? -stride : stride;
    if (out[o].layout < PINION_AOS || out[o].layout > PINION_BLOCKS) return PINION_BAD_VIEW;
    if (!out[o].data && size && n) return PINION_BAD_VIEW;
    if (out[o].layout == PINION_AOS && n > 1 && (size_t)apart < size) return PINION_BAD_VIEW;
    if (out[o].layout == PINION_SOA && size > 1 && (size_t)apart < n) return PINION_BAD_VIEW;
    elements += size;
    blocks += size;
    if (size > largest) largest = size;
  }
  batch.kernel = k;
  batch.samples = n;
  batch.blocks = n / BLOCK + (n % BLOCK != 0);
  batch.in = in;
  batch.out = out;
  batch.large = (double)n * (double)(elements * k->bytes) >= (double)STREAM_BYTES;
  const size_t pointers = ((size_t)k->inputs + k->outputs) * sizeof(void *);
  batch.rows_at = (pointers + LINE - 1) / LINE * LINE;
  batch.blocks_at = batch.rows_at + largest * BLOCK * k->bytes;
  batch.scratch = batch.blocks_at + blocks * BLOCK * k->bytes;
  return PINION_DONE;
}

// 16 contiguous elements.
template <class T> PINION_INLINE void copy16(T *to, const T *from) {
  typedef Pieces<T> P;
  for (int i = 0; i < BLOCK; i += P::N * P::Q) P::store(to + i, P::load(from + i));
}

// Fewer than 16, in parts of constant sizes.
template <int PART = BLOCK / 2, class T>
PINION_INLINE void copy_part(T *to, const T *from, int count) {
  if (count & PART) {
    memcpy(to, from, PART * sizeof(T));
    to += PART;
    from += PART;
  }
  if constexpr (PART > 1) copy_part<PART / 2>(to, from, count);
}

// 16 times the same.
template <class T> PINION_INLINE void fill16(T *to, T value) {
  typedef typename Widest<T>::type V;
  for (int i = 0; i < BLOCK; i += Traits<V>::lanes) store<V>(to + i, splat<V>(value));
}

// Lets the samples of a block from `count` on, which are at least one less than all, repeat the
// last one before.
template <class T> void repeat_last(T *block, size_t size, int count) {
  typedef typename Widest<T>::type V;
  constexpr int L = Traits<V>::lanes;
  Ints<V> behind[BLOCK / L];
  for (int s = 0; s < BLOCK; ++s) behind[s / L][s % L] = s < count ? 0 : -1;
  for (size_t e = 0; e < size; ++e, block += BLOCK) {
    const V last = splat<V>(block[count - 1]);
    for (int i = 0; i < BLOCK / L; ++i)
      store<V>(block + i * L, select<V>(behind[i], last, load<V>(block + i * L)));
  }
}

// The first sample of a block to elements that are `step` apart.
template <class T>
PINION_INLINE void first_sample(const T *block, size_t size, T *to, ptrdiff_t step) {
  for (; size >= 4; size -= 4, block += 4 * BLOCK, to += 4 * step) {
    const T a = block[0], b = block[BLOCK], c = block[2 * BLOCK], d = block[3 * BLOCK];
    to[0] = a;
    to[step] = b;
    to[2 * step] = c;
    to[3 * step] = d;
  }
  for (; size > 0; --size, block += BLOCK, to += step) *to = *block;
}

// Rows of `size` elements, each set of them with its stride.
template <class T>
PINION_INLINE void copy_rows(T *to, ptrdiff_t apart, const T *from, ptrdiff_t pitch, size_t size,
                             int rows) {
  if (apart == pitch && pitch == (ptrdiff_t)size) {
    memcpy(to, from, rows * size * sizeof(T));
    return;
  }
  for (int s = 0; s < rows; ++s) memcpy(to + s * apart, from + s * pitch, size * sizeof(T));
}

// Which samples of a block have results that are not finite: zero times an infinity or NaN is NaN,
// and stays in a sum. One instruction a vector, on what was computed just now.
template <class T> class NotFinite {
  typedef typename Widest<T>::type V;
  static constexpr int L = Traits<V>::lanes, N = BLOCK / L, SUMS = N < 8 ? 8 / N : 1;
  V sum[SUMS][N] = {};

  PINION_INLINE void add_row(V (&to)[N], const T *row) {
    PINION_UNROLL
    for (int i = 0; i < N; ++i) to[i] = fma(load<V>(row + i * L), V{}, to[i]);
  }

public:
  PINION_INLINE void add(const T *block, size_t size) {
    size_t e = 0;
    for (; e + SUMS <= size; e += SUMS) {
      PINION_UNROLL
      for (int s = 0; s < SUMS; ++s) add_row(sum[s], block + (e + s) * BLOCK);
    }
    for (; e < size; ++e) add_row(sum[0], block + e * BLOCK);
  }

  PINION_INLINE void write(uint8_t *flags, int count) {
    V all = {};
    PINION_UNROLL
    for (int i = 0; i < N; ++i) {
      PINION_UNROLL
      for (int s = 1; s < SUMS; ++s) sum[0][i] += sum[s][i];
      all += sum[0][i];
    }
    if (any((Ints<V>)(all != all))) return write_some(flags, count);
    if (count == BLOCK)
      memset(flags, 0, BLOCK);
    else
      memset(flags, 0, (size_t)count);
  }

private:
  PINION_COLD void write_some(uint8_t *flags, int count) {
    for (int s = 0; s < count; ++s) flags[s] = sum[0][s / L][s % L] != 0; // NaN, or zero
  }
};

// A thread's share of a batch. T is float or double; neither computes with it.
template <class T> class Range {
public:
  Range(const Batch &batch, void *scratch)
      : batch(batch), k(*batch.kernel), ins((const void **)scratch),
        outs((void **)scratch + k.inputs), rows((T *)((char *)scratch + batch.rows_at)),
        blocks((T *)((char *)scratch + batch.blocks_at)) {
    T *block = blocks;
    for (uint32_t i = 0; i < k.inputs; ++i) {
      const size_t size = k.input[i].size;
      const pinion_view &view = batch.in[i];
      if (view.layout == PINION_ONE)
        for (size_t e = 0; e < size; ++e) fill16(block + e * BLOCK, ((const T *)view.data)[e]);
      if (view.layout != PINION_BLOCKS) block += size * BLOCK;
    }
  }

  // The blocks from `first` to before `last`.
  void compute(size_t first, size_t last) {
    for (size_t b = first; b < last; ++b) {
      const size_t start = b * BLOCK, left = batch.samples - start;
      one_block(b, left < BLOCK ? (int)left : BLOCK);
    }
    if (batch.large) stream_fence();
  }

private:
  const Batch &batch;
  const pinion_kernel &k;
  const void **ins;
  void **outs;
  T *rows, *blocks;

  // Block b, of which `count` samples exist.
  PINION_INLINE void one_block(size_t b, int count) {
    T *block = blocks;
    for (uint32_t i = 0; i < k.inputs; ++i) {
      const size_t size = k.input[i].size;
      const pinion_view &view = batch.in[i];
      if (view.layout == PINION_BLOCKS) {
        ins[i] = (const T *)view.data + b * BLOCK * size;
        continue;
      }
      if (view.layout != PINION_ONE) take(view, size, b, count, block);
      ins[i] = block;
      block += size * BLOCK;
    }
    T *const results = block;
    for (uint32_t o = 0; o < k.outputs; ++o) {
      const size_t size = k.output[o].size;
      const pinion_view &view = batch.out[o];
      outs[o] = view.layout == PINION_BLOCKS && !batch.streams(o)
                    ? (T *)view.data + b * BLOCK * size
                    : block;
      block += size * BLOCK;
    }
    k.compute(ins, outs);
    for (int lane = (int)k.lanes; lane < count; lane += (int)k.lanes) {
      for (uint32_t i = 0; i < k.inputs; ++i) ins[i] = (const T *)ins[i] + k.lanes;
      for (uint32_t o = 0; o < k.outputs; ++o) outs[o] = (T *)outs[o] + k.lanes;
      k.compute(ins, outs);
    }
    if (batch.flags) {
      NotFinite<T> found;
      block = results;
      for (uint32_t o = 0; o < k.outputs; ++o) {
        const size_t size = k.output[o].size;
        const pinion_view &view = batch.out[o];
        const bool direct = view.layout == PINION_BLOCKS && !batch.streams(o);
        found.add(direct ? (const T *)view.data + b * BLOCK * size : block, size);
        block += size * BLOCK;
      }
      found.write(batch.flags + b * BLOCK, count);
    }
    block = results;
    for (uint32_t o = 0; o < k.outputs; ++o) {
      const size_t size = k.output[o].size;
      give(batch.out[o], size, b, count, block, batch.streams(o));
      block += size * BLOCK;
    }
  }

  // Samples of an input to a block. Lanes behind the last sample repeat it.
  void take(const pinion_view &view, size_t size, size_t b, int count, T *block) {
    const T *from = (const T *)view.data;
    const ptrdiff_t stride = (ptrdiff_t)view.stride, width = (ptrdiff_t)size;
    if (view.layout == PINION_AOS) {
      from += (ptrdiff_t)(b * BLOCK) * stride;
      if (count == BLOCK) return to_block(from, stride, size, block);
      if (count > 1) {
        copy_rows(rows, width, from, stride, size, count);
        to_block(rows, width, size, block);
        return repeat_last(block, size, count);
      }
      for (size_t e = 0; e < size; ++e) fill16(block + e * BLOCK, from[e]);
      return;
    }
    from += b * BLOCK;
    if (count == BLOCK) {
      for (size_t e = 0; e < size; ++e, from += stride) copy16(block + e * BLOCK, from);
    } else if (count > 1) {
      for (size_t e = 0; e < size; ++e, from += stride) copy_part(block + e * BLOCK, from, count);
      repeat_last(block, size, count);
    } else {
      for (size_t e = 0; e < size; ++e, from += stride) fill16(block + e * BLOCK, *from);
    }
  }

  // A block to samples of an output.
  void give(const pinion_view &view, size_t size, size_t b, int count, const T *block,
            bool streamed) {
    T *to = (T *)view.data;
    const ptrdiff_t stride = (ptrdiff_t)view.stride, width = (ptrdiff_t)size;
    if (view.layout == PINION_BLOCKS) {
      if (streamed) stream_lines(to + b * BLOCK * size, block, size * BLOCK * sizeof(T));
      return;
    }
    if (view.layout == PINION_AOS) {
      to += (ptrdiff_t)(b * BLOCK) * stride;
      if (count == 1) return first_sample(block, size, to, 1);
      if (count == BLOCK && !streamed) return from_block(block, size, to, stride);
      from_block(block, size, rows, width);
      if (count == BLOCK) return stream_lines(to, rows, size * BLOCK * sizeof(T));
      return copy_rows(to, stride, rows, width, size, count);
    }
    to += b * BLOCK;
    if (count == 1) return first_sample(block, size, to, stride);
    for (size_t e = 0; e < size; ++e, to += stride, block += BLOCK) {
      if (streamed && count == BLOCK)
        stream_lines(to, block, BLOCK * sizeof(T));
      else if (count == BLOCK)
        copy16(to, block);
      else
        copy_part(to, block, count);
    }
  }
};

} // namespace
} // namespace pinion
