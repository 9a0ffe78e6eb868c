"""RTLIL to Verilog that Icarus 11, Verilator and vendor tools accept."""

from __future__ import annotations

import re
from pathlib import Path

from .dsp48e2 import with_explicit
from .yosys import run_yosys, yosys_path

# Attributes that tools need: registers in copies (see `copies`) and where memories go. All others
# are Yosys's own.
_NEEDED = ("keep", "ram_style", "rom_style")
_OTHERS = re.compile(rf"^ *\(\* (?!(?:{'|'.join(_NEEDED)}) ).*\*\)\n", re.MULTILINE)
_CASES = re.compile(r"\(\* full_case = 32'd1 \*\) ")

# Yosys puts the marks of a register that is a port on the port's declaration alone, where Vivado
# heeds no KEEP.
_MARKED_PORT = re.compile(
    r'((?:  \(\* \w+ = "[^"\n]*" \*\)\n)+)(  output [^;\n]*;\n)((?:  wire [^;\n]*;\n)?)(  reg )'
)


def mark_registers(verilog: str) -> str:
    """Yosys' Verilog with attributes of registers where these are declared, not at their ports."""
    return _MARKED_PORT.sub(r"\2\3\1\4", verilog)


def emit_verilog(rtlil: Path, verilog: Path, *, explicit: str = "") -> None:
    """Write the Verilog of an RTLIL file, hierarchy kept.

    Processes become multiplexers and flip-flops first (``proc``): an ``always @*`` block whose
    inputs never toggle leaves its outputs X in Icarus 11, a continuous assignment does not.
    Memories are collected into one cell each, so that they come out as arrays with their contents.
    Of attributes only those that vendor tools need are kept.

    Parameters
    ----------
    rtlil, verilog : what to read, and what to write.
    explicit : other forms of some of the modules (:func:`pinion.gateware.dsp48e2.with_explicit`).

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
    text = _OTHERS.sub("", _CASES.sub("", verilog.read_text()))
    verilog.write_text(with_explicit(mark_registers(text), explicit))
