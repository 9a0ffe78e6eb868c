// Scans of any associative operation by the threads of a warp, of a block or of a whole grid.
//
// An operation is a struct
//
//     struct Op {
//       typedef ... Word;      // float or double
//       typedef ... Element;   // a plain struct of Words and nothing else
//       static Element none(); // combine(none(), x) = combine(x, none()) = x
//       static Element combine(const Element &first, const Element &then);
//     };
//
// `first` is nearer to where the scan begins: at thread 0, or at the last thread when it runs
// backward. Elements need not commute. Every thread of the scope gives one element (one that has
// nothing gives none()) and gets the combination of all before it: an exclusive scan. A thread that
// has several links folds them into its element first, and afterwards goes through its links once
// more from what it got:
//
//     Scope scope(shared, scratch, n);                      // Warp, Block or Grid; scope.robot()
//     const int begin = scope.thread() * K, end = min(begin + K, n);
//     Element own = Op::none();
//     for (int i = begin; i < end; ++i) own = Op::combine(own, element of link i);
//     Element before = scope.template exclusive<Op, false>(own);
//     for (int i = begin; i < end; ++i) ... // the recursion of a thread, from `before`
//
// Method: within a warp Hillis and Steele 1986 by shuffles, five levels, every lane a combination
// at each; the warps' totals by one warp in the same way; the blocks' totals by the first warp of
// every block for itself. Levels: ceil(log2 t) for a warp of t lanes that have something, at most
// 10 in a block, one grid barrier more for a grid.
// Threads: all of the scope call together. Scopes are of one dimension and of whole warps.
// Memory: shared memory for one element a warp, which the next scan may use too
// (Shape.shared_bytes in chains/kernels/device_chain.py); a grid takes an element a block and a
// scan of device memory besides (Shape.scratch_bytes).
#pragma once

#include "chain.cuh"

// The type of a word in shared memory; a test puts one here that notes who reads and writes it.
#ifndef PINION_SHARED
#define PINION_SHARED(T) T
#endif

// All threads of all blocks of a cooperative launch wait for each other, and see what any of them
// wrote before. `counter` is one word of device memory, zero before the first launch: each block
// adds one, the first block what is missing to the sign bit, whose change everybody waits for, so
// that it needs no clearing after. (As cooperative groups do it, whose headers NVRTC does not
// bring.)
#ifndef PINION_GRID_BARRIER
#define PINION_GRID_BARRIER(counter) pinion::parallel::grid_barrier(counter)
#endif

namespace pinion {
namespace parallel {

constexpr unsigned ALL_LANES = 0xffffffffu;

#ifndef PINION_CUDA_HOST
PINION_INLINE void grid_barrier(unsigned *counter) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned add = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u;
    __threadfence();
    const unsigned before = atomicAdd(counter, add);
    while (((before ^ *(volatile unsigned *)counter) & 0x80000000u) == 0) {
    }
    __threadfence();
  }
  __syncthreads();
}
#endif

// The element of the lane that is `distance` lanes nearer to the beginning; one's own where there
// is none.
template <class Op, bool BACKWARD>
PINION_INLINE typename Op::Element shifted(const typename Op::Element &own, int distance) {
  typedef typename Op::Word Word;
  typename Op::Element found = own;
  Word *const words = (Word *)&found;
#pragma unroll
  for (int k = 0; k < (int)(sizeof found / sizeof(Word)); ++k) {
    if constexpr (BACKWARD)
      words[k] = __shfl_down_sync(ALL_LANES, words[k], distance);
    else
      words[k] = __shfl_up_sync(ALL_LANES, words[k], distance);
  }
  return found;
}

// The element of a lane, for all lanes.
template <class Op>
PINION_INLINE typename Op::Element from_lane(const typename Op::Element &own, int lane) {
  typedef typename Op::Word Word;
  typename Op::Element found = own;
  Word *const words = (Word *)&found;
#pragma unroll
  for (int k = 0; k < (int)(sizeof found / sizeof(Word)); ++k)
    words[k] = __shfl_sync(ALL_LANES, words[k], lane);
  return found;
}

template <class Op, bool BACKWARD>
PINION_INLINE typename Op::Element warp_inclusive(typename Op::Element own, int lanes = WARP) {
  const int lane = (int)threadIdx.x % WARP;
#pragma unroll 1
  for (int distance = 1; distance < lanes; distance *= 2) {
    const typename Op::Element before = shifted<Op, BACKWARD>(own, distance);
    if (BACKWARD ? lane + distance < WARP : lane >= distance) own = Op::combine(before, own);
  }
  return own;
}

template <class Op, bool BACKWARD>
PINION_INLINE typename Op::Element made_exclusive(const typename Op::Element &inclusive) {
  const int lane = (int)threadIdx.x % WARP;
  const typename Op::Element before = shifted<Op, BACKWARD>(inclusive, 1);
  return lane == (BACKWARD ? WARP - 1 : 0) ? Op::none() : before;
}

// An element in shared memory, and in device memory, where elements follow each other.
template <class Op> PINION_INLINE typename Op::Element taken(const void *words, int number) {
  typedef typename Op::Word Word;
  typename Op::Element found;
  constexpr int count = (int)(sizeof found / sizeof(Word));
  const PINION_SHARED(Word) *const from = (const PINION_SHARED(Word) *)words + number * count;
#pragma unroll
  for (int k = 0; k < count; ++k) ((Word *)&found)[k] = from[k];
  return found;
}
template <class Op>
PINION_INLINE void kept(void *words, int number, const typename Op::Element &element) {
  typedef typename Op::Word Word;
  constexpr int count = (int)(sizeof element / sizeof(Word));
  PINION_SHARED(Word) *const to = (PINION_SHARED(Word) *)words + number * count;
#pragma unroll
  for (int k = 0; k < count; ++k) to[k] = ((const Word *)&element)[k];
}

// A warp computes a robot; several in a block do not meet. lanes: those after the first so many
// have nothing to give.
struct Warp {
  int lanes;
  PINION_INLINE Warp(void *, void *, long long n) : lanes(n < WARP ? (int)n : WARP) {}
  PINION_INLINE long long robot() const {
    return (long long)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
  }
  PINION_INLINE int thread() const { return (int)threadIdx.x % WARP; }
  PINION_INLINE int threads() const { return WARP; }
  PINION_INLINE void sync() const { __syncwarp(); }
  template <class Op, bool BACKWARD>
  PINION_INLINE typename Op::Element exclusive(const typename Op::Element &own) const {
    return made_exclusive<Op, BACKWARD>(warp_inclusive<Op, BACKWARD>(own, lanes));
  }
};

// A block computes a robot. shared: an element a warp.
struct Block {
  void *shared;
  PINION_INLINE Block(void *shared, void *, long long) : shared(shared) {}
  PINION_INLINE long long robot() const { return blockIdx.x; }
  PINION_INLINE int thread() const { return (int)threadIdx.x; }
  PINION_INLINE int threads() const { return (int)blockDim.x; }
  PINION_INLINE void sync() const { __syncthreads(); }

  template <class Op, bool BACKWARD>
  PINION_INLINE typename Op::Element exclusive(const typename Op::Element &own) const {
    const int warps = (int)blockDim.x / WARP, warp = (int)threadIdx.x / WARP;
    typename Op::Element before = within_warp<Op, BACKWARD>(own, warps > 1);
    if (warps == 1) return before;
    scan_totals<Op, BACKWARD>();
    if (warp != (BACKWARD ? warps - 1 : 0))
      before = Op::combine(taken<Op>(shared, BACKWARD ? warp + 1 : warp - 1), before);
    __syncthreads(); // before the next scan writes there
    return before;
  }

  // What is before a thread in its warp; the warp's total goes to shared memory if it is wanted.
  template <class Op, bool BACKWARD>
  PINION_INLINE typename Op::Element within_warp(const typename Op::Element &own,
                                                 bool wanted) const {
    const typename Op::Element up_to = warp_inclusive<Op, BACKWARD>(own);
    if (wanted && (int)threadIdx.x % WARP == (BACKWARD ? 0 : WARP - 1))
      kept<Op>(shared, (int)threadIdx.x / WARP, up_to);
    return made_exclusive<Op, BACKWARD>(up_to);
  }
  // The scan of the warps' totals, in their place.
  template <class Op, bool BACKWARD> PINION_INLINE void scan_totals() const {
    const int warps = (int)blockDim.x / WARP, lane = (int)threadIdx.x;
    __syncthreads();
    if (lane < WARP) {
      typename Op::Element sum = lane < warps ? taken<Op>(shared, lane) : Op::none();
      sum = warp_inclusive<Op, BACKWARD>(sum, warps);
      if (lane < warps) kept<Op>(shared, lane, sum);
    }
    __syncthreads();
  }
};

// All blocks of a cooperative launch compute one robot. shared: as for Block; scratch: device
// memory, first 16 bytes that are zero before the first launch, the barrier's counter, then for
// each scan of a kernel an element a block.
struct Grid {
  void *shared;
  unsigned *counter;
  void *totals;
  PINION_INLINE Grid(void *shared, void *scratch, long long)
      : shared(shared), counter((unsigned *)scratch), totals((char *)scratch + 16) {}
  PINION_INLINE long long robot() const { return 0; }
  PINION_INLINE int thread() const { return (int)(blockIdx.x * blockDim.x + threadIdx.x); }
  PINION_INLINE int threads() const { return (int)(gridDim.x * blockDim.x); }
  PINION_INLINE void sync() const { PINION_GRID_BARRIER(counter); }

  template <class Op, bool BACKWARD>
  PINION_INLINE typename Op::Element exclusive(const typename Op::Element &own) {
    typedef typename Op::Word Word;
    typedef typename Op::Element Element;
    constexpr int count = (int)(sizeof(Element) / sizeof(Word));
    const Block block(shared, nullptr, 0);
    const int blocks = (int)gridDim.x, mine = (int)blockIdx.x;
    const int warps = (int)blockDim.x / WARP, warp = (int)threadIdx.x / WARP;
    Element before = block.within_warp<Op, BACKWARD>(own, true);
    block.scan_totals<Op, BACKWARD>();
    if (warp != (BACKWARD ? warps - 1 : 0))
      before = Op::combine(taken<Op>(shared, BACKWARD ? warp + 1 : warp - 1), before);
    // The block's total is that of the last warp and those before it.
    volatile Word *const all = (volatile Word *)totals;
    totals = (Word *)totals + (long long)count * blocks;
    const PINION_SHARED(Word) *const total =
        (const PINION_SHARED(Word) *)shared + (BACKWARD ? 0 : warps - 1) * count;
    for (int k = (int)threadIdx.x; k < count; k += (int)blockDim.x)
      all[(long long)mine * count + k] = total[k];
    PINION_GRID_BARRIER(counter);
    // Blocks before this one, 32 at a time; the order of the scan is 0, 1, ... from its beginning.
    const int ahead = BACKWARD ? blocks - 1 - mine : mine;
    if (warp == 0) {
      Element sum = Op::none();
#pragma unroll 1
      for (int chunk = 0; chunk < ahead; chunk += WARP) {
        const int place = chunk + (int)threadIdx.x;
        Element one = Op::none();
        if (place < ahead) {
          const int at = BACKWARD ? blocks - 1 - place : place;
#pragma unroll
          for (int k = 0; k < count; ++k) ((Word *)&one)[k] = all[(long long)at * count + k];
        }
        one = from_lane<Op>(warp_inclusive<Op, false>(one), WARP - 1);
        sum = Op::combine(sum, one);
      }
      if (threadIdx.x == 0) kept<Op>(shared, 0, sum);
    }
    __syncthreads();
    before = Op::combine(taken<Op>(shared, 0), before);
    __syncthreads();
    return before;
  }
};

// One thread computes a robot, waits for no other and scans nothing.
struct Thread {
  PINION_INLINE Thread(void *, void *, long long) {}
  PINION_INLINE long long robot() const {
    return (long long)blockIdx.x * blockDim.x + threadIdx.x;
  }
  PINION_INLINE int thread() const { return 0; }
  PINION_INLINE int threads() const { return 1; }
  PINION_INLINE void sync() const {}
};

} // namespace parallel
} // namespace pinion
