// What a printed kernel reads and writes on a CPU: blocks of 16 samples, and memory of its own.
#pragma once

#include "abi.h"
#include "sincos.hpp"
#include "vec.hpp"

// Nothing that was read from memory before is known after it, nothing waits to be written: a value
// that the printed text leaves in memory stays there, where a compiler would rather keep it in a
// register and then write that to its stack. It generates no instruction.
#define PINION_FORGET() asm volatile("" ::: "memory")

namespace pinion {

// The arrays of the request; element e of an array stands e blocks after its first.
template <class V, int N> struct Request {
  const Scalar<V> *array[N];
  PINION_INLINE explicit Request(const void *const *in) {
    for (int k = 0; k < N; ++k) array[k] = (const Scalar<V> *)in[k];
  }
  template <int A> PINION_INLINE V get(int element) const {
    return load<V>(array[A] + PINION_BLOCK * element);
  }
};

// The arrays of the result.
template <class V, int N> struct Results {
  Scalar<V> *array[N];
  PINION_INLINE explicit Results(void *const *out) {
    for (int k = 0; k < N; ++k) array[k] = (Scalar<V> *)out[k];
  }
  template <int A> PINION_INLINE void put(int element, V x) const {
    store<V>(array[A] + PINION_BLOCK * element, x);
  }
};

// Constants, each once; an operand in memory is broadcast where the machine can.
template <class V> struct Constants {
  const Scalar<V> *first;
  PINION_INLINE V get(int k) const { return splat<V>(first[k]); }
};

// Sines and cosines.
template <class V> struct Turns {
  V *first;
  PINION_INLINE void put(int k, V angle) const {
    sincos<V>(angle, first[2 * k], first[2 * k + 1]);
    PINION_FORGET();
  }
  PINION_INLINE V sin(int k) const { return first[2 * k]; }
  PINION_INLINE V cos(int k) const { return first[2 * k + 1]; }
};

// Values that are in no register.
template <class V> struct Memory {
  V *first;
  PINION_INLINE void put(int slot, V x) const {
    first[slot] = x;
    PINION_FORGET();
  }
  PINION_INLINE V get(int slot) const { return first[slot]; }
};

// A pointer that the compiler knows nothing of, `middle` elements after p: what is up to 128
// elements before and after it is named by one byte (the compressed displacement of AVX-512), and
// constants behind it are read where they are used.
template <class P> PINION_INLINE P hidden(P p) {
  asm("" : "+r"(p));
  return p;
}

} // namespace pinion
