/* How a compiled kernel describes itself, and how a batch is passed: plain C. */
#ifndef PINION_ABI_H
#define PINION_ABI_H

#include <stddef.h>
#include <stdint.h>

#define PINION_ABI 1
/* Samples of a block, for every element type and every instruction set. */
#define PINION_BLOCK 16

typedef struct pinion_array {
  const char *name;
  uint32_t size; /* elements per sample; matrices are stored row by row, whole */
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

/* What pinion_run returns. */
enum {
  PINION_DONE = 0,
  PINION_BAD_KERNEL = 1, /* another abi, an element of neither 4 nor 8 bytes, lanes that do not
                            divide a block */
  PINION_BAD_VIEW = 2,   /* an unknown layout, a null pointer, PINION_ONE for an output, or a stride
                            with which samples of an output overlap */
  PINION_NO_MEMORY = 3
};

/* A library that links the runtime in may hide its functions. */
#ifndef PINION_API
#define PINION_API __attribute__((visibility("default")))
#endif

/* Several kernels, or runtimes for several instruction sets, in one library have names of their own. */
#ifndef PINION_GET_KERNEL
#define PINION_GET_KERNEL pinion_get_kernel
#endif
#ifndef PINION_RUN
#define PINION_RUN pinion_run
#endif
#ifndef PINION_RUN_FLAGGED
#define PINION_RUN_FLAGGED pinion_run_flagged
#endif
#ifndef PINION_FIRST_NONFINITE
#define PINION_FIRST_NONFINITE pinion_first_nonfinite
#endif

#ifdef __cplusplus
extern "C" {
#endif
/* Exported by every kernel library. */
PINION_API const pinion_kernel *PINION_GET_KERNEL(void);

/* Computes n samples: one view for each input and each output of the kernel. Pointers need an
   element's alignment (outputs of large batches are faster if 64 bytes divide pointer and, in SOA,
   stride). Strides of inputs are free, also 0 and negative ones; outputs overlap nothing. Nothing
   outside of the arrays is read or written. An array in blocks is one of whole blocks: the lanes
   of the last one that n does not fill may be read, and are left undefined in outputs.

   threads: the largest number of threads, including the caller's; 0: one per CPU core it may use.
   Batches that are too short to gain by it stay with the caller. May be called from several threads
   at once. */
PINION_API int PINION_RUN(const pinion_kernel *kernel, size_t n, const pinion_view *in,
                          const pinion_view *out, unsigned threads);

/* The same; and writes for each sample whether one of its results is not finite, 1 or 0. flags may be
   null, else it has room for n bytes. */
PINION_API int PINION_RUN_FLAGGED(const pinion_kernel *kernel, size_t n, const pinion_view *in,
                                  const pinion_view *out, uint8_t *flags, unsigned threads);

/* The index of the first infinity or NaN among n contiguous numbers of 4 or 8 bytes; -1: there is
   none; -2: numbers of another width. */
PINION_API int64_t PINION_FIRST_NONFINITE(const void *data, int bytes, size_t n);
#ifdef __cplusplus
}
#endif

#endif
