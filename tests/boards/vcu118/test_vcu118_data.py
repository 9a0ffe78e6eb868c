"""Board files, their tables, and the platform and constraints derived from them."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from amaranth.build import DiffPairs, Pins, Resource, Subsignal

from pinion.base.constraints import constraints_folder
from pinion.boards.pins import BoardError, read_pins
from pinion.boards.xilinx.board import Board, board_names, load_board
from pinion.boards.xilinx.names import NAMES, load_names
from pinion.boards.xilinx.platform import VCU118Platform
from pinion.boards.xilinx.xdc import pads, pins_xdc
from pinion.boards.xilinx.xdma import configuration
from pinion.synthesis.resources import CAPACITY, PART

# The table's nets by resource of the platform; {} is a number, a sign or both.
RESOURCES = {
    "rst": "CPU_RESET",
    "clk300": "SYSCLK1_300_{sign}",
    "clk250": "CLK{one}_250_{sign}",
    "clk125": "SYSCLK_125_{sign}",
    "clk_user": "USER_SI570_{sign}",
    "led": "GPIO_LED_{number}",
    "button": "GPIO_SW_{way}",
    "switch": "GPIO_DIP_SW{one}",
    "uart.tx": "UART_TXD",
    "uart.rx": "UART_RXD",
    "uart.rts": "UART_RTS",
    "uart.cts": "UART_CTS",
    "i2c.scl": "IIC_MAIN_SCL",
    "i2c.sda": "IIC_MAIN_SDA",
    "i2c.mux_reset": "IIC_MUX_RESET_B",
    "pcie.refclk": "PCIE_REFCLK_Q225_{sign}",
    "pcie.perst": "PCIE_PERST_N",
    "pcie.rx": "PCIE_RX{bit}_{sign}",
    "pcie.tx": "PCIE_TX{bit}_{sign}",
    "pcie_refclk_x8": "PCIE_REFCLK_Q227_{sign}",
}
OPT = "[commands.opt_design]\n"
MODE, KEEP = "[values.synth_design.mode]\n", "[attributes.keep]\n"
SOFT = "[properties.pblock.IS_SOFT]\n"
DIRECTIONS = {"i": "in", "o": "out", "io": "inout"}


def platform_pins() -> Iterator[tuple[str, str, str, str]]:
    """Yield net, ball, I/O standard and direction of every pin of the platform."""

    def of(path: str, number: int, ios: tuple[object, ...], standard: str) -> Iterator[tuple]:
        for io in ios:
            if isinstance(io, Subsignal):
                yield from of(f"{path}.{io.name}", number, io.ios, _standard(io, standard))
            elif isinstance(io, DiffPairs):
                for sign, side in (("P", io.p), ("N", io.n)):
                    for bit, ball in enumerate(side.names):
                        yield _net(path, number, bit, sign), ball, standard, DIRECTIONS[io.dir]
            elif isinstance(io, Pins):
                for bit, ball in enumerate(io.names):
                    yield _net(path, number, bit, ""), ball, standard, DIRECTIONS[io.dir]

    for resource in VCU118Platform.resources:
        assert isinstance(resource, Resource)
        yield from of(resource.name, resource.number, resource.ios, _standard(resource, ""))


def _standard(subsignal: Subsignal, outer: str) -> str:
    return subsignal.attrs.get("IOSTANDARD", outer)


def _net(path: str, number: int, bit: int, sign: str) -> str:
    way = "CNESW"[number] if path == "button" else ""
    return RESOURCES[path].format(sign=sign, number=number, one=number + 1, bit=bit, way=way)


def broken(tmp_path: Path, file: str, old: str, new: str) -> Path:
    """Copy the constraints' folder and replace one text."""
    folder = tmp_path / "constraints"
    shutil.copytree(constraints_folder(), folder)
    text = (folder / file).read_text()
    assert text.count(old) == 1, f"{old!r} is not there once"
    (folder / file).write_text(text.replace(old, new))
    return folder


@pytest.mark.parametrize("name", board_names())
def test_every_board_names_nets_of_its_table_and_says_what_is_unknown(name: str) -> None:
    board = load_board(name)
    assert len(pads(board, crossing=True)) == 5 + 4 * 16 + len(board.leds.nets)
    assert any("not run" in text or "was run" in text for text in board.unknown)
    assert len(board.sources) >= 3
    assert board.floorplan.slr == "SLR1"
    # A third or a quarter of the part: dies are alike.
    assert all(board.die()[kind] * board.floorplan.slrs == n for kind, n in board.device.items())


def test_the_vcu118_is_the_part_that_resources_are_counted_against() -> None:
    board = load_board("vcu118")
    assert (board.part, dict(board.device)) == (PART, CAPACITY)
    assert len(board.pins) == 134


@pytest.mark.parametrize("name", board_names())
def test_lanes_run_down_the_quads(name: str) -> None:
    board = load_board(name)
    first = int(board.link.quad[-3:])
    for lane in range(board.link.lanes):
        quad, channel = first - lane // 4, 3 - lane % 4
        for stem in (board.link.rx, board.link.tx):
            note = board.pin(f"{stem}{lane}_P").note
            assert f"lane {lane}, GTY quad {quad}; " in note and f"P{channel}_{quad} " in note
    # The reference clock must reach from the first quad to the last: at most two quads away.
    clock = int(board.link.refclk[-3:])
    assert max(abs(first - clock), abs(first - board.link.lanes // 4 + 1 - clock)) <= 2


@pytest.mark.parametrize(
    ("file", "old", "new", "needle"),
    [
        ("vcu118.toml", 'net = "SYSCLK_125"', 'net = "SYSCLK_126"', "SYSCLK_126_P"),
        ("vcu118.toml", 'perst = "PCIE_PERST_N"', 'perst = "GPIO_LED_7"', "of pins has .out."),
        ("vcu118.toml", "lanes = 16", "lanes = 12", "lanes, not 12"),
        ("vcu118.toml", 'speed = "8.0_GT/s"', 'pace = "8.0_GT/s"', "pace"),
        ("vcu118_pins.csv", "GPIO_LED_0,AT32", "GPIO_LED_0,AV34", "GPIO_LED_0"),
        ("vcu118_pins.csv", "GPIO_LED_0,AT32", "GPIO_LED_0,A-32", "GPIO_LED_0"),
        ("vcu118_pins.csv", "AT32,LVCMOS12,out", "AT32,LVCMOS12,up", "GPIO_LED_0"),
        ("vcu118_pins.csv", "AT32,LVCMOS12,out", "AT32,1.2 V,out", "1.2 V"),
        (NAMES, OPT + 'source = "amaranth"', OPT, "source"),
        (NAMES, OPT + 'source = "amaranth"', OPT + 'source = "?"', "opt_design"),
        (NAMES, 'axi_aclk = ["out", 1, "veo_u200"]', 'axi_aclk = ["out", 1, "?"]', "axi_aclk"),
        (NAMES, MODE + 'source = "ug901"', MODE + 'source = "?"', "'synth_design -mode' in"),
        (NAMES, KEEP + 'source = "ug901_attributes"', KEEP + 'source = "?"', "'keep' in"),
        (NAMES, SOFT + 'source = "ug912"', SOFT + 'source = "?"', "'IS_SOFT' in"),
    ],
)
def test_wrong_data_is_refused(tmp_path: Path, file: str, old: str, new: str, needle: str) -> None:
    folder = broken(tmp_path, file, old, new)
    with pytest.raises(BoardError, match=needle.replace("?", r"\?")):
        load_names(folder / NAMES) if file == NAMES else load_board("vcu118", folder)


def test_a_board_is_what_its_file_says() -> None:
    board = load_board("u250")
    assert (board.name, board.part) == ("u250", "xcu250-figd2104-2L-e")
    assert board.title == "Alveo U250 accelerator card (XCU250)"
    assert vars(board.link) == {
        "clock_mhz": 250.0,
        "pcie_block": "X0Y1",
        "quad": "GTY_Quad_227",
        "lanes": 16,
        "speed": "8.0_GT/s",
        "refclk_mhz": 100.0,
        "refclk": "PCIE_REFCLK_Q226",
        "perst": "PCIE_PERST_N",
        "perst_properties": {"PULLUP": "TRUE"},
        "rx": "PCIE_RX",
        "tx": "PCIE_TX",
    }
    assert vars(board.clock) == {
        "net": "SYSCLK0_300",
        "mhz": 300.0,
        "properties": {"DQS_BIAS": "TRUE"},
    }
    assert board.leds.nets == ("GPIO_LED_0", "GPIO_LED_1", "GPIO_LED_2")
    assert board.leds.properties == {"SLEW": "SLOW", "DRIVE": "8"}
    assert vars(board.floorplan) == {"slr": "SLR1", "slrs": 4}
    assert (board.flash.interface, board.flash.size_mb) == ("SPIx4", 128)
    assert board.die() == {"lut": 432_000, "ff": 864_000, "dsp": 3072, "bram": 672}
    assert board.bitstream["BITSTREAM.CONFIG.CONFIGRATE"] == "63.8"
    led = board.pin("GPIO_LED_0")
    assert (led.package_pin, led.iostandard, led.direction) == ("BC21", "LVCMOS12", "out")
    assert (led.note, led.source) == ("drive 8", "2 sources: board; corundum")
    with pytest.raises(BoardError, match=r"^The board u250 uses the net 'x', which its table"):
        board.pin("x")


@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
def test_narrower_links_and_their_clock(tmp_path: Path, lanes: int) -> None:
    folder = broken(tmp_path, "vcu118.toml", "lanes = 16", f"lanes = {lanes}")
    assert len(pads(load_board("vcu118", folder), crossing=False)) == 3 + 4 * lanes + 4
    path = folder / "vcu118.toml"
    path.write_text(path.read_text().replace("clock_mhz = 250.0", "clock_mhz = 125.0"))
    with pytest.raises(BoardError, match=r"must run at 250 MHz, not 125 MHz\.$"):
        load_board("vcu118", folder)


def test_boards_are_those_with_a_table_of_pins(tmp_path: Path) -> None:
    assert board_names() == ("u250", "vcu118") and board_names(tmp_path) == ()
    with pytest.raises(BoardError, match=r"^There is no board 'x' \(boards: none\)\.$"):
        load_board("x", tmp_path)


def test_names_of_the_vendors_tool_are_read() -> None:
    names = load_names()
    command = names.commands["set_max_delay"]
    assert command.flags == {"datapath_only": False, "from": True, "to": True}
    assert (command.least, command.most, command.xdc, command.returns) == (1, 1, True, "")
    command = names.commands["get_timing_paths"]
    assert (command.xdc, command.returns, command.source) == (False, "path", "ug835")
    assert names.commands["set_property"].most == 3
    assert names.values["synth_design", "mode"].values == ("out_of_context",)
    assert names.properties["pblock"]["IS_SOFT"].values == "FALSE|TRUE"
    assert names.properties["cell"]["REF_NAME"].values == ""
    assert names.attributes["ASYNC_REG"].values == '"TRUE"'
    ports = names.ports
    assert [ports[name].bits(8) for name in ("pci_exp_txp", "axi_aclk", "m_axil_awaddr")] == [
        *(8, 1, 32)
    ]
    assert (ports["axi_aclk"].direction, ports["axi_aclk"].source) == ("out", "veo_u200")
    with pytest.raises(BoardError, match="is not a valid table of Vivado's names"):
        load_names(Path("nowhere.toml"))


def test_an_unknown_board_is_refused_with_a_list() -> None:
    with pytest.raises(BoardError, match=r"'u9000'.*u250, vcu118"):
        load_board("u9000")
    with pytest.raises(BoardError, match="table of pins"):
        read_pins(Path("nowhere.csv"))


def test_the_platform_agrees_with_the_table() -> None:
    board = load_board("vcu118")
    nets = set()
    for net, ball, standard, direction in platform_pins():
        row = board.pin(net)
        assert (row.package_pin, row.iostandard, row.direction) == (ball, standard, direction), net
        nets.add(net)
    left = {net for net in board.pins if net not in nets}
    # Pins on connectors, unused clocks, and the flash.
    assert {net.rstrip("0123456789") for net in left} == {
        *("PMOD0_", "PMOD1_", "CLK_90MHZ", "USER_SMA_CLK_P", "USER_SMA_CLK_N"),
        *("QSPI0_DQ", "QSPI1_DQ", "QSPI0_CS_N", "QSPI1_CS_N", "QSPI_CCLK"),
    }
    for connector in VCU118Platform.connectors:
        pins = [ball for ball in connector.mapping.values() if ball != "-"]
        rows = [board.pin(f"PMOD{connector.number}_{k}").package_pin for k in range(8)]
        assert pins == rows


def test_the_platform_is_the_boards_part() -> None:
    platform = VCU118Platform()
    assert platform._part == load_board("vcu118").part
    assert platform.toolchain == "Vivado"
    pins = platform.request("pcie", dir="-")
    assert len(pins.rx.p) == len(pins.tx.n) == 16


def test_clocks_of_the_platform_have_the_rates_of_the_board() -> None:
    resources = VCU118Platform.resources
    rates = {(r.name, r.number): r.clock.frequency for r in resources if r.clock is not None}
    assert rates == {
        ("clk300", 0): 300e6,
        ("clk250", 0): 250e6,
        ("clk250", 1): 250e6,
        ("clk125", 0): 125e6,
        ("clk_user", 0): 156.25e6,
        ("pcie_refclk_x8", 0): 100e6,
    }
    (pcie,) = (r for r in resources if r.name == "pcie")
    assert [io.clock.frequency for io in pcie.ios if io.clock is not None] == [100e6]
    assert {io.name: dict(io.attrs) for io in pcie.ios if io.attrs} == {
        "perst": {"IOSTANDARD": "LVCMOS18", "PULLUP": "TRUE"}
    }
    singles = ("rst", "uart", "i2c", "pcie", "clk300", "clk125", "clk_user", "pcie_refclk_x8")
    several = {"clk250": 2, "led": 8, "button": 5, "switch": 4}
    assert sorted((r.name, r.number) for r in resources) == sorted(
        (name, number)
        for name, count in {**dict.fromkeys(singles, 1), **several}.items()
        for number in range(count)
    )
    # Active low.
    (bus,) = (r for r in resources if r.name == "i2c")
    ios = (*bus.ios, *pcie.ios)
    assert [io.name for io in ios if io.ios[0].invert] == ["mux_reset", "perst"]
    platform = VCU118Platform()
    assert (platform.default_clk, platform.default_rst) == ("clk125", "rst")
    assert platform.default_clk_frequency == 125e6
    assert [(c.name, c.number) for c in platform.connectors.values()] == [("pmod", 0), ("pmod", 1)]


def test_the_constraints_file_is_what_the_table_gives() -> None:
    path = constraints_folder() / "vcu118.xdc"
    assert path.read_text() == pins_xdc(load_board("vcu118"), crossing=True), (
        "write it again: see docs/vcu118.md"
    )


def test_the_platform_agrees_with_the_constraints_file() -> None:
    lines = (constraints_folder() / "vcu118.xdc").read_text().splitlines()
    placed = {line.split()[3].rstrip("}") for line in lines if "PACKAGE_PIN" in line}
    assert len(placed) == 73
    assert placed <= {ball for _, ball, _, _ in platform_pins()}


def test_a_wrong_pin_in_the_table_changes_the_constraints(tmp_path: Path) -> None:
    folder = broken(tmp_path, "vcu118_pins.csv", "PCIE_RX3_P,AD2", "PCIE_RX3_P,A40")
    text = pins_xdc(load_board("vcu118", folder), crossing=True)
    assert text != (constraints_folder() / "vcu118.xdc").read_text()
    assert "PACKAGE_PIN A40} [get_ports {pcie_rx_p[3]}]" in text


def test_words_attributed_to_amaranth_are_in_its_template() -> None:
    spec = find_spec("amaranth.vendor._xilinx")
    assert spec is not None and spec.origin is not None
    template = Path(spec.origin).read_text()
    names = load_names()
    from_amaranth = [name for name, row in names.commands.items() if row.source == "amaranth"]
    assert len(from_amaranth) > 20
    missing = [name for name in from_amaranth if name not in template]
    assert not missing, f"{missing} are not in Amaranth's templates"
    assert "ASYNC_REG" in template


def test_boards_configure_the_generator_alike_but_for_the_place() -> None:
    first, *others = (configuration(load_board(name)) for name in board_names())
    for other in others:
        assert {k for k in first if first[k] != other[k]} <= {
            "CONFIG.pcie_blk_locn",
            "CONFIG.select_quad",
        }
    assert set(first) == set(load_names().properties["ip"])


def test_a_board_without_an_oscillators_pin_is_refused() -> None:
    board = load_board("u250")
    pins = {net: pin for net, pin in board.pins.items() if net != "SYSCLK0_300_N"}
    lame: Board = dataclasses.replace(board, pins=pins)
    with pytest.raises(BoardError, match="SYSCLK0_300_N"):
        pads(lame, crossing=True)
    assert len(pads(lame, crossing=False)) == 3 + 64 + 3
