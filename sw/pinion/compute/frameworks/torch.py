"""Dynamics in PyTorch: a function of tensors whose gradients are the analytic ones.

>>> from pinion.compute.frameworks.torch import dynamics  # doctest: +SKIP
>>> forward = dynamics("iiwa14", "aba")                                    # doctest: +SKIP
>>> qdd = forward(q, qd, tau)                                              # doctest: +SKIP
>>> qdd.square().sum().backward()                                          # doctest: +SKIP
>>> on_a_gpu = dynamics("iiwa14", "aba", dtype="float32", device="cuda")   # doctest: +SKIP

Tensors are on one device, and so are results and gradients; their memory is used as it is where it
is contiguous and of the kernel's dtype. The Jacobians are computed with the value when an input
needs a gradient, once, and stay where they are until `backward`, which multiplies them there.

On a GPU the kernels are queued on PyTorch's current stream, and nothing waits for them. All memory
is that of PyTorch's allocator, taken on that stream and given back on it, so what is queued there
later may have it: the stream's order makes this safe, and `record_stream` has nothing to add. As
for every operation of PyTorch, tensors that were made on another stream need its `wait_stream`, and
their own `record_stream` if they are dropped early.

.. note:: On a GPU this has not run yet. The tests run all of it but the three calls of `_gpu`, on a
   processor that plays a device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

from pinion.batch import InputError
from pinion.compute import cpu, cuda
from pinion.compute.cuda.device import Device
from pinion.robot import Model

from .gradients import Differentiable

__all__ = ["Card", "dynamics"]

_LEGACY = 1  # the driver's own name for the stream 0, which is also said for "none"


class Place(Protocol):
    """Where tensors are computed.

    Members
    -------
    device : PyTorch's name of it.
    """

    @property
    def device(self) -> torch.device: ...

    def compile(self, model: Model | str, function: str, **options: Any) -> Any:
        """A kernel that runs there."""

    def run(self, kernel: Any, arguments: Mapping[str, Any], out: Mapping[str, Any]) -> None:
        """Compute a kernel, of contiguous tensors into contiguous tensors."""


@dataclass(frozen=True)
class Card:
    """A GPU, or what plays one in a test.

    Members
    -------
    device : PyTorch's name of it, on which tensors are.
    gpu : runs the kernels.
    current : makes it the current device of this thread while a kernel is queued.
    stream : gives the stream on which PyTorch queues its work now, as the device takes it.
    handed : a tensor as the kernel takes it.
    """

    device: torch.device
    gpu: Device
    current: Callable[[], AbstractContextManager[Any]]
    stream: Callable[[], Any]
    handed: Callable[[Any], Any]

    def compile(self, model: Model | str, function: str, **options: Any) -> Any:
        """A kernel that runs there; options as of :func:`pinion.compute.cuda.compile`."""
        return cuda.compile(model, function, device=self.gpu, **options)

    def run(self, kernel: Any, arguments: Mapping[str, Any], out: Mapping[str, Any]) -> None:
        """Queue a kernel on the current stream."""
        some = next(iter(out.values()))
        with self.current():
            size = kernel.workspace_bytes(len(some))
            workspace = some.new_empty(size, dtype=torch.uint8) if size else None
            kernel(
                out={name: self.handed(tensor) for name, tensor in out.items()},
                stream=self.stream(),
                workspace=None if workspace is None else self.handed(workspace),
                **{name: self.handed(tensor) for name, tensor in arguments.items()},
            )


@dataclass(frozen=True)
class _Processor:
    """This machine's processor."""

    device: torch.device

    def compile(self, model: Model | str, function: str, **options: Any) -> Any:
        return cpu.compile(model, function, **options)

    def run(self, kernel: Any, arguments: Mapping[str, Any], out: Mapping[str, Any]) -> None:
        kernel(
            out={name: tensor.numpy() for name, tensor in out.items()},
            **{name: tensor.numpy() for name, tensor in arguments.items()},
        )


@dataclass(frozen=True)
class _Stream:
    """A stream by its number, as other libraries take it."""

    handle: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle or _LEGACY


def dynamics(
    model: Model | str,
    function: str,
    *,
    dtype: str = "float64",
    device: str | torch.device | Card = "cpu",
    **options: Any,
) -> Callable[..., Any]:
    """A differentiable function of tensors.

    Parameters
    ----------
    model : a robot, or the name or path of one.
    function : ``rnea`` (tau of q, qd, qdd) or ``aba`` (qdd of q, qd, tau).
    dtype : of the tensors, ``float32`` or ``float64``. Most GPUs compute float32 many times faster.
    device : of the tensors: ``cpu``, ``cuda`` (PyTorch's current one) or ``cuda:1``.
    options : as of :func:`pinion.compute.cpu.compile`, or of :func:`pinion.compute.cuda.compile`.

    Returns
    -------
    A function of three tensors (..., nv) of one shape, which gives a tensor of that shape. It can
    be differentiated once.

    Raises
    ------
    InputError
        As `compile`, and when PyTorch has no such device; by the function when a tensor is on
        another device, of another dtype or of a shape that does not fit.
    """
    place = _placed(device, options.get("cache"))
    differentiable = Differentiable(model, function, dtype=dtype, compile=place.compile, **options)
    kind = getattr(torch, dtype)

    def call(*tensors: Any) -> Any:
        names = differentiable.rule.inputs
        if len(tensors) != len(names):
            raise InputError(f"'{function}' takes {', '.join(names)}, not {len(tensors)} tensors.")
        for name, tensor in zip(names, tensors, strict=True):
            if tensor.device != place.device:
                raise InputError(
                    f"'{name}' is on the device '{tensor.device}': give tensors on "
                    f"'{place.device}', or name another device."
                )
            if tensor.dtype != kind:
                raise InputError(f"'{name}' has the dtype {tensor.dtype}: give {kind}.")
            if tensor.shape != tensors[0].shape or tensor.shape[-1:] != (differentiable.model.nv,):
                raise InputError(
                    f"'{name}' has the shape {tuple(tensor.shape)}: give (..., {differentiable.model.nv}), "
                    "the same for all."
                )
        return _Dynamics.apply(place, differentiable, *tensors)

    return call


def _placed(device: str | torch.device | Card, cache: Path | None) -> Place:
    if isinstance(device, Card):
        return device
    try:
        named = torch.device(device)
    except RuntimeError:
        raise InputError(f"There is no device '{device}': give cpu, cuda or cuda:1.") from None
    if named.type == "cpu":
        return _Processor(named)
    if named.type != "cuda" or not torch.cuda.is_available():
        raise InputError(
            f"PyTorch {torch.__version__} computes nothing on '{device}' here: give cpu, or "
            "install a build of it for CUDA and a driver."
        )
    return _gpu(torch.cuda.current_device() if named.index is None else named.index, cache)


def _gpu(index: int, cache: Path | None) -> Card:
    device = torch.device("cuda", index)
    return Card(
        device=device,
        gpu=cuda.open_gpu(index, cache),
        current=partial(torch.cuda.device, device),
        stream=lambda: _Stream(torch.cuda.current_stream(device).cuda_stream),
        handed=lambda tensor: tensor,
    )


def _run(place: Place, kernel: Any, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    some = next(iter(arguments.values()))
    out = {a.name: some.new_empty((len(some), *a.shape)) for a in kernel.results}
    place.run(kernel, arguments, out)
    return out


class _Dynamics(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, place: Place, differentiable: Differentiable, *tensors: Any) -> Any:
        shape, nv, run = tensors[0].shape, differentiable.model.nv, partial(_run, place)
        # A tensor may stand for the negative of its memory, which no kernel would know.
        flat = [t.detach().resolve_neg().reshape(-1, nv).contiguous() for t in tensors]
        if not any(ctx.needs_input_grad[2:]):
            return differentiable.value(*flat, run=run).reshape(shape)
        value, jacobians = differentiable.linear(*flat, run=run)
        needs_gradient = ctx.needs_input_grad[2:]
        ctx.save_for_backward(
            *(j if needed else None for j, needed in zip(jacobians, needs_gradient, strict=True))
        )
        return value.reshape(shape)

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Any) -> Any:
        rows = gradient.reshape(-1, 1, gradient.shape[-1])
        parts = [
            None if jacobian is None else (rows @ jacobian).reshape(gradient.shape)
            for jacobian in ctx.saved_tensors
        ]
        return (None, None, *parts)
