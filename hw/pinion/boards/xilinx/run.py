"""Running the vendor tool in a board's folder, and reading what came of it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pinion.base.progress import SILENT, Progress
from pinion.link import Manifest, ManifestError

from ..tools import running
from .script import ATTEMPTS, BUILD_TCL, FAILED, MISSED, OUT, PROGRESS, RESULT

LOG = "vivado.log"


class VivadoError(RuntimeError):
    """Vivado is missing, or it stopped; the message is a sentence with what to do."""


def board_folder(folder: Path, manifest: Manifest) -> Path:
    """The board's folder inside a build folder.

    Raises
    ------
    ManifestError
        When the build was not made for a board of this kind.
    """
    target = folder / manifest.target
    if not (target / BUILD_TCL).is_file():
        raise ManifestError(
            f"'{folder}' has no script '{manifest.target}/{BUILD_TCL}': build it again for "
            f"the target {manifest.target} (--target)."
        )
    return target


def missing(folder: Path, manifest: Manifest, part: str) -> str:
    """The error message for a user without Vivado."""
    return (
        f"Vivado is missing: no program 'vivado' is on the PATH; install AMD Vivado with a licence "
        f"for {part} and source its settings64.sh, or name the program with vivado (--vivado), "
        f"or take '{folder / manifest.target}' to a machine that has it (its README.md says how)."
    )


def run_vivado(
    folder: Path,
    manifest: Manifest,
    *,
    vivado: str,
    words: Sequence[str] = (),
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Make the bitstream of a build.

    The script tries one strategy after another until timing is met, and takes up what an earlier
    run left. Where Vivado itself dies of a strategy it is started again; the script begins a
    strategy a second time, and then goes on to the next.

    Parameters
    ----------
    folder : the build folder.
    manifest : of it.
    vivado : the program.
    words : for the script: names of strategies, to try these alone; ``die`` or ``dies``, where it
        shall not choose the floorplan itself; ``dsp48e2``, for explicit blocks.
    progress : told each step.

    Returns
    -------
    ``target, part, vivado, met, setup_slack_ns, hold_slack_ns, core_mhz, link_mhz, strategy`` (the
    best), ``attempts`` (a line for each strategy that was tried), ``bitstream`` (path, None where
    timing is missed), ``flash`` (paths) and ``reports`` (path of the folder).

    Raises
    ------
    VivadoError
        When it cannot be started or stops for another reason than missed timing.
    """
    target = board_folder(folder, manifest)
    written = target / OUT / RESULT
    # Vivado may end before the script does anything: what is old must not pass for its result.
    written.unlink(missing_ok=True)
    while True:
        before = _begun(target)
        code, last = _run_once(target, vivado, words, progress)
        if code in (0, FAILED) or written.is_file() or _begun(target) <= before:
            break
        progress.step(f"Vivado ended with exit code {code} amid a strategy: starting it again")
    if code not in (0, MISSED):
        raise VivadoError(f"Vivado stopped with exit code {code} ({last}); see '{target / LOG}'.")
    result = read_result(target, manifest)
    if result["met"] != (code == 0):
        raise VivadoError(f"Vivado ended with exit code {code} and says otherwise in {RESULT}.")
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
    """One start of the program: its exit code, and the last thing that it said."""
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
        raise VivadoError(f"'{vivado}' cannot be started ({error.strerror}).") from None
    return process.returncode, last


def _begun(target: Path) -> int:
    """How many beginnings of strategies have been marked, over all runs of a build."""
    return sum(path.stat().st_size for path in (target / OUT / "attempts").glob("*/begun"))


def read_result(target: Path, manifest: Manifest) -> dict[str, Any]:
    """Slacks, clocks, and the attempts that the script wrote down.

    Raises
    ------
    VivadoError
        When there is nothing, or it is another build's.
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
            f"Vivado left no result in '{path}' ({reason}): check that the program is Vivado, read "
            f"'{target / LOG}', and run 'pinion bitstream' again."
        ) from None
