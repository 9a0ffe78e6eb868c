"""Scans by warps, blocks and grids of an exact operation that does not commute.

The operation is that of a rolling hash, x -> p x + v modulo a prime below 2^12, exact in float32.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from pinion.chains.kernels.device_chain import ThreadShape
from pinion.native.toolchain import Compiler
from tests.support.cuda_host import HostError, HostKernels
from tests.support.cuda_omissions import PRELUDE, WATCHED, Omissions, Place

PRIME = 4093.0
WORDS = 2
SCALARS = {"float32": "float", "float64": "double"}

TEXT = """
#include "../../chains/kernels/sources/scan.cuh"
template <class T> struct Hash {
  typedef T Word;
  struct Element { T p, v; };
  static __device__ Element none() { return {T(1), T(0)}; }
  static __device__ Element combine(const Element &first, const Element &then) {
    return {modulo(then.p * first.p), modulo(then.p * first.v + then.v)};
  }
  static __device__ T modulo(T x) { return x - T(4093) * (T)(int)(x / T(4093)); }
};
template <class T, bool BACKWARD, int K, class Scope>
__device__ void scan(Scope &scope, int n, const T *p, const T *v, T *before) {
  typedef Hash<T> Op;
  const int thread = scope.thread();
  typename Op::Element own = Op::none();
  for (int k = 0; k < K; ++k) {
    const int i = thread * K + (BACKWARD ? K - 1 - k : k);
    if (i < n) own = Op::combine(own, {p[i], v[i]});
  }
  own = scope.template exclusive<Op, BACKWARD>(own);
  for (int k = 0; k < K; ++k) {
    const int i = thread * K + (BACKWARD ? K - 1 - k : k);
    if (i >= n) continue;
    before[i] = own.p;
    before[n + i] = own.v;
    own = Op::combine(own, {p[i], v[i]});
  }
}
"""

KERNEL = """
extern "C" __global__ void {name}({T} *p, {T} *v, {T} *before, {T} *after,
                                  void *scratch, int n) {{
  using namespace pinion::parallel;
  extern __shared__ {T} shared[];
  {scope} scope(shared, scratch, n);
  scan<{T}, false, {links}>(scope, n, p, v, before);
  scan<{T}, true, {links}>(scope, n, p, v, after);
}}
"""

SCOPES = ("Warp", "Block", "Grid")


def text(dtypes: Sequence[str] = tuple(SCALARS)) -> str:
    source = TEXT
    for scope in SCOPES:
        for dtype in dtypes:
            source += KERNEL.format(
                name=f"{scope.lower()}_{dtype}",
                T=SCALARS[dtype],
                scope=scope,
                links=1 if scope == "Warp" else 3,
            )
    return source


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory, compiler: Compiler) -> HostKernels:
    return HostKernels(text(), folder=tmp_path_factory.mktemp("scan"), compiler=compiler)


def is_right(kernels: HostKernels, n: int, shape: ThreadShape, dtype: str, seed: int) -> bool:
    rng = np.random.default_rng(n)
    p, v = rng.integers(1, int(PRIME), (2, n)).astype(dtype)
    results = np.full((2, 2, n), np.nan, dtype)
    scratch = np.full(shape.scratch_bytes([WORDS, WORDS], dtype), 0xFF, np.uint8)
    scratch[:16] = 0
    kernels.launch(
        f"{shape.scope.lower()}_{dtype}",
        max(1, shape.blocks_a_robot),
        shape.threads,
        shape.shared_bytes(WORDS, dtype),
        [p, v, *results, scratch, ctypes.c_int(n)],
        seed,
        cooperative=shape.scope == "Grid",
    )
    return all(
        np.array_equal(results[k][:, order].T, np.array(expected(p, v, order), dtype))
        for k, order in enumerate([range(n), range(n)[::-1]])
    )


def expected(p: Any, v: Any, order: Sequence[int]) -> list[tuple[int, int]]:
    states, state, prime = [], (1, 0), int(PRIME)
    for i in order:
        states.append(state)
        a, b = int(p[i]), int(v[i])
        state = a * state[0] % prime, (a * state[1] + b) % prime
    return states


def shapes() -> list[Any]:
    lengths = [(n, ThreadShape("Warp", 1, 32, 0)) for n in (1, 2, 3, 16, 31, 32)]
    for n in (1, 3, 95, 96, 97, 300, 383, 384):
        threads = -(-n // 96) * 32
        lengths.append((n, ThreadShape("Block", 3, threads, 1)))
    lengths.append((3072, ThreadShape("Block", 3, 1024, 1)))
    lengths += [(n, ThreadShape("Grid", 3, 64, -(-n // 192))) for n in (1, 192, 193, 900)]
    lengths.append((3400, ThreadShape("Grid", 3, 32, 36)))  # more blocks than a warp has lanes
    return lengths


@pytest.mark.parametrize("dtype", SCALARS)
def test_every_thread_gets_what_is_before_it(dtype: str, kernels: HostKernels) -> None:
    for n, shape in shapes():
        for seed in range(1 if n > 1000 else 3):
            assert is_right(kernels, n, shape, dtype, seed), (n, shape, seed)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, compiler: Compiler) -> HostKernels:
    source = PRELUDE + WATCHED + text(["float32"])
    return HostKernels(source, folder=tmp_path_factory.mktemp("watched"), compiler=compiler)


@pytest.mark.parametrize(
    ("n", "shape", "places"),
    [
        (30, ThreadShape("Warp", 1, 32, 0), 2),
        (288, ThreadShape("Block", 3, 96, 1), 5),
        (900, ThreadShape("Grid", 3, 64, 5), 8),
    ],
)
def test_every_barrier_and_exchange_is_needed(
    n: int, shape: ThreadShape, places: int, watched: HostKernels
) -> None:
    omissions = Omissions(watched)
    omissions.met()
    assert all(is_right(watched, n, shape, "float32", seed) for seed in range(3))
    omitted = omissions.met()
    assert len(omitted) == places

    def shows(place: Place, seed: int) -> bool:
        omissions.omit(place)
        try:
            return not is_right(watched, n, shape, "float32", seed)
        except HostError:
            return True
        finally:
            omissions.omit(None)

    for place in omitted:
        assert any(shows(place, seed) for seed in range(6)), place


def test_waiting_for_a_grid_needs_a_cooperative_launch(kernels: HostKernels) -> None:
    x = np.zeros(64, np.float32)
    with pytest.raises(HostError, match="the launch is not cooperative"):
        kernels.launch("grid_float32", 1, 32, 8, [x, x, x, x, x, ctypes.c_int(1)], 0)
