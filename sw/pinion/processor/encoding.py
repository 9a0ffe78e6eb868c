"""Binary encoding of a program's rows, with each field in the cycle in which it is used.

A slot passes through stages, and its fields are needed some cycles after its addresses. They are
stored as many rows later, so that lanes need no registers to delay them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .machine import EDGE_FRACS, MOST_RESULTS, SHIFTS, Half, Machine
from .program import NOTHING, Program
from .schedule import INPUT, UNIT

FINE = 3
"""Number of bits of a shift in its last stage."""

NO_SOURCE = 0
"""Code of :data:`.program.NOTHING`; lane k has the code k + 1, the reciprocal unit the next,
and the words of the request the one after."""


@dataclass(frozen=True)
class Field:
    """A field of a row: its width, and the number of cycles after its row when it is used."""

    width: int
    skew: int = 0


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """Layout of the rows of a machine's programs, lowest bits first: lane by lane, then the team.

    Members
    -------
    machine : parameters.
    """

    machine: Machine

    @property
    def sources(self) -> int:
        """Width in bits of a field that selects a source."""
        return (self.machine.lanes + 2).bit_length()

    @property
    def lane(self) -> Mapping[str, Field]:
        """Fields of a row for one lane."""
        address = (self.machine.words - 1).bit_length()
        return {
            "a": Field(address),
            "b": Field(address),
            "half": Field(2, 2),
            "coarse": Field((SHIFTS[1] - SHIFTS[0]).bit_length() - FINE, 6),
            "fine": Field(FINE, 7),
            "negate": Field(1, 7),
            "active": Field(1, 8),
            "first": Field(1, 8),
            "finish": Field(2, 9),
            "last": Field(1, 10),
            "source": Field(self.sources),
            "to": Field(address),
        }

    @property
    def team(self) -> Mapping[str, Field]:
        """Fields of a row for the whole team."""
        return {
            "output_source": Field(self.sources),
            "output": Field((MOST_RESULTS - 1).bit_length()),
            "operand": Field(self.sources),
            "points": Field(8),
        }

    @property
    def constant(self) -> Mapping[str, Field]:
        """Fields of an initial constant: its lanes, its address in each lane, and its word."""
        machine = self.machine
        return {
            "lanes": Field(machine.lanes),
            "to": Field(machine.lanes * (machine.words - 1).bit_length()),
            "word": Field(machine.word),
        }

    @property
    def move(self) -> int:
        """Width in bits of the field for a word's fraction bits above the minimum."""
        return (EDGE_FRACS[1] - EDGE_FRACS[0]).bit_length()

    @property
    def entry(self) -> Mapping[str, Field]:
        """Fields of a function's entry in the directory."""
        machine = self.machine
        row, constant, word, result = (
            (number - 1).bit_length()
            for number in (machine.rows, machine.constants, machine.inputs, machine.results)
        )
        return {
            "first_row": Field(row),
            "last_row": Field(row),
            "first_constant": Field(constant),
            "constants": Field(constant + 1),
            "first_input": Field(word),
            "inputs": Field(word + 1),
            "first_result": Field(result),
            "results": Field(result + 1),
        }

    @property
    def width(self) -> int:
        """Width of a row in bits."""
        return self.machine.lanes * width_of(self.lane) + width_of(self.team)


def width_of(fields: Mapping[str, Field]) -> int:
    """Return the total width of fields in bits."""
    return sum(field.width for field in fields.values())


def packed(fields: Mapping[str, Field], values: Mapping[str, int]) -> int:
    """Return the values of all fields as one integer, with the first field in the lowest bits."""
    result = place = 0
    for name, field in fields.items():
        value = values[name]
        assert 0 <= value < 1 << field.width, f"{name} exceeds its bits"
        result |= value << place
        place += field.width
    return result


def encoded_rows(program: Program) -> list[int]:
    """Return the rows of a program as integers, row 0 first."""
    encoding = Encoding(machine=program.machine)
    rows = [0] * program.cycles
    place = 0
    for lane in range(program.machine.lanes):
        slots = program.lanes[:, lane]
        shift = slots["shift"].astype(np.int64) - SHIFTS[0]
        active = slots["half"] != Half.IDLE
        columns = {
            "coarse": shift >> FINE,
            "fine": shift & (1 << FINE) - 1,
            "active": active,
            "source": _codes(slots["source"], program.machine),
            **{name: slots[name] for name in ("a", "b", "half", "negate", "first", "last")},
            **{name: slots[name] for name in ("finish", "to")},
        }
        for name, field in encoding.lane.items():
            column = columns[name].astype(np.int64)
            if name not in ("source", "to"):
                column = np.where(active, column, 0)
            _put(rows, column, place, field)
            place += field.width
    team = program.team
    columns = {
        "output_source": _codes(team["output_source"], program.machine),
        "output": np.maximum(team["output"], 0),
        "operand": _codes(team["operand"], program.machine),
        "points": np.where(team["operand"] == NOTHING, 0, team["points"]),
    }
    for name, field in encoding.team.items():
        _put(rows, columns[name].astype(np.int64), place, field)
        place += field.width
    return rows


def _codes(sources: np.ndarray, machine: Machine) -> np.ndarray:
    codes = np.where(sources == UNIT, machine.lanes + 1, sources.astype(np.int64) + 1)
    codes = np.where(sources == INPUT, machine.lanes + 2, codes)
    return np.where(sources == NOTHING, NO_SOURCE, codes)


def _put(rows: list[int], column: np.ndarray, place: int, field: Field) -> None:
    assert ((column >= 0) & (column < 1 << field.width)).all(), "a field exceeds its bits"
    for row, value in enumerate(column.tolist()):
        if value:
            rows[row + field.skew] |= value << place
