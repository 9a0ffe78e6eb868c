"""RTLIL to Verilog that Icarus 11, Verilator and vendor tools accept."""

from __future__ import annotations

import re
from pathlib import Path

from pinion.gateware.yosys import run_yosys, yosys_path

# Attributes that tools need: registers in copies (see `copies`) and where memories go. All others
# are Yosys's own.
_NEEDED = ("keep", "ram_style", "rom_style")
_OTHERS = re.compile(rf"^ *\(\* (?!(?:{'|'.join(_NEEDED)}) ).*\*\)\n", re.MULTILINE)
_CASES = re.compile(r"\(\* full_case = 32'd1 \*\) ")


def emit_verilog(rtlil: Path, verilog: Path) -> None:
    """Write the Verilog of an RTLIL file, hierarchy kept.

    Processes become multiplexers and flip-flops first (``proc``): an ``always @*`` block whose
    inputs never toggle leaves its outputs X in Icarus 11, a continuous assignment does not.
    Memories are collected into one cell each, so that they come out as arrays with their contents.
    Of attributes only those that vendor tools need are kept.

    Leaves ``<verilog stem>_verilog.ys`` and ``.log`` beside the output.

    Raises
    ------
    FileNotFoundError : ``rtlil`` is not there.
    pinion.gateware.yosys.YosysError : Yosys is missing or refused the design.

    """
    if not rtlil.is_file():
        raise FileNotFoundError(f"There is no RTLIL file {rtlil}: build the core first.")
    folder = verilog.parent
    run_yosys(
        [
            f"read_rtlil {yosys_path(rtlil, folder=folder)}",
            "hierarchy -check",
            "proc",
            "memory_collect",
            f"write_verilog {yosys_path(verilog, folder=folder)}",
        ],
        folder=folder,
        name=f"{verilog.stem}_verilog",
    )
    verilog.write_text(_OTHERS.sub("", _CASES.sub("", verilog.read_text())))
