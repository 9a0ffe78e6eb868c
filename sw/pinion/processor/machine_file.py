"""Files that describe a processor: its machine, and the board of its bitstream.

A file is a board's description in TOML, as in ``constraints/``, with a table ``processor``. A host
that compiles and runs programs reads this table only; the rest is for the bitstream.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any

from pinion.base.constraints import constraints_folder

from .errors import ProgramError
from .machine import MOST_TEAMS, TEAMS, Machine

MACHINE_KEYS = ("lanes", "words", "rows")
"""Keys of the table that belong to the machine (:class:`.machine.Machine`)."""

KEYS = (*MACHINE_KEYS, "teams", "clock_mhz")

CLOCK_MHZ = 50.0
"""Clock of bitstreams by default."""


@dataclass(frozen=True, kw_only=True)
class MachineFile:
    """The processor that a file describes; what it leaves out is as in the shipped bitstream.

    Members
    -------
    path : of the file.
    machine : its table ``processor`` as far as programs depend on it.
    teams : number of teams.
    clock_mhz : clock that a bitstream is made for.
    board : everything else in the file, for the bitstream.
    """

    path: Path
    machine: Machine
    teams: int = TEAMS
    clock_mhz: float = CLOCK_MHZ
    board: Mapping[str, Any] = field(repr=False)


def read_machine_file(source: str | Path) -> MachineFile:
    """Read a file that describes a processor.

    Parameters
    ----------
    source : path of the file, or the name of one that is shipped, such as ``ulx3s_25f``.

    Raises
    ------
    ProgramError
        If there is no such file, or a value in it is invalid.
    """
    path = Path(source)
    shipped = constraints_folder() / f"{source}.toml"
    if not path.suffix and shipped.is_file():
        path = shipped
    try:
        board = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        names = ", ".join(shipped_machines())
        raise ProgramError(
            f"The processor's file '{path}' cannot be read ({error.strerror}): give a TOML file "
            f"or one of {names}."
        ) from None
    except ValueError as error:
        raise ProgramError(f"'{path}' is not a TOML file ({error}): correct it.") from None
    table = board.pop("processor", None)
    if not isinstance(table, dict):
        raise ProgramError(f"'{path}' describes no processor: add a table [processor] to it.")
    for key in table:
        if key not in KEYS:
            raise ProgramError(
                f"The table [processor] of '{path}' has the unknown key '{key}': the keys are "
                f"{', '.join(KEYS)}."
            )
    teams, clock = table.get("teams", TEAMS), table.get("clock_mhz", CLOCK_MHZ)
    if type(teams) is not int or not 1 <= teams <= MOST_TEAMS:
        raise ProgramError(f"In '{path}', teams must be 1 to {MOST_TEAMS}, not {teams!r}.")
    if type(clock) not in (int, float) or not (isfinite(clock) and clock > 0):
        raise ProgramError(
            f"In '{path}', clock_mhz must be a positive number of MHz, not {clock!r}."
        )
    try:
        machine = replace(Machine(), **{k: table[k] for k in MACHINE_KEYS if k in table})
    except ProgramError as error:
        raise ProgramError(f"In '{path}': {error}") from None
    return MachineFile(path=path, machine=machine, teams=teams, clock_mhz=float(clock), board=board)


def shipped_machines() -> tuple[str, ...]:
    """Return the names of the files in ``constraints/`` that describe a processor."""
    files = sorted(constraints_folder().glob("*.toml"))
    return tuple(file.stem for file in files if "\n[processor]\n" in file.read_text())


def machine_of(lanes: int | None = None, source: str | Path | None = None) -> Machine:
    """Return the machine that a user asks for.

    Parameters
    ----------
    lanes : number of lanes of an otherwise ordinary machine; four by default.
    source : instead of `lanes`: a file that describes the machine (:func:`read_machine_file`).

    Raises
    ------
    ProgramError
        If both are given, or the file is invalid.
    """
    if source is None:
        return Machine.of(4 if lanes is None else lanes)
    if lanes is not None:
        raise ProgramError(
            f"The file '{source}' gives the number of lanes: leave out the {lanes} that were asked "
            "for."
        )
    return read_machine_file(source).machine
