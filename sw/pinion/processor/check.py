"""Check of compiled programs, which shares no code with the compiler.

The program is run on symbols: a word of memory holds the value that it should, and a slot is right
if it multiplies two operands of the sum that it is part of, shifted as the values' binary points
require. What hardware leaves undefined is an error. A symbol is a value's number, to which those of
later samples add the number of values for each sample before them; values of constants alone are
those of the first sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pinion.base.amounts import amount
from pinion.fixedpoint import Format

from .errors import ProgramError
from .machine import GUARD, RECIPROCAL_DELAY, SHIFTS, Finish, Half
from .points import Points
from .program import NOTHING, Program
from .schedule import INPUT, UNIT
from .sums import Sums

_Key = tuple[tuple[tuple[int, int, bool, int], ...], Finish]


class _Slot(NamedTuple):
    """A slot: its operands, the half of b, the sign, and the fraction bits after the shift."""

    a: int
    b: int
    half: Half
    negate: bool
    point: int


class ProgramCheckError(ProgramError):
    """Error for a program that does not compute its function; the message says where."""


def check_program(program: Program, sums: Sums, points: Points) -> None:
    """Check that a program computes a function's sums and reads no undefined value.

    Parameters
    ----------
    sums, points : of one sample, however many samples the program interleaves.

    Raises
    ------
    ProgramCheckError
        If a slot reads a word that holds nothing, is written in the same cycle, or belongs to no
        sum; a result is lost before it is written; a result word is missing; or a field exceeds
        the machine.
    """
    _Symbols(program, sums, points).run()


class _Symbols:
    def __init__(self, program: Program, sums: Sums, points: Points) -> None:
        self.program = program
        self.sums = sums
        self.points = points
        machine = self.machine = program.machine
        lanes = range(machine.lanes)
        words = {str(value.word): n for n, value in enumerate(sums.values) if value.word}
        self.size, samples = len(sums.values), range(program.interleave)
        self.fracs = points.fracs * program.interleave
        self.integers: dict[int, int] = {}
        self.same = self._representatives()
        # By lane: what each word of memory holds.
        self.memory: list[dict[int, int]] = [{} for _ in lanes]
        # The value of each word of the record, None where nothing reads it.
        self.record = [
            sample * self.size + words[str(word)] if str(word) in words else None
            for sample in samples
            for word, _ in program.inputs
        ]
        # The value of each result of the record.
        self.wanted = [
            (word, self.same[sample * self.size + number])
            for sample in samples
            for word, number in sums.results
        ]
        for lane, constants in enumerate(program.constants):
            for place, integer in constants.items():
                self.memory[lane][place] = self._constant(integer)
        self.registers: dict[int, int | None] = dict.fromkeys((*lanes, UNIT, INPUT))
        self.due: dict[int, dict[int, int]] = {}
        self.open: list[list[_Slot]] = [[] for _ in lanes]
        self.by_products = self._sums()
        self.results: dict[int, int] = {}

    def _representatives(self) -> list[int]:
        """Return, for each value, the first one with the same integer at any binary point."""
        first: dict[object, int] = {}
        same: list[int] = []
        for symbol, value in enumerate(self.sums.values * self.program.interleave):
            key: object = symbol
            before = symbol // self.size * self.size
            if value.constant is not None:
                key = "constant", round(value.constant * 2.0 ** self.fracs[symbol])
                self.integers.setdefault(key[1], symbol)
            elif value.inverse is not None:
                points = self.fracs[value.inverse] + self.fracs[symbol]
                key = "inverse", same[before + value.inverse], points
            elif value.terms:
                key = value.finish, tuple(self._terms(symbol, same))
            same.append(first.setdefault(key, symbol))
        return same

    def _terms(self, symbol: int, same: Sequence[int]) -> list[tuple[int, int, bool, int]]:
        """Return a sum's products as (a, b, negated, point), where a and b are representatives."""
        number, fracs, terms = symbol % self.size, self.fracs, []
        for t in self.sums.values[number].terms:
            a, b = same[symbol - number + t.a], same[symbol - number + t.b]
            end = self.points.ends[number]
            point = end + t.power + fracs[a] - fracs[t.a] + fracs[b] - fracs[t.b]
            if fracs[a] + fracs[b] - self.machine.low - point - GUARD <= SHIFTS[1]:
                terms.append((min(a, b), max(a, b), t.sign < 0, point))
        return sorted(terms)

    def _constant(self, integer: int) -> int:
        if integer not in self.integers:
            raise ProgramCheckError(f"The function has no constant {integer}.")
        return self.integers[integer]

    def _sums(self) -> dict[_Key, int]:
        """Return the representatives of the sums by their products and `Finish`."""
        values = self.sums.values * self.program.interleave
        return {
            (tuple(self._terms(symbol, self.same)), value.finish): self.same[symbol]
            for symbol, value in enumerate(values)
            if value.terms
        }

    def run(self) -> None:
        if self.program.cycles < len(self.record):
            raise ProgramCheckError("The program ends before the last word of its request.")
        size = len(self.program.inputs)
        for number, (word, fmt) in zip(self.record[:size], self.program.inputs, strict=True):
            if number is not None:
                self.check_point(f"input {word}", fmt, number)
        for cycle in range(self.program.cycles):
            self.step(cycle)
        for lane, slots in enumerate(self.open):
            if slots:
                raise ProgramCheckError(
                    f"The program ends before the sum in lane {lane} is complete."
                )
        for place, (word, symbol) in enumerate(self.wanted):
            if self.results.get(place) != symbol:
                sample = f" of sample {place // len(self.sums.results)}"
                raise ProgramCheckError(
                    f"The result {word}{sample if self.program.interleave > 1 else ''} is missing "
                    "or has the wrong value."
                )
        for (word, number), (_, fmt) in zip(self.sums.results, self.program.outputs, strict=True):
            self.check_point(f"result {word}", fmt, number)

    def check_point(self, subject: str, fmt: Format, number: int) -> None:
        """Check that a word has the binary point of its value."""
        expected = self.fracs[number]
        if fmt.frac != expected:
            raise ProgramCheckError(
                f"The {subject} has {amount(fmt.frac, 'fractional bit')} instead of {expected}."
            )

    def step(self, cycle: int) -> None:
        for source, value in self.due.pop(cycle, {}).items():
            self.registers[source] = value
        self.registers[INPUT] = self.record[cycle] if cycle < len(self.record) else None
        rows, team = self.program.lanes[cycle], self.program.team[cycle]
        for lane, row in enumerate(rows):
            if row["half"] != Half.IDLE:
                self._slot(cycle, lane, row)
        for lane, row in enumerate(rows):
            if row["source"] != NOTHING:
                if not 0 <= row["to"] < self.machine.words:
                    raise ProgramCheckError(
                        f"Row {cycle} writes word {row['to']} of lane {lane}, which has "
                        f"{self.machine.words} words."
                    )
                if row["to"] in self.program.constants[lane]:
                    raise ProgramCheckError(f"Row {cycle} overwrites a constant of lane {lane}.")
                self.memory[lane][int(row["to"])] = self._read(cycle, int(row["source"]))
        if team["output"] >= 0:
            place = int(team["output"])
            if place in self.results:
                raise ProgramCheckError(f"Row {cycle} writes result {place} a second time.")
            self.results[place] = self._read(cycle, int(team["output_source"]))
        if team["operand"] != NOTHING:
            self._invert(cycle, self._read(cycle, int(team["operand"])), int(team["points"]))

    def _read(self, cycle: int, source: int) -> int:
        value = self.registers.get(source)
        if value is None:
            raise ProgramCheckError(f"Row {cycle} reads source {source}, which has no result.")
        return value

    def _invert(self, cycle: int, operand: int, points: int) -> None:
        for symbol, value in enumerate(self.sums.values * self.program.interleave):
            before = symbol // self.size * self.size
            if value.inverse is None or self.same[before + value.inverse] != operand:
                continue
            if points == self.fracs[value.inverse] + self.fracs[symbol]:
                self._later(cycle + RECIPROCAL_DELAY, UNIT, self.same[symbol])
                return
        raise ProgramCheckError(f"Row {cycle} starts a reciprocal that is not in the function.")

    def _later(self, cycle: int, source: int, value: int) -> None:
        # A row ends one sum of a lane and starts one reciprocal, so there is no other value.
        self.due.setdefault(cycle, {})[source] = value

    def _slot(self, cycle: int, lane: int, row: np.void) -> None:
        where = f"Row {cycle}, lane {lane},"
        if not SHIFTS[0] <= row["shift"] <= SHIFTS[1]:
            raise ProgramCheckError(
                f"{where} shifts by {row['shift']}, outside {SHIFTS[0]} to {SHIFTS[1]}."
            )
        if bool(row["first"]) == bool(self.open[lane]):
            raise ProgramCheckError(
                f"{where} begins a sum within another, or continues one that has not begun."
            )
        operands = []
        for name in ("a", "b"):
            place = int(row[name])
            if row["source"] != NOTHING and row["to"] == place:
                raise ProgramCheckError(
                    f"{where} reads word {place}, which is written in this cycle."
                )
            if place not in self.memory[lane]:
                raise ProgramCheckError(f"{where} reads word {place}, which has not been written.")
            operands.append(self.memory[lane][place])
        a, b = operands
        fracs, half = self.fracs, Half(int(row["half"]))
        frac = fracs[a] + fracs[b] - (0 if half is Half.LOW else self.machine.low)
        slot = _Slot(a, b, half, bool(row["negate"]), frac - int(row["shift"]) - GUARD)
        self.open[lane].append(slot)
        if row["last"]:
            number = self._close(where, self.open[lane], Finish(int(row["finish"])))
            self.open[lane] = []
            self._later(cycle + self.machine.delay - 1, lane, number)

    def _close(self, where: str, slots: list[_Slot], finish: Finish) -> int:
        """Return the function's sum that these slots compute."""
        high = Counter((s.a, s.b, s.negate, s.point) for s in slots if s.half is Half.HIGH)
        low = Counter((s.a, s.b, s.negate, s.point) for s in slots if s.half is Half.LOW)
        if low - high:
            raise ProgramCheckError(f"{where} ends a sum with low bits but not the high ones.")
        for a, b, _, point in high - low:
            shift = self.fracs[a] + self.fracs[b] - point - GUARD
            if shift <= SHIFTS[1]:
                raise ProgramCheckError(f"{where} ends a sum with high bits but not the low ones.")
        products = sorted(
            (min(s.a, s.b), max(s.a, s.b), s.negate, s.point)
            for s in slots
            if s.half is not Half.LOW
        )
        number = self.by_products.get((tuple(products), finish))
        if number is None:
            raise ProgramCheckError(f"{where} ends a sum that is not in the function.")
        return number
