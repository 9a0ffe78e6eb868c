"""Digests of builds and of compiled sources, without the parts that moving code changes.

``python -m tests.support.blanked_digests OUT.json`` before a move of modules and again after it:
the two files are equal when no bit, no cycle and no line of emitted source has changed. Left out
are the Python lines that graphs name, the content digest and the build's hash, which those lines
enter, and the logs of tools.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pinion.api as pinion
from pinion.batch import InputError
from pinion.compute import cpu, cuda
from pinion.functions import FUNCTIONS, Function, named_function
from pinion.link.digests import DIGESTS
from pinion.native.errors import ComputeError
from pinion.native.isa import INSTRUCTION_SETS
from pinion.robot import load

BUILDS: Mapping[str, tuple[str | None, str, Mapping[str, Any]]] = {
    "uniform": ("two_link", "rnea", {"ii": 4}),
    "auto": ("two_link", "fd_derivatives", {"formats": "auto"}),
    "latency": ("two_link", "aba", {"formats": "auto", "objective": "latency"}),
    "arm": ("iiwa14", "rnea", {"formats": "auto", "joint_terms": True}),
    "tip": ("two_link", "frame_jacobian", {"tip": "tip"}),
    "states": (None, "examples/functions/pid.py:pid", {}),
    "base": ("iiwa14", "forward_kinematics", {"floating_base": True}),
    "ulx3s": ("pendulum", "rnea", {"target": "ulx3s"}),
    "vcu118": ("pendulum", "aba", {"target": "vcu118"}),
}
"""Builds by name: robot, function and options."""

ROBOTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "two_link": ("two_link", {"contacts": ("link_2",)}),
    "iiwa14": ("iiwa14", {"contacts": ("iiwa_link_7",)}),
    "base": ("iiwa14", {"floating_base": True, "contacts": ("iiwa_link_7",)}),
}
"""Robots and options of `load` by name; the sources of every row are printed for each."""

LARGE = {"rnea_second_derivatives", "fd_second_derivatives"}
"""Rows whose sources are printed only for the smallest robot, because others take minutes."""

_LINE = re.compile(rb"\b\w+\.py:\d+")

# Digests of files that name lines: of a schedule, and of the graph that a plan is for.
_DIGEST = re.compile(
    rb'(?<="digest": ")[0-9a-f]{64}(?=")|(?<=^graph = ")[0-9a-f]{16}(?="$)', re.MULTILINE
)

# A constant is as wide as the hash has digits.
_WIDTH = re.compile(rb"\d+(\n.*\n.*\n +connect \\B )\d+'-")


def blank(content: bytes, manifest: Mapping[str, Any]) -> bytes:
    """Return a build's file without line numbers of Python, content digest, hash and request."""
    stated = json.dumps({"request": manifest.get("request", {})}, indent=2).encode()
    content = content.replace(stated[2:-2] + b",\n", b"")
    number = int(manifest["hash"], 16)
    # Yosys writes a constant in as few digits as it needs.
    content = re.sub(rf"\d+'h0*{number:x}\b".encode(), b"-", content)
    halves = (number >> 32, number & 0xFFFF_FFFF)  # as registers and parameters have it
    texts = [manifest["content"], manifest["hash"], f"{number:064b}", f"{number:b}", str(number)]
    for half in halves:
        texts += [f"{half:032b}", f"{half:08x}", str(half)]
    for text in texts:
        content = content.replace(text.encode(), b"-")
    content = _WIDTH.sub(rb"-\1-", content)
    return _DIGEST.sub(b"-", _LINE.sub(b"-", content))


def folder_digests(folder: Path) -> dict[str, str]:
    """Return the digest of every file in a build folder, by path."""
    manifest = json.loads((folder / "manifest.json").read_text())
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): _digest(blank(path.read_bytes(), manifest))
        for path in files
        if path.suffix != ".log" and path.name != DIGESTS
    }


def sources(robot: str, row: Function) -> Iterator[tuple[str, str]]:
    """Yield names and texts of a function's sources: per CPU, CUDA thread and CUDA block."""
    name, options = ROBOTS[robot]
    model = load(name, **options)
    try:
        graph = cpu.graph_of(model, row)
    except InputError as error:
        yield "cpu", str(error)
        return
    for dtype in ("float32", "float64"):
        for isa in INSTRUCTION_SETS:
            yield (
                f"{isa.name}/{dtype}",
                cpu.kernel_of(model, row, graph, dtype=dtype, machine=isa).text,
            )
        for number, kernel in enumerate(cuda.source(model, row, dtype=dtype).kernels):
            yield f"threads/{dtype}/{number}", kernel.text
        try:
            yield f"block/{dtype}", cuda.cooperative.source(model, row, dtype=dtype).text
        except (ComputeError, KeyError) as error:
            yield f"block/{dtype}", str(error)


def digests() -> Iterator[tuple[str, str]]:
    """Yield the names and digests of all builds and sources."""
    with tempfile.TemporaryDirectory() as scratch:
        for name, (robot, expected, options) in BUILDS.items():
            folder = Path(scratch) / name
            pinion.build(robot, expected, folder=folder, **options)
            for file, digest in folder_digests(folder).items():
                yield f"build/{name}/{file}", digest
    for robot in ROBOTS:
        for row in FUNCTIONS:
            if robot == "two_link" or row not in LARGE:
                for kind, text in sources(robot, named_function(row)):
                    yield f"source/{robot}/{row}/{kind}", _digest(_LINE.sub(b"-", text.encode()))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def main() -> int:
    """Write the digests; with another file, compare them and return 1 if one differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.blanked_digests")
    parser.add_argument("out", type=Path, help="a JSON file of digests by name")
    parser.add_argument("--before", type=Path, help="an earlier one, to compare with")
    options = parser.parse_args()
    after = {}
    for name, digest in digests():
        after[name] = digest
        print(f"{digest}  {name}", flush=True)
    options.out.write_text(json.dumps(after, indent=0) + "\n")
    if options.before is None:
        return 0
    before = json.loads(options.before.read_text())
    changed = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    for name in sorted(changed):
        print(f"differs: {name}", file=sys.stderr)
    print(f"{len(after)} digests, {len(changed)} differ")
    return 1 if changed or not after else 0


if __name__ == "__main__":
    sys.exit(main())
