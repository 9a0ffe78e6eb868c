"""Programs of the dynamics processor: exact, as precise as stated, and what the checker refuses."""

from __future__ import annotations

import dataclasses
import json
import pickle
import random
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import pinion.api as pinion
from pinion.driver import DriverError
from pinion.functions import FUNCTIONS, Function, named_function, sample
from pinion.functions.row import word_columns
from pinion.graph import evaluate_floats
from pinion.processor import CompiledProgram, Machine, ProgramError, compile_program, run
from pinion.processor.check import ProgramCheckError, check_program
from pinion.processor.exact import exact_results
from pinion.processor.listing import listing
from pinion.processor.program import LANE_FIELDS, NOTHING
from pinion.processor.schedule import INPUT, UNIT
from pinion.processor.sums import polynomial
from pinion.robot import coupled, load
from tests.support.breadth import some_rows
from tests.support.choices import choices, close_calls
from tests.support.rows import robot as robot_of

QUICK = [("two_link", "rnea"), ("iiwa14", "rnea"), ("iiwa14", "minv"), ("pendulum", "aba")]
CASES = some_rows(
    [
        *QUICK,
        *(("iiwa14", f) for f in ("aba", "crba", "forward_kinematics")),
        *(("hyq", "aba"), ("baxter", "kinetic_energy"), ("iiwa14", "frame_jacobian")),
    ],
    tuple(QUICK),
)


@cache
def compiled(
    robot: str, function: str, *, lanes: int = 4, precision: str = "fine"
) -> CompiledProgram:
    row = named_function(function)
    return compile_program(robot_of(robot), row, Machine(lanes=lanes), precision=precision)


def states(
    robot: str, row: Function, distribution: str, count: int, seed: int
) -> dict[str, np.ndarray]:
    """Return states as requests transmit them, columns (n,) by word."""
    model = robot_of(robot)
    arrays = sample(model, row, count, distribution=distribution, seed=seed)
    return {str(w): c for w, c in word_columns(row.inputs, coupled(model), arrays).items()}


def requests(program: CompiledProgram, columns: dict[str, np.ndarray]) -> np.ndarray:
    words = [columns[str(word)] for word, _ in program.program.inputs]
    return np.stack(words, axis=1).astype(np.float32).view(np.uint32)


def largest_error(program: CompiledProgram, columns: dict[str, np.ndarray]) -> float:
    """Return the largest error of a block relative to its largest word, of unflagged requests."""
    words, flags = run(program.program, requests(program, columns))
    expected = evaluate_floats(program.graph, columns)
    blocks: dict[str, list[int]] = {}
    for place, (word, _) in enumerate(program.program.outputs):
        blocks.setdefault(word.block, []).append(place)
    worst = 0.0
    for places in blocks.values():
        references = np.stack(
            [np.broadcast_to(expected[program.program.outputs[k][0]], flags.shape) for k in places]
        )
        error = np.abs(words.view(np.float32)[:, places].T - references).max(axis=0)
        size = np.abs(references).max(axis=0)
        typical = np.sqrt(np.mean(size**2))
        worst = max(worst, float((error / np.maximum(size, typical))[~flags].max()))
        assert not flags.all() and np.isfinite(error).all()
    return worst


@pytest.mark.parametrize(("robot", "function"), CASES)
@pytest.mark.parametrize("lanes", [1, 4])
def test_lanes_and_cycles_give_the_integers_of_the_sums(robot, function, lanes):
    program = compiled(robot, function, lanes=lanes)
    row = named_function(function)
    for distribution in ("reference", "beyond"):
        columns = states(robot, row, distribution, 200, seed=5)
        words, flags = run(program.program, requests(program, columns))
        expected, expected_flags = exact_results(
            program.sums, program.points, program.program.machine, columns
        )
        assert np.array_equal(words, expected) and np.array_equal(flags, expected_flags)


@pytest.mark.parametrize(("robot", "function"), CASES)
def test_fine_programs_are_about_as_exact_as_float32(robot, function):
    program, row = compiled(robot, function), named_function(function)
    assert largest_error(program, states(robot, row, "reference", 2000, seed=6)) <= 2e-5
    for distribution in ("rest", "slow", "stress", "beyond"):
        # At rest an energy, a square, is a millionth of what its one format has to hold.
        limit = 1e-2 if (function, distribution) == ("kinetic_energy", "rest") else 1e-3
        assert largest_error(program, states(robot, row, distribution, 500, seed=7)) <= limit


@pytest.mark.parametrize(("robot", "function"), CASES)
def test_fast_programs_keep_a_thousandth_at_reference_states(robot, function):
    fast, fine = (compiled(robot, function, precision=name) for name in ("fast", "fine"))
    row = named_function(function)
    assert largest_error(fast, states(robot, row, "reference", 2000, seed=8)) <= 1e-3
    assert fast.program.slots < fine.program.slots
    words, flags = run(fast.program, requests(fast, states(robot, row, "reference", 2000, seed=9)))
    assert len(words) == 2000 and not flags.any()


def recorded() -> list[tuple[str, str, dict[str, dict[str, int]]]]:
    """Return robot, function and figures of the record behind docs/results.md."""
    file = Path(__file__).parents[2] / "benchmarks/records/programs.json"
    rows = json.loads(file.read_text())["figures"]["cycles"]
    return [(row.pop("robot"), row.pop("function"), row) for row in rows]


@pytest.mark.parametrize(
    ("robot", "function", "figures"), some_rows(recorded(), lambda robot, name, _: name == "minv")
)
def test_programs_take_the_cycles_of_the_results(robot, function, figures):
    """Of long programs with each number of lanes and each precision once."""
    assert list(figures) == ["fast_1", "fast_4", "fine_1", "fine_4"]
    kinds = ("fast_4", "fine_1") if robot != "iiwa14" or "derivatives" in function else figures
    for kind in kinds:
        expected = figures[kind]
        precision, lanes = kind.split("_")
        program = compiled(robot, function, lanes=int(lanes), precision=precision).program
        actual = {"cycles": program.cycles, "slots": program.slots, "words": program.words}
        assert actual == expected


@pytest.mark.parametrize(("wave", "limit"), [("sin", 7e-9), ("cos", 2.3e-10)])
def test_polynomials_of_half_a_turn(wave, limit):
    t = np.linspace(-0.5, 0.5, 20001)
    values = np.polynomial.polynomial.polyval(t * t, polynomial(wave))
    if wave == "sin":
        values *= t
    assert np.abs(values - getattr(np, wave)(np.pi * t)).max() < limit


def test_a_request_out_of_range_or_not_a_number_is_flagged():
    program, row = compiled("two_link", "rnea"), named_function("rnea")
    columns = states("two_link", row, "reference", 4, seed=1)
    columns["qd[1]"][1] = np.nan
    columns["qdd[0]"][2] = 1e9
    _, flags = run(program.program, requests(program, columns))
    assert flags.tolist() == [False, True, True, False]


def changed(program: CompiledProgram, rng: random.Random) -> CompiledProgram:
    """Return a program with one field of one row changed, in a row in which it counts."""
    lanes, team = program.program.lanes.copy(), program.program.team.copy()
    while True:
        row = lanes[rng.randrange(len(lanes)), rng.randrange(lanes.shape[1])]
        name = rng.choice(LANE_FIELDS.names)
        if name in ("source", "to"):
            if row["source"] == -2:
                continue
        elif row["half"] == 0 or (name == "finish" and not row["last"]):
            continue
        old = row[name]
        match name:
            case "a" | "b" | "to":
                row[name] = rng.randrange(program.program.words)
            case "half":
                row[name] = rng.randrange(4)
            case "finish":
                row[name] = rng.randrange(3)
            case "shift":
                row[name] = old + rng.choice((-3, -1, 1, 2))
            case "source":
                row[name] = rng.choice((-2, *range(lanes.shape[1])))
            case _:
                row[name] = not old
        if row[name] != old:
            break
    return dataclasses.replace(
        program, program=dataclasses.replace(program.program, lanes=lanes, team=team)
    )


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_program_that_passes_the_check_computes_the_function(lanes):
    """Change a field at random: the checker refuses it, or the results are the same."""
    program, row = compiled("two_link", "aba", lanes=lanes), named_function("aba")
    columns = states("two_link", row, "reference", 50, seed=2)
    words = requests(program, columns)
    expected, _ = run(program.program, words)
    seed = random.SystemRandom().randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    refused = 0
    for _ in range(300):
        broken = changed(program, rng)
        try:
            check_program(broken.program, program.sums, program.points)
        except ProgramCheckError:
            refused += 1
        else:
            results, _ = run(broken.program, words)
            error = np.abs(results.view(np.float32) - expected.view(np.float32))
            assert error.max() <= 1e-4 * np.abs(expected.view(np.float32)).max()
    assert refused > 200


@pytest.mark.slow
def test_a_large_robot_fits_on_four_lanes_and_not_on_one():
    program, row = compiled("atlas", "aba", precision="fine"), named_function("aba")
    assert largest_error(program, states("atlas", row, "reference", 500, seed=6)) <= 2e-5
    with pytest.raises(ProgramError, match=r"has \d+ rows, \d+ more than the processor's 8192"):
        compiled("atlas", "aba", lanes=1)


LONG = ("centroidal_derivatives", "euler_step", "fd_parameter_derivatives", "gravity_regressor")
LONG += ("fd_second_derivatives", "rnea_regressor", "rnea_second_derivatives", "rk4_step")
LONG += ("step_second_derivatives",)
"""Rows whose programs for the iiwa14 compile for long, or not at all: a small arm has them."""


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_row_has_a_program_of_an_arm(function):
    robot, row = "two_link" if function in LONG else "iiwa14", named_function(function)
    program = compiled(robot, function)
    assert largest_error(program, states(robot, row, "reference", 500, seed=6)) <= 2e-5


def test_what_does_not_fit_is_a_sentence():
    row = named_function("rnea")
    model = load("iiwa14")
    with pytest.raises(ProgramError, match=r"Lane 0 of the processor has 20 words, but .* more"):
        compile_program(model, row, Machine(lanes=1, words=20))
    with pytest.raises(ProgramError, match=r"has 324 rows, 124 more than the processor's 200"):
        compile_program(model, row, Machine(lanes=4, rows=200))
    with pytest.raises(ProgramError, match="no precision 'coarse': choose 'fine' or 'fast'"):
        compile_program(model, row, Machine(), precision="coarse")

    @pinion.function(
        inputs={"x": pinion.array(2, sampling=pinion.uniform(0.0, 1.0))},
        outputs={"y": pinion.array(2)},
    )
    def roots(x):
        """Take two roots."""
        return [pinion.sqrt(a) for a in x]

    with pytest.raises(ProgramError, match=r"cannot compute 'sqrt'.*build a core"):
        pinion.backend(None, roots, device="processor")


@pytest.mark.parametrize("precision", ["fine", "fast"])
@pytest.mark.parametrize("lanes", [1, 4])
def test_choices_are_those_of_the_float_model(lanes, precision):
    """Also where operands are equal, zero, or a bound: no value is near and not chosen."""
    x = close_calls(5000).astype(np.float32)
    processor = pinion.backend(None, choices, device="processor", lanes=lanes, precision=precision)
    y, expected = processor(x), pinion.backend(None, choices, device="float")(x).y
    assert not y.saturated.any()
    assert np.abs(y.y - expected).max() <= (2e-7 if precision == "fine" else 1e-3)
    # What is chosen arrives whole, and a condition that is false leaves nothing of the other.
    assert np.abs(y.y - expected)[:, [0, 1, 2, 3, 5, 8]].max() <= 2.0**-32


def test_the_device_gives_the_results_of_the_float_model():
    rng = np.random.default_rng(3)
    q, qd, qdd = rng.uniform(-1.0, 1.0, (3, 30, 7))
    processor = pinion.backend("iiwa14", "rnea_derivatives", device="processor", lanes=1)
    floats = pinion.backend("iiwa14", "rnea_derivatives", device="float")
    result, expected = processor(q, qd, qdd), floats(q, qd, qdd)
    assert not result.saturated.any() and result.cycles == 30 * processor.program.cycles
    for name in ("dtau_dq", "dtau_dqd"):
        assert result[name].dtype == np.float32
        assert np.abs(result[name] - expected[name]).max() < 1e-4
    single = pickle.loads(pickle.dumps(processor))(q[0], qd[0], qdd[0])
    assert np.array_equal(single.dtau_dq, result.dtau_dq[0])
    with pytest.raises(DriverError, match="There is no processor '1'"):
        pinion.backend("two_link", "rnea", device="processor:1")


def test_a_listing_has_each_slot_and_each_write():
    program = compiled("two_link", "rnea")
    text = listing(program)
    lines = text.splitlines()
    assert sum(" acc " in line for line in lines) == program.program.slots
    source = program.program.lanes["source"]
    writes = [re.match(r"\d+ L\d+ r\d+ <- (\w+)", line) for line in lines]
    of = [match[1] for match in writes if match]
    assert len(of) == np.count_nonzero(source != NOTHING)
    assert of.count("reciprocal") == np.count_nonzero(source == UNIT) == 0
    inputs = [name for name in of if name in ("q", "qd", "qdd")]
    assert len(inputs) == np.count_nonzero(source == INPUT) >= 6
    assert sum(line.split(" ", 2)[1].startswith("tau[") for line in lines if line[0] != ";") == 2


@pytest.mark.slow
def test_a_step_of_fourth_order_of_the_arm_does_not_fit():
    with pytest.raises(ProgramError, match="512 words, but the program needs more"):
        compiled("iiwa14", "rk4_step")
