"""Functions with states as cores: long streams bit for bit, with pauses and resets; mutants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import C, Signal
from numpy.typing import NDArray

from pinion import driver
from pinion.base.arrays import Words
from pinion.cosim import verify
from pinion.cosim.compiled import CompiledCore
from pinion.cosim.reference import Reference, request_words
from pinion.cosim.scoreboard import first_divergence
from pinion.cosim.stream import PATTERNS, pack_records, unpack_records
from pinion.flow import Build
from pinion.flow.build import BuildError
from pinion.functions import Function, row_of, sample
from pinion.gateware.core import Core
from pinion.gateware.datapath import Datapath
from pinion.gateware.emit import RTLIL, core_rtlil
from pinion.hls.schedule.binding import bind
from pinion.robot import load
from tests.support.builds import build, make_design
from tests.support.filters import BIQUAD, DELAY, INTEGRATOR

NOT_A_NUMBER = 0x7FC0_0000

Flags = NDArray[np.bool_]


class Streamed:
    """A build, its integer model, and one stream of requests with resets."""

    def __init__(self, folder: Path, count: int, *, wild: bool = False) -> None:
        self.build = Build.read(folder)
        self.reference = Reference(self.build)
        model, function = self.build.model, self.build.function
        arrays = sample(model, function, count, distribution="reference", seed=11)
        self.words: Words = request_words(self.build.manifest, arrays)
        rng = np.random.default_rng(12)
        if wild:  # after each of these every flag is up until the next reset
            self.words[rng.choice(count, 5, replace=False), 0] = NOT_A_NUMBER
        self.fresh: Flags = np.zeros(count, bool)
        self.fresh[rng.choice(count, max(3, count // 1000), replace=False)] = True
        self.expected, self.flags = self.reference.expected(self.words, self.fresh)

    def wrong(self, core: CompiledCore, name: str = "always", seed: int = 0) -> int:
        """Return the requests that differ from the integers in any bit."""
        m, differs = self.build.manifest, 0
        core.reset()
        parts = sorted({0, len(self.words), *np.flatnonzero(self.fresh).tolist()})
        for number, (start, end) in enumerate(pairwise(parts)):
            if self.fresh[start]:
                core.reset_state()
            beats, last = pack_records(self.words[start:end], lanes=m.lanes_in, beats=m.beats_in)
            run = core.run(
                beats,
                last,
                expected_beats=(end - start) * m.beats_out,
                idle=PATTERNS[name](seed=seed + number),
                stall=PATTERNS[name](seed=seed + number + 1),
            ).check()
            bits = unpack_records(run.beats, words=m.words_out, beats=m.beats_out)
            user = run.user[m.beats_out - 1 :: m.beats_out]
            bad = (bits != self.expected[start:end]).any(axis=1) | (user != self.flags[start:end])
            differs += int(bad.sum())
        return differs

    def core(self, folder: Path | None = None) -> CompiledCore:
        where = self.build.folder / "sim" if folder is None else folder
        return CompiledCore.build(rtlil=(folder or self.build.folder) / RTLIL, folder=where)


def built(folder: Path, row: Function, **options: Any) -> Path:
    build("pendulum", row, folder, **options)
    return folder


@pytest.fixture(scope="module")
def biquad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("states") / "biquad", BIQUAD, ii=None, formats="q16.16")


@pytest.fixture(scope="module")
def integrator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("states") / "sums", INTEGRATOR, ii=None, formats="auto")


def test_a_long_stream_is_right_bit_for_bit(biquad: Path) -> None:
    stream = Streamed(biquad, 5000, wild=True)
    core = stream.core()
    assert stream.flags.any() and not stream.flags.all()
    for name in ("always", "bursts", "long_pause"):
        assert stream.wrong(core, name) == 0


def test_formats_by_signal_and_a_loop_of_two_words(integrator: Path) -> None:
    stream = Streamed(integrator, 5_000)
    assert stream.build.manifest.states == {"sums[0]": 0.25, "sums[1]": -0.5, "turn": 0.125}
    for name in ("bursts", "single"):
        assert stream.wrong(stream.core(), name) == 0


def test_verify_resets_the_state_in_the_middle(integrator: Path) -> None:
    figures = verify(integrator, samples=3000, seed=1)
    assert figures["ok"] and figures["mismatches"] == 0 and figures["state_resets"] == 1
    assert figures["budget_held"] and figures["rate_held"]
    assert 0 < figures["drift_max"]["y"] < 0.1
    budget, largest = figures["budget"]["y"], figures["error_max"]["y"]
    assert largest <= budget <= 50 * largest


def test_a_function_of_other_states_is_refused(integrator: Path) -> None:
    reference = Build.read(integrator)
    sums, turn = INTEGRATOR.states
    for states, sentence in (
        ((), r"states sums \(2,\), turn \(\), but 'integrator' has none: name the function"),
        ((turn, sums), r"but 'integrator' has turn \(\), sums \(2,\)"),
        (
            (sums, replace(turn, initial=0.5)),
            r"value of 0\.125 for the state 'turn', but .* has 0\.5",
        ),
    ):
        with pytest.raises(BuildError, match=sentence):
            Reference(reference, replace(INTEGRATOR, states=states))
    Reference(reference, INTEGRATOR)


def test_a_delay_line_moves_on_every_cycle(tmp_path: Path) -> None:
    stream = Streamed(built(tmp_path / "delay", DELAY, ii=1, formats="q8.8"), 2000)
    for name in ("always", "random"):
        assert stream.wrong(stream.core(), name) == 0


def test_a_request_that_is_dropped_moves_no_state(integrator: Path) -> None:
    """A request of one beat cannot end early; one without an end is taken and flagged."""
    stream = Streamed(integrator, 40)
    m = stream.build.manifest
    beats, last = pack_records(stream.words, lanes=m.lanes_in, beats=m.beats_in)
    assert m.beats_in == 1
    last[9] = False  # goes on: the next beat is skipped to its TLAST
    core = stream.core()
    core.reset()
    run = core.run(beats, last, expected_beats=39)
    bits = unpack_records(run.beats, words=m.words_out, beats=m.beats_out)
    want, flags = stream.reference.expected(np.delete(stream.words, 10, axis=0))
    assert (bits == want).all()
    assert not flags.any() and run.user.tolist() == [False] * 9 + [True] * 30


def _through_driver(folder: Path, device: str) -> int:
    """Return how many requests differ from the integers, in batches of many sizes with a reset."""
    stream = Streamed(folder, 900)
    stream.fresh[:] = np.arange(900) == 500
    expected, _ = stream.reference.expected(stream.words, stream.fresh.copy())
    x = stream.words.view(np.float32)[:, 0]
    batches = []
    with driver.open(folder, device=device, chunk=64) as card:
        for start, end in ((0, 200), (200, 201), (201, 500), (500, 900)):
            if start == 500:
                card.reset_state()
            batches.append(np.atleast_1d(card.run(x=x[start:end]).y))
    bits = np.concatenate(batches).astype(np.float32).view(np.uint32)
    return int((bits != expected[:, 0]).sum())


def test_the_driver_keeps_a_stream_on_the_simulated_card(integrator: Path) -> None:
    assert _through_driver(integrator, "sim") == 0


@pytest.mark.slow
def test_the_whole_top_keeps_a_stream_and_resets_it(integrator: Path) -> None:
    assert _through_driver(integrator, "sim:top") == 0


@pytest.mark.slow
def test_the_scoreboard_replays_a_stream_from_its_beginning(integrator: Path) -> None:
    stream = Streamed(integrator, 60)
    divergence = first_divergence(stream.reference, stream.words, 59, folder=integrator / "sim")
    assert divergence.node == -1  # every unit agrees, 59 requests on


# ---- mutants ----


def _moves_on_without_requests(state: Any) -> Callable[..., None]:
    """Return `Datapath._state`, but a period without a request advances the state as well."""

    def mutant(self: Datapath, node_state: Any, enables: Any) -> None:
        for stage in self.valid_stages:
            setattr(self, f"valid{stage}", C(1))
        state(self, node_state, enables)

    return mutant


def _forgets_a_word(state: Any) -> Callable[..., None]:
    """Return `Datapath._state`, but only the first reset affects the first word."""

    def mutant(self: Datapath, node_state: Any, enables: Any) -> None:
        if node_state.node == self.binding.states[0].node:
            stage = f"fresh{(node_state.arrival - 1) // self.ii}"
            port, first = getattr(self, stage), Signal(init=1)
            self._home[node_state.node].d.sync += first.eq(first & ~port)
            setattr(self, stage, port & first)
            state(self, node_state, enables)
            setattr(self, stage, port)
            return
        state(self, node_state, enables)

    return mutant


@pytest.mark.slow
@pytest.mark.parametrize("mutation", [_moves_on_without_requests, _forgets_a_word])
def test_a_core_that_moves_states_wrongly_is_found(
    biquad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutation: Any
) -> None:
    stream = Streamed(biquad, 3000)
    monkeypatch.setattr(Datapath, "_state", mutation(Datapath._state))
    assert stream.wrong(_made(stream, tmp_path, cycles=0), "bursts") > 100


@pytest.mark.slow
def test_a_loop_that_closes_a_cycle_late_is_found(biquad: Path, tmp_path: Path) -> None:
    stream = Streamed(biquad, 500)
    assert stream.wrong(_made(stream, tmp_path, cycles=1)) > 100


def _made(stream: Streamed, folder: Path, *, cycles: int) -> CompiledCore:
    """Elaborate the build's core again, with one state taken some cycles too early."""
    ii = stream.build.manifest.ii
    design = make_design(load("pendulum"), BIQUAD, ii=ii, formats="q16.16")
    assert design.fixed == stream.build.graph
    binding = design.binding
    if cycles:
        plan = binding.schedule
        tight = next(s for s in binding.states if binding.ready[s.following] == s.taken(ii))
        arrivals = {**plan.arrivals, tight.node: tight.arrival - cycles}
        binding = bind(design.fixed, replace(plan, arrivals=arrivals))
    folder.mkdir(exist_ok=True)
    core = Core(graph=design.fixed, binding=binding, build_hash=0)
    (folder / RTLIL).write_text(core_rtlil(core))
    return stream.core(folder)


# ---- the example ----


@pytest.mark.slow
def test_a_request_that_ends_early_moves_no_state(tmp_path: Path) -> None:
    """The PID controller of the examples, with a request that ends after one of two beats."""
    pid = row_of("examples/functions/pid.py:pid")
    build(None, pid, tmp_path / "pid", ii=None, formats="auto")
    figures = verify(tmp_path / "pid", samples=10_000, function=pid)
    assert figures["mismatches"] == 0 and figures["ok"]
    stream = Streamed(tmp_path / "pid", 2000)
    m = stream.build.manifest
    assert m.beats_in == 2 and set(m.states) == {"integral", "slope", "last"}
    core = stream.core()
    assert stream.wrong(core, "bursts") == 0
    words = stream.words[:60]
    beats, last = pack_records(words, lanes=m.lanes_in, beats=2)
    last[40] = True  # the first beat of request 20: its second beat is dropped
    core.reset()
    run = core.run(beats, last, expected_beats=59)
    bits = unpack_records(run.beats, words=m.words_out, beats=m.beats_out)
    want, flags = stream.reference.expected(np.delete(words, 20, axis=0))
    assert (bits == want).all() and (run.user == flags).all()
    whole, _ = stream.reference.expected(words)
    assert (np.delete(whole, 20, axis=0) != want).any()  # the request would have changed the states
