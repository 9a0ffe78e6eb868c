"""The vendor tool's words that Pinion uses, each with the place where it was read.

There is no vendor tool where Pinion is developed, so its commands, properties and ports cannot be
tried. They stand in ``constraints/vivado_names.toml`` instead; the scripts run against stand-ins
that know this table and nothing else.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .board import BoardError, constraints_folder

NAMES = "vivado_names.toml"


@dataclass(frozen=True, kw_only=True)
class Command:
    """A Tcl command.

    Members
    -------
    flags : options without their dash, and whether a value follows.
    least, most : number of the other arguments.
    xdc : it may stand in a constraints file.
    returns : kind of what it gives back, or "".
    source : key of `Names.sources`.
    """

    flags: Mapping[str, bool]
    least: int
    most: int
    xdc: bool
    returns: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Property:
    """A property of a kind of object, or an attribute in Verilog.

    ``values`` is a regular expression, "" when it is read only.
    """

    values: str
    source: str


@dataclass(frozen=True, kw_only=True)
class OptionValues:
    """The words that an option may be followed by."""

    values: tuple[str, ...]
    source: str


@dataclass(frozen=True, kw_only=True)
class EnginePort:
    """A port of the DMA engine, as the module sees it: direction, width ("lanes" or bits)."""

    direction: str
    width: int | str
    source: str

    def bits(self, lanes: int) -> int:
        """Its width on a link of so many lanes."""
        return lanes if self.width == "lanes" else int(self.width)


@dataclass(frozen=True, kw_only=True)
class Names:
    """The table.

    Members
    -------
    commands : by name.
    values : of options that take one of a few words, by command and option.
    properties : by kind of object (port, design, pblock, ip, ...), then by name.
    attributes : of registers and memories in Verilog, by name.
    ports : of the generated module ``xdma_0``.
    sources : where words were read, by the key that the rows use.
    """

    commands: Mapping[str, Command]
    values: Mapping[tuple[str, str], OptionValues]
    properties: Mapping[str, Mapping[str, Property]]
    attributes: Mapping[str, Property]
    ports: Mapping[str, EnginePort]
    sources: Mapping[str, str]


@cache
def load_names(path: Path | None = None) -> Names:
    """Read the table.

    Raises
    ------
    BoardError
        When it is unreadable, or a row names a source that is not listed.
    """
    path = path or constraints_folder() / NAMES
    try:
        data = tomllib.loads(path.read_text())
        names = _names(data)
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise BoardError(f"'{path}' is not a table of Vivado's names ({error}).") from None
    for name, source in _rows(names):
        if source not in names.sources:
            raise BoardError(f"'{name}' in '{path}' names the source '{source}', which it lacks.")
    return names


def _names(data: dict[str, Any]) -> Names:
    return Names(
        commands={
            name: Command(
                flags={flag: bool(takes) for flag, takes in row["flags"].items()},
                least=row["positional"][0],
                most=row["positional"][1],
                xdc=row.get("xdc", False),
                returns=row.get("returns", ""),
                source=row["source"],
            )
            for name, row in data["commands"].items()
        },
        values={
            (command, flag): OptionValues(values=tuple(row["values"]), source=row["source"])
            for command, flags in data["values"].items()
            for flag, row in flags.items()
        },
        properties={
            kind: {
                name: Property(
                    values="" if row.get("read_only") else row["values"], source=row["source"]
                )
                for name, row in rows.items()
            }
            for kind, rows in data["properties"].items()
        },
        attributes={
            name: Property(values=row["values"], source=row["source"])
            for name, row in data["attributes"].items()
        },
        ports={
            name: EnginePort(direction=direction, width=width, source=source)
            for name, (direction, width, source) in data["ports"].items()
        },
        sources=data["sources"],
    )


def _rows(names: Names) -> list[tuple[str, str]]:
    rows = [(name, row.source) for name, row in names.commands.items()]
    rows += [(name, row.source) for name, row in names.ports.items()]
    rows += [(f"{command} -{flag}", row.source) for (command, flag), row in names.values.items()]
    rows += [(name, row.source) for name, row in names.attributes.items()]
    for properties in names.properties.values():
        rows += [(name, row.source) for name, row in properties.items()]
    return rows
