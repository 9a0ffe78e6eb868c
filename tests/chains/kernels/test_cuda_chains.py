"""Kernels of long chains, run on a processor, compared with the float model in 80 bits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from pinion.chains.chain import Chain
from pinion.chains.kernels import cuda
from pinion.chains.kernels.cuda import METHODS, ChainSource, CudaChainKernel, KernelSource
from pinion.chains.kernels.device_chain import WARP, canonical
from pinion.chains.random import random_chain, random_state
from pinion.chains.recursion import aba
from pinion.native.toolchain import Compiler
from tests.support.breadth import some_rows
from tests.support.cuda_chains import ChainDevice
from tests.support.cuda_host import HostError
from tests.support.cuda_omissions import Place

# Constraint forces are in separate files: test_cuda_cfa.py and its neighbours.
ALL = [
    (function, method)
    for function, methods in METHODS.items()
    for method in methods
    if function != "closed" and not method.startswith("cfa")
]

# Robots by their number of links: 200 per kernel, most of them short, some around the sizes of
# warps and blocks.
ROBOTS = {
    "Warp": {1: 30, 2: 40, 5: 60, 12: 40, 31: 15, 32: 15},
    "Block": {1: 30, 2: 40, 5: 60, 12: 40, 33: 20, 64: 8, 100: 2},
    "Grid": {1: 30, 2: 40, 5: 60, 12: 40, 33: 20, 128: 5, 129: 5},
    "Serial": {1: 30, 2: 40, 5: 60, 12: 40, 32: 15, 33: 10, 100: 5},
}
MORE = {1: 40, 31: 30, 33: 20, 64: 12, 100: 8}
SCANS = ("scan", "jsiia", "hybrid", "abia")

# Relative to the largest element: inverse dynamics; forward dynamics in float32, by length.
INVERSE = {"float64": 1e-12, "float32": 1e-5}
FORWARD_FLOAT32 = {2: 2e-5, 33: 2e-3, 100: 2e-2}


@dataclass(frozen=True)
class Robots:
    """Chains of equal length, a state of each, and the expected results.

    Members
    -------
    expected : tau of the float model, and qdd in 80 bits.
    model_errors : errors of the float model's forward dynamics relative to the largest element.
    """

    chains: tuple[Chain, ...]
    inputs: dict[str, Any]
    expected: dict[str, Any]
    model_errors: Any


@cache
def robots(n: int, count: int) -> Robots:
    sizes, joints = ("arm", "unit", "taper"), ("mixed", "mixed", "helical")
    chains = tuple(
        random_chain(n, seed, inertias=sizes[seed % 3], joints=joints[seed % 3])
        for seed in range(count)
    )
    states = [random_state(chain, 5) for chain in chains]
    names = ("q", "qd", "qdd", "tau")
    inputs = {name: np.array([getattr(s, name)[0] for s in states]) for name in names}
    exact, model_errors = [], []
    for k, chain in enumerate(chains):
        arguments = [inputs[name][k] for name in ("q", "qd", "tau")]
        exact.append(aba(chain, *(x.astype(np.longdouble) for x in arguments)))
        model_errors.append(error(aba(chain, *arguments), exact[-1]))
    return Robots(
        chains, inputs, {"tau": inputs["tau"], "qdd": np.array(exact)}, np.array(model_errors)
    )


def error(values: Any, expected: Any) -> float:
    """Return the error relative to the largest element; infinite for NaN."""
    scale = float(np.max(np.abs(expected)))
    worst = float(np.max(np.abs(values - expected))) / scale
    return np.inf if np.isnan(worst) else worst


def call(kernel: CudaChainKernel, inputs: dict[str, Any]) -> Any:
    return kernel(**{name: inputs[name] for name in kernel.source.inputs})


def check(kernel: CudaChainKernel, batch: Robots) -> Any:
    """Compute, check the accuracy and return the result."""
    dtype, source = kernel.source.dtype, kernel.source
    result = call(kernel, batch.inputs)
    assert result.dtype == dtype
    expected = batch.expected[source.results[0]]
    errors = np.array([error(f, w) for f, w in zip(result, expected, strict=True)])
    print(source.n, source.function, source.method, dtype, errors.max(), batch.model_errors.max())
    if source.function == "rnea":
        assert errors.max() <= INVERSE[dtype]
    elif dtype == "float64":
        # For a single state the float model's error may be small by chance.
        for of in (np.max, np.median):
            assert of(errors) <= max(1e-11, 10 * of(batch.model_errors))
    else:
        bound = next(b for n, b in FORWARD_FLOAT32.items() if source.n <= n)
        assert errors.max() <= bound
    return result


class Devices:
    """Cache of devices with kernels of one dtype for warps, or for blocks and grids.

    Only threads of a block are watched: a warp's barriers are not the block's.
    """

    def __init__(self, factory: pytest.TempPathFactory, compiler: Compiler) -> None:
        self._factory = factory
        self._compiler = compiler
        self._known: dict[tuple[str, bool], ChainDevice] = {}

    def __call__(self, n: int, method: str, dtype: str) -> ChainDevice:
        warps = n <= WARP or method in ("warp", "thread")
        if (dtype, warps) not in self._known:
            lengths = (WARP,) if warps else (100, 1500)
            sources = [
                cuda.source(length, function, method=method, dtype=dtype)
                for length in lengths
                for function, method in ALL
                if (warps or method in SCANS) and (length <= 100 or method != "jsiia")
            ]
            self._known[dtype, warps] = ChainDevice(
                self._factory.mktemp("chains"),
                sources,
                compiler=self._compiler,
                watched=not warps,
            )
        return self._known[dtype, warps]


@pytest.fixture(scope="module")
def devices(tmp_path_factory: pytest.TempPathFactory, compiler: Compiler) -> Devices:
    return Devices(tmp_path_factory, compiler)


def scoped(scope: str, n: int, function: str, method: str, dtype: str) -> ChainSource:
    """Return the kernels of a scope for chains of any length, with small blocks."""
    source = cuda.source(
        {"Warp": 32, "Block": 100, "Grid": 1500}[scope], function, method=method, dtype=dtype
    )

    def small(kernel: KernelSource) -> KernelSource:
        shape = kernel.shape
        if shape.scope == scope and scope != "Warp":
            threads = 32 if scope == "Grid" else -(-n // (32 * shape.links)) * 32
            blocks = -(-n // (threads * shape.links))
            shape = replace(shape, threads=threads, blocks_a_robot=blocks)
        return replace(kernel, shape=shape)

    between = {name: count * n // source.n for name, count in source.between.items()}
    if "matrix" in between:
        between["matrix"] = n * (n + 1)
    return replace(source, n=n, kernels=tuple(map(small, source.kernels)), between=between)


# One kernel with scans per scope; the kernels of `hybrid` are those of `abia`.
QUICK = (("rnea", "scan", "Grid"), ("aba", "abia", "Warp"), ("aba", "abia", "Block"))


IN_DOUBLE = (("jsiia", "Block"), ("hybrid", "Block"), ("hybrid", "Grid"))


def cases() -> list[Any]:
    parameters = []
    for function, method in ALL:
        for dtype in ("float64", "float32"):
            for scope in ROBOTS:
                quick = dtype == "float64" and (
                    scope == "Serial" or (function, method, scope) in QUICK
                )
                marks = () if quick else (pytest.mark.slow,)
                lacking = (scope, method) == ("Grid", "jsiia") or (
                    # Blocks and grids in float32 differ by their elements alone: one method each.
                    dtype == "float32" and (method, scope) in IN_DOUBLE
                )
                if (scope == "Serial") == (method not in SCANS) and not lacking:
                    parameters.append(pytest.param(function, method, scope, dtype, marks=marks))
    return parameters


@pytest.mark.parametrize(("function", "method", "scope", "dtype"), cases())
def test_random_robots(
    function: str, method: str, scope: str, dtype: str, devices: Devices
) -> None:
    for n, count in ROBOTS[scope].items():
        if dtype == "float32" and n > 100:
            continue  # the table of errors ends there
        batch = robots(n, count)
        if scope == "Serial":
            source = cuda.source(n, function, method=method, dtype=dtype)
        else:
            source = scoped(scope, n, function, method, dtype)
        device = devices(100 if scope in ("Block", "Grid") else 1, method, dtype)
        chains = [canonical(chain) for chain in batch.chains]
        kernel = CudaChainKernel(chains=chains, source=source, device=device)
        first = check(kernel, batch)
        if n in (5, 32, 33):
            device.seed += 1  # the order of threads does not show, to the bit
            assert np.array_equal(call(kernel, batch.inputs), first)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "method", "dtype"),
    [(*pair, ("float64", "float32")[k % 2]) for k, pair in enumerate(ALL)],
)
def test_more_robots(function: str, method: str, dtype: str, devices: Devices) -> None:
    for n, count in MORE.items():
        batch = robots(n, count)
        device = devices(n, method, dtype)
        check(
            cuda.compile(batch.chains, function, method=method, dtype=dtype, device=device), batch
        )


@pytest.mark.parametrize(
    ("n", "method"), some_rows([(1000, "scan"), (1000, "abia"), (1500, "scan")], 2)
)
def test_chains_of_a_block_and_of_a_grid(n: int, method: str, devices: Devices) -> None:
    function = "rnea" if method == "scan" else "aba"
    batch = robots(n, 2 if n > 1024 else 1)
    device = devices(n, method, "float64")
    kernel = cuda.compile(batch.chains, function, method=method, device=device)
    check(kernel, batch)
    first = call(kernel, batch.inputs)
    device.seed += 1
    assert np.array_equal(call(kernel, batch.inputs), first)


@pytest.mark.slow
def test_forward_dynamics_by_a_grid(devices: Devices) -> None:
    batch = robots(1500, 2)
    device = devices(1500, "abia", "float64")
    check(cuda.compile(batch.chains, "aba", method="abia", device=device), batch)


OMITTED = [
    *((20, function, method) for function, method in ALL if method != "thread"),
    *((150, "rnea", "scan"), (150, "aba", "abia"), (60, "aba", "jsiia"), (2100, "rnea", "scan")),
]


@pytest.mark.parametrize(("n", "function", "method"), OMITTED)
def test_every_barrier_and_exchange_is_needed(
    n: int, function: str, method: str, devices: Devices
) -> None:
    chain = random_chain(n, 3)
    state = random_state(chain, 4, 2)
    inputs = {name: getattr(state, name) for name in ("q", "qd", "qdd", "tau")}
    device = devices(n, method, "float64")
    kernel = cuda.compile(chain, function, method=method, device=device)
    device.omissions.met()
    right = call(kernel, inputs)
    places = device.omissions.met()
    assert places

    def shows(place: Place, seed: int) -> bool:
        device.seed = seed
        device.omissions.omit(place)
        try:
            return not np.array_equal(call(kernel, inputs), right)
        except HostError:
            return True
        finally:
            device.omissions.omit(None)

    for place in places:
        assert any(shows(place, seed) for seed in range(12)), place
    assert np.array_equal(call(kernel, inputs), right)


@pytest.mark.parametrize("method", ["scan", "thread"])
def test_no_memory_but_the_results_is_written(method: str, devices: Devices) -> None:
    n, chain = 20, random_chain(20, 1)
    state = random_state(chain, 2, 9)
    inputs = {name: getattr(state, name) for name in ("q", "qd", "qdd")}
    kernel = cuda.compile(chain, "rnea", method=method, device=devices(n, method, "float64"))
    whole = kernel(**inputs)
    assert kernel._room is not None
    memory: Any = kernel._room.memory["tau"]
    memory.bytes[...] = 0xFF
    assert np.array_equal(kernel(**{name: x[:5] for name, x in inputs.items()}), whole[:5])
    assert np.all(memory.bytes[5 * n * 8 :] == 0xFF)
    for name, room in kernel._room.memory.items():
        assert np.all(room.bytes[room.size :] == 0xFF), name  # type: ignore[attr-defined]
