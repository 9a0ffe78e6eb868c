"""The dynamics processor as a bitstream for the ULX3S."""

from __future__ import annotations

import hashlib
import json
import lzma
from pathlib import Path
from typing import Any

from pinion.base.amounts import amount
from pinion.base.progress import SILENT, Progress
from pinion.link.build_files import BOARD_REPORT
from pinion.link.uart_framing import BAUD
from pinion.processor import Machine

from .bitstream import (
    BIT,
    BOARD,
    CARD,
    LPF,
    NAME,
    PAGE,
    BitstreamError,
    lpf,
    page,
    reachable_mhz,
    routed,
)
from .platform import OSCILLATOR_MHZ, PART
from .pll import nearest_pll
from .top import board_rtlil, processor_card_rtlil

CLOCK_MHZ = 50.0
"""Clock of the board's designs by default."""

PREBUILT = Path(__file__).with_name("prebuilt")
"""Folder with the prebuilt bitstream and its record."""


def write_processor(
    target: Path,
    machine: Machine,
    *,
    teams: int = 1,
    clock_mhz: float = CLOCK_MHZ,
    baud: float = BAUD,
) -> None:
    """Write a processor's design for the ULX3S into a folder.

    Parameters
    ----------
    target : the folder, created if it is missing.
    machine, teams : of the processor.
    clock_mhz : as returned by :func:`.bitstream.reachable_mhz`.
    baud : rate of the serial line.

    Raises
    ------
    ValueError
        If the line is too fast for the clock.
    """
    pll = nearest_pll(input_mhz=OSCILLATOR_MHZ, wanted_mhz=clock_mhz)
    card = processor_card_rtlil(machine, teams=teams, clock_mhz=pll.mhz, baud=baud)
    target.mkdir(parents=True, exist_ok=True)
    (target / CARD).write_text(card)
    (target / BOARD).write_text(board_rtlil(pll))
    (target / LPF).write_text(lpf())


def processor_bitstream(
    target: Path,
    machine: Machine,
    *,
    teams: int = 1,
    clock_mhz: float = CLOCK_MHZ,
    seed: int | None = None,
    progress: Progress = SILENT,
    timeout: float | None = None,
) -> dict[str, Any]:
    """Write, synthesise, place, route and pack a processor; return its resource use and timing.

    Parameters
    ----------
    target : folder of all files; ``pinion.bit`` is written if timing is met.
    machine, teams : of the processor.
    clock_mhz : of processor and link; the nearest one that the board can generate is used.
    seed, progress, timeout : as for :func:`.bitstream.bitstream`.

    Returns
    -------
    As for :func:`.bitstream.bitstream`; ``build`` is the machine's digest, which programs name,
    and ``teams`` their number.

    Raises
    ------
    BitstreamError, pinion.gateware.yosys.YosysError
        If the machine does not fit the part, or a tool is missing or fails.
    """
    mhz = reachable_mhz(clock_mhz)
    progress.step("Writing the processor's card")
    write_processor(target, machine, teams=teams, clock_mhz=mhz)
    build = {"build": f"{machine.digest:016x}", "teams": teams}
    result = (
        {"target": NAME, "part": PART}
        | build
        | routed(
            target,
            clock_mhz=mhz,
            advice="give it fewer teams (--teams) or lanes (--lanes)",
            seed=seed,
            progress=progress,
            timeout=timeout,
        )
    )
    BOARD_REPORT.write(target, result)
    title = f"Dynamics processor, {_teams(machine, teams)}, {machine.rows} rows"
    (target / PAGE).write_text(page(title, result))
    return result


def prebuilt_record() -> dict[str, Any]:
    """Return the record of the prebuilt bitstream.

    Its keys are those of :func:`processor_bitstream`, ``seed``, and the SHA-256 of the bitstream
    (``bitstream_sha256``) and of the design's card (``card_sha256``).
    """
    record: dict[str, Any] = json.loads((PREBUILT / "processor.json").read_text())
    return record


def write_prebuilt(target: Path, machine: Machine, *, teams: int) -> dict[str, Any]:
    """Write the prebuilt bitstream for a machine into a folder, and return its record.

    Raises
    ------
    BitstreamError
        If it is for another machine or number of teams, or does not match its record.
    """
    record = prebuilt_record()
    if (record["build"], record["teams"]) != (f"{machine.digest:016x}", teams):
        raise BitstreamError(
            f"The prebuilt bitstream is not for {_teams(machine, teams)} with "
            f"{amount(machine.rows, 'row')}: leave prebuilt (--prebuilt) out to build one."
        )
    data = lzma.decompress((PREBUILT / "processor.bit.xz").read_bytes())
    if hashlib.sha256(data).hexdigest() != record["bitstream_sha256"]:
        raise BitstreamError(
            f"The bitstream in '{PREBUILT}' does not match its record: reinstall Pinion."
        )
    target.mkdir(parents=True, exist_ok=True)
    (target / BIT).write_bytes(data)
    return record | {"bitstream": str(target / BIT)}


def _teams(machine: Machine, teams: int) -> str:
    """Return the number of teams and of their lanes in words."""
    return f"{amount(teams, 'team')} of {amount(machine.lanes, 'lane')}"
