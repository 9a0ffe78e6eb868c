"""The opponents of the CPU benchmark: the kept baseline fits its record, and works."""

from __future__ import annotations

import hashlib
import lzma
import platform
from pathlib import Path

import pytest
from benchmarks.cpu import lanes, opponents
from benchmarks.cpu.model_text import model_digest, model_text
from benchmarks.cpu.tools import MissingToolError, compilers

from pinion.robot import load
from tests.support.breadth import some

SOME_COMPILER = compilers(opponents.C_COMPILERS)[:1]


def test_the_record_tells_of_every_file() -> None:
    record = opponents.record()
    contents = {path.name: path.read_bytes() for path in opponents.BASELINE.glob("*.xz")}
    assert set(contents) == set(record["files"])
    for name, entry in record["files"].items():
        assert name == f"{entry['robot']}_{entry['function']}.c.xz"
        assert hashlib.sha256(contents[name]).hexdigest() == entry["sha256"], name
        text = lzma.decompress(contents[name])
        assert hashlib.sha256(text).hexdigest() == entry["sha256_of_c"], name
        assert entry["operations"] == sum(entry["operations_by_kind"].values())
    assert record["bytes"] == sum(map(len, contents.values()))


@pytest.mark.parametrize("robot", ["iiwa14", "hyq", "atlas"])
def test_the_baseline_is_of_todays_robots(robot: str) -> None:
    model = model_digest(model_text(load(robot)))
    entries = [e for e in opponents.record()["files"].values() if e["robot"] == robot]
    assert entries
    for entry in entries:
        assert entry["sha256_of_model"] == model, (
            f"{robot} has changed: python -m benchmarks.cpu.generate_baseline"
        )


@pytest.mark.skipif(not SOME_COMPILER, reason="no C compiler")
def test_a_kept_baseline_agrees_with_the_float_model(tmp_path: Path) -> None:
    baselines = opponents.casadi_c("iiwa14", "rnea", states=64, cache=tmp_path, using=SOME_COMPILER)
    assert len(baselines) == 2  # CasADi's text, and the same without its tests for null arguments
    for opponent in baselines:
        assert opponent.worst < 1e-12
        times = opponent.time(3)
        assert len(times.cpu) == len(times.wall) == 3
        assert min(times.cpu) > 0


@pytest.mark.skipif(not SOME_COMPILER, reason="no C compiler")
def test_wrong_numbers_are_not_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = opponents.baseline_c("iiwa14", "rnea").replace("sin(", "cos(", 1)
    monkeypatch.setattr(opponents, "baseline_c", lambda robot, name: text)
    with pytest.raises(ArithmeticError, match="rnea for iiwa14 differ"):
        opponents.casadi_c("iiwa14", "rnea", states=64, cache=tmp_path, using=SOME_COMPILER)


def test_bare_text_has_no_tests_left() -> None:
    text = opponents.bare(opponents.baseline_c("iiwa14", "rnea"))
    assert "?" not in text and "!=0" not in text
    assert text.count("res[0][") == 7


def test_pinocchio_in_python_agrees_with_the_float_model() -> None:
    for name in ("minv", "fd_derivatives"):
        assert opponents.pinocchio_python("hyq", name, states=8).worst < 1e-11


def test_what_is_missing_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(MissingToolError, match=r"No C compiler .*apt-get install gcc\."):
        opponents.casadi_c("iiwa14", "rnea", cache=tmp_path, using=["no-such-compiler"])
    with pytest.raises(MissingToolError, match="There is no baseline of rnea for baxter"):
        opponents.casadi_c("baxter", "rnea", cache=tmp_path)


def test_literals_become_vectors_and_names_stay() -> None:
    text = lanes.lanes_text("a1=(2.*a10);\na2=-1.5e-03;\na3=(a1-12.25);\nint s0[3] = {7, 1, 1};")
    assert text == ("a1=(R(2.)*a10);\na2=-R(1.5e-03);\na3=(a1-R(12.25));\nint s0[3] = {7, 1, 1};")


@pytest.mark.skipif(not SOME_COMPILER, reason="no C compiler")
@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or platform.machine() != "x86_64", reason="no libmvec"
)
@pytest.mark.parametrize("dtype", some(["float64", "float32"], 1))
def test_a_baseline_in_lanes_agrees_with_the_float_model(dtype: str, tmp_path: Path) -> None:
    size = {"float64": 8, "float32": 4}[dtype]
    worst = {}
    for many in (1, lanes.register_bytes() // size, 2 * lanes.register_bytes() // size):
        baselines = lanes.casadi_lanes("iiwa14", "rnea", dtype, many, states=64, cache=tmp_path)
        assert baselines.lanes == many and baselines.run() > 0
        worst[many] = baselines.worst
    assert all(0 < error < (1e-12 if dtype == "float64" else 1e-4) for error in worst.values())


@pytest.mark.skipif(not SOME_COMPILER, reason="no C compiler")
def test_wrong_numbers_in_lanes_are_not_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = opponents.baseline_c("iiwa14", "rnea").replace("sin(", "cos(", 1)
    monkeypatch.setattr(lanes, "baseline_c", lambda robot, name: text)
    with pytest.raises(ArithmeticError, match="rnea for iiwa14 differ"):
        lanes.casadi_lanes("iiwa14", "rnea", "float32", 1, states=64, cache=tmp_path)
