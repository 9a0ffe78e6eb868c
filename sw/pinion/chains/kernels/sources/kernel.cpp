// The kernel of one function of any chain, for one kind of number and one instruction set.
//
// PINION_FUNCTION is rnea, aba, jsiia or cfa, PINION_SCALAR float or double. The last input is the
// chain (chain.hpp): an array of no elements in blocks, whose pointer the runtime hands on as it is
// because a call computes a whole block. Sizes of the other arrays are the number of bodies, so what
// is exported is a pattern: chains/kernels/kernel.py copies it and fills in its arrays.
#include "aba.hpp"
#include "cfa.hpp"
#include "jsiia.hpp"
#include "rnea.hpp"
#include "scratch.hpp"

#define PINION_PASTE(a, b) a##b
#define PINION_JOIN(a, b) PINION_PASTE(a, b)

namespace {
using namespace pinion;
typedef PINION_SCALAR T;
typedef Widest<T>::type V;
typedef PINION_JOIN(Function_, PINION_FUNCTION)<V> F;

constexpr size_t STACK_VECTORS = 512; // 32 kB of AVX-512

void compute(const void *const *in, void *const *out) {
  constexpr int INPUTS = 3;
  const Chain<T> &chain = *(const Chain<T> *)in[INPUTS];
  const size_t need = F::vectors(chain);
  V stack[STACK_VECTORS];
  V *memory = need <= STACK_VECTORS ? stack : (V *)scratch_of_thread(need * sizeof(V));
  for (int lane = 0; lane < PINION_BLOCK; lane += Traits<V>::lanes) {
    T *const results = (T *)out[0] + lane;
    if (!memory) { // there is no way to report it: leave nothing that could be taken for a result
      for (int i = 0; i < chain.bodies; ++i)
        store<V>(results + PINION_BLOCK * i, splat<V>((T)__builtin_nan("")));
      continue;
    }
    const T *arrays[INPUTS];
    for (int k = 0; k < INPUTS; ++k) arrays[k] = (const T *)in[k] + lane;
    F::compute(chain, arrays, results, memory);
  }
}

const pinion_array none = {"", 0};
const pinion_kernel self = {PINION_ABI, sizeof(T), PINION_BLOCK, 0, 0, &none, &none, compute,
                            PINION_ISA};
} // namespace

extern "C" PINION_API const pinion_kernel *PINION_GET_KERNEL(void) { return &self; }
