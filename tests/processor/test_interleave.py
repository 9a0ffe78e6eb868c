"""Programs that interleave samples: exact, checked for each sample, packed and unpacked."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pinion.api as pinion
import pinion.processor.compile as compiling
from pinion.functions import named_function, sample
from pinion.functions.row import word_columns
from pinion.link import Manifest, ManifestError
from pinion.link.digests import write_digests
from pinion.processor import CompiledProgram, Machine, ProgramError, compile_program, run
from pinion.processor.accuracy import accuracies
from pinion.processor.check import ProgramCheckError, check_program
from pinion.processor.exact import exact_results
from pinion.processor.folder import LISTING, PICTURE, ProgramFolder, open_program_folder
from pinion.processor.folder import write_program as write_folder
from pinion.processor.image import Image, Name, Store
from pinion.processor.interleave import interleaved
from pinion.processor.machine import OVERHEAD
from pinion.processor.manifest import program_manifest
from pinion.processor.points import Points
from pinion.processor.program import Program, assemble
from pinion.processor.schedule import INPUT, _homes, schedules
from pinion.processor.sums import Sums
from pinion.robot import coupled, load
from tests.support.breadth import some_rows

Changes = Callable[[np.ndarray, np.ndarray], None]


@cache
def compiled(robot: str, function: str, interleave: int, lanes: int) -> CompiledProgram:
    row = named_function(function)
    return compile_program(load(robot), row, Machine(lanes=lanes), interleave=interleave)


def states(robot: str, function: str, count: int) -> dict[str, np.ndarray]:
    """Return states as requests transmit them, columns (n,) by word; one in seven is far."""
    model, row = load(robot), named_function(function)
    arrays = sample(model, row, count, distribution="beyond", seed=5)
    columns = {str(w): c for w, c in word_columns(row.inputs, coupled(model), arrays).items()}
    columns["qd[0]"][::7] = 1e12
    return columns


def words_of(program: Program, columns: dict[str, np.ndarray]) -> np.ndarray:
    words = [columns[str(word)] for word, _ in program.inputs]
    return np.stack(words, axis=1).astype(np.float32).view(np.uint32)


@pytest.mark.parametrize(
    ("robot", "function", "interleave", "lanes"),
    [
        *(("two_link", "aba", 2, 2), ("two_link", "aba", 3, 4), ("two_link", "aba", 5, 2)),
        *(("iiwa14", "rnea", 2, 4), ("two_link", "aba", 2, 1)),
    ],
)
@pytest.mark.parametrize("count", [1, 61])
def test_each_sample_has_the_integers_of_its_own_sums(
    robot: str, function: str, interleave: int, lanes: int, count: int
) -> None:
    """Flags are those of the request: of any of its samples, where the last one is repeated."""
    program = compiled(robot, function, interleave, lanes)
    assert program.program.interleave == interleave
    columns = states(robot, function, count)
    words, flags = run(program.program, words_of(program.program, columns))
    expected, each = exact_results(program.sums, program.points, program.program.machine, columns)
    assert np.array_equal(words, expected)
    last = np.minimum(np.arange(-(-count // interleave) * interleave), count - 1)
    together = each[last].reshape(-1, interleave).any(axis=1)
    assert np.array_equal(flags, np.repeat(together, interleave)[:count])
    assert each.any() and (count == 1 or not flags.all())


def test_two_samples_take_less_than_two_programs() -> None:
    single, double = (compiled("iiwa14", "rnea", k, 4).program for k in (1, 2))
    assert double.slots == 2 * single.slots
    assert single.cycles < double.cycles < 1.4 * single.cycles
    assert double.busy == double.slots / 4 / double.cycles > 1.4 * single.busy
    assert double.inputs == single.inputs and double.outputs == single.outputs
    # Constants are shared.
    values = [sorted({i for lane in p.constants for i in lane.values()}) for p in (single, double)]
    assert values[0] == values[1]


def recorded() -> list[tuple[str, str, dict[str, Any]]]:
    """Return robot, function and figures of the record behind docs/results.md."""
    file = Path(__file__).parents[2] / "benchmarks/records/interleave.json"
    rows = json.loads(file.read_text())["figures"]["cycles"]
    return [(row.pop("robot"), row.pop("function"), row) for row in rows]


@pytest.mark.parametrize(
    ("robot", "function", "figures"), some_rows(recorded(), lambda robot, name, _: name == "minv")
)
def test_programs_take_the_cycles_of_the_results(
    robot: str, function: str, figures: dict[str, Any]
) -> None:
    assert list(figures) == [f"{name}_{k}" for name in ("fast", "fine") for k in (1, 2, 4)]
    program = compiled(robot, function, 2, 4).program
    actual = {"cycles": program.cycles, "busy": program.busy, "words": program.words}
    assert actual == figures["fine_2"]


def test_samples_have_lanes_of_their_own() -> None:
    assert _homes(4, 1) == [{0, 1, 2, 3}]
    assert _homes(4, 2) == [{0, 1}, {2, 3}]
    assert _homes(4, 3) == [{0, 1}, {1, 2}, {2, 3}]
    assert _homes(2, 5) == [{0}, {0}, {0, 1}, {1}, {1}]
    program = compiled("iiwa14", "rnea", 2, 4)
    subject, at = interleaved(program.sums, program.points, 2)
    plan = next(schedules(subject, at, program.program.machine))
    size = len(program.sums.values)
    at_home = [
        (lane in (0, 1)) == (number < size)
        for number, lane in enumerate(plan.lanes)
        if subject.values[number].terms
    ]
    assert np.mean(at_home) > 0.9


@pytest.mark.parametrize("samples", [0, 9, -1, True, 2.0, "2", None])
def test_a_number_of_samples_that_no_program_has(samples: Any) -> None:
    sentence = rf"^A program interleaves 1 to 8 samples, not {samples!r}\.$"
    with pytest.raises(ProgramError, match=sentence):
        pinion.backend("two_link", "rnea", device="processor", interleave=samples)


def test_what_does_not_fit_may_fit_with_fewer_samples() -> None:
    robot, row = load("two_link"), named_function("rnea")

    def compiling_for(**sizes: int) -> Program:
        return compile_program(robot, row, Machine(**sizes), interleave=2).program

    for sizes, sentence in (
        ({"lanes": 2, "words": 12}, r"more: use more lanes, or interleave fewer samples\.$"),
        ({"lanes": 8, "words": 5}, r"more: interleave fewer samples\.$"),
        ({"lanes": 4, "rows": 90}, r"'s 90: use more lanes, or interleave fewer samples\.$"),
    ):
        with pytest.raises(ProgramError, match=sentence):
            compiling_for(**sizes)
    small = compiling_for(lanes=2, inputs=11)
    with pytest.raises(ProgramError, match=r"12 request words, 1 more .* 11: interleave fewer"):
        Image.of([small])


def changed(base: Program, change: Changes) -> Program:
    lanes, team = base.lanes.copy(), base.team.copy()
    change(lanes, team)
    return replace(base, lanes=lanes, team=team)


def refused(program: CompiledProgram, mutant: Program, sentence: str) -> None:
    with pytest.raises(ProgramCheckError, match=sentence):
        check_program(mutant, program.sums, program.points)


def test_results_of_another_sample_are_refused() -> None:
    program = compiled("two_link", "aba", 2, 2)

    def exchange(lanes: np.ndarray, team: np.ndarray) -> None:
        rows = team["output"] >= 0
        team["output"][rows] = (team["output"][rows] + 2) % 4

    refused(program, changed(program.program, exchange), r"qdd\[0\] of sample 0 is missing or has")


def test_words_of_another_sample_are_refused() -> None:
    """The word qd[0] goes where the other sample's should."""
    program = compiled("two_link", "aba", 2, 2)

    def exchange(lanes: np.ndarray, team: np.ndarray) -> None:
        first, second = lanes[2].copy(), lanes[8].copy()
        assert (first["source"] == INPUT).any() and (second["source"] == INPUT).any()
        for name in ("source", "to"):
            lanes[2][name], lanes[8][name] = second[name], first[name]

    refused(program, changed(program.program, exchange), r"^Row \d+")


def test_a_sum_of_another_sample_is_refused() -> None:
    """Compute one value of the second sample from operands of the first."""
    program = compiled("two_link", "aba", 2, 2)
    subject, at = interleaved(program.sums, program.points, 2)
    size = len(program.sums.values)
    mixed = [
        number
        for number, value in enumerate(program.sums.values)
        if any(program.sums.values[k].constant is None for k in value.operands)
    ]
    inverses = [number for number in mixed if program.sums.values[number].inverse is not None]
    assert inverses
    for number in (*mixed[::9], *inverses, mixed[-1]):
        values, slots = list(subject.values), list(at.slots)
        values[size + number], slots[size + number] = values[number], slots[number]
        wrong, points = replace(subject, values=tuple(values)), replace(at, slots=tuple(slots))
        machine = program.program.machine
        mutant = assemble(wrong, points, next(schedules(wrong, points, machine)), machine)
        refused(program, mutant, r"^(Row|The result)")


def test_a_compiler_that_mixes_samples_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker gets the sums of one sample, and makes those of the others itself."""

    def mixed(sums: Sums, points: Points, samples: int) -> tuple[Sums, Points]:
        subject, at = interleaved(sums, points, samples)
        results = list(subject.results)
        results[2] = results[2][0], results[0][1]
        return replace(subject, results=tuple(results)), at

    monkeypatch.setattr(compiling, "interleaved", mixed)
    with pytest.raises(ProgramCheckError, match=r"qdd\[0\] of sample 1 is missing or has"):
        compile_program(load("two_link"), named_function("aba"), Machine(lanes=2), interleave=2)


def test_the_backend_packs_batches() -> None:
    plain, three = (
        pinion.backend("two_link", "aba", device="processor", interleave=k) for k in (1, 3)
    )
    inputs = dict(sample(load("two_link"), named_function("aba"), 7, distribution="slow", seed=4))
    inputs["qd"][4] = 1e12
    right, result = plain(**inputs), three(**inputs)
    assert np.array_equal(result.qdd.view(np.uint32), right.qdd.view(np.uint32))
    assert np.flatnonzero(right.saturated).tolist() == [4]
    assert np.flatnonzero(result.saturated).tolist() == [3, 4, 5]
    assert result.cycles == 3 * three.program.cycles
    assert f"{three.program.cycles} cycles for 3 samples, 4 lanes>" in repr(three)
    single = three(**{name: array[1] for name, array in inputs.items()})
    assert np.array_equal(single.qdd, right.qdd[1]) and single.qdd.shape == (2,)
    assert not single.saturated and single.cycles == three.program.cycles
    assert three(**{name: array[:0] for name, array in inputs.items()}).qdd.shape == (0, 2)


def folder_of(program: CompiledProgram, place: Path) -> ProgramFolder:
    robot, row = load("two_link"), named_function("aba")
    errors = list(accuracies(robot, row, program, states=20, seed=1))
    return write_folder(robot, row, program, place, errors)[0]


def test_a_folder_keeps_the_number_of_samples(tmp_path: Path) -> None:
    program = compiled("two_link", "aba", 3, 4)
    written = folder_of(program, tmp_path / "program")
    read = ProgramFolder.read(written.folder)
    assert read.program.interleave == read.manifest.interleave == 3
    assert read.program.inputs == program.program.inputs
    # A record has three samples, and an interval is that of one, rounded up.
    manifest = read.manifest
    assert (manifest.words_in, manifest.beats_in, manifest.beats_out) == (6, 18, 6)
    interval = program.program.cycles + OVERHEAD
    assert 3 * manifest.ii - interval in (0, 1, 2)
    assert manifest.latency_cycles == 18 + interval + 6
    inputs = sample(load("two_link"), named_function("aba"), 4, distribution="slow", seed=2)
    fresh = pinion.backend("two_link", "aba", device="processor")(**inputs)
    assert np.array_equal(open_program_folder(read)(**inputs).qdd, fresh.qdd)

    replace(manifest, interleave=2).write(read.folder)
    write_digests(read.folder)
    with pytest.raises(ManifestError, match=r"is not intact .*compile the program again"):
        ProgramFolder.read(read.folder)


def test_a_folder_without_the_entry_has_one_sample(tmp_path: Path) -> None:
    written = folder_of(compiled("two_link", "aba", 1, 2), tmp_path / "program")
    assert "interleave" not in json.loads((written.folder / "manifest.json").read_text())
    assert ProgramFolder.read(written.folder).program.interleave == 1


def test_a_core_has_one_sample(tmp_path: Path) -> None:
    program = compiled("two_link", "aba", 2, 2)
    manifest = program_manifest(load("two_link"), named_function("aba"), program)
    with pytest.raises(ManifestError, match="a core has a record of 2 samples"):
        replace(manifest, target="sim").write(tmp_path)
    with pytest.raises(ManifestError, match="12 beats of 1 word can hold 12"):
        replace(manifest, interleave=3).write(tmp_path)
    manifest.write(tmp_path)
    assert Manifest.read(tmp_path) == manifest


def test_an_image_has_whole_records() -> None:
    programs = [compiled("two_link", "aba", k, 4).program for k in (1, 3)]
    images = [Image.of([program], [Name(build=1, function=2)]).words for program in programs]
    for store in (Store.INPUTS, Store.RESULTS):
        assert list(images[1][store]) == 3 * list(images[0][store])
    assert images[1][Store.NAMES][0] >> 96 == 18 | 6 << 16


def test_listing_and_picture_tell_samples_apart(tmp_path: Path) -> None:
    program = compiled("two_link", "aba", 3, 4)
    place = folder_of(program, tmp_path / "program").folder
    lines = (place / LISTING).read_text().splitlines()
    slots = [line for line in lines if " acc " in line]
    assert len(slots) == program.program.slots
    for number in range(3):
        assert sum(line.endswith(f" s{number}") for line in slots) == len(slots) // 3
        assert any(f" <- q[0] s{number}" in line for line in lines)
        assert sum(f" qdd[1] s{number} <- " in line for line in lines) == 1
    root = ET.fromstring((place / PICTURE).read_text())
    assert f"{program.program.cycles} cycles for 3 samples" in next(
        e.text or "" for e in root if e.tag.endswith("title")
    )
    strips = [e for e in root if e.attrib.get("stroke-width") == f"{22 / 3:g}"]
    assert len(strips) == 4 * 3
