"""Resident programs: what the memories of a processor hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from .encoding import Encoding, encoded_rows, packed
from .errors import ProgramError
from .machine import EDGE_FRACS, Machine
from .program import Program


class Store(IntEnum):
    """A memory of the processor that a host writes."""

    ROWS = 0
    """Rows of programs."""
    LOADS = 1
    """Words that programs begin with: constants and inputs, and where they go."""
    RESULTS = 2
    """Binary points of result words."""
    DIRECTORY = 3
    """Where a function's program is in the others."""


@dataclass(frozen=True, kw_only=True)
class Image:
    """Programs side by side in a machine's memories.

    Members
    -------
    machine : the machine.
    words : words of each memory, from its first on.
    """

    machine: Machine
    words: Mapping[Store, Sequence[int]]

    @classmethod
    def of(cls, programs: Sequence[Program]) -> Image:
        """Place programs side by side; their order is the numbers of the functions.

        Raises
        ------
        ProgramError
            If the sequence is empty, the machines differ, or a memory is too small.
        """
        if not programs:
            raise ProgramError("There is no program: give one at least.")
        machine = programs[0].machine
        if any(program.machine != machine for program in programs):
            raise ProgramError("The programs are for different machines: compile them for one.")
        encoding = Encoding(machine=machine)
        words: dict[Store, list[int]] = {store: [] for store in Store}
        entries = []
        for program in programs:
            constants, inputs = _constants(program, encoding), _inputs(program, encoding)
            entry = {
                "first_row": len(words[Store.ROWS]),
                "first_load": len(words[Store.LOADS]),
                "constants": len(constants),
                "inputs": len(inputs),
                "first_result": len(words[Store.RESULTS]),
                "results": len(program.outputs),
            }
            words[Store.ROWS] += encoded_rows(program)
            words[Store.LOADS] += [*constants, *inputs]
            words[Store.RESULTS] += [_move(fmt.frac) for _, fmt in program.outputs]
            entries.append(entry | {"last_row": len(words[Store.ROWS]) - 1})
        for store, depth in depths(machine).items():
            number = len(entries if store is Store.DIRECTORY else words[store])
            if number > depth:
                raise ProgramError(
                    f"The programs have {number} {_HELD[store]} together, {number - depth} more "
                    f"than the processor's {depth}: leave one out."
                )
        words[Store.DIRECTORY] = [packed(encoding.entry, entry) for entry in entries]
        return cls(machine=machine, words=words)


def depths(machine: Machine) -> Mapping[Store, int]:
    """Return the number of words of each memory."""
    return {
        Store.ROWS: machine.rows,
        Store.LOADS: machine.loads,
        Store.RESULTS: machine.results,
        Store.DIRECTORY: machine.functions,
    }


_HELD = {
    Store.ROWS: "rows",
    Store.LOADS: "constants and inputs",
    Store.RESULTS: "result words",
    Store.DIRECTORY: "functions",
}


def _constants(program: Program, encoding: Encoding) -> list[int]:
    """Return the loads of constants; lanes with the same word share one."""
    places: dict[tuple[int, int], dict[int, int]] = {}
    for lane, constants in enumerate(program.constants):
        times = Counter[int]()  # a lane may hold a word twice, at different binary points
        for place, integer in constants.items():
            places.setdefault((integer, times[integer]), {})[lane] = place
            times[integer] += 1
    bits = 1 << program.machine.word
    return [_load(encoding, lanes, integer % bits) for (integer, _), lanes in places.items()]


def _inputs(program: Program, encoding: Encoding) -> list[int]:
    return [_load(encoding, memory, _move(fmt.frac)) for _, fmt, memory in program.inputs]


def _move(frac: int) -> int:
    return frac - EDGE_FRACS[0]


def _load(encoding: Encoding, places: Mapping[int, int], word: int) -> int:
    address = (encoding.machine.words - 1).bit_length()
    return packed(
        encoding.load,
        {
            "lanes": sum(1 << lane for lane in places),
            "to": sum(place << lane * address for lane, place in places.items()),
            "word": word,
        },
    )
