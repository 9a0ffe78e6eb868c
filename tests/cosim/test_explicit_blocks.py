"""Whole cores with explicit DSP48E2 blocks, simulated with a model, against the exact integers."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pinion.cosim.reference import Reference
from pinion.cosim.runner import BenchError
from pinion.cosim.verify import verify
from pinion.flow.build import Build, BuildError
from pinion.flow.export import export
from pinion.gateware.dsp48e2 import MACRO, VERILOG, explicit_text, model_path, module_names
from pinion.link.accuracy import ErrorDistribution
from pinion.link.digests import write_digests
from tests.support.builds import build


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("explicit") / "two_link"
    build("two_link", "rnea", where, formats="auto")
    return where


def test_a_core_of_explicit_blocks_computes_the_same_bits(folder: Path) -> None:
    figures = verify(folder, samples=500, seed=5, dsp48e2=True)
    assert figures["ok"] and figures["mismatches"] == 0 and figures["dsp48e2"]
    # It is not recorded as the core's accuracy.
    assert ErrorDistribution.find(folder) is None


def test_a_wrong_block_is_seen_from_outside(folder: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(folder, tmp_path / "broken")
    text = (broken / "core.v").read_text()
    wrong = text.replace(".RSTC(!add)", ".RSTC(1'b0)")
    assert wrong != text
    (broken / "core.v").write_text(wrong)
    write_digests(broken)
    with pytest.raises(BenchError, match="differ from the reference"):
        verify(broken, samples=10, simulator="icarus", dsp48e2=True)


def test_cores_without_such_blocks_are_refused(folder: Path, tmp_path: Path) -> None:
    without = shutil.copytree(folder, tmp_path / "without")
    (without / VERILOG).unlink()
    write_digests(without)
    with pytest.raises(BuildError, match="no explicit DSP48E2 blocks"):
        verify(without, dsp48e2=True)


def forms(verilog: str) -> list[str]:
    """Return the names of modules in both forms."""
    both = re.findall(
        rf"^`ifdef {MACRO}\nmodule (\S+) .*?^endmodule\n"
        r"`else\nmodule (\S+?) ?\(.*?^endmodule\n`endif",
        verilog,
        re.MULTILINE | re.DOTALL,
    )
    assert all(left.removeprefix("\\") == right.removeprefix("\\") for left, right in both)
    return [name.removeprefix("\\") for name, _ in both]


def test_files_carry_both_forms_and_marks_where_tools_look(folder: Path, tmp_path: Path) -> None:
    names = module_names(explicit_text(folder))
    assert names
    text = (folder / "core.v").read_text()
    assert forms(text) == names
    # Marks are on registers and memories, not on ports, and Yosys' marks are gone.
    lines = text.splitlines()
    marks = [number for number, line in enumerate(lines) if "(*" in line]
    assert {lines[number].strip() for number in marks} == {
        *('(* keep = "true" *)', '(* ram_style = "block" *)', '(* rom_style = "block" *)'),
    }
    behind = {number + 1 for number in marks} - set(marks)
    assert {lines[number].split()[0] for number in behind} == {"reg"}

    out = tmp_path / "out"
    export(folder, out, model=lambda read: Reference(read).expected, requests=8, name="arm")
    exported = out / "rtl/arm.v"
    assert forms(exported.read_text()) == [f"arm__{name.replace('.', '_')}" for name in names]
    for words in ([], [f"-D{MACRO}", str(model_path())]):
        subprocess.run(
            ["iverilog", "-o", tmp_path / "out.vvp", "-s", "arm", *words, exported], check=True
        )
    # Without a model, the explicit form needs the vendor's primitive.
    alone = ["iverilog", "-o", tmp_path / "out.vvp", "-s", "arm", f"-D{MACRO}", exported]
    process = subprocess.run(alone, capture_output=True, text=True, check=False)
    assert process.returncode != 0 and "DSP48E2" in process.stderr


@pytest.mark.slow
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_other_simulators_read_the_explicit_blocks(folder: Path, simulator: str) -> None:
    assert verify(folder, samples=40, simulator=simulator, dsp48e2=True)["ok"]


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["area", "throughput"])
def test_a_real_core_of_explicit_blocks(objective: str, tmp_path: Path) -> None:
    folder = tmp_path / "iiwa14"
    build("iiwa14", "rnea", folder, formats="auto", objective=objective, target="vcu118")
    assert module_names(explicit_text(folder))
    figures = verify(folder, samples=1000, seed=1, dsp48e2=True)
    assert figures["ok"] and figures["mismatches"] == 0
    board = (folder / "vcu118/pinion_board.v").read_text()
    assert forms(board) == module_names(explicit_text(folder))
    assert Build.read(folder).manifest.objective == objective
