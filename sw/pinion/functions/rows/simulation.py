"""One step of a simulation, and its derivatives."""

from __future__ import annotations

from pinion import dynamics
from pinion.functions.blocks import Block, Uniform
from pinion.functions.row import Function

from .blocks import QD, TAU, Q

DT = Block(name="dt", shape=(), unit="s", sampling=Uniform(0.001, 0.01))

ROWS = (
    Function(
        name="euler_step",
        doc="one step of semi-implicit Euler with its gradient A by [q; qd] and B by tau",
        inputs=(Q, QD, TAU, DT),
        outputs=(
            Block(name="q_next", shape=("nq",), unit="rad | m"),
            Block(name="qd_next", shape=("nv",), unit="rad/s | m/s"),
            Block(name="A", shape=("nx", "nx"), unit="1, s; 1/s, 1"),
            Block(name="B", shape=("nx", "nv"), unit="rad/(N m), rad/(N m s) | m/N, m/(N s)"),
        ),
        scalars=lambda model, q, qd, tau, dt, *, region, **terms: dynamics.euler_step_scalars(
            model, q, qd, tau, dt, region, **terms
        ),
        passive=True,
    ),
)
