"""Simulation of Verilog benches with Icarus Verilog."""

from __future__ import annotations

import subprocess
from pathlib import Path

LIMIT = 600.0
"""Limit for compilation and for simulation [s]."""


def simulate(
    folder: Path, *sources: str | Path, standard: str = "2012"
) -> subprocess.CompletedProcess[str]:
    """Compile module ``bench`` in a folder and simulate it.

    Raises
    ------
    subprocess.CalledProcessError
        If the sources do not compile; the exit code of the simulation is in the result.
    """
    command = ["iverilog", f"-g{standard}", "-s", "bench", "-o", "bench.vvp", *map(str, sources)]
    subprocess.run(command, cwd=folder, check=True, timeout=LIMIT)
    return subprocess.run(
        ["vvp", "-n", "bench.vvp"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
