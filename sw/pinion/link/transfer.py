"""Estimated times of the real link, from equations and assumptions, not from measurements.

The equations are in ``docs/link.md``, "A model of the real link".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .frames import Layout, layout_of
from .manifest import Manifest
from .protocol import FLAGS_PER_BEAT, WORDS_PER_BEAT

SIZES = (16, 32, 64, 128)
"""Requests of the paper's batches."""

LINK_MHZ = 250.0
"""The clock of the DMA engine's user side."""

FIXED_US = (25.0, 60.0)
"""Fixed time of a write and a read: system calls, descriptors, interrupts."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """Lowest and highest data rates of a link, in GB/s (1e9 bytes per second).

    Members
    -------
    name : name of the row.
    to_card, to_host : (least, most).
    text : source of the figures.
    """

    name: str
    to_card: tuple[float, float]
    to_host: tuple[float, float]
    text: str


LINKS = (
    Link(
        name="stock",
        to_card=(5.0, 6.0),
        to_host=(5.0, 6.0),
        text="the vendor's driver, one thread per direction: 5 to 6 GB/s in each",
    ),
    Link(
        name="best",
        to_card=(9.3, 9.3),
        to_host=(11.9, 11.9),
        text="a better driver on the same family of parts, PCIe Gen3 x16: 9.3 GB/s in, 11.9 out",
    ),
)


def framing_beats(count: int) -> int:
    """Return the number of beats of the headers, flags and trailer of a packet and its response."""
    return 3 + -(-count // FLAGS_PER_BEAT)


def card_us(manifest: Manifest, count: int) -> float:
    """Return the card's time for one packet with a host that is always ready [us].

    The first result takes the core's whole latency, each further one as long as the slowest of core
    and streams.
    """
    step = max(
        manifest.ii / manifest.clock_mhz,
        layout_of(manifest).words_in / WORDS_PER_BEAT / LINK_MHZ,
        manifest.words_out / WORDS_PER_BEAT / LINK_MHZ,
    )
    first = manifest.latency_cycles / manifest.clock_mhz
    return first + (count - 1) * step + framing_beats(count) / LINK_MHZ


def estimate_time(manifest: Manifest, layout: Layout, link: Link, count: int) -> dict[str, Any]:
    """Estimate the time from the call to the last result of a packet [us].

    Returns
    -------
    ``requests, link, request_bytes, response_bytes, card_us``; ``least_us``: with the smaller fixed
    time, the higher rates and complete overlap of transfers and computing; ``most_us``: with the
    larger fixed time, the lower rates and no overlap.
    """
    sent, received = layout.request_bytes(count), layout.response_bytes(count)
    card = card_us(manifest, count)
    (in_low, in_high), (out_low, out_high) = link.to_card, link.to_host
    # 1 GB/s is 1e3 bytes in a microsecond.
    least = FIXED_US[0] + max(sent / (1e3 * in_high), card, received / (1e3 * out_high))
    most = FIXED_US[1] + sent / (1e3 * in_low) + card + received / (1e3 * out_low)
    return {
        **{"requests": count, "link": link.name, "card_us": card},
        **{"request_bytes": sent, "response_bytes": received},
        **{"least_us": least, "most_us": most},
    }


def model(manifest: Manifest, layout: Layout) -> dict[str, Any]:
    """Return the estimates for every link and batch size, with their assumptions."""
    return {
        "measured": False,
        "robot": manifest.robot,
        "function": manifest.function,
        "assumed": {
            "core_mhz": manifest.clock_mhz,
            "link_mhz": LINK_MHZ,
            "fixed_us": list(FIXED_US),
            "least": "transfers and computing overlap entirely",
            "most": "nothing overlaps",
            "links": {link.name: link.text for link in LINKS},
        },
        "estimates": [
            estimate_time(manifest, layout, link, count) for link in LINKS for count in SIZES
        ],
    }
