"""Choice of the initiation interval: as short as the link sustains, if the core fits the part."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pinion.base.amounts import amount
from pinion.functions.blocks import PARAMETERS
from pinion.graph import Graph, op_counts

# Best published rates of PCIe Gen3 x16 with a Xilinx DMA on this die family, bytes per second.
HOST_TO_CARD = 9.3e9
CARD_TO_HOST = 11.9e9

# DSP48E2 of a VU9P, and of one product of two 32-bit words (Yosys' count).
PART_DSP = 6840
DSP_OF_PRODUCT = 4

# Share of the part's DSP blocks that one core may take: routing a fuller SLR fails in practice, and
# one of the three SLRs holds the PCIe block.
SHARE = 1 / 3


@dataclass(frozen=True)
class IntervalChoice:
    """Initiation interval [cycles], and a sentence that explains it."""

    ii: int
    why: str


def choose_interval(folded: Graph, *, clock_mhz: float) -> IntervalChoice:
    """Return the smallest interval that the link sustains and whose core fits a third of a VU9P.

    Parameters
    ----------
    folded : the graph with constant results and unread words already taken out.
    """
    # Parameters are sent once per packet.
    words_in = sum(word.block != PARAMETERS for word in folded.inputs)
    words_out = len(folded.outputs)
    counts = op_counts(folded)
    products = counts["mul"] + counts["mul_const"]
    cycle = 1e-6 / clock_mhz
    feed = 4 * words_in / HOST_TO_CARD / cycle
    drain = 4 * words_out / CARD_TO_HOST / cycle
    link = max(1, math.ceil(max(feed, drain)))
    part = max(1, math.ceil(products * DSP_OF_PRODUCT / (SHARE * PART_DSP)))
    rate = (
        f"{amount(words_in, 'word')} in and {words_out} out take {feed:.1f} and {drain:.1f} cycles "
        f"of {clock_mhz:g} MHz on PCIe Gen3 x16 at best"
    )
    if part > link:
        return IntervalChoice(
            part,
            f"{products} products on a third of a VU9P's {PART_DSP} DSP blocks, "
            f"{DSP_OF_PRODUCT} each, need {part} cycles ({rate}).",
        )
    if max(feed, drain) < 1:
        return IntervalChoice(1, f"{rate}; a core is never faster than a result every cycle.")
    return IntervalChoice(link, f"{rate}, so a faster core would wait for the link.")
