"""Dynamics in JAX: a function whose value and gradients are custom calls of XLA.

>>> from pinion.compute.jax import dynamics                    # doctest: +SKIP
>>> forward = dynamics("iiwa14", "aba", dtype="float32")       # doctest: +SKIP
>>> jax.grad(lambda tau: forward(q, qd, tau).sum())(tau)       # doctest: +SKIP

It may be jitted, mapped by `jax.vmap`, and differentiated once in reverse mode.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from pinion.functions import InputError
from pinion.robot import Model

from . import isa as isas
from .cache import Cache, default_folder
from .cpu import Kernel
from .gradients import Differentiable
from .native import HEADERS
from .sources import package_digest
from .toolchain import compile_library, find_compiler

__all__ = ["dynamics"]


def dynamics(
    model: Model | str,
    function: str,
    *,
    dtype: str = "float32",
    threads: int = 0,
    compiler: str | None = None,
    cache: Path | None = None,
) -> Callable[..., Any]:
    """A differentiable function of arrays.

    Parameters
    ----------
    model : a robot, or the name or path of one.
    function : ``rnea`` (tau of q, qd, qdd) or ``aba`` (qdd of q, qd, tau).
    dtype : of the arrays; float64 needs ``jax_enable_x64``.
    threads, compiler, cache : as of :func:`pinion.compute.cpu.compile`.

    Returns
    -------
    A function of three arrays (..., nv) of one shape, which gives an array of that shape.

    Raises
    ------
    InputError
        As `cpu.compile`; by the function when a dtype or a shape does not fit.
    """
    made = Differentiable(
        model, function, dtype=dtype, threads=threads, compiler=compiler, cache=cache
    )
    target = _registered(compiler, cache)
    names, nv = made.rule.inputs, made.model.nv

    def run(kernel: Kernel, given: dict[str, Any], batch: tuple[int, ...]) -> dict[str, Any]:
        shapes = [jax.ShapeDtypeStruct((*batch, *a.shape), kernel.dtype) for a in kernel.results]
        call = jax.ffi.ffi_call(target, shapes, vmap_method="broadcast_all")
        results = call(
            *(given[a.name] for a in kernel.inputs),
            kernel=kernel.address,
            threads=threads,
        )
        return {a.name: r for a, r in zip(kernel.results, results, strict=True)}

    def check(arrays: Sequence[Any]) -> tuple[int, ...]:
        for name, array in zip(names, arrays, strict=True):
            if array.dtype != made.plain.dtype:
                raise InputError(
                    f"'{name}' has the dtype {array.dtype}: give {made.plain.dtype.name}."
                )
            if array.shape != arrays[0].shape or array.shape[-1:] != (nv,):
                raise InputError(
                    f"'{name}' has the shape {array.shape}: give (..., {nv}), the same for all."
                )
        return tuple(arrays[0].shape[:-1])

    @jax.custom_vjp  # type: ignore[untyped-decorator]
    def call(*arrays: Any) -> Any:
        batch = check(arrays)
        return run(made.plain, dict(zip(names, arrays, strict=True)), batch)[made.rule.value]

    def forward(*arrays: Any) -> Any:
        batch = check(arrays)
        given = dict(zip(names, arrays, strict=True))
        results: dict[str, Any] = {}
        for kernel in made.kernels:
            results |= run(kernel, given, batch)
        return results[made.rule.value], tuple(results[name] for name in made.rule.jacobians)

    def backward(jacobians: Sequence[Any], gradient: Any) -> Any:
        return tuple(jnp.einsum("...i,...ij->...j", gradient, j) for j in jacobians)

    call.defvjp(forward, backward)

    def checked(*arrays: Any) -> Any:
        if len(arrays) != len(names):
            raise InputError(f"'{function}' takes {', '.join(names)}, not {len(arrays)} arrays.")
        return call(*(jnp.asarray(array) for array in arrays))

    return checked


def _registered(compiler: str | None, cache: Path | None) -> str:
    """The name under which XLA knows the call; the library is compiled once."""
    command, machine = find_compiler(compiler), isas.best()
    store = Cache(default_folder(os.environ) if cache is None else cache)
    key = {
        "kind": "jax",
        "package": package_digest(("compute",)),
        "compiler": command.identity,
        "isa": machine.name,
        "jax": jax.__version__,
    }
    sources = {file: (HEADERS / file).read_text() for file in ("jaxcall.cpp", "runtime.cpp")}
    path = store.library(
        key,
        lambda out: compile_library(
            sources,
            out=out,
            compiler=command,
            isa=machine,
            include=(HEADERS, Path(jax.ffi.include_dir())),
        ),
    )
    name = f"pinion_{path.stem}"
    library = ctypes.CDLL(str(path))
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(library.pinion_jax), platform="cpu")
    return name
