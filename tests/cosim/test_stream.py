"""Records as beats, pause patterns, and errors of streams that broke a rule."""

from __future__ import annotations

import numpy as np
import pytest

from pinion.cosim.stream import (
    PATTERNS,
    StreamDeadlockError,
    StreamError,
    StreamResult,
    always,
    bursts,
    check_pattern,
    deadlock,
    joined_runs,
    long_pause,
    pack_records,
    random,
    single,
    unpack_records,
)


def result(first: int, *, cycles: int, surplus: int = 0, violations: int = 0) -> StreamResult:
    """Return two beats of two lanes, numbered from ``first``."""
    stamps = np.array([1, 2], dtype=np.int64)
    return StreamResult(
        beats=np.arange(first, first + 4, dtype=np.uint32).reshape(2, 2),
        last=np.array([False, True]),
        user=np.array([False, first > 0]),
        accepted=stamps,
        emitted=stamps + 10,
        launched=stamps[:1] + 5,
        surplus=surplus,
        violations=violations,
        cycles=cycles,
    )


def test_runs_behind_each_other_count_on() -> None:
    whole = joined_runs([result(0, cycles=20, surplus=1), result(4, cycles=30, violations=2)])
    assert whole.beats.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert whole.last.tolist() == [False, True, False, True]
    assert whole.user.tolist() == [False, False, False, True]
    assert whole.accepted.tolist() == [1, 2, 21, 22]
    assert whole.emitted.tolist() == [11, 12, 31, 32]
    assert whole.launched.tolist() == [6, 26]
    assert (whole.surplus, whole.violations, whole.cycles) == (1, 2, 50)
    assert whole.log == ""


def test_a_stream_that_broke_a_rule_says_which() -> None:
    right = result(0, cycles=9)
    assert right.check() is right
    with pytest.raises(StreamError, match=r"sent more beats than the 2 expected \(3 in surplus\)"):
        result(0, cycles=9, surplus=3).check()
    with pytest.raises(
        StreamError, match=r"changed or withdrew offered output beats .* \(violations: 4\)"
    ):
        result(0, cycles=9, violations=4).check()
    stopped = deadlock(accepted=3, n_beats=8, emitted=2, expected=6, cycles=99, limit=50)
    assert isinstance(stopped, StreamDeadlockError)
    assert "3 of 8 input beats" in str(stopped) and "2 of 6 output beats" in str(stopped)
    assert "in 99 cycles, the last 50" in str(stopped)


def test_records_are_laid_out_as_beats_and_back() -> None:
    words = np.arange(1, 11, dtype=np.uint32).reshape(2, 5)
    beats, last = pack_records(words, lanes=2, beats=3)
    assert beats.tolist() == [[1, 2], [3, 4], [5, 0], [6, 7], [8, 9], [10, 0]]
    assert last.tolist() == [False, False, True, False, False, True]
    back = unpack_records(beats, words=5, beats=3)
    assert back.dtype == np.uint32 and (back == words).all()
    assert (unpack_records(beats, words=6, beats=3)[:, 5] == 0).all()  # the padding


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (np.zeros(5, np.uint32), r"not \(5,\) of uint32"),
        (np.zeros((1, 5), np.int64), r"not \(1, 5\) of int64"),
        (np.zeros((1, 7), np.uint32), "record has 7 words, but only 6 fit into 3 beats of 2 lanes"),
    ],
)
def test_what_are_no_records_is_refused(words: np.ndarray, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        pack_records(words, lanes=2, beats=3)


def test_beats_of_other_records_are_refused() -> None:
    beats = np.zeros((6, 2), np.uint32)
    with pytest.raises(ValueError, match="6 beats cannot be divided into records of 4 beats"):
        unpack_records(beats, words=5, beats=4)
    with pytest.raises(
        ValueError, match="record has 7 words, but only 6 fit into 3 beats of 2 lanes"
    ):
        unpack_records(beats, words=7, beats=3)


def test_a_pattern_lets_something_through() -> None:
    assert check_pattern(None, name="idle").tolist() == []
    assert check_pattern(np.array([1, 0]), name="idle").tolist() == [True, False]
    with pytest.raises(ValueError, match=r"The stall pattern must have one .*\(1, 2\)"):
        check_pattern(np.array([[True, False]]), name="stall")
    with pytest.raises(ValueError, match="idle pattern of 3 cycles never lets a beat through"):
        check_pattern(np.ones(3, bool), name="idle")


def runs(pattern: np.ndarray) -> list[tuple[bool, int]]:
    """Return the values of a pattern and their run lengths."""
    ends = np.flatnonzero(np.diff(pattern)) + 1
    return [(bool(part[0]), len(part)) for part in np.split(pattern, ends)]


def test_each_pattern_is_what_it_says() -> None:
    expected = {
        "always": always,
        "random": random,
        "bursts": bursts,
        "long_pause": long_pause,
        "single": single,
    }
    assert expected == PATTERNS
    for name, make in PATTERNS.items():
        assert (make(seed=3) == make(seed=3)).all(), name
        assert make(seed=3).dtype == np.bool_ and not make(seed=3).all(), name
    assert always(seed=1).tolist() == [False]

    random_pattern = random(seed=1)
    assert (
        len(random_pattern) == 4093 and not random_pattern[0] and 0.4 < random_pattern.mean() < 0.6
    )
    assert 0.1 < random(seed=1, probability=0.2).mean() < 0.3
    assert (random_pattern != random(seed=2)).any()

    pattern = bursts(seed=4, longest=6, length=1000)
    assert len(pattern) == 1000 and len(bursts(seed=4)) == 4093
    lengths = [count for _, count in runs(pattern)]
    assert not pattern[0]  # it begins freely
    assert set(lengths[:-1]) == set(range(1, 7))
    assert max(count for _, count in runs(bursts(seed=4))) == 40

    assert runs(long_pause(seed=0, blocked=9, free=4)) != runs(
        long_pause(seed=1, blocked=9, free=4)
    )
    for seed in range(4):
        paused = long_pause(seed=seed)
        assert len(paused) == 2500 and paused.sum() == 2000
        assert [count for blocked, count in runs(paused) if blocked] == [2000]

    for seed in range(4):
        assert len(single(seed=seed)) == 7 and single(seed=seed).sum() == 6
    assert len({int(np.flatnonzero(~single(seed=seed))[0]) for seed in range(30)}) == 7
