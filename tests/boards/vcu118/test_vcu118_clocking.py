"""The core's clock: every setting is within the manager's limits and near the requested clock."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinion.boards.xilinx.board import BoardError, board_names, load_board
from pinion.boards.xilinx.clocking import (
    CLOCK_MHZ,
    DETECTOR_MHZ,
    VCO_MHZ,
    choose_mmcm,
    core_clock,
    reachable_mhz,
)
from tests.support.breadth import some


@settings(max_examples=10)
@given(
    source=st.sampled_from([125.0, 156.25, 250.0, 300.0]),
    target=st.floats(*CLOCK_MHZ, allow_nan=False),
)
def test_a_setting_keeps_the_limits_and_is_never_too_fast(source: float, target: float) -> None:
    setting = choose_mmcm(source, target)
    assert VCO_MHZ[0] <= setting.vco_mhz <= VCO_MHZ[1]
    assert DETECTOR_MHZ[0] <= setting.detector_mhz <= DETECTOR_MHZ[1]
    assert 2 <= setting.multiply <= 128 and 1 <= setting.divide <= 106
    assert setting.output_divide == 1 or 2 <= setting.output_divide <= 128
    assert (8 * setting.multiply).denominator == (8 * setting.output_divide).denominator == 1
    assert setting.mhz <= target + 1e-6
    assert setting.mhz >= 0.995 * target


@pytest.mark.parametrize(
    "mhz",
    some([50, 62.5, 125, 180, 225, 300], (62.5, 180)),
)
@pytest.mark.parametrize("name", board_names())
def test_round_figures_are_met_exactly(name: str, mhz: float) -> None:
    board = load_board(name)
    assert reachable_mhz(board, mhz) == mhz
    # A reachable clock maps to itself, because a manifest stores it.
    odd = reachable_mhz(board, 0.99917 * mhz)
    assert reachable_mhz(board, odd) == odd


def test_parameters_make_the_clock() -> None:
    words = choose_mmcm(125.0, 200.0).parameters()
    assert words == {
        "CLKIN1_PERIOD": 8.0,
        "CLKFBOUT_MULT_F": 8.0,
        "DIVCLK_DIVIDE": 1,
        "CLKOUT0_DIVIDE_F": 5.0,
    }


def test_the_links_own_clock_needs_nothing() -> None:
    board = load_board("vcu118")
    assert core_clock(board, 250.0) is None
    assert reachable_mhz(board, 250.0) == 250.0
    assert core_clock(board, 249.0) is not None


@pytest.mark.parametrize("mhz", [0.0, 9.9, 650.1, float("nan")])
def test_clocks_outside_the_range_are_refused(mhz: float) -> None:
    with pytest.raises(BoardError, match="MHz: give 10 to 650"):
        choose_mmcm(125.0, mhz)
