"""Kernels of one thread per sample, run on a processor: the bits of the CPU path."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.compute import cpu
from pinion.compute.cuda.parts import WORKSPACE, Room, plan, split
from pinion.compute.cuda.threads import SHARED_BYTES, ThreadSource, thread_source
from pinion.compute.layouts import to_blocks
from pinion.compute.program.instructions import KernelProgram, Kind, select
from pinion.functions import SUBJECTS, Block, Function, named_function, sample
from pinion.functions.partitions import PARTITIONS
from pinion.native import isa
from pinion.native.errors import ComputeError
from pinion.robot import load
from tests.support.breadth import some, some_rows
from tests.support.cuda_threads import on_host, run_threads
from tests.support.rows import FRAME_ROWS, SECOND_ORDER
from tests.support.solver_steps import solver_steps

pytestmark = [
    pytest.mark.skipif(
        not any(shutil.which(name) for name in ("c++", "g++", "clang++")),
        reason="no C++ compiler on this machine",
    ),
    pytest.mark.skipif(
        isa.best().name == "portable",
        reason="this machine has no fused multiply-add, so its results have other last bits",
    ),
]

DTYPES = ("float32", "float64")
COUNT = 75  # three warps, the last one incomplete


def printed(
    robot: str, row: Function, dtype: str, layout: str, room: Room | None = None
) -> ThreadSource:
    model = load(robot)
    return thread_source(
        cpu.graph_of(model, row),
        inputs=[b.resolved(model) for b in row.inputs],
        results=[b.resolved(model) for b in row.results],
        dtype=dtype,
        layout=layout,
        name=row.name,
        title=f"{row.name} of {robot}",
        room=room,
    )


def in_layout(layout: str, rows: np.ndarray) -> np.ndarray:
    if layout == "blocks":
        return to_blocks(rows)
    return rows if layout == "aos" else np.ascontiguousarray(np.moveaxis(rows, 0, -1))


def as_rows(layout: str, array: np.ndarray, count: int) -> np.ndarray:
    if layout == "blocks":
        return np.moveaxis(array, -1, 1).reshape(-1, *array.shape[1:-1])[:count]
    return array if layout == "aos" else np.moveaxis(array, -1, 0)


def same_as_processor(
    robot: str,
    row: Function,
    source: ThreadSource,
    folder: Path,
    cache_folder: Path,
    *,
    seed: int = 1,
    signed_zeros: bool = True,
) -> None:
    """Check that every result has the bits of the CPU path for several numbers of samples."""
    model = load(robot)
    samples = sample(model, row, COUNT, distribution="reference", seed=seed)
    inputs = {name: values.astype(source.dtype) for name, values in samples.items()}
    cpu_results = cpu.compile(model, row, dtype=source.dtype, threads=1, cache=cache_folder)(
        **inputs
    )
    kernels = on_host(source, folder)
    for count in (1, 33, COUNT):
        results = run_threads(
            source,
            kernels,
            inputs=[b.resolved(model) for b in row.inputs],
            results=[b.resolved(model) for b in row.results],
            arrays={k: in_layout(source.layout, v[:count]) for k, v in inputs.items()},
            count=count,
            seed=seed,
        )
        for name, values in results.items():
            rows = as_rows(source.layout, values, count)
            assert np.isfinite(rows).all(), name
            expected = np.ascontiguousarray(cpu_results[name][:count])
            if not signed_zeros:
                rows, expected = rows + 0.0, expected + 0.0
            assert rows.tobytes() == expected.tobytes(), name


@pytest.mark.parametrize(
    ("dtype", "layout"),
    some_rows([("float32", "blocks"), ("float32", "aos"), ("float64", "soa")], 1),
)
def test_threads_compute_what_processors_do(
    tmp_path: Path, cache_folder: Path, dtype: str, layout: str
) -> None:
    row = named_function("rnea")
    same_as_processor("iiwa14", row, printed("iiwa14", row, dtype, layout), tmp_path, cache_folder)


@pytest.mark.slow  # tests/compute/cuda/test_partition_times.py computes one as well
@pytest.mark.parametrize("partition", PARTITIONS)
def test_threads_compute_each_partition(tmp_path: Path, cache_folder: Path, partition: str) -> None:
    row = PARTITIONS[partition].device
    source = printed("iiwa14", row, "float32", "aos")
    # Zeros in v and a of the first link make exact zeros. Of scalars, GCC takes -fma(-a, b, c) for
    # a b - c, which has the other sign then; of vectors it does not.
    same_as_processor(
        "iiwa14", row, source, tmp_path, cache_folder, signed_zeros=partition != "split"
    )


@pytest.mark.slow
def test_values_that_do_not_fit_into_registers(tmp_path: Path, cache_folder: Path) -> None:
    row = named_function("fd_derivatives")
    source = printed("iiwa14", row, "float64", "soa")
    assert source.kernels[0].moves > 0 and source.kernels[0].far == 0
    same_as_processor("iiwa14", row, source, tmp_path, cache_folder)


@pytest.mark.slow  # tests/compute/cuda/test_kernel.py has programs of several kernels as well
def test_several_kernels_share_the_work(tmp_path: Path, cache_folder: Path) -> None:
    # So little room that the columns of the gradient go to separate kernels, and so little
    # shared memory that a few values go to local memory.
    row = named_function("rnea_derivatives")
    source = printed("iiwa14", row, "float32", "blocks", Room(plain=40, registers=30, slots=15))
    assert len(source.kernels) > 2 and source.workspace > 0
    assert any(kernel.reads for kernel in source.kernels)
    same_as_processor("iiwa14", row, source, tmp_path, cache_folder)


@pytest.mark.slow
def test_what_shared_memory_cannot_hold_is_in_local_memory(
    tmp_path: Path, cache_folder: Path
) -> None:
    row = named_function("fd_derivatives")
    source = printed("iiwa14", row, "float64", "soa", Room(plain=0, registers=20, slots=10_000))
    assert len(source.kernels) == 1
    assert source.kernels[0].far > 0 and source.kernels[0].shared_bytes <= SHARED_BYTES
    same_as_processor("iiwa14", row, source, tmp_path, cache_folder)


def test_one_sample_serves_all(tmp_path: Path) -> None:
    model, row = load("two_link"), named_function("rnea")
    inputs = sample(model, row, 40, distribution="reference", seed=3)
    inputs["qd"] = inputs["qd"][:1].repeat(40, axis=0)
    blocks = {
        "inputs": [b.resolved(model) for b in row.inputs],
        "results": [b.resolved(model) for b in row.results],
    }
    for layout in ("aos", "soa"):
        source = printed("two_link", row, "float64", layout)
        kernels = on_host(source, tmp_path)
        each = {k: in_layout(layout, v) for k, v in inputs.items()}
        shared = {**each, "qd": inputs["qd"][0]}
        results = [
            run_threads(source, kernels, arrays=g, count=40, **blocks)["tau"]
            for g in (each, shared)
        ]
        assert np.isfinite(results[0]).all()
        assert results[0].tobytes() == results[1].tobytes()


def test_a_missing_barrier_shows(tmp_path: Path, cache_folder: Path) -> None:
    # Arrays of structures pass through shared memory between two barriers.
    row = named_function("rnea")
    source = printed("two_link", row, "float32", "aos")
    (kernel,) = source.kernels
    barrier = "__syncthreads();"
    assert kernel.text.count(barrier) == 2
    for at in (kernel.text.index(barrier), kernel.text.rindex(barrier)):
        text = kernel.text[:at] + kernel.text[at + len(barrier) :]
        with pytest.raises(AssertionError):
            same_as_processor(
                "two_link",
                row,
                replace(source, kernels=(replace(kernel, text=text),)),
                tmp_path,
                cache_folder,
            )


@cache
def gradient() -> KernelProgram:
    return select(cpu.graph_of(load("iiwa14"), named_function("rnea_derivatives")))


def test_a_split_program_computes_everything_once() -> None:
    program = gradient()
    for groups in (2, 3, 7):
        pieces = split(program, groups)
        # The last columns may need nothing that only they use.
        assert groups <= len(pieces) <= groups + 1
        assert sum(piece.arithmetic for piece in pieces) == program.arithmetic
        written = [word for piece in pieces for word, _ in piece.outputs]
        assert len(set(written)) == len(written)
        assert {w for w in written if w.block != WORKSPACE} == {w for w, _ in program.outputs}
        handed = {word for word, _ in pieces[0].outputs if word.block == WORKSPACE}
        for piece in pieces[1:]:
            read = {it.value for it in piece.instructions if it.kind is Kind.INPUT}
            assert {w for w in read if w.block == WORKSPACE} <= handed


def test_a_program_that_fits_nowhere_is_split_as_well_as_can_be() -> None:
    program = gradient()
    best = plan(program, Room(plain=1, registers=8, slots=1))
    assert len(best) > 1
    whole_plan = plan(program, Room(plain=1, registers=8, slots=10_000))
    assert max(part.slots for part in best) < whole_plan[0].slots


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "float16"}, "Unknown dtype 'float16'"),
        ({"layout": "rows"}, "Unknown layout 'rows'"),
        ({"name": "a b"}, "'a b' is not a valid name for a kernel"),
        ({"results": [Block(name=WORKSPACE, shape=(7,), unit="")]}, "is reserved"),
    ],
)
def test_wrong_arguments_are_refused(change: dict[str, Any], message: str) -> None:
    model, row = load("iiwa14"), named_function("rnea")
    options: dict[str, Any] = {
        "inputs": [b.resolved(model) for b in row.inputs],
        "results": [b.resolved(model) for b in row.results],
        "dtype": "float32",
        "layout": "soa",
        "name": "rnea",
        "title": "",
    }
    with pytest.raises(ComputeError, match=message):
        thread_source(cpu.graph_of(model, row), **{**options, **change})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("robot", "name", "dtype"),
    [
        # Half the functions in each type, and of larger robots one function each.
        *(
            ("iiwa14", row.name, DTYPES[number % 2])
            for number, row in enumerate(SUBJECTS["dynamics"])
        ),
        ("hyq", "fd_derivatives", "float32"),
        ("atlas", "crba", "float32"),
    ],
)
def test_every_function(
    tmp_path: Path, cache_folder: Path, robot: str, name: str, dtype: str
) -> None:
    row = named_function(name)
    same_as_processor(robot, row, printed(robot, row, dtype, "aos"), tmp_path, cache_folder)


@pytest.mark.parametrize(
    "name", [SECOND_ORDER[0], *(pytest.param(n, marks=pytest.mark.slow) for n in SECOND_ORDER[1:])]
)
def test_second_derivatives(tmp_path: Path, cache_folder: Path, name: str) -> None:
    row = named_function(name)
    same_as_processor(
        "two_link", row, printed("two_link", row, "float64", "aos"), tmp_path, cache_folder
    )


@pytest.mark.parametrize("name", some(FRAME_ROWS, ("frame_velocity",)))
def test_frames(tmp_path: Path, cache_folder: Path, name: str) -> None:
    row = named_function(name, frames="iiwa_link_4,tool=iiwa_link_7@0,0,0.1", reference="local")
    same_as_processor(
        "iiwa14", row, printed("iiwa14", row, "float32", "blocks"), tmp_path, cache_folder
    )


@pytest.mark.parametrize(
    "step",
    [
        "final",
        *(pytest.param(step, marks=pytest.mark.slow) for step in ("riccati", "roll", "stage")),
    ],
)
def test_steps_of_a_solver(tmp_path: Path, cache_folder: Path, step: str) -> None:
    """Compile the parts of an iteration of trajectory optimisation besides the gradient."""
    row = solver_steps(load("two_link"))[step]
    same_as_processor(
        "two_link", row, printed("two_link", row, "float64", "blocks"), tmp_path, cache_folder
    )
