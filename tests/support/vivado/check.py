"""Checks of a board's folder that do not need the vendor tool.

Yosys reads and maps the whole design with the DMA engine and the primitives as black boxes; the
constraints are checked against the ports of that design and the board's table of pins.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pinion.boards.xilinx.board import Board
from pinion.boards.xilinx.clocking import Mmcm
from pinion.boards.xilinx.floorplan import CORE_CELL
from pinion.boards.xilinx.names import load_names
from pinion.boards.xilinx.top import CORE_CLOCK_CELL, LINK_CELL, TOP, XDMA_CELL
from pinion.boards.xilinx.xdc import pads
from pinion.boards.xilinx.xdma import MODULE, black_box
from pinion.gateware.yosys import run_yosys, yosys_path
from pinion.synthesis.resources import Resources
from pinion.synthesis.synth import FAMILY, MAP_LUTS
from tests.support.vivado.rehearse import DesignFacts, Rehearsal

_MARK = re.compile(r'\(\* ASYNC_REG = "TRUE" \*\)\s*reg (?:\[\d+:0\] )?stage0 ')
_FLAGS = f"-family {FAMILY} -top {TOP} -noiopad -noclkbuf"

# Cells that must survive into the mapped netlist, once each; the second lot only with a clock of
# the core's own.
_ALWAYS = (MODULE, "IBUFDS_GTE4", "IBUF")
_CROSSING = ("IBUFDS", "MMCME4_ADV", "BUFGCE")


def read_design(folder: Path, *, board: Board, core_clock: Mmcm | None) -> DesignFacts:
    """Read the written Verilog with Yosys, and return the design's facts.

    Raises
    ------
    pinion.gateware.yosys.YosysError
        When a module or a port is missing.
    """
    verilog = folder / f"{TOP}.v"
    with tempfile.TemporaryDirectory(dir=folder, prefix=".check-") as scratch:
        work = Path(scratch)
        commands = ["proc", f"select {TOP}", "write_json -selected ports.json", "select -clear"]
        _read(work, verilog, board, *commands)
        modules = json.loads((work / "ports.json").read_text())["modules"]
    top = modules[TOP]
    pins = {f"{XDMA_CELL}/axi_aclk": 1000.0 / board.link.clock_mhz}
    if core_clock is not None:
        pins[f"{CORE_CLOCK_CELL}/O"] = 1000.0 / core_clock.mhz
    return DesignFacts(
        ports=tuple(bit for name, port in top["ports"].items() for bit in _bits(name, port)),
        cells=tuple(name for name in top["cells"] if "$" not in name) + _below(verilog),
        pins={name: round(period, 3) for name, period in pins.items()},
        tops=(TOP,),
        synchronisers=len(_MARK.findall(verilog.read_text())),
    )


def _below(verilog: Path) -> tuple[str, ...]:
    """Return the cells that a floorplan may name: the core and the cells of its datapath."""
    text = verilog.read_text()
    if not re.search(r"^  pinion_core core \(", text, re.MULTILINE):
        return ()
    parts = re.findall(r"^  \\pinion_core\.datapath\.\w+  (\w+) \(", text, re.MULTILINE)
    return (CORE_CELL, *(f"{CORE_CELL}/datapath/{part}" for part in parts))


@dataclass(frozen=True, kw_only=True)
class Mapped:
    """Design mapped to the part's cells.

    Members
    -------
    top : cells of the top module by type.
    totals : ``dsp, lut, ff, bram`` and the like of everything, counted as by
        `pinion.synthesis.resources`.
    """

    top: Mapping[str, int]
    totals: Mapping[str, float]


def map_design(folder: Path, *, board: Board) -> Mapped:
    """Map the whole design to the part's cells, and count them.

    Raises
    ------
    pinion.gateware.yosys.YosysError
        When it cannot be mapped.
    """
    with tempfile.TemporaryDirectory(dir=folder, prefix=".check-") as scratch:
        work = Path(scratch)
        _read(
            work,
            folder / f"{TOP}.v",
            board,
            f"synth_xilinx {_FLAGS} -run begin:map_luts",
            *MAP_LUTS,
            f"synth_xilinx {_FLAGS} -run finalize:",
            "tee -q -o stat.json stat -json",
        )
        stat = json.loads((work / "stat.json").read_text())
    cells = {
        name.removeprefix("\\"): dict(module["num_cells_by_type"])
        for name, module in stat["modules"].items()
    }
    return Mapped(top=cells[TOP], totals=Resources(cells, TOP).total())


# What Yosys and Amaranth write for themselves and each other.
_INNER = {"full_case", "parallel_case", "generator", "init", "top", "src", "enum_base_type"}


def attribute_problems(verilog: str) -> list[str]:
    """Return a message for each attribute that the vendor tool would misunderstand.

    Each must be in the table of names, with a value spelled as there, and in front of a register or
    a wire: a port heeds none.
    """
    attributes, problems = load_names().attributes, []
    lines = verilog.splitlines()
    for line, text in enumerate(lines):
        match = re.fullmatch(r"\s*\(\* (\w+)(?: = +(.*?))? +\*\)", text)
        if match is None or match[1] in _INNER or match[1].startswith("enum_value_"):
            continue
        name, value = match[1], match[2] or ""
        rest = (
            following for following in lines[line + 1 :] if not following.lstrip().startswith("(*")
        )
        declaration = next(rest, "").split()
        if name not in attributes:
            problems.append(f"the attribute {name} is unknown")
        elif not re.fullmatch(attributes[name].values, value):
            problems.append(f"{value} is not a valid value of the attribute {name}")
        elif declaration[:1] not in (["reg"], ["wire"]):
            problems.append(f"the attribute {name} marks a port: {' '.join(declaration)}")
    return problems


def cell_problems(mapped: Mapped, *, core_clock: Mmcm | None) -> list[str]:
    """Return a message for each wrong number of cells in a mapped design."""
    expected = dict.fromkeys(_ALWAYS, 1) | dict.fromkeys(_CROSSING, int(core_clock is not None))
    return [
        f"the mapped top has {mapped.top.get(name, 0)} cells {name}, not {number}"
        for name, number in expected.items()
        if mapped.top.get(name, 0) != number
    ]


def constraint_problems(rehearsal: Rehearsal, design: DesignFacts, *, board: Board) -> list[str]:
    """Return a message for each mismatch of constraints with the design or the table of pins."""
    problems = [f"refused: {text}" for text in rehearsal.refused]
    places: dict[str, list[str]] = {port: [] for port in design.ports}
    standards: dict[str, str] = {}
    for kind, name, key, value in rehearsal.of("set"):
        if kind == "port" and key == "PACKAGE_PIN":
            places.setdefault(name, []).append(value)
        elif kind == "port" and key == "IOSTANDARD":
            standards[name] = value
    crossing = f"{CORE_CLOCK_CELL}/O" in design.pins
    table = {pad.port: pad.pin for pad in pads(board, crossing=crossing)}
    for port, pins in places.items():
        if port not in design.ports:
            problems.append(f"the port {port} is constrained and does not exist")
        elif len(pins) != 1:
            problems.append(f"the port {port} has {len(pins)} pins")
        elif port not in table:
            problems.append(f"the port {port} stands in no board's table")
        elif pins[0] != table[port].package_pin:
            problems.append(f"the port {port} is on {pins[0]}, not on {table[port].package_pin}")
        elif standards.get(port, "") != table[port].iostandard:
            problems.append(f"the port {port} has another I/O standard than the table")
    used = Counter(pin for pins in places.values() for pin in pins)
    problems += [f"the pin {pin} is used twice" for pin, times in used.items() if times > 1]
    problems += _timing_problems(rehearsal, board, crossing=crossing)
    return problems


def _timing_problems(rehearsal: Rehearsal, board: Board, *, crossing: bool) -> Iterable[str]:
    clocks = {port for port, _ in rehearsal.of("clock")}
    for port in ("pcie_refclk_p", *(("sysclk_p",) if crossing else ())):
        if port not in clocks:
            yield f"no clock comes in at {port}"
    ways = {(source, target) for source, target, _ in rehearsal.of("max_delay")}
    if crossing and len(ways) != 2:
        yield f"{len(ways)} of 2 ways between the clocks have a limit"
    if not crossing and ways:
        yield "there is a crossing where there is one clock"
    if [cell for _, cell in rehearsal.of("placed")] != [f"cell:{LINK_CELL}"]:
        yield "the core is in no die's block, or not alone"
    if [die for _, die in rehearsal.of("region")] != [board.floorplan.slr]:
        yield f"the core is not in {board.floorplan.slr}"


def _read(work: Path, verilog: Path, board: Board, *commands: str) -> None:
    (work / "xdma.v").write_text(black_box(board))
    run_yosys(
        [
            "read_verilog xdma.v",
            "read_verilog -lib -specify +/xilinx/cells_sim.v",
            "read_verilog -lib +/xilinx/cells_xtra.v",
            f"read_verilog {yosys_path(verilog, folder=work)}",
            f"hierarchy -check -top {TOP}",
            f"select -assert-count 1 {TOP}/c:{LINK_CELL}",
            *commands,
        ],
        folder=work,
        name="check",
    )


def _bits(name: str, port: dict[str, list[int]]) -> list[str]:
    width = len(port["bits"])
    return [name] if width == 1 else [f"{name}[{index}]" for index in range(width)]
