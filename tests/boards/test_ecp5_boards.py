"""Boards with an ECP5 as data, for bitstreams of the dynamics processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pinion.boards.ecp5.bitstream import lpf
from pinion.boards.ecp5.platform import CAPACITIES, ULX3S, EcpBoard, board_of
from pinion.boards.ecp5.pll import nearest_pll
from pinion.boards.ecp5.processor import write_processor
from pinion.boards.ecp5.top import SERIAL, board_rtlil
from pinion.boards.pins import BoardError
from pinion.processor import Machine
from pinion.processor.machine_file import read_machine_file

PINS = """net,package_pin,iostandard,direction,note,source
CLK12,A9,LVCMOS33,in,oscillator,schematic
RXD,B3,LVCMOS33,in,,schematic
TXD,C4,LVCMOS33,out,,schematic
LED_A,D5,LVCMOS25,out,,schematic
"""

BOARD = """title = "A board of my own"
part = "LFE5UM5G-45F-8CABGA381"
pins = "mine.csv"
[clock]
net = "CLK12"
mhz = 12.0
[serial]
rx = "RXD"
tx = "TXD"
properties = { PULLMODE = "UP" }
[leds]
nets = ["LED_A"]
properties = { DRIVE = 4 }
[processor]
lanes = 1
rows = 64
"""


def board(folder: Path, text: str = BOARD, pins: str = PINS) -> EcpBoard:
    (folder / "mine.csv").write_text(pins)
    path = folder / "mine.toml"
    path.write_text(text)
    file = read_machine_file(path)
    return board_of(file.board, file.path)


def test_the_part_without_pins_is_on_a_ulx3s() -> None:
    file = read_machine_file("ulx3s_25f")
    small = board_of(file.board, file.path)
    assert small.pads == ULX3S.pads and small.oscillator_mhz == 25.0
    assert small.nextpnr_part == ("--25k", "--package", "CABGA381", "--speed", "6")
    assert small.capacity == CAPACITIES["25"] and small.lights == 8
    assert lpf(board=small) == lpf().replace("LFE5U-85F", "LFE5U-25F")


def test_another_board_has_its_part_pins_clock_and_leds(tmp_path: Path) -> None:
    mine = board(tmp_path)
    assert mine.nextpnr_part == ("--um5g-45k", "--package", "CABGA381", "--speed", "8")
    assert (mine.name, mine.lights, mine.capacity) == ("mine", 1, CAPACITIES["45"])
    assert lpf(board=mine).splitlines() == [
        "# Written by Pinion for the LFE5UM5G-45F-8CABGA381 of a A board of my own.",
        "BLOCK RESETPATHS;",
        "BLOCK ASYNCPATHS;",
        'LOCATE COMP "clk25" SITE "A9";',
        'IOBUF PORT "clk25" IO_TYPE=LVCMOS33;',
        'LOCATE COMP "rx" SITE "B3";',
        'IOBUF PORT "rx" IO_TYPE=LVCMOS33 PULLMODE=UP;',
        'LOCATE COMP "tx" SITE "C4";',
        'IOBUF PORT "tx" IO_TYPE=LVCMOS33 PULLMODE=UP;',
        'LOCATE COMP "led[0]" SITE "D5";',
        'IOBUF PORT "led[0]" DRIVE=4 IO_TYPE=LVCMOS25;',
        'FREQUENCY PORT "clk25" 12 MHZ;',
    ]
    small = Machine(lanes=1, rows=64, constants=16, inputs=16, results=8, functions=4)
    write_processor(tmp_path / "design", small, board=mine, clock_mhz=48.0)
    text = (tmp_path / "design" / "board.il").read_text()
    assert 'attribute \\FREQUENCY_PIN_CLKI "12"' in text


@pytest.mark.parametrize("lights", [0, 1, 3, 9])
def test_a_board_may_have_few_leds_or_many(lights: int) -> None:
    text = board_rtlil(nearest_pll(input_mhz=25.0, wanted_mhz=50.0), SERIAL, lights)
    assert ("\\led" in text) == bool(lights)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("LFE5UM5G-45F-8CABGA381", "XC7A35T", "'XC7A35T' is not an ECP5 part"),
        ("LFE5UM5G-45F-8CABGA381", "LFE5U-44F-6CABGA381", "'LFE5U-44F-6CABGA381' is not"),
        ('pins = "mine.csv"', "", "has the table 'clock' but no table of pins"),
        ('pins = "mine.csv"', 'pins = "none.csv"', "none.csv' is not a valid table of pins"),
        ('rx = "RXD"\n', "", "lacks 'rx'"),
        ('rx = "RXD"', 'rx = "NO"', "lacks the net 'NO'"),
        ('rx = "RXD"', 'rx = "TXD"', "net 'TXD' is used as 'in', but its table of pins has 'out'"),
        ("mhz = 12.0", 'mhz = "fast"', "'fast'"),
        ("mhz = 12.0", "mhz = -1", "-1"),
        ('"UP"', '"UP;\\nLOCATE"', "the property PULLMODE of 'RXD' cannot be 'UP;\\nLOCATE'"),
        ('["LED_A"]', "3", "not a valid board file"),
        ("[serial]", "[uart]", "lacks 'serial'"),
    ],
)
def test_a_wrong_file_is_refused(old: str, new: str, reason: str, tmp_path: Path) -> None:
    assert BOARD.count(old) == 1
    with pytest.raises(BoardError) as error:
        board(tmp_path, BOARD.replace(old, new))
    assert reason in str(error.value) and "mine.toml" in str(error.value)


def test_a_wrong_table_of_pins_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match=r"mine.toml.*not a valid ball"):
        board(tmp_path, pins=PINS.replace("A9", "9A"))
    with pytest.raises(BoardError, match="IO_TYPE"):
        board(tmp_path, pins=PINS.replace("RXD,B3,LVCMOS33", "RXD,B3,"))


def test_data_of_any_kind_are_refused_with_a_message() -> None:
    for data in ({"part": 4}, {"pins": 3}, {"pins": "x", "clock": 2}):
        with pytest.raises(BoardError):
            board_of(dict[str, Any](data), Path("mine.toml"))
