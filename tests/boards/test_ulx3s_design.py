"""Designs for the ULX3S: what primitives, pads and cards get, word for word."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from pinion.boards import processor
from pinion.boards.ecp5 import top as boards_top
from pinion.boards.ecp5.bitstream import lpf
from pinion.boards.ecp5.platform import ULX3S, pins
from pinion.boards.ecp5.pll import ClockError, Pll, nearest_pll
from pinion.boards.ecp5.spi_card import SpiCard, spi_card_rtlil
from pinion.boards.ecp5.top import (
    SPI,
    SerialBoard,
    SerialCard,
    board_rtlil,
    card_parameters,
    card_rtlil,
    processor_card_rtlil,
)
from pinion.gateware.link.bus import Bus
from pinion.gateware.link.top import Top
from pinion.processor import Machine
from tests.boards.cells import cell
from tests.boards.vcu118.stub import manifest

pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")

RECORD = manifest(target="ulx3s", clock_mhz=62.5)
MACHINE = Machine(lanes=1, rows=64, constants=16, inputs=16, results=8, functions=4)


def test_the_pll_gets_these_settings() -> None:
    pll = cell(board_rtlil(nearest_pll(input_mhz=25.0, wanted_mhz=61.3)), "pll")
    assert pll.kind == "EHXPLLL"
    assert pll.attributes == {
        "FREQUENCY_PIN_CLKI": '"25"',
        "FREQUENCY_PIN_CLKOP": '"87.5"',
        "FREQUENCY_PIN_CLKOS": '"61.25"',
        "ICP_CURRENT": '"12"',
        "LPF_RESISTOR": '"8"',
    }
    off = ("PLLRST_ENA", "INTFB_WAKE", "STDBY_ENABLE", "DPHASE_SOURCE")
    assert pll.parameters == {
        **dict.fromkeys(off, '"DISABLED"'),
        **{f"OUTDIVIDER_MUX{letter}": f'"DIV{letter}"' for letter in "ABCD"},
        "FEEDBK_PATH": '"CLKOP"',
        "CLKI_DIV": "2",
        "CLKFB_DIV": "7",
        "CLKOP_ENABLE": '"ENABLED"',
        "CLKOP_DIV": "7",
        "CLKOP_CPHASE": "6",
        "CLKOP_FPHASE": "0",
        "CLKOS_ENABLE": '"ENABLED"',
        "CLKOS_DIV": "10",
        "CLKOS_CPHASE": "9",
        "CLKOS_FPHASE": "0",
    }
    zeros = ("RST", "STDBY", "PHASESEL0", "PHASESEL1", "PLLWAKESYNC", "ENCLKOP", "ENCLKOS")
    ones = ("PHASEDIR", "PHASESTEP", "PHASELOADREG")
    assert pll.constants() == {**dict.fromkeys(zeros, "1'0"), **dict.fromkeys(ones, "1'1")}
    assert pll.ports["CLKI"] == "\\clk25 [0]"
    assert pll.ports["CLKFB"] == f"{pll.ports['CLKOP']} [0]" != f"{pll.ports['CLKOS']} [0]"


@pytest.mark.parametrize(
    ("source", "target", "dividers"),
    [
        # The limits of the phase detector, the oscillator, the output and the input.
        (10.0, 50.0, (1, 30, 2, 12)),
        (10.0, 3.125, (1, 20, 2, 128)),
        (400.0, 200.0, (1, 1, 2, 4)),
        (400.0, 400.0, (1, 1, 2, 2)),
        (25.0, 3.125, (1, 8, 2, 128)),
        (25.0, 400.0, (1, 8, 2, 1)),
        (400.0, 3.125, (1, 1, 2, 128)),
        # 129 would hit it.
        (403.125 / 39, 3.125, (1, 13, 3, 128)),
        # Only another reference comes near.
        (399.0, 10.0, (7, 5, 2, 57)),
        (16.0, 7.7, (1, 13, 3, 81)),
        (25.0, 61.3, (2, 7, 7, 10)),
    ],
)
def test_dividers_of_clocks(source: float, target: float, dividers: tuple[int, ...]) -> None:
    names = ("reference", "feedback", "loop", "output")
    expected = Pll(input_mhz=source, **dict(zip(names, dividers, strict=True)))
    if (source, target) == (400.0, 3.125):
        pll = nearest_pll(input_mhz=source, wanted_mhz=target)
        assert (pll.mhz, pll.output) == (3.125, 128)
    else:
        assert nearest_pll(input_mhz=source, wanted_mhz=target) == expected


def test_clocks_beside_the_limits_are_refused() -> None:
    nearest_pll(input_mhz=400.0, wanted_mhz=400.0)
    for source, target, sentence in (
        (7.9, 50.0, "The PLL accepts an input clock of 8 to 400 MHz, not 7.9 MHz."),
        (400.1, 50.0, "The PLL accepts an input clock of 8 to 400 MHz, not 400.1 MHz."),
        (25.0, 3.12, "The PLL generates an output clock of 3.125 to 400 MHz, not 3.12 MHz."),
        (25.0, 400.1, "The PLL generates an output clock of 3.125 to 400 MHz, not 400.1 MHz."),
        (8.0, 50.0, "No PLL dividers give 50 MHz from 8 MHz."),
        (9.99, 50.0, "No PLL dividers give 50 MHz from 9.99 MHz."),
    ):
        with pytest.raises(ClockError) as error:
            nearest_pll(input_mhz=source, wanted_mhz=target)
        assert str(error.value) == sentence


LEDS = ("B2", "C2", "C1", "D2", "D1", "E2", "E1", "H3")
PADS = {
    "clk25": ("G2", {"IO_TYPE": "LVCMOS33"}),
    **{f"led[{k}]": (ball, {"IO_TYPE": "LVCMOS33", "DRIVE": "4"}) for k, ball in enumerate(LEDS)},
}
LINES = {
    "serial": {
        "rx": ("M1", {"IO_TYPE": "LVCMOS33"}),
        "tx": ("L4", {"IO_TYPE": "LVCMOS33"}),
    },
    SPI: {
        "sck": ("B11", {"IO_TYPE": "LVCMOS33"}),
        "cs": ("A10", {"IO_TYPE": "LVCMOS33", "PULLMODE": "UP"}),
        "mosi": ("A9", {"IO_TYPE": "LVCMOS33"}),
        "miso": ("B9", {"IO_TYPE": "LVCMOS33"}),
    },
}


@pytest.mark.parametrize("line", LINES)
def test_pads_have_these_balls_and_attributes(line: str) -> None:
    assert pins(line) == PADS | LINES[line]
    text = lpf(line).splitlines()
    assert 'IOBUF PORT "led[3]" DRIVE=4 IO_TYPE=LVCMOS33;' in text
    assert len(text) == 3 + 2 * len(pins(line)) + 1
    assert ULX3S.nextpnr_part == ("--85k", "--package", "CABGA381", "--speed", "6")


def test_pads_rest_and_light_the_leds() -> None:
    pll = nearest_pll(input_mhz=25.0, wanted_mhz=50.0)
    rest = {name: signal.init for name, signal in SerialBoard(pll=pll).ports.items()}
    assert rest == {"clk25": 0, "rx": 1, "tx": 1, "led": 0}
    rest = {name: signal.init for name, signal in SerialBoard(pll=pll, line=SPI).ports.items()}
    assert rest == {"clk25": 0, "sck": 0, "cs": 1, "mosi": 0, "miso": 0, "led": 0}
    for line, drives, inverted in (
        ("serial", {"rx": "rx", "tx": "tx"}, "\\tx"),
        (SPI, {"sck": "sck", "cs": "cs", "mosi": "mosi", "miso": "miso"}, ""),
    ):
        text = board_rtlil(pll, line)
        card = cell(text, "card")
        assert card.kind == "pinion_serial"
        ports = {name: wire.split()[0] for name, wire in card.ports.items()}
        clock = ports.pop("clk")
        assert clock == cell(text, "pll").ports["CLKOS"] and ports.pop("rst") == "\\rst"
        assert ports == {name: f"\\{pad}" for name, pad in drives.items()}
        lights = [row.split()[3] for row in text.splitlines() if "    assign \\led [" in row]
        # It changes every 2**24 cycles.
        assert "    assign \\led [0] \\beat [24]\n" in text and "width 25 \\beat\n" in text
        assert lights[:1] == ["8'00000000"] and len(lights) == 5
        assert lights[2] == cell(text, "pll").ports["LOCK"]
        for light, pad in ((lights[3], next(p for p in drives if p in ("rx", "cs"))),):
            assert f"connect \\A \\{pad} [0]\n    connect \\Y {light}\n" in text
        if inverted:
            assert f"connect \\A {inverted} [0]\n    connect \\Y {lights[4]}\n" in text
        else:
            assert lights[4] == "\\miso"
        # 16 cycles from the lock to the end of the reset, counted from 0 again if it is lost.
        assert text.count("connect \\B 5'10000\n") == 2
        assert "case 2'-1\n        assign" in text and "[4:0] 5'00000\n" in text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "core.il").write_text("the core's text")
    return tmp_path


@pytest.mark.parametrize("states", [False, True])
def test_the_core_behind_the_spi_line_is_wired(folder: Path, states: bool) -> None:
    record = dataclasses.replace(RECORD, lanes_out=2, states={"x": 0.0} if states else {})
    text = spi_card_rtlil(folder, record)
    assert text.endswith("\nthe core's text") and "attribute \\src" not in text
    core = cell(text, "core")
    assert core.kind == "pinion_core"
    ports = dict(core.ports)
    assert ports.pop("reset_state", None) == ("1'0" if states else None)
    outputs = {name: ports.pop(name) for name in ("o_tdata", "o_tlast", "o_tuser")}
    assert ports == {
        "clk": "\\clk [0]",
        "rst": "\\rst [0]",
        "i_tdata": "\\request__payload [31:0]",
        "i_tvalid": "\\request__valid [0]",
        "i_tlast": "\\request__payload [32]",
        "i_tready": "\\request__ready",
        "o_tvalid": "\\result__valid",
        "o_tready": "\\result__ready [0]",
    }
    data, last, user = outputs.values()
    assert f"connect \\result__payload.data {data} [63:0]\n" in text
    assert f"connect \\result__payload.last {last} [0]\n" in text
    assert f"connect \\result__payload.user {user} [0]\n" in text
    slave = cell(text, "slave").ports
    lines = ("clk", "rst", "sck", "cs", "mosi", "miso")
    assert {name: slave[name] for name in lines} == {name: f"\\{name} [0]" for name in lines}
    rest = {name: getattr(SpiCard(manifest=record), name).init for name in lines}
    assert rest == {**dict.fromkeys(lines, 0), "cs": 1}


@pytest.mark.parametrize(
    ("lanes_in", "lanes_out", "words"), [(1, 1, 2), (2, 1, 2), (3, 1, 4), (1, 5, 8), (9, 2, 16)]
)
def test_a_card_has_the_narrowest_bus_for_its_lanes(
    lanes_in: int, lanes_out: int, words: int
) -> None:
    record = dataclasses.replace(RECORD, lanes_in=lanes_in, lanes_out=lanes_out)
    parameters = card_parameters(record, clock_mhz=50.0)
    assert parameters.bus == Bus(words=words)
    assert (parameters.depth, parameters.flights, parameters.crossing) == (64, 4, False)
    assert (parameters.core_khz, parameters.link_khz) == (50_000, 50_000)
    top = Top(parameters=dataclasses.replace(parameters, crossing=True))
    with pytest.raises(
        ValueError, match=r"^A serial card has one clock: .* crossing=False in its parameters\.$"
    ):
        SerialCard(top=top, length=64)


class Converter:
    """Stand-in for Amaranth's, which takes seconds for a card."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, dict[str, Any]]] = []

    def convert(self, design: Any, **options: Any) -> str:
        self.calls.append((design, options))
        return "the card's text"


def test_cards_are_converted_with_their_parameters(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    converter = Converter()
    monkeypatch.setattr(boards_top, "rtlil", converter)
    monkeypatch.setattr(processor, "rtlil", converter)
    text = card_rtlil(folder, RECORD, clock_mhz=48.0, baud=2e6)
    assert text == "the card's text\nthe core's text"
    machine = processor_card_rtlil(MACHINE, teams=2, clock_mhz=48.0006, baud=3e6, slots=96)
    assert machine == "the card's text"
    widest = processor.processor_rtlil(MACHINE, link_khz=250_000, teams=3)
    assert widest == "the card's text"
    processor_card_rtlil(MACHINE, clock_mhz=48.0)
    processor.processor_rtlil(MACHINE, link_khz=1)
    cards, options = zip(*converter.calls, strict=True)
    assert [named["name"] for named in options] == [
        *("pinion_serial", "pinion_serial", "pinion_top", "pinion_serial", "pinion_top")
    ]
    assert all(named["emit_src"] is False and len(named) == 2 for named in options)
    serial, small, wide, default, single = cards
    # A bit of 24 and of 16 cycles, in units of a 16th.
    assert (serial.length, serial.slots) == (24 * 16, 64)
    assert (small.length, small.slots) == (round(48.0006 / 3 * 16), 96)
    assert serial.top.parameters == card_parameters(RECORD, clock_mhz=48.0)
    parameters = small.top.parameters
    assert (parameters.machine, parameters.teams, parameters.link_khz) == (MACHINE, 2, 48_001)
    assert (parameters.depth, parameters.flights, parameters.bus) == (64, 4, Bus(words=2))
    assert (wide.parameters.machine, wide.parameters.teams) == (MACHINE, 3)
    assert (wide.parameters.link_khz, wide.parameters.bus) == (250_000, Bus())
    assert default.top.parameters.teams == single.parameters.teams == 1
    assert default.slots == 64
