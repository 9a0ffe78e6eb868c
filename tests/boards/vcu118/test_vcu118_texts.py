"""What Pinion writes for the vendor tool and its user, word for word."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from pinion.boards.xilinx import script
from pinion.boards.xilinx.board import load_board
from pinion.boards.xilinx.clocking import core_clock
from pinion.boards.xilinx.floorplan import die_xdc, dies_xdc
from pinion.boards.xilinx.readme import readme
from pinion.boards.xilinx.script import build_tcl, core_tcl, sources
from pinion.boards.xilinx.strategies import strategies_tcl
from pinion.boards.xilinx.top import board_rtlil
from pinion.boards.xilinx.xdc import timing_xdc
from pinion.boards.xilinx.xdma import black_box, configuration
from pinion.link import Array, Manifest
from pinion.synthesis.estimate import Multipliers
from tests.boards.cells import cell
from tests.boards.vcu118.stub import core_rtlil, manifest

TEMPLATES = Path(script.__file__).parent

CONFIGURATION = {
    "CONFIG.mode_selection": "Advanced",
    "CONFIG.pcie_blk_locn": "X1Y2",
    "CONFIG.en_gt_selection": "true",
    "CONFIG.select_quad": "GTY_Quad_227",
    "CONFIG.pl_link_cap_max_link_width": "X16",
    "CONFIG.pl_link_cap_max_link_speed": "8.0_GT/s",
    "CONFIG.ref_clk_freq": "100_MHz",
    "CONFIG.plltype": "QPLL1",
    "CONFIG.coreclk_freq": "500",
    "CONFIG.axi_data_width": "512_bit",
    "CONFIG.axisten_freq": "250",
    "CONFIG.xdma_axi_intf_mm": "AXI_Stream",
    "CONFIG.xdma_rnum_chnl": "1",
    "CONFIG.xdma_wnum_chnl": "1",
    "CONFIG.xdma_num_usr_irq": "1",
    "CONFIG.axilite_master_en": "true",
    "CONFIG.axilite_master_size": "64",
    "CONFIG.axilite_master_scale": "Kilobytes",
    "CONFIG.pf0_device_id": "903F",
    "CONFIG.cfg_mgmt_if": "false",
}

CORE = manifest(target="vcu118", clock_mhz=200.0)
LINKS = manifest(target="u250", clock_mhz=250.0)

WORDS = {
    "VERSION": "0.0",
    "ROBOT": "stub",
    "FUNCTION": "rnea",
    "OUT": "out",
    "PROGRESS": "PINION: ",
    "MISSED": "1",
    "FAILED": "2",
    "IP": "xdma",
    "MODULE": "xdma_0",
    "TOP": "pinion_board",
    "PBLOCK": "pblock_pinion",
    "SLR": "SLR1",
    "SYNTHESIS": "-flatten_hierarchy rebuilt -keep_equivalent_registers -fsm_extraction off "
    "-shreg_min_size 5",
    "STRATEGIES": strategies_tcl(),
    "CORE_TOP": "pinion_core",
    "EXPLICIT": "dsp48e2",
    "MACRO": "PINION_DSP48E2",
    "RESULT": "result.txt",
    "ATTEMPTS": "attempts.txt",
    "CORE_RESULT": "core_result.txt",
    "LINK_MHZ": "250",
    "SYNCHRONISERS": "7",
    "TRIES": "2",
    "SHARE": "60",
}
"""Words of the scripts that do not depend on the board."""

VCU118 = {
    "WHAT": "VCU118 evaluation kit (Virtex UltraScale+ VU9P): {what}",
    "HASH": f"{CORE.hash:016x}",
    "PART": "xcvu9p-flga2104-2L-e",
    "BOARD": "vcu118",
    "CORE_MHZ": "200",
    "FLASH": "SPIx8",
    "FLASH_MB": "256",
    "CLOCKS": "    expect_clock {xdma/axi_aclk} 4.000\n"
    "    expect_clock {core_clock_buffer/O} 5.000",
    "SOURCES": "pinion_board.v vcu118.xdc vcu118_timing.xdc vcu118_die.xdc vcu118_dies.xdc "
    "build.tcl",
    "CORE_CLOCK": "core_clock_buffer/O",
    "DIE_LUT": "394080",
    "DIE_DSP": "2280",
}
U250 = {
    "WHAT": "Alveo U250 accelerator card (XCU250): {what}",
    "HASH": f"{LINKS.hash:016x}",
    "PART": "xcu250-figd2104-2L-e",
    "BOARD": "u250",
    "CORE_MHZ": "250",
    "FLASH": "SPIx4",
    "FLASH_MB": "128",
    "CLOCKS": "    expect_clock {xdma/axi_aclk} 4.000",
    "SOURCES": "pinion_board.v u250.xdc u250_timing.xdc u250_die.xdc u250_dies.xdc build.tcl",
    "CORE_CLOCK": "xdma/axi_aclk",
    "DIE_LUT": "432000",
    "DIE_DSP": "3072",
}


def lines_of(pairs: dict[str, str]) -> str:
    """Return properties as the lines of a Tcl command that continues."""
    return " \\\n".join(f"        {name} {{{value}}}" for name, value in pairs.items()) + " \\"


@pytest.mark.parametrize(("record", "words"), [(CORE, VCU118), (LINKS, U250)])
def test_scripts_are_their_templates_with_these_words(
    record: Manifest, words: dict[str, str]
) -> None:
    board = load_board(record.target)
    clock = core_clock(board, record.clock_mhz)
    place = {} if record is CORE else {"CONFIG.pcie_blk_locn": "X0Y1"}
    words = WORDS | words | {"CONFIGURATION": lines_of(CONFIGURATION | place)}
    for name, purpose, text in (
        (
            "build.tcl",
            "from Verilog to a bitstream.",
            build_tcl(board, record, clock, synchronisers=7),
        ),
        ("synth_core.tcl", "the core alone.", core_tcl(board, record, clock)),
    ):
        template = "\n".join((TEMPLATES / part).read_text() for part in ("common.tcl", name))
        filled = words | {"WHAT": words["WHAT"].format(what=purpose)}
        assert text == re.sub("@([A-Z_]+)@", lambda match: filled[match[1]], template)  # noqa: B023
    assert " ".join(sources(board)) == words["SOURCES"]


def test_strategies_are_lists_of_names_and_values() -> None:
    lines = strategies_tcl().splitlines()
    assert lines[0] == (
        "    {name default synth Default opt Default place Default phys_opt Default "
        "route Default margin 0 dies 0}"
    )
    assert [line for line in lines if "dies 1" in line] == [
        "    {name spread_slls synth Default opt Default place SSI_SpreadSLLs phys_opt Explore "
        "route Explore margin 0 dies 1}",
        "    {name high_util_slrs synth Default opt Default place SSI_HighUtilSLRs "
        "phys_opt Explore route Explore margin 0 dies 1}",
    ]
    assert [line for line in lines if "margin 0 " not in line] == [
        "    {name margin synth Default opt Default place ExtraTimingOpt "
        "phys_opt AggressiveExplore route NoTimingRelaxation margin 0.2 dies 0}"
    ]


README = {
    "robot": r"\_arm\_",
    "function": "rnea",
    "version": "0.0",
    "title": "VCU118 evaluation kit (Virtex UltraScale+ VU9P)",
    "name": "vcu118",
    "part": "xcvu9p-flga2104-2L-e",
    "folder_hint": "DIR",
    "build": "build.tcl",
    "core": "synth_core.tcl",
    "out": "out",
    "result": "result.txt",
    "attempts": "attempts.txt",
    "strategies": "10",
    "progress": "PINION:",
    "top": "pinion_board",
    "files": " (`out/pinion_primary.mcs` and `out/pinion_secondary.mcs`)",
    "flash": "mt25qu01g-spi-x1_x2_x4_x8",
    "lights": "- `GPIO_LED_0`: the PCIe link is up\n"
    "- `GPIO_LED_1`: the core's clock is steady\n"
    "- `GPIO_LED_2`: blinks twice a second: the link's clock is running\n"
    "- `GPIO_LED_3`: blinks: the core's clock is running",
    "link_mhz": "250",
    "lanes": "16",
    "core_mhz": "200",
    "core_from": ", made from 125 MHz on the board",
    "ii": "4",
    "thousands": "50,000",
    "latency": "70",
    "latency_us": "0.35",
    "words_in": "3",
    "words_out": "5",
    "gbytes_in": "0.60",
    "gbytes_out": "1.00",
    "multipliers": "3",
    "tables": "1",
    "dsp": "13",
    "why": "4 multipliers, 3 of products and 1 in sine and reciprocal units, take 13 DSP blocks: "
    "1 in sine and reciprocal units one each, 3 of 32 x 32 bits four each "
    "(a DSP48E2 multiplies 27 x 18 bits).",
    "die_dsp": "2,280",
    "die_lut": "394,080",
    "die_ff": "788,160",
    "die_bram": "720",
    "slrs": "3",
    "slr": "SLR1",
    "unknown": "- Nothing here was run in Vivado or on a board.\n"
    "- The user guide UG1224 was not read; no two public files disagree on a pin or an I/O "
    "standard.",
    "sources": "- board: XilinxBoardStore, boards/Xilinx/vcu118/2.4 (board.xml, part0_pins.xml)\n"
    "- corundum: corundum/corundum, fpga/mqnic/VCU118/fpga_100g/fpga.xdc and placement.xdc\n"
    "- verilog-pcie, litex-boards, chipsalliance fpga-shells, connectal, CESNET ndk: the pins\n"
    "- device: the amounts that pinion.synthesis.resources states for this part",
}


def test_the_readme_is_its_template_with_these_figures() -> None:
    shapes = {"inputs": (("q", 3),), "outputs": (("tau", 5),)}
    record = dataclasses.replace(
        CORE,
        robot="_arm_",
        ii=4,
        latency_cycles=70,
        **{
            way: tuple(Array(name=name, shape=(size,), unit="1") for name, size in rows)
            for way, rows in shapes.items()
        },
    )
    rows = [
        Multipliers(use="products", bits=(32, 32), number=3, blocks=4),
        Multipliers(use="tables", bits=(18, 17), number=1, blocks=1),
    ]
    board = load_board("vcu118")
    template = (TEMPLATES / "readme.md").read_text()
    words = README | {"hash": f"{record.hash:016x}"}

    def filled(words: dict[str, str]) -> str:
        return re.sub(r"\{(\w+)(:[^}]*)?\}", lambda match: words[match[1]], template)

    assert readme(board, record, core_clock(board, 200.0), multipliers=rows) == filled(words)
    # A core on the link's clock, fewer lights, a single flash, no multipliers.
    lame = dataclasses.replace(
        board,
        leds=dataclasses.replace(board.leds, nets=board.leds.nets[:1]),
        flash=dataclasses.replace(board.flash, interface="SPIx4"),
    )
    changes = {
        "files": " (`out/pinion.mcs`)",
        "lights": "- `GPIO_LED_0`: the PCIe link is up",
        "core_mhz": "250",
        "core_from": ", the link's",
        "thousands": "62,500",
        "latency_us": "0.28",
        "gbytes_in": "0.75",
        "gbytes_out": "1.25",
        "dsp": "0",
        "why": "",
    }
    assert readme(lame, record, None, multipliers=[]) == filled(words | changes)


def test_floorplans_name_cells_and_dies() -> None:
    board = load_board("vcu118")
    title = "# VCU118 evaluation kit (Virtex UltraScale+ VU9P)"
    block = [
        "create_pblock pblock_pinion",
        "add_cells_to_pblock [get_pblocks pblock_pinion] [get_cells {pinion}]",
        "resize_pblock [get_pblocks pblock_pinion] -add {SLR1}",
        "set_property IS_SOFT FALSE [get_pblocks pblock_pinion]",
    ]
    assert die_xdc(board).split("\n") == [
        f"{title}: one die holds link and core; no path of theirs crosses a border.",
        "# Written by Pinion. Read after synthesis.",
        "",
        *block,
        "",
    ]
    assert dies_xdc(board, core_rtlil()).split("\n") == [
        f"{title}: the link beside the PCIe block, the core over several dies.",
        "# Written by Pinion. Read after synthesis, instead of the other floorplan.",
        "",
        *block,
        "",
        "# Placing finds the core's border by itself.",
        "create_pblock pblock_pinion_core",
        "add_cells_to_pblock [get_pblocks pblock_pinion_core] [get_cells {pinion/core}]",
        "resize_pblock [get_pblocks pblock_pinion_core] -add {SLR1}",
        "resize_pblock [get_pblocks pblock_pinion_core] -add {SLR2}",
        "set_property IS_SOFT TRUE [get_pblocks pblock_pinion_core]",
        "",
    ]


def test_limits_of_the_crossing_name_both_clocks() -> None:
    board = load_board("vcu118")
    head = [
        "# VCU118 evaluation kit (Virtex UltraScale+ VU9P): the crossing between link and core, "
        "where their clocks differ.",
        "# Written by Pinion. Read after synthesis: the DMA engine's clock is not known before.",
        "",
    ]
    link = "[get_clocks -of_objects [get_pins {xdma/axi_aclk}]]"
    core = "[get_clocks -of_objects [get_pins {core_clock_buffer/O}]]"
    assert timing_xdc(board, core_clock(board, 300.0)).split("\n") == [
        *head,
        "# Gray codes and resets cross between these clocks: no bit may be later than another",
        "# by a period of the faster one.",
        f"set_max_delay -datapath_only -from {link} -to {core} 3.333",
        f"set_max_delay -datapath_only -from {core} -to {link} 3.333",
        "",
    ]
    shared = [*head, "# Here they share one clock: nothing crosses.", ""]
    assert timing_xdc(board, None).split("\n") == shared


def test_the_generator_of_the_dma_engine_is_configured_so() -> None:
    board = load_board("vcu118")
    assert configuration(board) == CONFIGURATION
    narrow = dataclasses.replace(board, link=dataclasses.replace(board.link, lanes=1))
    assert configuration(narrow)["CONFIG.pl_link_cap_max_link_width"] == "X1"


@pytest.mark.parametrize(("lanes", "width"), [(16, " [15:0]"), (2, " [1:0]"), (1, "")])
def test_the_black_box_has_the_engines_ports(lanes: int, width: str) -> None:
    board = load_board("vcu118")
    board = dataclasses.replace(board, link=dataclasses.replace(board.link, lanes=lanes))
    lines = black_box(board).split("\n")
    assert lines[:12] == [
        "(* blackbox *)",
        "module xdma_0 (",
        "  input sys_clk,",
        "  input sys_clk_gt,",
        "  input sys_rst_n,",
        "  output user_lnk_up,",
        f"  output{width} pci_exp_txp,",
        f"  output{width} pci_exp_txn,",
        f"  input{width} pci_exp_rxp,",
        f"  input{width} pci_exp_rxn,",
        "  output axi_aclk,",
        "  output axi_aresetn,",
    ]
    assert lines[-7:] == [
        "  output m_axis_h2c_tlast_0,",
        "  output m_axis_h2c_tvalid_0,",
        "  input m_axis_h2c_tready_0,",
        "  output [63:0] m_axis_h2c_tkeep_0",
        ");",
        "endmodule",
        "",
    ]
    assert len(lines) == 41 + 5


def test_primitives_get_these_settings_and_constants() -> None:
    """What the models in simulation leave out."""
    board = load_board("vcu118")
    text = board_rtlil(board, core_clock(board, 200.0))
    manager = cell(text, "core_clock_manager")
    assert manager.kind == "MMCME4_ADV"
    assert manager.parameters == {
        "CLKIN1_PERIOD": '"8.0"',
        "CLKFBOUT_MULT_F": '"8.0"',
        "DIVCLK_DIVIDE": "1",
        "CLKOUT0_DIVIDE_F": '"5.0"',
    }
    zeros = ("CLKIN2", "RST", "PWRDWN", "CDDCREQ", "DCLK", "DEN", "DWE", "PSCLK", "PSEN")
    assert manager.constants() == {
        **dict.fromkeys((*zeros, "PSINCDEC"), "1'0"),
        "CLKINSEL": "1'1",
        "DADDR": "7'0000000",
        "DI": "16'0000000000000000",
    }
    # The feedback is a wire between the manager's ports.
    assert manager.ports["CLKFBIN"].split()[0] == manager.ports["CLKFBOUT"]
    reference = cell(text, "refclk_buffer")
    assert reference.kind == "IBUFDS_GTE4"
    assert (reference.parameters, reference.constants()) == (
        {"REFCLK_HROW_CK_SEL": "2'00"},
        {"CEB": "1'0"},
    )
    assert cell(text, "core_clock_buffer").constants() == {"CE": "1'1"}
    assert cell(text, "xdma").constants() == {"usr_irq_req": "1'0"}
    # Reset lasts until the link is up and the core's clock is steady.
    assert cell(text, "xdma").ports["axi_aresetn"] == "\\aresetn"
    locked = re.escape(manager.ports["LOCKED"])
    both = re.search(
        rf"cell \$and \S+\n(?:    parameter .*\n)+    connect \\A \\aresetn \[0\]\n"
        rf"    connect \\B {locked} \[0\]\n    connect \\Y (\S+)\n",
        text,
    )
    assert both is not None
    assert re.search(
        rf"cell \$not \S+\n(?:    parameter .*\n)+    connect \\A {re.escape(both[1])} \[0\]\n"
        r"    connect \\Y \\hold\n",
        text,
    )
    link = cell(text, "pinion").ports
    clocks = [link[name] for name in ("clk", "rst", "core_clk")]
    assert clocks == ["\\clk [0]", "\\rst [0]", "\\core_blink_clk [0]"]
    assert text.count("  cell $add ") == 2 and "cell $sub" not in text
    pads = ("I \\sysclk_p", "IB \\sysclk_n", "I \\pcie_refclk_p", "I \\pcie_perst_n")
    assert all(f"connect \\{pad} [0]\n" in text for pad in pads)


@pytest.mark.parametrize("lights", [3, 4, 5])
def test_the_lights_are_those_of_the_readme(lights: int) -> None:
    board = load_board("vcu118")
    nets = tuple(f"GPIO_LED_{k}" for k in range(lights))
    board = dataclasses.replace(board, leds=dataclasses.replace(board.leds, nets=nets))
    separate, shared = (board_rtlil(board, core_clock(board, mhz)) for mhz in (200.0, 250.0))
    driven = [
        line.split()[2:]
        for line in separate.splitlines()
        if line.startswith("    assign \\led [") and ":" not in line
    ]
    assert len(driven) == min(lights, 4)
    link_up = cell(separate, "xdma").ports["user_lnk_up"]
    locked = cell(separate, "core_clock_manager").ports["LOCKED"]
    # They change every 2**26 cycles.
    expected = [link_up, locked, "\\beat [26]", "\\core_beat [26]"]
    assert [row[1] for row in driven[:2]] == expected[:2]
    assert [" ".join(row[1:]) for row in driven[2:]] == expected[2:lights]
    for text, name, clock in (
        (separate, "beat", "clk"),
        (separate, "core_beat", "core_blink_clk"),
        (shared, "beat", "clk"),
    ):
        register = re.search(
            rf"connect \\A \\{name} \[26:0\]\n    connect \\B 1'1\n    connect \\Y (\S+)\n", text
        )
        assert register is not None
        assert (
            f"parameter \\WIDTH 27\n    parameter \\CLK_POLARITY 1\n"
            f"    connect \\D {register[1]} [26:0]\n    connect \\CLK \\{clock} [0]\n"
            f"    connect \\Q \\{name}\n"
        ) in text
    assert "core_beat" not in shared and "sysclk" not in shared and "MMCM" not in shared
