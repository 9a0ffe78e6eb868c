"""A team of lanes in RTL against the model of the processor, bit for bit."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.sim import Simulator

from pinion.fixedpoint.float32 import fixed_to_float32, float32_to_fixed
from pinion.functions import named_function, sample
from pinion.functions.row import word_columns
from pinion.gateware.collisions import UNCHECKED
from pinion.gateware.copies import KEEP
from pinion.gateware.processor import Lane, Processor, Team
from pinion.gateware.processor.inverse import InverseUnit
from pinion.gateware.yosys import run_yosys
from pinion.processor import CompiledProgram, Machine, Program, compile_program, run
from pinion.processor.arithmetic import reciprocal
from pinion.processor.encoding import Encoding, encoded_rows
from pinion.processor.machine import RECIPROCAL_DELAY, SHIFTS, Finish, Half
from pinion.processor.program import LANE_FIELDS, NOTHING, TEAM_FIELDS
from pinion.robot import NO_ROBOT, coupled, load
from tests.gateware.link.mutants import mutant
from tests.support.breadth import some, some_rows
from tests.support.choices import choices, close_calls

CELLS = ("LUT4", "TRELLIS_FF", "MULT18X18D", "DP16KD")


@cache
def compiled(robot: str, function: str, lanes: int, precision: str) -> CompiledProgram:
    machine = Machine(lanes=lanes)
    return compile_program(load(robot), named_function(function), machine, precision=precision)


@cache
def chosen(lanes: int) -> CompiledProgram:
    return compile_program(NO_ROBOT, choices, Machine(lanes=lanes))


def requests(
    program: CompiledProgram, robot: str, function: str, count: int, seed: int
) -> np.ndarray:
    """Return float32 bits of states, one of which is out of range."""
    row, model = named_function(function), load(robot)
    arrays = sample(model, row, count, distribution="beyond", seed=seed)
    columns = {str(w): c for w, c in word_columns(row.inputs, coupled(model), arrays).items()}
    words = np.stack([columns[str(word)] for word, _ in program.program.inputs], axis=1)
    words[1, -1] *= 1e4
    return words.astype(np.float32).view(np.uint32)


def simulated(
    team: Team, program: CompiledProgram, words: np.ndarray
) -> tuple[np.ndarray, list[bool]]:
    """Return result words of requests, and the flags that values set."""
    rows = encoded_rows(program.program)
    fixed = [
        float32_to_fixed(np.ascontiguousarray(column), fmt)[0]
        for column, (_, fmt) in zip(words.T, program.program.inputs, strict=True)
    ]
    integers = np.zeros((len(words), len(program.program.outputs)), dtype=np.int64)
    flags: list[bool] = []

    async def bench(ctx: Any) -> None:
        for lane, constants in enumerate(program.program.constants):
            for place, integer in constants.items():
                await store(ctx, lane, place, integer)
        for request in range(len(words)):
            ctx.set(team.load, 0)
            ctx.set(team.start, 1)
            await ctx.tick()
            ctx.set(team.start, 0)
            for cycle in range(len(rows) + 1):
                # A row is executed in the cycle after, in which the word of its number is there.
                ctx.set(team.data, rows[cycle] if cycle < len(rows) else 0)
                inside = 0 < cycle <= len(fixed)
                ctx.set(team.input, int(fixed[cycle - 1][request]) if inside else -1)
                if ctx.get(team.output):
                    integers[request, ctx.get(team.output_place)] = ctx.get(team.output_word)
                await ctx.tick()
            flags.append(bool(ctx.get(team.flag)))

    async def store(ctx: Any, lane: int, place: int, integer: int) -> None:
        machine = program.program.machine
        ctx.set(team.load, 1 << lane)
        ctx.set(team.load_to, place << lane * (machine.words - 1).bit_length())
        ctx.set(team.load_word, integer)
        await ctx.tick()

    simulator = Simulator(team)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    results = np.empty(integers.shape, dtype=np.uint32)
    for place, (_, fmt) in enumerate(program.program.outputs):
        results[:, place] = fixed_to_float32(integers[:, place], fmt)
    return results, flags


@pytest.mark.parametrize(
    ("robot", "function", "lanes", "precision"),
    some_rows(
        [
            ("two_link", "aba", 1, "fine"),
            ("two_link", "aba", 4, "fast"),
            ("iiwa14", "aba", 8, "fine"),
            ("iiwa14", "minv", 2, "fast"),
        ],
        2,
    ),
)
def test_a_team_equals_the_model_in_every_bit(robot, function, lanes, precision):
    program = compiled(robot, function, lanes, precision)
    words = requests(program, robot, function, 6, seed=3)
    expected, expected_flags = run(program.program, words)
    team = Team(encoding=Encoding(machine=program.program.machine))
    results, flags = simulated(team, program, words)
    assert np.array_equal(results, expected)
    # An input that does not fit is found at the edge, which a team does not have.
    edge = [
        float32_to_fixed(np.ascontiguousarray(column), fmt)[1]
        for column, (_, fmt) in zip(words.T, program.program.inputs, strict=True)
    ]
    assert (np.array(flags) | np.any(edge, axis=0)).tolist() == expected_flags.tolist()
    assert expected_flags.any() and not expected_flags.all()


@pytest.mark.parametrize("lanes", some([1, 3], (3,)))
def test_choices_of_a_team_are_the_model_s(lanes: int) -> None:
    program = chosen(lanes)
    words = close_calls(40).astype(np.float32).view(np.uint32)
    team = Team(encoding=Encoding(machine=program.program.machine))
    results, flags = simulated(team, program, words)
    assert np.array_equal(results, run(program.program, words)[0]) and not any(flags)


def one_sum(constants: dict[int, int], slot: tuple[Any, ...]) -> CompiledProgram:
    """Return a program of one slot, a sum whose result is the only word."""
    program = compiled("two_link", "aba", 1, "fine")
    machine = program.program.machine
    lanes = np.zeros((machine.delay, 1), dtype=LANE_FIELDS)
    lanes["source"] = NOTHING
    lanes[0] = slot
    team = np.zeros(machine.delay, dtype=TEAM_FIELDS)
    team["output"], team["output_source"], team["operand"] = -1, NOTHING, NOTHING
    team[-1]["output"], team[-1]["output_source"] = 0, 0
    changed = Program(
        machine=machine,
        lanes=lanes,
        team=team,
        constants=(constants,),
        inputs=(),
        outputs=program.program.outputs[:1],
    )
    return replace(program, program=changed)


def is_the_model_s(
    program: CompiledProgram, lane: type[Lane], monkeypatch: pytest.MonkeyPatch
) -> bool:
    """Return whether word and flag of a program without inputs are the model's."""
    words = np.zeros((1, 0), dtype=np.uint32)
    with monkeypatch.context() as patch:
        patch.setattr("pinion.gateware.processor.team.Lane", lane)
        team = Team(encoding=Encoding(machine=program.program.machine))
        results, flags = simulated(team, program, words)
    expected, expected_flags = run(program.program, words)
    return results.tolist() == expected.tolist() and flags == expected_flags.tolist()


def test_half_a_unit_and_its_negative_make_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The carry of a negative term is 2^-12 of the last bit, which few sums of a robot show."""
    constants = {0: 1 << 11 + SHIFTS[0], 1: 1 << Machine().low}
    slot = (0, 1, Half.HIGH, SHIFTS[0], True, True, True, Finish.CLIP, NOTHING, 0, 0)
    program = one_sum(constants, slot)
    assert run(program.program, np.zeros((1, 0), dtype=np.uint32))[0].tolist() == [[0]]
    assert is_the_model_s(program, Lane, monkeypatch)
    carry = mutant(Lane, "minus.eq(self.negate)", "minus.eq(0)")
    assert not is_the_model_s(program, carry, monkeypatch)


@pytest.mark.parametrize("negate", [False, True])
def test_a_comparison_of_any_size_has_a_sign_and_no_flag(
    negate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine()
    slot = (0, 1, Half.HIGH, SHIFTS[0], negate, True, True, Finish.SIGN, NOTHING, 0, 0)
    program = one_sum({0: machine.largest, 1: machine.largest}, slot)
    words, flags = run(program.program, np.zeros((1, 0), dtype=np.uint32))
    fmt = program.program.outputs[0][1]
    right = fixed_to_float32(np.array([machine.one if negate else 0], dtype=np.int64), fmt)
    assert words[0].tolist() == right.tolist() and not flags[0]
    assert is_the_model_s(program, Lane, monkeypatch)
    for change in (
        ("Mux(value[-1], machine.one, 0)", "Mux(value[-1], 0, machine.one)"),
        ("== Finish.CLIP)", "<= Finish.SIGN)"),
        ("Mux(value[-1], machine.one, 0)", "Mux(value[word - 1], machine.one, 0)"),
    ):
        assert not is_the_model_s(program, mutant(Lane, *change), monkeypatch), change


def test_words_that_are_read_while_they_are_written_are_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Block RAM may return anything then."""
    spoilt = mutant(
        Lane,
        "reads.append(port.data)",
        "hit = Signal(); m.d.sync += hit.eq(self.write & (self.to == address)); "
        "reads.append(Mux(hit, ~port.data, port.data))",
    )
    monkeypatch.setattr("pinion.gateware.processor.team.Lane", spoilt)
    program = compiled("two_link", "aba", 4, "fast")
    words = requests(program, "two_link", "aba", 6, seed=3)
    team = Team(encoding=Encoding(machine=program.program.machine))
    assert np.array_equal(simulated(team, program, words)[0], run(program.program, words)[0])


MUTANTS = {
    "B is not rounded": ("high + b[low - 1]", "high"),
    "a turn is clipped": ("fits | (self.finish == Finish.WRAP)", "fits"),
    "terms are not negated": ("^ self.negate.replicate(len(term)).as_signed()", ""),
    "a sum begins with a quarter of a unit": ("GUARD - 1", "GUARD - 2"),
    "a sum keeps the one before it": ("Mux(self.first, ", "Mux(0, "),
    "low bits have a sign": ("b[:low])", "b[:low].as_signed())"),
    "the last coarse shift is lost": ("(self.coarse << FINE)", "(self.coarse[:2] << FINE)"),
}


@pytest.mark.parametrize("name", some(MUTANTS, 4))
def test_a_broken_team_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pinion.gateware.processor.team.Lane", mutant(Lane, *MUTANTS[name]))
    for precision in ("fast", "fine"):
        program = compiled("two_link", "aba", 1, precision)
        words = requests(program, "two_link", "aba", 4, seed=5)
        team = Team(encoding=Encoding(machine=program.program.machine))
        if not np.array_equal(simulated(team, program, words)[0], run(program.program, words)[0]):
            return
    raise AssertionError("nothing differs")


def wrong_reciprocals(unit: Any, count: int) -> int:
    """Return how many reciprocals of operands of every size differ from the model."""
    machine = unit.machine
    rng = np.random.default_rng(9)
    bits = rng.integers(0, machine.word, count)
    operands = rng.integers(-(1 << bits), (1 << bits) + 1).clip(-(1 << 34), machine.largest)
    operands[:5] = 0, 1, -1, machine.largest, -machine.largest - 1
    points = rng.integers(0, 100, count)
    points[0] = 0  # the operand alone says that nothing fits
    outputs: list[tuple[int, int]] = []

    async def bench(ctx: Any) -> None:
        for number in range(count + RECIPROCAL_DELAY + 1):
            ctx.set(unit.valid, number < count)
            if number < count:
                ctx.set(unit.x, int(operands[number]))
                ctx.set(unit.points, int(points[number]))
            outputs.append((ctx.get(unit.o), ctx.get(unit.lost)))
            await ctx.tick()

    simulator = Simulator(unit)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    wrong = 0
    for number in range(count):
        expected, lost = reciprocal(operands[number : number + 1], int(points[number]), machine)
        after = number + RECIPROCAL_DELAY
        wrong += (outputs[after][0], outputs[after - 1][1]) != (expected[0], lost[0])
    return wrong


def test_reciprocals_of_every_size() -> None:
    assert not wrong_reciprocals(InverseUnit(machine=Machine()), 400)


@pytest.mark.parametrize(
    "change",
    [
        ("Mux(minus, -value, value)", "value"),
        ("<< top) + half", "<< top)"),
        ("huge | zero", "huge"),
        ("RECIPROCAL_DELAY - 1 - spent", "RECIPROCAL_DELAY - spent"),
    ],
    ids=str,
)
def test_a_broken_unit_is_noticed(change: tuple[str, str]) -> None:
    assert wrong_reciprocals(mutant(InverseUnit, *change)(machine=Machine()), 60)


@pytest.mark.slow
def test_a_lane_and_a_team_have_the_resources_of_the_page(tmp_path: Path) -> None:
    encoding = Encoding(machine=Machine(lanes=4))
    page = (Path(__file__).parents[3] / "docs/concepts/processor.md").read_text()
    counts = {}
    tops = {
        "lane": Lane(encoding=encoding),
        "team": Team(encoding=encoding),
        "processor": Processor(machine=Machine(lanes=4, rows=1024)),
        "teams": Processor(machine=Machine(lanes=4, rows=1024), teams=2),
    }
    for name, top in tops.items():
        (tmp_path / f"{name}.il").write_text(rtlil.convert(top, name=name, emit_src=False))
        synthesis = f"synth_ecp5 -abc9 -top {name}"
        commands = (f"read_rtlil {name}.il", KEEP, UNCHECKED, synthesis, "stat -json")
        log = run_yosys(commands, folder=tmp_path, name=name)
        counts[name] = {cell: int(re.findall(rf'"{cell}": +(\d+)', log)[-1]) for cell in CELLS}
    print(counts)
    lane, team, whole, two = (
        {cell: f"{count:,}" for cell, count in counts[name].items()} for name in tops
    )
    words = " ".join(page.split())
    assert "a lane takes {LUT4} LUT4, {TRELLIS_FF} registers".format(**lane) in words
    assert lane["MULT18X18D"] == lane["DP16KD"] == "2"
    resources = "takes {LUT4} LUT4, {MULT18X18D} multiplier blocks and {DP16KD} RAM blocks".format(
        **team
    )
    assert resources in words
    assert "the whole processor {LUT4}, {MULT18X18D} and {DP16KD}".format(**whole) in words
    assert "with two teams {LUT4}, {MULT18X18D} and {DP16KD}".format(**two) in words
