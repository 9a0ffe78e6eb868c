"""Conversion of RTLIL to Verilog that Icarus 11, Verilator and vendor tools accept."""

from __future__ import annotations

import re
from pathlib import Path

from .dsp48e2 import with_explicit
from .yosys import run_yosys, yosys_path

# Attributes that tools need: for duplicated registers (see `copies`) and for memories. All others
# come from Yosys.
_NEEDED = ("keep", "ram_style", "rom_style")
_OTHERS = re.compile(rf"^ *\(\* (?!(?:{'|'.join(_NEEDED)}) ).*\*\)\n", re.MULTILINE)
_CASES = re.compile(r"\(\* full_case = 32'd1 \*\) ")

# If a register is a port, Yosys puts its attributes on the port's declaration alone, where Vivado
# ignores KEEP.
_MARKED_PORT = re.compile(
    r'((?:  \(\* \w+ = "[^"\n]*" \*\)\n)+)(  output [^;\n]*;\n)((?:  wire [^;\n]*;\n)?)(  reg )'
)


def mark_registers(verilog: str) -> str:
    """Move attributes of registers in Yosys' Verilog from port to register declarations."""
    return _MARKED_PORT.sub(r"\2\3\1\4", verilog)


def emit_verilog(rtlil: Path, verilog: Path, *, explicit: str = "") -> None:
    """Convert an RTLIL file to Verilog, and keep its hierarchy.

    Processes are first converted to multiplexers and flip-flops (``proc``): an ``always @*`` block
    whose inputs never toggle leaves its outputs X in Icarus 11, a continuous assignment does not.
    Each memory is collected into one cell, so that it is written as an array with its contents.
    Only attributes that vendor tools need are kept.

    Parameters
    ----------
    rtlil, verilog : input and output file.
    explicit : other forms of some modules (:func:`pinion.gateware.dsp48e2.with_explicit`).

    Leaves ``<verilog stem>_verilog.ys`` and ``.log`` beside the output.

    Raises
    ------
    FileNotFoundError : ``rtlil`` does not exist.
    pinion.gateware.yosys.YosysError : Yosys is missing or failed on the design.
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
    text = _OTHERS.sub("", _CASES.sub("", verilog.read_text()))
    verilog.write_text(with_explicit(mark_registers(text), explicit))
