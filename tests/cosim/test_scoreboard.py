"""Location of the fault in a wrong core, by traces that differ from the integers in one place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from vcd.reader import TokenKind, tokenize

from pinion.base.arrays import Words
from pinion.cosim import scoreboard
from pinion.cosim.reference import Reference, make, request_words
from pinion.cosim.scoreboard import REPLAY, first_divergence
from pinion.cosim.stream import pack_records, unpack_records
from pinion.flow.build import RTLIL
from pinion.functions import sample
from pinion.graph import names
from tests.cosim.test_vcd import read
from tests.cosim.test_vcd import sample as values_of
from tests.support.builds import build
from tests.support.filters import DELAY

FIRST = 5
"""Cycle of the first launch."""

Trace = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    where = tmp_path_factory.mktemp("scoreboard") / "two_link"
    build("two_link", "minv", where, ii=2)
    reference = make(where)
    # Results of several beats on several lanes, the last of them not full.
    m = reference.build.manifest
    assert m.beats_out == m.lanes_out == 2 and m.words_out == 3
    return reference


@pytest.fixture(scope="module")
def words(reference: Reference) -> Words:
    core_build = reference.build
    arrays = sample(core_build.model, core_build.function, 60, distribution="reference", seed=2)
    return request_words(core_build.manifest, arrays)


def rows(reference: Reference) -> list[dict[str, int]]:
    operations: list[dict[str, int]] = reference.build.schedule["operations"]
    return operations


def unit_of(row: dict[str, int]) -> str:
    return f"{row['kind']}_{row['unit']}"


def launch(reference: Reference, request: int) -> int:
    return FIRST + request * reference.build.manifest.ii


def value(reference: Reference, words: Words, node: int, request: int) -> int:
    column = reference.integers(words)[0].nodes[node]
    return int(np.broadcast_to(np.asarray(column), (len(words),))[request])


class Core:
    """Replacement of the compiled core.

    Parameters
    ----------
    change : exchanges something in its trace, of which it gets the number of requests.
    top : the core is a part of something, whose name its signals begin with.
    stops : launches that it makes at most.
    """

    def __init__(
        self,
        reference: Reference,
        change: Callable[[Trace, int], None] = lambda trace, count: None,
        *,
        top: bool = True,
        stops: int = 1000,
    ) -> None:
        self.reference, self.change, self.stops = reference, change, stops
        self.prefix = "pinion_core." if top else ""
        self.calls: list[Any] = []
        self.replayed: Words | None = None
        self.trace_values: Trace = {}
        self.cycles = 0

    def build(self, *, rtlil: Path, debug: bool) -> Core:
        self.calls.append((rtlil, debug))
        return self

    def signals(self) -> list[str]:
        return [f"{self.prefix}launch", "clk"]

    def trace(self, signals: list[str], beats: Words, last: np.ndarray, *, cycles: int) -> Trace:
        m = self.reference.build.manifest
        records = unpack_records(beats, words=m.words_in, beats=m.beats_in)
        again, ends = pack_records(records, lanes=m.lanes_in, beats=m.beats_in)
        assert (again == beats).all() and (ends == last).all()
        self.replayed, self.cycles = records, cycles
        trace: Trace = {name: np.zeros(cycles, dtype=np.int64) for name in signals}
        trace["o_tdata"] = np.zeros(cycles, dtype=object)
        trace["o_tready"][:] = trace["i_tready"][:] = 1
        trace["i_tvalid"][: len(beats)] = 1
        results, flags = self.reference.expected(records)
        out, out_last = pack_records(results, lanes=m.lanes_out, beats=m.beats_out)
        for k in range(min(len(records), self.stops)):
            begins = launch(self.reference, k)
            trace[f"{self.prefix}launch"][begins] = 1
            for row in rows(self.reference):
                width = self.reference.formats[row["node"]].width
                number = value(self.reference, records, row["node"], k)
                at = begins + row["start"] + row["latency"]
                unit = f"{self.prefix}datapath.{unit_of(row)}.unit.o"
                trace[unit][at] = number & ((1 << width) - 1)
            for beat in range(m.beats_out):
                at = self.beat(k, beat)
                trace["o_tvalid"][at] = 1
                position = k * m.beats_out + beat
                for lane in range(m.lanes_out):
                    trace["o_tdata"][at] |= int(out[position, lane]) << (32 * lane)
                trace["o_tlast"][at] = out_last[position]
                trace["o_tuser"][at] = flags[k] and out_last[position]
        # Data that nobody takes is ignored.
        trace["o_tvalid"][1] = 1
        trace["o_tready"][1] = 0
        self.change(trace, len(records))
        self.trace_values = trace
        return trace

    def beat(self, request: int, beat: int) -> int:
        """Return the cycle of a beat of a result."""
        last = self.reference.build.schedule["last_beat"]
        return (
            launch(self.reference, request)
            + last
            - self.reference.build.manifest.beats_out
            + (1 + beat)
        )


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Callable[[Core], Core]:
    def use(core: Core) -> Core:
        monkeypatch.setattr(scoreboard, "CompiledCore", SimpleNamespace(build=core.build))
        return core

    return use


def widths(path: Path) -> dict[str, int]:
    with path.open("rb") as file:
        variables = [token.var for token in tokenize(file) if token.kind is TokenKind.VAR]
    return {
        v.reference + (f"[{v.bit_index}]" if v.bit_index is not None else ""): v.size
        for v in variables
    }


def marked(path: Path, cycles: int) -> list[int]:
    """Return the cycles in which the waveform marks a difference."""
    return np.flatnonzero(values_of(read(path)["mismatch"], cycles)).tolist()


@pytest.mark.parametrize("top", [True, False])
@pytest.mark.parametrize(("request_number", "first"), [(3, 0), (45, 45 - REPLAY)])
def test_a_right_core_is_replayed_and_shown_beside_what_is_expected(
    *,
    reference: Reference,
    words: Words,
    compiled: Any,
    tmp_path: Path,
    request_number: int,
    first: int,
    top: bool,
) -> None:
    core = compiled(Core(reference, top=top))
    folder = tmp_path / "not" / "there"
    divergence = first_divergence(reference, words, request_number, folder=folder)
    assert core.calls == [(reference.build.folder / RTLIL, True)]
    replay = words[first : request_number + 1]
    assert core.replayed is not None and (core.replayed == replay).all()
    m = reference.build.manifest
    assert core.cycles > launch(reference, len(replay)) + m.latency_cycles
    assert (divergence.request, divergence.node, divergence.unit, divergence.op) == (
        request_number,
        -1,
        "",
        "",
    )
    assert (
        divergence.cycle,
        divergence.region,
        divergence.line,
        divergence.expected,
        divergence.actual,
    ) == (0, "", "", 0, 0)
    assert divergence.waveform == folder / f"request_{request_number}.vcd"
    assert marked(divergence.waveform, core.cycles) == []

    waveform, trace = read(divergence.waveform), core.trace_values
    units = {
        unit_of(row): f"{core.prefix}datapath.{unit_of(row)}.unit.o" for row in rows(reference)
    }
    lanes = [f"o_tdata[{lane}]" for lane in range(m.lanes_out)]
    compared = [*lanes, "o_tuser", *units]
    plain = ["i_tvalid", "i_tready", "o_tvalid", "o_tready"]
    assert waveform.keys() == {
        *plain, *compared, *(f"{name}_expected" for name in compared), "clk", "mismatch",
    }  # fmt: skip
    sizes = widths(divergence.waveform)
    for name in (*plain, "o_tuser", "o_tuser_expected"):
        assert sizes[name] == 1, name
    for name in plain:
        assert values_of(waveform[name], core.cycles) == trace[name].tolist(), name
    for lane, name in enumerate(lanes):
        bits = [int(x) >> (32 * lane) & 0xFFFFFFFF for x in trace["o_tdata"]]
        for side in ("", "_expected"):
            assert sizes[name + side] == 32
            assert values_of(waveform[name + side], core.cycles) == bits, name
    for unit, signal in units.items():
        nodes = [row["node"] for row in rows(reference) if unit_of(row) == unit]
        for side in ("", "_expected"):
            assert sizes[unit + side] in {reference.formats[node].width for node in nodes}
            assert values_of(waveform[unit + side], core.cycles) == trace[signal].tolist(), unit


def flip(trace: Trace, row: dict[str, int], at: int) -> None:
    """Invert the last bit of a unit's output in a cycle."""
    trace[f"pinion_core.datapath.{unit_of(row)}.unit.o"][at] ^= 1


def test_the_earliest_operation_that_differs_is_named(
    reference: Reference, words: Words, compiled: Any, tmp_path: Path
) -> None:
    """Every third operation in turn, in the failing request, and a later one as well."""
    ordered = sorted(rows(reference), key=lambda r: (r["start"] + r["latency"], r["node"]))
    graph = reference.graph
    for row in ordered[:-1:3]:
        cycle = row["start"] + row["latency"]
        at = launch(reference, 4) + cycle
        last = launch(reference, 4) + ordered[-1]["start"] + ordered[-1]["latency"]

        def change(
            trace: Trace, count: int, row: dict[str, int] = row, at: int = at, last: int = last
        ) -> None:
            flip(trace, row, at)
            flip(trace, ordered[-1], last)

        core = compiled(Core(reference, change))
        divergence = first_divergence(reference, words, 4, folder=tmp_path)
        node = graph.nodes[row["node"]]
        op = graph.nodes[node.args[0]].op if node.op == names.QUANTIZE else node.op
        right = value(reference, words[:5], row["node"], 4)
        assert (divergence.node, divergence.op, divergence.unit) == (row["node"], op, unit_of(row))
        assert (divergence.cycle, divergence.region, divergence.line) == (
            cycle,
            node.region,
            node.line,
        )
        assert (divergence.request, divergence.expected, divergence.actual) == (4, right, right ^ 1)
        assert marked(divergence.waveform, core.cycles) == sorted({at, last})
        waveform, bits = read(divergence.waveform), widths(divergence.waveform)[unit_of(row)]
        for name, number in ((unit_of(row), right ^ 1), (f"{unit_of(row)}_expected", right)):
            assert values_of(waveform[name], core.cycles)[at] == number & ((1 << bits) - 1)


def test_an_earlier_request_that_was_wrong_is_shown_and_not_named(
    reference: Reference, words: Words, compiled: Any, tmp_path: Path
) -> None:
    row = rows(reference)[0]
    at = launch(reference, 1) + row["start"] + row["latency"]

    def change(trace: Trace, count: int) -> None:
        flip(trace, row, at)

    core = compiled(Core(reference, change))
    divergence = first_divergence(reference, words, 4, folder=tmp_path)
    assert divergence.node == -1 and marked(divergence.waveform, core.cycles) == [at]


@pytest.mark.parametrize("lane_and_beat", [(0, 0), (1, 0), (0, 1)])
def test_a_wrong_output_word_lies_behind_the_units(
    reference: Reference,
    words: Words,
    compiled: Any,
    tmp_path: Path,
    lane_and_beat: tuple[int, int],
) -> None:
    lane, beat = lane_and_beat
    core = Core(reference)
    at = core.beat(4, beat)

    def change(trace: Trace, count: int) -> None:
        trace["o_tdata"][at] ^= 1 << (32 * lane + 3)

    core.change = change
    compiled(core)
    divergence = first_divergence(reference, words, 4, folder=tmp_path)
    assert divergence.node == -1 and marked(divergence.waveform, core.cycles) == [at]
    waveform = read(divergence.waveform)
    m, expected = reference.build.manifest, reference.expected(words[:5])[0]
    right = int(expected[4, beat * m.lanes_out + lane])
    assert values_of(waveform[f"o_tdata[{lane}]_expected"], core.cycles)[at] == right
    assert values_of(waveform[f"o_tdata[{lane}]"], core.cycles)[at] == right ^ 8


def test_a_wrong_flag_is_shown(
    reference: Reference, words: Words, compiled: Any, tmp_path: Path
) -> None:
    """The flag is valid only on the last beat of a result."""
    core = Core(reference)
    last = reference.build.manifest.beats_out - 1
    at = core.beat(2, last)

    def change(trace: Trace, count: int) -> None:
        trace["o_tuser"][at] ^= 1
        trace["o_tuser"][core.beat(3, 0)] ^= 1

    core.change = change
    compiled(core)
    divergence = first_divergence(reference, words, 4, folder=tmp_path)
    assert divergence.node == -1 and marked(divergence.waveform, core.cycles) == [at]
    flagged = words[:5].copy()
    flagged[2, 0] = 0x7FC00000
    core.change = lambda trace, count: None
    divergence = first_divergence(reference, flagged, 4, folder=tmp_path)
    assert marked(divergence.waveform, core.cycles) == []
    flags = values_of(read(divergence.waveform)["o_tuser_expected"], core.cycles)
    assert np.flatnonzero(flags).tolist() == [at]


def test_a_core_that_stopped_has_no_operation_to_name(
    reference: Reference, words: Words, compiled: Any, tmp_path: Path
) -> None:
    core = compiled(Core(reference, stops=4))
    divergence = first_divergence(reference, words, 4, folder=tmp_path)
    assert divergence.node == -1 and divergence.waveform.is_file() and core.replayed is not None
    other = tmp_path / "other.il"
    first_divergence(reference, words, 0, folder=tmp_path, rtlil=other)
    assert core.calls[-1] == (other, True) and len(core.replayed) == 1


def test_bits_of_a_word_are_a_number_with_a_sign() -> None:
    for width in (2, 3, 8, 33):
        for number in {-(1 << (width - 1)), -1, 0, 1, (1 << (width - 1)) - 1}:
            assert scoreboard._signed(number & ((1 << width) - 1), width) == number


def test_a_stream_with_states_is_replayed_from_its_beginning(compiled: Any, tmp_path: Path) -> None:
    """A request's states depend on all earlier requests."""
    build("pendulum", DELAY, tmp_path / "delay", ii=8)
    reference = make(tmp_path / "delay")
    words = np.linspace(-1, 1, 60, dtype=np.float32).view(np.uint32).reshape(-1, 1)
    core = compiled(Core(reference))
    divergence = first_divergence(reference, words, REPLAY + 9, folder=tmp_path)
    assert core.replayed is not None and (core.replayed == words[: REPLAY + 10]).all()
    assert divergence.node == -1 and marked(divergence.waveform, core.cycles) == []
