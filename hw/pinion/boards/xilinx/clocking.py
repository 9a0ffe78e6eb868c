"""The core's clock: parameters of the clock manager (MMCME4) that derives it from an oscillator.

The limits are from the data sheet DS923 (table "MMCM Specification", speed grade -2 at 0.85 V) and
the primitive's guide (UG572): the oscillator (VCO) at 800 to 1600 MHz, the phase detector at 10 to
500 MHz, factors in eighths.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from pinion.boards.pins import BoardError

from .board import Board

VCO_MHZ = (Fraction(800), Fraction(1600))
DETECTOR_MHZ = (Fraction(10), Fraction(500))
MULTIPLY = (Fraction(2), Fraction(128))
DIVIDE_MOST = 106
OUTPUT_MOST = Fraction(128)
CLOCK_MHZ = (10.0, 650.0)
"""Range of the core's clock: from the clock manager's minimum to below the limit of its output."""

_STEP = Fraction(1, 8)
# 1 kHz, the resolution of a card's clock register.
_SAME_MHZ = 1e-3
# Tolerance for a frequency that was rounded to a decimal number.
_HERTZ = Fraction(1, 1_000_000)


@dataclass(frozen=True, kw_only=True)
class Mmcm:
    """Settings of the clock manager: ``input_mhz * multiply / divide / output_divide``."""

    input_mhz: Fraction
    multiply: Fraction
    divide: int
    output_divide: Fraction

    @property
    def vco_mhz(self) -> Fraction:
        """Frequency of the internal oscillator [MHz]."""
        return self.input_mhz * self.multiply / self.divide

    @property
    def detector_mhz(self) -> Fraction:
        """Frequency at the phase detector [MHz]."""
        return self.input_mhz / self.divide

    @property
    def mhz(self) -> float:
        """Frequency of the core's clock [MHz]."""
        return float(self.vco_mhz / self.output_divide)

    def parameters(self) -> dict[str, int | float]:
        """Return the primitive's parameters, by name."""
        return {
            "CLKIN1_PERIOD": round(1000.0 / float(self.input_mhz), 3),
            "CLKFBOUT_MULT_F": float(self.multiply),
            "DIVCLK_DIVIDE": self.divide,
            "CLKOUT0_DIVIDE_F": float(self.output_divide),
        }


def choose_mmcm(input_mhz: float, wanted_mhz: float) -> Mmcm:
    """Return the settings nearest to the requested clock, at most one hertz above it.

    Among equals it has the smallest input divider, then an integer output divider, then the
    fastest oscillator: each of these means less jitter.

    Raises
    ------
    BoardError
        If the requested clock is outside `CLOCK_MHZ`.
    """
    low, high = CLOCK_MHZ
    if not low <= wanted_mhz <= high:
        raise BoardError(
            f"The core cannot be clocked at {wanted_mhz:g} MHz: give {low:g} to {high:g} MHz."
        )
    source, limit_mhz = Fraction(input_mhz), Fraction(wanted_mhz) + _HERTZ
    best: tuple[tuple[Fraction, int, bool, Fraction], Mmcm] | None = None
    for divide in range(1, DIVIDE_MOST + 1):
        detector = source / divide
        if detector > DETECTOR_MHZ[1]:
            continue
        # Use a larger divider only for a clock that no smaller one gives.
        if detector < DETECTOR_MHZ[0] or (best is not None and best[0][0] <= _HERTZ):
            break
        first = max(MULTIPLY[0], _up(VCO_MHZ[0] / detector))
        last = min(MULTIPLY[1], VCO_MHZ[1] / detector)
        for eighths in range(int(first / _STEP), int(last / _STEP) + 1):
            vco = detector * eighths * _STEP
            output = _output(_up(vco / limit_mhz))
            if output > OUTPUT_MOST:
                continue
            setting = Mmcm(
                input_mhz=source,
                multiply=eighths * _STEP,
                divide=divide,
                output_divide=output,
            )
            key = (limit_mhz - vco / output, divide, output.denominator != 1, -vco)
            if best is None or key < best[0]:
                best = key, setting
    if best is None:
        raise BoardError(f"An oscillator of {input_mhz:g} MHz cannot give {wanted_mhz:g} MHz.")
    return best[1]


def core_clock(board: Board, wanted_mhz: float) -> Mmcm | None:
    """Return the MMCM settings for a core's clock; None if the core shares the link's clock."""
    if abs(wanted_mhz - board.link.clock_mhz) < _SAME_MHZ:
        return None
    return choose_mmcm(board.clock.mhz, wanted_mhz)


def reachable_mhz(board: Board, wanted_mhz: float) -> float:
    """Return the core clock [MHz] that a board can generate: the requested one, or slightly less.

    Raises
    ------
    BoardError
        If the requested clock is outside `CLOCK_MHZ`.
    """
    setting = core_clock(board, wanted_mhz)
    return board.link.clock_mhz if setting is None else setting.mhz


def _up(value: Fraction) -> Fraction:
    """Round up to a multiple of 1/8."""
    return -(-value // _STEP) * _STEP


def _output(divider: Fraction) -> Fraction:
    """Return the smallest valid output divider (1, or at least 2) that is not below `divider`."""
    return max(divider, Fraction(2)) if divider > 1 else Fraction(1)
