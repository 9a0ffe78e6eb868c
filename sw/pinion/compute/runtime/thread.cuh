// What a printed kernel reads and writes where each thread of a GPU computes one sample.
//
// An array is named by where its first sample begins and how far apart samples and elements are, so
// any layout will do: structure of arrays (samples next to each other), array of structures
// (elements next to each other), one sample that serves all (samples no distance apart), slices of
// other arrays. Threads of a warp compute samples that follow each other; they read whole lines of
// memory where samples are next to each other. Arrays of structures pass through shared memory, in
// which the block's threads carry them in the order of addresses.
#pragma once

#include "sincos.hpp"
#include "vec.hpp"

// Samples of a block of the layout "blocks" (runtime/abi.h), and of the workspace between kernels.
#define PINION_BLOCK 16
#define PINION_WARP 32

namespace pinion {

// ---- Inputs of a thread: get(e) is element e ----------------------------------------------------

template <class T> struct StridedInput {
  const T *first;
  long long apart; // of elements
  PINION_INLINE StridedInput(const T *data, long long sample, long long step, long long apart)
      : first(data + sample * step), apart(apart) {}
  PINION_INLINE T get(int element) const { return __ldg(first + element * apart); }
};

template <class T, int SIZE, int LANES> struct BlockInput {
  const T *first;
  PINION_INLINE BlockInput(const T *data, long long sample)
      : first(data + sample / LANES * (SIZE * LANES) + sample % LANES) {}
  PINION_INLINE T get(int element) const { return __ldg(first + LANES * element); }
};

// In shared memory, where elements are PITCH apart.
template <class T, int PITCH> struct SharedInput {
  const T *first;
  PINION_INLINE T get(int element) const { return first[PITCH * element]; }
};

// ---- Results of a thread: put(e, x) -------------------------------------------------------------

// Results are read by other kernels, if at all, so they are the first to leave the caches.
template <class T> struct StridedResult {
  T *first;
  long long apart;
  PINION_INLINE StridedResult(T *data, long long sample, long long step, long long apart)
      : first(data + sample * step), apart(apart) {}
  PINION_INLINE void put(int element, T x) const { __stcs(first + element * apart, x); }
};

template <class T, int SIZE, int LANES> struct BlockResult {
  T *first;
  PINION_INLINE BlockResult(T *data, long long sample)
      : first(data + sample / LANES * (SIZE * LANES) + sample % LANES) {}
  PINION_INLINE void put(int element, T x) const { __stcs(first + LANES * element, x); }
};

template <class T, int PITCH> struct SharedResult {
  T *first;
  PINION_INLINE void put(int element, T x) const { first[PITCH * element] = x; }
};

// ---- Arrays of structures through shared memory -------------------------------------------------

// The samples `begin` to before `end` of an array into shared memory, element by element PITCH
// apart, by all threads of the block in the order of addresses. PITCH is odd, so that neither this
// nor a thread's reading meets in a bank.
template <class T, int SIZE, int PITCH>
PINION_INLINE void stage_in(T *to, const T *from, long long step, long long begin, long long end) {
  const int count = (int)(end - begin) * SIZE;
  for (int k = threadIdx.x; k < count; k += blockDim.x) {
    const int sample = k / SIZE, element = k % SIZE;
    to[PITCH * element + sample] = __ldg(from + (begin + sample) * step + element);
  }
}

template <class T, int SIZE, int PITCH>
PINION_INLINE void stage_out(T *to, const T *from, long long step, long long begin,
                             long long end) {
  const int count = (int)(end - begin) * SIZE;
  for (int k = threadIdx.x; k < count; k += blockDim.x) {
    const int sample = k / SIZE, element = k % SIZE;
    __stcs(to + (begin + sample) * step + element, from[PITCH * element + sample]);
  }
}

// ---- Values of a thread that are in no register -------------------------------------------------

// Sines and cosines in registers; the array disappears, since every index is known.
template <class V> struct RegisterTurns {
  V *first;
  PINION_INLINE void put(int k, V angle) const {
    sincos<V>(angle, first[2 * k], first[2 * k + 1]);
  }
  PINION_INLINE V sin(int k) const { return first[2 * k]; }
  PINION_INLINE V cos(int k) const { return first[2 * k + 1]; }
};

// Slots of a thread, the first NEAR of them in shared memory and the rest in the thread's local
// memory. Volatile: what the printed text puts there must not stay in a register.
template <class V, int NEAR, int PITCH> struct Slots {
  volatile V *near;
  volatile V *far;
  PINION_INLINE void put(int slot, V x) const {
    if (slot < NEAR)
      near[PITCH * slot] = x;
    else
      far[slot - NEAR] = x;
  }
  PINION_INLINE V get(int slot) const {
    return slot < NEAR ? near[PITCH * slot] : far[slot - NEAR];
  }
};

// Sines and cosines in the slots that begin at FIRST.
template <class V, int FIRST, class S> struct SlotTurns {
  S slots;
  PINION_INLINE void put(int k, V angle) const {
    V sine, cosine;
    sincos<V>(angle, sine, cosine);
    slots.put(FIRST + 2 * k, sine);
    slots.put(FIRST + 2 * k + 1, cosine);
  }
  PINION_INLINE V sin(int k) const { return slots.get(FIRST + 2 * k); }
  PINION_INLINE V cos(int k) const { return slots.get(FIRST + 2 * k + 1); }
};

struct Nothing {};

} // namespace pinion
