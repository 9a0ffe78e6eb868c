"""Kernels of one block a sample, run on a processor, beside the float model."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion import dynamics
from pinion.compute.cuda import cooperative
from pinion.compute.cuda.cooperative import CooperativeSource
from pinion.functions import Function, named_function, sample
from pinion.functions.partitions import RNEA_DERIVATIVES_FROM_LINKS
from pinion.native.errors import ComputeError
from pinion.native.toolchain import Compiler
from pinion.robot import JointKind, Model, load
from tests.dynamics.models import random_model, serial
from tests.support.breadth import some
from tests.support.cuda_host import HostError, HostKernels

LINKS = RNEA_DERIVATIVES_FROM_LINKS

Arrays = Mapping[str, np.ndarray[Any, Any]]

# Of a block's largest element, for each sample the worst element: the median of the samples and the
# worst one.
TOLERANCE = {"float64": (1e-12, 1e-11), "float32": (1e-6, 3e-5)}

# Robots whose float32 errors are larger where results come through M^-1, by how much: M is rounded,
# and tau - c. CPU kernels of fd_derivatives, which factorise M too, have the same errors: 2e-6 and
# 6e-6 of qdd for hyq, 6e-7 and 9e-5 of dqdd_dq for atlas.
HARDER = {"hyq": 4.0, "atlas": 5.0}

FAR = 64  # elements around each result that must stay as they are


@cache
def robot(name: str) -> Model:
    """A robot; "tree" and "wood" have branches, joints of three kinds and oblique axes, and their
    numbers are in no depth-first order; "serial" has links without mass between its joints.
    """
    if name == "serial":
        return serial()
    if name not in ("tree", "wood"):
        return load(name)
    made = random_model(np.random.default_rng(12), 11 if name == "tree" else 34)
    bodies = list(made.bodies)
    screw = replace(bodies[4].joint, kind=JointKind.HELICAL, pitch=0.3)
    bodies[4] = replace(bodies[4], joint=screw)
    return replace(made, bodies=tuple(bodies), rated_velocity=(2.0,) * made.nv)


@dataclass(frozen=True)
class Compiled:
    """A kernel on this machine, with the function that it is of."""

    model: Model
    row: Function
    made: CooperativeSource
    host: HostKernels

    def states(self, count: int) -> Arrays:
        drawn = sample(self.model, self.row, count, distribution="reference", seed=7)
        if self.row.name == LINKS.name:
            # Formulations differ as much as v, a and f contradict each other: not by roundings to
            # float32 here.
            state = sample(
                self.model,
                named_function("rnea"),
                count,
                distribution="reference",
                seed=7,
            )
            wide = (x.astype(np.float64) for x in state.values())
            links = dynamics.link_states(self.model, *wide)
            drawn = {**drawn, **dict(zip(("v", "a", "f"), links, strict=True))}
        return {name: np.ascontiguousarray(x, self.made.dtype) for name, x in drawn.items()}

    def run(self, given: Arrays, *, grid: int, seed: int) -> Arrays:
        count, n = len(given["q"]), self.model.nv
        memory, results = [], {}
        for block in self.made.results:
            elements = count * n ** len(block.shape)
            memory.append(np.full(FAR + elements + FAR, np.nan, self.made.dtype))
            own = memory[-1][FAR : FAR + elements]
            results[block.name] = own.reshape(count, *(n for _ in block.shape))
        self.host.launch(
            self.made.name,
            grid,
            self.made.threads,
            self.made.shared_bytes,
            [
                ctypes.c_longlong(count),
                *(given[block.name] for block in self.made.inputs),
                *results.values(),
            ],
            seed,
        )
        for around in memory:
            assert np.isnan(around[:FAR]).all() and np.isnan(around[-FAR:]).all()
        return results

    def omit(self, barrier: int) -> None:
        """Leave out a barrier from now on; -1 for none."""
        self.host.launch("omit", 1, 1, 0, [ctypes.c_int(barrier)], 0)

    def errors(self, given: Arrays, results: Arrays) -> dict[str, tuple[float, float]]:
        """For each result the median and the worst error of the samples; infinite for NaN."""
        wide = {name: x.astype(np.float64) for name, x in given.items()}
        found = {}
        for name, wanted in self.row.evaluate(self.model, wide).items():
            axes = tuple(range(1, wanted.ndim))
            assert results[name].shape == wanted.shape
            scale = np.max(np.abs(wanted)) or 1.0  # a pendulum's qdd has no gradient by qd
            error = np.max(np.abs(results[name] - wanted), axis=axes) / scale
            error = np.where(np.isnan(error), np.inf, error)
            found[name] = float(np.median(error)), float(np.max(error))
        return found

    def is_right(self, given: Arrays, results: Arrays) -> bool:
        harder = self.made.dtype == "float32" and self.row.name in ("aba", "fd_derivatives")
        factor = HARDER.get(self.model.name, 1.0) if harder else 1.0
        median, worst = (factor * bound for bound in TOLERANCE[self.made.dtype])
        errors = self.errors(given, results)
        print(self.model.name, self.row.name, self.made.dtype, errors)
        return all(m <= median and w <= worst for m, w in errors.values())


class Kernels:
    """Compiled kernels by robot, function and dtype, each compiled once."""

    def __init__(self, folder: Path, compiler: Compiler) -> None:
        self.folder = folder
        self.compiler = compiler
        self.known: dict[tuple[str, Function, str, bool], Compiled] = {}

    def __call__(
        self, name: str, row: Function | str, dtype: str, *, watched: bool = False
    ) -> Compiled:
        row = named(row) if isinstance(row, str) else row
        key = name, row, dtype, watched
        if key not in self.known:
            made = cooperative.source(robot(name), row, dtype=dtype)
            watch = "#define PINION_SHARED(T) cuda_host::Watched<T>\n" if watched else ""
            text = watch + with_switches(made.text)
            host = HostKernels(text, folder=self.folder, compiler=self.compiler)
            self.known[key] = Compiled(robot(name), row, made, host)
        return self.known[key]


def named(name: str) -> Function:
    """The row of a name, of the table or of the partitions."""
    return LINKS if name == LINKS.name else named_function(name)


def with_switches(text: str) -> str:
    """The kernel with a kernel beside it that says which barrier is left out."""
    numbers: Iterator[int] = iter(range(1000))
    text = re.sub(
        r"__syncthreads\(\);",
        lambda found: f"if (omitted != {next(numbers)}) {found[0]}",
        text,
    )
    return (
        "static int omitted = -1;\n"
        'extern "C" __global__ void omit(int barrier) { omitted = barrier; }\n' + text
    )


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory, compiler: Compiler) -> Kernels:
    return Kernels(tmp_path_factory.mktemp("cooperative"), compiler)


def cases() -> list[Any]:
    """Robot, function, dtype; those that others stand for are slow."""
    found = []
    for name in ("iiwa14", "hyq", "tree", "atlas"):
        for row in cooperative.FUNCTIONS:
            for dtype in ("float32", "float64"):
                quick = (name, dtype) == ("tree", "float64")
                quick = quick and row in ("rnea", "minv", "fd_derivatives")
                quick = quick or (name, row, dtype) == ("iiwa14", "fd_derivatives", "float32")
                marks = () if quick else (pytest.mark.slow,)
                found.append(pytest.param(name, row, dtype, marks=marks))
    # One link, and more links than a warp has threads.
    for name in ("pendulum", "wood"):
        for row in ("rnea", "fd_derivatives"):
            marks = () if row == "fd_derivatives" else (pytest.mark.slow,)
            found.append(pytest.param(name, row, "float64", marks=marks))
    found += [("serial", row, "float64") for row in ("aba", "fd_derivatives")]
    return found


@pytest.mark.parametrize(("name", "row", "dtype"), cases())
def test_every_function_agrees_with_the_float_model(
    name: str, row: str, dtype: str, kernels: Kernels
) -> None:
    kernel = kernels(name, row, dtype)
    given = kernel.states(60)
    results = kernel.run(given, grid=17, seed=0)
    assert kernel.is_right(given, results)
    # The order of threads and blocks does not show, to the bit.
    few = {key: x[:9] for key, x in given.items()}
    for seed in range(1, 4):
        again = kernel.run(few, grid=seed, seed=seed)
        for key, x in again.items():
            assert np.array_equal(x, results[key][:9])


def test_any_grid_computes_any_number_of_samples(kernels: Kernels) -> None:
    kernel = kernels("iiwa14", "fd_derivatives", "float32")
    given = kernel.states(11)
    whole = kernel.run(given, grid=11, seed=1)
    for count, grid in ((1, 1), (1, 5), (2, 1), (11, 3), (11, 1), (11, 40), (0, 2)):
        part = {key: x[:count] for key, x in given.items()}
        results = kernel.run(part, grid=grid, seed=count + grid)
        for key, x in results.items():
            assert x.shape[0] == count and np.array_equal(x, whole[key][:count])


def test_what_is_not_finite_stays_in_its_sample(kernels: Kernels) -> None:
    kernel = kernels("tree", "fd_derivatives", "float64")
    given = kernel.states(6)
    clean = kernel.run(given, grid=2, seed=0)
    others = np.arange(6) != 2
    for name in ("q", "qd", "tau"):
        broken = {key: x.copy() for key, x in given.items()}
        broken[name][2, 3] = np.nan
        results = kernel.run(broken, grid=2, seed=0)
        assert not np.isfinite(results["qdd"][2]).all()
        for key, x in results.items():
            assert np.array_equal(x[others], clean[key][others])


def test_the_inverse_inertia_matrix_is_given_when_asked_for(kernels: Kernels) -> None:
    kernel = kernels("tree", named_function("fd_derivatives", outputs=["minv"]), "float64")
    given = kernel.states(20)
    results = kernel.run(given, grid=3, seed=0)
    assert list(results) == ["qdd", "dqdd_dq", "dqdd_dqd", "minv"]
    assert kernel.is_right(given, results)
    assert np.array_equal(results["minv"], results["minv"].transpose(0, 2, 1))


BARRIERS = [
    ("tree", "float64"),
    pytest.param("iiwa14", "float32", marks=pytest.mark.slow),
    pytest.param("hyq", "float64", marks=pytest.mark.slow),
    pytest.param("atlas", "float32", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("row", some(cooperative.FUNCTIONS, ("rnea", "fd_derivatives")))
@pytest.mark.parametrize(("name", "dtype"), BARRIERS)
def test_no_two_threads_meet_at_a_word(name: str, dtype: str, row: str, kernels: Kernels) -> None:
    kernel = kernels(name, row, dtype, watched=True)
    given = kernel.states(6)
    plain = kernels(name, row, dtype).run(given, grid=2, seed=0)
    for key, x in kernel.run(given, grid=2, seed=0).items():
        assert np.array_equal(x, plain[key])
    try:
        for barrier in range(kernel.made.text.count("__syncthreads();")):
            kernel.omit(barrier)
            for seed in range(2):
                with pytest.raises(HostError, match="with no barrier between"):
                    kernel.run(given, grid=2, seed=seed)
    finally:
        kernel.omit(-1)


@pytest.mark.parametrize("row", cooperative.FUNCTIONS)
@pytest.mark.parametrize(("name", "dtype"), BARRIERS)
def test_every_barrier_is_needed(name: str, dtype: str, row: str, kernels: Kernels) -> None:
    kernel = kernels(name, row, dtype)
    given = kernel.states(6)
    right = kernel.run(given, grid=2, seed=0)

    def differs(seed: int) -> bool:
        try:
            results = kernel.run(given, grid=2, seed=seed)
        except HostError as error:
            # What says where to write may not be there yet.
            if "wrote outside" not in str(error):
                raise
            return True
        return any(not np.array_equal(x, right[key]) for key, x in results.items())

    barriers = kernel.made.text.count("__syncthreads();")
    assert barriers >= 2 and not any(map(differs, range(4)))
    try:
        for barrier in range(barriers):
            kernel.omit(barrier)
            shown = [seed for seed in range(12) if differs(seed)]
            print(f"{row} without barrier {barrier}: {len(shown)} of 12 seeds show it")
            assert shown, f"nothing shows that barrier {barrier} is missing"
    finally:
        kernel.omit(-1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shared_memory_is_what_every_gpu_has(dtype: str) -> None:
    for row in cooperative.FUNCTIONS:
        for name in ("iiwa14", "hyq"):
            assert cooperative.source(name, row, dtype=dtype).shared_bytes <= 48 * 1024
        large = cooperative.source("atlas", row, dtype=dtype)
        assert large.threads in (32, 64)
        assert large.shared_bytes <= (48 if dtype == "float32" else 99) * 1024


def test_both_formulations_of_a_gradient_have_the_same_kernel() -> None:
    plain = cooperative.source("two_link", "rnea_derivatives")
    column = cooperative.source(
        "two_link", named_function("rnea_derivatives", derivatives="column")
    )
    assert plain.text == column.text
    plain, column = (
        cooperative.source("two_link", row) for row in (LINKS, LINKS.formulated("column"))
    )
    assert plain.text == column.text


@pytest.mark.parametrize("name", ["v", "a", "f"])
def test_what_links_do_is_read_and_not_computed_anew(name: str, kernels: Kernels) -> None:
    # By columns, as the threads compute: formulations agree where v, a and f agree.
    row = LINKS.formulated("column")
    assert row.variant is not None
    kernel = replace(kernels("hyq", row, "float64"), row=replace(row, scalars=row.variant.scalars))
    rng = np.random.default_rng(3)
    given = {key: x.copy() for key, x in kernel.states(6).items()}
    right = kernel.run(given, grid=2, seed=0)
    given[name] *= rng.uniform(0.5, 1.5, given[name].shape)
    changed = kernel.run(given, grid=2, seed=0)
    assert kernel.is_right(given, changed) and not kernel.is_right(given, right)


def test_what_has_no_kernel_is_said_in_a_sentence() -> None:
    with pytest.raises(ComputeError, match="choose one of rnea, crba"):
        cooperative.source("iiwa14", "energy")
    with pytest.raises(ComputeError, match="no dtype 'float16'"):
        cooperative.source("iiwa14", "rnea", dtype="float16")
    with pytest.raises(ComputeError, match="is free_flyer, and the threads"):
        cooperative.source(load("hyq", floating_base=True), "rnea")
    with pytest.raises(ComputeError, match="bytes of shared memory"):
        cooperative.source("chain_80", "fd_derivatives", dtype="float64")
    for row in (named_function("rnea"), LINKS):
        own = replace(row, doc="my own")
        with pytest.raises(ComputeError, match="is not the table's of that name"):
            cooperative.source("iiwa14", own)
