"""The wheel, in environments with only it and the packages of its extras.

The packages of an extra are those of the environment that runs the tests, linked one by one, so
that no index is needed.
"""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import threading
import tty
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from email.message import Message
from email.parser import Parser
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pinion.api import backend
from pinion.boards.ecp5.top import processor_card_rtlil
from pinion.card.serial_ports import CompiledPort
from pinion.cli.app import SHORT, SPEAKING
from pinion.functions import named_function, sample
from pinion.processor import Machine
from pinion.robot import load, random_tree

SOURCES = ("fixedpoint", "sw", "hw", "sim", "constraints")
FILES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "CITATION.cff")

# Prints the answers of all verbs as JSON, from one process.
WALK = """
import contextlib, io, json, sys
from pinion.__main__ import main

answers = []
for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as end:
            answers.append([end.code, out.getvalue(), err.getvalue()])
json.dump(answers, sys.stdout)
"""

# A command line of each verb, and the extras that it needs.
VERBS = {
    "robots": "",
    "info two_link rnea": "",
    "devices --at .": "",
    "build two_link rnea -o b": "hw",
    "verify b": "hw",
    "verify b --netlist": "hw",
    "verify b --promises": "hw",
    "verify b --simulator icarus": "hw,sim",
    "synth b": "hw",
    "run b --input i.npz -o o.npz": "hw",
    "bench core": "hw",
    "bench functions": "hw",
    "bench link": "hw",
    "bench link --standin": "hw,sim",
    "bench mpc": "mjcf,hw",
    "bench mpc cpu64": "mjcf",
    "bench cuda": "cuda",
    "explore two_link rnea": "hw",
    "explore two_link rnea --scheduler tcp://127.0.0.1:1": "hw,campaign",
    "campaign b --states 10 -o s.sqlite": "hw,campaign",
    "batch two_link rnea --states 10 -o s.sqlite": "hw,campaign",
    "program two_link rnea": "",
    "processor -o p": "hw",
    "card b": "hw,sim",
    "bitstream b": "hw",
    "report b -o b.html": "hw",
    "report b --synth": "hw",
    "export b -o e": "hw",
    "demo": "hw",
    "demo mpc": "mjcf",
    "demo trot": "mjcf",
}


def _wheel(source: Path, folder: Path) -> Path:
    """Build the wheel of a source tree, without an index."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    subprocess.run(
        [*command, "--no-index", "-q", "-w", folder, source], check=True, stdin=subprocess.DEVNULL
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def _copy(root: Path, to: Path) -> Path:
    """Copy the sources of the wheel out of the clone."""
    for name in FILES:
        to.mkdir(exist_ok=True)
        shutil.copy(root / name, to)
    for name in SOURCES:
        shutil.copytree(root / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
    return to


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = _copy(root, tmp_path_factory.mktemp("wheel") / "source")
    return _wheel(source, tmp_path_factory.mktemp("dist"))


def _closure(requirements: list[str]) -> Iterator[metadata.Distribution]:
    """Yield the installed packages that some requirements need."""
    waiting, visited = (
        [Requirement(text) for text in requirements],
        set[tuple[str, frozenset[str]]](),
    )
    while waiting:
        requirement = waiting.pop()
        key = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if key in visited:
            continue
        visited.add(key)
        distribution = metadata.distribution(requirement.name)
        yield distribution
        for text in distribution.requires or ():
            dependency = Requirement(text)
            environments = [{"extra": extra} for extra in ("", *requirement.extras)]
            if dependency.marker is None or any(
                dependency.marker.evaluate(extra) for extra in environments
            ):
                waiting.append(dependency)


class Environment:
    """An environment with the wheel, NumPy, and packages of extras."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        self.python = folder / "bin" / "python"
        (self.site,) = (folder / "lib").glob("python*/site-packages")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.site)
            (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
            self.metadata = Parser().parsestr(archive.read(name).decode())
        self.work = folder.parent / "work"
        self.work.mkdir()
        self.add("")

    def add(self, extra: str) -> None:
        """Link the packages of an extra."""
        requirements = []
        for text in self.metadata.get_all("Requires-Dist", []):
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                requirements.append(text.partition(";")[0])
        for distribution in _closure(requirements):
            tops = {path.parts[0] for path in distribution.files or () if path.parts[0] != ".."}
            for top in tops - {"__pycache__", "pinion"}:
                if not (self.site / top).exists():
                    (self.site / top).symlink_to(Path(str(distribution.locate_file(top))))

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        return subprocess.run(
            [self.python, *words],
            cwd=self.work,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def environment(wheel: Path, tmp_path: Path) -> Environment:
    return Environment(tmp_path / "venv", wheel)


def test_the_wheel_alone_has_version_help_and_the_library(environment: Environment) -> None:
    version = metadata.version("pinion-rbd")
    code = "import pinion; assert 'sw' not in pinion.__file__; print(pinion.__version__)"
    process = environment.run("-c", code)
    assert (process.stdout, process.stderr) == (f"{version}\n", "")
    assert environment.run("-m", "pinion", "--version").stdout == f"pinion {version}\n"
    process = environment.run("-m", "pinion", "--help")
    assert process.returncode == 0 and "  build " in process.stdout and process.stderr == ""
    process = environment.run("-m", "pinion", "robots")
    assert process.returncode == 2 and process.stdout == ""
    assert re.fullmatch(r"\w+ is missing: .*`pip install 'pinion-rbd\[cli\]'`\.\n", process.stderr)
    code = """
import pinion.api as pinion
with pinion.backend("two_link", "rnea", device="float") as rnea:
    print(rnea([0, 0], [0, 0], qdd=[0, 0]).tau.shape)
"""
    assert environment.run("-c", code).stdout == "(2,)\n"


def test_every_verb_says_what_is_missing_and_nothing_else(environment: Environment) -> None:
    assert {line.split()[0] for line in VERBS} == {*SPEAKING, *SHORT}
    environment.add("cli")
    command_lines = json.dumps([line.split() for line in VERBS])
    process = environment.run("-c", WALK, stdin=command_lines)
    assert process.returncode == 0, process.stderr
    answers = json.loads(process.stdout)
    assert len(answers) == len(VERBS)
    for (line, extras), (code, out, err) in zip(VERBS.items(), answers, strict=True):
        if extras:
            assert (code, out) == (2, ""), line
            assert re.fullmatch(r"[^\n]*\n", err), (line, err)
            assert f"`pip install 'pinion-rbd[{extras}]'`" in err, (line, err)
        else:
            assert (code, err) == (0, ""), line
            assert out, line
    assert not list(environment.work.iterdir())


@pytest.mark.slow
def test_with_the_extra_hw_a_core_is_built_and_verified(environment: Environment) -> None:
    environment.add("cli")
    environment.add("hw")
    process = environment.run("-m", "pinion", "build", "two_link", "rnea", "-o", "a core")
    assert process.returncode == 0, process.stderr
    assert "Next: pinion verify 'a core'" in " ".join(process.stdout.split())
    process = environment.run("-m", "pinion", "verify", "a core", "--samples", "100")
    assert process.returncode == 0, process.stderr


@pytest.fixture
def ulx3s(tmp_path: Path) -> Iterator[str]:
    """The processor's card of the ULX3S, compiled, behind a terminal of the system."""
    rtlil = tmp_path / "card.il"
    rtlil.write_text(processor_card_rtlil(Machine(lanes=4), clock_mhz=16.0, baud=4e6))
    port = CompiledPort.build(rtlil=rtlil, folder=tmp_path, bit=4)
    card, host = pty.openpty()
    tty.setraw(host)
    os.set_blocking(card, False)
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set():
            with suppress(BlockingIOError, OSError):
                port.write(os.read(card, 4096))
            out = port.read()
            while out and not stop.is_set():
                with suppress(BlockingIOError):
                    out = out[os.write(card, out) :]

    thread = threading.Thread(target=serve)
    thread.start()
    yield os.ttyname(host)
    stop.set()
    thread.join()
    os.close(host)
    os.close(card)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
def test_a_host_with_a_serial_line_alone_runs_any_urdf(
    environment: Environment, ulx3s: str
) -> None:
    """One command, neither Yosys nor Verilator nor Amaranth where it runs."""
    environment.add("cli")
    environment.add("serial")
    assert environment.run("-c", "import amaranth").returncode == 1
    robot = environment.work / "robot.urdf"
    robot.write_text(random_tree(np.random.default_rng(7), 3))
    model, row = load(robot), named_function("aba")
    arrays = sample(model, row, 5, distribution="reference", seed=3)
    np.savez(environment.work / "in.npz", **arrays)
    # The rate is that of the simulation, for the time limits of answers.
    device = f"processor:serial:{ulx3s}@19200"
    files = ("--input", "in.npz", "--output", "out.npz")
    process = environment.run("-m", "pinion", "run", robot.name, "aba", *files, "--device", device)
    assert process.returncode == 0, process.stderr
    expected = backend(model, row, device="processor")(**arrays)
    with np.load(environment.work / "out.npz") as results:
        assert np.array_equal(results["qdd"].view(np.uint32), expected.qdd.view(np.uint32))
        assert not results["saturated"].any()


def test_addresses_of_the_citation_become_links(root: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in FILES:
        source.mkdir(exist_ok=True)
        shutil.copy(root / name, source)
    for name in SOURCES:  # the page does not depend on what is in them
        (source / name / "pinion").mkdir(parents=True)
        (source / name / "pinion" / f"{name}.py").write_text("")
    plain = _page(_wheel(source, tmp_path / "plain"))
    # Nothing is invented: without addresses there are no links of the project.
    assert plain.get_all("Project-URL") is None
    assert "](docs/start.md)" in plain.get_payload()
    with (source / "CITATION.cff").open("a") as file:
        file.write('repository-code: "https://example.org/one/pinion"\nurl: https://example.net\n')
    page = _page(_wheel(source, tmp_path / "addressed"))
    version, home = page["Version"], "https://example.org/one/pinion"
    assert page.get_all("Project-URL") == [
        "Documentation, https://example.net",
        f"Repository, {home}",
        f"Changelog, {home}/blob/v{version}/CHANGELOG.md",
    ]
    text = page.get_payload()
    assert f"]({home}/blob/v{version}/docs/start.md)" in text
    assert f"]({home}/raw/v{version}/docs/results/overview.svg)" in text
    assert not re.findall(r"\]\((?!https://)[^)]*\)", text)


def _page(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())
