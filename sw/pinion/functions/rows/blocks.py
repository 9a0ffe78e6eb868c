"""Arrays and members that several rows share."""

from __future__ import annotations

from typing import Any

from pinion.functions.blocks import Block, Quantity, Uniform

Q = Block(name="q", shape=("nq",), unit="rad | m", sampling=Quantity.POSITION)
QD = Block(name="qd", shape=("nv",), unit="rad/s | m/s", sampling=Quantity.VELOCITY)
QDD = Block(name="qdd", shape=("nv",), unit="rad/s^2 | m/s^2", sampling=Quantity.ACCELERATION)
TAU = Block(name="tau", shape=("nv",), unit="N m | N", sampling=Quantity.EFFORT)
FEXT = Block(name="fext", shape=("bodies", 6), unit="N m, N", sampling=Quantity.EXTERNAL_FORCE)
DT = Block(name="dt", shape=(), unit="s", sampling=Uniform(0.001, 0.01))

MATRIX = ("nv", "nv")


def single(scalars: Any, floats: Any) -> dict[str, Any]:
    """Return the algorithms of a row with one output from functions that return its value."""
    return {
        "scalars": lambda model, *x, region, **terms: (scalars(model, *x, region=region, **terms),),
        "floats": lambda model, *x, **terms: (floats(model, *x, **terms),),
    }
