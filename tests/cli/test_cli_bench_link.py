"""``pinion bench link``: the measured rows, the driver alone, and the model, each as what it is."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.card.instant import InstantCard
from pinion.card.packets import PacketCard
from pinion.card.transport import InProcessCard
from pinion.cli import bench_link, bench_link_model
from pinion.cli.errors import UsageError
from pinion.driver import Device
from pinion.driver.card import layout_of
from pinion.link import Array, Manifest
from tests.cli.conftest import Pinion
from tests.support.fuzz.devices import plain
from tests.support.fuzz.packets import compute

PAPER = {
    "FPGA": {16: 15.8, 32: 25.3, 64: 44.3, 128: 81.8},
    "CPU": {16: 29.4, 32: 42.3, 64: 73.7, 128: 133.2},
    "GPU": {16: 25.5, 32: 27.7, 64: 33.1, 128: 44.2},
}


def gradient(**changes: Any) -> Manifest:
    """The numbers of the default build: 21 words in, 105 out, ii 8."""
    fields: dict[str, Any] = {
        **{"robot": "iiwa14", "function": "fd_derivatives", "ii": 8, "total_latency_cycles": 194},
        "inputs": tuple(Array(name=n, shape=(7,), unit="") for n in ("q", "qd", "tau")),
        "outputs": (
            Array(name="qdd", shape=(7,), unit=""),
            *(Array(name=n, shape=(7, 7), unit="") for n in ("dqdd_dq", "dqdd_dqd")),
        ),
        **{"lanes_in": 3, "beats_in": 7, "lanes_out": 14, "beats_out": 8},
    }
    return replace(plain(), **{**fields, **changes})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build folder whose card is a model in Python, so that nothing is compiled."""
    manifest = plain()
    manifest.write(tmp_path)

    @contextmanager
    def opened(path: Path, device: str, standin: bool) -> Iterator[Device]:
        assert (path, device, standin) == (tmp_path, "sim", False)
        card = InProcessCard(card=PacketCard(layout=layout_of(manifest), compute=compute))
        with Device(manifest=manifest, transport=card) as found:
            yield found

    monkeypatch.setattr(bench_link, "_device", opened)
    return tmp_path


def test_every_row_says_what_was_measured(folder: Path, pinion: Pinion) -> None:
    options = ("--largest", 100, "--seconds", 0.05)
    data = pinion("bench", "link", folder, *options, "--json").json
    assert (data["bench"], data["robot"], data["device"]) == ("link", "two_link", "sim")
    assert data["simulated"] is True and data["folder"] == str(folder)
    assert (data["words_in"], data["words_out"]) == (7, 5)
    for rows in (data["batches"], data["driver"]):
        assert [row["requests"] for row in rows] == [1, 10, 100]
        assert all(row["repeats"] >= 1 and 0 <= row["median_s"] <= row["p99_s"] for row in rows)
    for row in data["batches"]:
        assert row["results_per_second"] == pytest.approx(row["requests"] / row["median_s"])
        assert row["device_cycles"] == 10 and row["device_s"] == pytest.approx(10 / 250e6)
        assert row["flight_s"] == pytest.approx(row["device_s"] + row["link_s"], abs=1e-6)
        assert min(row["pack_s"], row["unpack_s"], row["flight_s"]) > 0
    for row in data["driver"]:
        assert row["card_s"] > 0 and row["both_gb_per_s"] > 0
    assert data["model"]["measured"] is False


def test_the_tables_say_what_they_are_worth(folder: Path, pinion: Pinion) -> None:
    done = pinion("bench", "link", folder, "--largest", 1, "--seconds", 0)
    assert done.code == 0 and done.err == ""
    said = " ".join(done.out.split())
    card, _, rest = said.partition("The driver alone")
    driver, _, model = rest.partition("MODEL, not measured")
    assert "wall time of a simulation" in card and "GB/s" in driver
    assert "Model, not measured; clocks assumed" in model
    assert "not shown" in model and "paper 2021" not in model, "rnea is not what the paper did"


def test_what_does_not_go_together_is_refused(folder: Path, pinion: Pinion) -> None:
    pinion("bench", "link", "a", "b", "c").refused("'a b c'", "build folder")
    pinion("bench", "link", folder, "--standin", "--device", "xdma:0").refused("--standin")
    pinion("bench", "core", folder).refused("core takes no")
    pinion("bench", "link", folder / "nowhere").refused("not a build folder")


def test_a_build_is_named_by_its_folder_or_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, str, Path]] = []

    def build(robot: str, function: str, path: Path, **options: Any) -> None:
        assert (options["ii"], options["formats"]) == (8, "auto")
        made.append((robot, function, path))
        path.mkdir()
        plain().write(path)

    # The package has a function of the module's name, so the module is asked for by import.
    monkeypatch.setattr(importlib.import_module("pinion.flow.build"), "build", build)
    assert bench_link.find_build(["some/folder"], tmp_path) == Path("some/folder")
    for _ in range(2):
        found = bench_link.find_build(["arms/two.urdf", "rnea"], tmp_path)
        assert found == tmp_path / "two_rnea"
    assert made == [("arms/two.urdf", "rnea", tmp_path / "two_rnea")]
    assert bench_link.find_build([], tmp_path) == tmp_path / "iiwa14_fd_derivatives"
    with pytest.raises(UsageError, match="'a b c'"):
        bench_link.find_build(["a", "b", "c"], tmp_path)


def test_a_card_that_answers_at_once() -> None:
    card = InstantCard(layout=layout_of(plain()))
    with Device(manifest=plain(), transport=card) as device:
        for count in (1, 3, 700):
            result = device.run(x=np.ones((count, 7), np.float32))
            assert result.y.shape == (count, 5) and not result.y.any()
            assert not result.saturated.any()
        device.reset()
        assert device.run(x=np.ones(7)).y.shape == (5,)
    assert card.spent > 0


# -- the model


def test_bytes_and_cycles_of_the_model_are_exact() -> None:
    manifest = gradient()
    layout = layout_of(manifest)
    assert (layout.words_in, layout.words_out) == (21, 105)
    (stock,) = (link for link in bench_link_model.LINKS if link.name == "stock")
    row = bench_link_model.estimate(manifest, layout, stock, 128)
    sent, received = 64 * (1 + 168), 64 * (2 + 840 + 1)
    assert (row["request_bytes"], row["response_bytes"]) == (sent, received)
    card = (194 + 127 * 8 + 4) / 250
    assert row["card_us"] == pytest.approx(card)
    assert row["least_us"] == pytest.approx(25 + max(sent / 6000, card, received / 6000))
    assert row["most_us"] == pytest.approx(60 + sent / 5000 + card + received / 5000)


def test_the_stream_may_be_slower_than_the_core() -> None:
    fast = gradient(ii=1)
    step = bench_link_model.card_us(fast, 101) - bench_link_model.card_us(fast, 1)
    assert step == pytest.approx(100 * 105 / 16 / 250)
    slow = gradient(clock_mhz=125.0)
    assert bench_link_model.card_us(slow, 1) == pytest.approx(194 / 125 + 4 / 250)
    assert bench_link_model.framing_beats(512) == 4 and bench_link_model.framing_beats(513) == 5


def test_the_model_stands_beside_the_paper_and_says_what_it_assumes() -> None:
    manifest = gradient()
    data = bench_link_model.model(manifest, layout_of(manifest))
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


def test_the_paper_is_shown_beside_its_own_function_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for function, shown in (("fd_derivatives", True), ("fd_derivatives_from_minv", True)):
        manifest = gradient(function=function)
        bench_link_model.show(bench_link_model.model(manifest, layout_of(manifest)))
        printed = capsys.readouterr().out
        assert ("paper 2021, FPGA" in printed) is shown
        assert ("81.8 f" in printed) is shown and "not measured" in printed
    manifest = gradient(robot="hyq")
    bench_link_model.show(bench_link_model.model(manifest, layout_of(manifest)))
    assert "paper 2021" not in capsys.readouterr().out
