"""Estimates for the real link, which nothing here has measured: equations and assumptions.

The equations stand in ``docs/link.md``, "A model of the real link". Figures of the 2021 paper,
which stand beside them, come from ``published.toml``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from .terminal import out, say, table

if TYPE_CHECKING:
    from pinion.link import Layout, Manifest

SIZES = (16, 32, 64, 128)
"""Requests of the paper's batches."""

LINK_MHZ = 250.0
"""The clock of the DMA engine's user side."""

FIXED_US = (25.0, 60.0)
"""A write and a read, however small: system calls, descriptors, interrupts."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """Rates of a link, least and most, in GB/s (1e9 bytes).

    Members
    -------
    name : of the row.
    to_card, to_host : (least, most).
    text : whose figures they are.
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
        text="the vendor's driver, one thread a direction: 5 to 6 GB/s each way",
    ),
    Link(
        name="best",
        to_card=(9.3, 9.3),
        to_host=(11.9, 11.9),
        text="a better driver on the same family of parts, PCIe Gen3 x16: 9.3 GB/s in, 11.9 out",
    ),
)


def framing_beats(count: int) -> int:
    """Beats of headers, flags and trailer of a packet and its response."""
    from pinion.link import FLAGS_PER_BEAT

    return 3 + -(-count // FLAGS_PER_BEAT)


def card_us(manifest: Manifest, count: int) -> float:
    """Time of the card for one packet, the host always ready [us].

    The first result after the core's whole latency, each further one after as long as the slowest
    of core and streams takes for it.
    """
    from pinion.link import WORDS_PER_BEAT

    step = max(
        manifest.ii / manifest.clock_mhz,
        manifest.words_in / WORDS_PER_BEAT / LINK_MHZ,
        manifest.words_out / WORDS_PER_BEAT / LINK_MHZ,
    )
    first = manifest.total_latency_cycles / manifest.clock_mhz
    return first + (count - 1) * step + framing_beats(count) / LINK_MHZ


def estimate(manifest: Manifest, layout: Layout, link: Link, count: int) -> dict[str, Any]:
    """One estimate of the time from call to last result.

    Returns
    -------
    ``requests, link, request_bytes, response_bytes, card_us``; ``least_us``: the smaller fixed time
    and the higher rates, transfers and computing overlap entirely; ``most_us``: the larger fixed
    time and the lower rates, nothing overlaps.
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


def published() -> list[dict[str, Any]]:
    """End-to-end figures of the paper: ``name, robot, function, source`` and ``us`` by batch."""
    data = tomllib.loads((files("pinion.cli") / "published.toml").read_text())
    return [
        {
            **{key: row[key] for key in ("name", "robot", "function")},
            "us": {int(count): us for count, us in row["us"]["value"].items()},
            **{key: row["us"][key] for key in ("kind", "source", "where")},
        }
        for row in data["end_to_end"]
    ]


def model(manifest: Manifest, layout: Layout) -> dict[str, Any]:
    """All estimates, what they assume, and what was published."""
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
        "estimates": [estimate(manifest, layout, link, count) for link in LINKS for count in SIZES],
        "published": published(),
    }


def comparable(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The published rows that may stand beside this build: the same robot's gradient."""
    return [
        row
        for row in data["published"]
        if row["robot"] == data["robot"] and data["function"] in (row["function"], *_ALIKE)
    ]


_ALIKE = ("fd_derivatives",)
"""Functions that answer the same question as the paper's: this one makes M^-1 itself."""


def show(data: Mapping[str, Any]) -> None:
    """The table, and what it is worth."""
    beside = comparable(data)
    out().print(_table(data["estimates"], beside))
    assumed = data["assumed"]
    links = "; ".join(f"{name}, {text}" for name, text in assumed["links"].items())
    low, high = assumed["fixed_us"]
    say(
        "Model, not measured; clocks assumed: no board has run this, and no tool has confirmed "
        f"{assumed['core_mhz']:g} MHz for the core and {assumed['link_mhz']:g} MHz for the link. "
        f"Microseconds from the call to the last of N results of {data['robot']} "
        f"{data['function']}. least: {low:g} us fixed, the higher rates, transfers and computing "
        f"overlap entirely; most: {high:g} us fixed, the lower rates, nothing overlaps. Links: "
        f"{links}. card is the card's own share. "
        + (
            "f: read off a plot of the 2021 paper (plancher2021 of 'pinion bench core'), the "
            "gradient with M^-1 given, at 55.6 MHz on its FPGA. "
            if beside
            else "The paper's figures are for the gradient of the iiwa14 and not shown. "
        )
        + "The equations and their sources are in docs/link.md."
    )


def _table(estimates: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> Any:
    lines: list[tuple[object, ...]] = []
    for link in LINKS:
        mine = [row for row in estimates if row["link"] == link.name]
        spans = [f"{row['least_us']:.1f} - {row['most_us']:.1f}" for row in mine]
        lines.append((f"model, {link.name}", *spans))
    first = [row for row in estimates if row["link"] == LINKS[0].name]
    lines.append(("  of it, card", *(f"{row['card_us']:.2f}" for row in first)))
    for row in rows:
        figures = (row["us"].get(count) for count in SIZES)
        shown = (None if us is None else f"{us:.1f} f" for us in figures)
        lines.append((f"paper 2021, {row['name']}", *shown))
    return table(
        "end to end, us",
        *(f"N = {count}" for count in SIZES),
        rows=lines,
        title="MODEL, not measured: the real link",
    )
