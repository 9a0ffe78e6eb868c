"""Constraint forces as a method of compiled chains: kernels, memory and numbers of robots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pinion.batch import InputError
from pinion.chains.chain import Chain
from pinion.chains.kernels import cuda
from pinion.chains.kernels.cuda import CudaChainKernel
from pinion.chains.random import random_chain, random_state
from pinion.chains.recursion import aba
from pinion.compute.cuda import DeviceArray
from pinion.native.errors import ComputeError
from pinion.native.toolchain import Compiler
from tests.support.cuda_chains import ChainDevice

NAMES = ("q", "qd", "tau")
SOURCES = {
    "cfa_oee": cuda.source(9, "aba", method="cfa_oee"),
    "cfa_oer": cuda.source(40, "aba", method="cfa_oer"),
    "cfa_ldl": cuda.source(9, "aba", method="cfa_ldl"),
    "grid": cuda.source(130, "aba", method="cfa_oee"),
    "unrefined": cuda.source(9, "aba", method="cfa_oee", refine=0),
}


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory, compiler: Compiler) -> ChainDevice:
    return ChainDevice(tmp_path_factory.mktemp("front"), [*SOURCES.values()], compiler=compiler)


def compiled(chain: Any, device: ChainDevice, method: str, **more: Any) -> CudaChainKernel:
    return cuda.compile(chain, "aba", method=method, device=device, **more)


def states(chains: list[Chain], count: int = 1) -> tuple[dict[str, Any], Any]:
    """Return states of each chain, and their results in 80 bits."""
    samples = [(chain, random_state(chain, k, count)) for k, chain in enumerate(chains)]
    inputs = {name: np.concatenate([getattr(s, name) for _, s in samples]) for name in NAMES}
    exact = [
        aba(c, *(getattr(s, name).astype(np.longdouble) for name in NAMES)) for c, s in samples
    ]
    return inputs, np.concatenate(exact)


def worst(values: Any, exact: Any) -> float:
    """Return the largest error relative to each robot's largest element; infinite for NaN."""
    error = np.max(np.abs(values - exact), axis=-1) / np.max(np.abs(exact), axis=-1)
    return float(np.max(np.where(np.isnan(error), np.inf, error)))


def launched(device: ChainDevice) -> list[tuple[str, int]]:
    launches = [*device.launches]
    device.launches.clear()
    return launches


@pytest.mark.parametrize(
    ("method", "n", "scope"), [("cfa_oee", 9, "warp"), ("cfa_oer", 40, "block"), ("cfa_ldl", 9, "")]
)
def test_a_chain_and_several_robots(method: str, n: int, scope: str, device: ChainDevice) -> None:
    chain = random_chain(n, 1, joints="helical")
    inputs, exact = states([chain], 35)  # more than the threads of a block of cfa_ldl
    kernel = compiled(chain, device, method)
    launched(device)
    qdd = kernel(**inputs)
    assert qdd.shape == (35, n) and worst(qdd, exact) <= 1e-9
    [(name, robots)] = launched(device)
    assert f"_{scope or 'thread'}_" in name and robots == 35
    single = kernel(**{name: x[33] for name, x in inputs.items()})
    assert single.shape == (n,) and np.array_equal(single, qdd[33])
    assert kernel(**{name: x[:0] for name, x in inputs.items()}).shape == (0, n)


@pytest.mark.parametrize(("method", "n"), [("cfa_oee", 9), ("cfa_oer", 40), ("cfa_ldl", 9)])
def test_a_chain_for_each_robot(method: str, n: int, device: ChainDevice) -> None:
    chains = [random_chain(n, seed, inertias="arm") for seed in range(5)]
    inputs, exact = states(chains)
    assert worst(compiled(chains, device, method)(**inputs), exact) <= 1e-9
    assert not worst(compiled(chains[::-1], device, method)(**inputs), exact) <= 1e-3


def test_one_long_chain_is_a_grids_and_several_are_blocks(device: ChainDevice) -> None:
    n = 130
    chains = [random_chain(n, seed, inertias="unit") for seed in range(2)]
    inputs, exact = states(chains)
    kernel = compiled(chains[0], device, "cfa_oee")
    first = {name: x[:1] for name, x in inputs.items()}
    launched(device)
    alone = kernel(**first)
    assert worst(alone, exact[:1]) <= 1e-9
    assert [*launched(device)] == [("cfa_oee_grid_1_1_float64", 1)]
    kernel = compiled(chains, device, "cfa_oee")
    both = kernel(**inputs)
    assert worst(both, exact) <= 1e-9
    assert launched(device) == [("cfa_oee_block_1_1_float64", 2)]
    # A grid's zeros: a kernel may compute several robots first and then one.
    assert kernel._room is not None
    memory: Any = kernel._room.scratch
    assert not memory.bytes[:16].any() and memory.bytes[16:].any()


def test_a_grid_computes_robots_one_after_the_other(device: ChainDevice) -> None:
    chains = [random_chain(130, seed, inertias="unit") for seed in range(2)]
    inputs, exact = states(chains)
    # Stands for chains of more than 1,024 links, which take too long for a test.
    source = SOURCES["grid"]
    kernel = CudaChainKernel(
        chains=compiled(chains, device, "cfa_oee").chains,
        source=replace(source, kernels=source.alone, alone=()),
        device=device,
    )
    launched(device)
    assert worst(kernel(**inputs), exact) <= 1e-9
    assert launched(device) == [("cfa_oee_grid_1_1_float64", 1)] * 2
    long = cuda.source(1025, "aba", method="cfa_oee")
    assert [k.shape.scope for k in long.kernels] == ["Grid"] and not long.alone


@pytest.mark.parametrize("method", ["cfa_oee", "cfa_ldl"])
@pytest.mark.parametrize("columns", [False, True])
def test_arrays_on_the_device(method: str, columns: bool, device: ChainDevice) -> None:
    chain = random_chain(9, 1)
    inputs, _ = states([chain], 6)
    kernel = compiled(chain, device, method)
    device_arrays = {}
    for name, x in inputs.items():
        device_array = kernel.sent(x.T if columns else x)
        strides = (1, 6) if columns else device_array.strides
        device_arrays[name] = DeviceArray(
            device.index, device_array._memory, x.shape, strides, x.dtype
        )
    qdd = kernel(**device_arrays)
    memory: Any = qdd._memory
    values = memory.bytes[: 6 * 9 * 8].view(np.float64).reshape((9, 6) if columns else (6, 9))
    assert qdd.strides == device_arrays["q"].strides
    assert np.array_equal(values.T if columns else values, kernel(**inputs))


def test_refinement_and_its_lack(device: ChainDevice) -> None:
    chain = random_chain(32, 1, inertias="arm")
    inputs, exact = states([chain], 8)
    errors = [
        worst(compiled(chain, device, "cfa_oee", **more)(**inputs), exact)
        for more in ({"refine": 0}, {"refine": 1}, {})
    ]
    print(errors)
    assert errors[1] == errors[2] <= 1e-11 < errors[0] <= 1e-6


def test_work_memory_that_has_no_room_is_said(device: ChainDevice) -> None:
    chain = random_chain(9, 1)
    inputs, exact = states([chain], 8)
    kernel = compiled(chain, device, "cfa_oee")
    arrays = 4 * 8 * 9 * 8
    work = SOURCES["cfa_oee"].kernels[0].scratch_bytes(8, 9, np.dtype("float64"))
    assert work > 50 * arrays
    device._memory, memory = device.used + arrays + work - 1, device._memory
    try:
        with pytest.raises(ComputeError, match=r"fewer than [\d,]+ bytes left\. Free memory"):
            kernel(**inputs)
        assert device._memory - device.used == arrays + work - 1  # nothing is kept
        device._memory += 1
        assert worst(kernel(**inputs), exact) <= 1e-12
    finally:
        device._memory = memory


def test_what_it_does_not_take_is_said(device: ChainDevice) -> None:
    chain = random_chain(9, 1)
    inertia = np.array(chain.I)
    inertia[4] = 0
    with pytest.raises(ComputeError, match=r"The inertia of link 4 .* has no inverse"):
        compiled(replace(chain, I=inertia), device, "cfa_oee")
    x = np.zeros((2, 9))
    with pytest.raises(InputError, match="The inputs are q, qd, tau, but"):
        compiled(chain, device, "cfa_oee")(q=x, qd=x, qdd=x)
    with pytest.raises(
        InputError, match=r"16 blocks of this kernel at once.* needs 17: give at most 1024 links"
    ):
        compiled(random_chain(1025, 1, joints="prismatic"), device, "cfa_oee")
