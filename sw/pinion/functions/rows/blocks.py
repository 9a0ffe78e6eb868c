"""Arrays and keyword arguments that several rows share."""

from __future__ import annotations

from typing import Any

from pinion.functions.blocks import Block, Quantity, Uniform
from pinion.robot import tip_of

Q = Block(name="q", shape=("nq",), unit="rad | m", sampling=Quantity.POSITION)
QD = Block(name="qd", shape=("nv",), unit="rad/s | m/s", sampling=Quantity.VELOCITY)
QDD = Block(name="qdd", shape=("nv",), unit="rad/s^2 | m/s^2", sampling=Quantity.ACCELERATION)
TAU = Block(name="tau", shape=("nv",), unit="N m | N", sampling=Quantity.EFFORT)
FEXT = Block(name="fext", shape=("bodies", 6), unit="N m, N", sampling=Quantity.EXTERNAL_FORCE)
DT = Block(name="dt", shape=(), unit="s", sampling=Uniform(0.001, 0.01))

MATRIX = ("nv", "nv")


def single(scalars: Any, floats: Any) -> dict[str, Any]:
    """Wrap functions that return a single value as the algorithms of a row with one output."""
    return {
        "scalars": lambda model, *x, region, **terms: (scalars(model, *x, region=region, **terms),),
        "floats": lambda model, *x, **terms: (floats(model, *x, **terms),),
    }


def of_frames(scalars: Any, floats: Any = None) -> dict[str, Any]:
    """Return keyword arguments of a row whose results belong to frames, by default the tip.

    ``scalars``, ``floats`` : functions of the model, the inputs and the name of a frame, which
    return the outputs of that frame; without ``floats`` the algorithm runs on arrays.
    """

    def of_each(algorithm: Any) -> Any:
        def results(model: Any, *x: Any, frames: Any, **options: Any) -> tuple[Any, ...]:
            each = (algorithm(model, *x, name, **options) for name in frames or (tip_of(model),))
            return tuple(result for of_frame in each for result in of_frame)

        return results

    return {
        "scalars": of_each(scalars),
        "floats": None if floats is None else of_each(floats),
        "of_frames": True,
        "joint_space": False,
        "passive": False,
    }
