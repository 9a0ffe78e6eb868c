"""Hostile names: refused where they are read, harmless where they are written.

The outputs go through the programs that would obey: Tcl, Icarus, compilers, Python. Each has a
mutant, a writer that does not escape, so that the trap is known to snap.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import tomllib
import xml.etree.ElementTree as Xml
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pinion.base import escaping
from pinion.boards.ecp5 import bitstream
from pinion.boards.xilinx import load_board, readme, script
from pinion.boards.xilinx.clocking import core_clock
from pinion.compute import export as c_export
from pinion.compute.cpu import graph_of
from pinion.compute.cuda.export import export_header
from pinion.compute.program.source import kernel_source
from pinion.cosim.reference import Reference
from pinion.flow.build import Build, BuildError
from pinion.flow.export import export
from pinion.flow.export.interface import core_ports
from pinion.flow.export.ipxact import component_xml
from pinion.flow.export.records import records_header
from pinion.functions import UserError, named_function
from pinion.link import Manifest, ManifestError
from pinion.link.digests import write_digests
from pinion.report.build_data import build_data
from pinion.report.build_page import build_page
from pinion.report.page import code_line, escaped, escaped_table
from pinion.report.table import FigureTable
from pinion.robot import Model, RobotError, from_pinocchio, load, load_text
from tests.support.builds import build

TRAP = "PWNED"
"""The file that each name tries to create."""

PIECES = (
    f"[exec touch {TRAP}]",
    f"$(touch {TRAP})",
    f"`touch {TRAP}`",
    f'"; exec touch {TRAP}; "',
    f"'; touch {TRAP}; '",
    f"*/ #error {TRAP} /*",
    f"]]> --> <script>{TRAP}</script>",
    "<img src=x onerror=alert(1)>",
    f"x | y ](javascript:{TRAP}) ![a](http://e.org) @ROBOT@ %%name%% {{0}}",
    f"}} {{ }} [exec touch {TRAP}] {{",
    "..\\..\\..//etc/passwd",
    '""" + __import__("os").getcwd() + """',
    "${HOME} #{x} %n\\n",
    "back\\slash\\",
    "what??/",
)
BREAKS = ("\n", "\r\n", "\x0b", "\x85", "\u2028", "\u2029", "\x00", "\x1b[2J", "\u202e", "\u2066")
VISIBLE = " ".join(PIECES[:-2])[:190]

HOSTILE = [
    *PIECES,
    *(f"robot{end}[exec touch {TRAP}]{end}`include 'x'{end}#error {TRAP}{end}" for end in BREAKS),
]


@pytest.fixture(scope="module")
def model() -> Model:
    """A robot whose name combines all attacks of a single line."""
    return replace(load("pendulum"), name=VISIBLE)


@pytest.fixture(scope="module")
def hostile_build(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Build:
    folder = tmp_path_factory.mktemp("hostile") / "build"
    build(model, "rnea", folder, ii=8, formats="auto")
    return Build.read(folder)


def named(manifest: Manifest, name: str) -> Manifest:
    """A build in which every text is the name."""
    return replace(
        manifest, robot=name, robot_source=name, function=name, formats=name, version=name
    )


def test_a_name_of_one_line_goes_through_whole_builds(hostile_build: Build) -> None:
    assert hostile_build.manifest.robot == hostile_build.model.name == VISIBLE
    for path in hostile_build.folder.iterdir():
        if path.name not in ("manifest.json", "model.json"):
            assert TRAP not in path.read_text(), path.name
    tomllib.loads((hostile_build.folder / "plan.toml").read_text())


@pytest.mark.parametrize("end", BREAKS, ids=ascii)
def test_control_characters_are_refused_wherever_robots_come_from(end: str) -> None:
    name = f"arm{end}[exec touch {TRAP}]"
    with pytest.raises(RobotError, match=r"robot name .* contains the control character"):
        build(replace(load("pendulum"), name=name), "rnea", Path("nowhere"))
    model = load("pendulum")
    body = replace(model.bodies[0], joint=replace(model.bodies[0].joint, name=name))
    with pytest.raises(RobotError, match=r"joint name .* contains the control character"):
        build(replace(model, bodies=(body,)), "rnea", Path("nowhere"))
    with pytest.raises(BuildError, match="function's name"):
        build("pendulum", replace(named_function("rnea"), name=name), Path("nowhere"))
    if end not in "\x00\x0b\x1b[2J":  # which XML cannot represent
        reference = "".join(f"&#{ord(c)};" for c in end)
        text = f'<robot name="arm{reference}[exec touch {TRAP}]"><link name="a"/></robot>'
        with pytest.raises(RobotError, match="control character"):
            load_text(text)
    assert not Path("nowhere").exists()


def test_names_are_refused_from_other_libraries(tmp_path: Path) -> None:
    import pinocchio

    pinocchio_model = pinocchio.Model()
    pinocchio_model.name = "arm\n[exec]"
    inertia = pinocchio.Inertia.Random()
    joint = pinocchio_model.addJoint(0, pinocchio.JointModelRX(), pinocchio.SE3.Identity(), "j")
    pinocchio_model.appendBodyToJoint(joint, inertia, pinocchio.SE3.Identity())
    with pytest.raises(RobotError, match=r"robot name 'arm\\n\[exec\]' contains"):
        from_pinocchio(pinocchio_model)
    if importlib.util.find_spec("mujoco") is None:
        pytest.skip("mujoco is missing: the reader of MJCF is not tried")
    from pinion.robot import from_mjcf

    body = '<body name="b"><joint name="{}"/><geom size="1" mass="1"/></body>'
    for robot, joint_name in (("a&#10;b", "j"), ("a", "j&#x202e;k"), ("a", "j&#27;[2J")):
        path = tmp_path / "robot.xml"
        path.write_text(
            f'<mujoco model="{robot}"><worldbody>{body.format(joint_name)}</worldbody></mujoco>'
        )
        with pytest.raises(RobotError, match=r"contains the control character|MuJoCo cannot load"):
            from_mjcf(path)


@pytest.mark.parametrize("name", ["a" * 201, "arm\n", "\u202earm"], ids=ascii)
def test_a_manifest_with_such_a_name_is_refused(
    hostile_build: Build, name: str, tmp_path: Path
) -> None:
    manifest = replace(hostile_build.manifest, robot=name)
    if name.isalpha():
        manifest.write(tmp_path)
        assert Manifest.read(tmp_path).robot == name  # long, and harmless
        return
    with pytest.raises(ManifestError, match="The manifest cannot be read back"):
        manifest.write(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps(manifest.to_dict()))
    with pytest.raises(ManifestError, match="cannot be read"):
        Manifest.read(tmp_path)


def test_a_robot_with_such_a_joint_is_no_intact_build(hostile_build: Build, tmp_path: Path) -> None:
    folder = shutil.copytree(hostile_build.folder, tmp_path / "build")
    path = folder / "model.json"
    data = json.loads(path.read_text())
    data["bodies"][0]["joint"]["name"] = "joint\x1b[2J"
    path.write_text(json.dumps(data))
    write_digests(folder)
    with pytest.raises(ManifestError, match=r"not intact .*joint name .* contains the control"):
        Build.read(folder)


def test_a_mistake_in_code_shows_no_control_characters(tmp_path: Path) -> None:
    """Its file may have any name, and its text is quoted."""
    path = tmp_path / "own\x1b[2J\u202e.py"
    path.write_text(
        "from pinion.api import array, function, uniform\n"
        "@function(inputs={'x': array(sampling=uniform(0, 1))}, outputs={'y': array()})\n"
        "def f(x):\n"
        "    return x + '\x1b[2J\u202e'\n"
    )
    with pytest.raises(UserError, match=r"own \[2J \.py:4: `x \+ ' \[2J '`: ") as error:
        named_function(f"{path}:f").check(load("none"))
    assert not escaping.control_in(str(error.value))
    path.write_text("raise ValueError('\x1b[2J')\n")
    with pytest.raises(UserError, match=r"raises ValueError \( ?\[2J\)") as error:
        named_function(f"{path}:f")
    assert not escaping.control_in(str(error.value))


# ---- Tcl ----


def scripts(manifest: Manifest) -> dict[str, str]:
    board = load_board("vcu118")
    clock = core_clock(board, 200.0)
    return {
        "build.tcl": script.build_tcl(board, manifest, clock, synchronisers=3),
        "synth_core.tcl": script.core_tcl(board, manifest, clock),
    }


def run_tcl(text: str, folder: Path) -> int:
    """Exit code of a script, by ``tclsh`` or by the interpreter inside Python."""
    path = folder / "script.tcl"
    path.write_text(text)
    tclsh = shutil.which("tclsh")
    if tclsh is not None:
        command = [tclsh, str(path)]
        return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode
    if importlib.util.find_spec("_tkinter") is None:
        pytest.skip("tclsh is missing (Debian: apt-get install tcl), and so is Python's tkinter")
    code = "import sys, tkinter; tkinter.Tcl().evalfile(sys.argv[1])"
    command = [shutil.which("python3") or "python3", "-c", code, str(path)]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode


def test_scripts_run_no_command_of_a_name(
    hostile_build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in HOSTILE:
        for file, text in scripts(named(hostile_build.manifest, name)).items():
            # Without Vivado the script stops at its first command, with a message.
            assert run_tcl(text, tmp_path) == script.FAILED, (file, name)
            assert not (tmp_path / TRAP).exists(), (file, name)
    monkeypatch.setattr(script, "comment", str)
    run_tcl(scripts(named(hostile_build.manifest, HOSTILE[len(PIECES)]))["build.tcl"], tmp_path)
    assert (tmp_path / TRAP).exists(), "the trap snaps where nothing is escaped"


# ---- C, C++ and CUDA ----


def compiles(text: str, folder: Path, *, language: str) -> str:
    """Return the compiler's output for a header; trigraphs are on, as in old standards."""
    path = folder / ("text.c" if language == "c" else "text.cpp")
    path.write_text(text)
    standard = "-std=c11" if language == "c" else "-std=c++17"
    command = ["gcc", "-x", language, standard, "-trigraphs", "-fsyntax-only", "-w", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def library(name: str) -> Any:
    row, robot = named_function("rnea"), load("pendulum")
    return c_export._FunctionLibrary(
        name="arm",
        title=f"{row.name} of {name}",
        model=robot,
        function=replace(row, doc=name),
        inputs=tuple(replace(b.resolved(robot), unit=name) for b in row.inputs),
        results=tuple(b.resolved(robot) for b in row.results),
        dtypes=("float64",),
    )


def test_headers_compile_whatever_the_names(
    hostile_build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = hostile_build.manifest
    units = "m */ #error /*\n#error"
    inputs = tuple(replace(array, unit=units) for array in manifest.inputs)
    texts = []
    for name in HOSTILE:
        text = records_header("arm", named(replace(manifest, inputs=inputs), name))
        texts += [text, library(name).header(), library(name)._dispatcher().partition("#define")[0]]
        assert all(c.isprintable() or c == "\n" for part in texts[-3:] for c in part)
    # All in one run of the compiler: guards would hide all but the first.
    bare = re.sub(r"#(?:ifndef|define) \w+_H\b.*", "", "\n".join(texts))
    comments = "\n".join(re.findall(r"/\*.*?\*/|//[^\n]*", bare, re.DOTALL))
    rest = re.sub(r"/\*.*?\*/|//[^\n]*", "", bare, flags=re.DOTALL)
    assert TRAP not in rest and "error" not in rest
    for language in ("c", "c++"):
        assert compiles(f"int before;\n{comments}\nint after;\n", tmp_path, language=language) == ""
        assert compiles(texts[0], tmp_path, language=language) == ""
    monkeypatch.setattr(c_export, "comment", str)
    assert compiles(library(PIECES[5]).header(), tmp_path, language="c")


def test_kernels_and_cuda_headers_carry_names_in_comments_alone(
    model: Model, tmp_path: Path
) -> None:
    row, robot = named_function("rnea"), load("pendulum")
    for name in HOSTILE:
        head = kernel_source(
            graph_of(robot, row),
            inputs=tuple(b.resolved(robot) for b in row.inputs),
            results=tuple(b.resolved(robot) for b in row.results),
            dtype="float64",
            registers=16,
            title=name,
        ).text.partition("#include")[0]
        assert compiles(f"{head}\nint after;\n", tmp_path, language="c++") == ""
    export_header(model, row, folder=tmp_path / "cuda", name="arm", robot=VISIBLE)
    text = (tmp_path / "cuda" / "arm.cuh").read_text()
    code = re.sub(r"//[^\n]*", "", text)
    assert TRAP not in code and TRAP in text


# ---- The exported folder ----


def test_an_exported_folder_is_read_by_its_tools(hostile_build: Build, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(
        hostile_build.folder,
        out,
        model=lambda build_read: Reference(build_read).expected,
        requests=1,
    )
    (verilog,) = (out / "rtl").glob("*.v")
    head = verilog.read_text().partition("module ")[0]
    ours = ("// ", "`timescale 1ns / 1ps", "/* verilator lint_off ")
    assert all(line.startswith(ours) or not line for line in head.splitlines())
    # Icarus parses it, and names are only in comments.
    command = ["iverilog", "-t", "null", "-Wall", str(verilog)]
    if shutil.which("iverilog") is None:
        pytest.skip("iverilog is missing: the exported Verilog is not parsed")
    process = subprocess.run(command, cwd=out, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    for path in (out / "tb").glob("*.py"):
        ast.parse(path.read_text())
    Xml.parse(out / "component.xml")
    json.loads((out / "core.json").read_text())
    core = next(out.glob("*.core")).read_text()
    (description,) = re.findall(r"^description: (.*)$", core, re.MULTILINE)
    assert re.fullmatch(r'"[^"\\]*"', description)
    page = (out / "README.md").read_text()
    assert "<script>" not in page and "<img" not in page and "[exec" not in page.replace("\\[", "")
    for name in HOSTILE:
        text = component_xml(
            "arm", named(hostile_build.manifest, name), core_ports(hostile_build.manifest), {}
        )
        Xml.fromstring(text)
        assert TRAP not in text or all(c.isprintable() or c == "\n" for c in text)


# ---- Pages and plans ----


def test_pages_show_names_and_do_nothing_else(hostile_build: Build) -> None:
    board = load_board("vcu118")
    result = {
        "part": "p", "fmax_mhz": 1.0, "clock_mhz": 1.0, "met": True, "tool": "t",
        "use": {}, "share": {}, "critical_path": None,
    }  # fmt: skip
    for name in HOSTILE:
        manifest = named(hostile_build.manifest, name)
        pages = {
            "board": readme.readme(board, manifest, core_clock(board, 200.0), multipliers=()),
            "ulx3s": bitstream.page(escaping.markdown(manifest.robot), result),
            "library": library(name)._readme(),
            "table": "\n".join(escaped_table(FigureTable(columns=(name,), rows=[[name]]))),
            "line": escaped(name),
        }
        for page, text in pages.items():
            where = (page, name)
            assert all(c.isprintable() or c == "\n" for c in text), where
            assert "<script" not in text and "<img" not in text, where
            bare = re.sub(r"\\.", "", text)
            assert "](javascript" not in bare and f"[exec touch {TRAP}]" not in bare, where
            assert f"`touch {TRAP}`" not in bare, where
        assert len(pages["table"].splitlines()) == 3
        lines = [re.sub(r"\\.", "", line) for line in pages["table"].splitlines()]
        assert {line.count("|") for line in lines} == {2}
        assert code_line(name).startswith("    ") and "\n" not in code_line(name)


def test_a_page_of_builds_shows_names_as_text(
    hostile_build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = build_data(hostile_build.folder)
    for name in HOSTILE:
        manifest = {**named(hostile_build.manifest, name).to_dict(), "target": "sim"}
        robot = {**data["robot"], "name": name, "tips": [name] * len(data["robot"]["tips"])}
        hostile = {**data, "manifest": manifest, "robot": robot, "folder": name}
        text = build_page([hostile, hostile])
        bare = re.sub(r"<(style|script)[^>]*>.*?</\1>", "", text, flags=re.DOTALL)
        assert "<script" not in bare and "<img" not in bare and "<!--" not in bare, name
        assert text.count("</script>") == 2, name
        assert all(c.isprintable() or c == "\n" for c in bare), name
    monkeypatch.setattr("pinion.report.build_page.text", str)
    monkeypatch.setattr("pinion.report.sections.text", str)
    assert "<img" in build_page([{**data, "folder": PIECES[7]}] * 2), (
        "a writer that escapes nothing"
    )


def test_build_files_of_the_library_are_no_commands(tmp_path: Path) -> None:
    for name in HOSTILE:
        text = library(name)._pkg_config()
        (line,) = re.findall(r"^Description: (.*)$", text, re.MULTILINE)
        assert not set(line) & set('$#\\`"{}') and len(text.splitlines()) == 6
        assert TRAP not in library(name)._cmake()
        assert not set(escaping.identifier(name)) - set(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
        )
        # Nor is a comment's text that a shell would expand.
        process = subprocess.run(
            ["sh", "-c", f": {shlex.quote(escaping.comment(name))}; : {escaping.identifier(name)}"],
            cwd=tmp_path, capture_output=True, check=False,
        )  # fmt: skip
        assert process.returncode == 0 and not (tmp_path / TRAP).exists()
