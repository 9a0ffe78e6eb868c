"""Programs as text: a line for each slot, with the value that it contributes to."""

from __future__ import annotations

from collections.abc import Iterator

from .compile import CompiledProgram
from .machine import Finish, Half
from .program import NOTHING, Program
from .schedule import INPUT, UNIT

_HALVES = {Half.ROUNDED: "~", Half.HIGH: ">", Half.LOW: "<"}
"""Marks of the bits of B: rounded, high, low."""

_ENDS = {Finish.CLIP: " =>", Finish.WRAP: " => wrapped", Finish.SIGN: " => negative?"}


def listing(compiled: CompiledProgram) -> str:
    """Return a program as text, with a line for each action of a lane or the team in a row.

    ``12 L0 acc = r3 * r17~ >> 20`` is a slot of lane 0 in row 12: ``acc =`` begins a sum, ``+=``
    and ``-=`` continue it, ``=>`` ends it; ``~``, ``>`` and ``<`` after B are its rounded, high
    and low bits; after the semicolon are pass, body and source line of what is computed.
    ``12 L1 r40 <- L0`` writes lane 0's result to word 40 of lane 1, ``3 L1 r7 <- q[3]`` a word of
    the request to its word 7. In a program that interleaves samples, ``s1`` after the semicolon and
    after a word is the number of the sample.
    """
    program = compiled.program
    lines = [
        f"; {program.machine.lanes} lanes, {program.cycles} rows, {program.slots} slots, "
        f"{program.words} words in the fullest lane",
    ]
    for lane, constants in enumerate(program.constants):
        lines += [f"; L{lane} r{place} = {integer}" for place, integer in constants.items()]
    lines += [f"; {word}: {fmt.frac} fraction bits" for word, fmt in program.inputs]
    lines += _rows(compiled)
    return "\n".join(lines) + "\n"


def _rows(compiled: CompiledProgram) -> Iterator[str]:
    program = compiled.program
    for cycle, (lanes, team) in enumerate(zip(program.lanes, program.team, strict=True)):
        for lane, row in enumerate(lanes):
            if row["half"] != Half.IDLE:
                sign = "-" if row["negate"] else "+"
                verb = f"= {'-' if row['negate'] else ''}" if row["first"] else f"{sign}= "
                end = _ENDS[Finish(int(row["finish"]))] if row["last"] else ""
                half = _HALVES[Half(int(row["half"]))]
                yield (
                    f"{cycle} L{lane} acc {verb}r{row['a']} * r{row['b']}{half} >> "
                    f"{row['shift']}{end}{_origin(compiled, int(row['value']))}"
                )
            if row["source"] != NOTHING:
                inputs = row["source"] == INPUT
                source = _word(program, cycle) if inputs else _source(int(row["source"]))
                yield f"{cycle} L{lane} r{row['to']} <- {source}"
        if team["output"] >= 0:
            sample, place = divmod(int(team["output"]), len(program.outputs))
            word, fmt = program.outputs[place]
            yield (
                f"{cycle} {word}{_sample(program, sample)} <- "
                f"{_source(int(team['output_source']))}, {fmt.frac} fraction bits"
            )
        if team["operand"] != NOTHING:
            yield f"{cycle} 1 / {_source(int(team['operand']))}, 2^{team['points']}"


def _origin(compiled: CompiledProgram, number: int) -> str:
    """Return a value's pass, body, source line and sample as a comment."""
    sample, number = divmod(number, len(compiled.sums.values))
    value = compiled.sums.values[number]
    words = [str(part) for part in (value.region, value.line) if part]
    words += _sample(compiled.program, sample).split()
    return f"  ; {' '.join(words)}" if words else ""


def _word(program: Program, place: int) -> str:
    """Return a word of the request record."""
    sample, place = divmod(place, len(program.inputs))
    return f"{program.inputs[place][0]}{_sample(program, sample)}"


def _sample(program: Program, sample: int) -> str:
    return f" s{sample}" if program.interleave > 1 else ""


def _source(source: int) -> str:
    return "reciprocal" if source == UNIT else f"L{source}"
