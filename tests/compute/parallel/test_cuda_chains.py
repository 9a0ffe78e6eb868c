"""Kernels of long chains, run on a processor, beside the float model in 80 bits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from pinion.compute.parallel import cuda
from pinion.compute.parallel.cuda import METHODS, ChainKernel
from pinion.compute.parallel.device_chain import WARP
from pinion.compute.toolchain import Compiler
from pinion.dynamics.parallel.chain import Chain
from pinion.dynamics.parallel.random import random_chain, random_state
from pinion.dynamics.parallel.recursion import aba
from tests.support.cuda_chains import ChainDevice
from tests.support.cuda_host import HostError
from tests.support.cuda_omissions import Place

# Constraint forces are in files of their own: test_cuda_cfa.py and those beside it.
ALL = [
    (function, method)
    for function, methods in METHODS.items()
    for method in methods
    if not method.startswith("cfa")
]

# Robots by their number of links: 200, around the borders of warps and blocks.
ROBOTS = {1: 40, 2: 40, 31: 30, 32: 30, 33: 20, 63: 20, 64: 12, 100: 8}
FEW = {1: 4, 2: 4, 31: 3, 32: 3, 33: 3, 64: 2}
SCANS = ("scan", "jsiia", "hybrid", "abia")

# Of the largest element: inverse dynamics; forward dynamics in float32, by the longest chain.
INVERSE = {"float64": 1e-12, "float32": 1e-5}
FORWARD_FLOAT32 = {2: 2e-5, 33: 2e-3, 100: 2e-2}


@dataclass(frozen=True)
class Robots:
    """Chains of as many links, a state each, and what comes out.

    Members
    -------
    wanted : tau by the float model, which made it, and qdd in 80 bits.
    own : error of the float model's forward dynamics, of each robot's largest element.
    """

    chains: tuple[Chain, ...]
    given: dict[str, Any]
    wanted: dict[str, Any]
    own: Any


@cache
def robots(n: int, count: int) -> Robots:
    sizes, joints = ("arm", "unit", "taper"), ("mixed", "mixed", "helical")
    chains = tuple(
        random_chain(n, seed, inertias=sizes[seed % 3], joints=joints[seed % 3])
        for seed in range(count)
    )
    states = [random_state(chain, 5) for chain in chains]
    names = ("q", "qd", "qdd", "tau")
    given = {name: np.array([getattr(s, name)[0] for s in states]) for name in names}
    exact, own = [], []
    for k, chain in enumerate(chains):
        arguments = [given[name][k] for name in ("q", "qd", "tau")]
        exact.append(aba(chain, *(x.astype(np.longdouble) for x in arguments)))
        own.append(error(aba(chain, *arguments), exact[-1]))
    return Robots(chains, given, {"tau": given["tau"], "qdd": np.array(exact)}, np.array(own))


def error(found: Any, wanted: Any) -> float:
    """Of the largest element; infinite for NaN."""
    scale = float(np.max(np.abs(wanted)))
    worst = float(np.max(np.abs(found - wanted))) / scale
    return np.inf if np.isnan(worst) else worst


def call(kernel: ChainKernel, given: dict[str, Any]) -> Any:
    return kernel(**{name: given[name] for name in kernel.source.inputs})


def check(kernel: ChainKernel, given: Robots) -> None:
    dtype, source = kernel.source.dtype, kernel.source
    found = call(kernel, given.given)
    assert found.dtype == dtype
    wanted = given.wanted[source.results[0]]
    errors = np.array([error(f, w) for f, w in zip(found, wanted, strict=True)])
    print(source.n, source.function, source.method, dtype, errors.max(), given.own.max())
    if source.function == "rnea":
        assert errors.max() <= INVERSE[dtype]
    elif dtype == "float64":
        # Of a single state the float model's error may be small by chance.
        for of in (np.max, np.median):
            assert of(errors) <= max(1e-11, 10 * of(given.own))
    else:
        bound = next(b for n, b in FORWARD_FLOAT32.items() if source.n <= n)
        assert errors.max() <= bound


class Devices:
    """Devices with kernels of one dtype for warps, or for blocks and grids, each compiled once.

    Threads of a block are watched. Those of a warp are not: their barriers are not the block's.
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


def cases() -> list[Any]:
    found = []
    for function, method in ALL:
        for dtype in ("float64", "float32"):
            quick = dtype == "float64"
            found.append(
                pytest.param(function, method, dtype, marks=() if quick else (pytest.mark.slow,))
            )
    return found


@pytest.mark.parametrize(("function", "method", "dtype"), cases())
def test_random_robots(function: str, method: str, dtype: str, devices: Devices) -> None:
    for n, count in (ROBOTS if method in ("scan", "hybrid", "abia") else FEW).items():
        given = robots(n, count)
        device = devices(n, method, dtype)
        kernel = cuda.compile(given.chains, function, method=method, dtype=dtype, device=device)
        check(kernel, given)
        first = call(kernel, given.given)
        device.seed += 1  # the order of threads does not show, to the bit
        assert np.array_equal(call(kernel, given.given), first)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("function", "method"), [pair for pair in ALL if pair[1] in ("jsiia", "warp", "thread")]
)
def test_two_hundred_robots(function: str, method: str, dtype: str, devices: Devices) -> None:
    for n, count in ROBOTS.items():
        given = robots(n, count)
        device = devices(n, method, dtype)
        check(
            cuda.compile(given.chains, function, method=method, dtype=dtype, device=device), given
        )


@pytest.mark.parametrize(("n", "method"), [(1000, "scan"), (1000, "abia"), (1500, "scan")])
def test_chains_of_a_block_and_of_a_grid(n: int, method: str, devices: Devices) -> None:
    function = "rnea" if method == "scan" else "aba"
    given = robots(n, 2 if n > 1024 else 1)
    device = devices(n, method, "float64")
    kernel = cuda.compile(given.chains, function, method=method, device=device)
    check(kernel, given)
    first = call(kernel, given.given)
    device.seed += 1
    assert np.array_equal(call(kernel, given.given), first)


@pytest.mark.slow
def test_forward_dynamics_by_a_grid(devices: Devices) -> None:
    given = robots(1500, 2)
    device = devices(1500, "abia", "float64")
    check(cuda.compile(given.chains, "aba", method="abia", device=device), given)


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
    given = {name: getattr(state, name) for name in ("q", "qd", "qdd", "tau")}
    device = devices(n, method, "float64")
    kernel = cuda.compile(chain, function, method=method, device=device)
    device.omissions.met()
    right = call(kernel, given)
    places = device.omissions.met()
    assert places

    def shows(place: Place, seed: int) -> bool:
        device.seed = seed
        device.omissions.omit(place)
        try:
            return not np.array_equal(call(kernel, given), right)
        except HostError:
            return True
        finally:
            device.omissions.omit(None)

    for place in places:
        assert any(shows(place, seed) for seed in range(12)), place
    assert np.array_equal(call(kernel, given), right)


@pytest.mark.parametrize("method", ["scan", "thread"])
def test_no_memory_but_the_results_is_written(method: str, devices: Devices) -> None:
    n, chain = 20, random_chain(20, 1)
    state = random_state(chain, 2, 9)
    given = {name: getattr(state, name) for name in ("q", "qd", "qdd")}
    kernel = cuda.compile(chain, "rnea", method=method, device=devices(n, method, "float64"))
    whole = kernel(**given)
    assert kernel._room is not None
    memory: Any = kernel._room.memory["tau"]
    memory.bytes[...] = 0xFF
    assert np.array_equal(kernel(**{name: x[:5] for name, x in given.items()}), whole[:5])
    assert np.all(memory.bytes[5 * n * 8 :] == 0xFF)
    for name, room in kernel._room.memory.items():
        assert np.all(room.bytes[room.size :] == 0xFF), name  # type: ignore[attr-defined]
