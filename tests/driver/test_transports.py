"""Transports are found by name, and cards with another build are refused."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from pinion import driver
from pinion.base.progress import Progress
from pinion.driver import Device, DriverError, Transport, WrongBuildError
from pinion.driver import transport as transport_module
from pinion.link import Manifest, ManifestError
from tests.driver.cards import Card, manifest

opened: list[tuple[Path, Manifest, str]] = []


def open_card(folder: Path, m: Manifest, address: str) -> Transport:
    opened.append((folder, m, address))
    return Card()


def open_slowly(folder: Path, m: Manifest, address: str, *, progress: Progress) -> Transport:
    progress.step("Compiling")
    return open_card(folder, m, address)


def open_nothing(folder: Path, m: Manifest, address: str) -> object:
    return object()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transports of other packages, as entry points."""
    module = "tests.driver.test_transports"
    points = {
        name: EntryPoint(name, value, transport_module.GROUP)
        for name, value in {
            "fake": f"{module}:open_card",
            "odd": f"{module}:open_nothing",
            "gone": "pinion_no_such_package:open_transport",
            "slow": f"{module}:open_slowly",
            "typo": f"{module}:open_crad",
        }.items()
    }
    monkeypatch.setattr(transport_module, "transports", lambda: points)
    opened.clear()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    manifest().write(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sim", "pinion.card.transport:open_transport"),
        ("xdma", "pinion.driver.xdma:open_transport"),
    ],
)
def test_the_transports_of_pinion_are_installed(name: str, value: str) -> None:
    if name not in driver.transports():
        pytest.skip(f"the installed package is older than the transport '{name}': install it again")
    assert driver.transports()[name].value == value


@pytest.mark.parametrize(
    ("device", "parts"),
    [
        ("sim", ("sim", "")),
        ("xdma:0", ("xdma", "0")),
        ("net:host:80", ("net", "host:80")),
        (":", ("", "")),
    ],
)
def test_device_names(device: str, parts: tuple[str, str]) -> None:
    assert driver.split_device(device) == parts


@pytest.mark.usefixtures("installed")
def test_a_transport_gets_folder_manifest_and_address(folder: Path) -> None:
    with driver.open(str(folder), device="fake:3") as device:
        assert isinstance(device, Device)
    assert opened == [(folder, manifest(), "3")]


@pytest.mark.usefixtures("installed")
def test_a_transport_that_takes_long_is_heard_and_others_need_not_be(folder: Path) -> None:
    steps: list[str] = []
    for device in ("slow:1", "fake:2"):
        driver.open(folder, device=device, progress=Progress(steps.append, print)).close()
    assert steps == ["Compiling"] and [address for *_, address in opened] == ["1", "2"]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("device", ["xdma:0", "", ":0", "Fake", "cpu"])
def test_an_unknown_transport_is_refused_with_those_installed(folder: Path, device: str) -> None:
    with pytest.raises(DriverError, match=r"installed: fake, gone, odd, slow, typo") as caught:
        driver.open(folder, device=device)
    assert f"'{device}'" in str(caught.value)
    assert "pinion.backend with device='cpu'" in str(caught.value)


def test_without_any_transport_the_message_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "transports", dict)
    with pytest.raises(DriverError, match="installed: none"):
        driver.open(folder)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("device", ["gone", "typo"])
def test_a_transport_that_cannot_be_imported_is_named(folder: Path, device: str) -> None:
    with pytest.raises(DriverError, match=f"'{device}' cannot be loaded"):
        driver.open(folder, device=device)


@pytest.mark.usefixtures("installed")
def test_a_transport_that_is_none_is_refused(folder: Path) -> None:
    with pytest.raises(DriverError, match=r"must return a pinion\.driver"):
        driver.open(folder, device="odd")


def test_a_folder_that_is_no_build_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="not a build folder"):
        driver.open(tmp_path / "nowhere")


def test_a_card_with_another_build_is_refused_and_closed() -> None:
    card = Card(build_hash=0xABC)
    with pytest.raises(WrongBuildError, match="another build") as caught:
        Device(manifest=manifest(), transport=card)
    assert "0000000000000abc" in str(caught.value)
    assert f"{manifest().hash:016x}" in str(caught.value)
    assert card.calls == ["close"]


def test_a_card_that_cannot_be_identified_is_closed() -> None:
    class Mute(Card):
        def read_register(self, offset: int) -> int:
            raise driver.TransportError("No answer.")

    card = Mute()
    with pytest.raises(driver.TransportError, match="No answer"):
        Device(manifest=manifest(), transport=card)
    assert card.calls == ["close"]
