"""The driver with the simulated card: the compiled RTL of a small build, bit for bit."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pinion import driver
from pinion.api import backend
from pinion.batch import InputError
from pinion.card.transport import SimulatedCard, SimulatedTop
from pinion.cosim.stream import PATTERNS
from pinion.driver import CardFaultError, Device, DriverError, TransportError, pack, request_dtype
from pinion.fixedpoint.float32 import fixed_to_float32, float32_to_fixed
from pinion.flow.build import Build
from pinion.functions import sample
from pinion.graph import evaluate_integers
from pinion.graph.evaluate import formats
from pinion.link import Cause, ManifestError
from pinion.link.digests import write_digests
from tests.support.breadth import some
from tests.support.builds import build


@pytest.fixture(scope="module", params=some(["pendulum", "two_link"], ("pendulum",)))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inverse dynamics with one result every 2 cycles, of one and of two beats."""
    path = tmp_path_factory.mktemp("simulated") / request.param
    manifest = build(request.param, "rnea", path, ii=2)
    assert manifest.beats_out == {"pendulum": 1, "two_link": 2}[request.param]
    return path


@pytest.fixture(scope="module")
def device(folder: Path) -> Iterator[Device]:
    with driver.open(folder, chunk=300) as opened:
        yield opened


def golden(folder: Path, arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return result words (n, words_out) uint32 and flags (n,) of the integer model."""
    core_build = Build.read(folder)
    count = len(next(iter(arrays.values())))
    words = pack(request_dtype(core_build.manifest), arrays, count)
    fmts = formats(core_build.graph)
    ids = {str(n.params[0]): i for i, n in enumerate(core_build.graph.nodes) if n.op == "input"}
    names = [w for b in core_build.function.inputs for w in b.words(core_build.model)]
    flags = np.zeros(count, dtype=np.bool_)
    states = {}
    for k, name in enumerate(names):
        target = fmts[ids[name]] if name in ids else fmts[next(iter(ids.values()))]
        integers, lost = float32_to_fixed(words[:, k], target)
        flags |= lost
        if name in ids:
            states[name] = integers
    results, saturated = evaluate_integers(core_build.graph, states)
    rows = [fixed_to_float32(results[n], fmts[node]) for n, node in core_build.graph.outputs]
    return np.stack(rows, axis=1), flags | saturated


def states(folder: Path, count: int, *, seed: int) -> dict[str, np.ndarray]:
    print(f"seed {seed}")
    core_build = Build.read(folder)
    return sample(core_build.model, core_build.function, count, distribution="beyond", seed=seed)


def same_bits(results: np.ndarray, words: np.ndarray) -> None:
    assert not np.isnan(results).any()
    assert np.array_equal(np.ascontiguousarray(results).view(np.uint32), words)


def test_results_equal_the_integer_model_bit_for_bit(folder: Path, device: Device) -> None:
    arrays = states(folder, 1000, seed=11)
    words, flags = golden(folder, arrays)
    result = device.run(**arrays)
    same_bits(result.tau, words)
    assert np.array_equal(result.saturated, flags) and not flags.all()


def test_requests_beyond_the_format_are_flagged(folder: Path, device: Device) -> None:
    arrays = states(folder, 50, seed=12)
    arrays["qdd"][[3, 17]] = 1e9
    _, flags = golden(folder, arrays)
    assert flags[[3, 17]].all()
    assert np.array_equal(device.run(**arrays).saturated, flags)


def test_the_card_gives_one_result_every_ii_cycles(folder: Path, device: Device) -> None:
    short, long = (device.run(**states(folder, n, seed=1)).cycles for n in (100, 300))
    assert short is not None and long is not None and long - short == 200 * device.manifest.ii


def test_a_single_request_takes_the_stated_latency(folder: Path, device: Device) -> None:
    request = {name: array[0] for name, array in states(folder, 1, seed=1).items()}
    result = device.run(**request)
    m = device.manifest
    assert result.tau.shape == device.shapes["tau"]
    # The phase of the slot counter depends on the previous batch.
    assert result.cycles is not None
    assert m.latency_cycles - m.ii < result.cycles <= m.latency_cycles + 1


def test_many_batches_in_flight_stay_apart(folder: Path, device: Device) -> None:
    batches = [states(folder, 1 + 37 * k % 400, seed=k) for k in range(20)]
    futures = [device.submit(**batch) for batch in batches]
    for batch, future in zip(batches, futures, strict=True):
        same_bits(future.result().tau, golden(folder, batch)[0])


@pytest.mark.parametrize("idle", ["random", "bursts"])
@pytest.mark.parametrize("stall", ["single", "long_pause"])
def test_pauses_of_the_host_change_nothing(folder: Path, idle: str, stall: str) -> None:
    core_build = Build.read(folder)
    card = SimulatedCard(
        folder=folder,
        manifest=core_build.manifest,
        idle=PATTERNS[idle](seed=3),
        stall=PATTERNS[stall](seed=4),
    )
    arrays = states(folder, 400, seed=13)
    with Device(manifest=core_build.manifest, transport=card) as device:
        same_bits(device.run(**arrays).tau, golden(folder, arrays)[0])


def test_a_reset_card_answers_as_before(folder: Path, device: Device) -> None:
    arrays = states(folder, 20, seed=14)
    before = device.run(**arrays)
    device.reset()
    assert np.array_equal(device.run(**arrays).tau, before.tau)


def test_a_core_of_another_build_is_refused(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    build("pendulum", "rnea", other, ii=3)
    shutil.copy(folder / "core.il", other / "core.il")
    with pytest.raises(ManifestError, match=r"core\.il' is not the file that was built"):
        driver.open(other)
    write_digests(other)  # like a build with a wrong core
    with pytest.raises(DriverError, match="another build"):
        driver.open(other)


def test_the_simulated_card_has_no_address_and_needs_its_core(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DriverError, match="no simulated card '0'"):
        driver.open(folder, device="sim:0")
    Build.read(folder).manifest.write(tmp_path)
    with pytest.raises(ManifestError, match=r"has no digests\.json"):
        driver.open(tmp_path)
    write_digests(tmp_path)
    with pytest.raises(TransportError, match="cannot be built: There is no RTLIL"):
        driver.open(tmp_path)


def test_backends_by_name_agree(folder: Path) -> None:
    arrays = states(folder, 200, seed=15)
    robot = Build.read(folder).manifest.robot
    modified = (folder / "manifest.json").stat().st_mtime_ns
    with backend(robot, "rnea", device="float") as model:
        floats = model(**arrays)
    with backend(robot, "rnea", device="sim", ii=2, folder=folder) as card:
        fixed = card.run(**arrays)
    assert (folder / "manifest.json").stat().st_mtime_ns == modified, "built again for nothing"
    assert floats.names == fixed.names == ("tau",) and floats.tau.dtype == np.float64
    budget = max(Build.read(folder).manifest.budget.values())
    error = np.abs(floats.tau - fixed.tau)
    # Twice the range of the budget's distribution; nothing here is quadratic in more than qd.
    assert not np.isnan(error).any() and error.max() <= 4 * budget


def test_the_float_backend_takes_single_requests_and_refuses_wrong_ones() -> None:
    with backend("two_link", "rnea", device="float") as model:
        result = model.run(q=[0.1, 0.2], qd=[0, 0], qdd=[0, 0])
        assert result.tau.shape == (2,) and result.saturated.shape == ()
        with pytest.raises(InputError, match="axis 0 has length 3 instead of 2"):
            model.run(q=[0.1, 0.2, 0.3], qd=[0, 0], qdd=[0, 0])


def test_an_unknown_backend_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    with pytest.raises(DriverError, match="no device 'abacus:1'; give one of cpu, cuda, float"):
        backend("pendulum", "rnea", device="abacus:1", folder=tmp_path / "made")
    assert not (tmp_path / "made").exists()


@pytest.mark.slow
def test_the_whole_top_answers_as_the_core_does(folder: Path) -> None:
    arrays = states(folder, 700, seed=21)
    with driver.open(folder, device="sim:top", chunk=150) as top:
        result = top.run(**arrays)
        words, flags = golden(folder, arrays)
        same_bits(result.tau, words)
        assert np.array_equal(result.saturated, flags)
        assert top.registers.ACCEPTED == 700 and top.registers.BATCHES == 5
        top.reset()
        same_bits(top.run(**arrays).tau, words)
        buffers = top.allocate(50)
        for name, view in buffers.inputs.items():
            view[...] = arrays[name][:50]
        same_bits(top.submit_buffers(buffers).result().tau, words[:50])
        assert top.profile.faults == 0 and top.profile.recoveries == 1


@pytest.mark.slow
def test_the_whole_top_comes_back_from_a_fault(folder: Path) -> None:
    core_build = Build.read(folder)
    card = SimulatedTop(folder=folder, wait=600.0)  # only the reset ends the read
    plain, sent = card.send, iter(range(1, 10**6))

    def send(packet: np.ndarray) -> None:
        damaged = packet.copy()
        if next(sent) == 3:
            damaged[4] ^= 1
        plain(damaged)

    card.send = send  # type: ignore[method-assign]
    batches = [states(folder, 40, seed=k) for k in range(6)]
    with Device(manifest=core_build.manifest, transport=card, timeout=600.0) as device:
        futures = [device.submit(**batch) for batch in batches]
        for k, (batch, future) in enumerate(zip(batches, futures, strict=True)):
            if k == 2:
                error = future.exception()
                assert isinstance(error, CardFaultError) and error.cause is Cause.VERSION
            else:
                same_bits(future.result().tau, golden(folder, batch)[0])
        assert device.profile.recoveries == 1
