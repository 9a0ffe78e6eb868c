"""Resident programs: the contents of a processor's memories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from pinion.link import function_id

from .encoding import Encoding, Field, encoded_rows, packed, width_of
from .errors import ProgramError
from .machine import EDGE_FRACS, Machine
from .program import Program, remedy


class Store(IntEnum):
    """Memories of the processor that the host writes."""

    ROWS = 0
    """Rows of programs."""
    CONSTANTS = 1
    """Words that programs begin with, and where they go."""
    INPUTS = 2
    """Binary points of the words of requests."""
    RESULTS = 3
    """Binary points of result words."""
    DIRECTORY = 4
    """Where a function's program is in the other memories."""
    NAMES = 5
    """Which requests a function answers. Written last: a write to another memory removes all
    names."""


LOADER = function_id("load_programs")
"""Function of packets that load programs, whose build is the machine's digest."""

RESULT_WORDS = 1
"""Number of words in the answer to a record of such a packet: its first word."""

NAME = {"build": Field(64), "function": Field(32), "words_in": Field(16), "words_out": Field(16)}
"""Fields of a name: hash, function, and words of records, as in the headers of packets."""

STORE_PLACE = 24
"""Position of the memory's number in the first word of a record; the address is below it."""


@dataclass(frozen=True, kw_only=True)
class Name:
    """Identifiers of a program and its function in packet headers.

    Members
    -------
    build : 64-bit hash of the program's manifest.
    function : identifier of the function (:func:`pinion.link.function_id`).
    """

    build: int
    function: int


@dataclass(frozen=True, kw_only=True)
class Image:
    """Contents of a machine's memories, with one or more programs.

    Members
    -------
    machine : the machine.
    words : words of each memory, beginning with the first.
    """

    machine: Machine
    words: Mapping[Store, Sequence[int]]

    @classmethod
    def of(cls, programs: Sequence[Program], names: Sequence[Name] = ()) -> Image:
        """Create an image with programs one after another; functions are numbered in this order.

        Parameters
        ----------
        programs : at least one, for the same machine.
        names : of each program; without them no packet reaches a program.

        Raises
        ------
        ProgramError
            If the sequence is empty, the machines differ, or a memory is too small.
        """
        if not programs:
            raise ProgramError("There is no program: give at least one.")
        machine = programs[0].machine
        if any(program.machine != machine for program in programs):
            raise ProgramError(
                "The programs are for different machines: compile all of them for the same one."
            )
        encoding = Encoding(machine=machine)
        words: dict[Store, list[int]] = {store: [] for store in Store}
        entries = []
        for program in programs:
            constants = _constants(program, encoding)
            samples = program.interleave
            entry = {
                "first_row": len(words[Store.ROWS]),
                "first_constant": len(words[Store.CONSTANTS]),
                "constants": len(constants),
                "first_input": len(words[Store.INPUTS]),
                "inputs": samples * len(program.inputs),
                "first_result": len(words[Store.RESULTS]),
                "results": samples * len(program.outputs),
            }
            words[Store.ROWS] += encoded_rows(program)
            words[Store.CONSTANTS] += constants
            words[Store.INPUTS] += [_move(fmt.frac) for _, fmt in program.inputs] * samples
            words[Store.RESULTS] += [_move(fmt.frac) for _, fmt in program.outputs] * samples
            entries.append(entry | {"last_row": len(words[Store.ROWS]) - 1})
        for entry, name in zip(entries, names, strict=False):
            sizes = {"words_in": entry["inputs"], "words_out": entry["results"]}
            fields = {"build": name.build, "function": name.function, **sizes}
            words[Store.NAMES].append(packed(NAME, fields))
        for store, depth in depths(machine).items():
            number = len(programs if store is Store.DIRECTORY else words[store])
            if number > depth:
                subject, advice = "The program has", remedy(programs[0].interleave)
                if len(programs) > 1:
                    subject, advice = "Together the programs have", "leave out at least one program"
                raise ProgramError(
                    f"{subject} {number} {_HELD[store]}, {number - depth} more than the "
                    f"processor's {depth}: {advice}."
                )
        words[Store.DIRECTORY] = [packed(encoding.entry, entry) for entry in entries]
        return cls(machine=machine, words=words)

    def records(self) -> NDArray[np.uint32]:
        """Return the records (n, words) that load the programs: memory and address, then data."""
        size = record_words(self.machine)
        rows = [
            ((store << STORE_PLACE) | at, *(data >> 32 * k & 0xFFFFFFFF for k in range(size - 1)))
            for store, words in sorted(self.words.items())
            for at, data in enumerate(words)
        ]
        return np.array(rows, dtype=np.uint32)


def record_words(machine: Machine) -> int:
    """Return the number of 32-bit words in a record that loads one word of a memory."""
    return 1 + -(-max(widths(machine).values()) // 32)


def widths(machine: Machine) -> Mapping[Store, int]:
    """Return the width in bits of a word of each memory."""
    encoding = Encoding(machine=machine)
    return {
        Store.ROWS: encoding.width,
        Store.CONSTANTS: width_of(encoding.constant),
        Store.INPUTS: encoding.move,
        Store.RESULTS: encoding.move,
        Store.DIRECTORY: width_of(encoding.entry),
        Store.NAMES: width_of(NAME),
    }


def depths(machine: Machine) -> Mapping[Store, int]:
    """Return the number of words of each memory."""
    return {
        Store.ROWS: machine.rows,
        Store.CONSTANTS: machine.constants,
        Store.INPUTS: machine.inputs,
        Store.RESULTS: machine.results,
        Store.DIRECTORY: machine.functions,
        Store.NAMES: machine.functions,
    }


# There are never more names than functions.
_HELD = {
    Store.ROWS: "rows",
    Store.CONSTANTS: "constants",
    Store.INPUTS: "request words",
    Store.RESULTS: "result words",
    Store.DIRECTORY: "functions",
}


def _constants(program: Program, encoding: Encoding) -> list[int]:
    """Return the encoded constants; lanes with the same constant share one."""
    places: dict[tuple[int, int], dict[int, int]] = {}
    for lane, constants in enumerate(program.constants):
        times = Counter[int]()  # a lane may hold a word twice, at different binary points
        for place, integer in constants.items():
            places.setdefault((integer, times[integer]), {})[lane] = place
            times[integer] += 1
    bits = 1 << program.machine.word
    return [_constant(encoding, lanes, integer % bits) for (integer, _), lanes in places.items()]


def _move(frac: int) -> int:
    return frac - EDGE_FRACS[0]


def _constant(encoding: Encoding, places: Mapping[int, int], word: int) -> int:
    address = (encoding.machine.words - 1).bit_length()
    return packed(
        encoding.constant,
        {
            "lanes": sum(1 << lane for lane in places),
            "to": sum(place << lane * address for lane, place in places.items()),
            "word": word,
        },
    )
