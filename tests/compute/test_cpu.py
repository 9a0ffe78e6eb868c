"""Compiled functions compared with the float model, on every instruction set of this machine."""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import DTypeLike

from pinion.api import backend
from pinion.base.progress import Progress
from pinion.batch import InputError
from pinion.compute import cpu
from pinion.compute.cpu import Kernel
from pinion.compute.export import export_library
from pinion.compute.layouts import from_blocks, to_blocks
from pinion.functions import SUBJECTS, Block, Function, Uniform, named_function, sample
from pinion.native import isa
from pinion.native.errors import ComputeError
from pinion.robot import load
from tests.compute.runtime_library import KernelStruct
from tests.native.conftest import needs_compiler
from tests.support.breadth import some, some_rows
from tests.support.rows import robot as robot_of

pytestmark = needs_compiler

SETS = [instruction_set.name for instruction_set in isa.available()]

QUICK = ("rnea", "crba", "minv", "fd_derivatives")

# Relative to a block's largest element: float32 rounds some hundred times with 6e-8 each.
TOLERANCE = {"float64": 1e-11, "float32": 3e-5}


def states(
    robot: str, row: Function, count: int, dtype: str, *, seed: int = 5
) -> dict[str, np.ndarray]:
    samples = sample(load(robot), row, count, distribution="reference", seed=seed)
    return {name: values.astype(dtype) for name, values in samples.items()}


def largest_error(kernel: Kernel, result: Any, inputs: dict[str, np.ndarray]) -> float:
    """Return the largest error relative to each result's largest element; infinite for NaN."""
    wide = {name: values.astype(np.float64) for name, values in inputs.items()}
    expected = kernel.function.evaluate(kernel.model, wide)
    worst = 0.0
    for name, values in expected.items():
        assert result[name].shape == values.shape and result[name].dtype == kernel.dtype
        if not np.isfinite(result[name]).all():
            return float("inf")
        worst = max(worst, float(np.max(np.abs(result[name] - values)) / np.max(np.abs(values))))
    return worst


@pytest.mark.parametrize(
    "using", [pytest.param(s, marks=[] if s == SETS[0] else pytest.mark.slow) for s in SETS]
)
@pytest.mark.parametrize(
    ("name", "dtype"),
    some_rows(
        itertools.product([row.name for row in SUBJECTS["dynamics"]], ["float32", "float64"]),
        # What the other tests here compile for other robots is slow.
        lambda name, dtype: (name == "rnea") == (dtype == "float32") and name in QUICK,
    ),
)
def test_every_function_agrees_with_the_float_model(
    name: str, dtype: str, using: str, cache_folder: Path
) -> None:
    row = named_function(name)
    kernel = cpu.compile("two_link", row, dtype=dtype, isa=using, cache=cache_folder)
    inputs = states("two_link", row, 100, dtype)
    assert largest_error(kernel, kernel(**inputs), inputs) <= TOLERANCE[dtype]


def test_a_floating_base_and_quaternions_are_compiled(cache_folder: Path) -> None:
    leg, row = robot_of("floating leg"), named_function("aba")
    kernel = cpu.compile(leg, row, cache=cache_folder)
    inputs = sample(leg, row, 50, distribution="reference", seed=8)
    wide = {name: values.astype(np.float64) for name, values in inputs.items()}
    # Of unit length in float64 too; the quaternion follows the three positions.
    wide["q"][:, 3:7] /= np.linalg.norm(wide["q"][:, 3:7], axis=1, keepdims=True)
    result = kernel(**wide)
    assert result.qdd.shape == (50, 9)
    assert largest_error(kernel, result, wide) <= 1e-10


@pytest.mark.parametrize("name", some(SETS, 1))
def test_instruction_sets_agree(name: str, cache_folder: Path) -> None:
    for dtype in ("float32", "float64"):
        kernel = cpu.compile("iiwa14", "aba", dtype=dtype, isa=name, cache=cache_folder)
        assert kernel.isa.name == name
        reported: bytes = KernelStruct.from_address(kernel.address).isa
        assert reported.decode() == name
        inputs = states("iiwa14", kernel.function, 37, dtype)
        assert largest_error(kernel, kernel(**inputs), inputs) <= TOLERANCE[dtype]


def test_sets_that_fuse_products_give_the_same_bits(cache_folder: Path) -> None:
    fused = [name for name in SETS if name != "portable"]
    if len(fused) < 2:
        pytest.skip("this machine has no two instruction sets that fuse products")
    for dtype in ("float32", "float64"):
        inputs = states("iiwa14", named_function("aba"), 37, dtype)
        first, *others = (
            cpu.compile("iiwa14", "aba", dtype=dtype, isa=name, cache=cache_folder)(**inputs).qdd
            for name in fused
        )
        assert all(np.array_equal(first, other) for other in others)


def test_a_gradient_in_every_layout_and_with_outputs_given(cache_folder: Path) -> None:
    row = named_function("fd_derivatives", outputs=["minv"])
    inputs = states("chain_3", row, 45, "float32")
    kernel = cpu.compile("chain_3", row, dtype="float32", cache=cache_folder)
    result = kernel(**inputs)
    assert largest_error(kernel, result, inputs) <= TOLERANCE["float32"]
    assert not result.saturated.any() and result.cycles is None

    out = {a.name: np.full((45, *a.shape), np.nan, np.float32) for a in kernel.results}
    again = kernel(out=out, **inputs)
    for name in result.names:
        assert again[name] is out[name] and np.array_equal(out[name], result[name])

    blocks = cpu.compile("chain_3", row, dtype="float32", layout="blocks", cache=cache_folder)
    blocked = blocks(**{name: to_blocks(values) for name, values in inputs.items()})
    rows = cpu.compile("chain_3", row, dtype="float32", layout="soa", cache=cache_folder)
    turned = rows(**{name: np.moveaxis(values, 0, -1) for name, values in inputs.items()})
    for name in result.names:
        assert np.array_equal(from_blocks(blocked[name], 45), result[name])
        assert np.array_equal(np.moveaxis(turned[name], -1, 0), result[name])


@pytest.fixture(scope="module")
def arm(cache_folder: Path) -> Kernel:
    return cpu.compile("iiwa14", "rnea", cache=cache_folder)


def test_any_number_of_samples_gives_the_same_bits(arm: Kernel) -> None:
    inputs = states("iiwa14", arm.function, 300, "float64")
    whole = arm(**inputs).tau
    for count in (0, 1, 2, 7, 15, 16, 17, 33, 299):
        part = arm(**{name: values[:count] for name, values in inputs.items()})
        assert part.tau.shape == (count, 7) and np.array_equal(part.tau, whole[:count])
        assert part.saturated.shape == (count,)
    single = arm(**{name: values[3] for name, values in inputs.items()})
    assert single.tau.shape == (7,) and np.array_equal(single.tau, whole[3])
    assert single.saturated.shape == ()
    shared = arm(q=inputs["q"][3], qd=inputs["qd"], qdd=inputs["qdd"]).tau
    each = arm(q=np.tile(inputs["q"][3], (300, 1)), qd=inputs["qd"], qdd=inputs["qdd"]).tau
    assert np.array_equal(shared, each)


def test_the_quick_call_and_the_checked_one_give_the_same(arm: Kernel) -> None:
    assert arm.run != arm._compute, "Python's headers are missing, or the quick call was not made"
    inputs = states("iiwa14", arm.function, 50, "float64")
    assert np.array_equal(arm.run(**inputs).tau, arm._compute(**inputs).tau)
    turned = {name: np.asfortranarray(values) for name, values in inputs.items()}
    assert np.array_equal(arm(**turned).tau, arm(**inputs).tau)
    lists = {name: values[0].tolist() for name, values in inputs.items()}
    assert np.array_equal(arm(**lists).tau, arm(**inputs).tau[0])
    raw = np.zeros(50 * 7 * 8 + 1, dtype=np.uint8)[1:]
    odd = raw.view(np.float64).reshape(50, 7)
    odd[...] = inputs["q"]
    assert not odd.flags.aligned
    assert np.array_equal(arm(**(inputs | {"q": odd})).tau, arm(**inputs).tau)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_columns_of_a_state_take_the_quick_call(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    def checked(self: object, /, *values: object, **named: object) -> None:
        raise LookupError

    options: dict[str, Any] = {"dtype": dtype, "finite": True, "cache": cache_folder}
    usual = cpu.compile("iiwa14", "aba", **options)
    monkeypatch.setattr(cpu.Compiled, "_compute", checked)
    quick = cpu.compile("iiwa14", "aba", **options)
    inputs = states("iiwa14", quick.function, 100, dtype)
    ends = np.cumsum([a.shape[0] for a in quick.inputs])
    state = np.concatenate([inputs[a.name] for a in quick.inputs], axis=1)
    columns = np.split(state, ends[:-1], axis=1)  # views
    assert not any(x.flags.c_contiguous or x.flags.owndata for x in columns)
    for count in (1, 2, 7, 15, 16, 17, 33, 100):
        parts = [x[:count] for x in columns]
        expected = usual(*(x.copy() for x in parts)).qdd
        assert np.array_equal(quick(*parts).qdd, expected)
        out = {"qdd": np.full(expected.shape, np.nan, dtype)}
        assert np.array_equal(quick(*parts, out=out).qdd, expected)
    third = [x[1::3] for x in columns]
    assert np.array_equal(quick(*third).qdd, usual(*(x.copy() for x in third)).qdd)
    repeated = [np.broadcast_to(columns[0][4], columns[0].shape), *columns[1:]]
    assert np.array_equal(quick(*repeated).qdd, usual(*(x.copy() for x in repeated)).qdd)
    # What no kernel reads does not matter; what one reads is checked.
    wide = np.concatenate([columns[2], np.full((100, 3), np.nan, dtype)], axis=1)
    efforts = wide[:, : columns[2].shape[1]]
    assert np.array_equal(quick(*columns[:2], efforts).qdd, usual(*columns).qdd)
    efforts[63, 4] = np.inf
    with pytest.raises(LookupError):
        quick(*columns[:2], efforts)
    with pytest.raises(InputError, match=r"'tau'.*\[63, 4\]"):
        usual(*columns[:2], efforts)
    # Elements apart, samples backwards, results in columns: the checked call.
    for arrays in ([np.asfortranarray(x) for x in columns], [x[::-1] for x in columns]):
        with pytest.raises(LookupError):
            quick(*arrays)
        assert np.array_equal(usual(*arrays).qdd, usual(*(x.copy() for x in arrays)).qdd)
    with pytest.raises(LookupError):
        quick(*columns, out={"qdd": np.empty((100, 30), dtype)[:, : expected.shape[1]]})


def test_what_is_not_finite_stays_in_its_sample(cache_folder: Path) -> None:
    for dtype in ("float32", "float64"):
        kernel = cpu.compile("iiwa14", "rnea", dtype=dtype, cache=cache_folder)
        inputs = states("iiwa14", kernel.function, 40, dtype)
        clean = kernel(**inputs).tau
        for name, value in (("q", np.inf), ("qd", np.nan), ("q", 1e7), ("qdd", -np.inf)):
            broken = {k: v.copy() for k, v in inputs.items()}
            broken[name][21, 2] = value
            tau = kernel(**broken).tau
            others = np.arange(40) != 21
            assert np.array_equal(tau[others], clean[others])
            assert np.isfinite(tau[21]).all() == np.isfinite(value)
            assert np.isnan(tau[21]).any() or np.isfinite(value)


REFUSED = [
    ({"q": np.zeros((3, 6))}, "'q' has the shape"),
    ({"qd": np.zeros((4, 7))}, "different numbers of requests"),
    ({"velocity": np.zeros((3, 7))}, "no input array 'velocity'"),
    ({"qdd": None}, "'qdd'"),
    ({"q": np.zeros((3, 7), dtype=complex)}, "dtype complex128"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_wrong_inputs_are_named(arm: Kernel, change: dict[str, Any], message: str) -> None:
    requests: dict[str, Any] = {name: np.zeros((3, 7)) for name in ("q", "qd", "qdd")} | change
    requests = {name: values for name, values in requests.items() if values is not None}
    with pytest.raises(InputError, match=message):
        arm(**requests)


def test_wrong_outputs_are_named(arm: Kernel) -> None:
    inputs = {name: np.zeros((3, 7)) for name in ("q", "qd", "qdd")}
    frozen = np.zeros((3, 7))
    frozen.flags.writeable = False
    wrong: list[tuple[Any, str]] = [
        ({"tau": np.zeros((4, 7))}, "must be \\(3, 7\\)"),
        ({"tau": np.zeros((3, 7), np.float32)}, "must be float64"),
        ({"tau": frozen}, "is read-only"),
        ({"tau": np.zeros((6, 7))[::2]}, "contiguous and aligned"),
        ({"tau": inputs["q"]}, "overlaps an input"),
        ({"tau": np.zeros((3, 7)), "qdd": np.zeros((3, 7))}, "no result 'qdd'"),
        ({}, "no array for the result 'tau'"),
        (
            np.zeros((3, 7)),
            "'out' must be a mapping .* such as {\"tau\": ...}, not an object of type ndarray",
        ),
    ]
    for out, message in wrong:
        with pytest.raises(InputError, match=message):
            arm(out=out, **inputs)


@pytest.mark.parametrize("dtype", [np.float32, np.dtype("float32"), "f4"])
def test_a_dtype_is_whatever_numpy_takes_for_one(dtype: DTypeLike, cache_folder: Path) -> None:
    kernel = cpu.compile("two_link", "rnea", dtype=dtype, threads=np.int64(1), cache=cache_folder)  # type: ignore[arg-type]  # a whole number all the same
    assert kernel.dtype == np.float32
    single = cpu.compile("two_link", "rnea", dtype="float32", cache=cache_folder)
    inputs = {name: np.full((3, 2), 0.5) for name in ("q", "qd", "qdd")}
    assert kernel(**inputs).tau.dtype == np.float32
    assert np.array_equal(kernel(**inputs).tau, single(**inputs).tau)
    assert cpu.source("two_link", "rnea", dtype=dtype) == cpu.source(
        "two_link", "rnea", dtype="float32"
    )


def test_what_cannot_be_compiled_is_said_in_a_sentence(cache_folder: Path) -> None:
    with pytest.raises(ComputeError, match="Unknown dtype 'float16'"):
        cpu.compile("iiwa14", "rnea", dtype="float16", cache=cache_folder)
    with pytest.raises(InputError, match="Unknown layout 'rows'"):
        cpu.compile("iiwa14", "rnea", layout="rows", cache=cache_folder)
    with pytest.raises(ComputeError, match="Unknown instruction set 'sse9'"):
        cpu.compile("iiwa14", "rnea", isa="sse9", cache=cache_folder)
    nothing: Any = None
    with pytest.raises(ComputeError, match="Unknown dtype 'None'"):
        cpu.compile("iiwa14", "rnea", dtype=nothing, cache=cache_folder)
    for threads in (-1, "two", 1.5, None):
        with pytest.raises(ComputeError, match=f"or 0 for all CPU cores, not {threads!r}"):
            cpu.compile("iiwa14", "rnea", threads=cast(Any, threads), cache=cache_folder)
    with pytest.raises(InputError, match="no function 'dance'"):
        cpu.compile("iiwa14", "dance", cache=cache_folder)


def scaled(factor: float) -> Function:
    """Return a user-defined function with a helper that depends on an argument."""
    return Function(
        name="power",
        doc="joint power, scaled",
        inputs=(
            Block(name="qd", shape=("nv",), unit="rad/s", sampling=Uniform(-1.0, 1.0)),
            Block(name="tau", shape=("nv",), unit="N m", sampling=Uniform(-1.0, 1.0)),
        ),
        outputs=(Block(name="power", shape=(), unit="W"),),
        scalars=lambda model, qd, tau, *, region: (
            sum((a * b for a, b in zip(qd, tau, strict=True)), 0.0) * factor,
        ),
    )


def test_a_function_of_ones_own_is_keyed_by_its_graph(cache_folder: Path) -> None:
    qd, tau = np.arange(8.0).reshape(4, 2), np.ones((4, 2))
    for factor in (2.0, 3.0):
        kernel = cpu.compile("two_link", scaled(factor), cache=cache_folder)
        power = kernel(qd=qd, tau=tau).power
        assert power.shape == (4,) and np.array_equal(power, factor * qd.sum(axis=1))
    impostor = replace(scaled(5.0), name="rnea")
    assert cpu.compile("two_link", impostor, cache=cache_folder)(qd=qd[0], tau=tau[0]).power == 5.0


def test_a_built_in_row_is_found_compiled_without_being_traced(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = {"q": [0.1, 0.2], "qd": [0, 0], "qdd": [0, 0]}
    expected = cpu.compile("two_link", "rnea", cache=cache_folder)(**inputs).tau

    def refuse(*args: Any, **options: Any) -> None:
        raise AssertionError("traced")

    monkeypatch.setattr(Function, "trace", refuse)
    assert np.array_equal(
        cpu.compile("two_link", "rnea", cache=cache_folder)(**inputs).tau, expected
    )
    with pytest.raises(AssertionError, match="traced"):
        # Of a robot that no other test compiles: the cache is that of all.
        cpu.compile("chain_2", "potential_energy", cache=cache_folder)


def test_compiling_is_told_once(cache_folder: Path) -> None:
    # Of a robot that no other test compiles: the cache is that of all.
    messages: list[str] = []
    for device, lines in (("cpu", 1), ("cpu", 1), ("float", 1)):
        options: dict[str, Any] = {} if device == "float" else {"cache": cache_folder}
        backend("chain_2", "gravity", device=device, progress=Progress(messages.append), **options)
        assert len(messages) == lines
    assert messages[0].startswith("Compiling gravity of chain_2 for ")


def test_threads_share_a_kernel_and_a_fork_goes_on(cache_folder: Path) -> None:
    kernel = cpu.compile("two_link", "rnea", dtype="float32", cache=cache_folder)
    inputs = states("two_link", kernel.function, 20_000, "float32")
    expected = kernel(**inputs).tau
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(5):
            if not np.array_equal(kernel(**inputs).tau, expected):
                wrong.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(600)
    assert not wrong and not any(worker.is_alive() for worker in workers)
    child = os.fork()
    if child == 0:  # the pool has started in the parent
        os._exit(0 if np.array_equal(kernel(**inputs).tau, expected) else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_front_has_the_cpu_beside_the_float_model(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = states("two_link", named_function("aba"), 10, "float64")
    with (
        backend("two_link", "aba", device="cpu", cache=cache_folder) as fast,
        backend("two_link", "aba", device="float") as slow,
    ):
        fast_result, other = fast.run(**inputs), slow(**inputs)
        assert (
            fast_result.names == other.names
            and fast_result.saturated.shape == other.saturated.shape
        )
        # The float model takes float32, as a card does.
        assert np.allclose(fast_result.qdd, other.qdd, rtol=1e-4)
        broken = {name: values.copy() for name, values in inputs.items()}
        broken["qd"][7, 1] = np.nan
        for opened in (fast, slow):
            with pytest.raises(InputError, match=r"'qd' at index \[7, 1\] is nan"):
                opened.run(**broken)
    with pytest.raises(InputError, match="'cpu' has no option 'ii'; its own options are dtype"):
        backend("two_link", "aba", device="cpu", ii=2)
    with pytest.raises(InputError, match="no address, but '3'"):
        backend("two_link", "aba", device="cpu:3")


@pytest.mark.slow
def test_a_c_program_uses_an_exported_function(tmp_path: Path) -> None:
    robot, row = load("two_link"), named_function("aba")
    record = export_library(robot, row, tmp_path / "lib", name="arm")
    assert {"include/arm.h", "lib/libarm.so", "lib/pkgconfig/arm.pc"} <= set(record["files"])
    folder = tmp_path / "lib"
    compiler = shutil.which("cc") or shutil.which("gcc") or "c++"
    command = [compiler, "-Wall", "-Wextra", "-Werror", "example.c", "-Iinclude", "-Llib", "-larm"]
    subprocess.run([*command, "-Wl,-rpath,$ORIGIN/lib", "-o", "example"], cwd=folder, check=True)
    completed = subprocess.run([folder / "example"], capture_output=True, text=True, check=True)
    name, *numbers = completed.stdout.split()
    assert name == SETS[0]
    state = {b.name: np.array([[0.0, 0.1]]) for b in row.inputs}
    expected = row.evaluate(robot, state)["qdd"][0]
    assert np.allclose([float(x) for x in numbers], expected, rtol=1e-8)

    library = ctypes.CDLL(str(folder / "lib" / "libarm.so"))
    exported = subprocess.run(
        ["nm", "-D", "--defined-only", folder / "lib" / "libarm.so"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = {line.split()[-1] for line in exported.splitlines()}
    assert names == {"arm_f32", "arm_f64", "arm_blocks_f32", "arm_blocks_f64", "arm_isa"}
    assert library.arm_f64(ctypes.c_size_t(1), *([None] * 4), 1) == 2, "null pointers are refused"
    with pytest.raises(ComputeError, match="not an empty folder"):
        export_library(robot, row, tmp_path / "lib", name="arm")
    with pytest.raises(ComputeError, match="not a valid name for a C library"):
        export_library(robot, row, tmp_path / "other", name="7up")
    assert not (tmp_path / "other").exists()
