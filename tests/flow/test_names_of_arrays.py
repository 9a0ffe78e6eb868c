"""Reserved names of languages: renamed in exports, or refused."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pinion.api import array, uniform
from pinion.api import function as decorated
from pinion.compute import export as c_export
from pinion.flow import Build
from pinion.flow.export.records import records_header
from pinion.functions import OwnFunction, UserError
from pinion.link import Manifest, ManifestError
from pinion.robot import load
from pinion.robot.c_names import c_names
from tests.support.builds import build

WORDS = (
    # Keywords of C and of C++, macros and types of their headers, and names that writers use.
    *("int", "double", "register", "restrict", "inline", "struct", "static_assert"),
    *("template", "this", "namespace", "operator", "char8_t", "xor"),
    *("NULL", "INT8_MAX", "INFINITY", "size_t", "uint32_t", "offsetof", "linux", "UINT64_C"),
    *("n", "k", "i", "place", "sent", "request", "result", "threads", "record", "main", "printf"),
    *("size_x", "x__y", "tail_", "winkel_θ", "P", "p"),
)  # fmt: skip
HALF = len(WORDS) // 2


def own() -> OwnFunction:
    """A function whose arrays have all those names, each result another product."""
    inputs, results = WORDS[:HALF], WORDS[HALF:]
    values = ", ".join(f"{inputs[k % HALF]} * {k + 2}.0" for k in range(len(results)))
    space: dict[str, Any] = {}
    exec(f'def f({", ".join(inputs)}):\n    """Products."""\n    return {values}\n', space)
    decorate = decorated(
        inputs={name: array(sampling=uniform(-1.0, 1.0)) for name in inputs},
        outputs={name: array() for name in results},
    )
    return decorate(space["f"])


def compiled(text: str, language: str, folder: Path) -> None:
    path = folder / f"names.{language}"
    path.write_text(text)
    compiler = shutil.which("g++" if language == "cpp" else "gcc")
    standard = "-std=c++17" if language == "cpp" else "-std=gnu11"
    process = subprocess.run(
        [str(compiler), standard, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", str(path)],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[:3000]


@pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("g++")), reason="no C compiler")
def test_any_name_compiles_in_the_header_of_records(tmp_path: Path) -> None:
    build(None, own(), tmp_path / "core", ii=8)
    header = records_header("core", Build.read(tmp_path / "core").manifest)
    for language in ("c", "cpp"):
        compiled(f"{header}\nint main(void) {{ return 0; }}\n", language, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("g++")), reason="no C compiler")
def test_any_name_compiles_in_a_library(tmp_path: Path) -> None:
    """Its example runs, with all names as parameters of one function."""
    library_folder = tmp_path / "library"
    exported = c_export.export_library(load("none"), own(), library_folder, name="names")
    process = subprocess.run(
        ["gcc", "example.c", "-Iinclude", "-Llib", "-lnames", "-Wl,-rpath,$ORIGIN/lib", "-o", "x"],
        cwd=library_folder, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[:3000]
    ran = subprocess.run(["./x"], cwd=library_folder, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0 and exported["name"] == "names"
    # The first result is twice the second sample's 0.1.
    library = (library_folder / "include" / "names.h").read_text()
    compiled(f"{library}\nint main(void) {{ return 0; }}\n", "cpp", tmp_path)


def test_the_names_are_free_and_different() -> None:
    names = c_names(WORDS, ["n"])
    assert len(set(names)) == len(WORDS)
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) for name in names)
    # Free names stay, especially those of the literature.
    free = ["q", "qd", "tau", "M", "P", "p", "dtau_dq", "x_des", "Minv", "INTO", "M2", "tail_"]
    assert c_names(free) == free
    assert c_names(["int", "int_", "int"]) == ["int_", "int_2", "int_2_"]


def test_the_mutant_that_does_not_look_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shutil.which("gcc"):
        pytest.skip("no C compiler")
    build(None, own(), tmp_path / "core", ii=8)
    manifest = Build.read(tmp_path / "core").manifest
    monkeypatch.setattr("pinion.flow.export.records.c_names", lambda names, reserved: list(names))
    with pytest.raises(AssertionError, match="error"):
        compiled(records_header("core", manifest), "c", tmp_path)


def described(**changes: Any) -> OwnFunction:
    unit, name, function = (changes.get(key, "x") for key in ("unit", "name", "function"))

    def f(x: Any) -> Any:
        """One number."""
        return x * 2.0

    decorate = decorated(
        name=function,
        inputs={"x": array(unit=unit, sampling=uniform(-1.0, 1.0))},
        outputs={name if name != "x" else "y": array()},
        doc=changes.get("doc"),
    )
    return decorate(f)


@pytest.mark.parametrize("character", ["\n", "\r", "\x00", "\x1b", "\x7f", "\u2028", "\u202e"])
def test_a_unit_is_one_line_that_can_be_seen(character: str) -> None:
    with pytest.raises(UserError, match=r"\.py:\d+: the unit 'a\\.* contains the control char"):
        described(unit=f"a{character}b")
    # Documentation may be written in lines; it is shown in one.
    assert described(doc=f"One{character} number").doc.split() == ["One", "number"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"unit": "m" * 64}, "is too long: write at most 63"),
        ({"name": "a" * 300}, "has a name of 300 characters: give it at most 63"),
        ({"function": "a" * 300}, "has a name of 300 characters: give it at most 63"),
        ({"name": "_arrays"}, "without a leading underscore"),
        ({"name": "saturated"}, "has a reserved name"),
    ],
)
def test_what_no_reader_takes_is_refused_where_it_stands(
    changes: dict[str, str], sentence: str
) -> None:
    with pytest.raises(UserError, match=rf"\.py:\d+: .*{sentence}"):
        described(**changes)
    assert described(unit="m" * 63, name="a" * 63, function="f" * 63).name == "f" * 63


def test_the_longest_names_and_units_are_read_again(tmp_path: Path) -> None:
    function = described(unit="m" * 63, name="a" * 63, function="f" * 63)
    build(None, function, tmp_path / "core")
    again = Build.read(tmp_path / "core")
    assert again.manifest.function == "f" * 63 and again.function.inputs[0].unit == "m" * 63


def test_a_manifest_that_cannot_be_read_is_not_written(tmp_path: Path) -> None:
    """Any other text: the writer uses the reader's check."""
    build(None, described(), tmp_path / "core")
    manifest = Build.read(tmp_path / "core").manifest
    (tmp_path / "other").mkdir()
    for changed in (
        {"robot_source": "a\nb.urdf"},
        {"inputs": (replace(manifest.inputs[0], unit="a\nb"),)},
        {"budget": {"y": float("nan")}},
    ):
        with pytest.raises((ManifestError, ValueError)):
            replace(manifest, **changed).write(tmp_path / "other")
    assert not list((tmp_path / "other").iterdir())
    manifest.write(tmp_path / "other")
    assert Manifest.read(tmp_path / "other") == manifest
