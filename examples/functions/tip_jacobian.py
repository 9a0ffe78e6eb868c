"""Pose of a robot's tip with the Jacobian, as one core.

``pinion build iiwa14 examples/functions/tip_jacobian.py:tip_jacobian -o build/tip`` takes the last
link of the robot; with ``--tip LINK`` it is that link, at the end of its chain.
"""

from __future__ import annotations

from typing import Any

from pinion import dynamics
from pinion.api import POSITION, array, function
from pinion.robot import Model


def in_numpy(model: Model, q: Any) -> dict[str, Any]:
    """The same on arrays (n, nq), to be verified against."""
    link = model.frames[-1].name
    rotation, position = dynamics.frame_placement(model, q, link)
    jacobian = dynamics.frame_jacobian(model, q, link)
    return {"position": position, "rotation": rotation, "jacobian": jacobian}


@function(
    inputs={"q": array("nq", unit="rad | m", sampling=POSITION)},
    outputs={
        "position": array(3, unit="m"),
        "rotation": array(3, 3, unit="1"),
        "jacobian": array(6, "nv", unit="1 | m/rad"),
    },
    reference=in_numpy,
)
def tip_jacobian(model: Model, q: Any) -> dict[str, Any]:
    """Pose of the tip and its Jacobian, both in the base's coordinates."""
    link = model.frames[-1].name
    rotation, position = dynamics.frame_placement_scalars(model, q, link)
    jacobian = dynamics.frame_jacobian_scalars(model, q, link)
    return {"position": position, "rotation": rotation, "jacobian": jacobian}
