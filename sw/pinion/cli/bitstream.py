"""``pinion bitstream``: from a build folder to a file that configures the board's FPGA."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .errors import CHECK_FAILED, UsageError
from .options import Folder, Json
from .terminal import Report, out, pairs, put_json, steps

if TYPE_CHECKING:
    from pinion.link import Manifest


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a maker of bitstreams gets.

    Members
    -------
    folder, manifest : of the build.
    vivado : the program that the user named, if any.
    seed : of placing and routing, None for the tool's own.
    report : called with a short line at each step.
    """

    folder: Path
    manifest: Manifest
    vivado: Path | None
    seed: int | None
    report: Report


Maker = Callable[[Request], Mapping[str, Any]]
"""Makes a bitstream. The result has at least ``target``, ``bitstream`` (a path, or None) and
``met`` (whether timing is met); everything in it must fit into JSON."""


def command(
    folder: Folder,
    *,
    vivado: Annotated[
        Path | None,
        typer.Option(metavar="PROGRAM", help="Vivado, where it is not on the PATH."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, metavar="S", help="Another try at placing, where timing was missed."),
    ] = None,
    json: Json = False,
) -> None:
    """Make the bitstream of a build for a board.

    The exit code is 1 where timing is missed, and then there is no bitstream.
    """
    from pinion.link import Manifest
    from pinion.link.digests import check_digests

    manifest = Manifest.read(folder)
    maker = maker_for(manifest.target)
    check_digests(folder)
    with steps() as report:
        request = Request(folder=folder, manifest=manifest, vivado=vivado, seed=seed, report=report)
        result = maker(request)
    if json:
        put_json(result)
    else:
        out().print(pairs(summary(result), title=f"Bitstream for {manifest.target}"))
    if not result["met"]:
        raise typer.Exit(CHECK_FAILED)


def maker_for(target: str) -> Maker:
    """What makes bitstreams for a target.

    Raises
    ------
    UsageError
        When nothing does: a build for simulation has none.
    """
    if target not in MAKERS:
        boards = ", ".join(sorted(MAKERS))
        raise UsageError(
            f"A build for the target '{target}' has no bitstream: build it again with --target and "
            f"one of {boards}."
        )
    return MAKERS[target]


def summary(result: Mapping[str, Any]) -> list[tuple[str, object]]:
    """A result as names and values; what is empty is left out."""
    rows = []
    for name, value in result.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else value
        if name == "critical_path" and value:  # the cells on it are in the report
            text = "{delay_ns} ns, {routing_ns} of them wires, from {start} to {end}".format(
                **value
            )
        if name not in ("target", "netlist_sha256") and text not in ("", None):
            rows.append((name.replace("_", " "), text))
    return rows


def _vivado(request: Request) -> Mapping[str, Any]:
    from pinion.boards.xilinx import check_scripts, load_board
    from pinion.boards.xilinx.run import VivadoError, board_folder, missing, run_vivado

    if request.seed is not None:
        raise UsageError("Vivado places without a seed: leave --seed out.")
    board_folder(request.folder, request.manifest)
    board = load_board(request.manifest.target)
    program = shutil.which(request.vivado or "vivado")
    if program is None:
        if request.vivado is not None:
            raise UsageError(f"'{request.vivado}' is no program that can be run.")
        raise VivadoError(missing(request.folder, request.manifest, board.part))
    check_scripts(request.folder, request.manifest, board=board)
    return run_vivado(request.folder, request.manifest, vivado=program, report=request.report)


def _open_tools(request: Request) -> Mapping[str, Any]:
    from pinion.boards.ecp5.bitstream import bitstream

    if request.vivado is not None:
        raise UsageError(f"A {request.manifest.target} is built by open tools: leave --vivado out.")
    return bitstream(request.folder, seed=request.seed, report=request.report)


MAKERS: Mapping[str, Maker] = {
    "vcu118": _vivado,
    "u250": _vivado,
    "ulx3s": _open_tools,
    "ulx3s-spi": _open_tools,
}
"""Makers by target; another tool is another row."""
