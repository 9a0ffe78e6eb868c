"""Duplicated registers: enough for their loads, and not merged again by tools."""

from __future__ import annotations

from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Module, Signal

from pinion.gateware.copies import KEEP, LOADS, Copies
from pinion.gateware.verilog import emit_verilog
from pinion.gateware.yosys import run_yosys

GROUPS = 5


def write(folder: Path) -> None:
    """Write a design of words with a common enable, two words per copy."""
    m = Module()
    enable, i = Signal(), Signal(LOADS // 2)
    words = [Signal(LOADS // 2, name=f"o{k}") for k in range(2 * GROUPS - 1)]
    copies = Copies(m, enable, name="copy")
    for k, word in enumerate(words):
        with m.If(copies.to(len(word))):
            m.d.sync += word.eq(i ^ k)
    text = rtlil.convert(m, name="top", ports=[enable, i, *words], emit_src=False)
    (folder / "core.il").write_text(text)


def registers(folder: Path, *more: str) -> int:
    """Return how many one-bit registers remain after Yosys merged equal ones."""
    script = ["read_rtlil core.il", *more, "proc", "opt -full"]
    select = "tee -q -o found.txt select -list t:$*dff* r:WIDTH=1 %i"
    run_yosys([*script, select], folder=folder)
    return len((folder / "found.txt").read_text().split())


def test_a_register_has_as_many_copies_as_its_loads_take() -> None:
    copies = Copies(Module(), Signal(), name="copy")
    signals = [copies.to(loads) for loads in (LOADS - 1, 1, 1, LOADS, LOADS + 9, 1)]
    numbers = [int(copy.name.removeprefix("copy")) for copy in signals]
    assert numbers == [0, 0, 1, 2, 3, 4]


def test_copies_stay_apart_only_with_their_marks(tmp_path: Path) -> None:
    write(tmp_path)
    assert registers(tmp_path, KEEP) == GROUPS
    assert registers(tmp_path) == 1


def test_the_verilog_has_their_marks_and_no_others(tmp_path: Path) -> None:
    write(tmp_path)
    emit_verilog(tmp_path / "core.il", tmp_path / "core.v")
    text = (tmp_path / "core.v").read_text()
    assert text.count('(* keep = "true" *)') == text.count("(* ") == GROUPS
