"""Tables of pins: the balls of a board's nets, as CSV."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

_PIN = re.compile(r"[A-Z]{1,2}[1-9]\d?")
_STANDARD = re.compile(r"[A-Z][A-Z0-9_]*")


class BoardError(ValueError):
    """Error for an unknown board, invalid board files, or a clock that a board cannot generate."""


@dataclass(frozen=True, kw_only=True)
class Pin:
    """Row of a table of pins: a net, its ball, I/O standard and direction.

    Members
    -------
    net : the board's name of the net, upper case.
    package_pin : the ball.
    iostandard : "" for transceivers and their reference clocks, which have none.
    direction : ``in``, ``out`` or ``inout``, seen from the FPGA.
    note, source : free text.
    """

    net: str
    package_pin: str
    iostandard: str
    direction: str
    note: str
    source: str


def read_pins(path: Path) -> dict[str, Pin]:
    """Read a table of pins (CSV), and return its rows by net.

    Raises
    ------
    BoardError
        If a row is invalid, or a net or a ball is listed twice.
    """
    try:
        with path.open(newline="") as file:
            rows = [Pin(**row) for row in csv.DictReader(file)]
    except (OSError, TypeError) as error:
        raise BoardError(f"'{path}' is not a valid table of pins ({error}).") from None
    nets: dict[str, Pin] = {}
    balls: dict[str, str] = {}
    for row in rows:
        if not _PIN.fullmatch(row.package_pin) or row.direction not in ("in", "out", "inout"):
            raise BoardError(
                f"The row of '{row.net}' in '{path}' has '{row.package_pin}' and "
                f"'{row.direction}', which are not a valid ball and direction."
            )
        if row.iostandard and not _STANDARD.fullmatch(row.iostandard):
            raise BoardError(
                f"The row of '{row.net}' in '{path}' has '{row.iostandard}', "
                "which is not an I/O standard."
            )
        if row.net in nets or row.package_pin in balls:
            earlier_net = balls.get(row.package_pin, row.net)
            raise BoardError(
                f"Two rows of '{path}', '{row.net}' and '{earlier_net}', share a net or the ball "
                f"{row.package_pin}."
            )
        nets[row.net], balls[row.package_pin] = row, row.net
    return nets
