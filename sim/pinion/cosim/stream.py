"""Stream data shared by all engines: records, beats, pause patterns and results.

A record is ``beats`` beats of ``lanes`` 32-bit words, padded with zero words, its last beat marked.
Patterns are boolean arrays with one element per cycle, repeated: True holds the stream back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pinion.base.amounts import amount
from pinion.base.arrays import Flags, Words

Cycles = NDArray[np.int64]

LIMIT = 10_000
"""Cycles without progress, with the host willing, after which an engine gives up."""

DRAIN = 64
"""Cycles that an engine runs after the last expected beat, looking for surplus ones."""


class StreamError(RuntimeError):
    """Error for a stream that violates a rule of AXI-Stream or has surplus beats."""


class StreamDeadlockError(StreamError):
    """Error for a core that makes no progress before all expected beats are sent."""


@dataclass(frozen=True, kw_only=True)
class StreamResult:
    """Output of a core for one batch of beats; cycles are counted from the batch's start.

    Attributes
    ----------
    beats : (n, lanes_out) uint32, output beats in order.
    last : (n,) bool, TLAST of each.
    user : (n,) bool, TUSER of each; the flag of a record is on its last beat.
    accepted : (n_in,) int64, cycle in which each input beat was taken.
    emitted : (n,) int64, cycle in which each output beat was taken.
    launched : (n_records,) int64, cycles in which a record entered the datapath.
    surplus : number of output beats beyond the expected ones.
    violations : number of cycles in which an offered beat was changed or withdrawn.
    cycles : number of cycles simulated.
    """

    beats: Words
    last: Flags
    user: Flags
    accepted: Cycles
    emitted: Cycles
    launched: Cycles
    surplus: int
    violations: int
    cycles: int
    log: str = field(default="", compare=False)

    def check(self) -> StreamResult:
        """Return this result, or raise `StreamError` for surplus, changed or withdrawn beats."""
        if self.surplus:
            raise StreamError(
                f"The core sent more beats than the {len(self.beats)} expected ({self.surplus} in "
                "surplus): a result was repeated, or has more beats than in the manifest."
            )
        if self.violations:
            raise StreamError(
                f"The core changed or withdrew offered output beats before they were taken "
                f"(violations: {self.violations}): AXI-Stream requires valid, data, last and user "
                "to stay."
            )
        return self


def joined_runs(runs: Sequence[StreamResult]) -> StreamResult:
    """Join successive runs into one result; cycles are counted from the start of the first run."""
    starts = np.cumsum([0, *(run.cycles for run in runs)])[:-1]

    def cycles(name: str) -> Cycles:
        parts = [getattr(run, name) + start for run, start in zip(runs, starts, strict=True)]
        result: Cycles = np.concatenate(parts)
        return result

    return StreamResult(
        beats=np.concatenate([run.beats for run in runs]),
        last=np.concatenate([run.last for run in runs]),
        user=np.concatenate([run.user for run in runs]),
        accepted=cycles("accepted"),
        emitted=cycles("emitted"),
        launched=cycles("launched"),
        surplus=sum(run.surplus for run in runs),
        violations=sum(run.violations for run in runs),
        cycles=sum(run.cycles for run in runs),
    )


def deadlock(
    *, accepted: int, n_beats: int, emitted: int, expected: int, cycles: int, limit: int
) -> StreamDeadlockError:
    """Return the error for a core that is stuck in a batch, common to all engines."""
    return StreamDeadlockError(
        f"The core stopped: {accepted} of {n_beats} input beats accepted and {emitted} of "
        f"{expected} output beats sent in {cycles} cycles, the last {limit} of them without "
        "progress."
    )


def pack_records(words: Words, *, lanes: int, beats: int) -> tuple[Words, Flags]:
    """Divide records (n, words) into zero-padded beats, and return them with their TLAST.

    Parameters
    ----------
    words : (n, words) uint32, words of each record; words <= lanes * beats.
    lanes : 32-bit words in a beat.
    beats : beats in a record.

    Returns
    -------
    (n * beats, lanes) uint32 beats, padded with zeros, and (n * beats,) bool last flags.
    """
    if words.ndim != 2 or words.dtype != np.uint32:
        raise ValueError(
            f"Records must be an (n, words) array of uint32, not {words.shape} of {words.dtype}."
        )
    n, width = words.shape
    if width > lanes * beats:
        raise ValueError(
            f"A record has {amount(width, 'word')}, but only {beats * lanes} fit into "
            f"{amount(beats, 'beat')} of {amount(lanes, 'lane')}: take the numbers of beats and "
            "lanes from the manifest."
        )
    padded = np.zeros((n, beats * lanes), dtype=np.uint32)
    padded[:, :width] = words
    last = np.zeros((n, beats), dtype=np.bool_)
    last[:, -1] = True
    return padded.reshape(n * beats, lanes), last.reshape(n * beats)


def unpack_records(
    beats_array: Words, *, words: int, beats: int, records: int | None = None
) -> Words:
    """Extract records (n, words) from uint32 beats (n * beats, lanes).

    Parameters
    ----------
    records : the expected number of records, if known.

    Raises
    ------
    ValueError : If the last record is incomplete, or a record has fewer than ``words`` words.
    StreamError : If there are more or fewer records than expected.
    """
    n, lanes = beats_array.shape
    if records is not None and n != records * beats:
        raise StreamError(
            f"The core sent {amount(n, 'beat')} instead of {records * beats:,}: "
            f"{amount(records, 'result')} of {amount(beats, 'beat')} each."
        )
    if n % beats:
        raise ValueError(
            f"{amount(n, 'beat')} cannot be divided into records of {amount(beats, 'beat')}."
        )
    if words > beats * lanes:
        raise ValueError(
            f"A record has {amount(words, 'word')}, but only {beats * lanes} fit into "
            f"{amount(beats, 'beat')} of {amount(lanes, 'lane')}."
        )
    return np.ascontiguousarray(beats_array.reshape(n // beats, beats * lanes)[:, :words])


def check_pattern(pattern: NDArray[np.bool_] | None, *, name: str) -> NDArray[np.bool_]:
    """Return a pause pattern as an (n,) bool array, empty for None.

    Raises
    ------
    ValueError : If it is not one-dimensional, or holds the stream back forever.
    """
    if pattern is None:
        return np.zeros(0, dtype=np.bool_)
    array = np.asarray(pattern, dtype=np.bool_)
    if array.ndim != 1:
        raise ValueError(f"The {name} pattern must have one dimension, not shape {array.shape}.")
    if len(array) and array.all():
        raise ValueError(
            f"The {name} pattern of {amount(len(array), 'cycle')} never lets a beat through: "
            "at least one element must be False."
        )
    return array


def always(*, seed: int = 0) -> Flags:
    """Return a pattern without pauses; ``seed`` is ignored."""
    return np.zeros(1, dtype=np.bool_)


def random(*, seed: int, probability: float = 0.5, length: int = 4093) -> Flags:
    """Return random pauses; ``length`` is prime, so that it shares no period with a core."""
    pattern = np.random.default_rng(seed).random(length) < probability
    pattern[0] = False
    return pattern


def bursts(*, seed: int, longest: int = 40, length: int = 4093) -> Flags:
    """Return alternating free and blocked runs, each 1 to ``longest`` cycles long."""
    rng = np.random.default_rng(seed)
    runs = rng.integers(1, longest + 1, size=length)
    pattern = np.repeat(np.arange(len(runs)) % 2 == 1, runs)[:length]
    return np.asarray(pattern, dtype=np.bool_)


def long_pause(*, seed: int, blocked: int = 2000, free: int = 500) -> Flags:
    """Return one free run and one pause that is long enough to fill every buffer of a core."""
    shift = int(np.random.default_rng(seed).integers(0, free))
    pattern = np.zeros(blocked + free, dtype=np.bool_)
    pattern[shift : shift + blocked] = True
    return pattern


def single(*, seed: int, period: int = 7) -> Flags:
    """Return a pattern with one free cycle in ``period``, at a phase that depends on the seed."""
    pattern = np.ones(period, dtype=np.bool_)
    pattern[int(np.random.default_rng(seed).integers(0, period))] = False
    return pattern


PATTERNS: dict[str, Callable[..., Flags]] = {
    "always": always,
    "random": random,
    "bursts": bursts,
    "long_pause": long_pause,
    "single": single,
}
"""Pause patterns by name; each takes ``seed`` and returns a pattern."""
