"""End-to-end verification of a small robot: what it accepts, and what its checks catch.

The robot is small so that a simulation compiles in seconds; the iiwa14 and the larger robots go
through the same code in ``test_robots.py``.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pinion.cosim import CompiledCore, stream
from pinion.cosim.reference import Reference, request_words
from pinion.cosim.verify import verify
from pinion.flow.build import RTLIL, Build, BuildError
from pinion.flow.targets import TargetError
from pinion.functions import named_function, sample
from pinion.gateware.core import Core
from pinion.gateware.emit import core_rtlil
from pinion.gateware.library import make_unit
from pinion.graph import Graph, Node
from pinion.graph.check import verify as checked
from pinion.hls import operations
from pinion.link import ManifestError
from pinion.link.accuracy import ErrorDistribution, Verdict
from pinion.link.digests import write_digests
from pinion.report.build_data import build_data
from pinion.report.build_page import build_page
from tests.support.builds import build, make_design

II = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("verify") / "two_link"
    build("two_link", "rnea", where, ii=II)
    return where


def test_a_good_build_passes(folder: Path) -> None:
    figures = verify(folder, samples=2000, seed=3)
    assert figures["ok"] and figures["mismatches"] == 0 and figures["wrong_unflagged"] == 0
    assert figures["cycles_per_result"] == II
    manifest = Build.read(folder).manifest
    assert figures["schedule_cycles"] == manifest.schedule_cycles
    worst = manifest.latency_cycles
    assert worst - (II - 1) <= figures["latency_cycles"] <= worst
    for word, bound in figures["budget"].items():
        assert figures["error_max"][word] <= bound <= 50 * figures["error_max"][word]
    json.dumps(figures, allow_nan=False)
    distribution = ErrorDistribution.find(folder)
    assert distribution is not None and distribution.build == f"{manifest.hash:016x}"
    assert (distribution.requests, distribution.seed, distribution.flagged) == (
        2000,
        3,
        figures["flagged"],
    )
    assert distribution.verdict == Verdict(mismatches=0) and distribution.verdict.ok
    (tau,) = distribution.blocks
    assert (tau.name, tau.unit, tau.lsb) == ("tau", manifest.outputs[0].unit, 2.0**-16)
    assert dict(zip(tau.words, tau.largest, strict=True)) == figures["error_max"]
    assert dict(zip(tau.words, tau.budget, strict=True)) == figures["budget"]


@pytest.mark.parametrize("seed", range(6))
def test_pauses_of_any_length_lose_nothing(folder: Path, seed: int) -> None:
    patterns = [stream.random, stream.bursts, stream.long_pause, stream.single]
    idle = patterns[seed % 4](seed=seed)
    stall = patterns[(seed + 1 + seed // 4) % 4](seed=seed + 100)
    figures = verify(folder, samples=1000, seed=seed, idle=idle, stall=stall)
    assert figures["ok"] and figures["mismatches"] == 0


@pytest.mark.parametrize("distribution", ["stress", "beyond"])
def test_harder_states_are_right_or_flagged(folder: Path, distribution: str) -> None:
    verify(folder, samples=50)
    before = ErrorDistribution.find(folder)
    figures = verify(folder, samples=2000, distribution=distribution)
    assert figures["mismatches"] == 0 and figures["wrong_unflagged"] == 0
    assert ErrorDistribution.find(folder) == before, "no budget holds there"


def test_useless_requests_are_flagged_alone(folder: Path) -> None:
    built = Build.read(folder)
    reference = Reference(built)
    arrays = sample(built.model, built.function, 40, distribution="reference", seed=1)
    arrays["qd"][7, 0] = np.nan
    arrays["q"][13, 1] = np.inf
    arrays["qdd"][21, 0] = 1e9
    arrays["qd"][30, 0] = 3e4  # fits the format, its square does not
    words = request_words(built.manifest, arrays)
    expected, flags = reference.expected(words)
    assert np.flatnonzero(flags).tolist() == [7, 13, 21, 30]
    core = CompiledCore.build(rtlil=folder / RTLIL)
    m = built.manifest
    beats, last = stream.pack_records(words, lanes=m.lanes_in, beats=m.beats_in)
    result = core.run(beats, last, expected_beats=40 * m.beats_out).check()
    bits = stream.unpack_records(result.beats, words=m.words_out, beats=m.beats_out)
    np.testing.assert_array_equal(bits, expected)
    np.testing.assert_array_equal(result.user[m.beats_out - 1 :: m.beats_out], flags)


def mutated(folder: Path, where: Path, change: dict[int, Node]) -> Path:
    """Return a copy of a build whose RTL comes from a graph with some nodes replaced."""
    shutil.copytree(folder, where, ignore=shutil.ignore_patterns("sim", "errors.json"))
    built = Build.read(where)
    nodes = [change.get(i, node) for i, node in enumerate(built.graph.nodes)]
    graph = checked(Graph(tuple(nodes), built.graph.outputs))
    binding = make_design(built.model, named_function("rnea"), ii=II, formats="q16.16").binding
    # The same units and cycles, so that only the values differ.
    plan = replace(binding.schedule, operations=operations(graph, binding.schedule.timing))
    core = Core(
        graph=graph, binding=replace(binding, schedule=plan), build_hash=built.manifest.hash
    )
    (where / RTLIL).write_text(core_rtlil(core))
    write_digests(where)  # a wrong core, not a damaged one
    return where


def test_a_wrong_constant_is_found_and_named(folder: Path, tmp_path: Path) -> None:
    graph = Build.read(folder).graph
    # The largest constant, a mass or gravity, on which every result depends.
    constants = {i: n for i, n in enumerate(graph.nodes) if n.op == "const"}
    victim = max(constants, key=lambda i: abs(float(constants[i].params[0])))
    node = constants[victim]
    wrong = replace(node, params=(float(node.params[0]) + 2.0**-8, *node.params[1:]))
    figures = verify(mutated(folder, tmp_path / "m", {victim: wrong}), samples=200)
    assert not figures["ok"] and figures["mismatches"] > 0
    assert not figures["budget_held"]
    users = [i for i, n in enumerate(graph.nodes) if victim in n.args]
    named = users + [i for i, n in enumerate(graph.nodes) if set(n.args) & set(users)]
    message = figures["first_divergence"]
    assert any(f"%{i} " in message for i in named), message
    assert "rnea.py:" in message and ".vcd" in message
    assert list((tmp_path / "m" / "sim").glob("request_*.vcd"))
    distribution = ErrorDistribution.find(tmp_path / "m")
    assert distribution is not None and distribution.verdict is not None
    assert distribution.verdict.mismatches == figures["mismatches"]
    assert {"bits", "budget"} <= set(distribution.verdict.failed)
    page = build_page([build_data(tmp_path / "m")])
    assert f"<strong>FAILED</strong>, {figures['mismatches']} of 200 requests wrong" in page


@pytest.mark.slow
@pytest.mark.parametrize(("field", "value"), [("rounding", "floor"), ("shift", 17)])
def test_a_wrong_unit_is_found(folder: Path, tmp_path: Path, field: str, value: object) -> None:
    """A unit without rounding, or with a product truncated one bit early, in the RTL itself."""
    where = shutil.copytree(folder, tmp_path / "m", ignore=shutil.ignore_patterns("sim"))
    built = Build.read(where)
    binding = make_design(built.model, named_function("rnea"), ii=II, formats="q16.16").binding
    kind = next(k for k in binding.schedule.units if k.label == "dot1")
    right = make_unit(kind, binding.schedule.timing).to_rtlil("pinion_dot1")
    wrong = make_unit(replace(kind, **{field: value}), binding.schedule.timing)
    text = (where / RTLIL).read_text()
    assert text.count(right) == 1
    (where / RTLIL).write_text(text.replace(right, wrong.to_rtlil("pinion_dot1")))
    write_digests(where)
    figures = verify(where, samples=200)
    assert figures["mismatches"] > 0 and "on unit dot1_" in figures["first_divergence"]


@pytest.mark.slow
def test_cocotb_agrees(folder: Path) -> None:
    figures = verify(
        folder,
        samples=64,
        simulator="icarus",
        idle=stream.random(seed=5),
        stall=stream.bursts(seed=6),
    )
    assert figures["ok"] and figures["mismatches"] == 0 and figures["simulator"] == "icarus"


def test_bad_requests_are_sentences(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="'questa'"):
        verify(folder, simulator="questa")
    with pytest.raises(BuildError, match="not 0"):
        verify(folder, samples=0)
    with pytest.raises(ValueError, match="'uniform'"):
        verify(folder, distribution="uniform")
    with pytest.raises(ManifestError, match="not a build folder"):
        verify(tmp_path / "nowhere")


def test_builds_are_whole_reproducible_and_refuse_foreign_folders(tmp_path: Path) -> None:
    first = build("pendulum", "rnea", tmp_path / "a", ii=2)
    again = build("pendulum", "rnea", tmp_path / "a", ii=2)
    other = build("pendulum", "rnea", tmp_path / "b", ii=3)
    assert first.hash == again.hash != other.hash
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]
    foreign = tmp_path / "c"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("do not lose me")
    with pytest.raises(BuildError, match="not a Pinion build"):
        build("pendulum", "rnea", foreign)
    assert (foreign / "thesis.txt").read_text() == "do not lose me"
    with pytest.raises(TargetError, match=r"interval of 0 cycles.*\(--ii\) as a whole number"):
        build("pendulum", "rnea", tmp_path / "d", ii=0)
    with pytest.raises(TargetError, match="'vcu999'"):
        build("pendulum", "rnea", tmp_path / "d", target="vcu999")
    assert not (tmp_path / "d").exists()
