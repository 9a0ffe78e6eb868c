"""Rows, constants, directory and names as bits: the layout that cards expect."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pinion.fixedpoint import Format
from pinion.graph import Word
from pinion.processor import Machine, Program, ProgramError
from pinion.processor.encoding import Encoding, encoded_rows
from pinion.processor.image import (
    LOADER,
    RESULT_WORDS,
    Image,
    Name,
    Store,
    depths,
    record_words,
    widths,
)
from pinion.processor.machine import Finish, Half
from pinion.processor.program import LANE_FIELDS, NOTHING, TEAM_FIELDS
from pinion.processor.schedule import INPUT, UNIT

Layout = dict[str, tuple[int, int]]

LANE: Layout = {
    "a": (9, 0),
    "b": (9, 0),
    "half": (2, 2),
    "coarse": (3, 6),
    "fine": (3, 7),
    "negate": (1, 7),
    "active": (1, 8),
    "first": (1, 8),
    "finish": (2, 9),
    "last": (1, 10),
    "source": (3, 0),
    "to": (9, 0),
}
"""Width of each field of a lane in a team of 2 to 5, and by how many rows it is stored later."""

TEAM: Layout = {"output_source": (3, 0), "output": (12, 0), "operand": (3, 0), "points": (8, 0)}

ENTRY = {
    "first_row": 13,
    "last_row": 13,
    "first_constant": 10,
    "constants": 11,
    "first_input": 10,
    "inputs": 11,
    "first_result": 11,
    "results": 12,
}


def test_the_layout_is_that_of_version_3() -> None:
    encoding = Encoding(machine=Machine())
    assert {n: (f.width, f.skew) for n, f in encoding.lane.items()} == LANE
    assert {n: (f.width, f.skew) for n, f in encoding.team.items()} == TEAM
    assert {n: f.width for n, f in encoding.entry.items()} == ENTRY
    assert {n: f.width for n, f in encoding.constant.items()} == {"lanes": 4, "to": 36, "word": 35}
    assert list(encoding.lane) == list(LANE) and list(encoding.team) == list(TEAM)
    assert list(encoding.entry) == list(ENTRY)
    assert list(encoding.constant) == ["lanes", "to", "word"]
    assert encoding.move == 7 and encoding.width == 4 * 44 + 26
    assert LOADER == 0xB12D0F27 and RESULT_WORDS == 1


@pytest.mark.parametrize(("lanes", "bits"), [(1, 2), (2, 3), (5, 3), (6, 4), (8, 4)])
def test_a_source_has_a_code_of_its_own(lanes: int, bits: int) -> None:
    """Nothing, each lane, the reciprocal unit, and the request."""
    assert Encoding(machine=Machine(lanes=lanes)).sources == bits


@pytest.mark.parametrize(("words", "bits"), [(16, 4), (17, 5), (512, 9)])
def test_addresses_reach_the_last_word(words: int, bits: int) -> None:
    encoding = Encoding(machine=Machine(lanes=3, words=words))
    assert encoding.lane["a"].width == encoding.lane["b"].width == bits
    assert encoding.lane["to"].width == bits and encoding.constant["to"].width == 3 * bits
    assert encoding.width == 3 * (17 + 3 * bits) + 26


def test_memories_and_records() -> None:
    machine = Machine()
    assert depths(machine) == {
        Store.ROWS: 8192,
        Store.CONSTANTS: 1024,
        Store.INPUTS: 1024,
        Store.RESULTS: 2048,
        Store.DIRECTORY: 16,
        Store.NAMES: 16,
    }
    assert widths(machine) == {
        Store.ROWS: 202,
        Store.CONSTANTS: 75,
        Store.INPUTS: 7,
        Store.RESULTS: 7,
        Store.DIRECTORY: 91,
        Store.NAMES: 128,
    }
    assert [int(store) for store in Store] == list(range(6))
    # An address and 202 bits; of one lane the names' 128 bits are the most.
    assert record_words(machine) == 1 + 7 and record_words(Machine(lanes=1)) == 1 + 4
    assert record_words(Machine(lanes=8)) == 1 + 13  # 388 bits


MACHINE = Machine(lanes=2)


def empty(rows: int, machine: Machine = MACHINE, **changes: Any) -> Program:
    """Return a program without a slot or a write."""
    lanes = np.zeros((rows, machine.lanes), dtype=LANE_FIELDS)
    lanes["source"] = NOTHING
    team = np.zeros(rows, dtype=TEAM_FIELDS)
    team["output"], team["output_source"], team["operand"] = -1, NOTHING, NOTHING
    fields: dict[str, Any] = {"constants": ({},) * machine.lanes, "inputs": (), "outputs": ()}
    return Program(machine=machine, lanes=lanes, team=team, **fields | changes)


def field(rows: list[int], row: int, name: str, lane: int | None) -> int:
    """Return a field of a lane, or of the team of two, that belongs to a row."""
    layout = TEAM if lane is None else LANE
    place = 44 * (2 if lane is None else lane)
    for before, (width, skew) in layout.items():
        if before == name:
            return rows[row + skew] >> place & (1 << width) - 1
        place += width
    raise KeyError(name)


SLOTS: dict[tuple[int, int], tuple[Any, ...]] = {
    (0, 0): (511, 1, Half.HIGH, -6, True, True, False, Finish.CLIP, NOTHING, 0, 0),
    (1, 0): (2, 510, Half.LOW, 57, False, False, True, Finish.SIGN, 1, 509, 3),
    (1, 1): (0, 0, Half.ROUNDED, 10, True, True, True, Finish.WRAP, INPUT, 7, 3),
    (3, 1): (3, 4, Half.HIGH, 2, False, False, True, Finish.CLIP, UNIT, 8, 3),
    # Of a row without a product only the write counts.
    (4, 1): (9, 9, Half.IDLE, 9, True, True, True, Finish.SIGN, 0, 9, 3),
}
CODES = {NOTHING: 0, 0: 1, 1: 2, UNIT: 3, INPUT: 4}


def test_fields_are_stored_in_the_cycle_of_their_use() -> None:
    program = empty(15)
    for place, slot in SLOTS.items():
        program.lanes[place] = slot
    program.team[2] = (4095, UNIT, NOTHING, 99)
    program.team[6] = (-1, NOTHING, 1, 200)
    rows = encoded_rows(program)
    assert len(rows) == 15 and max(row.bit_length() for row in rows) <= 2 * 44 + 26
    total = 0
    for (row, lane), slot in SLOTS.items():
        a, b, half, shift, negate, first, last, finish, source, to, _ = slot
        expected = {"source": CODES[source], "to": to}
        if half is not Half.IDLE:
            expected |= {"a": a, "b": b, "half": half, "negate": negate, "first": first}
            expected |= {"last": last, "finish": finish, "active": 1}
            expected |= {"coarse": (shift + 6) >> 3, "fine": (shift + 6) % 8}
        for name in LANE:
            assert field(rows, row, name, lane) == expected.get(name, 0), (row, lane, name)
        total += sum(int(value).bit_count() for value in expected.values())
    for row, expected in (
        (2, {"output_source": 3, "output": 4095}),
        (6, {"operand": 2, "points": 200}),
    ):
        for name in TEAM:
            assert field(rows, row, name, None) == expected.get(name, 0), (row, name)
        total += sum(value.bit_count() for value in expected.values())
    assert sum(row.bit_count() for row in rows) == total  # and nothing else


def words(*fracs: int) -> tuple[tuple[Word, Format], ...]:
    return tuple((Word.of(f"w[{k}]"), Format(35, frac)) for k, frac in enumerate(fracs))


FIRST = empty(
    12, constants=({0: 5, 1: -3, 2: 5}, {0: 5, 1: 7}), inputs=words(-27, 32), outputs=words(100)
)
SECOND = empty(20, constants=({}, {3: 1}), inputs=words(0), outputs=words(1, 2, 3))
NAMES = (Name(build=(1 << 64) - 2, function=0x89ABCDEF), Name(build=3, function=4))


def test_an_image_has_the_programs_one_after_another() -> None:
    image = Image.of([FIRST, SECOND], NAMES)
    stored = image.words
    assert image.machine == MACHINE and len(stored[Store.ROWS]) == 32
    assert stored[Store.CONSTANTS] == [
        # Lanes, their addresses, and the word: 5 in both lanes, then 5 of lane 0 once more.
        0b11 | 5 << 20,
        0b01 | 1 << 2 | (2**35 - 3) << 20,
        0b01 | 2 << 2 | 5 << 20,
        0b10 | 1 << 2 + 9 | 7 << 20,
        0b10 | 3 << 2 + 9 | 1 << 20,
    ]
    assert stored[Store.INPUTS] == [0, 59, 27] and stored[Store.RESULTS] == [127, 28, 29, 30]
    entries = []
    for word in stored[Store.DIRECTORY]:
        entry, rest = [], word
        for width in ENTRY.values():
            entry.append(rest & (1 << width) - 1)
            rest >>= width
        assert rest == 0
        entries.append(entry)
    assert entries == [[0, 11, 0, 4, 0, 2, 0, 1], [12, 31, 4, 1, 2, 1, 1, 3]]
    assert stored[Store.NAMES] == [
        (1 << 64) - 2 | 0x89ABCDEF << 64 | 2 << 96 | 1 << 112,
        3 | 4 << 64 | 1 << 96 | 3 << 112,
    ]
    assert Image.of([FIRST, SECOND]).words[Store.NAMES] == []


def test_a_constant_has_the_last_address() -> None:
    machine = Machine(lanes=2, words=17)
    image = Image.of([empty(1, machine, constants=({16: 3}, {16: 3}))])
    assert image.words[Store.CONSTANTS] == [0b11 | (16 | 16 << 5) << 2 | 3 << 12]


def test_records_have_a_memory_an_address_and_a_word() -> None:
    image = Image.of([SECOND, FIRST], NAMES[::-1])
    records = image.records()
    assert records.dtype == np.uint32 and records.shape == (32 + 5 + 3 + 4 + 2 + 2, 5)
    counts = [(store, at) for store in Store for at in range(len(image.words[store]))]
    assert [(int(n) >> 24, int(n) & 0xFFFFFF) for n in records[:, 0]] == counts
    assert records[-1].tolist() == [
        *(5 << 24 | 1, 0xFFFFFFFE, 0xFFFFFFFF, 0x89ABCDEF, 2 | 1 << 16),
    ]
    for (store, at), record in zip(counts, records, strict=True):
        assert sum(int(n) << 32 * k for k, n in enumerate(record[1:])) == image.words[store][at]


SIZES = {"rows": 32, "constants": 5, "inputs": 3, "results": 4, "functions": 2}
CALLED = {"inputs": "request words", "results": "result words"}


def of(machine: Machine, *programs: Program) -> Image:
    return Image.of([replace(program, machine=machine) for program in programs])


@pytest.mark.parametrize("kind", SIZES)
def test_what_exceeds_a_memory_is_a_sentence(kind: str) -> None:
    exact = replace(MACHINE, **SIZES)
    assert of(exact, FIRST, SECOND).machine == exact
    size = SIZES[kind]
    with pytest.raises(
        ProgramError,
        match=f"^Together the programs have {size} {CALLED.get(kind, kind)}, 1 more than the "
        rf"processor's {size - 1}: leave out at least one program\.$",
    ):
        of(replace(exact, **{kind: size - 1}), FIRST, SECOND)
    if kind == "functions":
        return
    alone = {"rows": 12, "constants": 4, "inputs": 2, "results": 1}[kind]
    if alone > 1:
        with pytest.raises(
            ProgramError,
            match=f"^The program has {alone} {CALLED.get(kind, kind)}, 1 more than the "
            rf"processor's {alone - 1}: build a core\.$",
        ):
            of(replace(exact, **{kind: alone - 1}), FIRST)


def test_no_program_and_different_machines_are_refused() -> None:
    with pytest.raises(ProgramError, match=r"^There is no program: give at least one\.$"):
        Image.of([])
    sentence = "The programs are for different machines: compile all of them for the same one."
    with pytest.raises(ProgramError, match=f"^{re.escape(sentence)}$"):
        Image.of([FIRST, replace(SECOND, machine=replace(MACHINE, rows=4096))])
