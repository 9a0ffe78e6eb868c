"""Kernels of one block per sample, run on a processor, compared with the float model."""

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

# Relative to a block's largest element, the worst element of each sample: the median and the
# largest over the samples.
TOLERANCE = {"float64": (1e-12, 1e-11), "float32": (1e-6, 3e-5)}

# Factors of robots with larger float32 errors of results that use M^-1: M is rounded,
# and tau - c. CPU kernels of fd_derivatives, which factorise M too, have the same errors: 2e-6 and
# 6e-6 of qdd for hyq, 6e-7 and 9e-5 of dqdd_dq for atlas.
HARDER = {"hyq": 4.0, "atlas": 5.0}

FAR = 64  # elements around each result that must stay as they are


@cache
def robot(name: str) -> Model:
    """Return a robot; "tree" and "wood" have branches, joints of three kinds and oblique axes, and
    are not numbered depth first; "serial" has massless links between its joints.
    """
    if name == "serial":
        return serial()
    if name not in ("tree", "wood"):
        return load(name)
    model = random_model(np.random.default_rng(12), 11 if name == "tree" else 34)
    bodies = list(model.bodies)
    screw = replace(bodies[4].joint, kind=JointKind.HELICAL, pitch=0.3)
    bodies[4] = replace(bodies[4], joint=screw)
    return replace(model, bodies=tuple(bodies), rated_velocity=(2.0,) * model.nv)


@dataclass(frozen=True)
class Compiled:
    """A kernel on this machine, with its function."""

    model: Model
    row: Function
    source: CooperativeSource
    host: HostKernels

    def states(self, count: int) -> Arrays:
        arrays = sample(self.model, self.row, count, distribution="reference", seed=7)
        if self.row.name == LINKS.name:
            # Formulations differ as much as v, a and f are inconsistent, so no float32 here.
            state = sample(
                self.model,
                named_function("rnea"),
                count,
                distribution="reference",
                seed=7,
            )
            wide = (x.astype(np.float64) for x in state.values())
            links = dynamics.link_states(self.model, *wide)
            arrays = {**arrays, **dict(zip(("v", "a", "f"), links, strict=True))}
        return {name: np.ascontiguousarray(x, self.source.dtype) for name, x in arrays.items()}

    def run(self, inputs: Arrays, *, grid: int, seed: int) -> Arrays:
        count, n = len(inputs["q"]), self.model.nv
        memory, results = [], {}
        for block in self.source.results:
            elements = count * n ** len(block.shape)
            memory.append(np.full(FAR + elements + FAR, np.nan, self.source.dtype))
            flat = memory[-1][FAR : FAR + elements]
            results[block.name] = flat.reshape(count, *(n for _ in block.shape))
        self.host.launch(
            self.source.name,
            grid,
            self.source.threads,
            self.source.shared_bytes,
            [
                ctypes.c_longlong(count),
                *(inputs[block.name] for block in self.source.inputs),
                *results.values(),
            ],
            seed,
        )
        for around in memory:
            assert np.isnan(around[:FAR]).all() and np.isnan(around[-FAR:]).all()
        return results

    def omit(self, barrier: int) -> None:
        """Omit a barrier from now on; -1 for none."""
        self.host.launch("omit", 1, 1, 0, [ctypes.c_int(barrier)], 0)

    def errors(self, inputs: Arrays, results: Arrays) -> dict[str, tuple[float, float]]:
        """Return the median and largest error of the samples for each result; infinite for NaN."""
        wide = {name: x.astype(np.float64) for name, x in inputs.items()}
        errors = {}
        for name, expected in self.row.evaluate(self.model, wide).items():
            axes = tuple(range(1, expected.ndim))
            assert results[name].shape == expected.shape
            scale = np.max(np.abs(expected)) or 1.0  # a pendulum's qdd has no gradient by qd
            error = np.max(np.abs(results[name] - expected), axis=axes) / scale
            error = np.where(np.isnan(error), np.inf, error)
            errors[name] = float(np.median(error)), float(np.max(error))
        return errors

    def is_right(self, inputs: Arrays, results: Arrays) -> bool:
        harder = self.source.dtype == "float32" and self.row.name in ("aba", "fd_derivatives")
        factor = HARDER.get(self.model.name, 1.0) if harder else 1.0
        median, worst = (factor * bound for bound in TOLERANCE[self.source.dtype])
        errors = self.errors(inputs, results)
        print(self.model.name, self.row.name, self.source.dtype, errors)
        return all(m <= median and w <= worst for m, w in errors.values())


class Kernels:
    """Cache of compiled kernels by robot, function and dtype."""

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
            source = cooperative.source(robot(name), row, dtype=dtype)
            watch = "#define PINION_SHARED(T) cuda_host::Watched<T>\n" if watched else ""
            text = watch + with_switches(source.text)
            host = HostKernels(text, folder=self.folder, compiler=self.compiler)
            self.known[key] = Compiled(robot(name), row, source, host)
        return self.known[key]


def named(name: str) -> Function:
    """Return the row of a name, from the table or the partitions."""
    return LINKS if name == LINKS.name else named_function(name)


def with_switches(text: str) -> str:
    """Return the kernel with a second kernel that selects the omitted barrier."""
    numbers: Iterator[int] = iter(range(1000))
    text = re.sub(
        r"__syncthreads\(\);",
        lambda match: f"if (omitted != {next(numbers)}) {match[0]}",
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
    """Return robot, function and dtype; those that others represent are slow."""
    parameters = []
    for name, kind in (("iiwa14", "float64"), ("tree", "float64"), ("atlas", "float32")):
        for row in cooperative.FUNCTIONS:
            dtype = "float32" if (name, row) == ("iiwa14", "fd_derivatives") else kind
            quick = name == "tree" and row in ("rnea", "minv", "fd_derivatives")
            quick = quick or (name, row) == ("iiwa14", "fd_derivatives")
            marks = () if quick else (pytest.mark.slow,)
            parameters.append(pytest.param(name, row, dtype, marks=marks))
    parameters.append(pytest.param("atlas", "fd_derivatives", "float64", marks=pytest.mark.slow))
    # One link, and more links than a warp has threads.
    for name in ("pendulum", "wood"):
        for row in ("rnea", "fd_derivatives"):
            marks = () if (name, row) == ("pendulum", "rnea") else (pytest.mark.slow,)
            parameters.append(pytest.param(name, row, "float64", marks=marks))
    parameters.append(pytest.param("serial", "fd_derivatives", "float64", marks=pytest.mark.slow))
    parameters.append(("serial", "aba", "float64"))
    return parameters


@pytest.mark.parametrize(("name", "row", "dtype"), cases())
def test_every_function_agrees_with_the_float_model(
    name: str, row: str, dtype: str, kernels: Kernels
) -> None:
    kernel = kernels(name, row, dtype)
    inputs = kernel.states(60)
    results = kernel.run(inputs, grid=17, seed=0)
    assert kernel.is_right(inputs, results)
    # Results do not depend on the order of threads and blocks, to the bit.
    few = {key: x[:9] for key, x in inputs.items()}
    for seed in range(1, 4):
        again = kernel.run(few, grid=seed, seed=seed)
        for key, x in again.items():
            assert np.array_equal(x, results[key][:9])


def test_any_grid_computes_any_number_of_samples(kernels: Kernels) -> None:
    kernel = kernels("iiwa14", "fd_derivatives", "float32")
    inputs = kernel.states(11)
    whole = kernel.run(inputs, grid=11, seed=1)
    for count, grid in ((1, 1), (1, 5), (2, 1), (11, 3), (11, 1), (11, 40), (0, 2)):
        part = {key: x[:count] for key, x in inputs.items()}
        results = kernel.run(part, grid=grid, seed=count + grid)
        for key, x in results.items():
            assert x.shape[0] == count and np.array_equal(x, whole[key][:count])


def test_what_is_not_finite_stays_in_its_sample(kernels: Kernels) -> None:
    kernel = kernels("tree", "fd_derivatives", "float64")
    inputs = kernel.states(6)
    clean = kernel.run(inputs, grid=2, seed=0)
    others = np.arange(6) != 2
    for name in ("q", "qd", "tau"):
        broken = {key: x.copy() for key, x in inputs.items()}
        broken[name][2, 3] = np.nan
        results = kernel.run(broken, grid=2, seed=0)
        assert not np.isfinite(results["qdd"][2]).all()
        for key, x in results.items():
            assert np.array_equal(x[others], clean[key][others])


def test_the_inverse_inertia_matrix_is_given_when_asked_for(kernels: Kernels) -> None:
    kernel = kernels("tree", named_function("fd_derivatives", outputs=["minv"]), "float64")
    inputs = kernel.states(20)
    results = kernel.run(inputs, grid=3, seed=0)
    assert list(results) == ["qdd", "dqdd_dq", "dqdd_dqd", "minv"]
    assert kernel.is_right(inputs, results)
    assert np.array_equal(results["minv"], results["minv"].transpose(0, 2, 1))


BARRIERS = [
    ("tree", "float64"),
    pytest.param("atlas", "float32", marks=pytest.mark.slow),
]


# Those whose kernels other tests compile as well.
QUICK = ("rnea", "minv", "fd_derivatives")


@pytest.mark.parametrize("row", some(cooperative.FUNCTIONS, ("rnea",)))
@pytest.mark.parametrize(("name", "dtype"), BARRIERS)
def test_no_two_threads_meet_at_a_word(name: str, dtype: str, row: str, kernels: Kernels) -> None:
    kernel = kernels(name, row, dtype, watched=True)
    inputs = kernel.states(6)
    plain = kernels(name, row, dtype).run(inputs, grid=2, seed=0)
    for key, x in kernel.run(inputs, grid=2, seed=0).items():
        assert np.array_equal(x, plain[key])
    try:
        for barrier in range(kernel.source.text.count("__syncthreads();")):
            kernel.omit(barrier)
            for seed in range(2):
                with pytest.raises(HostError, match="with no barrier between"):
                    kernel.run(inputs, grid=2, seed=seed)
    finally:
        kernel.omit(-1)


@pytest.mark.parametrize("row", some(cooperative.FUNCTIONS, QUICK))
@pytest.mark.parametrize(("name", "dtype"), BARRIERS)
def test_every_barrier_is_needed(name: str, dtype: str, row: str, kernels: Kernels) -> None:
    kernel = kernels(name, row, dtype)
    inputs = kernel.states(6)
    right = kernel.run(inputs, grid=2, seed=0)

    def differs(seed: int) -> bool:
        try:
            results = kernel.run(inputs, grid=2, seed=seed)
        except HostError as error:
            # Indices of writes may not be there yet.
            if "wrote outside" not in str(error):
                raise
            return True
        return any(not np.array_equal(x, right[key]) for key, x in results.items())

    barriers = kernel.source.text.count("__syncthreads();")
    assert barriers >= 2 and not any(map(differs, range(4)))
    try:
        for barrier in range(barriers):
            kernel.omit(barrier)
            telling_seeds = [seed for seed in range(12) if differs(seed)]
            print(f"{row} without barrier {barrier}: {len(telling_seeds)} of 12 seeds show it")
            assert telling_seeds, f"nothing shows that barrier {barrier} is missing"
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
    # By columns, as the threads compute: formulations agree if v, a and f are consistent.
    row = LINKS.formulated("column")
    assert row.variant is not None
    kernel = replace(kernels("hyq", row, "float64"), row=replace(row, scalars=row.variant.scalars))
    rng = np.random.default_rng(3)
    inputs = {key: x.copy() for key, x in kernel.states(6).items()}
    right = kernel.run(inputs, grid=2, seed=0)
    inputs[name] *= rng.uniform(0.5, 1.5, inputs[name].shape)
    changed = kernel.run(inputs, grid=2, seed=0)
    assert kernel.is_right(inputs, changed) and not kernel.is_right(inputs, right)


def test_what_has_no_kernel_is_said_in_a_sentence() -> None:
    with pytest.raises(ComputeError, match="choose one of rnea, crba"):
        cooperative.source("iiwa14", "energy")
    with pytest.raises(ComputeError, match="Unknown dtype 'float16'"):
        cooperative.source("iiwa14", "rnea", dtype="float16")
    with pytest.raises(ComputeError, match="is free_flyer, but kernels"):
        cooperative.source(load("hyq", floating_base=True), "rnea")
    with pytest.raises(ComputeError, match="bytes of shared memory"):
        cooperative.source("chain_80", "fd_derivatives", dtype="float64")
    for row in (named_function("rnea"), LINKS):
        changed_row = replace(row, doc="my own")
        with pytest.raises(ComputeError, match="differs from the built-in function of that name"):
            cooperative.source("iiwa14", changed_row)
