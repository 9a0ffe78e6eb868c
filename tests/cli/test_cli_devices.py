"""``pinion devices``: good cards, strange files and empty folders."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer

from pinion.cli import devices
from pinion.cli.devices import command
from pinion.driver.discover import CardInfo
from pinion.link import MAX_COUNT, PROTOCOL_VERSION, REGISTERS, Cause, function_id, layout_of
from pinion.link.registers import HALTED, IDENTITY, QUIET, SPACE
from tests.cli.conftest import Done

FIELDS: dict[str, int] = {
    "IDENTITY": IDENTITY,
    "VERSION": PROTOCOL_VERSION,
    "BUILD_LOW": 0x89AB_CDEF,
    "BUILD_HIGH": 0x0123_4567,
    "FUNCTIONS": 1,
    "FUNCTION_0": function_id("rnea"),
    "WORDS_IN_0": 21,
    "WORDS_OUT_0": 7,
    "MAX_COUNT": MAX_COUNT,
    "INTERVAL": 8,
    "CORE_KHZ": 187_500,
    "LINK_KHZ": 250_000,
    "STATUS": QUIET,
}


def make(path: Path, values: Mapping[str, int], *, length: int = SPACE) -> None:
    """A file that reads like the registers of a card."""
    data = bytearray(SPACE)
    for row in REGISTERS:
        data[row.offset : row.offset + 4] = values.get(row.name, 0).to_bytes(4, "little")
    path.write_bytes(data[:length])


@pytest.fixture
def listed(capfd: pytest.CaptureFixture[str]) -> Any:
    """Run the verb as the app does."""
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command("devices")(command)

    def run(*arguments: object) -> Done:
        capfd.readouterr()
        code = app(args=[str(a) for a in arguments], standalone_mode=False)
        printed = capfd.readouterr()
        return Done(code or 0, printed.out, printed.err)

    return run


def test_a_good_card_is_told_in_numbers_and_names(listed: Any, tmp_path: Path) -> None:
    make(tmp_path / "xdma0_user", FIELDS)
    figures = listed("--at", tmp_path, "--json").json
    (card,) = figures["cards"]
    assert card == {
        "device": f"xdma:{tmp_path}/xdma0",
        "prefix": f"{tmp_path}/xdma0",
        **{"accessible": True, "problem": None, "identity": IDENTITY, "version": 1},
        **{"build": "0123456789abcdef", "functions": ["rnea"]},
        **{"words_in": 21, "words_out": 7, "interval": 8, "core_mhz": 187.5, "link_mhz": 250.0},
        **{"status": ["quiet"], "error": 0, "fault": None},
    }
    assert figures["at"] == str(tmp_path) and [s["name"] for s in figures["simulated"]] == ["sim"]
    output = listed("--at", tmp_path).out
    for text in ("rnea", "0123456789abcdef", "quiet", "187.5", "Always available: sim"):
        assert text in output
    assert "No card" not in output


def test_a_card_that_stopped_says_why(listed: Any, tmp_path: Path) -> None:
    make(tmp_path / "xdma3_user", {**FIELDS, "STATUS": HALTED, "ERROR": Cause.BUILD})
    (card,) = listed("--at", tmp_path, "--json").json["cards"]
    assert card["status"] == ["halted"] and card["error"] == Cause.BUILD
    assert card["fault"] == Cause.BUILD.sentence
    assert Cause.BUILD.sentence in " ".join(listed("--at", tmp_path).out.split())
    make(tmp_path / "xdma3_user", {**FIELDS, "ERROR": 77, "FUNCTION_0": 0xAB})
    (card,) = listed("--at", tmp_path, "--json").json["cards"]
    assert card["fault"] == "unknown cause 77" and card["functions"] == ["0x000000ab"]


def test_files_that_are_no_card_are_told_with_the_reason(listed: Any, tmp_path: Path) -> None:
    make(tmp_path / "xdma0_user", {**FIELDS, "IDENTITY": 0xFFFF_FFFF})
    make(tmp_path / "xdma1_user", FIELDS, length=10)
    make(tmp_path / "xdma2_user", FIELDS)
    make(tmp_path / "xdma10_user", FIELDS)
    (tmp_path / "xdma0_h2c_0").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("nothing")
    cards = listed("--at", tmp_path, "--json").json["cards"]
    assert [Path(card["prefix"]).name for card in cards] == ["xdma0", "xdma1", "xdma2", "xdma10"]
    assert [card["accessible"] for card in cards] == [False, False, True, True]
    assert "0xffffffff" in cards[0]["problem"] and cards[0]["build"] is None
    assert cards[1]["problem"] and cards[1]["status"] is None
    output = " ".join(listed("--at", tmp_path).out.split())
    for card in cards[:2]:
        assert f"{card['device']}: " in output


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_card_of_another_user(listed: Any, tmp_path: Path) -> None:
    make(tmp_path / "xdma0_user", FIELDS)
    (tmp_path / "xdma0_user").chmod(0)
    (card,) = listed("--at", tmp_path, "--json").json["cards"]
    assert not card["accessible"] and "udev" in card["problem"]


def test_no_card_is_a_sentence_that_says_what_to_do(listed: Any, tmp_path: Path) -> None:
    completed = listed("--at", tmp_path)
    output = " ".join(completed.out.split())
    assert f"No card: there are no files xdma*_user in {tmp_path}." in output
    assert "load the kernel module xdma" in output and "Always available: sim" in output
    assert listed("--at", tmp_path, "--json").json["cards"] == []


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(devices.UsageError, match=r"no folder '.*nowhere'"):
        command(at=tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("prefix", "device"),
    [
        ("/dev/xdma0", "xdma:0"),
        ("/dev/xdma12", "xdma:12"),
        ("/dev/other0", "xdma:/dev/other0"),
        ("/mnt/xdma0", "xdma:/mnt/xdma0"),
    ],
)
def test_the_name_to_open_a_card_by(prefix: str, device: str) -> None:
    assert devices._row(CardInfo(prefix=prefix))["device"] == device


def test_the_registers_of_the_test_are_those_of_a_card() -> None:
    from tests.support.fuzz.manifests import sample
    from tests.support.fuzz.registers import constants

    assert set(constants(sample())) <= set(FIELDS)
    assert layout_of(sample()).function == function_id("minv")
