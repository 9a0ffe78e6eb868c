"""The mapped netlist of a small core answers like the integer model, and a wrong cell shows."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from pinion.boards.ecp5.bitstream import MAPPED, NAME
from pinion.cosim.netlist import cell_models, check_netlist, map_core
from pinion.cosim.stream import StreamError
from pinion.flow.build import build
from pinion.gateware.yosys import run_yosys
from pinion.link.build_files import NETLIST_CHECK


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("netlist") / "pendulum"
    build("pendulum", "rnea", where, ii=8, formats="auto18")
    return where


# Half a minute of compiling, as the next.
@pytest.mark.slow
def test_the_netlist_is_bit_exact(folder: Path) -> None:
    steps: list[str] = []
    good = check_netlist(folder, 200, seed=7, report=steps.append)
    assert good["ok"] and good["mismatches"] == 0 and good["requests"] == 200
    assert good["cells"] > 300 and "Mapping the core" in steps
    text = Path(good["netlist"]).read_text()
    assert "MULT18X18D" in text and "TRELLIS_FF" in text
    left = NETLIST_CHECK.read(Path(good["netlist"]).parent)
    assert left == good and good["sha256"] == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.slow
def test_a_wrong_cell_is_found(folder: Path) -> None:
    """One table of one unit, turned over; it stands where the netlist of a bitstream does."""
    text = map_core(folder).read_text()
    start = re.search(r"^module \\?pinion_dot\w+", text, flags=re.MULTILINE)
    assert start is not None
    cell = re.compile(r"LUT4 #\(\s*\.INIT\(16'h(\w{4})\)").search(text, start.start())
    assert cell is not None
    broken = f"{int(cell[1], 16) ^ 0xFFFF:04x}"
    target = folder / NAME
    target.mkdir()
    (target / MAPPED).write_text(text[: cell.start(1)] + broken + text[cell.end(1) :])
    try:
        bad = check_netlist(folder, 200, seed=7)
    except StreamError:
        return  # it may as well stop answering
    assert not bad["ok"] and bad["mismatches"] > 0


def test_models_multiply_and_remember(tmp_path: Path) -> None:
    """Against plain arithmetic: corners of signed and mixed products, one word of memory."""
    (tmp_path / "models.v").write_text(cell_models())
    inputs = lambda name, value: ", ".join(  # noqa: E731 # one line of text, used twice
        f".{name}{bit}(1'b{value >> bit & 1})" for bit in range(18)
    )
    product = "{" + ", ".join(f"p{bit}" for bit in reversed(range(36))) + "}"
    outputs = ", ".join(f".P{bit}(p{bit})" for bit in range(36))
    wires = ", ".join(f"p{bit}" for bit in range(36))
    for a, b, sign_a, sign_b in ((0x20000, 0x20000, 1, 1), (0x3FFFF, 5, 0, 1), (0x3FFFF, 5, 1, 1)):
        left = a - (sign_a * (a >> 17 & 1) << 18)
        right = b - (sign_b * (b >> 17 & 1) << 18)
        (tmp_path / "top.v").write_text(
            f"module top(output [35:0] y); wire {wires};\n"
            f"MULT18X18D m({inputs('A', a)}, {inputs('B', b)}, .SIGNEDA(1'b{sign_a}), "
            f".SIGNEDB(1'b{sign_b}), .SOURCEA(1'b0), .SOURCEB(1'b0), {outputs});\n"
            f"assign y = {product}; endmodule\n"
        )
        log = run_yosys(
            [
                *("read_verilog top.v", "read_verilog models.v", "hierarchy -check -top top"),
                *("proc", "flatten", "opt -full", "clean", "eval -show y top"),
            ],
            folder=tmp_path,
        )
        found = re.search(r"Eval result: \\y = 36'([01]+)\.", log)
        assert found is not None and int(found[1], 2) == (left * right) % (1 << 36), (a, b)


def test_the_core_alone_is_mapped_as_in_the_flow(folder: Path) -> None:
    script = map_core(folder).with_name("map.ys").read_text()
    assert "synth_ecp5 -noflatten -nowidelut -top pinion_core" in script
