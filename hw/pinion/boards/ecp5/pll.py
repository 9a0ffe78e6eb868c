"""Dividers for the ECP5's PLL, and the PLL's primitive.

Ranges as in LiteX (class ECP5PLL) and Project Trellis (ecppll), which name Lattice's guide
FPGA-TN-02200 as their source; the guide itself was not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf

from amaranth.hdl import Instance, Signal

INPUT_MHZ = (8.0, 400.0)
OUTPUT_MHZ = (3.125, 400.0)
VCO_MHZ = (400.0, 800.0)
PHASE_MHZ = (10.0, 400.0)
"""Ranges of the input, the output, the oscillator and the phase detector [MHz]."""

_DIVIDER = 128


class ClockError(ValueError):
    """Error for a clock that the PLL cannot generate."""


@dataclass(frozen=True, kw_only=True)
class Pll:
    """Dividers of the PLL; its oscillator runs at ``input / reference * feedback * loop``.

    The loop uses the first output, CLKOP; the design's clock is the second, CLKOS, so that its
    divider is independent.

    Members
    -------
    input_mhz : input clock.
    reference, feedback, loop, output : CLKI_DIV, CLKFB_DIV, CLKOP_DIV, CLKOS_DIV.
    """

    input_mhz: float
    reference: int
    feedback: int
    loop: int
    output: int

    @property
    def vco_mhz(self) -> float:
        """Frequency of the PLL's oscillator [MHz]."""
        return self.input_mhz * self.feedback * self.loop / self.reference

    @property
    def mhz(self) -> float:
        """Frequency of the output [MHz]."""
        return self.vco_mhz / self.output

    def instance(self, *, clock: Signal, result: Signal, locked: Signal) -> Instance:
        """Return an instance of the primitive ``EHXPLLL`` with these dividers.

        Parameters
        ----------
        clock, result, locked : the board's clock, the design's, and whether it is steady.
        """
        loop = Signal(name="pll_loop")
        return Instance(
            "EHXPLLL",
            p_PLLRST_ENA="DISABLED",
            p_INTFB_WAKE="DISABLED",
            p_STDBY_ENABLE="DISABLED",
            p_DPHASE_SOURCE="DISABLED",
            p_OUTDIVIDER_MUXA="DIVA",
            p_OUTDIVIDER_MUXB="DIVB",
            p_OUTDIVIDER_MUXC="DIVC",
            p_OUTDIVIDER_MUXD="DIVD",
            p_FEEDBK_PATH="CLKOP",
            p_CLKI_DIV=self.reference,
            p_CLKFB_DIV=self.feedback,
            p_CLKOP_ENABLE="ENABLED",
            p_CLKOP_DIV=self.loop,
            # No phase shift: a divider's initial count is its divisor minus one.
            p_CLKOP_CPHASE=self.loop - 1,
            p_CLKOP_FPHASE=0,
            p_CLKOS_ENABLE="ENABLED",
            p_CLKOS_DIV=self.output,
            p_CLKOS_CPHASE=self.output - 1,
            p_CLKOS_FPHASE=0,
            a_FREQUENCY_PIN_CLKI=f"{self.input_mhz:g}",
            a_FREQUENCY_PIN_CLKOP=f"{self.vco_mhz / self.loop:.6g}",
            a_FREQUENCY_PIN_CLKOS=f"{self.mhz:.6g}",
            a_ICP_CURRENT="12",
            a_LPF_RESISTOR="8",
            i_RST=0,
            i_STDBY=0,
            i_CLKI=clock,
            i_CLKFB=loop,
            i_PHASESEL0=0,
            i_PHASESEL1=0,
            i_PHASEDIR=1,
            i_PHASESTEP=1,
            i_PHASELOADREG=1,
            i_PLLWAKESYNC=0,
            i_ENCLKOP=0,
            i_ENCLKOS=0,
            o_CLKOP=loop,
            o_CLKOS=result,
            o_LOCK=locked,
        )


def nearest_pll(*, input_mhz: float, wanted_mhz: float) -> Pll:
    """Return the dividers for the nearest clock; of equals, those with the fastest phase detector.

    Parameters
    ----------
    input_mhz : frequency of the board's oscillator.
    wanted_mhz : desired frequency of the design.

    Raises
    ------
    ClockError
        If either is outside the PLL's range.
    """
    for name, value, (low, high) in (
        ("accepts an input clock", input_mhz, INPUT_MHZ),
        ("generates an output clock", wanted_mhz, OUTPUT_MHZ),
    ):
        if not low <= value <= high:
            raise ClockError(f"The PLL {name} of {low:g} to {high:g} MHz, not {value:g} MHz.")
    best: Pll | None = None
    distance = (inf, 0.0, 0.0)
    for reference in range(1, _DIVIDER + 1):
        phase = input_mhz / reference
        if not PHASE_MHZ[0] <= phase <= PHASE_MHZ[1]:
            continue
        for product in range(ceil(VCO_MHZ[0] / phase), int(VCO_MHZ[1] / phase) + 1):
            vco = phase * product
            output = min(_DIVIDER, max(1, round(vco / wanted_mhz)))
            # The loop's output must be within the outputs' range as well.
            loop = next((d for d in range(2, _DIVIDER + 1) if product % d == 0), None)
            if loop is None or product // loop > _DIVIDER:
                continue
            if not OUTPUT_MHZ[0] <= vco / loop <= OUTPUT_MHZ[1]:
                continue
            error = round(abs(vco / output - wanted_mhz), 9)
            candidate = (error, float(reference), abs(vco - sum(VCO_MHZ) / 2))
            if candidate < distance:
                distance = candidate
                best = Pll(
                    input_mhz=input_mhz,
                    reference=reference,
                    feedback=product // loop,
                    loop=loop,
                    output=output,
                )
    if best is None:
        raise ClockError(f"No PLL dividers give {wanted_mhz:g} MHz from {input_mhz:g} MHz.")
    return best
