"""Dynamics in JAX: a function whose values and gradients are XLA custom calls.

>>> from pinion.compute.frameworks.jax import dynamics  # doctest: +SKIP
>>> forward = dynamics("iiwa14", "aba", dtype="float32")                  # doctest: +SKIP
>>> jax.grad(lambda tau: forward(q, qd, tau).sum())(tau)                  # doctest: +SKIP
>>> on_a_gpu = dynamics("iiwa14", "aba", device="cuda")                   # doctest: +SKIP

It supports `jax.jit`, `jax.vmap` and reverse-mode derivatives (`jax.grad`, `jax.jacrev`), also
repeated: a Hessian is ``jax.jacrev(jax.jacrev(f))``. Compiled code contains addresses of this
process, so it cannot be exported.

On a GPU a C++ call makes the driver run the kernels on XLA's stream and in XLA's memory
(``runtime/jaxcuda.cpp``, by XLA's foreign function interface, jax.ffi), without copies, waits or
Python.

.. note:: Without a GPU the tests have XLA call that C++ on a CPU, with a simulated stream and
   driver; kernels run there.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from pinion.batch import InputError
from pinion.compute import cpu, cuda
from pinion.compute.cuda.device import CudaDevice
from pinion.compute.native import HEADERS, cached_library
from pinion.functions import RowOptions
from pinion.native import Cache, default_folder, find_compiler
from pinion.native import isa as isas
from pinion.robot import Model

from .gradients import Differentiable, differentiable
from .positions import Space

__all__ = ["JaxGpu", "dynamics"]

# By default XLA rounds the factors of products in float32 to 10 bits on recent GPUs.
_PRODUCTS = SimpleNamespace(
    einsum=partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST),
    broadcast_to=jnp.broadcast_to,
    concatenate=jnp.concatenate,
)


class JaxDevice(Protocol):
    """A CPU or GPU that runs kernels on JAX arrays."""

    @property
    def platform(self) -> str:
        """JAX's name for the platform."""

    @property
    def target(self) -> str:
        """XLA's name for the custom call."""

    def compile(self, model: Model | str, function: str, **options: Any) -> Any:
        """Compile a kernel for this device."""

    def attributes(self, kernel: Any) -> Mapping[str, Any]:
        """Return the custom call's attributes for a kernel, which must stay loaded."""


@dataclass(frozen=True)
class JaxGpu:
    """A GPU that runs kernels on JAX arrays, or a stand-in in a test.

    Members
    -------
    platform, target : see :class:`JaxDevice`.
    gpu : loads the kernels; other GPUs of its architecture run them too.
    launch : address of the driver's ``cuLaunchKernel``.
    """

    platform: str
    target: str
    gpu: CudaDevice
    launch: int

    def compile(self, model: Model | str, function: str, **options: Any) -> Any:
        """Compile a kernel for this GPU; options as for :func:`pinion.compute.cuda.compile`."""
        kernel = cuda.compile(model, function, device=self.gpu, **options)
        # Executables keep only its handle and may outlive it, so its code stays loaded until the
        # process ends, as the libraries of the CPU path do.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kernel))
        return kernel

    def attributes(self, kernel: Any) -> Mapping[str, Any]:
        """Return the attributes that ``runtime/jaxcuda.cpp`` reads."""
        parts, small = kernel.loaded
        numbers = [
            (int(loaded.handle), part.threads, part.shared_bytes)
            for loaded, part in zip(parts, kernel.source.kernels, strict=True)
        ]
        block = (
            ()
            if kernel.small is None
            else (int(small.handle), kernel.small.threads, kernel.small.shared_bytes)
        )
        return {
            "launch": np.int64(self.launch),
            "bytes": np.int64(kernel.dtype.itemsize),
            "workspace": np.int64(kernel.source.workspace),
            "crossover": np.int64(kernel.crossover if kernel.small is not None else 0),
            "sizes": np.array([prod(a.shape) for a in (*kernel.inputs, *kernel.results)], np.int64),
            "small": np.array(block, np.int64),
            "parts": np.array(numbers, np.int64).reshape(-1),
        }


@dataclass(frozen=True)
class _JaxProcessor:
    """This machine's CPU, which runs kernels on JAX arrays."""

    target: str
    threads: int
    compiler: str | None
    platform: str = "cpu"

    def compile(self, model: Model | str, function: str, **options: Any) -> Any:
        return cpu.compile(model, function, threads=self.threads, compiler=self.compiler, **options)

    def attributes(self, kernel: Any) -> Mapping[str, Any]:
        return {"kernel": np.int64(kernel.address), "threads": np.int64(self.threads)}


def dynamics(
    model: Model | str,
    function: str,
    *,
    dtype: str = "float32",
    device: str | JaxGpu = "cpu",
    threads: int = 0,
    compiler: str | None = None,
    cache: Path | None = None,
    **options: Unpack[RowOptions],
) -> Callable[..., Any]:
    """Return a function of a robot as a differentiable function of JAX arrays.

    Parameters
    ----------
    model : a robot, or the name or path of one.
    function : a row of the table with reverse mode, such as ``rnea`` (tau of q, qd, qdd), ``aba``
        (qdd of q, qd, tau) or ``forward_kinematics`` (R and p of q).
    dtype : of the arrays; float64 needs ``jax_enable_x64``.
    device : device of the arrays: ``cpu``, ``cuda`` (the first GPU) or ``cuda:1``. Other GPUs of
        the same architecture can be used too.
    threads, compiler, cache : as for :func:`pinion.compute.cpu.compile`.
    options : ``outputs``, ``parameters`` and ``joint_terms`` of the row.

    Returns
    -------
    A function of the row's inputs, (..., *shape) each, with the same batch axes or none. It returns
    an array, or a named tuple of several results. The gradient with respect to q has the shape of q
    (:mod:`.positions`). It can be differentiated as often as the rows of its gradient can.

    Raises
    ------
    InputError
        As `compile`, if the row has no gradient, or if there is no such device; by the function if
        a dtype, a shape or the device of an array does not fit, or an input that needs a gradient
        has none.
    """
    place = _placed(device, threads, compiler, cache)
    operation = differentiable(
        model, function, dtype=dtype, compile=place.compile, cache=cache, **options
    )
    runner = _Runner(place, np.dtype(dtype))

    def checked(*arrays: Any) -> Any:
        converted = [jnp.asarray(array) for array in arrays]
        batch = operation.batch([array.shape for array in converted])
        for name, array in zip(operation.inputs, converted, strict=True):
            if array.dtype != runner.dtype:
                narrow = runner.dtype == np.float64 and not jax.config.jax_enable_x64
                raise InputError(
                    f"'{name}' has the dtype {array.dtype}: give {runner.dtype.name}"
                    f"{', and set jax_enable_x64' if narrow else ''}."
                )
            # XLA places traced arrays later, and reports if a device lacks the call.
            if not isinstance(array, jax.core.Tracer):
                for array_device in array.devices():
                    if array_device.platform != place.platform:
                        raise InputError(
                            f"'{name}' is on the device '{array_device}': give arrays on a "
                            f"'{place.platform}' device, or choose another device."
                        )
        inputs = {
            name: jnp.broadcast_to(array, (*batch, *shape))
            for (name, shape), array in zip(operation.inputs.items(), converted, strict=True)
        }
        return operation.answer(runner.applied(operation, inputs))

    return checked


class _Runner:
    """Runner of functions on a device, with or without gradients.

    Members
    -------
    dtype : of the arrays.
    """

    def __init__(self, place: JaxDevice, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self._place = place
        self._operations: dict[tuple[str, tuple[str, ...]], Callable[..., Any]] = {}
        self._space = Space(_PRODUCTS, lambda name, array: array.astype(dtype))

    def plain(self, function: Differentiable, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run a kernel on arrays with any batch axes."""
        kernel = function.kernel
        first = kernel.inputs[0]
        batch = inputs[first.name].shape
        batch = batch[: len(batch) - len(first.shape)]
        shapes = [jax.ShapeDtypeStruct((*batch, *a.shape), kernel.dtype) for a in kernel.results]
        call = jax.ffi.ffi_call(self._place.target, shapes, vmap_method="broadcast_all")
        attributes = self._place.attributes(kernel)
        results = call(*(inputs[a.name] for a in kernel.inputs), **attributes)
        named = {a.name: x for a, x in zip(kernel.results, results, strict=True)}
        return {name: named[name] for name in function.results}

    def applied(self, function: Differentiable, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run a function so that JAX can differentiate it."""
        key = function.row, tuple(function.results)
        if key not in self._operations:
            self._operations[key] = self._operation(function)
        results = self._operations[key](*(inputs[name] for name in function.inputs))
        return dict(zip(function.results, results, strict=True))

    def _operation(self, function: Differentiable) -> Callable[..., Any]:
        names = tuple(function.inputs)

        @jax.custom_vjp  # type: ignore[untyped-decorator]
        def call(*arrays: Any) -> Any:
            return tuple(self.plain(function, dict(zip(names, arrays, strict=True))).values())

        def forward(*primals: Any) -> Any:
            arrays = {name: x.value for name, x in zip(names, primals, strict=True)}
            needs = [name for name, x in zip(names, primals, strict=True) if x.perturbed]
            linear = function.linear(self._space, arrays, needs, self.applied)
            # Keys of a dictionary are not traced; they say which gradients are needed.
            needed = {name: arrays[name] for name in needs}
            return tuple(linear[name] for name in function.results), (arrays, linear, needed)

        def backward(residuals: Any, gradients: Sequence[Any]) -> Any:
            arrays, linear, needed = residuals
            cotangents = {
                name: x
                for name, x in zip(function.results, gradients, strict=True)
                if not isinstance(x, SymbolicZero)
            }
            pulled = function.pull(self._space, {**linear, **arrays}, cotangents, tuple(needed))
            return tuple(pulled.get(n, jnp.zeros_like(arrays[n])) for n in names)

        call.defvjp(forward, backward, symbolic_zeros=True)
        operation: Callable[..., Any] = call
        return operation


def _placed(
    device: str | JaxGpu, threads: int, compiler: str | None, cache: Path | None
) -> JaxDevice:
    if isinstance(device, JaxGpu):
        return device
    if device == "cpu":
        target = _registered("cpu", "pinion_jax", ("jaxcall.cpp", "runtime.cpp"), compiler, cache)
        return _JaxProcessor(target=target, threads=threads, compiler=compiler)
    kind, _, number = device.partition(":")
    if kind != "cuda" or not ((number.isascii() and number.isdigit()) or device == "cuda"):
        raise InputError(
            f"Unknown device '{device}': use 'cpu', 'cuda' or 'cuda:N', such as 'cuda:1'."
        )
    gpu = cuda.open_gpu(int(number or 0), cache)
    driver = ctypes.CDLL("libcuda.so.1").cuLaunchKernel
    return JaxGpu(
        platform="gpu",
        target=_registered("CUDA", "pinion_jax_cuda", ("jaxcuda.cpp",), compiler, cache),
        gpu=gpu,
        launch=ctypes.cast(driver, ctypes.c_void_p).value or 0,
    )


def _registered(
    platform: str,
    symbol: str,
    files: Sequence[str],
    compiler: str | None,
    cache: Path | None,
) -> str:
    """Register a custom call with XLA and return its name; its library is compiled only once."""
    command, machine = find_compiler(compiler), isas.best()
    store = Cache(default_folder(os.environ) if cache is None else cache)
    path = cached_library(
        store,
        {"kind": f"jax {platform}", "jax": jax.__version__},
        {file: (HEADERS / file).read_text() for file in files},
        compiler=command,
        isa=machine,
        include=(HEADERS, Path(jax.ffi.include_dir())),
    )
    name = f"pinion_{path.stem}"
    function = getattr(ctypes.CDLL(str(path)), symbol)
    try:
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(function), platform=platform)
    except jax.errors.JaxRuntimeError as error:
        # Its copy of another cache: the name stands for the content, so either serves.
        if "Duplicate" not in str(error):
            raise
    return name
