"""Three partitions of the gradient of forward dynamics between host and device.

Source: "Accelerating Robot Dynamics Gradients on a CPU, GPU, and FPGA", Section IV-B. Accelerations
and M^-1 are given in all of them:

    split               the host runs Algorithm 1, the device Algorithm 2 from the v, a and f of
                        every link, the host multiplies by -M^-1
    fused               the device runs both, the host multiplies
    completely fused    the device computes all of Algorithm 3

They differ in the data that is transferred and in the waiting, not in the result. The rows of the
host's parts, and the device's of `split`, take quantities of links or another's result: they are
here, not in the table of functions, and can be used wherever a :class:`Function` can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType
from typing import Any

from pinion import dynamics
from pinion.robot import Model

from .blocks import Block, Quantity, Uniform
from .row import Function, Variant
from .table import FUNCTIONS

__all__ = [
    "LINK_STATES",
    "MINUS_MINV_TIMES",
    "PARTITIONS",
    "RNEA_DERIVATIVES_FROM_LINKS",
    "Partition",
]

_FUSED, _COMPLETELY_FUSED = FUNCTIONS["rnea_derivatives"], FUNCTIONS["fd_derivatives_from_minv"]
_Q, _QD, _QDD, _MINV = _COMPLETELY_FUSED.inputs


def _links(name: str, unit: str, sampling: Quantity | None) -> Block:
    return Block(name=name, shape=("bodies", 6), unit=unit, sampling=sampling)


_V = _links("v", "rad/s, m/s", Quantity.LINK_VELOCITY)
_A = _links("a", "rad/s^2, m/s^2", Quantity.LINK_ACCELERATION)
_F = _links("f", "N m, N", Quantity.LINK_FORCE)


def _from_links(method: str) -> Any:
    return lambda model, q, qd, v, a, f, *, region: dynamics.rnea_derivatives_from_links_scalars(
        model, q, qd, v, a, f, region, method=method
    )


LINK_STATES = Function(
    name="link_states",
    doc="velocity, acceleration and force of every link, [angular; linear], from q, qd, qdd",
    inputs=(_Q, _QD, _QDD),
    outputs=tuple(replace(block, sampling=None) for block in (_V, _A, _F)),
    scalars=lambda model, q, qd, qdd, *, region: dynamics.link_states_scalars(
        model, q, qd, qdd, region=region
    ),
    floats=dynamics.link_states,
    joint_space=False,
)
"""The host's part of `split` before the device's: Algorithm 1, keeping its vectors."""

RNEA_DERIVATIVES_FROM_LINKS = Function(
    name="rnea_derivatives_from_links",
    doc="gradient of inverse dynamics with v, a and f of every link given",
    inputs=(_Q, _QD, _V, _A, _F),
    outputs=_FUSED.outputs,
    scalars=_from_links("composite"),
    formulation="composite",
    variants=tuple(
        Variant(name=other.name, doc=other.doc, scalars=_from_links("column"), published=True)
        for other in _FUSED.variants
    ),
    joint_space=False,
)
"""The device's part of `split`: Algorithm 2. Accelerations of joints are in a."""

MINUS_MINV_TIMES = Function(
    name="minus_minv_times",
    doc="gradient of forward dynamics from M^-1 and the gradient of inverse dynamics",
    inputs=(_MINV, *(replace(block, sampling=Uniform(-10.0, 10.0)) for block in _FUSED.outputs)),
    outputs=_COMPLETELY_FUSED.outputs,
    scalars=lambda model, minv, by_q, by_qd, *, region: dynamics.minus_minv_times_scalars(
        model, minv, by_q, by_qd, region
    ),
)
"""The host's part of `split` and `fused` after the device's: the last line of Algorithm 3."""


@dataclass(frozen=True, kw_only=True)
class Partition:
    """A division of the computation between host and device.

    Members
    -------
    name, doc : for tables.
    before : what the host computes first, from q, qd, qdd; None for nothing.
    device : what the device computes.
    after : what the host computes from M^-1 and the device's results; None for nothing.
    """

    name: str
    doc: str
    before: Function | None
    device: Function
    after: Function | None

    def bytes_of(self, model: Model, size: int) -> tuple[int, int]:
        """Return the bytes per sample sent to the device and back, at ``size`` bytes per number.

        Arrays are sent whole, M^-1 with both of its triangles.
        """
        sent, received = (
            array_bytes(model, b, size) for b in (self.device.inputs, self.device.results)
        )
        return sent, received


def array_bytes(model: Model, blocks: Sequence[Block], size: int) -> int:
    """Return the number of bytes per sample of these arrays, at ``size`` bytes per number."""
    return size * sum(prod(block.dims(model)) for block in blocks)


PARTITIONS: Mapping[str, Partition] = MappingProxyType(
    {
        partition.name: partition
        for partition in (
            Partition(
                name="split",
                doc="the host computes v, a, f and the product, the device dtau",
                before=LINK_STATES,
                device=RNEA_DERIVATIVES_FROM_LINKS,
                after=MINUS_MINV_TIMES,
            ),
            Partition(
                name="fused",
                doc="the device computes v, a, f and dtau, the host the product",
                before=None,
                device=_FUSED,
                after=MINUS_MINV_TIMES,
            ),
            Partition(
                name="completely fused",
                doc="the device computes all of it",
                before=None,
                device=_COMPLETELY_FUSED,
                after=None,
            ),
        )
    }
)
"""Partitions by name, from the smallest share of the device to the largest."""
