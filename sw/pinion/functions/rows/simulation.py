"""Simulation steps with their derivatives."""

from __future__ import annotations

from functools import partial

from pinion import dynamics
from pinion.functions.blocks import Block
from pinion.functions.row import Function

from .blocks import DT, QD, TAU, Q

_INPUTS = (Q, QD, TAU, DT)
_OUTPUTS = (
    Block(name="q_next", shape=("nq",), unit="rad | m"),
    Block(name="qd_next", shape=("nv",), unit="rad/s | m/s"),
    Block(name="A", shape=("nx", "nx"), unit="1, s; 1/s, 1"),
    Block(name="B", shape=("nx", "nv"), unit="rad/(N m), rad/(N m s) | m/N, m/(N s)"),
)

ROWS = (
    Function(
        name="euler_step",
        doc="one semi-implicit Euler step with its gradients A by [q; qd] and B by tau",
        inputs=_INPUTS,
        outputs=_OUTPUTS,
        scalars=partial(dynamics.step_scalars, method="semi_implicit"),
        passive=True,
    ),
    Function(
        name="rk4_step",
        doc="one fourth-order Runge-Kutta step with its gradients A by [q; qd] and B by tau",
        inputs=_INPUTS,
        outputs=_OUTPUTS,
        scalars=partial(dynamics.step_scalars, method="rk4"),
        passive=True,
    ),
)
