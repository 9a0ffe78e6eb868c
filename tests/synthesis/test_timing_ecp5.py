"""The estimate for the ECP5 compared with nextpnr's placed and routed designs.

The record is `tests/synthesis/ecp5_nextpnr.json`; `python -m tests.support.ecp5_timing` makes it
anew.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from pinion.synthesis.delays import load_delays
from tests.support.ecp5_timing import (
    DESIGNS,
    estimated,
    line_of,
    map_design,
    place_and_route,
    read_record,
)

# Largest error of the estimate on the record: nextpnr's own result moves by 10 % with another seed.
LARGEST_ERROR = 0.25
# Designs further apart than this are put in the right order.
APART = 1.15


def error_of(name: str, estimate: dict[str, Any], mhz: float) -> float:
    error: float = estimate["mhz"]["typical"] / mhz - 1
    assert abs(error) <= LARGEST_ERROR, f"{name}: {error:+.0%}"
    return error


def in_order(estimates: dict[str, float], routed: dict[str, float]) -> list[tuple[str, str]]:
    """Return pairs that the estimate orders wrongly or considers equal."""
    pairs = [(a, b) for a, b in combinations(routed, 2)]
    pairs = [(a, b) if routed[a] < routed[b] else (b, a) for a, b in pairs]
    apart = [(a, b) for a, b in pairs if routed[b] >= APART * routed[a]]
    assert len(apart) >= 2, "the record has nothing to compare"
    return [(a, b) for a, b in apart if not estimates[a] < estimates[b]]


def test_the_record_covers_the_designs() -> None:
    record = read_record()
    assert set(record["designs"]) == set(DESIGNS) and len(DESIGNS) >= 6
    for name, line in record["designs"].items():
        assert line["delay_ns"] == pytest.approx(1000 / line["mhz"], rel=1e-3), name
        assert line["logic_ns"] + line["routing_ns"] == pytest.approx(line["delay_ns"], abs=2e-3)


@pytest.mark.parametrize("name", ["dot", "dot_one_register"])
def test_a_small_design_is_estimated_near_its_routed_clock(name: str, tmp_path: Path) -> None:
    line = read_record()["designs"][name]
    result = estimated(map_design(name, tmp_path), load_delays("ecp5"))
    assert abs(error_of(name, result, line["mhz"])) <= 0.1
    # Both find the product between two registers, or with the sum that it is added to.
    cells = result["paths"][0]["cells"]
    assert cells["MULT18X18D"] == 1
    if name == "dot":
        assert set(cells) == {"MULT18X18D"}
        # The product's own delay is the larger part.
        assert result["paths"][0]["nets_ns"] == pytest.approx(line["routing_ns"] - 0.45, abs=0.5)
    else:
        assert cells["CCU2C"] > 10


@pytest.mark.slow
def test_designs_are_put_in_the_order_of_their_routed_clocks(tmp_path: Path) -> None:
    record = read_record()["designs"]
    table = load_delays("ecp5")
    mhz: dict[str, float] = {}
    # Of the iiwa14 one core is mapped: the other one takes as long as all the rest.
    del record["iiwa14_rnea"]
    for name, line in record.items():
        result = estimated(map_design(name, tmp_path / name), table)
        error_of(name, result, line["mhz"])
        mhz[name] = result["mhz"]["typical"]
    routed = {name: line["mhz"] for name, line in record.items()}
    assert in_order(mhz, routed) == []
    # A table that knows no nets orders them wrongly.
    backwards = {name: 1 / value for name, value in mhz.items()}
    assert in_order(backwards, routed) != []


@pytest.mark.slow
def test_the_record_is_what_nextpnr_finds(tmp_path: Path) -> None:
    map_design("dot", tmp_path)
    assert place_and_route(tmp_path) == line_of(tmp_path) == read_record()["designs"]["dot"]
