"""The arguments that `verify` passes to each simulator, and the results that it stores."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pinion.base.arrays import Words
from pinion.base.progress import SILENT, Progress
from pinion.cosim.reference import Reference, request_words
from pinion.cosim.stream import StreamError, StreamResult, pack_records
from pinion.flow.build import RTLIL, VERILOG, Build, BuildError
from pinion.functions import sample
from pinion.gateware.dsp48e2 import MACRO, model_path
from pinion.gateware.emit import TOP
from pinion.graph import Word
from pinion.link.relative import floor
from tests.cosim.test_verdict import sent
from tests.support.builds import build

module = importlib.import_module("pinion.cosim.verify")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("simulations") / "two_link"
    build("two_link", "minv", where, ii=6)
    return where


def requests(core_build: Build, count: int) -> Words:
    arrays = sample(core_build.model, core_build.function, count, distribution="reference", seed=1)
    return request_words(core_build.manifest, arrays)


class Core:
    """Replacement of the compiled core that records its runs."""

    def __init__(self, reference: Reference, surplus: int = 0) -> None:
        self.reference, self.surplus = reference, surplus
        self.built: list[dict[str, Any]] = []
        self.runs: list[Any] = []

    def build(self, **named: Any) -> Core:
        self.built.append(named)
        return self

    def reset_state(self) -> None:
        self.runs.append("reset")

    def run(self, beats: Words, last: np.ndarray, **named: Any) -> StreamResult:
        m = self.reference.build.manifest
        words = beats.reshape(-1, m.beats_in * m.lanes_in)[:, : m.words_in]
        again = pack_records(np.ascontiguousarray(words), lanes=m.lanes_in, beats=m.beats_in)
        assert (again[0] == beats).all() and (again[1] == last).all()
        named["progress"].advance(0.5)
        self.runs.append((len(words), named["expected_beats"], named["idle"], named["stall"]))
        result = sent(self.reference, np.ascontiguousarray(words))
        return (
            result
            if not self.surplus
            else type(result)(**{**vars(result), "surplus": self.surplus})
        )


def simulated(
    core_build: Build,
    words: Words,
    *,
    simulator: str = "compiled",
    distribution: str = "reference",
    idle: Any = None,
    stall: Any = None,
    waves: bool = False,
    dsp48e2: bool = False,
    progress: Progress = SILENT,
    fresh: Any = None,
) -> StreamResult:
    result: StreamResult = module._simulate(
        core_build, words, simulator, distribution, idle, stall, waves, dsp48e2, progress, fresh
    )
    return result


def test_a_stream_without_states_is_one_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core_build = Build.read(folder)
    core, words = Core(Reference(core_build)), requests(core_build, 5)
    monkeypatch.setattr(module, "CompiledCore", SimpleNamespace(build=core.build))
    idle, stall = np.array([True, False]), np.array([False])
    steps: list[str] = []
    shares: list[float] = []
    result = simulated(
        core_build, words, idle=idle, stall=stall, progress=Progress(steps.append, shares.append)
    )
    assert steps == ["Compiling the simulation", "Simulating 5 requests"] and shares == [0.5]
    (compiled,) = core.built
    assert compiled["rtlil"] == folder / RTLIL
    ((count, beats, idles, stalls),) = core.runs
    assert (count, beats) == (5, 5 * core_build.manifest.beats_out)
    assert idles is idle and stalls is stall
    assert (result.beats == sent(Reference(core_build), words).beats).all()
    core.surplus = 2
    with pytest.raises(StreamError, match="2 in surplus"):
        simulated(core_build, words)


@pytest.mark.parametrize(
    ("at", "runs", "shares"),
    [
        (3, [3, "reset", 5], [3 / 16, 3 / 8 + 5 / 16]),
        (0, [8], [0.5]),
        (7, [7, "reset", 1], [7 / 16, 15 / 16]),
    ],
)
def test_a_stream_with_states_is_reset_between_its_parts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, at: int, runs: list[Any], shares: list[float]
) -> None:
    core_build = Build.read(folder)
    core, words = Core(Reference(core_build)), requests(core_build, 8)
    monkeypatch.setattr(module, "CompiledCore", SimpleNamespace(build=core.build))
    progress_shares: list[float] = []
    result = simulated(
        core_build,
        words,
        fresh=np.arange(8) == at,
        progress=Progress(shares=progress_shares.append),
    )
    assert [run if run == "reset" else run[0] for run in core.runs] == runs
    counts = [run for run in runs if run != "reset"]
    beats = [run[1] for run in core.runs if run != "reset"]
    assert beats == [count * core_build.manifest.beats_out for count in counts]
    assert progress_shares == pytest.approx(shares)
    assert (result.beats == sent(Reference(core_build), words).beats).all()
    assert len(core.built) == 1


class Bench:
    """Replacement of the cocotb run that writes a log and waves, and records its arguments."""

    def __init__(self, reference: Reference, error: Exception | None = None) -> None:
        self.reference, self.error = reference, error
        self.calls: dict[str, Any] = {}

    def __call__(self, **named: Any) -> StreamResult:
        self.calls = named
        inside = named["folder"] / "results"
        inside.mkdir()
        for name in ("bench.log", "core.fst", "core.vcd", "core.so"):
            (inside / name).write_text(name)
        if self.error is not None:
            raise self.error
        m = self.reference.build.manifest
        words = named["beats"].reshape(-1, m.beats_in * m.lanes_in)[:, : m.words_in]
        return sent(self.reference, np.ascontiguousarray(words))


@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
@pytest.mark.parametrize("distribution", ["reference", "stress"])
@pytest.mark.parametrize("dsp48e2", [False, True])
def test_a_bench_gets_the_design_and_leaves_its_log(
    *,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    simulator: str,
    distribution: str,
    dsp48e2: bool,
) -> None:
    core_build = Build.read(folder)
    bench, words = Bench(Reference(core_build)), requests(core_build, 4)
    monkeypatch.setattr(module, "run_bench", bench)
    looked: list[tuple[str, Path]] = []
    monkeypatch.setattr(module, "check_verilog", lambda text, where: looked.append((text, where)))
    steps: list[str] = []
    idle, stall = np.array([True, False]), np.array([False])
    progress = Progress(steps.append, print)
    result = simulated(
        core_build, words, simulator=simulator, distribution=distribution, idle=idle, stall=stall,
        waves=True, dsp48e2=dsp48e2, progress=progress,
    )  # fmt: skip
    assert steps == [f"Simulating 4 requests under cocotb with {simulator}"]
    m, calls = core_build.manifest, bench.calls
    beats, last = pack_records(words, lanes=m.lanes_in, beats=m.beats_in)
    assert (calls.pop("beats") == beats).all() and (calls.pop("last") == last).all()
    work = calls.pop("folder")
    assert work.name.startswith("pinion-bench-") and not work.exists()
    home = distribution == m.budget_distribution
    assert calls == {
        "verilog": folder / VERILOG,
        "simulator": simulator,
        "expected_beats": 4 * m.beats_out,
        "reference": "pinion.cosim.reference:make" if home else None,
        "reference_folder": folder,
        "words_in": m.words_in,
        "words_out": m.words_out,
        "idle": idle,
        "stall": stall,
        "waves": True,
        "defines": (MACRO,) if dsp48e2 else (),
        "models": (model_path(),) if dsp48e2 else (),
        "progress": progress,
    }
    assert looked == [((folder / VERILOG).read_text(), folder / VERILOG)]
    log_folder = folder / "sim" / simulator
    assert {path.name for path in log_folder.iterdir()} == {"bench.log", "core.fst", "core.vcd"}
    assert (
        result.log == str(log_folder / "bench.log")
        and (log_folder / "bench.log").read_text() == "bench.log"
    )


def test_a_bench_that_fails_keeps_its_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core_build = Build.read(folder)
    bench = Bench(Reference(core_build), StreamError("it stopped"))
    monkeypatch.setattr(module, "run_bench", bench)
    with pytest.raises(StreamError, match="it stopped"):
        simulated(core_build, requests(core_build, 2), simulator="icarus")
    assert (bench.calls["folder"] / "results" / "bench.log").is_file()


def test_explicit_blocks_are_compiled_with_their_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    core_build, calls = Build.read(folder), []
    monkeypatch.setattr(
        module, "run_yosys", lambda commands, **named: calls.append((commands, named))
    )
    core = Core(Reference(core_build))
    monkeypatch.setattr(module, "CompiledCore", SimpleNamespace(build=core.build))
    simulated(core_build, requests(core_build, 2), dsp48e2=True)
    ((commands, named),) = calls
    work = folder / "sim"
    assert core.built[0]["rtlil"] == work / "explicit.il"
    assert named == {"folder": work, "name": "explicit"}
    design, model, *rest = commands
    assert design.startswith(f"read_verilog -D{MACRO} ") and Path(VERILOG).name in design
    assert model.startswith("read_verilog ") and model_path().name in model
    assert rest == [f"hierarchy -check -top {TOP}", "proc", "write_rtlil explicit.il"]


def test_a_call_without_options_is_the_one_of_the_page(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default is 1,000 reference requests with seed 0, compiled, without pauses."""
    calls: list[Any] = []

    def simulate(core_build: Build, words: Words, *rest: Any) -> StreamResult:
        calls.append((words, rest))
        return sent(Reference(core_build), words)

    monkeypatch.setattr(module, "_simulate", simulate)
    figures = module.verify(folder)
    ((words, (simulator, distribution, idle, stall, waves, dsp48e2, progress, fresh)),) = calls
    assert (words == requests_of(Build.read(folder), 1000, "reference", 0)).all()
    assert (simulator, distribution, waves, dsp48e2) == ("compiled", "reference", False, False)
    assert idle is stall is fresh is None and progress is SILENT
    assert (figures["samples"], figures["seed"]) == (1000, 0) and figures["ok"]
    with pytest.raises(
        BuildError, match="no simulator 'questa'; choose one of compiled, icarus, v"
    ):
        module.verify(folder, simulator="questa")


def requests_of(core_build: Build, count: int, distribution: str, seed: int) -> Words:
    arrays = sample(
        core_build.model, core_build.function, count, distribution=distribution, seed=seed
    )
    return request_words(core_build.manifest, arrays)


@pytest.mark.parametrize("distribution", ["reference", "slow"])
def test_figures_of_errors_are_those_of_numpy(
    folder: Path, monkeypatch: pytest.MonkeyPatch, distribution: str
) -> None:
    """The figures agree with the page's formulas; a tenth of the requests is flagged."""
    core_build = Build.read(folder)
    reference, m = Reference(core_build), core_build.manifest
    words = requests_of(core_build, 200, distribution, 3)
    words[::10, 0] = 0x7FC00000  # not a number, which is flagged

    monkeypatch.setattr(module, "request_words", lambda *_: words)
    monkeypatch.setattr(module, "_simulate", lambda core_build, words, *_: sent(reference, words))
    figures = module.verify(folder, samples=200, seed=3, distribution=distribution)
    assert figures["mismatches"] == 0 and figures["flagged"] == 20
    good = np.arange(200) % 10 > 0
    results = reference.expected(words)[0].view(np.float32).astype(np.float64)[good]
    floats = core_build.function.evaluate(core_build.model, reference.arrays(words[good]))
    columns = np.concatenate([a.gather(floats[a.name]).reshape(180, -1) for a in m.outputs], axis=1)
    error, start = np.abs(results - columns), 0
    names = [name for name, _ in reference.graph.outputs]
    assert figures["error_max"] == dict(zip(names, error.max(axis=0).tolist(), strict=True))
    for array in m.outputs:
        block = slice(start, start := start + array.words)
        least = floor(m.scales[array.name])
        assert figures["floor"][array.name] == least
        relative = error[:, block].max(axis=1) / np.maximum(
            np.abs(columns[:, block]).max(axis=1), least
        )
        for key, share in (("median", 50), ("p99", 99), ("max", 100)):
            assert figures[f"rel_err_{key}"][array.name] == pytest.approx(
                np.percentile(relative, share), rel=1e-12
            ), key
    home = distribution == m.budget_distribution
    assert figures["budget"] == ({name: m.budget[name] for name in names} if home else None)
    assert figures["budget_held"] is (True if home else None)
    assert figures["wrong_unflagged"] == 0 and figures["accuracy_held"] is True


@pytest.mark.parametrize("paused", [False, True])
def test_times_are_those_of_the_stamps(folder: Path, paused: bool) -> None:
    core_build = Build.read(folder)
    m = core_build.manifest
    result = sent(Reference(core_build), requests(core_build, 10))
    last = core_build.schedule["last_beat"]
    figures = module._timing(core_build, result, 10, paused=paused)
    assert figures == {
        "schedule_cycles": m.schedule_cycles,
        "latency_cycles": last,
        "cycles_per_result": float(m.ii),
        "simulated_cycles": result.cycles,
        "rate_held": True,
    }
    # Slower from the sixth request on: the first five are on time, all together 5 cycles late.
    emitted = result.emitted.copy()
    emitted[5 * m.beats_out :] += 45
    slower = type(result)(**{**vars(result), "emitted": emitted, "launched": result.launched - 2})
    for unbroken, rate in ((5, m.ii), (10, m.ii + 5)):
        figures = module._timing(core_build, slower, unbroken, paused=paused)
        assert figures["cycles_per_result"] == rate and figures["rate_held"] is paused
        assert figures["schedule_cycles"] == m.schedule_cycles + 2
    assert module._timing(core_build, result, 1, paused=paused)["cycles_per_result"] == m.ii


def test_a_stream_strays_by_its_largest_error_of_unflagged_requests() -> None:
    floats = np.array([[1.0, 2.0], [4.0, 4.0], [1.0, 1.0]])
    bits = np.array([[1.5, 2.0], [4.0, 3.0], [9.0, 9.0]], np.float32).view(np.uint32)
    calls: list[Any] = []

    def stream(words: Words, fresh: Any) -> np.ndarray:
        calls.append((words, fresh))
        return floats

    reference: Any = SimpleNamespace(
        float_stream=stream,
        graph=SimpleNamespace(outputs=[(Word.of("a"), 0), (Word.of("b"), 1)]),
        build=SimpleNamespace(manifest=SimpleNamespace(scales={"a": 1.0, "b": 1.0})),
    )
    words, flags = np.zeros((3, 1), np.uint32), np.array([False, False, True])
    fresh = np.array([True, False, True])
    figures = module._drift(reference, words, bits, flags, fresh)
    assert figures == {"drift_max": {"a": 0.5, "b": 0.25}, "state_resets": 2}
    assert calls[0][0] is words and calls[0][1] is fresh
    nothing = module._drift(reference, words, bits, ~np.zeros(3, np.bool_), None)
    assert nothing == {"drift_max": {"a": None, "b": None}, "state_resets": 0}


def test_a_result_ends_on_its_last_beat_and_on_no_other() -> None:
    right = [False, False, False, True]
    ends = [right, [True, *right[1:]], [False, False, True, True], [False] * 4, right]
    result: Any = SimpleNamespace(last=np.array(ends).reshape(-1))
    assert module._lasts_are_right(result, 4).tolist() == [True, False, False, False, True]
    single: Any = SimpleNamespace(last=np.array([True, False, True]))
    assert module._lasts_are_right(single, 1).tolist() == [True, False, True]
