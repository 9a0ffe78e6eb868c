"""Bitstreams: from a build folder to a file that configures its board's FPGA."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pinion.base.progress import SILENT, Progress
from pinion.link import Manifest
from pinion.link.digests import check_digests

from .build import BuildError
from .targets import SIM, TARGETS, find_target


@dataclass(frozen=True, kw_only=True)
class BitstreamRequest:
    """Arguments of a target's bitstream maker.

    Members
    -------
    folder, manifest : of the build.
    vivado : the program, if the user named one.
    seed : for placing and routing, or None for the tool's default.
    progress : receives each step.
    """

    folder: Path
    manifest: Manifest
    vivado: Path | None
    seed: int | None
    progress: Progress


Maker = Callable[[BitstreamRequest], Mapping[str, Any]]
"""Function that makes a bitstream. The result is JSON-able and has at least ``target``,
``bitstream`` (a path, or None) and ``met`` (whether timing is met)."""


def make_bitstream(
    folder: Path,
    *,
    vivado: Path | None = None,
    seed: int | None = None,
    progress: Progress = SILENT,
) -> Mapping[str, Any]:
    """Make the bitstream of a build for a board, if timing is met.

    Parameters
    ----------
    folder : the build folder.
    vivado : the program, if it is not on the PATH.
    seed : for another placement by the open tools.
    progress : receives each step.

    Returns
    -------
    JSON-able figures: at least ``target``, ``bitstream`` (a path, or None) and ``met``.

    Raises
    ------
    ValueError, RuntimeError
        Subclasses with a message: no intact build, a target without bitstreams, an option that
        its tools do not have, a tool that is missing or failed.
    """
    folder = Path(folder)
    manifest = Manifest.read_core(folder)
    maker = maker_for(manifest.target)
    check_digests(folder)
    return maker(
        BitstreamRequest(
            folder=folder, manifest=manifest, vivado=vivado, seed=seed, progress=progress
        )
    )


def maker_for(target: str) -> Maker:
    """Return the bitstream maker of a target.

    Raises
    ------
    BuildError
        If the target has none, as for simulation.
    """
    if target not in TARGETS or target == SIM:
        boards = ", ".join(sorted(TARGETS.keys() - {SIM}))
        raise BuildError(
            f"A build for the target '{target}' has no bitstream: build it again for one of "
            f"{boards} (--target)."
        )
    return MAKERS[find_target(target).tools]


def _vivado(request: BitstreamRequest) -> Mapping[str, Any]:
    from pinion.boards.xilinx import check_scripts, load_board
    from pinion.boards.xilinx.run import VivadoError, board_folder, missing, run_vivado

    if request.seed is not None:
        raise BuildError(
            f"Vivado takes no seed for placement: leave seed={request.seed} (--seed) out."
        )
    board_folder(request.folder, request.manifest)
    board = load_board(request.manifest.target)
    program = shutil.which(request.vivado or "vivado")
    if program is None:
        if request.vivado is not None:
            raise BuildError(
                f"'{request.vivado}' is not an executable program: give vivado (--vivado) the "
                "path of Vivado's program 'vivado', or leave it out to use the one on the PATH."
            )
        raise VivadoError(missing(request.folder, request.manifest, board.part))
    check_scripts(request.folder, request.manifest, board=board)
    return run_vivado(request.folder, request.manifest, vivado=program, progress=request.progress)


def _open_tools(request: BitstreamRequest) -> Mapping[str, Any]:
    from pinion.boards.ecp5.bitstream import bitstream

    if request.vivado is not None:
        raise BuildError(
            f"A bitstream for the {request.manifest.target} is made without Vivado: leave vivado "
            "(--vivado) out."
        )
    return bitstream(request.folder, seed=request.seed, progress=request.progress)


MAKERS: Mapping[str, Maker] = {
    "vivado": _vivado,
    "open": _open_tools,
}
"""Makers by the tools of a target."""
