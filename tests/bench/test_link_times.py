"""The model of the real link: bytes, cycles, assumptions, and published times beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pinion.bench.link.table import link_times_table
from pinion.bench.published import published_times
from pinion.link import Array, Manifest, layout_of, transfer
from tests.support.fuzz.devices import plain

PAPER = {
    "FPGA": {16: 15.8, 32: 25.3, 64: 44.3, 128: 81.8},
    "CPU": {16: 29.4, 32: 42.3, 64: 73.7, 128: 133.2},
    "GPU": {16: 25.5, 32: 27.7, 64: 33.1, 128: 44.2},
}


def gradient(**changes: Any) -> Manifest:
    """The numbers of the default build: 21 words in, 105 out, ii 8."""
    fields: dict[str, Any] = {
        **{"robot": "iiwa14", "function": "fd_derivatives", "ii": 8, "latency_cycles": 194},
        "inputs": tuple(Array(name=n, shape=(7,), unit="") for n in ("q", "qd", "tau")),
        "outputs": (
            Array(name="qdd", shape=(7,), unit=""),
            *(Array(name=n, shape=(7, 7), unit="") for n in ("dqdd_dq", "dqdd_dqd")),
        ),
        **{"lanes_in": 3, "beats_in": 7, "lanes_out": 14, "beats_out": 8},
    }
    return replace(plain(), **{**fields, **changes})


def modelled(manifest: Manifest) -> dict[str, Any]:
    return {**transfer.model(manifest, layout_of(manifest)), "published": published_times()}


def test_bytes_and_cycles_of_the_model_are_exact() -> None:
    manifest = gradient()
    layout = layout_of(manifest)
    assert (layout.words_in, layout.words_out) == (21, 105)
    (stock,) = (link for link in transfer.LINKS if link.name == "stock")
    row = transfer.estimate_time(manifest, layout, stock, 128)
    sent, received = 64 * (1 + 168), 64 * (2 + 840 + 1)
    assert (row["request_bytes"], row["response_bytes"]) == (sent, received)
    card = (194 + 127 * 8 + 4) / 250
    assert row["card_us"] == pytest.approx(card)
    assert row["least_us"] == pytest.approx(25 + max(sent / 6000, card, received / 6000))
    assert row["most_us"] == pytest.approx(60 + sent / 5000 + card + received / 5000)


def test_the_stream_may_be_slower_than_the_core() -> None:
    fast = gradient(ii=1)
    step = transfer.card_us(fast, 101) - transfer.card_us(fast, 1)
    assert step == pytest.approx(100 * 105 / 16 / 250)
    slow = gradient(clock_mhz=125.0)
    assert transfer.card_us(slow, 1) == pytest.approx(194 / 125 + 4 / 250)
    assert transfer.framing_beats(512) == 4 and transfer.framing_beats(513) == 5


def test_the_model_stands_beside_the_paper_and_says_what_it_assumes() -> None:
    manifest = gradient()
    data = modelled(manifest)
    json.dumps(data, allow_nan=False)
    assert data["measured"] is False and data["assumed"]["fixed_us"] == [25.0, 60.0]
    assert (data["assumed"]["core_mhz"], data["assumed"]["link_mhz"]) == (250.0, 250.0)
    sizes = [(row["link"], row["requests"]) for row in data["estimates"]]
    assert sizes == [(link, n) for link in ("stock", "best") for n in (16, 32, 64, 128)]
    assert all(25 < row["least_us"] < row["most_us"] < 100 for row in data["estimates"])
    stock, best = data["estimates"][:4], data["estimates"][4:]
    assert all(a["most_us"] > b["most_us"] for a, b in zip(stock, best, strict=True))
    assert {row["name"]: row["us"] for row in data["published"]} == PAPER
    assert all(row["kind"] == "figure" and row["where"] for row in data["published"])


def test_the_paper_is_shown_beside_its_own_function_only() -> None:
    for function in ("fd_derivatives", "fd_derivatives_from_minv"):
        table = link_times_table(modelled(gradient(function=function)))
        (row,) = (row for row in table.rows if row[0] == "paper 2021, FPGA")
        assert row[-1] == "81.8 f" and "not measured" in table.note
    table = link_times_table(modelled(gradient(robot="hyq")))
    assert not any("paper" in str(row[0]) for row in table.rows) and "not shown" in table.note
