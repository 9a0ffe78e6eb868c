"""Link section of a build's page: records, and their time on a link."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .blocks import Data, bars, folded, note
from .html import element, page_table, text
from .table import FigureTable


def link_section(build: Data, k: int) -> str:
    """Return HTML with records, arrays, bytes, beats, the bottleneck, and a model of the link."""
    m = build["manifest"]
    arrays = FigureTable(
        columns=("array", "of the", "unit", "shape", "words"),
        rows=[
            (a["name"], which, a["unit"], " x ".join(map(str, a["shape"])) or "1", _words(a))
            for which, arrays in (("request", m["inputs"]), ("result", m["outputs"]))
            for a in arrays
        ],
        left=4,
        note="Constants, and one half of a symmetric matrix, are not sent.",
    )
    card = _card(build["link"], m)
    cards = build["facts"].get("cards")
    if cards is not None and m["target"] not in cards:
        line = (
            f"The target {m['target']} has no PCIe: the following would apply to this core on a "
            f"card with PCIe ({' or '.join(cards)})."
        )
        card = folded("On a card with PCIe", element("p", {}, text(line)) + card)
    return page_table(arrays) + card


def _card(link: Data, m: Data) -> str:
    record = FigureTable(
        columns=("record", "words", "bytes", "beats of 512 bits", "bytes in a packet of one"),
        rows=[
            (which, words, 4 * words, f"{link[f'beats_{way}']:.2f}", link[packet])
            for which, words, way, packet in (
                ("request", link["bytes_in"] // 4, "in", "request_1"),
                ("result", m["words_out"], "out", "response_1"),
            )
        ],
        note="Records of a packet have no gaps between them, so a record may end inside a beat.",
    )
    longest = max(link["us_each"].values())
    chart = bars(
        [
            (name, us, longest, f"{1e3 * us:.1f} ns per request")
            for name, us in link["us_each"].items()
        ],
        "Time per request of each stage: the longest is the bottleneck",
    )
    assumed = link["model"]["assumed"]
    line = (
        f"Limited by {link['bound']}: the core's clock at an assumed {assumed['core_mhz']:g} MHz, "
        f"the link's at {assumed['link_mhz']:g} MHz."
    )
    table = FigureTable(
        columns=(
            "driver",
            "requests",
            "bytes in",
            "bytes out",
            "card, us",
            "least, us",
            "most, us",
        ),
        rows=[
            (
                *(row["link"], row["requests"], row["request_bytes"], row["response_bytes"]),
                *(f"{row[key]:.1f}" for key in ("card_us", "least_us", "most_us")),
            )
            for row in link["model"]["estimates"]
        ],
        title="MODEL, not measured: from call to last result",
    )
    drivers = " ".join(f"Driver '{name}' is {words}." for name, words in assumed["links"].items())
    sentence = (
        f"{drivers} A write and a read take {assumed['fixed_us'][0]:g} to "
        f"{assumed['fixed_us'][1]:g} us at any size. Least: {assumed['least']}. Most: "
        f"{assumed['most']}. No board has run this; the equations are on the page docs/link.md of "
        "Pinion's source."
    )
    return (
        element("p", {}, text(line))
        + chart
        + page_table(record)
        + page_table(table)
        + note(sentence)
    )


def _words(array: Mapping[str, Any]) -> int:
    """Return the number of words of an array that the link transfers."""
    sent = array["sent"]
    return math.prod(array["shape"]) if sent is None else len(sent)
