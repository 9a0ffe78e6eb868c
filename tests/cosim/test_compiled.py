"""The compiled engine on a stand-in core: exact with all pauses, and it catches each fault."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.base.progress import Progress
from pinion.cosim import engines, stream
from pinion.cosim.compiled import CompiledCore, CompileError
from pinion.cosim.stream import (
    PATTERNS,
    StreamDeadlockError,
    StreamError,
    pack_records,
    unpack_records,
)
from pinion.gateware.foreign import ForeignDesignError
from pinion.gateware.yosys import YosysError, run_yosys
from pinion.native.cache import Cache

LANES, BEATS = 2, 2


def core_of(standin: Any, fault: str = "none") -> CompiledCore:
    path = standin.rtlil(lanes=LANES, fault=fault)
    return CompiledCore.build(rtlil=path, folder=path.parent / "compiled")


def send(
    core: CompiledCore, words: np.ndarray[Any, Any], **options: Any
) -> tuple[stream.StreamResult, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Send records through a core; return the result with its words and flags."""
    beats, last = pack_records(words, lanes=LANES, beats=BEATS)
    result = core.run(beats, last, expected_beats=len(beats), **options)
    return result, unpack_records(result.beats, words=4, beats=BEATS), result.user[1::BEATS]


@pytest.mark.parametrize("stall", PATTERNS)
@pytest.mark.parametrize("idle", PATTERNS)
def test_nothing_is_lost_doubled_or_reordered(standin: Any, idle: str, stall: str) -> None:
    seed = 11
    print(f"seed {seed}")
    words = standin.records(2000, words=4, seed=seed)
    result, words_out, flags = send(
        core_of(standin),
        words,
        idle=PATTERNS[idle](seed=seed),
        stall=PATTERNS[stall](seed=seed + 1),
    )
    expected, expected_flags = standin.expect(words)
    assert np.array_equal(words_out, expected)
    assert np.array_equal(flags, expected_flags)
    assert 0.1 < flags.mean() < 0.4
    assert np.array_equal(result.last, np.arange(len(result.last)) % BEATS == BEATS - 1)
    assert not result.user[~result.last].any()
    assert result.check() is result
    assert (np.diff(result.accepted) > 0).all()
    assert (np.diff(result.emitted) > 0).all()
    assert (result.emitted > result.accepted).all()
    assert result.launched.tolist() == result.accepted[1::BEATS].tolist()


def test_cycles_without_pauses(standin: Any) -> None:
    result, _, _ = send(core_of(standin), standin.records(50, words=4, seed=1))
    assert result.accepted.tolist() == list(range(100))
    assert result.emitted.tolist() == list(range(2, 102))
    assert result.cycles == 102 + stream.DRAIN


def test_stall_pattern_is_kept_to_the_cycle(standin: Any) -> None:
    stall = stream.single(seed=5, period=7)
    result, _, _ = send(core_of(standin), standin.records(50, words=4, seed=1), stall=stall)
    assert set((result.emitted % 7).tolist()) == {int(np.flatnonzero(~stall)[0])}


def test_state_stays_between_batches_and_reset_clears_it(standin: Any) -> None:
    core = core_of(standin)
    beats, last = pack_records(standin.records(2, words=4, seed=7), lanes=LANES, beats=BEATS)
    stall = np.arange(50) < 49
    core.run(beats, last, expected_beats=0, stall=stall, drain=0)  # nothing comes out yet
    late = core.run(beats[:0], last[:0], expected_beats=4)
    assert np.array_equal(late.beats, beats + np.uint32(standin.constant))
    core.run(beats, last, expected_beats=0, stall=stall, drain=0)
    core.reset()
    assert core.run(beats[:0], last[:0], expected_beats=0).surplus == 0


def test_build_hash_and_cache(standin: Any) -> None:
    core = core_of(standin)
    assert core.build_hash() == standin.build_hash
    stamp = core.library.stat().st_mtime_ns
    again = core_of(standin)
    assert again.library == core.library
    assert again.library.stat().st_mtime_ns == stamp
    assert core_of(standin, "corrupt").library != core.library


def test_two_instances_share_nothing(standin: Any) -> None:
    first, second = core_of(standin), core_of(standin)
    words = standin.records(4000, words=4, seed=2)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(send, core, words) for core in (first, second)]
        for job in jobs:
            assert np.array_equal(job.result()[1], standin.expect(words)[0])


def test_deadlock_is_an_error_with_counts(standin: Any) -> None:
    with pytest.raises(StreamDeadlockError, match=r"11 of 40 input .* 11 of 40 output .* 500 of"):
        send(core_of(standin, "deadlock"), standin.records(20, words=4, seed=1), limit=500)


def test_host_pauses_longer_than_the_limit_are_no_deadlock(standin: Any) -> None:
    stall = stream.long_pause(seed=3, blocked=3000, free=40)
    words = standin.records(100, words=4, seed=1)
    _, words_out, _ = send(core_of(standin), words, stall=stall, limit=50)
    assert np.array_equal(words_out, standin.expect(words)[0])


def test_surplus_beats_are_counted(standin: Any) -> None:
    result, words_out, _ = send(core_of(standin, "duplicate"), standin.records(20, words=4, seed=1))
    assert result.surplus == 1
    assert not np.array_equal(words_out, standin.expect(standin.records(20, words=4, seed=1))[0])
    with pytest.raises(StreamError, match=r"more beats than the 40 expected \(1 in surplus\)"):
        result.check()


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["unstable", "drop_valid"])
def test_a_changed_offer_is_a_violation(standin: Any, fault: str) -> None:
    words = standin.records(100, words=4, seed=1)
    free, _, _ = send(core_of(standin, fault), words)
    assert free.violations == 0  # the rule is about offers that wait
    result, _, _ = send(core_of(standin, fault), words, stall=stream.random(seed=1))
    assert result.violations > 0
    with pytest.raises(StreamError, match=f"violations: {result.violations}"):
        result.check()


def test_a_wrong_bit_shows(standin: Any) -> None:
    words = standin.records(20, words=4, seed=1)
    _, words_out, _ = send(core_of(standin, "corrupt"), words)
    wrong = np.argwhere(words_out != standin.expect(words)[0])
    assert wrong.tolist() == [[10, 2]]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"beats": np.zeros((4, 3), np.uint32)}, r"\(n, 2\) array of uint32, not \(4, 3\)"),
        ({"beats": np.zeros((4, 2), np.int64)}, "of int64"),
        ({"last": np.zeros(3, np.bool_)}, r"must have shape \(4,\), one .* not \(3,\)"),
        ({"stall": np.ones(5, np.bool_)}, "stall pattern of 5 cycles never"),
        ({"idle": np.ones((2, 2), np.bool_)}, "idle pattern must have one dimension"),
        ({"expected_beats": -1}, "is -1"),
    ],
)
def test_bad_arguments_are_refused(standin: Any, change: dict[str, Any], sentence: str) -> None:
    good: dict[str, Any] = {
        "beats": np.zeros((4, 2), np.uint32),
        "last": np.array([0, 1, 0, 1], np.bool_),
        "expected_beats": 4,
    }
    with pytest.raises(ValueError, match=sentence):
        core_of(standin).run(**(good | change))


def test_missing_tools_and_files_are_sentences(
    standin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError, match="build the core first"):
        CompiledCore.build(rtlil=tmp_path / "no.il", folder=tmp_path)
    broken = tmp_path / "broken.il"
    broken.write_text("module \\pinion_core\n  nonsense\nend\n")
    with pytest.raises(ForeignDesignError, match=r"Line 2 of .*broken\.il' contains 'nonsense'"):
        CompiledCore.build(rtlil=broken, folder=tmp_path)
    broken.write_text("module \\pinion_core\n  connect \\missing 1'0\nend\n")
    with pytest.raises(YosysError, match=r"ERROR.*log is .*cxxrtl\.log"):
        CompiledCore.build(rtlil=broken, folder=tmp_path)
    portless = tmp_path / "portless.il"
    portless.write_text("module \\pinion_core\nend\n")
    with pytest.raises(CompileError, match=r"p_i__tdata.*log is .*compile\.log"):
        CompiledCore.build(rtlil=portless, folder=tmp_path)
    monkeypatch.setattr(engines.shutil, "which", lambda _name: None)
    with pytest.raises(CompileError, match="g\\+\\+ is missing: install it"):
        CompiledCore.build(rtlil=standin.rtlil(), folder=tmp_path / "fresh")


@pytest.mark.parametrize("end", [KeyboardInterrupt(), SystemExit(143), OSError(28, "full")])
def test_what_ends_a_compilation_leaves_nothing(
    end: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines.tempfile, "tempdir", str(tmp_path))

    def ended(rtlil: Path, *_: object, **__: object) -> None:
        assert rtlil.read_bytes() == b"x"
        raise end

    monkeypatch.setattr(engines, "_build_cxxrtl", ended)
    with pytest.raises(type(end)):
        engines.compile_library(
            b"x", tmp_path / "x.so", store=Cache(tmp_path / "cache"), engine="cxxrtl"
        )
    assert list(tmp_path.iterdir()) == []


def test_the_share_of_results_is_read_while_it_runs(
    standin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def before_and_after(_: Progress, look: Callable[[], None]) -> Iterator[None]:
        look()
        yield
        look()

    monkeypatch.setattr("pinion.cosim.compiled.watching", before_and_after)
    shares: list[float] = []
    core, words = core_of(standin), standin.records(50, words=4, seed=1)
    send(core, words, progress=Progress(shares=shares.append))
    assert shares == [0.0, 1.0]
    # A result that nobody takes does not count.
    shares.clear()
    beats, last = pack_records(words, lanes=LANES, beats=BEATS)
    with pytest.raises(StreamDeadlockError):
        core.run(
            beats, last, expected_beats=len(beats) + 100, progress=Progress(shares=shares.append)
        )
    assert shares == [0.0, pytest.approx(0.5)]


def test_yosys_returns_its_log_and_names_its_failure(tmp_path: Path) -> None:
    assert "hello there" in run_yosys(["log hello there"], folder=tmp_path)
    with pytest.raises(YosysError, match=r"failed on mine\.ys .*nosuchcommand.*mine\.log"):
        run_yosys(["nosuchcommand"], folder=tmp_path, name="mine")


def test_records_and_beats_are_inverse() -> None:
    rng = np.random.default_rng(5)
    words = rng.integers(0, 1 << 32, size=(7, 21), dtype=np.uint32)
    beats, last = pack_records(words, lanes=8, beats=3)
    assert beats.shape == (21, 8)
    assert last.sum() == 7
    assert last[2::3].all()
    assert not beats[2::3, 5:].any()
    assert np.array_equal(unpack_records(beats, words=21, beats=3), words)
    with pytest.raises(ValueError, match="21 words, but only 16 fit into 2 beats of 8 lanes"):
        pack_records(words, lanes=8, beats=2)
    with pytest.raises(ValueError, match="20 beats cannot be divided into records"):
        unpack_records(beats[:-1], words=21, beats=3)


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_repeat_from_a_seed_and_let_beats_through(name: str) -> None:
    make = PATTERNS[name]
    assert np.array_equal(make(seed=3), make(seed=3))
    for seed in range(50):
        assert not make(seed=seed).all()
