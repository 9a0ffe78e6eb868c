"""Packages for mutation testing, and the fast tests that should detect their mutants."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]


HEAVY = "--ignore=tests/driver/test_simulated_card.py"
"""Tests that build and compile cores, which takes half a minute before the first test."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """Modules to mutate, and their tests.

    Members
    -------
    sources : files or folders, from the root of the repository; of a folder all modules.
    tests : arguments of pytest.
    longest : seconds; tests that take longer on their own are left out.
    below : modules of lower floors, which are loaded once for all runs.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    longest: float = 3.0
    below: tuple[str, ...] = ()

    def files(self) -> list[Path]:
        """Return the paths of the modules, sorted."""
        paths: set[Path] = set()
        for source in self.sources:
            path = ROOT / source
            paths |= set(path.rglob("*.py")) if path.is_dir() else {path}
        return sorted(paths)


# From the bottom up: no package changes what an earlier one has loaded.
PACKAGES: dict[str, Package] = {
    "driver": Package(sources=("sw/pinion/driver",), tests=("tests/driver", HEAVY)),
    "link": Package(sources=("sw/pinion/link",), tests=("tests/link", "tests/driver", HEAVY)),
    "processor": Package(
        sources=tuple(
            f"sw/pinion/processor/{name}.py"
            for name in (
                *("sums", "points", "schedule", "program", "check", "arithmetic", "model"),
                *("encoding", "image", "compile"),
            )
        ),
        tests=(
            "tests/processor",
            *(f"tests/gateware/processor/test_{n}.py" for n in ("team", "names_and_loads")),
        ),
        longest=10.0,
    ),
    "boards": Package(
        sources=("hw/pinion/boards",),
        tests=("tests/boards", "tests/gateware/link/test_spi_slave.py"),
        longest=10.0,
        below=("pinion.gateware.core", "pinion.synthesis", "pinion.hls"),
    ),
    "verify": Package(
        sources=(
            "sim/pinion/cosim/verify.py",
            "sim/pinion/cosim/scoreboard.py",
            "sim/pinion/cosim/reference.py",
            "sim/pinion/cosim/stream.py",
        ),
        tests=tuple(
            f"tests/cosim/test_{name}.py"
            for name in (
                *("verify", "verdict", "figures", "stream", "reference", "states"),
                *("scoreboard", "simulations", "reference_states"),
            )
        ),
        longest=20.0,
        below=("pinion.flow.build",),
    ),
}


def load(package: Package) -> None:
    """Import the modules of lower layers that a package uses, once for all runs.

    Raises
    ------
    RuntimeError
        When a module of the package is loaded by now: no run would see its mutants.
    """
    for name in package.below:
        importlib.import_module(name)
    loaded = sorted({module_name(path) for path in package.files()} & sys.modules.keys())
    if loaded:
        raise RuntimeError(f"{', '.join(loaded)} cannot be mutated after being imported.")


def module_name(path: Path) -> str:
    """Return the module name by which a source file is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
