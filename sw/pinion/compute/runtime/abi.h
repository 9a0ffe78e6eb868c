/* What a compiled kernel tells of itself, and how a batch is given: plain C. */
#ifndef PINION_ABI_H
#define PINION_ABI_H

#include <stddef.h>
#include <stdint.h>

#define PINION_ABI 1
/* Samples of a block, for every element type and every instruction set. */
#define PINION_BLOCK 16

typedef struct pinion_array {
  const char *name;
  uint32_t size; /* elements a sample; matrices are row by row, whole */
} pinion_array;

typedef struct pinion_kernel {
  uint32_t abi;   /* PINION_ABI */
  uint32_t bytes; /* of an element: 4 (float) or 8 (double) */
  uint32_t lanes; /* samples that a call computes; divides PINION_BLOCK */
  uint32_t inputs, outputs;
  const pinion_array *input, *output;
  /* Computes `lanes` samples of a block. Pointers, one an array, to element 0 of the first of these
     samples; elements are PINION_BLOCK apart. Outputs overlap nothing. */
  void (*compute)(const void *const *in, void *const *out);
  const char *isa; /* "avx512", "avx2", "neon" or "portable" */
} pinion_kernel;

/* Where element e of sample s stands in an array of `size` elements a sample. */
enum {
  PINION_AOS = 0,    /* s * stride + e */
  PINION_SOA = 1,    /* e * stride + s */
  PINION_BLOCKS = 2, /* (s / 16 * size + e) * 16 + s % 16; room for whole blocks */
  PINION_ONE = 3     /* e: one sample that serves all; inputs only */
};

typedef struct pinion_view {
  void *data;
  int32_t layout;
  int64_t stride;
} pinion_view;

#ifdef __cplusplus
extern "C" {
#endif
/* Exported by every kernel library. */
const pinion_kernel *pinion_get_kernel(void);
#ifdef __cplusplus
}
#endif

#endif
