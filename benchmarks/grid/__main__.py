"""Measure GRiD on an NVIDIA GPU: ``python -m benchmarks.grid [-o FILE.json] [--largest N]``.

GRiD (``grid-rbd`` on PyPI) generates CUDA code for a robot. Five of its algorithms are generated
for the iiwa14, compiled with its own flags, checked on 128 samples with Pinion's float model and
timed by ``bench.cu``: kernels alone, and GRiD's functions for arrays of the host. Work files go to
``build/grid``. Exit code 1 if an error is above 1e-3 or a function gave no measurement, and 2 if
a tool or the GPU is missing.

The C++ part (``bench.cu``) ran with GRiD 0.6.0 on an H200, up to N = 16,384, started by a script;
since then only its layout and its arguments have changed. This Python part, which replaces the
script, has not run on a GPU.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.cpu.tools import MissingToolError

from pinion.functions import named_function
from pinion.robot import load, urdf_text

Rows = Sequence[Mapping[str, Any]]

SOURCE = Path(__file__).resolve().parent / "bench.cu"
FOLDER = Path(__file__).resolve().parents[2] / "build" / "grid"
"""Folder of generated code, inputs and programs; git ignores it and `make clean` removes it."""

ROBOT = "iiwa14"
ALGORITHMS = {
    "rnea": ("inverse_dynamics", ("tau",)),
    "aba": ("aba", ("qdd",)),
    "forward_dynamics": ("forward_dynamics", ("qdd",)),
    "rnea_derivatives": ("inverse_dynamics_gradient", ("dtau_dq", "dtau_dqd")),
    "fd_derivatives": ("forward_dynamics_gradient", ("dqdd_dq", "dqdd_dqd")),
}
"""GRiD's names of its algorithms and our names of their results, in the order of ``-DFN``."""

FLAGS = ("-std=c++17", "-O3", "-ftz=true", "-prec-div=false", "-prec-sqrt=false")
"""Flags of nvcc that GRiD compiles with (``grid_rbd/_compile.py``)."""

SIZES = (16, 128, 1024, 16384, 131072)
INPUTS, CHECKED = 16384, 128
"""Number of different samples, which larger batches repeat, and of those with expected results."""

LIMIT = 1e-3
"""Largest error relative to the largest expected value; those of the H200 were below 1e-6."""

SECONDS = 600
"""Timeout that only ends a program that hangs."""

COLUMNS = {
    "k baked": ("kernel", "baked"),
    "k no f_ext": ("kernel", "baked, no f_ext"),
    "k tuned": ("kernel", "tuned, no f_ext"),
    "h baked": ("host", "baked"),
    "h tuned": ("host", "tuned"),
    "h compr.": ("host", "tuned, compressed inputs"),
    "h packed": ("host", "baked, with packing from and to caller's arrays"),
}
"""Columns of the table: kernels (k) and calls from host to host (h), by way and variant."""


@dataclass(frozen=True, kw_only=True)
class Equipment:
    """Interpreter with GRiD's generator, compiler, and architecture of the GPU (``sm_90``).

    ``names`` has the GPU's name and the versions of driver, compiler and GRiD, for the record.
    """

    python: str
    nvcc: str
    architecture: str
    names: Mapping[str, str]


def output_of(*command: str) -> str:
    """Return a program's standard output, or an empty string if it fails."""
    completed = subprocess.run(command, capture_output=True, text=True)
    return "" if completed.returncode else completed.stdout.strip()


def equipment() -> Equipment:
    """Return the tools and the GPU, or raise `MissingToolError` for the first that is missing."""
    script = shutil.which("grid-generate")
    beside = str(Path(script).resolve().parent) if script else ""
    interpreters = (sys.executable, shutil.which("python3", path=beside) if script else None)
    program = "from importlib.metadata import version; print(version('grid-rbd'))"
    versions = {python: output_of(python, "-c", program) for python in interpreters if python}
    python = next((python for python, version in versions.items() if version), None)
    if python is None:
        raise MissingToolError(
            "GRiD's generator is not installed: run pip install grid-rbd==0.6.0, in this "
            "environment or in one whose grid-generate is on the PATH."
        )
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if nvcc is None:
        raise MissingToolError(
            "The CUDA compiler nvcc is not installed: install NVIDIA's CUDA Toolkit and put its "
            "bin folder on the PATH."
        )
    query = "--query-gpu=name,driver_version,compute_cap"
    smi = shutil.which("nvidia-smi")
    cards = output_of(smi, query, "--format=csv,noheader").splitlines() if smi else []
    card = re.fullmatch(r"(.+), ([\d.]+), (\d+)\.(\d)", cards[0]) if cards else None
    if card is None:
        raise MissingToolError(
            "nvidia-smi lists no NVIDIA GPU: run this on a machine that has one, and install "
            "NVIDIA's driver."
        )
    release = re.search(r"\bV(\d[\d.]*)", output_of(nvcc, "--version"))
    names = {"machine": card[1], "driver": card[2], "nvcc": release[1] if release else "unknown"}
    return Equipment(
        python=python,
        nvcc=nvcc,
        architecture=f"sm_{card[3]}{card[4]}",
        names=names | {"grid": versions[python]},
    )


def generate(python: str, folder: Path) -> None:
    """Write GRiD's header of the five algorithms, and the URDF for which it is generated."""
    (folder / f"{ROBOT}.urdf").write_text(urdf_text(ROBOT), encoding="utf-8")
    command = [python, "-m", "grid_codegen.cli", f"{ROBOT}.urdf", "-o", "grid.cuh"]
    command += ["--algorithm-list", ",".join(entry for entry, _ in ALGORITHMS.values())]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def write_samples(folder: Path) -> None:
    """Write random inputs in float32, and the float model's results in float64.

    A sample is ``q qd qdd tau``. Jacobians are in columns, first for ``q`` and then for ``qd``, as
    GRiD's.
    """
    rng = np.random.default_rng(14)
    limits = np.deg2rad([170, 120, 170, 120, 170, 120, 175])  # of the URDF
    bounds = (limits, 2.0, 5.0, 20.0)
    blocks = [rng.uniform(-bound, bound, (INPUTS, 7)) for bound in bounds]
    samples = np.concatenate(blocks, axis=1).astype("<f4")
    samples.tofile(folder / "inputs.f32")
    states = np.split(samples[:CHECKED].astype(float), 4, axis=1)
    arrays = dict(zip(("q", "qd", "qdd", "tau"), states, strict=True))
    model = load(ROBOT)
    for name, (_, outputs) in ALGORITHMS.items():
        function = named_function("aba" if name == "forward_dynamics" else name)
        third = "qdd" if name.startswith("rnea") else "tau"
        results = function.evaluate(model, {key: arrays[key] for key in ("q", "qd", third)})
        columns = [np.swapaxes(results[key], 1, -1).reshape(CHECKED, -1) for key in outputs]
        np.concatenate(columns, axis=1).astype("<f8").tofile(folder / f"{name}.f64")


def compiled(name: str, tools: Equipment, folder: Path) -> Path | None:
    """Compile an algorithm's program; if that fails, print the errors and return None."""
    program, number = folder / name, list(ALGORITHMS).index(name)
    command = [tools.nvcc, f"-arch={tools.architecture}", *FLAGS, f"-I{folder}", f"-DFN={number}"]
    completed = subprocess.run(
        [*command, str(SOURCE), "-o", str(program)], capture_output=True, text=True
    )
    if completed.returncode == 0:
        return program
    print(f"{name} did not compile:\n{completed.stderr.strip()}", file=sys.stderr)
    return None


def measured(program: Path, folder: Path, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Run a program and return its measurements, including those before a failure."""
    with (folder / f"{program.name}.jsonl").open("w+", encoding="utf-8") as lines:
        command = [str(program), str(folder), *map(str, sizes)]
        try:
            code = subprocess.run(command, stdout=lines, timeout=SECONDS).returncode
        except subprocess.TimeoutExpired:
            code = None
        lines.seek(0)
        rows = [row_of(line) for line in lines if line.endswith("}\n")]
    if code != 0:
        end = f"ran for more than {SECONDS} s" if code is None else f"exited with code {code}"
        print(f"{program.name} {end}.", file=sys.stderr)
    return rows


def row_of(line: str) -> dict[str, Any]:
    """Parse a line that ``bench.cu`` printed; numbers that are not finite become None."""
    row: dict[str, Any] = json.loads(re.sub(r":-?(?:inf|nan)\b", ":null", line))
    return row


def faults(rows: Rows, sizes: Sequence[int]) -> list[str]:
    """Return a message for each wrong result and each function without a measurement."""
    sentences = [
        f"{row['function']}, {row['way']} ({row['variant']}), N = {row['N']}: "
        f"the error {row['error']} is above {LIMIT} or not finite."
        for row in rows
        if row["error"] is None or row["error"] > LIMIT
    ]
    for name in ALGORITHMS:
        missing = set(sizes) - {row["N"] for row in rows if row["function"] == name}
        if missing:
            listed = ", ".join(map(str, sorted(missing)))
            sentences.append(f"{name} gave no measurement for N = {listed}.")
    return sentences


def table(rows: Rows) -> str:
    """Return a table as text, with a line of times for each function and batch size."""
    lines: dict[tuple[str, int], dict[tuple[str, str], Mapping[str, Any]]] = {}
    for row in rows:
        line = lines.setdefault((row["function"], row["N"]), {})
        line[row["way"], row["variant"]] = row
    text = f"{'us':17}{'N':>7}{''.join(f'{head:>11}' for head in COLUMNS)}{'error':>9}  tuned to\n"
    for (name, n), line in lines.items():
        cells = [f"{line[key]['us']:.2f}" if key in line else "-" for key in COLUMNS.values()]
        errors = [row["error"] for row in line.values()]
        error = "inf" if None in errors else f"{max(errors):.1e}"
        tuned = line.get(COLUMNS["k tuned"], {"tier": "-", "threads": "-"})
        text += f"{name:17}{n:7}{''.join(f'{cell:>11}' for cell in cells)}{error:>9}"
        text += f"  {tuned['tier']}/{tuned['threads']}\n"
    return (
        f"{text}k: kernel; h: from host to host; error: the largest of the line, relative to the "
        "largest expected value\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Generate, compile and measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grid", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the record, as JSON")
    parser.add_argument("--largest", type=int, default=SIZES[-1], metavar="N", help="largest batch")
    options = parser.parse_args(arguments)
    sizes = [n for n in SIZES if n <= options.largest]
    if not sizes:
        parser.error(f"--largest must be at least {SIZES[0]}, not {options.largest}")
    try:
        tools = equipment()
    except MissingToolError as error:
        print(error, file=sys.stderr)
        return 2
    FOLDER.mkdir(parents=True, exist_ok=True)
    generate(tools.python, FOLDER)
    write_samples(FOLDER)
    with ThreadPoolExecutor(len(ALGORITHMS)) as pool:
        programs = list(pool.map(lambda name: compiled(name, tools, FOLDER), ALGORITHMS))
    rows = [row for program in programs if program for row in measured(program, FOLDER, sizes)]
    sentences = faults(rows, sizes)
    print(table(rows), end="")
    print("".join(f"{sentence}\n" for sentence in sentences), end="", file=sys.stderr)
    if options.output is not None:
        flags = [f"-arch={tools.architecture}", *FLAGS]
        record = {"bench": "grid", **tools.names, "flags": flags, "faults": sentences, "rows": rows}
        options.output.write_text(json.dumps(record, allow_nan=False) + "\n", encoding="utf-8")
    return 1 if sentences else 0


if __name__ == "__main__":
    sys.exit(main())
