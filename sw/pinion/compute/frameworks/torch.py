"""Dynamics in PyTorch: a function of tensors with analytic gradients.

>>> from pinion.compute.frameworks.torch import dynamics  # doctest: +SKIP
>>> forward = dynamics("iiwa14", "aba")                                    # doctest: +SKIP
>>> qdd = forward(q, qd, tau)                                              # doctest: +SKIP
>>> qdd.square().sum().backward()                                          # doctest: +SKIP
>>> on_a_gpu = dynamics("iiwa14", "aba", dtype="float32", device="cuda")   # doctest: +SKIP

Tensors, results and gradients are on one device; contiguous memory of the kernel's dtype is used
without a copy. If an input needs a gradient, the Jacobians are computed once with the value and
stay on the device until `backward`, which multiplies them there. With ``create_graph=True`` they
are computed again, so that they can be differentiated.

On a GPU the kernels are queued on PyTorch's current stream, and nothing waits for them. All memory
comes from PyTorch's allocator and is taken and freed on that stream, so work queued there later may
reuse it: the stream's order makes this safe without `record_stream`. As for every operation of
PyTorch, tensors computed on another stream need its `wait_stream`, and their own `record_stream` if
they are dropped early.

.. note:: Without a GPU the tests run all of it except the three calls of `_gpu`, on a CPU that
   simulates a device.
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

from .gradients import Differentiable, differentiable
from .positions import Space

__all__ = ["TorchGpu", "dynamics"]

_LEGACY = 1  # the driver's handle of stream 0; 0 itself also means "no stream"


class TorchDevice(Protocol):
    """A CPU or GPU that runs kernels on tensors.

    Members
    -------
    device : PyTorch's name for it.
    """

    @property
    def device(self) -> torch.device: ...

    def compile(self, model: Model | str, function: str, **options: Any) -> Any:
        """Compile a kernel for this device."""

    def run(self, kernel: Any, arguments: Mapping[str, Any], out: Mapping[str, Any]) -> None:
        """Run a kernel on contiguous tensors, writing to contiguous tensors."""


@dataclass(frozen=True)
class TorchGpu:
    """A GPU that runs kernels on tensors, or a stand-in in a test.

    Members
    -------
    device : PyTorch's name for it, the device of the tensors.
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
    """This machine's CPU, which runs kernels on tensors."""

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
    """A CUDA stream that implements the protocol ``__cuda_stream__``."""

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
    """Return a function of a robot as a differentiable function of tensors.

    Parameters
    ----------
    model : a robot, or the name or path of one.
    function : a row of the table with reverse mode, such as ``rnea`` (tau of q, qd, qdd), ``aba``
        (qdd of q, qd, tau) or ``forward_kinematics`` (R and p of q).
    dtype : of the tensors, ``float32`` or ``float64``. Most GPUs compute float32 many times faster.
    device : device of the tensors: ``cpu``, ``cuda`` (PyTorch's current one) or ``cuda:1``.
    options : ``outputs``, ``parameters`` and ``joint_terms`` of the row
        (:class:`pinion.functions.RowOptions`), and those of :func:`pinion.compute.cpu.compile` or
        :func:`pinion.compute.cuda.compile`.

    Returns
    -------
    A function of the row's inputs, (..., *shape) each, with the same batch axes or none. It returns
    a tensor, or a named tuple of several results. The gradient with respect to q has the shape of q
    (:mod:`.positions`). It can be differentiated as often as the rows of its gradient can.

    Raises
    ------
    InputError
        As `compile`, if the row has no gradient, or if PyTorch has no such device; by the function
        if the device, dtype or shape of a tensor does not fit, or an input that needs a gradient
        has none.
    """
    place = _placed(device, options.get("cache"))
    operation = differentiable(model, function, dtype=dtype, compile=place.compile, **options)
    kind, names = getattr(torch, dtype), tuple(operation.inputs)
    runner = _Runner(place, kind)

    def call(*tensors: Any) -> Any:
        batch = operation.batch([tensor.shape for tensor in tensors])
        for name, tensor in zip(names, tensors, strict=True):
            if tensor.device != place.device:
                raise InputError(
                    f"'{name}' is on the device '{tensor.device}': give tensors on "
                    f"'{place.device}', or choose another device."
                )
            if tensor.dtype != kind:
                raise InputError(f"'{name}' has the dtype {tensor.dtype}: give {kind}.")
        inputs = {
            name: tensor.expand((*batch, *shape))
            for (name, shape), tensor in zip(operation.inputs.items(), tensors, strict=True)
        }
        return operation.answer(runner.applied(operation, inputs, keep=True))

    return call


def _placed(device: str | torch.device | TorchGpu, cache: Path | None) -> TorchDevice:
    if isinstance(device, TorchGpu):
        return device
    try:
        named = torch.device(device)
    except RuntimeError:
        raise InputError(
            f"Unknown device '{device}': use 'cpu', 'cuda' or 'cuda:N', such as 'cuda:1'."
        ) from None
    if named.type == "cpu":
        return _TorchProcessor(named)
    if named.type != "cuda" or not torch.cuda.is_available():
        raise InputError(
            f"The device '{device}' cannot be used (PyTorch {torch.__version__}): use 'cpu', or "
            "for 'cuda' install PyTorch's CUDA build and an NVIDIA driver."
        )
    return _gpu(torch.cuda.current_device() if named.index is None else named.index, cache)


def _gpu(index: int, cache: Path | None) -> TorchGpu:
    device = torch.device("cuda", index)
    with torch.cuda.device(device):  # afterwards the caller's device is current again
        gpu = cuda.open_gpu(index, cache)
    return TorchGpu(
        device=device,
        gpu=gpu,
        current=partial(torch.cuda.device, device),
        stream=lambda: _Stream(torch.cuda.current_stream(device).cuda_stream),
        handed=lambda tensor: tensor,
    )


class _Runner:
    """Runner of functions on a device, with or without gradients.

    Members
    -------
    space : PyTorch, with constants on the device.
    """

    def __init__(self, place: TorchDevice, kind: torch.dtype) -> None:
        self._place = place
        self._kind = kind
        self._constants: dict[str, Any] = {}
        self.space = Space(torch, self._constant)

    def _constant(self, name: str, array: Any) -> Any:
        if name not in self._constants:
            self._constants[name] = torch.as_tensor(
                array, dtype=self._kind, device=self._place.device
            )
        return self._constants[name]

    def plain(self, function: Differentiable, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run a kernel on tensors with any batch axes."""
        kernel, some = function.kernel, next(iter(inputs.values()))
        first = next(iter(function.inputs.values()))
        batch = some.shape[: some.ndim - len(first)]
        count = batch.numel()
        # A tensor may be a negative view of its memory, which kernels do not support.
        flat = {
            name: inputs[name].detach().resolve_neg().reshape((count, *shape)).contiguous()
            for name, shape in function.inputs.items()
        }
        out = {a.name: some.new_empty((count, *a.shape)) for a in kernel.results}
        self._place.run(kernel, flat, out)
        return {name: out[name].reshape((*batch, *s)) for name, s in function.results.items()}

    def applied(
        self, function: Differentiable, inputs: Mapping[str, Any], *, keep: bool = False
    ) -> Mapping[str, Any]:
        """Run a function so that PyTorch can differentiate it.

        Parameters
        ----------
        keep : whether to compute what the gradient needs along with the value.
        """
        ordered = (inputs[name] for name in function.inputs)
        results = _Operation.apply(self, function, keep, *ordered)
        return dict(zip(function.results, results, strict=True))


class _Operation(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any, runner: _Runner, function: Differentiable, keep: bool, *tensors: Any
    ) -> Any:
        ctx.set_materialize_grads(False)
        ctx.runner, ctx.function = runner, function
        inputs = dict(zip(function.inputs, tensors, strict=True))
        needs = [n for n, x in zip(inputs, ctx.needs_input_grad[3:], strict=True) if x]
        if keep and needs:
            arrays = function.linear(runner.space, inputs, needs, runner.plain)
            ctx.names = function.operands(needs)
        else:
            arrays = runner.plain(function, inputs)
            ctx.names = ()
        ctx.save_for_backward(*tensors, *(arrays[name] for name in ctx.names))
        return tuple(arrays[name] for name in function.results)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        runner, function = ctx.runner, ctx.function
        saved = ctx.saved_tensors
        inputs = dict(zip(function.inputs, saved, strict=False))
        needs = [n for n, x in zip(inputs, ctx.needs_input_grad[3:], strict=True) if x]
        if torch.is_grad_enabled():  # the gradient itself will be differentiated
            arrays = function.linear(runner.space, inputs, needs, runner.applied)
        elif ctx.names:
            arrays = dict(zip(ctx.names, saved[len(inputs) :], strict=True))
        else:
            arrays = function.linear(runner.space, inputs, needs, runner.plain)
        cotangents = {
            name: x for name, x in zip(function.results, gradients, strict=True) if x is not None
        }
        pulled = function.pull(runner.space, {**arrays, **inputs}, cotangents, needs)
        return (None, None, None, *(pulled.get(name) for name in inputs))
