"""Arguments of a chain's kernels, and their layout of chains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pinion.batch import InputError
from pinion.chains.chain import Chain
from pinion.chains.kernels import cuda
from pinion.chains.kernels.cuda import CudaChainKernel, joint_factors
from pinion.chains.kernels.device_chain import LINK_NUMBERS, canonical, packed, shape_of
from pinion.chains.random import random_chain, random_state
from pinion.chains.recursion import aba, rnea
from pinion.compute.cuda import DeviceArray
from pinion.native.errors import ComputeError
from pinion.native.toolchain import Compiler
from tests.support.cuda_chains import ChainDevice

N = 9
SOURCES = [("rnea", "scan"), ("rnea", "thread"), ("aba", "hybrid")]


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory, compiler: Compiler) -> ChainDevice:
    sources = [cuda.source(N, function, method=method) for function, method in SOURCES]
    return ChainDevice(tmp_path_factory.mktemp("front"), sources, compiler=compiler)


@pytest.fixture(scope="module")
def chain() -> Chain:
    return random_chain(N, 1, joints="helical")


def compiled(chain: Any, device: ChainDevice, which: int = 0, **more: Any) -> CudaChainKernel:
    function, method = SOURCES[which]
    return cuda.compile(chain, function, method=method, device=device, **more)


def on_device(device: ChainDevice, x: Any, *, columns: bool = False) -> DeviceArray:
    memory: Any = device.allocate(x.nbytes)
    flat = np.ascontiguousarray(x.T if columns else x).ravel()
    memory.bytes[: x.nbytes] = flat.view(np.uint8)
    strides = (1, len(x)) if columns else (x.shape[-1], 1)[-x.ndim :]
    return DeviceArray(device.index, memory, x.shape, strides, x.dtype)


def replace_strides(x: DeviceArray, strides: tuple[int, ...]) -> DeviceArray:
    return DeviceArray(x.device, x._memory, x.shape, strides, x.dtype)


def fetched(array: DeviceArray) -> Any:
    memory: Any = array._memory
    flat = memory.bytes[: array.dtype.itemsize * int(np.prod(array.shape))].view(array.dtype)
    strides = tuple(array.dtype.itemsize * s for s in array.strides)
    return np.lib.stride_tricks.as_strided(flat, array.shape, strides)


@pytest.mark.parametrize("joints", ["mixed", "revolute", "prismatic", "helical", "oblique"])
def test_canonical_frames_change_no_effort(joints: str) -> None:
    chain = random_chain(12, 4, joints=[1] * 12 if joints == "oblique" else joints)
    # One joint about z already, one the other way round.
    S = np.array(chain.S)
    S[3, :, 0], S[4, :, 0] = (0, 0, 1, 0, 0, 0), (0, 0, -1, 0, 0, 0)
    chain = replace(chain, S=S)
    state = random_state(chain, 5, 4)
    moved = canonical(chain)
    assert not moved.S[:, [0, 1, 3, 4], 0].any()
    assert np.array_equal(moved.E[3], canonical(replace(moved, S=moved.S)).E[3])
    tau = rnea(moved, state.q, state.qd, state.qdd)
    np.testing.assert_allclose(tau, state.tau, rtol=0, atol=1e-13 * np.abs(state.tau).max())
    numbers = packed(moved, "float32")
    assert numbers.dtype == np.float32 and numbers.shape == (LINK_NUMBERS * 12 + 3,)
    np.testing.assert_allclose(numbers[-3:], -chain.gravity, rtol=1e-7)


def test_armature_is_refused() -> None:
    chain = random_chain(3, 1)
    chain = replace(chain, armature=np.eye(3, 6))
    with pytest.raises(ComputeError, match=r"has armature, which kernels for GPUs do not"):
        canonical(chain)


def test_what_is_no_chain_of_kernels_is_said() -> None:
    with pytest.raises(ComputeError, match=r"has side branches \(bodies: 1\)"):
        canonical(_with_a_branch())
    with pytest.raises(
        ComputeError, match="Joint 1 of the chain 'unit-3-1' has 2 degrees of freedom"
    ):
        canonical(random_chain(3, 1, joints=[1, 2, 1]))
    chain = canonical(random_chain(3, 1))
    inertia = np.array(chain.I)
    inertia[1, 3, 3] *= 2
    with pytest.raises(ComputeError, match=r"inertia of link 1 .* is not that of a rigid body"):
        packed(replace(chain, I=inertia), "float64")


def _with_a_branch() -> Chain:
    for seed in range(30):
        chain = random_chain(3, seed, branches=1)
        if chain.bodies == 4:
            return chain
    raise AssertionError("no seed has a branch of one body")


def test_scopes_by_the_number_of_links() -> None:
    assert [shape_of(n).scope for n in (1, 32, 33, 1024, 1025)] == [
        *("Warp", "Warp", "Block", "Block", "Grid")
    ]
    for n in (1, 32, 33, 128, 129, 1000, 1024, 1025, 5000):
        shape = shape_of(n)
        threads = 32 if shape.scope == "Warp" else shape.threads * shape.blocks(1)
        assert threads * shape.links >= n and shape.threads <= 256
    assert shape_of(5000).blocks(1) == 5
    assert shape_of(20).blocks(9) == 3 and shape_of(100).blocks(9) == 9


def test_one_robot_and_none(chain: Chain, device: ChainDevice) -> None:
    kernel = compiled(chain, device)
    state = random_state(chain, 3, 4)
    inputs = {name: getattr(state, name) for name in ("q", "qd", "qdd")}
    whole = kernel(**inputs)
    single = kernel(**{name: x[2] for name, x in inputs.items()})
    assert single.shape == (N,) and np.array_equal(single, whole[2])
    assert kernel(**{name: x[:0] for name, x in inputs.items()}).shape == (0, N)


@pytest.mark.parametrize("which", [0, 1])
def test_arrays_on_the_device(which: int, chain: Chain, device: ChainDevice) -> None:
    kernel = compiled(chain, device, which)
    state = random_state(chain, 3, 6)
    inputs = {name: getattr(state, name) for name in ("q", "qd", "qdd")}
    host = kernel(**inputs)
    for columns in (False, True):
        device_inputs = {name: on_device(device, x, columns=columns) for name, x in inputs.items()}
        tau = kernel(**device_inputs)
        assert isinstance(tau, DeviceArray) and tau.strides == device_inputs["q"].strides
        assert np.array_equal(fetched(tau), host)
    single = kernel(**{name: on_device(device, x[4]) for name, x in inputs.items()})
    assert np.array_equal(fetched(single), host[4])
    # The stride of a batch of one is arbitrary: NumPy keeps that of the original array.
    one_row = {name: on_device(device, x[4:5]) for name, x in inputs.items()}
    one_row["qd"] = replace_strides(one_row["qd"], (1, 1))
    tau = kernel(**one_row)
    assert tau.shape == (1, N) and np.array_equal(fetched(tau), host[4:5])
    assert kernel.sent(np.zeros((N, 1)).T).strides == (N, 1)


def test_hybrid_takes_any_factors_of_the_processor(chain: Chain, device: ChainDevice) -> None:
    state = random_state(chain, 3, 4)
    calls: list[int] = []

    def factors(q: Any) -> Any:
        calls.append(len(q))
        assert device.launches[-1][0].startswith("bias_")  # queued for the device meanwhile
        return joint_factors(canonical(chain), q)

    kernel = compiled(chain, device, 2, factors=factors)
    arrays = {"q": state.q, "qd": state.qd, "tau": state.tau}
    expected = aba(chain, state.q, state.qd, state.tau)
    np.testing.assert_allclose(kernel(**arrays), expected, rtol=0, atol=1e-10)
    assert calls == [4]
    wrong = compiled(chain, device, 2, factors=lambda q: 1.01 * factors(q))
    assert np.abs(wrong(**arrays) - expected).max() > 1e-3
    device_arrays = {name: on_device(device, x) for name, x in arrays.items()}
    with pytest.raises(InputError, match="choose the method 'abia'"):
        kernel(**device_arrays)


def test_wrong_arguments_are_said(chain: Chain, device: ChainDevice) -> None:
    kernel = compiled(chain, device)
    x = np.zeros((3, N))
    device_array = on_device(device, x)
    with pytest.raises(InputError, match="The inputs are q, qd, qdd, but the call passes q, qd"):
        kernel(q=x, qd=x)
    with pytest.raises(InputError, match=r"'qdd' has shape \(2, 9\) and dtype float64"):
        kernel(q=x, qd=x, qdd=x[:2])
    with pytest.raises(InputError, match="'q' is on a device, but 'qd' is in host memory"):
        kernel(q=device_array, qd=x, qdd=x)
    with pytest.raises(InputError, match="use the shape and strides of 'q'"):
        kernel(q=device_array, qd=on_device(device, x, columns=True), qdd=device_array)
    with pytest.raises(InputError, match="dtype float32: give"):
        kernel(q=device_array, qd=device_array, qdd=on_device(device, x.astype(np.float32)))
    with pytest.raises(InputError, match="There are 2 chains, but the batch has length 3"):
        compiled([chain, chain], device)(q=x, qd=x, qdd=x)
    with pytest.raises(InputError, match=r"The chains have lengths \[3, 9\]"):
        compiled([chain, random_chain(3, 1)], device)
    device._memory, memory = device.used, device._memory
    try:
        with pytest.raises(ComputeError, match="or give fewer robots or shorter chains"):
            kernel(q=x, qd=x, qdd=x)
    finally:
        device._memory = memory


def test_a_grid_is_no_larger_than_the_device(device: ChainDevice) -> None:
    assert device.multiprocessors == 4
    with pytest.raises(InputError, match="needs 5: give at most 4096 links"):
        cuda.compile(random_chain(4097, 1, joints="prismatic"), "rnea", device=device)


@pytest.mark.parametrize(
    ("n", "function", "more", "message"),
    [
        (3, "crba", {}, "Unknown function 'crba': choose one of rnea, aba"),
        (3, "rnea", {"method": "jsiia"}, "choose one of scan, warp, thread"),
        (3, "rnea", {"dtype": "float16"}, "Kernels do not support the dtype 'float16'"),
        (0, "rnea", {}, "at least one link, not 0"),
        (3, "aba", {"refine": 2}, "'jsiia' has no refinement.* choose one of cfa_oee"),
        (3, "aba", {"method": "cfa_ldl", "refine": -1}, "'refine' must be 0 or more, not -1"),
        (109, "aba", {"method": "jsiia"}, "at most 108 links in float64, not 109"),
    ],
)
def test_what_has_no_kernel_is_said(n: int, function: str, more: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        cuda.source(n, function, **more)


def test_the_default_method_takes_any_length() -> None:
    assert cuda.source(108, "aba").method == "jsiia"
    assert cuda.source(109, "aba").method == "abia"
    assert cuda.source(154, "aba", dtype="float32").method == "jsiia"
    assert cuda.source(155, "aba", dtype="float32").method == "abia"
    for n in (20, 100):
        for function, methods in cuda.METHODS.items():
            for method in methods:
                for kernel in cuda.source(n, function, method=method).kernels:
                    assert kernel.shared_bytes <= 48 * 1024
