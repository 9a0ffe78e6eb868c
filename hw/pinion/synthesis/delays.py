"""Delay tables: delays of cells and nets of a family, each figure with its source.

The tables are data (``delays/*.toml``), one per family. Only the nets of the ECP5 were measured on
placed designs of Pinion (``tests/support/ecp5_timing.py``).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pin = tuple[str, int]
"""A bit of a cell's port: the port's name and the bit's number."""

SCALES = ("typical", "short", "long")


class DelayError(ValueError):
    """Error for a missing or malformed delay table, or one that lacks a cell."""


@dataclass(frozen=True)
class Inside:
    """Rule for registers beside a DSP block that are timed as part of it.

    Members
    -------
    registers : type of their cells.
    inputs, outputs : ports, written as in the table.
    input_setup, output_setup : ns in front of the block's registers: from pins to the register of
        an input, and from the product to the register of an output.
    input_launch, output_launch : ns behind them: to the product, and to the pins.
    """

    registers: str
    inputs: str
    outputs: str
    input_setup: float
    input_launch: float
    output_setup: float
    output_launch: float


@dataclass(frozen=True)
class CellDelays:
    """Entry of a delay table: the delays of a type of cell [ns].

    Members
    -------
    type : prefix of the names of its types.
    when : required parameters of the cell: at least a number, or exactly a text.
    launch : (ports, ns) from the clock.
    setup : (ports, ns) before the clock.
    path : (from ports, to ports, ns) without a clock; one may be ``@NAME``, a point inside.
    inside : registers around it that count as part of it, if any.
    """

    type: str
    when: Mapping[str, int | str] = field(default_factory=dict)
    launch: tuple[tuple[str, float], ...] = ()
    setup: tuple[tuple[str, float], ...] = ()
    path: tuple[tuple[str, str, float], ...] = ()
    inside: Inside | None = None

    def fits(self, kind: str, parameters: Mapping[str, Any]) -> bool:
        """Return whether the entry applies to a cell."""
        return kind.startswith(self.type) and all(
            _has(parameters.get(name), value) for name, value in self.when.items()
        )


@dataclass(frozen=True)
class Near:
    """Dedicated wire with a fixed delay ``ns`` from cells of ``drivers`` to ``ports`` of ``cells``.

    ``loads`` is the largest number of loads of the net; 0 stands for any number.
    """

    drivers: tuple[str, ...]
    cells: str
    ports: str
    loads: int
    ns: float


@dataclass(frozen=True)
class Far:
    """Additional delay ``ns`` of nets to ``ports`` of ``cells`` without a `Near` wire."""

    cells: str
    ports: str
    ns: float


@dataclass(frozen=True, kw_only=True)
class DelayTable:
    """Delay table of an FPGA family [ns].

    Members
    -------
    family : its name.
    title : description of the table.
    sources : origins of the figures, by the name in the table's lines.
    loads, nets : a net with up to ``loads[k]`` loads takes ``nets[k]``, with more the last.
    scale : factor on nets by the name of a case (`SCALES`).
    cells, near, far : the entries.
    """

    family: str
    title: str
    sources: Mapping[str, str]
    loads: NDArray[np.int64]
    nets: NDArray[np.float64]
    scale: Mapping[str, float]
    cells: tuple[CellDelays, ...]
    near: tuple[Near, ...]
    far: tuple[Far, ...]

    def find(self, kind: str, parameters: Mapping[str, Any]) -> CellDelays:
        """Return the first entry that applies to a cell.

        Raises
        ------
        DelayError
            If the table has none.
        """
        for entry in self.cells:
            if entry.fits(kind, parameters):
                return entry
        raise DelayError(
            f"The delay table '{self.family}' has no entry for the cell '{kind}' with the "
            f"parameters {dict(parameters)}: add one to pinion/synthesis/delays/{self.family}.toml."
        )

    @property
    def register(self) -> CellDelays:
        """Flip-flop of the family: the first entry with a clock."""
        return next(entry for entry in self.cells if entry.launch and entry.setup)

    def net(self, loads: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the typical delays of nets [ns] for their numbers of loads."""
        typical: NDArray[np.float64] = self.nets[np.searchsorted(self.loads, loads)]
        return typical


def matches(port: str, bit: int, patterns: str) -> bool:
    """Return whether bit ``bit`` of a port matches one of the patterns of a delay table.

    ``A`` is every bit of port A, ``A#`` of every port A with a number, ``S.0`` bit 0 of port S.
    """
    return any(_matches(port, bit, pattern) for pattern in patterns.split())


def _matches(port: str, bit: int, pattern: str) -> bool:
    name, _, number = pattern.partition(".")
    if number and int(number) != bit:
        return False
    return re.fullmatch(re.escape(name).replace(r"\#", r"\d+"), port) is not None


def _has(value: Any, expected: int | str) -> bool:
    if value is None:
        return False
    if isinstance(expected, str):
        return str(value).strip() == expected
    return int(str(value), 2) >= expected


@cache
def load_delays(family: str) -> DelayTable:
    """Read the delay table of a family: ``xcup`` or ``ecp5``.

    Raises
    ------
    DelayError
        If there is no such table, or a figure in it has no source.
    """
    file = resources.files(__package__) / "delays" / f"{family}.toml"
    if not file.is_file():
        raise DelayError(f"There is no delay table '{family}'; choose xcup or ecp5.")
    data = tomllib.loads(file.read_text())
    for line in _lines(data):
        if line.get("source") not in data["sources"]:
            raise DelayError(
                f"A line of the delay table '{family}' has a source that is not listed under "
                f"'sources': {line}."
            )
    nets = data["nets"]
    return DelayTable(
        family=family,
        title=data["title"],
        sources=data["sources"],
        loads=np.array(nets["loads"]),
        nets=np.array(nets["ns"]),
        scale=nets["scale"],
        cells=tuple(_cell(entry) for entry in data["cells"]),
        near=tuple(
            Near(tuple(e["drivers"].split()), e["cells"], e["ports"], e["loads"], e["ns"])
            for e in data.get("near", ())
        ),
        far=tuple(Far(e["cells"], e["ports"], e["ns"]) for e in data.get("far", ())),
    )


def _lines(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every mapping in a delay table that contains delays."""
    if isinstance(value, dict):
        if any(key == "ns" or key.endswith("_ns") for key in value):
            yield value
        for inner in value.values():
            yield from _lines(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _lines(inner)


def _cell(entry: Mapping[str, Any]) -> CellDelays:
    inside = entry.get("inside")
    return CellDelays(
        type=entry["type"],
        when=entry.get("when", {}),
        launch=tuple((line["to"], line["ns"]) for line in entry.get("launch", ())),
        setup=tuple((line["at"], line["ns"]) for line in entry.get("setup", ())),
        path=tuple((line["from"], line["to"], line["ns"]) for line in entry.get("path", ())),
        inside=inside
        and Inside(
            registers=inside["registers"],
            inputs=inside["inputs"],
            outputs=inside["outputs"],
            input_setup=inside["input_setup_ns"],
            input_launch=inside["input_launch_ns"],
            output_setup=inside["output_setup_ns"],
            output_launch=inside["output_launch_ns"],
        ),
    )
