"""``pinion devices``: the cards that programs can open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pinion.console.errors import UsageError
from pinion.console.terminal import out, put_json, say, table

from .options import Json

if TYPE_CHECKING:
    from pinion.driver.discover import CardInfo

HERE = Path("/dev")

SIM = {"name": "sim", "what": "a card in this process, simulated from any build"}
"""The transport that needs no card."""


def command(
    *,
    at: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of the device files.", show_default=True)
    ] = HERE,
    json: Json = False,
) -> None:
    """List the cards and the contents of their registers.

    Cards are those of the Xilinx DMA driver: xdma0_h2c_0, xdma0_c2h_0 and xdma0_user. Their
    registers are only read, so programs that use the cards are not disturbed.
    """
    from pinion.driver.discover import cards

    if not at.is_dir():
        raise UsageError(f"There is no folder '{at}': give the folder of the device files.")
    rows = [_row(info) for info in cards(at)]
    if json:
        put_json({"at": str(at), "cards": rows, "simulated": [SIM]})
        return
    _show(at, rows)


def _row(info: CardInfo) -> dict[str, Any]:
    """Return a card's figures for JSON; those that could not be read are None."""
    build = None if info.build is None else f"{info.build:016x}"
    return {
        "device": f"xdma:{_address(Path(info.prefix))}",
        "prefix": info.prefix,
        "accessible": info.accessible,
        "problem": info.problem or None,
        "identity": info.identity,
        "version": info.version,
        "build": build,
        "functions": [_function(number) for number in info.functions],
        **{"words_in": info.words_in, "words_out": info.words_out, "interval": info.interval},
        **{"core_mhz": _mhz(info.core_khz), "link_mhz": _mhz(info.link_khz)},
        **{"status": _status(info.status), "error": info.error},
        "fault": _fault(info.error),
    }


def _address(prefix: Path) -> str:
    """Return the address of a card after ``xdma:``: its number in /dev, its path elsewhere."""
    number = prefix.name.removeprefix("xdma")
    usual = prefix.parent == HERE and number.isascii() and number.isdigit()
    return number if usual else str(prefix)


def _function(number: int) -> str:
    """Return the name of the function with this identifier, or the identifier if unknown."""
    from pinion.functions import FUNCTIONS
    from pinion.link import function_id

    names = (name for name in FUNCTIONS if function_id(name) == number)
    return next(names, f"{number:#010x}")


def _mhz(khz: int | None) -> float | None:
    return None if khz is None else khz / 1000


def _status(status: int | None) -> list[str] | None:
    """Return the names of the bits that are set in the register STATUS."""
    from pinion.link.registers import BUSY, HALTED, IN_RESET, OPEN, QUIET

    bits = {"busy": BUSY, "halted": HALTED, "open": OPEN, "quiet": QUIET, "in reset": IN_RESET}
    return None if status is None else [name for name, bit in bits.items() if status & bit]


def _fault(error: int | None) -> str | None:
    """Return the meaning of the register ERROR, or None without a fault."""
    from pinion.link import Cause

    if not error:
        return None
    return Cause(error).sentence if error in list(Cause) else f"unknown cause {error}"


def _show(at: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        say(
            f"No card: there are no files xdma*_user in {at}. With a card in the machine, load "
            "its bitstream, rescan the bus and load the kernel module xdma."
        )
    else:
        good = [row for row in rows if row["accessible"]]
        if good:
            out().print(_table(good))
        for row in rows:
            if row["problem"]:
                say(f"{row['device']}: {row['problem']}")
            elif row["fault"]:
                say(f"{row['device']}: {row['fault']}; opening the device resets it.")
    say(f"Always available: {SIM['name']}, {SIM['what']}.")


def _table(rows: Sequence[Mapping[str, Any]]) -> Any:
    return table(
        *("device", "function", "build", "status"),
        *("version", "words in", "words out", "ii", "core, MHz", "link, MHz", "error"),
        rows=[
            (
                *(row["device"], ", ".join(row["functions"]), row["build"]),
                ", ".join(row["status"] or ()) or "-",
                *(row[key] for key in ("version", "words_in", "words_out", "interval")),
                *(row[key] for key in ("core_mhz", "link_mhz", "error")),
            )
            for row in rows
        ],
        title="Cards",
        left=4,
    )
