"""Blocks of :class:`pinion.gateware.mac.Mac` as explicit DSP48E2 instances (AMD UG579).

The modules have the names and ports of the generic ones: a core's Verilog contains both, and a
macro selects one. They have not been run through a vendor's tool; proofs and simulations compare
both forms using our own model of the block (``dsp48e2_model.v``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from .mac import WIDTH_A, WIDTH_B, WIDTH_P, Mac

VERILOG = "dsp48e2.v"
"""Name of their file in a build folder."""

MODEL = "dsp48e2_model.v"
"""Model of the primitive, beside this module."""

MACRO = "PINION_DSP48E2"
"""If defined, tools use the explicit blocks of a Verilog file."""

# Parameters of unused registers and of inputs; the others keep the block's defaults.
_FIXED = {
    "ACASCREG": 1, "ADREG": 0, "ALUMODEREG": 1, "AREG": 1, "BCASCREG": 1, "BREG": 1,
    "CARRYINREG": 0, "CARRYINSELREG": 0, "CREG": 1, "DREG": 0, "INMODEREG": 0, "OPMODEREG": 0,
    "PREG": 1,
}  # fmt: skip

# Source of Z: nothing, the previous block, C. X and Y take the product.
_ZERO, _PCIN, _C = 0b000, 0b001, 0b011
_PRODUCT = 0b0101


def explicit_modules(blocks: Mapping[str, Mac]) -> str:
    """Return the Verilog of blocks by module name as explicit instances; "" for no blocks."""
    if not blocks:
        return ""
    head = "// The blocks of core.v as explicit DSP48E2 instances: read them in place of those.\n\n"
    return head + "\n".join(explicit_module(name, mac) for name, mac in sorted(blocks.items()))


def model_path() -> Path:
    """Return the path of the DSP48E2 primitive's simulation model."""
    return Path(__file__).with_name(MODEL)


def explicit_text(folder: Path) -> str:
    """Read the Verilog of a build folder's explicit modules; "" if it has none."""
    path = folder / VERILOG
    return path.read_text() if path.is_file() else ""


def module_names(explicit: str) -> list[str]:
    """Return the module names in the result of `explicit_modules`."""
    # Restricted, because they become words of scripts, and a build folder may be untrusted.
    return re.findall(r"^module \\([\w.]+) ", explicit, re.MULTILINE | re.ASCII)


def with_explicit(verilog: str, explicit: str) -> str:
    """Return Verilog with both forms of some modules, the explicit one if `MACRO` is defined.

    Parameters
    ----------
    verilog : as written by Yosys, with the generic modules.
    explicit : result of `explicit_modules`.

    Raises
    ------
    ValueError : the Verilog lacks a module.
    """
    for text in re.findall(r"^module .*?^endmodule\n", explicit, re.MULTILINE | re.DOTALL):
        (name,) = module_names(text)
        generic = re.compile(
            rf"^module (?:\\{re.escape(name)} |{re.escape(name)})\(.*?^endmodule\n",
            re.MULTILINE | re.DOTALL,
        )
        matches = list(generic.finditer(verilog))
        if len(matches) != 1:
            raise ValueError(
                f"The Verilog must have one module '{name}' to replace, not {len(matches)}."
            )
        start, end = matches[0].span()
        both = f"`ifdef {MACRO}\n{text}`else\n{verilog[start:end]}`endif\n"
        verilog = verilog[:start] + both + verilog[end:]
    return verilog


def explicit_module(name: str, block: Mac) -> str:
    """Return the Verilog of a block's module.

    Parameters
    ----------
    name : name of the generic module.
    block : its parameters.
    """
    inputs = {"clk": 1, "a": WIDTH_A, "b": WIDTH_B}
    signs = bool(block.addend) or block.above
    inputs |= {"sub": 1} if signs else {}
    inputs |= {"c": block.addend, "add": 1} if block.addend else {}
    inputs |= {"z": WIDTH_P} if block.above else {}
    z = _PCIN if block.above else _C if block.addend else _ZERO
    lines = [f"module \\{name} ({', '.join([*inputs, block.sum_port])});"]
    lines += [
        f"  input {f'[{width - 1}:0] ' if width > 1 or port == 'c' else ''}{port};"
        for port, width in inputs.items()
    ]
    lines.append(f"  output [{WIDTH_P - 1}:0] {block.sum_port};")
    mode = "4'b0000"
    if signs:
        late = block.stages - 1
        if late:
            lines += ["  reg sub_late = 1'b0;", "  always @(posedge clk) sub_late <= sub;"]
        bit = "sub_late" if late else "sub"
        mode = f"{{2'b00, {bit}, {bit}}}"
    above = WIDTH_P - block.addend - block.shift
    sign = f"{{{above}{{c[{block.addend - 1}]}}}}, " if block.addend and above else ""
    zeros = f", {block.shift}'b0" if block.shift else ""
    connections = {
        "CLK": "clk",
        "A": f"{{{{3{{a[{WIDTH_A - 1}]}}}}, a}}",
        "B": "b",
        "C": f"{{{sign}c{zeros}}}" if block.addend else f"{WIDTH_P}'b0",
        "D": f"{WIDTH_A}'b0",
        "PCIN": "z" if block.above else f"{WIDTH_P}'b0",
        "ALUMODE": mode,
        "OPMODE": f"9'b00{z:03b}{_PRODUCT:04b}",
        "INMODE": "5'b00000",
        "CARRYIN": "1'b0",
        "CARRYINSEL": "3'b000",
        "RSTC": "!add" if block.addend else "1'b0",
        **dict.fromkeys(("CEA2", "CEB2", "CEC", "CEM", "CEP", "CEALUMODE"), "1'b1"),
        **dict.fromkeys(
            ("CEA1", "CEB1", "CED", "CEAD", "CECTRL", "CECARRYIN", "CEINMODE"), "1'b0"
        ),
        **dict.fromkeys(
            ("RSTA", "RSTB", "RSTD", "RSTM", "RSTP", "RSTCTRL", "RSTALUMODE", "RSTINMODE",
             "RSTALLCARRYIN"), "1'b0",
        ),
        "ACIN": "30'b0",
        "BCIN": "18'b0",
        "CARRYCASCIN": "1'b0",
        "MULTSIGNIN": "1'b0",
        "P": "" if block.below else block.sum_port,
        "PCOUT": block.sum_port if block.below else "",
    }  # fmt: skip
    parameters = _FIXED | {"MREG": block.stages - 1}
    lines.append("  DSP48E2 #(")
    lines.append(",\n".join(f"    .{key}({value})" for key, value in sorted(parameters.items())))
    lines.append("  ) block (")
    lines.append(",\n".join(f"    .{key}({value})" for key, value in sorted(connections.items())))
    lines += ["  );", "endmodule", ""]
    return "\n".join(lines)
