"""JAX on a device: XLA's real calls, jitted, mapped and differentiated, of the C++ for GPUs.

XLA's CUDA platform and the driver do not run. Stream and scratch memory are those of
``tests/support/xla_device.cpp``; ``cuLaunchKernel`` is a function here, which runs the kernels on
this processor. Takes 40 seconds.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import itertools
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pytest

from pinion.batch import InputError
from pinion.compute import cuda
from pinion.compute.cuda import kernel as kernels
from pinion.compute.cuda import threads
from pinion.compute.cuda.parts import Room
from pinion.compute.native import HEADERS
from pinion.native import isa as isas
from pinion.native.toolchain import compile_library, find_compiler
from tests.support.cuda_device import HostDevice
from tests.support.cuda_host import HostKernels
from tests.support.jacobians import KERNELS, Jacobians

if importlib.util.find_spec("jax") is None:
    pytest.skip("JAX is not installed", allow_module_level=True)
if not any(shutil.which(name) for name in ("c++", "g++", "clang++")):
    pytest.skip("no C++ compiler on this machine", allow_module_level=True)

import jax
import jax.numpy as jnp

from pinion.compute.frameworks import jax as front
from pinion.compute.frameworks.jax import JaxGpu, dynamics

SUPPORT = Path(__file__).parents[1] / "support"
STREAM = 0x5EED  # of xla_device.cpp
CROSSOVER = 5

_Launch = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    *[ctypes.c_uint] * 7,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
)


@dataclass
class Loaded:
    """A kernel with the interface of ``cuda-core``."""

    handle: int
    name: str
    arguments: int
    kernels: HostKernels


class Driver(HostDevice):
    """A device with a driver.

    Members
    -------
    started : kernel name, blocks and samples of every launch.
    answer : result of the driver; 0 is success.
    trouble : errors in launches, where exceptions would be lost.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.name = "this processor's driver"
        self.started: list[tuple[str, int, int]] = []
        self.answer = 0
        self.trouble: list[BaseException] = []
        # Unreferenced code is unloaded, as on a GPU.
        self._loaded: WeakValueDictionary[int, Loaded] = WeakValueDictionary()
        self._found: WeakValueDictionary[str, Loaded] = WeakValueDictionary()
        self._handles = itertools.count(0x7F00_0000_0000, 16)  # which need 64 bits
        self._launch = _Launch(self._start)
        self.address = ctypes.cast(self._launch, ctypes.c_void_p).value or 0

    def load(self, name: str, text: str) -> Any:
        module = self._found.get(text)
        if module is None:
            compiled = super().load(name, text)[1]
            signature = re.search(rf"\bvoid\b[^;{{]*\b{name}\s*\(([^)]*)\)", text)
            assert signature is not None
            module = Loaded(next(self._handles), name, signature[1].count(",") + 1, compiled)
            self._found[text] = self._loaded[module.handle] = module
        return module

    def _start(self, function: int, *rest: Any) -> int:
        try:
            *shape, shared, stream, places, extra = rest
            kernel = self._loaded[function]
            assert shape[1:3] == [1, 1] and shape[4:] == [1, 1] and not extra
            assert stream == STREAM
            values = [
                ctypes.c_longlong(ctypes.c_longlong.from_address(places[k]).value)
                for k in range(kernel.arguments)
            ]
            self.started.append((kernel.name, shape[0], values[0].value))
            if not self.answer:
                kernel.kernels.launch(kernel.name, shape[0], shape[3], shared, values, 1)
        except BaseException as error:
            self.trouble.append(error)
            return 1
        return self.answer


@dataclass
class Player:
    """A card for `dynamics`, its driver, and the library called by XLA."""

    card: JaxGpu
    driver: Driver
    library: ctypes.CDLL

    def number(self, name: str) -> Any:
        return ctypes.c_int64.in_dll(self.library, name)


@pytest.fixture(scope="module")
def player(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    folder = tmp_path_factory.mktemp("kernels")
    out = tmp_path_factory.mktemp("xla") / "played.so"
    compile_library(
        {"played.cpp": (SUPPORT / "xla_device.cpp").read_text()},
        out=out,
        compiler=find_compiler(),
        isa=isas.best(),
        include=(HEADERS, Path(jax.ffi.include_dir())),
    )
    library = ctypes.CDLL(str(out))
    jax.ffi.register_ffi_target(
        "pinion_played", jax.ffi.pycapsule(library.pinion_jax_played), platform="cpu"
    )
    driver = Driver(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(kernels.CudaKernel, "measured", lambda self: (CROSSOVER, CROSSOVER))
        card = JaxGpu(platform="cpu", target="pinion_played", gpu=driver, launch=driver.address)
        yield Player(card, driver, library)


@pytest.fixture(autouse=True)
def _no_trouble(player: Player) -> Iterator[None]:
    player.driver.started.clear()
    yield
    assert player.driver.trouble == []
    assert player.number("pinion_held").value == 0


def random_inputs(*shape: int) -> list[np.ndarray]:
    rng = np.random.default_rng(2)
    return [rng.uniform(-1, 1, shape).astype(np.float32) for _ in range(3)]


def close(values: Any, right: Any) -> bool:
    values, right = np.asarray(values), np.asarray(right)
    return bool(values.shape == right.shape and np.max(np.abs(values - right)) <= 1e-4)


@pytest.mark.parametrize("name", list(KERNELS))
def test_xla_queues_the_kernels(player: Player, name: str) -> None:
    call = dynamics("two_link", name, device=player.card)
    right = Jacobians("two_link", name, dtype="float32")
    for count in (CROSSOVER - 1, CROSSOVER, 300):
        inputs = random_inputs(count, 2)
        value, (_, jacobians) = right.value(*inputs), right.linear(*inputs)
        player.driver.started.clear()
        assert close(jax.block_until_ready(call(*inputs)), value)
        ((started, blocks, samples),) = player.driver.started
        assert samples == count
        # Small batches use a block per sample.
        small = count < CROSSOVER
        assert started == (f"pinion_{name}" if small else name)
        assert blocks == (count if small else -(-count // 128))
        player.driver.started.clear()
        both = jax.jit(jax.value_and_grad(lambda *x: jnp.sum(call(*x)), argnums=(0, 1, 2)))
        total, pulled = jax.block_until_ready(both(*inputs))
        # XLA may choose another order, and omits unused results.
        assert sorted(kernel.removeprefix("pinion_") for kernel, _, _ in player.driver.started) == (
            sorted(kernel for kernel, _ in KERNELS[name])
        )
        assert abs(total - value.sum()) <= 1e-4 * count
        for gradient, jacobian in zip(pulled, jacobians, strict=True):
            assert close(gradient, jacobian.sum(axis=1))


def test_mapped_and_without_samples(player: Player) -> None:
    call = dynamics("two_link", "aba", device=player.card)
    right = Jacobians("two_link", "aba", dtype="float32")
    inputs = random_inputs(4, 3, 2)
    value = right.value(*(x.reshape(12, 2) for x in inputs)).reshape(4, 3, 2)
    assert close(jax.vmap(call)(*inputs), value)
    assert close(jax.jit(jax.vmap(jax.vmap(call)))(*inputs), value)
    # One of the arguments is the same for all.
    shared = jax.vmap(call, in_axes=(0, None, 0))(inputs[0], inputs[1][0], inputs[2])
    every = [inputs[0], np.broadcast_to(inputs[1][:1], (4, 3, 2)), inputs[2]]
    assert close(shared, right.value(*(x.reshape(12, 2) for x in every)).reshape(4, 3, 2))
    assert close(call(*(x[0, 0] for x in inputs)), value[0, 0])
    assert {samples for _, _, samples in player.driver.started} == {12, 1}
    player.driver.started.clear()
    assert call(*(x[:0] for x in inputs)).shape == (0, 3, 2)
    assert player.driver.started == []


def test_what_passes_between_kernels_is_the_memory_of_xla(
    monkeypatch: pytest.MonkeyPatch, player: Player
) -> None:
    monkeypatch.setattr(threads, "_ROOMS", {"float32": Room(plain=10, registers=8, slots=4)})
    call = dynamics("two_link", "aba", device=player.card)
    right = Jacobians("two_link", "aba", dtype="float32")
    inputs = random_inputs(40, 2)
    before = player.number("pinion_taken").value
    gradient = jax.jit(jax.grad(lambda *x: jnp.sum(call(*x))))
    result = jax.block_until_ready(gradient(*inputs))
    assert len(player.driver.started) == 3 and player.driver.used == 0
    assert player.number("pinion_taken").value - before == 64 * 14 * 4  # whole warps
    assert close(result, right.linear(*inputs)[1][0].sum(axis=1))
    full = player.number("pinion_full")
    full.value = 1
    try:
        with pytest.raises(Exception, match="no memory left between the kernels"):
            jax.block_until_ready(gradient(*inputs))
    finally:
        full.value = 0
    assert len(player.driver.started) == 3


def test_a_driver_that_refuses_is_an_error_with_its_number(player: Player) -> None:
    call = dynamics("two_link", "aba", device=player.card)
    inputs = random_inputs(9, 2)
    player.driver.answer = 700
    try:
        with pytest.raises(Exception, match=r"did not start a kernel: CUDA error 700\."):
            jax.block_until_ready(call(*inputs))
    finally:
        player.driver.answer = 0
    assert np.isfinite(np.asarray(call(*inputs))).all()


def test_executables_outlive_the_function(player: Player) -> None:
    inputs = random_inputs(6, 1)
    call = dynamics("pendulum", "aba", device=player.card)
    value = call(*inputs)
    compiled = jax.jit(call).lower(*inputs).compile()
    del call
    jax.clear_caches()
    gc.collect()
    assert close(compiled(*inputs), value)


def test_what_is_refused(player: Player) -> None:
    call = dynamics("two_link", "aba", device=player.card)
    q, qd, tau = random_inputs(4, 2)
    with pytest.raises(InputError, match="'qd' has the dtype int32: give float32"):
        call(q, qd.astype(np.int32), tau)
    with pytest.raises(InputError, match="'tau' has the shape"):
        call(q, qd, tau[:2])
    with pytest.raises(InputError, match=r"needs 3 arrays \(q, qd, tau\), not 2"):
        call(q, qd)
    away = JaxGpu(platform="gpu", target="pinion_played", gpu=player.driver, launch=1)
    with pytest.raises(InputError, match=r"'q' is on the device '.*0': give arrays on a 'gpu'"):
        dynamics("two_link", "aba", device=away)(q, qd, tau)
    for name in ("gpu", "cuda:", "cuda:x", "cudaX", "cuda:-1"):
        with pytest.raises(InputError, match=f"Unknown device '{name}': use 'cpu', 'cuda' or"):
            dynamics("two_link", "aba", device=name)
    assert player.driver.started == []


def test_a_gpu_that_cannot_be_opened_is_not_looked_past(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(index: int, cache: Any) -> Any:
        raise InputError(f"There is no GPU {index}.")

    monkeypatch.setattr(cuda, "open_gpu", missing)
    for device, index in (("cuda", 0), ("cuda:3", 3)):
        with pytest.raises(InputError, match=f"There is no GPU {index}"):
            dynamics("two_link", "aba", device=device)


def test_the_call_for_gpus_compiles_and_is_known_to_xla(tmp_path: Path) -> None:
    files = ("jaxcuda.cpp",)
    first = front._registered("CUDA", "pinion_jax_cuda", files, None, tmp_path)
    # A second function registers the same call again.
    assert front._registered("CUDA", "pinion_jax_cuda", files, None, tmp_path) == first
    jitted: Callable[..., Any] = jax.jit(
        lambda x: jax.ffi.ffi_call(first, jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
    )
    # A processor has no call of this name.
    with pytest.raises(Exception, match=f"{first}"):
        jax.block_until_ready(jitted(jnp.zeros(3)))
