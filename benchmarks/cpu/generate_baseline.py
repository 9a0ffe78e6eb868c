"""Generation of the baseline's C: ``python -m benchmarks.cpu.generate_baseline``.

The baseline is what Pinocchio and CasADi give without a special code generator: Pinocchio's own
algorithms, traced through ``casadi::SX`` (``casadi_trace.cpp``), simplified and written as C by
CasADi, in float64. The robots are Pinion's own models, without residues (``model_text.py``). If
Pinocchio offers an algorithm in two conventions, the one with fewer operations is kept.

Needs ``pip install pin casadi`` in this environment, Eigen's headers (Debian: libeigen3-dev) and a
C++ compiler; takes about a minute. Writes a file per robot and function, ``ROBOT_FUNCTION.c.xz``,
and RECORD.json, which records their origin.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import subprocess
import sys
from collections import Counter
from datetime import date
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.cpu.model_text import model_digest, model_text
from benchmarks.cpu.tools import (
    CACHE,
    PINOCCHIO_DEFINES,
    MissingToolError,
    build_once,
    compiler_version,
    eigen_headers,
    first_compiler,
    package_folder,
    pinocchio_headers,
)

from pinion.robot import load

ROBOTS = ("iiwa14", "hyq", "atlas")

BASELINE = Path(__file__).resolve().parent / "baseline"

PASSES: list[list[str | int]] = [["simplify", 0, "const_folding", 0, "cse", 0, "ref_count"]]
"""CasADi's passes, each repeated until nothing changes; `combine_terms` enlarges most graphs."""

XZ = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}]

NO_OPERATION = {"const", "input", "output", "parameter"}


def build_tracer(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Compile `casadi_trace.cpp` unless the program exists, and return the versions used."""
    compiler = first_compiler(["clang++-19", "clang++", "g++"], "C++")
    casadi = package_folder("casadi")
    includes = [pinocchio_headers(), casadi / "include", eigen_headers()]
    source = Path(__file__).with_name("casadi_trace.cpp")
    flags = ["-std=c++17", "-O0", "-w", *PINOCCHIO_DEFINES]
    program = build_once(
        [
            *(compiler, *flags, str(source)),
            *(f"-I{path}" for path in includes),
            *(f"-L{casadi}", "-lcasadi", f"-Wl,-rpath,{casadi}"),
        ],
        folder / "casadi_trace",
        [source, source.with_name("pinocchio_model.hpp"), includes[0] / "pinocchio" / "config.hpp"],
        note="Compiling casadi_trace.cpp takes half a minute or more.",
    )
    return program, {
        "compiler": compiler_version(compiler),
        "flags": " ".join(flags),
        "eigen": _eigen_version(eigen_headers()),
    }


def _eigen_version(headers: Path) -> str:
    text = (headers / "Eigen/src/Core/util/Macros.h").read_text()
    numbers = {
        words[1].removeprefix("EIGEN_").removesuffix("_VERSION"): words[2]
        for words in map(str.split, text.splitlines())
        if len(words) == 3 and words[0] == "#define" and words[1].endswith("_VERSION")
    }
    return ".".join(numbers[part] for part in ("WORLD", "MAJOR", "MINOR"))


def count_operations(casadi: Any, function: Any) -> dict[str, int]:
    """Count operations of an SX function by CasADi's kinds, the most frequent first."""
    names = {
        value: name.removeprefix("OP_").lower()
        for name, value in vars(casadi).items()
        if name.startswith("OP_") and isinstance(value, int)
    }
    count = Counter(names[function.instruction_id(k)] for k in range(function.n_instructions()))
    return {name: number for name, number in count.most_common() if name not in NO_OPERATION}


def generate(casadi: Any, robot: str, traces: Path, folder: Path, only: list[str]) -> Any:
    """Write the compressed C of a robot's functions; return a record for each file, by name."""
    record = {}
    model = (traces / "model.txt").read_bytes()
    for function in sorted({path.name.split(".")[0] for path in traces.glob("*.casadi")}):
        if only and function not in only:
            continue
        candidates = []
        for path in sorted(traces.glob(f"{function}.*.casadi")):
            traced = casadi.Function.load(str(path))
            simplified = traced.transform(PASSES)
            operations = count_operations(casadi, simplified)
            operations_before = sum(count_operations(casadi, traced).values())
            convention = path.name.split(".")[1]
            candidates.append(
                (sum(operations.values()), convention, simplified, operations, operations_before)
            )
        total, convention, simplified, operations, operations_before = min(
            candidates, key=lambda c: c[:2]
        )
        writer = casadi.CodeGenerator(f"{robot}_{function}.c", {"indent": 0})
        writer.add(simplified)
        text = writer.dump().encode()
        packed = lzma.compress(text, format=lzma.FORMAT_XZ, filters=XZ)
        name = f"{robot}_{function}.c.xz"
        (folder / name).write_bytes(packed)
        record[name] = {
            "robot": robot,
            "function": function,
            "convention": convention,
            "operations": total,
            "operations_by_kind": operations,
            "operations_as_traced": operations_before,
            "bytes": len(packed),
            "bytes_of_c": len(text),
            "sha256": hashlib.sha256(packed).hexdigest(),
            "sha256_of_c": hashlib.sha256(text).hexdigest(),
            "sha256_of_model": model_digest(model.decode()),
        }
        print(f"{name}: {total} operations, {len(packed)} bytes", file=sys.stderr)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", nargs="+", default=ROBOTS, choices=ROBOTS)
    parser.add_argument(
        "--functions", nargs="+", default=[], help="all functions that Pinocchio has"
    )
    parser.add_argument("--folder", type=Path, default=BASELINE)
    parser.add_argument(
        "--cache", type=Path, default=CACHE, help="folder in which the program is built"
    )
    parser.add_argument("--date", default=date.today().isoformat())
    options = parser.parse_args()
    try:
        casadi_version, pinocchio_version = version("casadi"), version("pin")
    except ModuleNotFoundError as error:
        raise MissingToolError(
            f"{error}: install the packages with pip install pin casadi."
        ) from error
    casadi = import_module("casadi")
    options.cache.mkdir(parents=True, exist_ok=True)
    options.folder.mkdir(parents=True, exist_ok=True)
    program, built = build_tracer(options.cache)
    path = options.folder / "RECORD.json"
    files = json.loads(path.read_text())["files"] if path.exists() else {}
    for robot in options.robots:
        traces = options.cache / f"traces_{robot}"
        traces.mkdir(exist_ok=True)
        (traces / "model.txt").write_text(model_text(load(robot)))
        subprocess.run([program, traces / "model.txt", traces], check=True)
        files |= generate(casadi, robot, traces, options.folder, options.functions)
    record = {
        "command": "python -m benchmarks.cpu.generate_baseline",
        "date": options.date,
        "versions": {
            "pinion-rbd": version("pinion-rbd"),
            "pinocchio": pinocchio_version,
            "casadi": casadi_version,
            **built,
        },
        "passes": PASSES,
        "bytes": sum(file["bytes"] for file in files.values()),
        "files": dict(sorted(files.items())),
    }
    path.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    try:
        main()
    except MissingToolError as missing:
        sys.exit(str(missing))
