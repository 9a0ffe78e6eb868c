"""Pose of a robot's tip and its Jacobian, as one core.

``pinion build iiwa14 examples/functions/tip_jacobian.py:tip_jacobian -o build/tip`` uses the tip
of the robot, the moving link without children; ``--tip LINK`` selects one of several.
"""

from __future__ import annotations

from typing import Any

from pinion import dynamics
from pinion.api import POSITION, array, function
from pinion.robot import Model, tip_of


def in_numpy(model: Model, q: Any) -> dict[str, Any]:
    """Compute pose and Jacobian in NumPy for q (n, nq), as the reference for verification."""
    link = tip_of(model)
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
    link = tip_of(model)
    rotation, position = dynamics.frame_placement_scalars(model, q, link)
    jacobian = dynamics.frame_jacobian_scalars(model, q, link)
    return {"position": position, "rotation": rotation, "jacobian": jacobian}
