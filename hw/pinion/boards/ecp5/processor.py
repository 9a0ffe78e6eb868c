"""The dynamics processor as a bitstream for the ULX3S, or another board with an ECP5."""

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
from pinion.processor.machine_file import CLOCK_MHZ

from .bitstream import (
    BIT,
    BOARD,
    CARD,
    LPF,
    PAGE,
    BitstreamError,
    lpf,
    page,
    reachable_mhz,
    routed,
)
from .platform import ULX3S, EcpBoard
from .pll import nearest_pll
from .top import board_rtlil, processor_card_rtlil

PREBUILT = Path(__file__).with_name("prebuilt")
"""Folder with the prebuilt bitstreams and their records."""


def write_processor(
    target: Path,
    machine: Machine,
    *,
    teams: int = 1,
    board: EcpBoard = ULX3S,
    clock_mhz: float = CLOCK_MHZ,
    baud: float = BAUD,
) -> None:
    """Write a processor's design for a board into a folder.

    Parameters
    ----------
    target : the folder, created if it is missing.
    machine, teams : of the processor.
    board : the board.
    clock_mhz : as returned by :func:`.bitstream.reachable_mhz`.
    baud : rate of the serial line.

    Raises
    ------
    ValueError
        If the line is too fast for the clock.
    """
    pll = nearest_pll(input_mhz=board.oscillator_mhz, wanted_mhz=clock_mhz)
    card = processor_card_rtlil(machine, teams=teams, clock_mhz=pll.mhz, baud=baud)
    target.mkdir(parents=True, exist_ok=True)
    (target / CARD).write_text(card)
    (target / BOARD).write_text(board_rtlil(pll, lights=board.lights))
    (target / LPF).write_text(lpf(board=board))


def processor_bitstream(
    target: Path,
    machine: Machine,
    *,
    teams: int = 1,
    board: EcpBoard = ULX3S,
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
    board : the board.
    clock_mhz : of processor and link; the nearest one that the board can generate is used.
    seed, progress, timeout : as for :func:`.bitstream.bitstream`.

    Returns
    -------
    As for :func:`.bitstream.bitstream`; ``target`` is the board's name, ``build`` the machine's
    digest, which programs name, and ``teams`` their number.

    Raises
    ------
    BitstreamError, pinion.gateware.yosys.YosysError
        If the machine does not fit the part, or a tool is missing or fails.
    """
    mhz = reachable_mhz(clock_mhz, board)
    progress.step("Writing the processor's card")
    write_processor(target, machine, teams=teams, board=board, clock_mhz=mhz)
    build = {"build": f"{machine.digest:016x}", "teams": teams}
    result = (
        {"target": board.name, "part": board.part}
        | build
        | routed(
            target,
            board=board,
            # The bitstream that is shipped for the larger part was routed without them.
            block_registers=board.part != ULX3S.part,
            clock_mhz=mhz,
            advice="give it fewer teams, lanes or rows",
            seed=seed,
            progress=progress,
            timeout=timeout,
        )
    )
    BOARD_REPORT.write(target, result)
    title = f"Dynamics processor, {_teams(machine, teams)}, {machine.rows} rows"
    (target / PAGE).write_text(page(title, result, board))
    return result


def prebuilt_record(name: str) -> dict[str, Any]:
    """Return the record of a prebuilt bitstream, by the name of its file.

    Its keys are those of :func:`processor_bitstream`, ``seed``, and the SHA-256 of the bitstream
    (``bitstream_sha256``) and of the design's card (``card_sha256``).
    """
    record: dict[str, Any] = json.loads((PREBUILT / f"{name}.json").read_text())
    return record


def write_prebuilt(
    target: Path, machine: Machine, *, teams: int, board: EcpBoard = ULX3S
) -> dict[str, Any]:
    """Write the prebuilt bitstream for a machine on a board into a folder, and return its record.

    Raises
    ------
    BitstreamError
        If there is none, or it does not match its record.
    """
    for path in sorted(PREBUILT.glob("*.json")):
        record = prebuilt_record(path.stem)
        subject = record["part"], record["build"], record["teams"]
        # All of them are for a ULX3S.
        if board.pads == ULX3S.pads and subject == (board.part, f"{machine.digest:016x}", teams):
            break
    else:
        raise BitstreamError(
            f"No prebuilt bitstream is for {_teams(machine, teams)} with "
            f"{amount(machine.rows, 'row')} on a {board.title} ({board.part}): leave prebuilt "
            "(--prebuilt) out to build one."
        )
    data = lzma.decompress(path.with_suffix(".bit.xz").read_bytes())
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
