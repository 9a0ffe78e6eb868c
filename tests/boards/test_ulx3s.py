"""The ULX3S: clocks, pins, and the flow to a bitstream for a design that routes in seconds."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Module
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from pinion.base.progress import Progress
from pinion.boards.ecp5 import bitstream as flow
from pinion.boards.ecp5.platform import ULX3S, pins
from pinion.boards.ecp5.pll import (
    INPUT_MHZ,
    OUTPUT_MHZ,
    PHASE_MHZ,
    VCO_MHZ,
    ClockError,
    nearest_pll,
)
from pinion.boards.ecp5.top import CARD, LINES, SPI, board_rtlil
from pinion.cli.bitstream import summary
from pinion.gateware.link.uart import UartReceiver, UartTransmitter, bit_length
from pinion.link import Manifest, ManifestError
from tests.support.builds import build

CLOCK = 50.0


@pytest.mark.parametrize("mhz", [3.125, 25, 33.3, 48, 50, 60, 62.5, 75, 80, 100, 133.33, 400])
def test_dividers_are_in_range_and_near(mhz: float) -> None:
    pll = nearest_pll(input_mhz=25.0, wanted_mhz=mhz)
    phase = pll.input_mhz / pll.reference
    assert PHASE_MHZ[0] <= phase <= PHASE_MHZ[1]
    assert VCO_MHZ[0] <= pll.vco_mhz <= VCO_MHZ[1]
    assert OUTPUT_MHZ[0] <= pll.vco_mhz / pll.loop <= OUTPUT_MHZ[1]
    assert all(1 <= d <= 128 for d in (pll.reference, pll.feedback, pll.loop, pll.output))
    # The loop keeps its output at the phase detector's rate.
    assert pll.vco_mhz / pll.loop / pll.feedback == pytest.approx(phase)
    assert pll.mhz == pytest.approx(mhz, rel=0.02)
    if mhz in (25, 50, 60, 62.5, 75, 80, 100):
        assert pll.mhz == pytest.approx(mhz)


def test_impossible_clocks_are_refused() -> None:
    assert INPUT_MHZ[0] <= 25 <= INPUT_MHZ[1]
    with pytest.raises(
        ClockError, match=r"generates an output clock of 3\.125 to 400 MHz, not 500 MHz"
    ):
        nearest_pll(input_mhz=25, wanted_mhz=500)
    with pytest.raises(ClockError, match="accepts an input clock of 8 to 400 MHz, not 5 MHz"):
        nearest_pll(input_mhz=5, wanted_mhz=50)


def ports(text: str) -> dict[str, int]:
    """Return the width of each port of module ``pinion_board`` in RTLIL."""
    body = text[text.index("module \\pinion_board\n") :]
    body = body[: body.index("\nend\n")]
    wires = re.findall(r"wire width (\d+) (?:input|output) \d+\s+\\(\S+)", body)
    return {name: int(width) for width, name in wires}


@pytest.mark.parametrize("line", LINES)
def test_every_port_has_a_pin_and_every_pin_a_port(line: str) -> None:
    widths = ports(board_rtlil(nearest_pll(input_mhz=25, wanted_mhz=CLOCK), line))
    pads = {
        pad
        for name, width in widths.items()
        for pad in ([name] if width == 1 else [f"{name}[{index}]" for index in range(width)])
    }
    text = flow.lpf(line)
    assert set(re.findall(r'LOCATE COMP "([^"]+)"', text)) == pads
    assert set(re.findall(r'IOBUF PORT "([^"]+)"', text)) == pads
    balls = re.findall(r'SITE "(\w+)"', text)
    assert len(set(balls)) == len(balls)


def test_pins_are_those_of_the_board() -> None:
    """From the board's constraints (emard/ulx3s): the clock, and the bridge's two wires."""
    table = {pad: ball for pad, (ball, _) in pins().items()}
    assert (table["clk25"], table["rx"], table["tx"]) == ("G2", "M1", "L4")
    leds = [table[f"led[{index}]"] for index in range(8)]
    assert leds == ["B2", "C2", "C1", "D2", "D1", "E2", "E1", "H3"]
    assert all(attributes["IO_TYPE"] == "LVCMOS33" for _, attributes in pins().values())


def test_the_spi_line_is_on_the_header() -> None:
    """GP0 to GP3 of the board's constraints (emard/ulx3s); the chip select is pulled up."""
    table = pins(SPI)
    balls = [table[pad][0] for pad in ("sck", "cs", "mosi", "miso")]
    assert balls == ["B11", "A10", "A9", "B9"]
    assert [pad for pad, (_, at) in table.items() if at.get("PULLMODE") == "UP"] == ["cs"]
    assert all(attributes["IO_TYPE"] == "LVCMOS33" for _, attributes in table.values())


class Echo(wiring.Component):
    """Card that echoes bytes through two block RAMs, small enough to route fast."""

    def __init__(self) -> None:
        super().__init__({"clk": In(1), "rst": In(1), "rx": In(1), "tx": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sync = ClockDomain("sync", local=True)
        sync.clk, sync.rst = self.clk, self.rst
        m.domains += sync
        length = bit_length(clock_hz=50e6, baud=3e6)
        m.submodules.receiver = receiver = UartReceiver(length=length)
        m.submodules.transmitter = transmitter = UartTransmitter(length=length)
        m.submodules.bytes = queue = SyncFIFOBuffered(width=8, depth=4096)
        wiring.connect(m, queue.r_stream, transmitter.i)
        m.d.comb += [receiver.line.eq(self.rx), self.tx.eq(transmitter.line)]
        m.d.comb += [queue.w_data.eq(receiver.data), queue.w_en.eq(receiver.valid)]
        return m


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("ulx3s") / "two_link"
    build("two_link", "rnea", where, ii=8, formats="auto18", clock_mhz=CLOCK)
    return where


@pytest.mark.slow  # `make ulx3s` creates one as well
def test_a_bitstream_comes_out(folder: Path) -> None:
    manifest = Manifest.read(folder)
    flow.write_ulx3s(folder, manifest)
    target = folder / flow.NAME
    card = (target / flow.CARD).read_text()
    assert f"module \\{CARD}\n" in card and "module \\pinion_core\n" in card
    (target / flow.CARD).write_text(rtlil.convert(Echo(), name=CARD, emit_src=False))
    steps: list[str] = []
    result = flow.bitstream(folder, progress=Progress(steps.append), timeout=1800)
    assert result["met"] and result["fmax_mhz"] >= CLOCK == result["clock_mhz"]
    assert 100 < result["use"]["lut4"] < 1000 and result["use"]["dp16kd"] == 2
    assert result["share"]["lut4"] == round(100 * result["use"]["lut4"] / ULX3S.capacity["lut4"], 1)
    path = result["critical_path"]
    assert path["delay_ns"] == pytest.approx(1000 / result["fmax_mhz"], abs=0.01)
    assert path["delay_ns"] == pytest.approx(path["logic_ns"] + path["routing_ns"], abs=0.01)
    assert dict(summary(result))["critical path"] == (
        f"{path['delay_ns']} ns, of which {path['routing_ns']} in wires, from {path['start']} to "
        f"{path['end']}"
    )
    bits = Path(result["bitstream"]).read_bytes()
    # A comment, the preamble of the ECP5, then at least the frames of such a part.
    assert b"\xff\xff\xbd\xb3" in bits[:256] and b"LFE5U-85F" in bits[:256]
    assert len(bits) > 50_000
    page = Path(result["report"]).read_text()
    assert f"| LUT4 | {result['use']['lut4']} | 83640 |" in page and "Critical path" in page
    assert len(steps) >= 3


def test_builds_for_other_boards_are_refused(folder: Path, tmp_path: Path) -> None:
    manifest = Manifest.read(folder)
    with pytest.raises(ClockError, match=r"cannot clock a core at 49\.9 MHz: build it for 50"):
        flow.write_ulx3s(folder, manifest, clock_mhz=49.9)
    with pytest.raises(ManifestError):
        flow.bitstream(tmp_path)
    where = tmp_path / "other"
    where.mkdir()
    (where / "manifest.json").write_text((folder / "manifest.json").read_text())
    with pytest.raises(ManifestError, match="has no valid design for the ULX3S"):
        flow.bitstream(where)


@pytest.mark.slow
def test_a_bitstream_stays_until_the_design_changes(tmp_path: Path) -> None:
    where = tmp_path / "build"
    options = {"target": "ulx3s", "formats": "auto18"}
    build("pendulum", "rnea", where, ii=8, **options)
    bit = where / flow.NAME / flow.BIT
    bit.write_bytes(b"made in an hour")
    build("pendulum", "rnea", where, ii=8, **options)
    assert bit.read_bytes() == b"made in an hour"
    # The same core, but a line of the board's files has changed.
    lpf = where / flow.NAME / flow.LPF
    lpf.write_text(lpf.read_text() + "# by hand\n")
    build("pendulum", "rnea", where, ii=8, **options)
    assert not bit.exists() and "by hand" not in lpf.read_text()
    bit.write_bytes(b"made in an hour")
    build("pendulum", "rnea", where, ii=4, **options)
    assert not bit.exists()


def test_progress_is_read_from_the_log() -> None:
    """Lines of nextpnr 0.11."""
    log = "Info: Running Static placer...\nInfo: coord_dist: 0.14 grad_dist: 0.17\n"
    assert flow.tool_step(log) is None
    log += "Info: overlap: COMB=87.3%, FF=81.1%, RAM=53.3%, MUL=23.5%\nInfo: iter=279 step\n"
    assert flow.tool_step(log) == "Placing: 87.3 % of the LUTs overlap"
    log += "Info:   at iteration #10: temp = 0.000000, timing cost = 967, wirelen = 163603\n"
    assert flow.tool_step(log) == "Placing: refining"
    log += "Info:     563000 |   177444     384229 |  442   558 |     13525|       3.21    1155.40|"
    assert flow.tool_step(log) == "Routing: 13,525 arcs are left"


def test_a_failing_tool_raises_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / flow.NETLIST).write_text("{}")
    (tmp_path / flow.LPF).write_text("")
    with pytest.raises(flow.BitstreamError, match="nextpnr_ecp5 failed"):
        flow.place_and_route(
            tmp_path, clock_mhz=50, seed=None, progress=Progress(print), timeout=1800
        )
    sleeping = [sys.executable, "-c", "import time; time.sleep(1800)"]
    monkeypatch.setattr(flow, "tool_command", lambda package, function: sleeping)
    with pytest.raises(flow.BitstreamError, match="nextpnr_ecp5 exceeded 0 s; its log is"):
        flow.place_and_route(tmp_path, clock_mhz=50, seed=7, progress=Progress(print), timeout=0)
