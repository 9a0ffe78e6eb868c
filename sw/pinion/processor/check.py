"""A check of programs that shares no code with their compiler.

The program is run on symbols: a word of memory holds the value that it should, and a slot is right
if it multiplies two operands of the sum that it is part of, shifted as the values' binary points
say. What hardware leaves undefined is an error.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from .errors import ProgramError
from .machine import GUARD, RECIPROCAL_DELAY, SHIFTS, Half
from .points import Points
from .program import NOTHING, Program
from .schedule import UNIT
from .sums import Sums

_Key = tuple[tuple[tuple[int, int, bool], int], ...]


class _Slot(NamedTuple):
    """A slot: operands, bits of b, sign, and the fraction bits that it is shifted to."""

    a: int
    b: int
    half: Half
    negate: bool
    point: int


class CheckError(ProgramError):
    """A program is wrong; the message says in which row."""


def check_program(program: Program, sums: Sums, points: Points) -> None:
    """Check that a program computes a function's sums, and nothing undefined.

    Raises
    ------
    CheckError
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
        self.integers: dict[int, int] = {}
        self.equal = self._equal_constants()
        # By lane: what each word of memory holds.
        self.memory: list[dict[int, int]] = [{} for _ in lanes]
        for word, _, memory in program.inputs:
            for lane, place in memory.items():
                self.memory[lane][place] = words[str(word)]
        for lane, constants in enumerate(program.constants):
            for place, integer in constants.items():
                if place in self.memory[lane]:
                    raise CheckError(f"Word {place} of lane {lane} is an input and a constant.")
                self.memory[lane][place] = self._constant(integer)
        self.registers: dict[int, int | None] = dict.fromkeys((*lanes, UNIT))
        self.due: dict[int, dict[int, int]] = {}
        self.open: list[list[_Slot]] = [[] for _ in lanes]
        self.by_products = self._sums()
        self.results: dict[int, int] = {}

    def _equal_constants(self) -> dict[int, int]:
        """Return for each constant the first with the same integer: in memory they are one."""
        first: dict[int, int] = {}
        equal = {}
        for number, value in enumerate(self.sums.values):
            if value.constant is not None:
                integer = round(value.constant * 2.0 ** self.points.fracs[number])
                equal[number] = first.setdefault(integer, number)
        self.integers = first
        return equal

    def _constant(self, integer: int) -> int:
        if integer not in self.integers:
            raise CheckError(f"The constant {integer} is none of the function's.")
        return self.integers[integer]

    def _pair(self, a: int, b: int) -> tuple[int, int]:
        """Return two factors in a fixed order."""
        x, y = (self.equal.get(number, number) for number in (a, b))
        return min(x, y), max(x, y)

    def _sums(self) -> dict[_Key, list[int]]:
        """Return the sums by their products, without powers of two: equal ones exist twice."""
        by_products: dict[_Key, list[int]] = {}
        for number, value in enumerate(self.sums.values):
            if value.terms:
                by_products.setdefault(self._key(number), []).append(number)
        return by_products

    def _key(self, number: int) -> _Key:
        """Return the products of a sum that a lane can shift to its point."""
        fracs, low = self.points.fracs, self.machine.low
        products = Counter(
            (*self._pair(t.a, t.b), t.sign < 0)
            for t in self.sums.values[number].terms
            if fracs[t.a] + fracs[t.b] - low - t.power - fracs[number] - GUARD <= SHIFTS[1]
        )
        return tuple(sorted(products.items()))

    def run(self) -> None:
        for cycle in range(self.program.cycles):
            self.step(cycle)
        if any(self.open):
            raise CheckError("The program ends within a sum.")
        for place, (word, number) in enumerate(self.sums.results):
            actual = self.results.get(place)
            if actual is None or not self._same(actual, number):
                raise CheckError(f"The result {word} is not computed, or is another value.")
            if self.program.outputs[place][1].frac != self.points.fracs[number]:
                raise CheckError(f"The result {word} has another binary point.")

    def _same(self, a: int, b: int) -> bool:
        """Whether two values are one integer: a sum and its double are, at another point."""
        return a == b or (bool(self._products(a)) and self._products(a) == self._products(b))

    def _products(self, number: int) -> list[tuple[int, ...]]:
        """Return a sum's products in a fixed order, with their signs and the point of their sum."""
        value, point = self.sums.values[number], self.points.fracs[number]
        return sorted(
            (*self._pair(t.a, t.b), t.sign, t.power + point, value.wraps) for t in value.terms
        )

    def step(self, cycle: int) -> None:
        for source, value in self.due.pop(cycle, {}).items():
            self.registers[source] = value
        rows, team = self.program.lanes[cycle], self.program.team[cycle]
        for lane, row in enumerate(rows):
            if row["half"] != Half.IDLE:
                self._slot(cycle, lane, row)
        for lane, row in enumerate(rows):
            if row["source"] != NOTHING:
                if not 0 <= row["to"] < self.machine.words:
                    raise CheckError(f"Row {cycle} writes word {row['to']} of lane {lane}.")
                if row["to"] in self.program.constants[lane] or any(
                    memory.get(lane) == row["to"] for *_, memory in self.program.inputs
                ):
                    raise CheckError(f"Row {cycle} overwrites a constant or an input.")
                self.memory[lane][int(row["to"])] = self._read(cycle, int(row["source"]))
        if team["output"] >= 0:
            place = int(team["output"])
            if place in self.results:
                raise CheckError(f"Row {cycle} writes the result {place} again.")
            self.results[place] = self._read(cycle, int(team["output_source"]))
        if team["operand"] != NOTHING:
            self._invert(cycle, self._read(cycle, int(team["operand"])), int(team["points"]))

    def _read(self, cycle: int, source: int) -> int:
        value = self.registers.get(source)
        if value is None:
            raise CheckError(f"Row {cycle} reads the result of {source}, which has none.")
        return value

    def _invert(self, cycle: int, operand: int, points: int) -> None:
        for number, value in enumerate(self.sums.values):
            if value.inverse == operand:
                if points != self.points.fracs[operand] + self.points.fracs[number]:
                    raise CheckError(f"Row {cycle} has the points {points} of another reciprocal.")
                self._later(cycle + RECIPROCAL_DELAY, UNIT, number)
                return
        raise CheckError(f"Row {cycle} takes a reciprocal that the function does not have.")

    def _later(self, cycle: int, source: int, value: int) -> None:
        at = self.due.setdefault(cycle, {})
        if source in at:
            raise CheckError(f"Two results of {source} arrive in cycle {cycle}.")
        at[source] = value

    def _slot(self, cycle: int, lane: int, row: np.void) -> None:
        where = f"Row {cycle}, lane {lane},"
        if not SHIFTS[0] <= row["shift"] <= SHIFTS[1]:
            raise CheckError(f"{where} shifts by {row['shift']}.")
        if bool(row["first"]) == bool(self.open[lane]):
            raise CheckError(f"{where} begins a sum within another, or continues none.")
        operands = []
        for name in ("a", "b"):
            place = int(row[name])
            if row["source"] != NOTHING and row["to"] == place:
                raise CheckError(f"{where} reads word {place}, which is written in this cycle.")
            if place not in self.memory[lane]:
                raise CheckError(f"{where} reads word {place}, which holds nothing.")
            operands.append(self.memory[lane][place])
        a, b = operands
        fracs, half = self.points.fracs, Half(int(row["half"]))
        frac = fracs[a] + fracs[b] - (0 if half is Half.LOW else self.machine.low)
        slot = _Slot(a, b, half, bool(row["negate"]), frac - int(row["shift"]) - GUARD)
        self.open[lane].append(slot)
        if row["last"]:
            number = self._close(where, self.open[lane], wrap=bool(row["wrap"]))
            self.open[lane] = []
            self._later(cycle + self.machine.delay - 1, lane, number)

    def _close(self, where: str, slots: list[_Slot], *, wrap: bool) -> int:
        """Return the sum that some slots are."""
        products = Counter(
            (*self._pair(s.a, s.b), s.negate) for s in slots if s.half is not Half.LOW
        )
        high = Counter((s.a, s.b, s.negate) for s in slots if s.half is Half.HIGH)
        low = Counter((s.a, s.b, s.negate) for s in slots if s.half is Half.LOW)
        if low - high:
            raise CheckError(f"{where} ends a sum with low bits and not the high ones.")
        complaint = f"{where} ends a sum that the function does not have."
        for number in self.by_products.get(tuple(sorted(products.items())), ()):
            value = self.sums.values[number]
            points = sorted(
                (*self._pair(t.a, t.b), t.sign < 0, self.points.fracs[number] + t.power)
                for t in value.terms
            )
            actual = {(*self._pair(s.a, s.b), s.negate, s.point) for s in slots}
            if value.wraps == wrap and actual <= set(points):
                return number
            complaint = f"{where} ends a sum with a product at another point."
        raise CheckError(complaint)
