"""Dynamics in PyTorch: a function of tensors with analytic gradients.

>>> from pinion.compute.frameworks.torch import dynamics  # doctest: +SKIP
>>> forward = dynamics("iiwa14", "aba")                                    # doctest: +SKIP
>>> qdd = forward(q, qd, tau)                                              # doctest: +SKIP
>>> qdd.square().sum().backward()                                          # doctest: +SKIP
>>> on_a_gpu = dynamics("iiwa14", "aba", dtype="float32", device="cuda")   # doctest: +SKIP

Tensors, results and gradients are on one device; contiguous memory of the kernel's dtype is used
without a copy. If an input needs a gradient, the Jacobians are computed once with the value and
stay on the device until `backward`, which multiplies them there.

On a GPU the kernels are queued on PyTorch's current stream, and nothing waits for them. All memory
comes from PyTorch's allocator and is taken and freed on that stream, so work queued there later may
reuse it: the stream's order makes this safe without `record_stream`. As for every operation of
PyTorch, tensors computed on another stream need its `wait_stream`, and their own `record_stream` if
they are dropped early.

.. note:: On a GPU this has not run yet. The tests run all of it except the three calls of `_gpu`,
   on a processor that simulates a device.
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
from pinion.compute.cuda.device import CudaDevice
from pinion.robot import Model

from .gradients import Differentiable

__all__ = ["TorchGpu", "dynamics"]

_LEGACY = 1  # the driver's handle of stream 0; 0 itself also means "no stream"


class TorchDevice(Protocol):
    """A processor or GPU that computes tensors.

    Members
    -------
    device : PyTorch's name of it.
    """

    @property
    def device(self) -> torch.device: ...

    def compile(self, model: Model | str, function: str, **options: Any) -> Any:
        """Compile a kernel for this place."""

    def run(self, kernel: Any, arguments: Mapping[str, Any], out: Mapping[str, Any]) -> None:
        """Run a kernel on contiguous tensors into contiguous tensors."""


@dataclass(frozen=True)
class TorchGpu:
    """A GPU, or a stand-in in a test.

    Members
    -------
    device : PyTorch's name of it, the device of the tensors.
    gpu : runs the kernels.
    current : context that makes it the current device of this thread while a kernel is queued.
    stream : returns PyTorch's current stream in the form that the device accepts.
    handed : converts a tensor to the form that the kernel accepts.
    """

    device: torch.device
    gpu: CudaDevice
    current: Callable[[], AbstractContextManager[Any]]
    stream: Callable[[], Any]
    handed: Callable[[Any], Any]

    def compile(self, model: Model | str, function: str, **options: Any) -> Any:
        """Compile a kernel for this GPU; options as for :func:`pinion.compute.cuda.compile`."""
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
class _TorchProcessor:
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
    """A stream with the protocol that other libraries accept."""

    handle: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle or _LEGACY


def dynamics(
    model: Model | str,
    function: str,
    *,
    dtype: str = "float64",
    device: str | torch.device | TorchGpu = "cpu",
    **options: Any,
) -> Callable[..., Any]:
    """Return a differentiable function of tensors.

    Parameters
    ----------
    model : a robot, or the name or path of one.
    function : ``rnea`` (tau of q, qd, qdd) or ``aba`` (qdd of q, qd, tau).
    dtype : of the tensors, ``float32`` or ``float64``. Most GPUs compute float32 many times faster.
    device : of the tensors: ``cpu``, ``cuda`` (PyTorch's current one) or ``cuda:1``.
    options : as for :func:`pinion.compute.cpu.compile` or :func:`pinion.compute.cuda.compile`.

    Returns
    -------
    A function of three tensors (..., nv) of one shape, which returns a tensor of that shape. It can
    be differentiated once.

    Raises
    ------
    InputError
        As `compile`, or if PyTorch has no such device; by the function if the device, dtype or
        shape of a tensor does not fit.
    """
    place = _placed(device, options.get("cache"))
    differentiable = Differentiable(model, function, dtype=dtype, compile=place.compile, **options)
    kind, nv = getattr(torch, dtype), differentiable.model.nv

    def call(*tensors: Any) -> Any:
        names = differentiable.rule.inputs
        if len(tensors) != len(names):
            raise InputError(f"'{function}' takes {', '.join(names)}, not {len(tensors)} tensors.")
        for name, tensor in zip(names, tensors, strict=True):
            if tensor.device != place.device:
                raise InputError(
                    f"'{name}' is on the device '{tensor.device}': give tensors on "
                    f"'{place.device}', or choose another device."
                )
            if tensor.dtype != kind:
                raise InputError(f"'{name}' has the dtype {tensor.dtype}: give {kind}.")
            if tensor.shape != tensors[0].shape or tensor.shape[-1:] != (nv,):
                raise InputError(
                    f"'{name}' has the shape {tuple(tensor.shape)}: give (..., {nv}), the same for "
                    "all."
                )
        return _Dynamics.apply(place, differentiable, *tensors)

    return call


def _placed(device: str | torch.device | TorchGpu, cache: Path | None) -> TorchDevice:
    if isinstance(device, TorchGpu):
        return device
    try:
        named = torch.device(device)
    except RuntimeError:
        raise InputError(f"Unknown device '{device}': use cpu, cuda or cuda:1.") from None
    if named.type == "cpu":
        return _TorchProcessor(named)
    if named.type != "cuda" or not torch.cuda.is_available():
        raise InputError(
            f"PyTorch {torch.__version__} does not support '{device}' here: use cpu, or install "
            "its build for CUDA and a driver."
        )
    return _gpu(torch.cuda.current_device() if named.index is None else named.index, cache)


def _gpu(index: int, cache: Path | None) -> TorchGpu:
    device = torch.device("cuda", index)
    return TorchGpu(
        device=device,
        gpu=cuda.open_gpu(index, cache),
        current=partial(torch.cuda.device, device),
        stream=lambda: _Stream(torch.cuda.current_stream(device).cuda_stream),
        handed=lambda tensor: tensor,
    )


def _run(place: TorchDevice, kernel: Any, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    some = next(iter(arguments.values()))
    out = {a.name: some.new_empty((len(some), *a.shape)) for a in kernel.results}
    place.run(kernel, arguments, out)
    return out


class _Dynamics(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, place: TorchDevice, differentiable: Differentiable, *tensors: Any) -> Any:
        shape, nv, run = tensors[0].shape, differentiable.model.nv, partial(_run, place)
        # A tensor may be a negative view of its memory, which kernels do not support.
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
