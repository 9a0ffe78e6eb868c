"""Omission of barriers and of exchanges between lanes, one at a time without recompiling."""

from __future__ import annotations

import ctypes

import numpy as np

from .cuda_host import HostKernels

Place = tuple[int, int]
"""The letter before ``.cuh`` of a header's name, and a line."""

PRELUDE = """
namespace omissions {
constexpr int LINES = 2000;
static long long letter = -1, line = -1;
static unsigned char met[128][LINES];
static bool skipped(const char *file, int at) {
  const int own = file[strlen(file) - 5];
  met[own][at] = 1;
  return own == letter && at == line;
}
}
extern "C" __global__ void omit(long long letter, long long line) {
  omissions::letter = letter;
  omissions::line = line;
}
extern "C" __global__ void places(unsigned char *out) {
  memcpy(out, omissions::met, sizeof omissions::met);
  memset(omissions::met, 0, sizeof omissions::met);
}
#define OMISSION(call, instead) (omissions::skipped(__FILE__, __LINE__) ? (instead) : (call))
#undef __syncthreads
#define __syncthreads() \\
  OMISSION(cuda_host::wait(cuda_host::State::at_block, 0, __FILE__, __LINE__), (void)0)
#undef __syncwarp
#define __syncwarp() \\
  OMISSION(cuda_host::wait(cuda_host::State::at_warp, 0xffffffffu, __FILE__, __LINE__), (void)0)
#undef PINION_GRID_BARRIER
#define PINION_GRID_BARRIER(counter) \\
  OMISSION(((void)(counter), cuda_host::wait_for_grid(__FILE__, __LINE__)), (void)0)
#undef __shfl_sync
#define __shfl_sync(mask, x, lane) \\
  OMISSION(cuda_host::shuffled(mask, x, lane, 32, __FILE__, __LINE__), x)
#undef __shfl_up_sync
#define __shfl_up_sync(mask, x, far) \\
  OMISSION(cuda_host::shuffled_up(mask, x, far, 32, __FILE__, __LINE__), x)
#undef __shfl_down_sync
#define __shfl_down_sync(mask, x, far) \\
  OMISSION(cuda_host::shuffled_down(mask, x, far, 32, __FILE__, __LINE__), x)
"""
"""Text that goes before the includes."""

WATCHED = "#define PINION_SHARED(T) cuda_host::Watched<T>\n"
"""Make it an error if two threads share a word of memory without a barrier between them."""

_LINES = 2000


class Omissions:
    """Control of the barriers and exchanges in kernels that begin with `PRELUDE`."""

    def __init__(self, kernels: HostKernels) -> None:
        self._kernels = kernels

    def met(self) -> list[Place]:
        """Return the places of the barriers and exchanges executed since the last call."""
        executed = np.zeros((128, _LINES), np.uint8)
        self._kernels.launch("places", 1, 1, 0, [executed], 0)
        return [(int(letter), int(line)) for letter, line in np.argwhere(executed)]

    def omit(self, place: Place | None) -> None:
        """Omit the barrier or exchange at a place from now on; None omits none."""
        letter, line = (-1, -1) if place is None else place
        args = [ctypes.c_longlong(letter), ctypes.c_longlong(line)]
        self._kernels.launch("omit", 1, 1, 0, args, 0)
