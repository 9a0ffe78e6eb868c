"""Closed chains as a function of compiled chains: one kernel, and steps I and II on two streams."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest

from pinion.batch import InputError
from pinion.chains.chain import Chain
from pinion.chains.closed import TypeI, closed_chain
from pinion.chains.kernels import cuda
from pinion.chains.kernels.cuda import METHODS, CudaChainKernel
from pinion.chains.kernels.device_cfa import closed_kernel, words_a_link
from pinion.chains.kernels.device_chain import ThreadShape
from pinion.chains.random import random_chain, random_state
from pinion.compute.cuda import DeviceArray
from pinion.native.errors import ComputeError
from pinion.native.toolchain import Compiler
from tests.support.cuda_cfa import launched, random_robots, relative_errors
from tests.support.cuda_chains import ChainDevice
from tests.support.cuda_device import HostStream

N = 9
LENGTHS = {"cfa_oee": (N,), "cfa_oer": (N,), "cfa_ldl": (N,), "two_streams": (N, 40, 130)}
SOURCES = [
    *(cuda.source(n, "closed", method=method) for method, ns in LENGTHS.items() for n in ns),
]
DAMPED = cuda.source(3, "closed", damping=0.01)
NAMES = ("qdd", "F", "Lambda_inverse")
TURN, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))
FRAME = TURN * np.linalg.det(TURN), np.array([0.1, -0.05, 0.2])


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory, compiler: Compiler) -> ChainDevice:
    return ChainDevice(tmp_path_factory.mktemp("closed"), SOURCES, compiler=compiler)


def compiled(chain: Any, device: ChainDevice, method: str, **more: Any) -> CudaChainKernel:
    return cuda.compile(chain, "closed", method=method, device=device, frame=FRAME, **more)


def states(chains: list[Chain], each: int = 1) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return states of each chain, and their results in 80 bits."""
    rng = np.random.default_rng(1)
    inputs: dict[str, list[Any]] = {name: [] for name in ("q", "qd", "tau", "G_C")}
    exact: dict[str, list[Any]] = {name: [] for name in NAMES}
    for k, chain in enumerate(chains):
        state = random_state(chain, k, each)
        at, goal = (state.q, state.qd, state.tau), rng.normal(size=(each, 6))
        solution = closed_chain(
            chain,
            *(x.astype(np.longdouble) for x in at),
            contact=TypeI(W=np.eye(6), G_C=goal),
            frame=FRAME,
        )
        for name, x in zip(inputs, (*at, goal), strict=True):
            inputs[name].append(x)
        for name in NAMES:
            exact[name].append(getattr(solution, name))
    return (
        {name: np.concatenate(x) for name, x in inputs.items()},
        {name: np.concatenate(x) for name, x in exact.items()},
    )


def worst(results: dict[str, Any], exact: dict[str, Any]) -> float:
    assert list(results) == list(NAMES)
    return max(
        relative_errors(x.reshape(len(x), -1), exact[name].reshape(len(x), -1)).max()
        for name, x in results.items()
    )


@pytest.mark.parametrize("method", METHODS["closed"])
def test_any_frames_a_chain_or_one_for_each_robot(method: str, device: ChainDevice) -> None:
    chain = random_chain(N, 1, joints="helical", inertias="unit")
    inputs, exact = states([chain], 5)
    kernel = compiled(chain, device, method)
    results = kernel(**inputs)
    assert worst(results, exact) <= 1e-9
    single = kernel(**{name: x[3] for name, x in inputs.items()})
    for name, shape in zip(NAMES, ((N,), (6,), (6, 6)), strict=True):
        assert single[name].shape == shape and np.array_equal(single[name], results[name][3])
    none = kernel(**{name: x[:0] for name, x in inputs.items()})
    assert none["Lambda_inverse"].shape == (0, 6, 6)
    chains = [random_chain(N, seed, inertias="unit") for seed in range(4)]
    inputs, exact = states(chains)
    assert worst(compiled(chains, device, method)(**inputs), exact) <= 1e-9
    assert not worst(compiled(chains[::-1], device, method)(**inputs), exact) <= 1e-3


@pytest.mark.parametrize("n", LENGTHS["two_streams"])
@pytest.mark.parametrize("robots", [1, 3])
def test_streams_in_both_orders(n: int, robots: int, device: ChainDevice) -> None:
    chain = random_chain(n, 1, inertias="unit")
    inputs, exact = states([chain], robots)
    kernel = compiled(chain, device, "two_streams")
    results = []
    for device.others_first in (False, True):
        device.launches.clear()
        results.append(kernel(**inputs))
        names = [name.split("_oee_")[0] for name, _ in device.launches]
        assert names == ["closed_step_i", "closed_step_ii", "closed_after"]
        assert ("grid" in device.launches[0][0]) == (n > 128 and robots == 1)
    device.others_first = False
    assert worst(results[0], exact) <= 1e-9
    assert all(np.array_equal(results[0][name], results[1][name]) for name in NAMES)


def test_grids_compute_robots_one_after_the_other(device: ChainDevice) -> None:
    chains = [random_chain(130, seed, inertias="unit") for seed in range(2)]
    inputs, exact = states(chains)
    front = compiled(chains, device, "two_streams")
    source = replace(front.source, kernels=front.source.alone, alone=())
    moved = [cuda.canonical_tip(chain, *FRAME) for chain in chains]
    kernel = CudaChainKernel(chains=front.chains, source=source, device=device, tips=moved)
    for device.others_first in (False, True):
        assert worst(kernel(**inputs), exact) <= 1e-9
    device.others_first = False


@pytest.mark.parametrize("left_out", [0, 1])
def test_both_events_are_needed(
    left_out: int, device: ChainDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = random_chain(N, 1, inertias="unit")
    inputs, exact = states([chain], 2)
    number, after = count(), HostStream.after

    def one_less(self: HostStream, other: Any) -> None:
        if next(number) != left_out:
            after(self, other)

    monkeypatch.setattr(HostStream, "after", one_less)
    monkeypatch.setattr(device, "others_first", left_out == 0)
    assert not worst(compiled(chain, device, "two_streams")(**inputs), exact) <= 1e-3
    assert next(number) == 2


def test_steps_at_once_write_nothing_in_common(device: ChainDevice) -> None:
    """The steps, which run in parallel, do not change each other's memory."""
    n, robots = N, random_robots(N, 1, inertias="unit")
    contact = {"tip": np.eye(4)[:3].ravel(), "G_C": np.zeros((1, 6))}
    words = n * words_a_link(n, "oee", contact=True, part="STEP_I")
    written = []
    for part in ("STEP_I", "STEP_II"):
        kernel = closed_kernel(n, 1, part=part, shape=ThreadShape("Warp", 1, 128, 0))
        work = np.full(8 * words, 0xFF, np.uint8)
        launched(device._kernels, kernel, robots, "float64", contact=contact, memory=work)
        written.append(np.any(work.reshape(-1, 8) != 0xFF, axis=1))
    assert not np.any(written[0] & written[1])
    # Transforms, blocks and Omega; transforms, efforts, qdd, F and the tip's acceleration.
    assert written[0].sum() > 100 * n and written[1].sum() == 14 * n + 12


@pytest.mark.parametrize("method", ["cfa_ldl", "two_streams"])
def test_arrays_on_the_device(method: str, device: ChainDevice) -> None:
    chain = random_chain(N, 1, inertias="unit")
    inputs, _ = states([chain], 6)
    kernel = compiled(chain, device, method)
    device_arrays = {name: kernel.sent(x) for name, x in inputs.items()}
    results, expected = kernel(**device_arrays), kernel(**inputs)
    for name, array in results.items():
        memory: Any = array._memory
        values = memory.bytes[: expected[name].nbytes].view(np.float64).reshape(array.shape)
        assert isinstance(array, DeviceArray) and np.array_equal(values, expected[name])
    turned = DeviceArray(0, device_arrays["G_C"]._memory, (6, 6), (1, 6), np.dtype(np.float64))
    with pytest.raises(
        InputError, match=r"'G_C' has shape \(6, 6\) and strides \(1, 6\).* contiguous array"
    ):
        kernel(**{**device_arrays, "G_C": turned})


def test_what_it_does_not_take_is_said(device: ChainDevice) -> None:
    chain = random_chain(N, 1)
    x, goal = np.zeros((2, N)), np.zeros((2, 6))
    kernel = compiled(chain, device, "cfa_oee")
    with pytest.raises(InputError, match="The inputs are q, qd, tau, G_C, but"):
        kernel(q=x, qd=x, tau=x)
    with pytest.raises(InputError, match=r"'G_C' has shape \(2, 3\).* \(B, 6\) for a batch"):
        kernel(q=x, qd=x, tau=x, G_C=goal[:, :3])
    with pytest.raises(InputError, match="A chain of 5 joints cannot move its tip in all six"):
        cuda.source(5, "closed")
    assert DAMPED.kernels[0].name.startswith("closed_oee")
    with pytest.raises(InputError, match="'damping' must be 0 or more and finite, not nan"):
        cuda.source(N, "closed", damping=float("nan"))
    with pytest.raises(InputError, match="'aba' has no damping"):
        cuda.source(N, "aba", damping=0.1)
    with pytest.raises(InputError, match="'closed' has no method 'jsiia': choose one of cfa_oee"):
        cuda.source(N, "closed", method="jsiia")
    with pytest.raises(InputError, match="'aba' has no frame at the tip"):
        cuda.compile(chain, "aba", frame=FRAME, device=device)
    with pytest.raises(InputError, match=r"'frame' has shapes \(3, 3\) and \(2,\)"):
        cuda.compile(chain, "closed", frame=(np.eye(3), [0, 0]), device=device)
    with pytest.raises(InputError, match=r"'frame' is .*: give a rotation"):
        cuda.compile(chain, "closed", frame=(-np.eye(3), np.zeros(3)), device=device)
    with pytest.raises(ComputeError, match="'oer' has no kernels for two streams"):
        closed_kernel(N, 1, solver="oer", part="STEP_I")


def test_grids_that_do_not_fit_at_once_are_blocks(
    device: ChainDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = random_chain(130, 1, inertias="unit")
    inputs, exact = states([chain])
    # A grid of 130 links has three blocks of 64 threads: two at once need six of them.
    for multiprocessors, scope in ((2, "grid"), (1, "block")):
        monkeypatch.setattr(device, "multiprocessors", multiprocessors)
        device.launches.clear()
        assert worst(compiled(chain, device, "two_streams")(**inputs), exact) <= 1e-9
        assert all(f"_{scope}_" in name for name, _ in device.launches)
