"""``pinion bench link``: measured rows, the driver alone, and the model, each labelled."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.bench.link import measure as bench_link
from pinion.card.instant import InstantCard
from pinion.card.packets import PacketCard
from pinion.card.transport import InProcessCard
from pinion.console.errors import UsageError
from pinion.driver import Device
from pinion.functions import Function
from pinion.link import layout_of
from pinion.request import BuildRequest
from pinion.robot import Model
from tests.cli.conftest import Pinion
from tests.control import small_arm
from tests.support.fuzz.devices import plain
from tests.support.fuzz.packets import compute


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build folder whose card is a model in Python, so nothing is compiled."""
    manifest = plain()
    manifest.write(tmp_path)

    @contextmanager
    def opened(path: Path, device: str, standin: bool) -> Iterator[Device]:
        assert (path, device, standin) == (tmp_path, "sim", False)
        card = InProcessCard(card=PacketCard(layout=layout_of(manifest), compute=compute))
        with Device(manifest=manifest, transport=card) as opened_device:
            yield opened_device

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
    completed = pinion("bench", "link", folder, "--largest", 1, "--seconds", 0)
    assert completed.code == 0 and completed.err == ""
    output = " ".join(completed.out.split())
    card, _, rest = output.partition("The driver alone")
    driver, _, model = rest.partition("MODEL, not measured")
    assert "wall time of a simulation" in card and "GB/s" in driver
    assert "Model, not measured; clocks assumed" in model
    assert "not shown" in model and "paper 2021" not in model, "rnea is not what the paper did"


def test_what_does_not_go_together_is_refused(folder: Path, pinion: Pinion) -> None:
    pinion("bench", "link", "a", "b", "c").refused("'a b c'", "build folder")
    pinion("bench", "link", folder, "--standin", "--device", "xdma:0").refused("--standin")
    pinion("bench", "core", folder).refused("accept targets: leave", "out for 'core'")
    pinion("bench", "link", folder / "nowhere").refused("not a build folder")


def test_a_build_is_named_by_its_folder_or_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, str, Path]] = []
    arm = small_arm.urdf(tmp_path / "two.urdf")

    def build(
        model: Model, row: Function, path: Path, request: BuildRequest, **options: Any
    ) -> None:
        assert (request.ii, request.formats) == (8, "auto")
        calls.append((model.source, row.name, path))
        path.mkdir()
        plain().write(path)

    # The package has a function of the module's name, so the module is imported.
    monkeypatch.setattr(importlib.import_module("pinion.flow"), "build", build)
    assert bench_link.find_build(["some/folder"], tmp_path) == Path("some/folder")
    for _ in range(2):
        build_folder = bench_link.find_build([str(arm), "rnea"], tmp_path)
        assert build_folder == tmp_path / "two_rnea"
    assert calls == [(str(arm), "rnea", tmp_path / "two_rnea")]
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
