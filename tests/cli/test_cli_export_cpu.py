"""`pinion export --cpu`: the C example, built by its own commands, and refusals."""

from __future__ import annotations

import json
import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.functions import named_function
from pinion.native.isa import available
from pinion.robot import load
from tests.cli.conftest import Pinion
from tests.support.commands import cmake_project, needs_cc, ran, tool

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def commands() -> list[list[str]]:
    """Commands of the comment at the head of the example: export, compile, run."""
    text = (ROOT / "examples/c/main.c").read_text()
    comment = text[: text.index("*/")].replace("\\\n", " ")
    lines = [line.strip() for line in comment.splitlines()]
    export = next(line for line in lines if line.startswith("pinion "))
    compiled, _, run = next(line for line in lines if line.startswith("cc ")).partition(" && ")
    assert run
    return [shlex.split(line) for line in (export, compiled, run)]


@pytest.fixture(scope="module")
def place(
    commands: list[list[str]], process: Pinion, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder with the examples and their library."""
    folder = tmp_path_factory.mktemp("c")
    (folder / "examples").symlink_to(ROOT / "examples")
    completed = process(*commands[0][1:], cwd=folder)
    assert completed.code == 0 and completed.err == "", completed.err
    printed = " ".join(completed.out.split())  # lines break where the terminal ends
    assert "libiiwa14_fd.so" in printed and available()[0].name in printed
    assert "Next: the command in build/iiwa14_fd/README.md" in printed
    return folder


def check(printed: str) -> None:
    """Compare the example's output with the float model."""
    name, _, numbers = printed.partition(": qdd of the last sample:")
    assert name == available()[0].name
    printed_values = np.array([float(word) for word in numbers.split()])
    robot, row = load("iiwa14"), named_function("fd_derivatives")
    q = 1e-3 * (np.arange(999 * 7, 1000 * 7) % 997)
    expected = row.evaluate(robot, {"q": q, "qd": np.zeros(7), "tau": np.zeros(7)})["qdd"]
    assert printed_values.shape == (7,) and np.abs(printed_values - expected).max() <= 6e-7, (
        "printed with six digits"
    )


@pytest.mark.slow
@needs_cc
def test_the_example_is_built_as_it_says_itself(place: Path, commands: list[list[str]]) -> None:
    compiled, run = commands[1:]
    ran([*compiled, "-Wall", "-Wextra", "-Werror"], place)
    check(ran(run, place))


@pytest.mark.slow
@needs_cc
def test_pkg_config_gives_the_flags(place: Path) -> None:
    library = place / "build/iiwa14_fd/lib"
    command = [tool("pkg-config"), "--cflags", "--libs", "iiwa14_fd"]
    flags = ran(command, place, PKG_CONFIG_PATH=str(library / "pkgconfig")).split()
    ran(["cc", "examples/c/main.c", *flags, "-o", "by_pkg_config"], place)
    check(ran(["./by_pkg_config"], place, LD_LIBRARY_PATH=str(library)))


@pytest.mark.slow
@needs_cc
def test_cmake_compiles_the_library_anew(place: Path) -> None:
    cmake, project = tool("cmake"), place / "project"
    project.mkdir()
    library = place / "build/iiwa14_fd"
    cmake_project(project, library, "iiwa14_fd", place / "examples/c/main.c")
    ran([cmake, "-S", ".", "-B", "made", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"], project)
    units = json.loads((project / "made/compile_commands.json").read_text())
    flags = {Path(unit["file"]).stem: unit["command"].split() for unit in units}
    for isa in available():
        for unit in (
            f"iiwa14_fd_f32_{isa.name}",
            f"iiwa14_fd_f64_{isa.name}",
            f"runtime_{isa.name}",
        ):
            assert {*isa.flags, "-O2", "-ffp-contract=off"} <= set(flags[unit])
    ran([cmake, "--build", "made", "--parallel", "2"], project)
    assert ran(["nm", "-D", "--defined-only", "made/library/libiiwa14_fd.so"], project).split()[
        2::3
    ] == sorted(
        f"iiwa14_fd_{suffix}" for suffix in ("f32", "f64", "blocks_f32", "blocks_f64", "isa")
    )
    check(ran(["made/main"], project))


def left_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@needs_cc
@pytest.mark.parametrize(
    ("function", "options", "array"),
    [
        ("fd_derivatives", ("--outputs", "minv"), "minv"),
        (
            "constraint_dynamics",
            ("--contact", "link_2", "--inputs", "velocity_gain"),
            "velocity_gain",
        ),
    ],
)
def test_optional_arrays_are_exported(
    pinion: Pinion, tmp_path: Path, function: str, options: tuple[str, ...], array: str
) -> None:
    out = tmp_path / "library"
    completed = pinion("export", "two_link", function, "--cpu", *options, "-o", out)
    assert completed.code == 0, completed.err
    assert array in (out / f"include/two_link_{function}.h").read_text()


def test_wrong_input_is_one_sentence_and_leaves_nothing(pinion: Pinion, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").write_text("mine")
    (tmp_path / "file").write_text("file")
    before = left_in(tmp_path)

    def refused(*words: object, out: str = "new/out", needles: Sequence[str]) -> None:
        pinion("export", "--cpu", *words, "-o", tmp_path / out).refused(*needles)
        assert left_in(tmp_path) == before

    refused("nobot", "rnea", needles=["robot 'nobot'", "iiwa14"])
    refused(tmp_path / "none.urdf", "rnea", needles=["none.urdf"])
    refused(tmp_path / "file", "rnea", needles=["file"])
    refused("two_link", "dance", needles=["function 'dance'", "rnea"])
    refused("two_link", needles=["robot and a function", "two_link"])
    refused("two_link", "rnea", "minv", needles=["two_link rnea minv"])
    refused("two_link", "rnea", "--name", "7up", needles=["'7up'"])
    refused("two_link", "rnea", out="full", needles=["full' exists and is not an empty folder"])
    refused("two_link", "rnea", out="file", needles=["file' exists and is not an empty folder"])
    refused("two_link", "rnea", out="file/out", needles=["file/out'", "choose another folder"])
    assert (tmp_path / "full/mine").read_text() == "mine"
    assert (tmp_path / "file").read_text() == "file"
    # Without --cpu a build folder is required.
    pinion("export", "two_link", "rnea", "-o", tmp_path / "out").refused("--cpu")
    assert left_in(tmp_path) == before


@contextmanager
def nobody(folder: str) -> Iterator[None]:
    """Run as an unprivileged user who owns the folder, since root may write anywhere.

    What is imported until then stays: the interpreter may be where only root reads.
    """
    if os.geteuid() != 0:
        yield
        return
    os.chown(folder, 65534, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_that_cannot_be_written_is_one_sentence(pinion: Pinion) -> None:
    # Not below pytest's own, which other users cannot enter.
    with tempfile.TemporaryDirectory() as name:
        command = ("export", "--cpu", "two_link", "rnea", "-o")
        pinion(*command, "/dev/null").refused("/dev/null")  # imports everything
        Path(name).chmod(0o500)
        for out in ("out", "new/out"):
            with nobody(name):
                completed = pinion(*command, f"{name}/{out}")
            completed.refused(f"'{name}/{out}' (Permission denied)", "choose another folder")
            assert not os.listdir(name)
        Path(name).chmod(0o700)


def failing(folder: Path) -> str:
    """The value of PATH with which every C++ compiler refuses its source."""
    folder.mkdir()
    for name in ("c++", "g++", "clang++"):
        (folder / name).write_text("#!/bin/sh\necho 'x.cpp:1:1: error: no' >&2\nexit 1\n")
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_what_does_not_compile_leaves_nothing(
    pinion: Pinion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", failing(tmp_path / "bin"))
    (tmp_path / "empty").mkdir()
    for out in ("new/deep/out", "empty"):
        arguments: list[Any] = ["two_link", "rnea", "-o", tmp_path / out]
        pinion("export", "--cpu", *arguments).refused("failed on", "error: no")
        assert sorted(os.listdir(tmp_path)) == ["bin", "empty"]
        assert not os.listdir(tmp_path / "empty")


@needs_cc
def test_an_empty_folder_is_filled(
    pinion: Pinion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = pinion("export", "--cpu", "pendulum", "gravity", "-o", ".", "--json").json
    files = [path for path in left_in(tmp_path) if (tmp_path / path).is_file()]
    assert result["files"] == files and result["name"] == "pendulum_gravity"
    assert result["dtypes"] == ["float32", "float64"]
    assert available()[0].name in result["instruction_sets"]
    assert {path.split("/")[0] for path in left_in(tmp_path)} == {
        *("CMakeLists.txt", "README.md", "example.c", "include", "lib", "src")
    }
    # The command of README.md.
    (command,) = re.findall(r"^ +(cc .*)$", (tmp_path / "README.md").read_text(), re.MULTILINE)
    name, *numbers = ran(["sh", "-c", command], tmp_path).split()
    assert name == available()[0].name
    expected = named_function("gravity").evaluate(load("pendulum"), {"q": np.array([0.0])})
    assert np.allclose([float(word) for word in numbers], *expected.values(), rtol=1e-8)
