"""Checks of a whole top against its build's integer model, for fast and slow tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pinion.boards.top import write_top
from pinion.cosim.reference import make, request_words
from pinion.cosim.stream import PATTERNS
from pinion.cosim.top import CompiledTop, TopRun
from pinion.functions import sample
from pinion.link import FLAGS_PER_BEAT, Status, layout_of
from tests.support.top.batches import read_responses, request_stream, response_beats

CLOCKS = ((1, 1), (3, 5), (6, 5))
"""Periods of link and core: the core at 1, 0.6 and 1.2 times the link's rate."""

AROUND = 40
"""Most cycles that the link's parts add to a core's latency."""


class TopBench:
    """The card of a build, and a pool of requests with their exact answers."""

    def __init__(self, folder: Path, *, pool: int, seed: int, crossing: bool = True) -> None:
        reference = make(folder)
        self.build = build = reference.build
        self.manifest = build.manifest
        self.layout = layout_of(build.manifest)
        # A quarter are states beyond the range of some formats, which may all be flagged.
        parts = [
            sample(build.model, build.function, count, distribution=name, seed=seed)
            for name, count in (("reference", pool - pool // 4), ("beyond", pool // 4))
        ]
        self.words = np.concatenate([request_words(build.manifest, part) for part in parts])
        # Some requests are NaN, so that flagged results are among unflagged ones.
        rng = np.random.default_rng(seed)
        rows = rng.choice(len(self.words), size=pool // 16, replace=False)
        self.words[rows, rng.integers(0, self.words.shape[1], size=len(rows))] = 0x7FC0_0000
        self.expected, self.flags = reference.expected(self.words)
        assert len(rows) <= self.flags.sum() < pool // 2
        path = write_top(folder, crossing=crossing)
        self.card = CompiledTop.build(rtlil=path, folder=folder / "sim")

    def send(
        self, counts: Sequence[int], rows: np.ndarray, *, first_sequence: int = 0, **pauses: object
    ) -> TopRun:
        """Send the pool's ``rows`` in packets of ``counts``, and check every received bit."""
        beats, last = request_stream(
            self.layout, self.words[rows], counts, first_sequence=first_sequence
        )
        run = self.card.run(
            beats=beats, last=last, room=response_beats(self.layout, counts), **pauses
        )
        assert run.accepted == len(beats) and not run.pending and not run.waiting
        assert run.violations == 0
        start = 0
        for response in read_responses(self.layout, run, counts, first_sequence=first_sequence):
            part = rows[start : start + len(response.words)]
            assert np.array_equal(response.words, self.expected[part])
            assert np.array_equal(response.flags, self.flags[part])
            flagged = int(self.flags[part].sum())
            assert response.head.flagged == flagged
            assert response.head.status == (Status.FLAGGED if flagged else Status.OK)
            start += len(response.words)
        assert start == len(rows)
        return run

    def check_rate(self, counts: Sequence[int], *, link: int = 1, core: int = 1) -> float:
        """Return link cycles per result, including start-up, with a host that is always ready.

        From the first beat in to the last trailer out: what the core's interval allows, its
        latency, the parts of the link around it, and the flags of the last batch. A core that is
        faster than the link waits for the gearboxes, which move one of its beats a link cycle.
        """
        self.card.clocks(link=link, core=core)
        total, slower = sum(counts), max(1.0, core / link)
        rows = np.arange(total) % len(self.words)
        run = self.send(counts, rows)
        manifest = self.manifest
        interval = max(manifest.ii * core / link, manifest.beats_in, manifest.beats_out)
        ends = np.cumsum([self.layout.response_bytes(count) // 64 for count in counts]) - 1
        assert run.last[ends].all()
        ends_at, first = run.emitted_at[ends], run.accepted_at[0]
        start_up = (manifest.latency_cycles + AROUND) * slower
        start_up += -(-counts[-1] // FLAGS_PER_BEAT)
        assert ends_at[-1] - first <= interval * total + start_up
        # Between batches there is no start-up: exactly the core's interval. The relative phase of
        # two clocks may shift a cycle; limiting gearboxes lose two cycles per batch.
        if len(set(counts)) == 1 and len(counts) > 1:
            steps = np.diff(ends_at) - interval * counts[0]
            if link == core:
                assert not steps.any()
            elif interval == manifest.ii * core / link:
                assert (np.abs(steps) <= 1).all() and abs(steps.sum()) <= 1
            else:
                assert ((steps >= -1) & (steps <= 3)).all()
        return float(ends_at[-1] - first) / total

    def check_pauses(
        self, number: int, *, most: int, seed: int, clocks: Sequence[tuple[int, int]] = CLOCKS
    ) -> int:
        """Run random batches with random pauses on both sides, at each clock; return cycles."""
        print(f"seed {seed}")
        rng = np.random.default_rng(seed)
        names = list(PATTERNS)
        cycles = 0
        for turn in range(number):
            link, core = clocks[turn % len(clocks)]
            self.card.clocks(link=link, core=core)
            counts = [int(n) for n in rng.integers(1, most + 1, size=rng.integers(1, 5))]
            rows = rng.integers(0, len(self.words), size=sum(counts))
            idle, stall = (
                PATTERNS[names[rng.integers(len(names))]](seed=int(rng.integers(1 << 30)))
                for _ in range(2)
            )
            first = int(rng.integers(0, 1 << 31))
            cycles += self.send(counts, rows, first_sequence=first, idle=idle, stall=stall).cycles
        return cycles
