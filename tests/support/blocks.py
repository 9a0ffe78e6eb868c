"""Proof that explicit blocks equal the generic ones, by Yosys and its solver in one process.

The multiplier is taken out of both forms: its operands become outputs, its product an input that
both share and that may be any value in any cycle. What is then proved is that both forms offer it
the same operands in every cycle and give the same sums, whatever it answers. As the cells that were
taken out are the same function, ``$mul`` of signed 27 and 18 bits, the forms are equal with it.

Two proofs for each block: from the state after configuration for ever, by induction; and from any
two states, that they are equal once every register has been written, in ``stages + 1`` cycles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pinion.fixedpoint import Format, Overflow, Rounding
from pinion.gateware.dot import DotUnit
from pinion.gateware.dsp48e2 import MODEL, explicit_modules, model_path
from pinion.gateware.mac import WIDTH_A, WIDTH_B, Mac
from pinion.gateware.yosys import run_yosys

_MULTIPLIER = (
    f"t:$mul r:A_WIDTH={WIDTH_A} %i r:B_WIDTH={WIDTH_B} %i r:Y_WIDTH={WIDTH_A + WIDTH_B} %i "
    "r:A_SIGNED=1 %i r:B_SIGNED=1 %i"
)


@dataclass(frozen=True, kw_only=True)
class Forms:
    """Blocks in both forms: generic RTLIL and explicit Verilog.

    Members
    -------
    generic : RTLIL of modules.
    explicit : Verilog of modules named ``explicit_`` and the generic one's name.
    model : Verilog of the primitive.
    stages : of each block, by the generic module's name.
    """

    generic: str
    explicit: str
    model: str
    stages: Mapping[str, int]


# Width of the addend and bits that it is above the products: none, a usual one, high, up to
# the last bit but one, a single bit.
ADDENDS = ((0, 17), (27, 17), (20, 26), (45, 0), (1, 0))


def dot_unit(*, products: int, stages: int, addend: int, shift: int) -> DotUnit:
    """Return a dot unit in blocks; three products give a first, a middle and a last block."""
    return DotUnit(
        products=products,
        width_a=WIDTH_A,
        width_b=WIDTH_B,
        shift=shift,
        target=Format(27, 10),
        rounding=Rounding.FLOOR,
        overflow=Overflow.WRAP,
        addend=addend,
        multiplier_stages=stages,
    )


def dot_units() -> dict[str, DotUnit]:
    """Return units by name that cover every kind of block."""
    return {
        f"dot{products}_{stages}_{addend}_{shift}": dot_unit(
            products=products, stages=stages, addend=addend, shift=shift
        )
        for stages in (1, 2)
        for addend, shift in ADDENDS
        for products in (1, 3)
    }


def forms(units: Mapping[str, DotUnit]) -> Forms:
    """Return both forms of the units' blocks, as a build writes them, once per kind of block."""
    kinds: dict[tuple[int, int, bool, bool, int], tuple[str, Mac]] = {}
    for name, unit in units.items():
        for part, block in unit.blocks().items():
            shift = block.shift if block.addend else 0
            kind = (block.addend, shift, block.above, block.below, block.stages)
            kinds.setdefault(kind, (f"{name}.{part}", block))
    blocks = dict(kinds.values())
    return Forms(
        generic="\n".join(unit.to_rtlil(name) for name, unit in units.items()),
        explicit=explicit_modules({f"explicit_{name}": block for name, block in blocks.items()}),
        model=model_path().read_text(),
        stages={name: block.stages for name, block in blocks.items()},
    )


def prove_forms(both: Forms, folder: Path) -> dict[str, tuple[bool, bool]]:
    """Prove that the generic and the explicit form of each block are equivalent.

    Parameters
    ----------
    both : the forms to compare.
    folder : where scripts and logs go.

    Returns
    -------
    For each block by name, whether it is proved from configuration on, and from any states.

    Raises
    ------
    pinion.gateware.yosys.YosysError
        When a form cannot be read, has not exactly one multiplier, or not the other's ports.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "generic.il").write_text(both.generic)
    (folder / "explicit.v").write_text(both.explicit)
    (folder / MODEL).write_text(both.model)
    commands = [
        f"read_verilog -formal {MODEL}",
        "read_rtlil generic.il",
        "read_verilog explicit.v",
        "hierarchy -check",
        "proc",
        "chformal -lower",
        "flatten =explicit_*",
        # One multiplier in each, of one kind; other contents of the modules are not compared.
        *(f"select -assert-count 1 ={name}/{_MULTIPLIER}" for name in both.stages),
        "rename -enumerate -pattern product% t:$mul",
        "expose -evert t:$mul",
        *(f"miter -equiv -make_assert -flatten {n} explicit_{n} check_{n}" for n in both.stages),
        "opt_expr -full =check_*",
        "opt_clean =check_*",
    ]
    for name, stages in both.stages.items():
        commands += [
            f"log PROOF {name} configured",
            f"sat -tempinduct -prove-asserts check_{name}",
            f"log PROOF {name} any",
            f"setattr -unset init check_{name}/w:*",
            f"sat -seq {stages + 2} -prove-skip {stages + 1} -prove-asserts check_{name}",
        ]
    log = run_yosys(commands, folder=folder, name="blocks")
    proved = {
        (name, start): "SUCCESS!" in text
        for name, start, text in re.findall(
            r"^PROOF (\S+) (\w+)$(.*?)(?=^PROOF|\Z)", log, re.MULTILINE | re.DOTALL
        )
    }
    return {name: (proved[name, "configured"], proved[name, "any"]) for name in both.stages}
