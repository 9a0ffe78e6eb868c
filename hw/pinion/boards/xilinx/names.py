"""Commands, properties and ports of the vendor tool that Pinion uses, each with its source.

Pinion is developed without the vendor tool, so its commands, properties and ports cannot be tried.
``constraints/vivado_names.toml`` lists them, and the scripts run against stand-ins that accept only
this table.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pinion.base.constraints import constraints_folder
from pinion.boards.pins import BoardError

NAMES = "vivado_names.toml"


@dataclass(frozen=True, kw_only=True)
class Command:
    """Tcl command: its options, arguments and result.

    Members
    -------
    flags : options without their dash, and whether a value follows.
    least, most : bounds on the number of other arguments.
    xdc : whether it is allowed in a constraints file.
    returns : kind of the result, or "".
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
    """Property of a class of design objects, or Verilog attribute.

    ``values`` is a regular expression, "" if it is read only.
    """

    values: str
    source: str


@dataclass(frozen=True, kw_only=True)
class OptionValues:
    """Valid values of a command's option."""

    values: tuple[str, ...]
    source: str


@dataclass(frozen=True, kw_only=True)
class EnginePort:
    """Port of the DMA engine, seen from the module: direction, width ("lanes" or bits)."""

    direction: str
    width: int | str
    source: str

    def bits(self, lanes: int) -> int:
        """Return the width in bits on a link with `lanes` lanes."""
        return lanes if self.width == "lanes" else int(self.width)


@dataclass(frozen=True, kw_only=True)
class Names:
    """Table of the vendor tool's commands, options, properties and ports.

    Members
    -------
    commands : by name.
    values : valid values of options that have only a few, by command and option.
    properties : by kind of object (port, design, pblock, ip, ...), then by name.
    attributes : of registers and memories in Verilog, by name.
    ports : ports of the generated module ``xdma_0``.
    sources : sources by the key that the rows use.
    """

    commands: Mapping[str, Command]
    values: Mapping[tuple[str, str], OptionValues]
    properties: Mapping[str, Mapping[str, Property]]
    attributes: Mapping[str, Property]
    ports: Mapping[str, EnginePort]
    sources: Mapping[str, str]


@cache
def load_names(path: Path | None = None) -> Names:
    """Read the table of the vendor tool's names, and check that every source is listed.

    Raises
    ------
    BoardError
        If it is unreadable, or a row names a source that is not listed.
    """
    path = path or constraints_folder() / NAMES
    try:
        data = tomllib.loads(path.read_text())
        names = _names(data)
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise BoardError(f"'{path}' is not a valid table of Vivado's names ({error}).") from None
    for name, source in _rows(names):
        if source not in names.sources:
            raise BoardError(
                f"'{name}' in '{path}' refers to the source '{source}', which the table does "
                "not list."
            )
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
