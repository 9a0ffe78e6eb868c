"""Kernels for NEON, run in an emulator of AArch64, compared with this machine's.

The sources, including the runtime, are those that `cpu.compile` compiles there, without Python.
Products are fused alike, so a machine that also fuses them computes the same bits.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.compute import cpu, library_folder
from pinion.compute.cpu import Kernel
from pinion.compute.export import export_library
from pinion.compute.layouts import from_blocks, to_blocks
from pinion.compute.native import HEADERS, LAYOUTS
from pinion.functions import named_function, sample
from pinion.native.isa import INSTRUCTION_SETS, best
from pinion.native.toolchain import Compiler, compile_library, find_compiler
from pinion.robot import load

Arrays = Mapping[str, np.ndarray[Any, np.dtype[Any]]]

COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
PACKAGES = {COMPILER: "g++-aarch64-linux-gnu", EMULATOR: "qemu-user"}
MISSING = [name for name in PACKAGES if shutil.which(name) is None]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(MISSING),
        reason=f"no {' and no '.join(MISSING)} on this machine: "
        f"apt-get install {' '.join(PACKAGES[name] for name in MISSING)}",
    ),
    pytest.mark.skipif(
        not any(shutil.which(name) for name in ("c++", "g++", "clang++")),
        reason="no C++ compiler on this machine",
    ),
]

NEON = next(isa for isa in INSTRUCTION_SETS if isa.name == "neon")
COUNTS = (1, 15, 17, 1000)
SEED = 14
TOLERANCE = {"float64": 1e-11, "float32": 3e-5}  # of a block's largest element, as in test_cpu.py
LIMIT = 600.0  # seconds; ends a hang


@dataclass(frozen=True)
class Machine:
    """The emulated machine.

    Members
    -------
    compiler : its compiler.
    root : folder with its C library.
    runtime, driver : the runtime's library, and the program that calls it.
    """

    compiler: Compiler
    root: Path
    runtime: Path
    driver: Path

    def start(self, *words: object, cwd: Path | None = None) -> list[str]:
        """Run a program there and return the words of its output."""
        completed = subprocess.run(
            [EMULATOR, "-L", self.root, *map(str, words)],
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert completed.returncode == 0, (
            completed.stderr or f"it ended with {completed.returncode}"
        )
        return completed.stdout.split()

    def run(
        self, library: Path, kernel: Kernel, inputs: Arrays, layout: str, threads: int
    ) -> tuple[Arrays, list[int]]:
        """Return results (n, ...) for inputs (n, ...), and each input's first non-finite place."""
        n = len(inputs[kernel.inputs[0].name])
        folder = library.parent
        placed = [_placed(inputs[a.name], layout) for a in kernel.inputs]
        (folder / "in").write_bytes(b"".join(x.tobytes() for x in placed))
        files = (self.runtime, library, folder / "in", folder / "out")
        name, *places = self.start(self.driver, *files, n, LAYOUTS[layout], threads)
        assert name == NEON.name
        numbers = np.fromfile(folder / "out", kernel.dtype)
        results = {}
        for a in kernel.results:
            like = _placed(np.empty((n, *a.shape)), layout)
            elements, numbers = numbers[: like.size], numbers[like.size :]
            results[a.name] = _taken(elements.reshape(like.shape), layout, n)
        assert numbers.size == 0
        return results, [int(place) for place in places]


def _placed(values: np.ndarray[Any, Any], layout: str) -> np.ndarray[Any, Any]:
    if layout == "blocks":
        return to_blocks(values)
    return np.ascontiguousarray(np.moveaxis(values, 0, -1)) if layout == "soa" else values


def _taken(values: np.ndarray[Any, Any], layout: str, n: int) -> np.ndarray[Any, Any]:
    if layout == "blocks":
        return from_blocks(values, n)
    return np.moveaxis(values, -1, 0) if layout == "soa" else values


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    compiler, folder = find_compiler(COMPILER), tmp_path_factory.mktemp("machine")
    command = [COMPILER, "-print-file-name=libc.so.6"]
    library = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    runtime, driver = folder / "runtime.so", folder / "driver"
    sources = {"runtime.cpp": (HEADERS / "runtime.cpp").read_text()}
    compile_library(sources, out=runtime, compiler=compiler, isa=NEON, include=(HEADERS,))
    source = Path(__file__).with_name("other_machine.cpp")
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{HEADERS}"]
    subprocess.run([COMPILER, *flags, source, "-o", driver, "-ldl", "-pthread"], check=True)
    # The path is .../lib/libc.so.6.
    return Machine(compiler, Path(library).resolve().parents[1], runtime, driver)


def compiled(machine: Machine, name: str, dtype: str, folder: Path) -> Path:
    """Compile the kernel's library for the emulated machine."""
    robot, row = load("iiwa14"), named_function(name)
    source = cpu.kernel_of(robot, row, cpu.graph_of(robot, row), dtype=dtype, machine=NEON)
    out = folder / "kernel.so"
    texts = {"kernel.cpp": source.text}
    compile_library(texts, out=out, compiler=machine.compiler, isa=NEON, include=(HEADERS,))
    return out


def assert_same(results: Arrays, native: Arrays, expected: Arrays, dtype: str) -> None:
    """Check the bits of this machine if it fuses products too, and the float model's numbers."""
    for name, values in expected.items():
        assert results[name].shape == values.shape and results[name].dtype == dtype
        worst = np.max(np.abs(results[name] - values)) / np.max(np.abs(values))
        assert worst <= TOLERANCE[dtype]
        if best().name != "portable":
            assert np.array_equal(results[name], native[name])


@pytest.mark.parametrize("dtype", cpu.DTYPES)
@pytest.mark.parametrize("name", ["rnea", "fd_derivatives"])
def test_neon_gives_the_same(
    name: str, dtype: str, machine: Machine, cache_folder: Path, tmp_path: Path
) -> None:
    kernel = cpu.compile("iiwa14", name, dtype=dtype, cache=cache_folder)
    library = compiled(machine, name, dtype, tmp_path)
    samples = sample(
        kernel.model, kernel.function, max(COUNTS), distribution="reference", seed=SEED
    )
    every = {key: values.astype(dtype) for key, values in samples.items()}
    for count in COUNTS:
        inputs = {key: values[:count] for key, values in every.items()}
        native = kernel(**inputs)
        wide = {key: values.astype(np.float64) for key, values in inputs.items()}
        expected = kernel.function.evaluate(kernel.model, wide)
        for layout in cpu.LAYOUTS:
            results, places = machine.run(library, kernel, inputs, layout, threads=2)
            assert places == [-1] * len(kernel.inputs)
            assert_same(results, {key: native[key] for key in expected}, expected, dtype)


@pytest.mark.parametrize("dtype", cpu.DTYPES)
def test_what_is_not_finite_stays_in_its_sample_on_neon(
    dtype: str, machine: Machine, cache_folder: Path, tmp_path: Path
) -> None:
    kernel = cpu.compile("iiwa14", "rnea", dtype=dtype, cache=cache_folder)
    library = compiled(machine, "rnea", dtype, tmp_path)
    samples = sample(kernel.model, kernel.function, 40, distribution="reference", seed=SEED)
    inputs = {key: values.astype(dtype) for key, values in samples.items()}
    clean, _ = machine.run(library, kernel, inputs, "aos", 1)
    # The last is finite, but too large for the vectors' sine: the C library computes it.
    for key, value in (("q", np.inf), ("qd", np.nan), ("qdd", -np.inf), ("q", 1e7)):
        broken = {name: values.copy() for name, values in inputs.items()}
        broken[key][21, 2] = value
        results, places = machine.run(library, kernel, broken, "aos", 1)
        others = np.arange(40) != 21
        assert np.array_equal(results["tau"][others], clean["tau"][others])
        if np.isfinite(value):
            assert places == [-1, -1, -1]
            expected = kernel(**broken).tau[21]
            assert np.allclose(
                results["tau"][21], expected, rtol=0, atol=TOLERANCE[dtype] * np.abs(expected).max()
            )
        else:
            assert np.isnan(results["tau"][21]).any()
            assert places == [21 * 7 + 2 if name == key else -1 for name in broken]


def test_an_exported_library_runs_on_neon(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_folder, "processor", lambda: ("aarch64", frozenset()))
    robot, row, folder = load("iiwa14"), named_function("rnea"), tmp_path / "lib"
    exported = export_library(robot, row, folder, name="arm", compiler=COMPILER)
    assert exported["instruction_sets"] == ["neon", "portable"]
    command = [COMPILER.replace("g++", "gcc"), "example.c", "-Iinclude", "-Llib", "-larm"]
    subprocess.run([*command, "-Wl,-rpath,$ORIGIN/lib", "-o", "example"], cwd=folder, check=True)
    name, *numbers = machine.start(folder / "example")
    assert name == NEON.name
    state = {b.name: np.array([0.1 * (k % 7) for k in range(7)]) for b in row.inputs}
    expected = row.evaluate(robot, state)["tau"]
    tau = np.array([float(x) for x in numbers])
    assert np.abs(tau - expected).max() <= 1e-8 * np.abs(expected).max()
