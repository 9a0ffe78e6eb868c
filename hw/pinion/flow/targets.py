"""What a core can be built for: the simulation alone, or a board as well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pinion.link import Manifest

from .objective import AUTO18

Report = Callable[[str], None]


class TargetError(ValueError):
    """There is no such target; the message lists those that there are."""


def _as_wanted(clock_mhz: float) -> float:
    return clock_mhz


def _nothing(folder: Path, manifest: Manifest, report: Report) -> None:
    del folder, manifest, report


@dataclass(frozen=True, kw_only=True)
class Target:
    """A target, and what a build for it starts from.

    Members
    -------
    name : of the command line.
    clock_mhz, formats : used where nothing else is asked for.
    floorplan : whether wires are so scarce that units are chosen for short ones
        (:mod:`pinion.hls.floorplan`).
    reachable_mhz : the clock that the core gets where one is asked for.
    write : adds the board's files to a build folder.
    """

    name: str
    clock_mhz: float = 250.0
    formats: str = "q16.16"
    floorplan: bool = False
    reachable_mhz: Callable[[float], float] = _as_wanted
    write: Callable[[Path, Manifest, Report], None] = _nothing


SIM = "sim"
TARGETS = (SIM, "vcu118", "u250", "ulx3s", "ulx3s-spi")


def find_target(name: str) -> Target:
    """The target of a name.

    Raises
    ------
    TargetError
        When there is none.
    """
    if name not in TARGETS:
        raise TargetError(f"There is no target '{name}'; choose one of {', '.join(TARGETS)}.")
    if name == SIM:
        return Target(name=name)
    return _ulx3s(name) if name.startswith("ulx3s") else _xilinx(name)


def _xilinx(name: str) -> Target:
    from pinion.boards.xilinx import load_board, reachable_mhz, write_board

    board = load_board(name)
    return Target(
        name=name,
        reachable_mhz=lambda clock_mhz: reachable_mhz(board, clock_mhz),
        write=lambda folder, manifest, report: _drop(
            write_board(folder, manifest, board=board, report=report)
        ),
    )


def _ulx3s(name: str) -> Target:
    from pinion.boards.ecp5.bitstream import reachable_mhz, write_ulx3s
    from pinion.boards.ecp5.top import SERIAL, SPI

    line = SPI if name.endswith("-spi") else SERIAL
    return Target(
        name=name,
        clock_mhz=50.0,
        formats=AUTO18,
        floorplan=True,
        reachable_mhz=reachable_mhz,
        write=lambda folder, manifest, report: write_ulx3s(folder, manifest, line=line),
    )


def _drop(result: object) -> None:
    del result
