"""Dynamics in PyTorch: a function of tensors whose gradients are the analytic ones.

>>> from pinion.compute.torch import dynamics                  # doctest: +SKIP
>>> forward = dynamics("iiwa14", "aba")                        # doctest: +SKIP
>>> qdd = forward(q, qd, tau)                                  # doctest: +SKIP
>>> qdd.square().sum().backward()                              # doctest: +SKIP

Tensors are on the CPU; their memory is used as it is where it is contiguous and of the kernel's
dtype. The Jacobians are computed with the value when an input needs a gradient, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from pinion.functions import InputError
from pinion.robot import Model

from .gradients import Differentiable

__all__ = ["dynamics"]


def dynamics(
    model: Model | str, function: str, *, dtype: str = "float64", **options: Any
) -> Callable[..., Any]:
    """A differentiable function of tensors.

    Parameters
    ----------
    model : a robot, or the name or path of one.
    function : ``rnea`` (tau of q, qd, qdd) or ``aba`` (qdd of q, qd, tau).
    dtype : of the tensors, ``float32`` or ``float64``.
    options : as of :func:`pinion.compute.cpu.compile`.

    Returns
    -------
    A function of three tensors (..., nv) of one shape, which gives a tensor of that shape. It can
    be differentiated once.

    Raises
    ------
    InputError
        As `cpu.compile`; by the function when a tensor is on another device, of another dtype or of
        a shape that does not fit.
    """
    made = Differentiable(model, function, dtype=dtype, **options)
    kind = getattr(torch, dtype)

    def call(*tensors: Any) -> Any:
        names = made.rule.inputs
        if len(tensors) != len(names):
            raise InputError(f"'{function}' takes {', '.join(names)}, not {len(tensors)} tensors.")
        for name, tensor in zip(names, tensors, strict=True):
            if tensor.device.type != "cpu":
                raise InputError(
                    f"'{name}' is on the device '{tensor.device}': give tensors on the CPU."
                )
            if tensor.dtype != kind:
                raise InputError(f"'{name}' has the dtype {tensor.dtype}: give {kind}.")
            if tensor.shape != tensors[0].shape or tensor.shape[-1:] != (made.model.nv,):
                raise InputError(
                    f"'{name}' has the shape {tuple(tensor.shape)}: give (..., {made.model.nv}), "
                    "the same for all."
                )
        return _Dynamics.apply(made, *tensors)

    return call


class _Dynamics(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, made: Differentiable, *tensors: Any) -> Any:
        flat = [t.detach().reshape(-1, made.model.nv).contiguous().numpy() for t in tensors]
        if not any(ctx.needs_input_grad[1:]):
            return torch.from_numpy(made.value(*flat)).reshape(tensors[0].shape)
        value, jacobians = made.linear(*flat)
        ctx.save_for_backward(*(torch.from_numpy(j) for j in jacobians))
        return torch.from_numpy(value).reshape(tensors[0].shape)

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Any) -> Any:
        rows = gradient.reshape(-1, 1, gradient.shape[-1])
        parts = [
            (rows @ jacobian).reshape(gradient.shape) if wanted else None
            for jacobian, wanted in zip(ctx.saved_tensors, ctx.needs_input_grad[1:], strict=True)
        ]
        return (None, *parts)
