"""The shim that runs CUDA kernels on a processor: right ones pass, wrong ones are detected."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest

from pinion.native.toolchain import Compiler
from tests.support.breadth import some
from tests.support.cuda_host import HostError, HostKernels

SEEDS = range(4)

# Each block adds up its part of x by halves, in dynamic shared memory.
REDUCTION = """
extern "C" __global__ void __launch_bounds__(256)
total(const double *const __restrict__ x, double *const __restrict__ sums, int n) {
  extern __shared__ double part[];
  const unsigned t = threadIdx.x;
  part[t] = blockIdx.x * n + t < (blockIdx.x + 1) * n ? __ldg(x + blockIdx.x * n + t) : 0.0;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = part[0];
}
"""

# Hillis and Steele 1986: after the step of distance d, each has the sum of 2d elements up to it.
SCAN = """
extern "C" __global__ void scan(const float *x, float *sums, int n) {
  __shared__ float from[256];
  __shared__ float to[256];
  const int t = threadIdx.x;
  from[t] = x[t];
  __syncthreads();
  for (int d = 1; d < n; d *= 2) {
    to[t] = t < d ? from[t] : from[t] + from[t - d];
    __syncthreads();
    from[t] = to[t];
    __syncthreads();
  }
  sums[t] = from[t];
}
"""

WARPS = """
extern "C" __global__ void warps(const int *x, int *sums, int *first) {
  const int t = threadIdx.x + blockDim.x * threadIdx.y;
  int sum = x[t];
  for (int d = 16; d; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
  const int same = __shfl_sync(0xffffffffu, sum, 0);
  __syncwarp();
  sums[t] = same;
  first[t] = __shfl_sync(0xffffffffu, x[t], 3, 8);
}
"""

WRONG = """
extern "C" __global__ void divergent(int *out) {
  if (threadIdx.x < 16) __syncthreads();
  out[threadIdx.x] = 1;
  __syncthreads();
}
extern "C" __global__ void deserted(int *out) {
  if (threadIdx.x == 5) return;
  __syncwarp();
  if (threadIdx.x == 7) __syncwarp(0x80u);
  else if (threadIdx.x > 7) __syncthreads();
  else __syncwarp(0x1fu << 3);
  out[threadIdx.x] = 1;
}
extern "C" __global__ void left(int *out, int n) {
  if ((int)threadIdx.x >= n) return;
  __syncthreads();
  out[threadIdx.x] = 1;
}
extern "C" __global__ void outside(int n) {
  extern __shared__ __align__(16) unsigned long long words[];
  words[threadIdx.x] = words[(threadIdx.x + 1) % n];
  if (threadIdx.x == 3) words[n] = 0;
}
extern "C" __global__ void unwritten(float *out, double *wide) {
  __shared__ float fixed[4];
  extern __shared__ double given[];
  out[threadIdx.x] = fixed[threadIdx.x];
  wide[threadIdx.x] = given[threadIdx.x];
  __syncthreads();
  fixed[threadIdx.x] = given[threadIdx.x] = 1;
}
extern "C" __global__ void watched(int *out, int distance) {
  extern __shared__ cuda_host::Watched<int> words[];
  const int t = threadIdx.x, n = blockDim.x;
  words[t] = t;
  if (distance < n) __syncthreads();
  out[t] = words[(t + distance) % n];
}
extern "C" __global__ void trapped() {
  if (threadIdx.x == 1) __trap();
  __syncthreads();
}
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory, compiler: Compiler) -> HostKernels:
    text = REDUCTION + SCAN + WARPS + WRONG
    return HostKernels(text, folder=tmp_path_factory.mktemp("host"), compiler=compiler)


def without_barrier(text: str, number: int) -> str:
    places = [match.span() for match in re.finditer(r"__syncthreads\(\);", text)]
    start, end = places[number]
    return text[:start] + text[end:]


def reduction_is_right(kernels: HostKernels, n: int, seed: int) -> bool:
    x = np.random.default_rng(n).integers(-50, 50, (3, n)).astype(np.float64)
    sums = np.full(3, np.nan)
    threads = 1 << (n - 1).bit_length()
    kernels.launch("total", 3, threads, 8 * threads, [x, sums, ctypes.c_int(n)], seed)
    return np.array_equal(sums, x.sum(axis=1))


def scan_is_right(kernels: HostKernels, n: int, seed: int) -> bool:
    x = np.random.default_rng(n).integers(-50, 50, n).astype(np.float32)
    sums = np.full(n, np.nan, np.float32)
    kernels.launch("scan", 1, n, 0, [x, sums, ctypes.c_int(n)], seed)
    return np.array_equal(sums, np.cumsum(x))


def test_reduction_and_scan_of_every_length(kernels: HostKernels) -> None:
    for n in range(1, 257):
        seeds = SEEDS if n < 20 or n > 250 else range(1)
        assert all(reduction_is_right(kernels, n, seed) for seed in seeds), n
        assert all(scan_is_right(kernels, n, seed) for seed in seeds), n


@pytest.mark.parametrize("barrier", some(range(5), (0, 4)))
def test_a_missing_barrier_gives_a_wrong_result(
    barrier: int, tmp_path: Path, compiler: Compiler
) -> None:
    text = without_barrier(REDUCTION + SCAN, barrier)
    mutant = HostKernels(text, folder=tmp_path, compiler=compiler)
    right = reduction_is_right if barrier < 2 else scan_is_right
    outcomes = [right(mutant, 48, seed) for seed in SEEDS]
    assert not all(outcomes), "no order of the threads shows that the barrier is missing"
    assert outcomes == [right(mutant, 48, seed) for seed in SEEDS], "a seed does not give one order"


def test_lanes_of_a_warp_exchange_values(kernels: HostKernels) -> None:
    x = np.arange(64, dtype=np.int32) ** 2
    for seed in SEEDS:
        sums, first = np.zeros((2, 64), np.int32)
        kernels.launch("warps", 1, (16, 4), 0, [x, sums, first], seed)
        assert np.array_equal(sums, np.repeat(x.reshape(2, 32).sum(axis=1), 32))
        assert np.array_equal(first, np.repeat(x[3::8], 8))


def test_threads_that_never_come_are_an_error(kernels: HostKernels) -> None:
    out = np.zeros(32, np.int32)
    for seed in SEEDS:
        with pytest.raises(HostError, match=r"wait at different barriers, kernel\.cu:"):
            kernels.launch("divergent", 1, 32, 0, [out], seed)
        with pytest.raises(HostError, match="for threads that never come"):
            kernels.launch("deserted", 1, 32, 0, [out], seed)


def test_threads_that_have_ended_are_not_waited_for(kernels: HostKernels) -> None:
    out = np.zeros(32, np.int32)
    kernels.launch("left", 1, 32, 0, [out, ctypes.c_int(20)], 0)
    assert out[:20].all() and not out[20:].any()


def test_memory_that_is_not_the_blocks_is_seen(kernels: HostKernels) -> None:
    with pytest.raises(HostError, match="outside its 64 bytes"):
        kernels.launch("outside", 1, 8, 64, [ctypes.c_int(8)], 0)
    kernels.launch("outside", 1, 8, 72, [ctypes.c_int(8)], 0)
    narrow, wide = np.zeros(4, np.float32), np.zeros(4)
    kernels.launch("unwritten", 3, 4, 32, [narrow, wide], 0)
    assert np.isnan(narrow).all() and np.isnan(wide).all()


def test_threads_that_meet_at_a_word_are_an_error_in_every_order(kernels: HostKernels) -> None:
    out = np.zeros(32, np.int32)
    for seed in SEEDS:
        kernels.launch("watched", 2, 32, 128, [out, ctypes.c_int(3)], seed)
        assert np.array_equal(out, (np.arange(32) + 3) % 32)
        with pytest.raises(HostError, match="with no barrier between"):
            kernels.launch("watched", 1, 32, 128, [out, ctypes.c_int(33)], seed)


def test_a_trap_names_its_thread(kernels: HostKernels) -> None:
    with pytest.raises(HostError, match=r"thread 1 of block \(0, 0, 0\) came to __trap\(\)"):
        kernels.launch("trapped", (1, 1, 1), 4, 0, [], 0)


def test_what_cannot_be_launched_is_said(kernels: HostKernels, tmp_path: Path) -> None:
    with pytest.raises(HostError, match="no GPU has a block"):
        kernels.launch("trapped", 1, 2048, 0, [], 0)
    with pytest.raises(ValueError, match="Argument 0 is not contiguous"):
        kernels.launch("divergent", 1, 32, 0, [np.zeros(64, np.int32)[::2]], 0)
    with pytest.raises(ValueError, match="has no kernel"):
        HostKernels("int x;", folder=tmp_path)
