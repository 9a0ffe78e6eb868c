"""Compiled cores: every bit, every flag, every request once and in order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Module, Mux, Signal

from pinion.cosim.stream import PATTERNS
from pinion.formats import FormatPlan
from pinion.gateware.core import Core
from pinion.gateware.library import timing_for
from pinion.graph import Graph, Tracer
from pinion.graph.check import verify
from pinion.hls import bind, operations, schedule
from tests.gateware.cores import BUILD_HASH, Bench, bound, bound_auto, request_bits, rnea
from tests.graph.helpers import TIMING, edit
from tests.support.breadth import some

Get = Callable[..., Bench]


@pytest.fixture(scope="module")
def get(tmp_path_factory: pytest.TempPathFactory) -> Get:
    """Compile cores by robot and interval, once for this file."""
    benches: dict[tuple[object, ...], Bench] = {}

    def build(robot: str, ii: int, *, debug: bool = False) -> Bench:
        key = (robot, ii, debug)
        if key not in benches:
            graph, binding = bound(rnea(robot), ii=ii)
            folder = tmp_path_factory.mktemp("core")
            benches[key] = Bench.build(graph, binding, folder, debug=debug)
        return benches[key]

    return build


CORES = some([("two_link", 1), ("two_link", 8)], [("two_link", 8)])


@pytest.fixture(params=CORES, ids=lambda p: f"{p[0]}-ii{p[1]}")
def bench(request: pytest.FixtureRequest, get: Get) -> Bench:
    robot, ii = request.param
    return get(robot, ii)


def robot_of(bench: Bench) -> str:
    return "pendulum" if len(bench.graph.inputs) == 3 else "two_link"


@pytest.mark.parametrize("distribution", ["reference", "beyond"])
def test_results_are_the_golden_models_bit_for_bit(bench: Bench, distribution: str) -> None:
    bits = request_bits(robot_of(bench), 3000, seed=31, distribution=distribution)
    result = bench.agree(bits)
    _, flags = bench.expected(bits)
    assert not flags.any()
    assert len(result.launched) == 3000


def test_one_record_every_interval(bench: Bench) -> None:
    result = bench.agree(request_bits(robot_of(bench), 500, seed=33))
    ii = bench.binding.schedule.ii
    gaps = np.diff(result.launched)
    # The first launch may wait for its slot; then there is one in every interval.
    assert np.all(gaps[3:] == ii), gaps[:10]
    # Launch to last beat takes the same time for every request, as the host is always ready.
    spent = result.emitted[bench.binding.beats_out - 1 :: bench.binding.beats_out] - result.launched
    assert set(spent[3:]) == {spent[-1]}
    assert spent[-1] >= bench.binding.schedule.length


def test_the_latency_holds_at_the_worst_phase(bench: Bench) -> None:
    ii = bench.binding.schedule.ii
    beats, last = bench.pack(request_bits(robot_of(bench), 1, seed=37))
    spent = []
    for phase in range(ii):
        bench.compiled.reset()
        idle = np.arange(400) < phase
        _, _, result = bench.stream(beats, last, records=1, idle=idle)
        assert result.accepted[0] == phase
        assert result.emitted[-1] - result.launched[0] == bench.core.last_beat
        spent.append(result.emitted[-1] - result.accepted[0])
    worst = bench.core.latency
    assert sorted(spent) == list(range(worst - ii + 1, worst + 1))


def test_the_build_hash_is_a_constant_of_the_core(bench: Bench) -> None:
    assert bench.compiled.build_hash() == BUILD_HASH


@pytest.mark.parametrize("name", PATTERNS)
def test_no_pause_loses_repeats_or_reorders(bench: Bench, name: str) -> None:
    bits = request_bits(robot_of(bench), 1200, seed=34)
    bits[::37, 0] = np.float32(np.nan).view(np.uint32)  # flags stay with their results
    idle, stall = PATTERNS[name](seed=35), PATTERNS[name](seed=36)
    for pauses in ({"idle": idle}, {"stall": stall}, {"idle": idle, "stall": stall}):
        result = bench.agree(bits, **pauses)
        last_beats = result.emitted[bench.binding.beats_out - 1 :: bench.binding.beats_out]
        # Requests in flight never exceed the credits.
        emitted = np.searchsorted(np.sort(last_beats), result.launched, side="left")
        assert np.max(np.arange(len(emitted)) - emitted) <= bench.core.credits


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_pauses_of_random_density(bench: Bench, seed: int) -> None:
    rng = np.random.default_rng(seed)
    print(f"seed {seed}")
    bits = request_bits(robot_of(bench), 400, seed=seed)
    patterns = [rng.random(int(rng.integers(50, 3000))) < rng.uniform(0, 0.98) for _ in range(2)]
    for pattern in patterns:
        pattern[int(rng.integers(len(pattern)))] = False
    bench.agree(bits, idle=patterns[0], stall=patterns[1])


# -- flags ---------------------------------------------------------------------------------------

SPECIAL = {
    5: np.nan,
    9: np.inf,
    10: -np.inf,
    17: 1e9,
    18: -32769.0,
    40: 32767.9,
    60: -1e-40,
}
FLAGGED_AT_THE_EDGE = {5, 9, 10, 17, 18}


@pytest.mark.parametrize("word", [0, 1, -1])
def test_a_word_out_of_range_flags_its_request_and_no_other(bench: Bench, word: int) -> None:
    bits = request_bits(robot_of(bench), 80, seed=41)
    for row, value in SPECIAL.items():
        bits[row, word] = np.float32(value).view(np.uint32)
    bench.agree(bits)
    _, flags, _ = bench.run(bits)
    flagged = set(np.flatnonzero(flags))
    assert flagged >= FLAGGED_AT_THE_EDGE
    assert flagged <= FLAGGED_AT_THE_EDGE | {40}  # which may saturate further inside


@pytest.mark.parametrize("ii", some([1, 8], (8,)))
def test_a_value_out_of_range_inside_flags_its_request_and_no_other(get: Get, ii: int) -> None:
    bench = get("two_link", ii)
    bits = request_bits("two_link", 120, seed=42)
    fast = [0, 7, 8, 9, 30, 32, 119]
    bits[fast, 2] = np.float32(400.0).view(np.uint32)  # its square does not fit q16.16
    bench.agree(bits)
    _, flags, _ = bench.run(bits)
    assert np.flatnonzero(flags).tolist() == fast


# -- protocol ------------------------------------------------------------------------------------


def protocol_error(bench: Bench, beats: np.ndarray, last: np.ndarray) -> np.ndarray:
    signal = bench.compiled.trace(["protocol_error"], beats, last, cycles=len(beats) + 100)
    return signal["protocol_error"]


@pytest.fixture
def pendulum(get: Get) -> Bench:
    bench = get("pendulum", 3, debug=True)
    assert bench.binding.beats_in == 3 and bench.binding.lanes_in == 1
    bench.compiled.reset()
    return bench


def test_a_good_stream_raises_no_protocol_error(pendulum: Bench) -> None:
    beats, last = pendulum.pack(request_bits("pendulum", 50, seed=51))
    assert not protocol_error(pendulum, beats, last).any()


@pytest.mark.parametrize("length", [1, 2])
def test_a_record_that_ends_early_is_dropped(pendulum: Bench, length: int) -> None:
    bits = request_bits("pendulum", 12, seed=52)
    beats, last = pendulum.pack(bits)
    short = 4  # this record loses its last beats
    gone = np.arange(3 * short + length, 3 * short + 3)
    last[3 * short + length - 1] = True
    beats, last = np.delete(beats, gone, axis=0), np.delete(last, gone)
    want, _ = pendulum.expected(np.delete(bits, short, axis=0))
    words, flags, _ = pendulum.stream(beats, last, records=11)
    assert np.array_equal(words, want)
    assert not flags.any()
    error = protocol_error(pendulum, beats, last)
    assert error[-1] == 1 and error[0] == 0
    assert np.all(np.diff(error.astype(int)) >= 0), "the error is sticky"


@pytest.mark.parametrize("extra", [1, 2, 3, 4, 7])
def test_a_record_that_does_not_end_is_flagged_and_the_stream_realigns(
    pendulum: Bench, extra: int
) -> None:
    bits = request_bits("pendulum", 12, seed=53)
    beats, last = pendulum.pack(bits)
    long = 4
    end = 3 * long + 3
    last[end - 1] = False
    rng = np.random.default_rng(extra)
    more = rng.uniform(-1, 1, (extra, 1)).astype(np.float32).view(np.uint32)
    beats = np.insert(beats, end, more, axis=0)
    last = np.insert(last, end, [False] * (extra - 1) + [True])
    want, _ = pendulum.expected(bits)
    words, flags, _ = pendulum.stream(beats, last, records=12)
    assert np.array_equal(words, want)
    assert np.flatnonzero(flags).tolist() == [long]
    assert protocol_error(pendulum, beats, last)[-1] == 1


@pytest.mark.slow
def test_a_core_of_one_beat_needs_its_tlast_too(get: Get) -> None:
    bench = get("two_link", 1)
    bench.compiled.reset()
    bits = request_bits("two_link", 10, seed=54)
    beats, last = bench.pack(bits)
    assert last.all()
    last[3] = False  # the next beat, with TLAST, belongs to the record that did not end
    want, _ = bench.expected(np.delete(bits, 4, axis=0))
    words, flags, _ = bench.stream(beats, last, records=9)
    assert np.array_equal(words, want)
    assert np.flatnonzero(flags).tolist() == [3]
    bench.compiled.reset()


# -- mutants and variants ------------------------------------------------------------------------


def _constant_off(fixed: Graph) -> Graph:
    i = next(i for i, node in enumerate(fixed.nodes) if node.op == "const")
    value, *shape = fixed.nodes[i].params
    return edit(fixed, i, params=(float(value) + 2.0**-8, *shape))


def _rounding_removed(fixed: Graph) -> Graph:
    i = next(
        i
        for i, node in enumerate(fixed.nodes)
        if node.op == "quantize" and fixed.nodes[node.args[0]].op in ("mul", "dot")
    )
    width, frac, _, overflow = fixed.nodes[i].params
    return edit(fixed, i, params=(width, frac, "floor", overflow))


@pytest.mark.parametrize(
    "mutate", [pytest.param(_constant_off, marks=pytest.mark.slow), _rounding_removed]
)
def test_a_mutant_in_hardware_is_found(mutate: Callable[[Graph], Graph], tmp_path: Path) -> None:
    fixed, _ = bound(rnea("two_link"), ii=8)
    mutant = verify(mutate(fixed))
    modulo = schedule(operations(mutant, TIMING), ii=8, timing=TIMING, effort=1)
    bench = Bench.build(mutant, bind(mutant, modulo), tmp_path, reference=fixed)
    bits = request_bits("two_link", 500, seed=61)
    words, _, _ = bench.run(bits)
    want, _ = bench.expected(bits)
    assert (words != want).any(), "the mutant went unnoticed"
    # The bench itself is correct.
    mutated = Bench(mutant, bench.binding, bench.core, bench.compiled)
    mutated.agree(bits)


@pytest.mark.slow
def test_another_format_and_other_unit_latencies_are_bit_exact(tmp_path: Path) -> None:
    fixed, _ = bound(rnea("two_link"), ii=5, formats="q12.20")
    plan = FormatPlan.parse("q12.20")
    timing = timing_for(plan, multiplier_stages=1, add=2)
    assert timing != timing_for(plan)
    modulo = schedule(operations(fixed, timing), ii=5, timing=timing, effort=1)
    bench = Bench.build(fixed, bind(fixed, modulo), tmp_path)
    bits = request_bits("two_link", 1000, seed=62)
    bits[::100, 3] = np.float32(500.0).view(np.uint32)
    result = bench.agree(bits)
    assert set(np.diff(result.launched)[5:]) == {5}


# -- words of different binary points --------------------------------------------------------------

REACH = {"a": 3.0, "b": 1000.0, "c": 0.01, "d": 1.0, "e": 60.0}


def scaled() -> Graph:
    """Trace words and results from a hundredth to tens of thousands in size."""
    tracer = Tracer()
    a, b, c, d, e = (tracer.input(name) for name in REACH)
    tracer.output("large", b * e + a)
    tracer.output("small", c * d)
    tracer.output("passed", c)
    tracer.output("mixed", a * d - c * b)
    tracer.output("turned", -(d * e))
    return tracer.finish()


def scaled_bits(count: int, *, seed: int, spread: float = 1.0) -> np.ndarray:
    """Return requests (count, 5); with a spread above 1 many are out of range."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    reach = np.array(list(REACH.values())) * spread
    return rng.uniform(-reach, reach, (count, 5)).astype(np.float32).view(np.uint32)


def scaled_bench(ii: int, folder: Path) -> Bench:
    columns = scaled_bits(2000, seed=80).view(np.float32).astype(np.float64)
    graph, binding = bound_auto(scaled(), dict(zip(REACH, columns.T, strict=True)), ii=ii)
    return Bench.build(graph, binding, folder)


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Bench]:
    benches: dict[int, Bench] = {}

    def build(ii: int) -> Bench:
        if ii not in benches:
            benches[ii] = scaled_bench(ii, tmp_path_factory.mktemp("moving"))
        benches[ii].compiled.reset()
        return benches[ii]

    return build


@pytest.mark.parametrize("ii", some([2, 5], (5,)))
def test_words_of_different_binary_points(moving: Callable[[int], Bench], ii: int) -> None:
    bench = moving(ii)
    assert bench.core.to_fixed.moves > 12 and bench.core.to_float.moves > 12
    assert (bench.binding.lanes_in, bench.binding.beats_in) == {2: (3, 2), 5: (1, 5)}[ii]
    bits = scaled_bits(600, seed=81)
    result = bench.agree(bits)
    assert set(np.diff(result.launched)[5:]) == {ii}
    bits = scaled_bits(600, seed=82, spread=2.0)
    bits[::50, 2] = np.float32(np.nan).view(np.uint32)
    bench.agree(bits, idle=PATTERNS["random"](seed=83), stall=PATTERNS["random"](seed=84))
    _, flags = bench.expected(bits)
    assert 0.2 < flags.mean() < 0.99
    # Each word is limited by its own format.
    exact = bits.view(np.float32).astype(np.float64)
    words, result_flags, _ = bench.run(bits)
    large = words.view(np.float32)[~result_flags, 0]
    assert np.allclose(
        large, (exact[:, 1] * exact[:, 4] + exact[:, 0])[~result_flags], rtol=1e-3, atol=1.0
    )


@pytest.mark.parametrize("ii", some([2, 5], (5,)))
@pytest.mark.parametrize("kind", ["early", "late", "later", "mixed"])
def test_binary_points_realign_at_the_end_of_a_record(
    moving: Callable[[int], Bench], ii: int, kind: str
) -> None:
    """Send records too short and too long in series; all other records must be right."""
    bench = moving(ii)
    count, size = 14, bench.binding.beats_in
    bits = scaled_bits(count, seed=85)
    packed, lasts = bench.pack(bits)
    rng = np.random.default_rng(86)
    beats, last, dropped, flagged = [], [], [], []
    for k in range(count):
        rows, ends = packed[k * size : (k + 1) * size], lasts[k * size : (k + 1) * size].copy()
        fault = kind if kind != "mixed" else ("early", "late", "early", "later")[k % 4]
        if k % 3 == 1 and fault == "early":
            length = 1 + k % (size - 1) if size > 2 else 1
            rows, ends = rows[:length], ends[:length]
            ends[-1] = True
            dropped.append(k)
        elif k % 3 == 1:
            extra = 1 if fault == "late" else size + 1
            more = rng.uniform(-1, 1, (extra, rows.shape[1])).astype(np.float32)
            rows = np.concatenate([rows, more.view(np.uint32)])
            ends = np.zeros(size + extra, dtype=np.bool_)
            ends[-1] = True
            flagged.append(k)
        beats.append(rows)
        last.append(ends)
    assert dropped or flagged
    complete = [k for k in range(count) if k not in dropped]
    words, flags, _ = bench.stream(
        np.concatenate(beats), np.concatenate(last), records=len(complete)
    )
    want, _ = bench.expected(bits)
    assert np.array_equal(words, want[complete])
    assert [complete[n] for n in np.flatnonzero(flags)] == flagged


@pytest.mark.slow
def test_a_beat_count_that_does_not_realign_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(self: Core, m: Module, accept: Signal) -> Signal:
        """Count beats modulo the record, ignoring TLAST."""
        beat = Signal(range(self.binding.beats_in))
        coming = Signal.like(beat)
        m.d.comb += coming.eq(Mux(beat == self.binding.beats_in - 1, 0, beat + 1))
        with m.If(accept):
            m.d.sync += beat.eq(coming)
        return coming

    monkeypatch.setattr(Core, "_beat", forgetful)
    bench = scaled_bench(5, tmp_path)
    bits = scaled_bits(12, seed=87)
    bench.agree(bits)  # good streams do not tell
    beats, last = bench.pack(bits)
    last[21] = True  # record 4 ends after two of its five beats
    beats, last = np.delete(beats, [22, 23, 24], axis=0), np.delete(last, [22, 23, 24])
    words, _, _ = bench.stream(beats, last, records=11)
    want = np.delete(bench.expected(bits)[0], 4, axis=0)
    assert np.array_equal(words[:4], want[:4]) and not np.array_equal(words[4:], want[4:])
