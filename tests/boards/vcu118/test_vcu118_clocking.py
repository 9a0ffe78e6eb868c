"""The core's clock: every setting is within the manager's limits and near the requested clock."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinion.boards.pins import BoardError
from pinion.boards.xilinx.board import board_names, load_board
from pinion.boards.xilinx.clocking import (
    CLOCK_MHZ,
    DETECTOR_MHZ,
    DIVIDE_MOST,
    MULTIPLY,
    OUTPUT_MOST,
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


def test_limits_are_those_of_the_data_sheet() -> None:
    """DS923, speed grade -2 at 0.85 V, and UG572 for the factors."""
    assert (VCO_MHZ, DETECTOR_MHZ, CLOCK_MHZ) == ((800, 1600), (10, 500), (10, 650))
    assert (MULTIPLY, DIVIDE_MOST, OUTPUT_MOST) == ((2, 128), 106, 128)


@pytest.mark.parametrize(
    ("source", "target", "setting", "mhz"),
    [
        # At limits: the clock's, the detector's on both sides, each factor's, the oscillator's.
        (125.0, 10.0, (10, 1, 125), 10.0),
        (125.0, 650.0, (52, 5, 2), 650.0),
        (500.0, 100.0, (3, 1, 15), 100.0),
        (10.0, 20.0, (128, 1, 64), 20.0),
        (100.0, 12.5, (16, 1, 128), 12.5),
        # Beyond the detector's upper limit a divider is needed; eighths on both sides.
        (501.0, 250.0, (62.375, 20, 6.25), 249.999),
        (1000.0, 100.0, (3, 2, 15), 100.0),
        (5310.0, 50.0, (2.5, 12, 22.125), 50.0),
        # The nearest below, with the smallest divider that comes so near.
        (125.0, 333.333, (126.625, 10, 4.75), 333.2236842105263),
        (125.0, 533.3, (98.125, 8, 2.875), 533.2880434782609),
        (156.25, 99.9, (84.875, 9, 14.75), 99.89995291902072),
        # A hertz more is the same clock, printed.
        (125.0, 49.9999995, (12, 1, 30), 50.0),
    ],
)
def test_settings_of_clocks(
    source: float, target: float, setting: tuple[float, int, float], mhz: float
) -> None:
    choice = choose_mmcm(source, target)
    assert (choice.multiply, choice.divide, choice.output_divide) == setting
    assert choice.mhz == mhz
    assert choice.parameters()["CLKIN1_PERIOD"] == pytest.approx(1000.0 / source, abs=5e-4)


def test_oscillators_outside_the_detectors_range_are_refused() -> None:
    for source in (0.5, 9.99):
        with pytest.raises(BoardError, match=f"^An oscillator of {source} MHz cannot give 50 MHz"):
            choose_mmcm(source, 50.0)


def test_the_links_clock_is_met_to_a_kilohertz() -> None:
    board = load_board("vcu118")
    for mhz in (249.9991, 250.0009):
        assert core_clock(board, mhz) is None and reachable_mhz(board, mhz) == 250.0
    for mhz in (249.999, 250.001):
        assert core_clock(board, mhz) is not None
