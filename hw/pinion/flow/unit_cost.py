"""Estimated cost of units by their kinds, without scheduling or synthesis."""

from __future__ import annotations

from collections.abc import Mapping

from pinion.gateware import multiplier_count
from pinion.hls import UnitKind
from pinion.synthesis.estimate import dsp_of_product


def unit_cost(units: Mapping[UnitKind, int]) -> tuple[int, int]:
    """Return the estimated DSP48E2 blocks of units, and the total bits of their operands."""
    blocks = bits = 0
    for kind, count in units.items():
        unit_blocks = multiplier_count(kind)
        if kind.products:
            ports = kind.widths[: 2 * kind.products]
            unit_blocks = sum(
                dsp_of_product(a, b) for a, b in zip(ports[::2], ports[1::2], strict=True)
            )
        blocks += count * unit_blocks
        bits += count * sum(kind.widths)
    return blocks, bits
