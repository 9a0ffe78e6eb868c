"""Kernels of the constraint force algorithm on a processor, against 80-bit articulated bodies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from pinion.chains.cfa import cfa
from pinion.chains.kernels.device_cfa import (
    CfaKernel,
    cfa_kernel,
    cfa_shape,
    constraint_numbers,
    words_a_link,
)
from pinion.chains.kernels.device_chain import ThreadShape, canonical
from pinion.chains.random import random_chain
from pinion.dynamics.checks import DynamicsError
from pinion.native.errors import ComputeError
from pinion.native.toolchain import Compiler
from tests.support.breadth import some
from tests.support.cuda_cfa import Robots, launched, random_robots
from tests.support.cuda_host import HostKernels

Run = Callable[..., np.ndarray]

# Two links per thread, so that a thread's links in inverse dynamics differ from those elsewhere.
WARP, THREAD = ThreadShape("Warp", 1, 64, 0), ThreadShape("Thread", 1, 32, 0)
BLOCK, GRID = ThreadShape("Block", 2, 32, 1), ThreadShape("Grid", 1, 32, 2)
KERNELS = {
    "warp": ("oee", WARP, "float64"),
    "warp_oer": ("oer", WARP, "float64"),
    "block": ("oer", BLOCK, "float64"),
    "block_oee": ("oee", BLOCK, "float64"),
    "grid": ("oee", GRID, "float64"),
    "grid_oer": ("oer", GRID, "float64"),
    "thread": ("ldl", THREAD, "float64"),
    "float": ("ldl", THREAD, "float32"),
}


def kernel_of(name: str, n: int, robots: int) -> CfaKernel:
    solver, shape, dtype = KERNELS[name]
    if shape.scope == "Grid":
        shape = replace(shape, blocks_a_robot=-(-n // (shape.threads * shape.links)))
    return cfa_kernel(n, robots, dtype, solver=solver, shape=shape)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, compiler: Compiler) -> Run:
    texts = "\n".join(dict.fromkeys(kernel_of(name, 9, 1).text for name in KERNELS))
    host = HostKernels(texts, folder=tmp_path_factory.mktemp("cfa"), compiler=compiler)

    def run(name: str, robots: Robots, seed: int = 0) -> np.ndarray:
        kernel = kernel_of(name, robots.q.shape[1], len(robots.q))
        return launched(host, kernel, robots, KERNELS[name][2], seed=seed)["qdd"]

    return run


def assert_exact(qdd: np.ndarray, robots: Robots) -> None:
    """Check every error against 1e-11, or ten times the largest `floor` of `robots` if larger.

    All robots share one bound, because the rounding errors of a robot's
    articulated bodies may cancel, whereas those of a kernel, with another order of operations,
    need not cancel for the same robot.
    """
    errors = robots.errors(qdd)
    allowed = max(1e-11, 10 * robots.floor.max())
    assert errors.max() <= allowed, (robots.q.shape, errors.max(), allowed)


@cache
def robots_of(n: int, count: int) -> Robots:
    return random_robots(n, count, seed=n)


def assert_exact_on(run: Run, name: str, n: int, count: int) -> None:
    robots = robots_of(n, max(8, count))
    if KERNELS[name][1] is GRID:  # which computes one robot
        parts = [robots.one(k) for k in range(count)]
        qdd = np.concatenate([run(name, part, k) for k, part in enumerate(parts)])
    else:
        qdd = run(name, robots, n)
    exact = replace(robots, qdd=robots.qdd[: len(qdd)])
    assert_exact(qdd, exact)


# 200 robots per kernel.
WARPS = {1: 25, 2: 25, 3: 25, 4: 25, 5: 25, 16: 25, 31: 25, 32: 25}
BLOCKS = {1: 20, 2: 20, 31: 20, 32: 20, 33: 40, 63: 40, 64: 40}
GRIDS = {1: 20, 2: 40, 5: 50, 12: 50, 31: 6, 32: 10, 33: 10, 64: 6, 65: 6, 97: 2}
FAST = {
    "warp": WARPS,
    "warp_oer": WARPS,
    "block": BLOCKS,
    "block_oee": BLOCKS,
    "grid": GRIDS,
    "grid_oer": GRIDS,
    "thread": {1: 40, 2: 40, 7: 40, 32: 40, 33: 40},
}
SLOW = {1: 20, 2: 20, 31: 20, 32: 30, 33: 30, 63: 20, 64: 20, 65: 20, 96: 10, 97: 10}


@pytest.mark.parametrize("name", some(FAST, ("warp_oer", "grid_oer", "thread")))
def test_random_robots(name: str, run: Run) -> None:
    for n, count in FAST[name].items():
        assert_exact_on(run, name, n, count)


@pytest.mark.slow
def test_two_hundred_robots_of_a_grid_each(run: Run) -> None:
    for n, count in SLOW.items():
        assert_exact_on(run, "grid", n, count)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n"), [("grid", 500), ("thread", 1000)])
def test_long_chains(name: str, n: int, run: Run) -> None:
    robots = random_robots(n, 1, seed=1)
    assert robots.errors(run(name, robots))[0] <= max(1e-7, 10 * robots.floor[0])


@pytest.mark.parametrize("inertias", ["unit", "taper", "finger"])
def test_other_chains(inertias: str, run: Run) -> None:
    robots = random_robots(12, 8, inertias=inertias)
    assert_exact(run("warp", robots), robots)


def test_no_order_of_threads_changes_a_bit(run: Run) -> None:
    robots = random_robots(23, 3)
    for name in ("warp", "block"):
        first = run(name, robots, 0)
        assert np.array_equal(first, run(name, robots, 1)) and np.all(np.isfinite(first))


def test_single_precision_is_for_short_chains(run: Run) -> None:
    # Medians of the float model in single precision: 5e-5 unrefined at 10 links, 1e-6 refined.
    for n, most in ((3, 1e-4), (10, 1e-2)):
        robots = random_robots(n, 100)
        exact = run("float", robots)
        assert exact.dtype == np.float32
        model = np.concatenate(
            [
                cfa(
                    robots.chains[k.start],
                    *(x[k].astype(np.float32) for x in (robots.q, robots.qd, robots.tau)),
                    solver="ldl",
                )
                for k in robots.groups()
            ]
        )
        errors, reference = robots.errors(exact), robots.errors(model)
        assert np.median(errors) <= max(1e-6, 4 * np.median(reference))
        assert errors.max() <= most


def test_a_link_without_inverse_inertia_is_refused_by_number() -> None:
    chain = canonical(random_chain(4, 0))
    chain.I[2] = 0.0
    with pytest.raises(ComputeError, match="link 2 of the chain 'unit-4-0' has no inverse"):
        constraint_numbers(chain, np.float64)


def test_shapes_and_memory() -> None:
    assert cfa_shape(32, 1, "oee") == ThreadShape("Warp", 1, 32, 0)
    assert cfa_shape(33, 1, "oee") == ThreadShape("Block", 1, 64, 1)
    assert cfa_shape(129, 1, "oee") == ThreadShape("Grid", 1, 64, 3)
    assert cfa_shape(1000, 7, "oer") == ThreadShape("Block", 4, 256, 1)
    assert cfa_shape(1000, 7, "ldl").scope == "Thread"
    with pytest.raises(ComputeError, match="7 robots of 1025 links"):
        cfa_shape(1025, 7, "oee")
    with pytest.raises(DynamicsError, match="solver"):
        cfa_shape(3, 7, "lu")
    assert [words_a_link(512, s) for s in ("oee", "oer", "ldl")] == [590, 130, 130]
    with pytest.raises(ComputeError, match=r"robots, n and refine .* not 0, 5 and 1"):
        cfa_kernel(5, 0)
    with pytest.raises(ComputeError, match="float16"):
        cfa_kernel(5, 1, "float16")
