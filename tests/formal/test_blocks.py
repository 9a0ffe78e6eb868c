"""Explicit blocks equal the generic ones, and wrong ones are found."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from pinion.gateware.dsp48e2 import explicit_module, model_path
from pinion.gateware.mac import Mac
from pinion.gateware.yosys import YosysError, run_yosys
from tests.support.blocks import Forms, dot_unit, dot_units, forms, prove_forms
from tests.support.icarus import simulate

USUAL = {
    f"dot{products}_{stages}_{addend}": dot_unit(
        products=products, stages=stages, addend=addend, shift=17
    )
    for products, stages, addend in ((3, 1, 27), (3, 2, 27), (1, 1, 0))
}


def check(both: Forms, folder: Path, count: int) -> None:
    proved = prove_forms(both, folder)
    assert len(proved) == count
    assert [name for name, starts in proved.items() if starts != (True, True)] == []


def test_usual_blocks_are_the_same_in_both_forms(tmp_path: Path):
    check(forms({"dot3_2_27": USUAL["dot3_2_27"]}), tmp_path, 3)


@pytest.mark.slow
def test_all_blocks_are_the_same_in_both_forms(tmp_path: Path):
    # Single or first, with or without addends, each with 1 or 2 registers; middle and last.
    check(forms(dot_units()), tmp_path, 2 * (2 * 5 + 2))


# Block of USUAL, a text of its explicit form, and the text in a wrong one.
MUTANTS = {
    "nothing from the block before": ("dot3_1_27.mac1", "9'b000010101", "9'b000000101"),
    "C where the block before is added": ("dot3_1_27.mac2", "9'b000010101", "9'b000110101"),
    "the block before where C is added": ("dot3_1_27.mac0", "9'b000110101", "9'b000010101"),
    "a product in one multiplexer alone": ("dot3_1_27.mac0", "9'b000110101", "9'b000110001"),
    "subtracts the other way round": ("dot3_1_27.mac0", "2'b00, sub, sub", "3'b000, sub"),
    "never subtracts": ("dot3_2_27.mac1", "2'b00, sub_late, sub_late", "4'b0000"),
    "the sign a cycle early": ("dot3_2_27.mac1", "2'b00, sub_late, sub_late", "2'b00, sub, sub"),
    "the sign without a register": ("dot3_1_27.mac1", ".ALUMODEREG(1)", ".ALUMODEREG(0)"),
    "a register more": ("dot3_1_27.mac1", ".MREG(0)", ".MREG(1)"),
    "a register less": ("dot3_2_27.mac1", ".MREG(1)", ".MREG(0)"),
    "the register of products stands": ("dot3_2_27.mac2", ".CEM(1'b1)", ".CEM(1'b0)"),
    "the addend stays": ("dot3_1_27.mac0", ".RSTC(!add)", ".RSTC(1'b0)"),
    "the addend without a register": ("dot3_1_27.mac0", ".CREG(1)", ".CREG(0)"),
    "the addend without its sign": ("dot3_1_27.mac0", "{{4{c[26]}}, c", "{4'b0, c"),
    "the addend a bit lower": ("dot3_1_27.mac0", "c, 17'b0", "c[26], c, 16'b0"),
    "an operand without its sign": ("dot3_1_27.mac1", "{{3{a[26]}}, a}", "{4'b0, a[25:0]}"),
    "the enable of the other register": ("dot3_1_27.mac1", ".CEA2(1'b1)", ".CEA2(1'b0)"),
    "a sum without a register": ("dot1_1_0.mac0", ".PREG(1)", ".PREG(0)"),
}


# One of each kind; each takes the solver half a second.
SOME = ("nothing from the block before", "subtracts the other way round", "a register less")
SOME += ("the addend stays", "an operand without its sign")


@pytest.mark.parametrize("names", [SOME, pytest.param(MUTANTS, marks=pytest.mark.slow)])
def test_wrong_blocks_are_found(names: Collection[str], tmp_path: Path):
    both = forms(USUAL)
    modules = {
        name: text
        for text in re.split(r"(?<=endmodule\n)", both.explicit)
        for name in re.findall(r"module \\explicit_(\S+) ", text)
    }
    generic, explicit, stages = "", "", {}
    for number, (block, old, new) in enumerate(map(MUTANTS.__getitem__, names)):
        assert modules[block].count(old) == 1, (block, old)
        name = f"wrong{number}"
        module = re.search(rf"^module \\{block}\n.*?^end\n", both.generic, re.MULTILINE | re.DOTALL)
        assert module is not None
        generic += module[0].replace(f"\\{block}\n", f"\\{name}\n")
        explicit += modules[block].replace(old, new).replace(block, name)
        stages[name] = both.stages[block]
    wrong = replace(both, generic=generic, explicit=explicit, stages=stages)
    proved = prove_forms(wrong, tmp_path)
    missed = [text for text, starts in zip(names, proved.values(), strict=True) if all(starts)]
    assert missed == []
    assert all(not any(starts) for starts in proved.values()), proved


# What the model must refuse: a parameter, a mode.
REFUSED = {
    ".ACASCREG(1)": ".ACASCREG(0)",
    ".MREG(0)": '.USE_SIMD("TWO24"), .MREG(0)',
}
BLOCK = explicit_module("block", Mac(addend=27, shift=17, above=False, below=False, stages=1))


@pytest.mark.parametrize("old", REFUSED)
def test_the_model_refuses_what_it_does_not_model(old: str, tmp_path: Path):
    (tmp_path / "model.v").write_text(model_path().read_text())
    (tmp_path / "block.v").write_text(BLOCK.replace(old, REFUSED[old]))
    with pytest.raises(YosysError, match="has_no_model"):
        run_yosys(["read_verilog model.v block.v", "hierarchy -check"], folder=tmp_path)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("one multiplexer", "9'b000110101", "9'b000110100"),
        ("inverted Z", "{2'b00, sub, sub}", "4'b0001"),
        ("pre-adder", "5'b00000", "5'b00100"),
    ],
)
def test_a_mode_without_a_model_stops_a_simulation(name: str, old: str, new: str, tmp_path: Path):
    bench = """module bench;
  reg clk = 0;
  always #1 clk = !clk;
  block block (.clk(clk), .a(27'd3), .b(18'd5), .sub(1'b1), .c(27'd1), .add(1'b1));
  initial #20 begin
    if (block.p == 48'd131057) $display("131072 - 15");
    $finish(0);
  end
endmodule
"""
    text = BLOCK.replace("module \\block (", "module block (")
    assert text.count(old) == 1, name
    processes = []
    for block in (text, text.replace(old, new)):
        (tmp_path / "bench.v").write_text(block + bench)
        processes.append(simulate(tmp_path, "bench.v", model_path(), standard="2005"))
    sound, broken = processes
    assert sound.returncode == 0 and "131072 - 15" in sound.stdout
    assert broken.returncode != 0 and "has no model" in broken.stdout
