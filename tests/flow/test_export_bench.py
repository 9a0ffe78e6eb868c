"""The exported bench in an environment with only cocotb, on intact and broken cores."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import venv
from collections.abc import Callable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

import pytest

from pinion.cosim.reference import Reference
from pinion.flow.export import export
from tests.support.breadth import some_rows
from tests.support.builds import build

pytestmark = pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus is not installed")

# Every interpreter of the environment, including the simulator's, leaves a line.
PROBE = """
import importlib.util, os, sys
if "BENCH_PROBE" in os.environ:
    with open(os.environ["BENCH_PROBE"], "a") as file:
        print(bool(importlib.util.find_spec("pinion")), bool(importlib.util.find_spec("numpy")),
              file=file)
"""


def _needed(name: str, collected: dict[str, Distribution]) -> None:
    """Collect a distribution and its requirements, without extras."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in collected:
        return
    try:
        collected[key] = distribution(name)
    except ModuleNotFoundError:  # for other systems or older Pythons
        return
    for requirement in collected[key].requires or ():
        if "extra ==" not in requirement:
            match = re.match(r"[\w.-]+", requirement)
            assert match, requirement
            _needed(match[0], collected)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with only cocotb and its requirements."""
    folder = tmp_path_factory.mktemp("empty") / "env"
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    needed: dict[str, Distribution] = {}
    _needed("cocotb", needed)
    for package in needed.values():
        for top in {path.parts[0] for path in package.files or () if path.parts[0] != ".."}:
            source = Path(str(package.locate_file(top)))
            if top != "__pycache__" and source.exists() and not (packages / top).exists():
                (packages / top).symlink_to(source)
    # Not as sitecustomize, which a system's Python may have.
    (packages / "bench_probe.py").write_text(PROBE)
    (packages / "bench_probe.pth").write_text("import bench_probe\n")
    return folder / "bin" / "python"


def _export(folder: Path, robot: str, function: str, ii: int) -> Path:
    build(robot, function, folder / "build", ii=ii)
    export(
        folder / "build",
        folder / "out",
        model=lambda build: Reference(build).expected,
        requests=24,
    )
    return folder / "out"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _export(tmp_path_factory.mktemp("bench"), "pendulum", "rnea", 2)


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(python: Path, tmp_path: Path) -> Iterator[Run]:
    """Run the bench of an exported folder, and check that it could not import Pinion."""
    probe = tmp_path / "probe"

    def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, folder / "tb/run.py", "--build", tmp_path / "scratch", *arguments],
            env={"PATH": os.environ["PATH"], "BENCH_PROBE": str(probe)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=1800,
        )

    yield bench
    lines = probe.read_text().splitlines()
    assert lines and set(lines) == {"False False"}, f"pinion or numpy could be imported: {lines}"


@pytest.mark.parametrize(
    ("robot", "function", "ii"), some_rows([("pendulum", "rnea", 1), ("two_link", "crba", 3)], 1)
)
def test_the_bench_passes_beside_cocotb_alone(
    robot: str, function: str, ii: int, run: Run, tmp_path: Path
) -> None:
    exported = _export(tmp_path, robot, function, ii)
    completed = run(exported)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "8 of 8 tests passed." in completed.stdout
    # One interpreter ran the script, another one the simulator.
    assert len((tmp_path / "probe").read_text().splitlines()) >= 2


def test_an_interrupt_is_a_sentence(exported: Path, python: Path, tmp_path: Path) -> None:
    """Ctrl-C while the simulator compiles."""
    simulator = tmp_path / "bin" / "iverilog"
    simulator.parent.mkdir()
    simulator.write_text('#!/bin/sh\nsleep 1\nkill -INT "$PPID"\nexec sleep 600\n')
    simulator.chmod(0o755)
    process = subprocess.run(
        [python, exported / "tb/run.py", "--build", tmp_path / "scratch"],
        env={"PATH": f"{simulator.parent}:{os.environ['PATH']}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert process.returncode == 130
    assert process.stderr == "Interrupted: the next run builds again.\n"


@pytest.mark.slow
def test_the_make_file_runs_it_too(exported: Path, python: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    # The script that pip makes of the entry point.
    config = tmp_path / "bin" / "cocotb-config"
    config.parent.mkdir()
    config.write_text(f'#!/bin/sh\nexec {python} -m cocotb_tools.config "$@"\n')
    config.chmod(0o755)
    process = subprocess.run(
        ["make", "-C", copy / "tb"],
        env={"PATH": f"{config.parent}:{python.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "TESTS=8 PASS=8 FAIL=0" in process.stdout


READY = "assign s_axis_tready = taking & aresetn;"
VALID = "assign m_axis_tvalid = offering & aresetn;"
COUNTER = """
  reg [31:0] seen = 0;
  always @(posedge aclk) if (!aresetn) seen <= 0; else if (offering & .TAKEN) seen <= seen + 1;
  """.replace(".TAKEN", "{taken}")
COUNT = COUNTER.format(taken="m_axis_tready")
FREE = COUNTER.format(taken="1'b1")


def _lose(text: str) -> str:
    """The sixth beat is taken from the core but not shown."""
    lines = COUNTER.format(taken="(m_axis_tready | lose)") + "wire lose = seen == 5;\n  "
    text = text.replace(VALID, lines + "assign m_axis_tvalid = offering & aresetn & ~lose;")
    return text.replace(".o_tready(m_axis_tready)", ".o_tready(m_axis_tready | lose)")


def _repeat(text: str) -> str:
    """The sixth beat is shown twice."""
    lines = COUNT + "wire again = seen == 5;\n  "
    text = text.replace(VALID, lines + VALID)
    return text.replace(".o_tready(m_axis_tready)", ".o_tready(m_axis_tready & ~again)")


def _unknown(text: str) -> str:
    """Ready is X for a while."""
    return text.replace(READY, COUNT + READY.replace("aresetn", "(seen == 9 ? 1'bx : aresetn)"))


def _withdraw(text: str) -> str:
    """Valid drops now and then, taken or not."""
    free = FREE.replace("offering & 1'b1", "1'b1")
    return text.replace(VALID, free + VALID.replace("aresetn", "aresetn & (seen[1:0] != 3)"))


def _flip(text: str) -> str:
    """One bit of one beat is wrong."""
    text = text.replace(VALID, COUNT + "wire [31:0] word;\n  " + VALID)
    text = text.replace(VALID, VALID + "\n  assign m_axis_tdata = word ^ (seen == 7);")
    return text.replace(".o_tdata(m_axis_tdata)", ".o_tdata(word)")


def _stop(text: str) -> str:
    """Nothing comes after twenty beats."""
    return text.replace(VALID, COUNT + VALID.replace("aresetn", "aresetn & (seen < 20)")).replace(
        ".o_tready(m_axis_tready)", ".o_tready(m_axis_tready & (seen < 20))"
    )


def _slow(text: str) -> str:
    """Requests are taken at half their rate."""
    lines = "reg [5:0] turn = 0; always @(posedge aclk) turn <= turn + 1;\n  "
    text = text.replace(READY, lines + READY.replace("aresetn", "aresetn & turn[5]"))
    return text.replace(".i_tvalid(s_axis_tvalid)", ".i_tvalid(s_axis_tvalid & turn[5])")


@pytest.mark.parametrize(
    ("break_it", "message"),
    some_rows(
        [
            (_lose, "23 of 24 results sent"),
            (_repeat, "25 results for 24 requests"),
            (_unknown, "s_axis_tready is X after reset"),
            (_withdraw, "an offer was changed or withdrawn"),
            (_flip, "of vectors.json"),
            (_stop, "the core stopped"),
            (_slow, "cycles apart"),
        ],
        lambda break_it, message: break_it in (_lose, _flip),
    ),
)
def test_a_broken_core_fails(
    exported: Path, run: Run, tmp_path: Path, break_it: Callable[[str], str], message: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    (path,) = (copy / "rtl").iterdir()
    text = path.read_text()
    broken = break_it(text)
    assert broken != text, "the fault has no place in the wrapper"
    path.write_text(broken)
    completed = run(copy)
    assert completed.returncode == 1, completed.stdout + completed.stderr
    assert message in completed.stdout, completed.stdout


def _word(data: dict[str, Any]) -> None:
    first, _, rest = data["results"][3].partition(" ")
    data["results"][3] = f"{int(first, 16) ^ 1:08x} {rest}"


def _flag(data: dict[str, Any]) -> None:
    data["flags"][5] ^= 1


def _hash(data: dict[str, Any]) -> None:
    data["hash"] = f"{int(data['hash'], 16) ^ 1:016x}"


def _nothing(data: dict[str, Any]) -> None:
    data |= {"requests": [], "results": [], "flags": []}


def _no_words(data: dict[str, Any]) -> None:
    data["results"] = [""] * len(data["results"])


@pytest.mark.parametrize(
    ("change", "message"),
    some_rows(
        [
            (_nothing, "nothing was compared"),
            (_no_words, "vectors.json has 0 words for result 0"),
            (_word, "result 3 (request 3 of vectors.json)"),
            (_flag, "the flag of result 5"),
            (_hash, "the core belongs to another build"),
        ],
        lambda change, message: change in (_word, _flag),
    ),
)
def test_other_answers_than_the_vectors_fail(
    exported: Path,
    run: Run,
    tmp_path: Path,
    change: Callable[[dict[str, Any]], None],
    message: str,
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    path = copy / "tb/vectors.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    completed = run(copy)
    assert completed.returncode == 1, completed.stdout + completed.stderr
    assert message in completed.stdout, completed.stdout


def test_a_core_that_does_not_build_is_a_sentence(exported: Path, run: Run, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    (path,) = (copy / "rtl").iterdir()
    path.write_text("module pendulum_rnea (;\nendmodule\n")
    completed = run(copy)
    assert completed.returncode == 2
    assert "icarus could not build the core: see the messages above." in completed.stderr
    assert "Traceback" not in completed.stderr


def test_the_runner_refuses_an_unknown_simulator(exported: Path, run: Run) -> None:
    completed = run(exported, "--simulator", "spice")
    assert completed.returncode == 2 and completed.stdout == ""
    assert completed.stderr == "There is no simulator 'spice'; choose one of icarus, verilator.\n"
