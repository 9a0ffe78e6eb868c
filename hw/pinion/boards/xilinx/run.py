"""Execution of the vendor tool in a board's folder, and its result."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pinion.base.progress import SILENT, Progress
from pinion.boards.tools import running
from pinion.link import Manifest, ManifestError

from .script import ATTEMPTS, BUILD_TCL, FAILED, MISSED, OUT, PROGRESS, RESULT

LOG = "vivado.log"


class VivadoError(RuntimeError):
    """Error for a Vivado that is missing, fails, or leaves no valid result."""


def board_folder(folder: Path, manifest: Manifest) -> Path:
    """Return the path of the board's subfolder in a build folder.

    Raises
    ------
    ManifestError
        If the build is not for a board of this family.
    """
    target = folder / manifest.target
    if not (target / BUILD_TCL).is_file():
        raise ManifestError(
            f"'{folder}' has no script '{manifest.target}/{BUILD_TCL}': build it again for "
            f"the target '{manifest.target}' (--target)."
        )
    return target


def missing(folder: Path, manifest: Manifest, part: str) -> str:
    """Return the error message for a machine without Vivado."""
    return (
        f"Vivado is missing: no program 'vivado' is on the PATH; install AMD Vivado with a licence "
        f"for {part} and source its settings64.sh, or name the program with vivado (--vivado), or "
        f"copy '{folder / manifest.target}' to a machine with Vivado (its README.md says how)."
    )


def run_vivado(
    folder: Path,
    manifest: Manifest,
    *,
    vivado: str,
    words: Sequence[str] = (),
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Run Vivado in a board's folder to create the bitstream of a build, and return the result.

    The script tries one strategy after another until timing is met, and continues an earlier run.
    If Vivado itself crashes during a strategy, it is started again; the script tries the strategy a
    second time, and then continues with the next.

    Parameters
    ----------
    folder : the build folder.
    manifest : its manifest.
    vivado : the program.
    words : arguments of the script: names of strategies, to try only these; ``die`` or ``dies``, to
        set the floorplan; ``dsp48e2``, for explicit blocks.
    progress : receives each step.

    Returns
    -------
    ``target, part, vivado, met, setup_slack_ns, hold_slack_ns, core_mhz, link_mhz, strategy`` (the
    best), ``attempts`` (a line for each strategy that was tried), ``bitstream`` (path, None if
    timing is missed), ``flash`` (paths) and ``reports`` (path of the folder).

    Raises
    ------
    VivadoError
        If it cannot be started, or fails for a reason other than missed timing.
    """
    target = board_folder(folder, manifest)
    written = target / OUT / RESULT
    # Vivado may end before the script does anything: remove an old result.
    written.unlink(missing_ok=True)
    while True:
        starts = _begun(target)
        code, last = _run_once(target, vivado, words, progress)
        if code in (0, FAILED) or written.is_file() or _begun(target) <= starts:
            break
        progress.step(f"Vivado exited with code {code} during a strategy: starting it again")
    if code not in (0, MISSED):
        raise VivadoError(f"Vivado exited with code {code} ({last}); see '{target / LOG}'.")
    result = read_result(target, manifest)
    if result["met"] != (code == 0):
        raise VivadoError(
            f"Vivado exited with code {code}, which contradicts its result in '{written}': run "
            "'pinion bitstream' again."
        )
    out = target / OUT
    images = sorted(out.glob("*.mcs"))
    return {
        "target": manifest.target,
        **result,
        "bitstream": str(out / "pinion.bit") if result["met"] else None,
        "flash": [str(path) for path in images] if result["met"] else [],
        "reports": str(out / "reports"),
    }


def _run_once(
    target: Path, vivado: str, words: Sequence[str], progress: Progress
) -> tuple[int, str]:
    """Run Vivado once; return its exit code and its last message."""
    command = [vivado, "-mode", "batch", "-log", LOG, "-source", BUILD_TCL]
    if words:
        command += ["-tclargs", *words]
    last = "it printed nothing"
    try:
        with running(command, folder=target, output=subprocess.PIPE) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith(PROGRESS):
                    last = line.removeprefix(PROGRESS).strip()
                    progress.step(last)
                elif line.startswith("ERROR:"):
                    last = line.strip()
    except OSError as error:
        raise VivadoError(
            f"'{vivado}' cannot be started ({error.strerror}): give the path of Vivado's program "
            "'vivado' as vivado (--vivado)."
        ) from None
    return process.returncode, last


def _begun(target: Path) -> int:
    """Return the number of strategy runs that Vivado has started in a board's folder."""
    return sum(path.stat().st_size for path in (target / OUT / "attempts").glob("*/begun"))


def read_result(target: Path, manifest: Manifest) -> dict[str, Any]:
    """Return slacks, clocks and attempts from the script's result.

    Raises
    ------
    VivadoError
        If there is none, or it belongs to another build.
    """
    path = target / OUT / RESULT
    try:
        pairs = dict(line.split(" ", 1) for line in path.read_text().splitlines())
        if pairs.pop("build") != f"{manifest.hash:016x}":
            raise VivadoError(f"'{path}' belongs to another build: run 'pinion bitstream' again.")
        numbers = ("setup_slack_ns", "hold_slack_ns", "core_mhz", "link_mhz")
        return {
            "part": pairs["part"],
            "vivado": pairs["vivado"],
            "met": pairs["met"] == "1",
            "strategy": pairs["strategy"],
            "attempts": (path.parent / ATTEMPTS).read_text().splitlines(),
            **{name: float(pairs[name]) for name in numbers},
        }
    except (OSError, KeyError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"damaged: {error}"
        raise VivadoError(
            f"Vivado left no valid result in '{path}' ({reason}): check that the program is "
            f"Vivado, read '{target / LOG}', and run 'pinion bitstream' again."
        ) from None
