"""The scripts run under tclsh against stand-ins that accept only the table of names."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from pinion.boards.xilinx.names import load_names
from pinion.boards.xilinx.script import BUILD_TCL, CORE_TCL, EXPLICIT, FAILED, MISSED, OUT, PROGRESS
from pinion.boards.xilinx.strategies import STRATEGIES
from tests.support.breadth import some_rows
from tests.support.vivado.check import constraint_problems
from tests.support.vivado.rehearse import REFUSED, DesignFacts, rehearse

KINDS = [("vcu118", 200.0), ("vcu118", 250.0), ("u250", 180.0)]
CORE = DesignFacts(
    ports=("clk", "rst"), cells=("datapath",), pins={}, tops=("pinion_core",), synchronisers=0
)


@pytest.mark.parametrize(("name", "mhz"), some_rows(KINDS, lambda name, mhz: mhz != 250))
def test_a_boards_script_runs_to_its_end(
    make_folder: Any, designs: Any, tclsh: str, name: str, mhz: float
) -> None:
    folder, design = make_folder(name, mhz), designs(name, mhz)
    rehearsal = rehearse(folder.path / BUILD_TCL, design=design, tclsh=tclsh)
    assert (rehearsal.code, rehearsal.refused) == (0, ()), rehearsal.output
    assert constraint_problems(rehearsal, design, board=folder.board) == []
    progress = [line for line in rehearsal.output.splitlines() if line.startswith(PROGRESS)]
    assert [line[8:11] for line in progress if "/8" in line] == [f"{k}/8" for k in range(1, 9)]
    assert rehearsal.of("top") == [("pinion_board", folder.board.part)]
    steps = [call[0] for call in rehearsal.of("call")]
    order = ("synth_ip", "synth_design", "opt_design", "place_design", "route_design")
    places = [steps.index(step) for step in (*order, "write_bitstream", "write_cfgmem")]
    assert places == sorted(places)
    # A rehearsal leaves no files, which could be mistaken for a real result.
    assert not (folder.path / OUT).exists()


@pytest.mark.parametrize(
    ("setup", "hold", "code"),
    [(-0.001, 0.0, MISSED), (0.0, -0.001, MISSED), (0.0, 0.0, 0), (None, 0.0, FAILED)],
)
def test_missed_timing_writes_no_bitstream(
    make_folder: Any, designs: Any, tclsh: str, setup: float | None, hold: float, code: int
) -> None:
    folder, design = make_folder("vcu118", 200.0), designs("vcu118", 200.0)
    rehearsal = rehearse(
        folder.path / BUILD_TCL,
        design=design,
        tclsh=tclsh,
        setup_slack=setup,
        hold_slack=hold,
    )
    assert rehearsal.code == code, rehearsal.output
    calls = [call[0] for call in rehearsal.of("call")]
    assert ("write_bitstream" in calls) == ("write_cfgmem" in calls) == (code == 0)
    attempts = [strategy for strategy in STRATEGIES if not strategy.dies] if code == MISSED else []
    if attempts:
        # Once more after routing, because timing is missed.
        assert calls.count("route_design") == len(attempts)
        assert calls.count("phys_opt_design") == 2 * len(attempts)
    if code == MISSED:
        assert "report_timing_summary" in calls
        assert "timing is missed" in rehearsal.output


@pytest.mark.parametrize(
    ("change", "needle"),
    [
        ({"pins": {"xdma/axi_aclk": 8.0, "core_clock_buffer/O": 5.0}}, "period of 8.0 ns"),
        ({"pins": {"xdma/axi_aclk": 4.0, "core_clock_buffer/O": 4.0}}, "period of 4.0 ns"),
    ],
)
def test_an_unexpected_clock_stops_the_script(
    make_folder: Any, designs: Any, tclsh: str, change: dict[str, Any], needle: str
) -> None:
    folder = make_folder("vcu118", 200.0)
    design = dataclasses.replace(designs("vcu118", 200.0), **change)
    rehearsal = rehearse(folder.path / BUILD_TCL, design=design, tclsh=tclsh)
    assert (rehearsal.code, rehearsal.refused) == (FAILED, ())
    assert needle in rehearsal.output
    assert "write_bitstream" not in [call[0] for call in rehearsal.of("call")]


def test_lost_marks_of_synchronisers_are_a_warning(
    make_folder: Any, designs: Any, tclsh: str
) -> None:
    folder, design = make_folder("vcu118", 200.0), designs("vcu118", 200.0)
    assert design.synchronisers == 2
    good = rehearse(folder.path / BUILD_TCL, design=design, tclsh=tclsh)
    lost = dataclasses.replace(design, synchronisers=1)
    rehearsal = rehearse(folder.path / BUILD_TCL, design=lost, tclsh=tclsh)
    assert (good.code, rehearsal.code) == (0, 0)
    assert "warning" not in good.output
    assert "warning: 1 of at least 2 synchronisers" in rehearsal.output


@pytest.mark.parametrize(
    ("file", "old", "new", "needle"),
    [
        (BUILD_TCL, "CONFIG.axisten_freq", "CONFIG.axisten_frequency", "no property"),
        (BUILD_TCL, "{AXI_Stream}", "{AXI_Streams}", "valid value of CONFIG.xdma_axi_intf_mm"),
        (BUILD_TCL, "route_design", "route_desing", "no command 'route_desing'"),
        (BUILD_TCL, "-flatten_hierarchy", "-flatten", "no option -flatten"),
        (BUILD_TCL, "-vendor xilinx.com ", "", "wants -vendor"),
        (BUILD_TCL, "create_ip -name xdma", "create_ip -name qdma", "no IP 'qdma'"),
        (BUILD_TCL, "get_ips xdma_0", "get_ips xdma_1", "no ip 'xdma_1'"),
        (BUILD_TCL, "    opt_design\n", "", "comes before opt_design"),
        (BUILD_TCL, "    place_design -directive $place\n", "", "comes before place_design"),
        (BUILD_TCL, "place ExtraTimingOpt", "place ExtraTiming", "valid value of place_design"),
        (BUILD_TCL, "AggressiveFanoutOpt", "AggressiveFanout", "valid value of phys_opt_design"),
        (BUILD_TCL, "-setup 0 $clocks", "-setup 0.1 $clocks", "clocks are still tightened"),
        (BUILD_TCL, "-setup $margin", "$margin", "wants -setup"),
        (BUILD_TCL, "-keep_equivalent_registers", "-keep_equivalent", "no option -keep_equiv"),
        (BUILD_TCL, "-shreg_min_size 5", "-shreg_min_size 50", "valid value of synth_design"),
        (
            BUILD_TCL,
            "    close_opened\n    if {[file exists $start",
            "    if {[file exists $start",
            "a project is open",
        ),
        (BUILD_TCL, "-top pinion_board", "-top board", "no module 'board'"),
        (BUILD_TCL, "here pinion_board.v", "here pinion.v", "no file"),
        (BUILD_TCL, "xdma/axi_aclk", "xdma/aclk", "no pin 'xdma/aclk'"),
        (BUILD_TCL, "get_property SLACK", "get_property WNS", "no property 'WNS'"),
        (BUILD_TCL, "-delay_type $kind", "-delay_type setup", "valid value of get_timing_paths"),
        (BUILD_TCL, "    take_up\n", "    exec ls\n", "no command 'exec'"),
        ("vcu118.xdc", "PULLUP TRUE", "PULLUPS TRUE", "no property 'PULLUPS'"),
        ("vcu118.xdc", "PULLUP TRUE", "PULLUP yes", "valid value of PULLUP"),
        ("vcu118.xdc", "{pcie_perst_n}", "{perst_n}", "no port 'perst_n'"),
        ("vcu118.xdc", "led[*]", "leds[*]", "no port 'leds[*]'"),
        ("vcu118.xdc", "SPI_BUSWIDTH {8}", "SPI_BUSWIDTH {16}", "valid value"),
        ("vcu118.xdc", "# Pads", "foreach x {1 2} {}", "may not stand in a constraints file"),
        ("vcu118.xdc", "# Pads", "puts here", "may not stand in a constraints file"),
        ("vcu118.xdc", "# Pads", "report_io -file x", "may not stand in a constraints file"),
        ("vcu118_timing.xdc", "-datapath_only ", "", "wants -datapath_only"),
        ("vcu118_die.xdc", "{SLR1}", "{SLR9}", "no die 'SLR9'"),
        ("vcu118_die.xdc", "[get_cells {pinion}]", "[get_cells {core}]", "no cell 'core'"),
    ],
)
def test_a_word_that_is_not_in_the_table_is_refused(
    changed: Any, design: DesignFacts, tclsh: str, file: str, old: str, new: str, needle: str
) -> None:
    # Timing is missed, so that every strategy is tried.
    script = changed(file, old, new) / BUILD_TCL
    rehearsal = rehearse(script, design=design, tclsh=tclsh, setup_slack=-0.1)
    assert rehearsal.code == REFUSED
    assert any(needle in text for text in rehearsal.refused), rehearsal.refused


def test_the_core_alone_reports_how_fast_it_is(make_folder: Any, tclsh: str) -> None:
    folder = make_folder("vcu118", 200.0)
    rehearsal = rehearse(
        folder.path / CORE_TCL, design=CORE, tclsh=tclsh, setup_slack=-0.5, arguments=["400"]
    )
    assert (rehearsal.code, rehearsal.refused) == (0, ()), rehearsal.output
    # 400 MHz are 2.5 ns; with half a nanosecond missing, 3 ns.
    assert "reaches 333.3 MHz" in rehearsal.output
    assert rehearsal.of("clock") == [("clk", "2.500")]
    assert rehearsal.of("region") == [("pblock_pinion", "SLR1")]
    default = rehearse(folder.path / CORE_TCL, design=CORE, tclsh=tclsh)
    assert default.of("clock") == [("clk", "5.000")]
    assert ("synth_design", "verilog_define") not in default.of("option")
    for words in ([EXPLICIT], [STRATEGIES[1].name, EXPLICIT]):
        arguments = ["400", *words]
        rehearsal = rehearse(folder.path / CORE_TCL, design=CORE, tclsh=tclsh, arguments=arguments)
        assert (rehearsal.code, rehearsal.refused) == (0, ()), rehearsal.output
        assert ("synth_design", "verilog_define") in rehearsal.of("option")
    wrong = rehearse(
        folder.path / CORE_TCL, design=CORE, tclsh=tclsh, arguments=["400", "dsp", EXPLICIT]
    )
    assert wrong.code == FAILED and "no strategy 'dsp'" in wrong.output


def test_every_row_of_the_table_is_used(make_folder: Any, designs: Any, tclsh: str) -> None:
    names = load_names()
    calls, options, values, properties = set(), set(), set(), set()
    for name, mhz in KINDS:
        path, design = make_folder(name, mhz).path, designs(name, mhz)
        good = rehearse(path / BUILD_TCL, design=design, tclsh=tclsh)
        # Every strategy, over several dies.
        large = dataclasses.replace(design, luts=1_000_000)
        slacks = [(-0.1, 0.1), (0.1, -0.1), (-0.2, 0.1)]
        bad = rehearse(path / BUILD_TCL, design=large, tclsh=tclsh, slacks=slacks)
        words = [f"{mhz:g}", EXPLICIT]
        core = rehearse(path / CORE_TCL, design=CORE, tclsh=tclsh, arguments=words)
        for rehearsal in (good, bad, core):
            assert rehearsal.refused == ()
            calls |= {entry[0] for entry in rehearsal.of("call")}
            options |= set(rehearsal.of("option"))
            values |= set(rehearsal.of("value"))
            properties |= set(rehearsal.of("property"))
    rows = {(name, flag) for name, row in names.commands.items() for flag in row.flags}
    kinds = {(kind, name) for kind, table in names.properties.items() for name in table}
    assert set(names.commands) - calls == set()
    assert rows - options == set()
    words = {(*key, value) for key, row in names.values.items() for value in row.values}
    assert words - values == set()
    assert kinds - properties == set()
    used = {row.source for row in names.commands.values()} | {
        p.source for p in names.ports.values()
    }
    used |= {row.source for row in (*names.values.values(), *names.attributes.values())}
    used |= {row.source for table in names.properties.values() for row in table.values()}
    assert set(names.sources) == used
