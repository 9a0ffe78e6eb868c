"""Registers, profile and discovery."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinion.card.packets import PacketCard
from pinion.driver import Device, Profile
from pinion.driver.discover import cards
from pinion.driver.profile import Meter
from pinion.link import PROTOCOL_VERSION, REGISTERS, function_id, layout_of
from pinion.link.registers import IDENTITY, QUIET
from tests.driver.cards import BIG, Card, compute, manifest, states


@pytest.fixture
def device() -> Iterator[Device]:
    with Device(manifest=manifest(), transport=Card(), chunk=4) as opened:
        yield opened


def test_registers_by_name(device: Device) -> None:
    arrays = states(10, seed=1)
    arrays["q"][3, 0] = 2 * BIG
    device.run(**arrays)
    registers = device.registers
    assert registers.IDENTITY == IDENTITY and registers.VERSION == PROTOCOL_VERSION
    assert manifest().hash == registers.BUILD
    assert manifest().hash & 0xFFFFFFFF == registers.BUILD_LOW
    assert function_id("made_up") == registers.FUNCTION_0
    assert (registers.ACCEPTED, registers.ANSWERED, registers.FLAGGED) == (10, 10, 1)
    assert registers.BATCHES == 3 and registers.BUSY == 21 and registers.ERROR == 0
    with pytest.raises(AttributeError, match=r"no register 'TYPO'; use one of IDENTITY, "):
        _ = registers.TYPO
    assert {"ACCEPTED", "BUSY", "dump"} <= set(dir(registers))


def test_all_registers_at_once(device: Device) -> None:
    device.run(**states(6, seed=1))
    values = device.registers.dump()
    assert values["ACCEPTED"] == 6 and values["BUILD"] == manifest().hash
    names = {row.name for row in REGISTERS}
    missing = {name for name in names if name not in values}
    assert all(name.endswith(("_LOW", "_HIGH")) for name in missing) and "BUSY" in values


def test_a_wide_counter_belongs_together() -> None:
    card = Card()
    with Device(manifest=manifest(), transport=card) as device:
        card.card._values["BUSY_LOW"] = 0x1_FFFF_FFFF
        assert device.registers.BUSY == 0x1_FFFF_FFFF


def test_the_profile_adds_up(device: Device) -> None:
    for seed in range(5):
        device.run(**states(10, seed=seed))
    p = device.profile
    assert (p.batches, p.packets, p.records) == (5, 15, 50)
    assert p.device_cycles == 15 * 7 and p.link_mhz == 250.0
    assert p.device_seconds == pytest.approx(15 * 7 / 250e6)
    layout = layout_of(manifest())
    sizes = (4, 4, 2)
    assert p.bytes_in == 5 * sum(map(layout.request_bytes, sizes))
    assert p.bytes_out == 5 * sum(map(layout.response_bytes, sizes))
    assert p.pack_seconds > 0 and p.unpack_seconds > 0 and p.flight_seconds > 0
    assert p.link_seconds == pytest.approx(p.flight_seconds - p.device_seconds)
    assert (p.faults, p.recoveries, p.resent) == (0, 0, 0)
    assert device.reset_profile() == p
    assert device.profile == Profile(link_mhz=250.0) and device.profile.link_seconds == 0


def test_a_profile_without_a_clock_and_with_a_typo() -> None:
    meter = Meter(link_mhz=0.0)
    meter.add(device_cycles=5)
    assert meter.read().device_seconds == 0.0
    with pytest.raises(KeyError, match="no cycles"):
        meter.add(cycles=5)


# Discovery of cards.


def put(folder: Path, name: str, card: PacketCard) -> Path:
    path = folder / f"{name}_user"
    path.write_bytes(
        b"".join(card.read_register(i).to_bytes(4, "little") for i in range(0, 256, 4))
    )
    return path


def some_card() -> PacketCard:
    return PacketCard(layout=layout_of(manifest()), compute=compute, interval=4, core_khz=150_000)


def test_cards_are_found_and_not_disturbed(tmp_path: Path) -> None:
    for name in ("xdma10", "xdma2"):
        path = put(tmp_path, name, some_card())
    path.chmod(0o444)
    before = path.read_bytes()
    for extra in ("xdma0_h2c_0", "null", "xdma_user", "user"):
        (tmp_path / extra).write_bytes(b"")
    listing = cards(tmp_path)
    assert [Path(card.prefix).name for card in listing] == ["xdma2", "xdma10"]
    card = listing[0]
    assert card.accessible and card.identity == IDENTITY and card.version == PROTOCOL_VERSION
    assert card.build == manifest().hash and card.functions == (function_id("made_up"),)
    assert (card.words_in, card.words_out, card.interval) == (10, 8, 4)
    assert (card.core_khz, card.link_khz) == (150_000, 250_000)
    assert (card.status, card.error) == (QUIET, 0)
    assert path.read_bytes() == before


def test_cards_that_cannot_be_used_say_why(tmp_path: Path) -> None:
    (tmp_path / "xdma0_user").write_bytes(bytes(256))
    (tmp_path / "xdma1_user").write_bytes(b"PNIN")
    (tmp_path / "xdma2_user").write_bytes(b"")
    (tmp_path / "xdma3_user").mkdir()
    closed = put(tmp_path, "xdma4", some_card())
    closed.chmod(0)
    listing = cards(tmp_path)
    problems = [card.problem for card in listing]
    assert "first register is 0x00000000" in problems[0] and listing[0].identity == 0
    assert "not a register space" in problems[1] and "not a register space" in problems[2]
    assert "errno" in problems[3]
    if os.geteuid():
        assert "may not be opened" in problems[4]
    assert not any(card.accessible for card in listing[:4])


def test_a_folder_without_cards(tmp_path: Path) -> None:
    assert cards(tmp_path) == [] and cards(tmp_path / "nowhere") == []
