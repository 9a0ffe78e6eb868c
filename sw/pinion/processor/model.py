"""A cycle-exact integer model of the processor, which the hardware must match."""

from __future__ import annotations

import numpy as np

from pinion.base.arrays import Flags, Ints, Words
from pinion.fixedpoint.float32 import fixed_to_float32, float32_to_fixed

from .arithmetic import HALF_UNIT, finished, product, reciprocal
from .machine import RECIPROCAL_DELAY, Half
from .program import NOTHING, Program
from .schedule import INPUT, UNIT


def run(program: Program, requests: Words) -> tuple[Words, Flags]:
    """Run a program for each request and return its results and flags.

    Parameters
    ----------
    requests : (n, words_in) float32 bits of samples, in the order of the program's inputs.

    Returns
    -------
    (n, words_out) float32 bits, and flags (n,): an input or a value overflowed its format, of this
    sample or of one in the same request.
    """
    samples, (every, size) = program.interleave, requests.shape
    count = program.requests(every)
    # The last request is filled with the last sample.
    places = np.minimum(np.arange(count * samples), every - 1)
    records = requests[places].reshape(count, samples * size)
    team = _Team(program, count)
    inputs = []
    for column, (_, fmt) in zip(records.T, program.inputs * samples, strict=True):
        integers, lost = float32_to_fixed(np.ascontiguousarray(column), fmt)
        team.flags |= lost
        inputs.append(integers)
    for cycle in range(program.cycles):
        if cycle < len(inputs):
            team.registers[INPUT] = inputs[cycle]
        team.step(cycle)
    words = np.empty((count, samples * len(program.outputs)), dtype=np.uint32)
    for place, (_, fmt) in enumerate(program.outputs * samples):
        words[:, place] = fixed_to_float32(team.results[place], fmt)
    results = words.reshape(count * samples, len(program.outputs))
    return results[:every], np.repeat(team.flags, samples)[:every]


class _Team:
    def __init__(self, program: Program, count: int) -> None:
        self.program = program
        machine = self.machine = program.machine
        lanes = range(machine.lanes)
        self.flags = np.zeros(count, dtype=np.bool_)
        self.memory = np.zeros((machine.lanes, machine.words, count), dtype=np.int64)
        for lane, constants in enumerate(program.constants):
            for place, integer in constants.items():
                self.memory[lane, place] = integer
        results = program.interleave * len(program.outputs)
        self.results = np.zeros((results, count), dtype=np.int64)
        self.accumulators = [np.zeros(count, dtype=np.int64) for _ in lanes]
        self.registers = {k: np.zeros(count, dtype=np.int64) for k in (*lanes, UNIT)}
        self.due: dict[int, list[tuple[int, Ints]]] = {}

    def step(self, cycle: int) -> None:
        """Execute one row: results arrive, slots read, words are written."""
        for source, value in self.due.pop(cycle, ()):
            self.registers[source] = value
        rows, team = self.program.lanes[cycle], self.program.team[cycle]
        for lane, row in enumerate(rows):
            if row["half"] != Half.IDLE:
                self._slot(lane, row, cycle)
        for lane, row in enumerate(rows):
            if row["source"] != NOTHING:
                self.memory[lane, row["to"]] = self.registers[int(row["source"])]
        if team["output"] >= 0:
            self.results[team["output"]] = self.registers[int(team["output_source"])]
        if team["operand"] != NOTHING:
            operand = self.registers[int(team["operand"])]
            inverse, lost = reciprocal(operand, int(team["points"]), self.machine)
            self.flags |= lost
            self._later(cycle + RECIPROCAL_DELAY, UNIT, inverse)

    def _slot(self, lane: int, row: np.void, cycle: int) -> None:
        begins = HALF_UNIT if row["first"] else self.accumulators[lane]
        total = self.accumulators[lane] = begins + product(
            self.memory[lane, row["a"]],
            self.memory[lane, row["b"]],
            int(row["half"]),
            int(row["shift"]),
            negate=bool(row["negate"]),
            machine=self.machine,
        )
        if row["last"]:
            value, lost = finished(total, int(row["finish"]), self.machine)
            self.flags |= lost
            self._later(cycle + self.machine.delay - 1, lane, value)

    def _later(self, cycle: int, source: int, value: Ints) -> None:
        self.due.setdefault(cycle, []).append((source, value))
