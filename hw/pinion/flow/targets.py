"""Targets of a core: simulation only, or a board as well."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path

from pinion.base.progress import Progress
from pinion.link import Manifest
from pinion.request import BuildRequest

from .objective import AUTO18, PLAN_SUFFIX, signal_multiplier, wanted_error
from .states import REFERENCE


class TargetError(ValueError):
    """Error for an unknown target, or an interval or clock that it does not support."""


def _nothing(folder: Path, manifest: Manifest, progress: Progress) -> None:
    del folder, manifest, progress


@dataclass(frozen=True, kw_only=True)
class Target:
    """Target of a build, with the defaults of its options.

    Members
    -------
    name : as on the command line.
    clock_mhz, formats : defaults.
    floorplan : whether wires are so scarce that units are chosen for short ones
        (:mod:`pinion.hls.schedule.floorplan`).
    reachable_mhz : returns the clock that the core gets for a requested one.
    write : adds the board's files to a build folder.
    tools : name of what makes its bitstreams (:mod:`pinion.flow.bitstreams`), or "".
    """

    name: str
    clock_mhz: float = 250.0
    formats: str = "q16.16"
    floorplan: bool = False
    reachable_mhz: Callable[[float], float] = float
    write: Callable[[Path, Manifest, Progress], None] = _nothing
    tools: str = ""


SIM = "sim"


def find_target(name: str) -> Target:
    """Return a target by name.

    Raises
    ------
    TargetError
        If there is none.
    """
    if name not in TARGETS:
        raise TargetError(f"There is no target '{name}'; choose one of {', '.join(TARGETS)}.")
    return TARGETS[name](name)


def resolved(request: BuildRequest) -> BuildRequest:
    """Return the request with its target's defaults; an interval still to be chosen stays None.

    Raises
    ------
    TargetError
        If there is no such target, or no core has the interval or the clock.
    pinion.flow.objective.ObjectiveError
        If no multiplier has such words.
    """
    board = find_target(request.target)
    formats = board.formats if request.formats is None else request.formats
    clock_mhz = board.clock_mhz if request.clock_mhz is None else request.clock_mhz
    if not 1.0 <= clock_mhz <= 2000.0:
        raise TargetError(f"A clock of {clock_mhz:g} MHz is out of range: give 1 to 2000 MHz.")
    if request.ii is not None and not (_is_whole(request.ii) and 1 <= request.ii <= 4096):
        raise TargetError(
            f"An interval of {request.ii} cycles cannot be built: give ii (--ii) as a whole number "
            "from 1 to 4096."
        )
    complete = replace(request, formats=formats, clock_mhz=board.reachable_mhz(clock_mhz))
    if formats.endswith(PLAN_SUFFIX):  # which states both
        return complete
    by_signal = signal_multiplier(formats) is not None
    return replace(
        complete,
        max_error=wanted_error(formats, request.max_error),
        ranges=REFERENCE if by_signal and request.ranges is None else request.ranges,
    )


def _is_whole(value: object) -> bool:
    """Return whether a value, which may have any type, is a whole number."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _xilinx(name: str) -> Target:
    from pinion.boards.xilinx import load_board, reachable_mhz, write_board

    board = load_board(name)
    return Target(
        name=name,
        reachable_mhz=lambda clock_mhz: reachable_mhz(board, clock_mhz),
        write=lambda folder, manifest, progress: _drop(
            write_board(folder, manifest, board=board, progress=progress)
        ),
        tools="vivado",
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
        write=lambda folder, manifest, progress: write_ulx3s(folder, manifest, line=line),
        tools="open",
    )


def _drop(result: object) -> None:
    del result


def _simulation(name: str) -> Target:
    return Target(name=name)


TARGETS: Mapping[str, Callable[[str], Target]] = {
    SIM: _simulation,
    "vcu118": _xilinx,
    "u250": _xilinx,
    "ulx3s": _ulx3s,
    "ulx3s-spi": _ulx3s,
}
"""Constructors of the targets by name; another board is another row."""
