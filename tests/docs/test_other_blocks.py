"""Blocks of pages in other languages: robots, Verilog, C, TOML, JSON and YAML."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # Dask brings it, without types

import pinion.api as pinion
from tests.support.snippets import blocks

ROOT = Path(__file__).resolve().parents[2]

# The module's name on the pages; the tests use a robot of two links.
NAME = "iiwa14_rnea"


def _found(language: str) -> dict[str, list[str]]:
    """Return the blocks in a language, by page."""
    texts_by_page: dict[str, list[str]] = {}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        texts = [b.text for b in blocks(path.read_text("utf-8")) if b.language == language]
        if texts:
            texts_by_page[path.relative_to(ROOT).as_posix()] = texts
    return texts_by_page


def _only(page: str, language: str) -> str:
    (text,) = _found(language)[page]
    return text


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> pinion.ExportedFolder:
    """An exported core with the name that the pages use."""
    place = tmp_path_factory.mktemp("export")
    core = pinion.build("two_link", "rnea", place / "build", formats="q16.16")
    return core.export(place / "core", requests=8, name=NAME)


def test_each_language_is_looked_at_here_or_elsewhere() -> None:
    # CUDA and CMake: tests/compute/cuda; the packets of docs/link.md: tests/link; sums of products
    # and graphs: tests/graph.
    tested_here = {"", "python", "xml", "verilog", "c", "toml", "json", "yaml", "sh"}
    elsewhere = {"cuda", "cmake", "request", "response", "fixed", "graph"}
    pages = [p.read_text("utf-8") for p in (ROOT / "docs").rglob("*.md")]
    assert {block.language for page in pages for block in blocks(page)} <= tested_here | elsewhere


def test_robots_of_pages_open_as_the_pages_say(tmp_path: Path) -> None:
    file = tmp_path / "arm.urdf"
    file.write_text(_only("docs/guides/your-robot.md", "xml"))
    arm = pinion.load(file)
    assert [body.joint.name for body in arm.bodies] == ["shoulder", "elbow"]


def _verilog(instance: str, export: pinion.ExportedFolder, folder: Path) -> str:
    """Return the messages of Icarus for a design around an instance; empty if it elaborates."""
    ports = {p["name"]: p["width"] for p in export.figures["ports"]}
    wires = [
        f"wire [{ports[port] - 1}:0] {wire};"
        for port, wire in re.findall(r"\.(\w+)\((\w+)\)", instance)
    ]
    design = folder / "design.v"
    design.write_text("\n".join(["module around;", *wires, instance, "endmodule\n"]))
    source = str(export.folder / f"rtl/{NAME}.v")
    tool = [
        "iverilog",
        "-g2005",
        "-Wall",
        "-Wno-timescale",
        "-t",
        "null",
        "-s",
        "around",
        str(design),
        source,
    ]
    process = subprocess.run(tool, capture_output=True, text=True, timeout=600)
    messages = (process.stdout + process.stderr).splitlines()
    return "\n".join(line for line in messages if "design.v" in line or "error" in line.lower())


def test_the_instance_on_the_page_elaborates(export: pinion.ExportedFolder, tmp_path: Path) -> None:
    instance = _only("docs/guides/export.md", "verilog")
    assert _verilog(instance, export, tmp_path) == ""
    # Every port is on the page, and a port that is not there is noticed.
    on_page = set(re.findall(r"\.(\w+)\(", instance))
    assert on_page == {port["name"] for port in export.figures["ports"]}
    assert "m_axis_tlost" in _verilog(
        instance.replace(".m_axis_tlast(result_last)", ".m_axis_tlost()"), export, tmp_path
    )


def test_the_c_on_the_page_compiles(export: pinion.ExportedFolder, tmp_path: Path) -> None:
    text = _only("docs/export.md", "c")
    include, rest = text.split("\n", 1)
    assert rest.count("\n...\n") == 1
    body = rest.replace("\n...\n", f"\n{NAME}_result result = {{0}};\n")
    source = tmp_path / "host.c"
    source.write_text(f"{include}\nvoid host(const float *q, float *tau) {{\n{body}}}\n")
    command = ["cc", "-std=c11", "-Wall", "-Werror", "-c", str(source), "-o", "/dev/null"]
    subprocess.run([*command, "-I", str(export.folder)], check=True, timeout=600)


def test_a_design_for_fusesoc_depends_on_the_core_that_is_exported(
    export: pinion.ExportedFolder,
) -> None:
    design = yaml.safe_load(_only("docs/guides/export.md", "yaml"))
    (core,) = design["filesets"]["rtl"]["depend"]
    core_file = yaml.safe_load((export.folder / f"{NAME}.core").read_text().partition("\n")[2])
    # Without a version a design takes any; the core has that of Pinion.
    assert core_file["name"].rpartition(":")[0] == core


def test_toml_and_json_of_pages_can_be_read() -> None:
    read = 0
    for texts in _found("toml").values():
        read += sum(bool(tomllib.loads(text)) for text in texts)
    for texts in _found("json").values():
        read += sum(bool(json.loads(text)) for text in texts)
    assert read >= 6


def test_the_example_is_the_readme_s_program() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    program = next(block.text for block in blocks(readme) if block.language == "python")
    example = ast.parse((ROOT / "examples/five_lines.py").read_text("utf-8"))
    # Without the docstring, and what the house style asks of a file.
    body = [n for n in example.body[1:] if getattr(n, "module", "") != "__future__"]
    assert len(body) == 5
    assert ast.dump(ast.Module(body, [])) == ast.dump(ast.parse(program))
