"""Conversion of positions and joint orders between a model and the same robot in Pinocchio.

Pinocchio sorts siblings by the names of their joints and stores a continuous joint's position as
cosine and sine; a model keeps the order of its file and one angle. Joints are matched by name;
those of several degrees of freedom have the same coordinates in both. Pinocchio itself is never
imported here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import RobotError
from .model import Model


def v_permutation(model: Model, pin_model: Any) -> NDArray[np.intp]:
    """Return the index of each of the model's velocities in Pinocchio's velocity vector.

    Returns
    -------
    (nv,) indices p with ``v = v_pin[..., p]`` and, the other way, ``v_pin[..., p] = v``; for a
    mass matrix, ``M = M_pin[np.ix_(p, p)]``.

    Errors
    ------
    RobotError : the two do not have the same moving joints.
    """
    order = [
        int(joint.idx_v) + k
        for _, joint in _matched(model, pin_model)
        for k in range(int(joint.nv))
    ]
    return np.array(order, dtype=np.intp)


def q_to_pinocchio(model: Model, pin_model: Any, q: ArrayLike) -> NDArray[np.float64]:
    """Convert a model's positions, (nq,) or (n, nq), to Pinocchio's.

    Parameters
    ----------
    q : (nq,) or (n, nq) joint positions [rad | m].

    Returns
    -------
    (pin_model.nq,) or (n, pin_model.nq); a continuous joint is its cosine and sine.

    Errors
    ------
    RobotError : the two do not have the same moving joints, or q has the wrong shape.
    """
    positions = _checked(q, model.nq, "q", model.name)
    result = np.zeros((*positions.shape[:-1], int(pin_model.nq)))
    for place, joint in _matched(model, pin_model):
        at, width = int(joint.idx_q), int(joint.nq)
        value = positions[..., place]
        if width != value.shape[-1]:  # a continuous joint, see _matched
            value = np.concatenate([np.cos(value), np.sin(value)], axis=-1)
        result[..., at : at + width] = value
    return result


def q_from_pinocchio(model: Model, pin_model: Any, q: ArrayLike) -> NDArray[np.float64]:
    """Convert Pinocchio's positions to a model's, continuous joints within [-pi, pi].

    Parameters
    ----------
    q : (pin_model.nq,) or (n, pin_model.nq).

    Returns
    -------
    (nq,) or (n, nq) joint positions [rad | m].

    Errors
    ------
    RobotError : the two do not have the same moving joints, or q has the wrong shape.
    """
    theirs = _checked(q, int(pin_model.nq), "Pinocchio q", model.name)
    result = np.zeros((*theirs.shape[:-1], model.nq))
    for place, joint in _matched(model, pin_model):
        at, width = int(joint.idx_q), int(joint.nq)
        value = theirs[..., at : at + width]
        if width != place.stop - place.start:  # a continuous joint, see _matched
            value = np.arctan2(value[..., 1:], value[..., :1])
        result[..., place] = value
    return result


def _matched(model: Model, pin_model: Any) -> list[tuple[slice, Any]]:
    """Return each independent joint's slice in ``q`` and its Pinocchio joint, in model order."""
    numbers = {str(name): k for k, name in enumerate(pin_model.names) if k > 0}
    ours, theirs = set(model.joint_names), set(numbers)
    if ours != theirs:
        alone = sorted(ours - theirs) or sorted(theirs - ours)
        side = f"model {model.name!r}" if ours - theirs else "Pinocchio model"
        raise RobotError(
            f"The joint {alone[0]!r} is only in the {side}; "
            "the model and the Pinocchio model must have the same moving joints."
        )
    matched = []
    for body, place in zip(model.bodies, model.q_slices, strict=True):
        joint = pin_model.joints[numbers[body.joint.name]]
        kind, sizes = body.joint.kind, (int(joint.nq), int(joint.nv))
        follows = sizes == (0, 0)
        if follows != model.follows(body):
            raise RobotError(
                f"The joint {body.joint.name!r} follows another "
                + (
                    "in Pinocchio but is independent in the model: pass "
                    "pinion.robot.coupled(model), or build Pinocchio's model without mimic=True."
                    if follows
                    else "in the model but is independent in Pinocchio: build Pinocchio's model "
                    "with mimic=True, or pass pinion.robot.uncoupled(model)."
                )
            )
        if follows:
            continue
        if sizes not in ((kind.nq, kind.nv), (kind.nq + 1, kind.nv)) or sizes[0] > max(2, kind.nq):
            raise RobotError(
                f"The joint {body.joint.name!r} is {kind.value} in the model, but has "
                f"nq {sizes[0]} and nv {sizes[1]} in Pinocchio; "
                "the two must describe the same robot."
            )
        matched.append((place, joint))
    return matched


def _checked(q: ArrayLike, width: int, quantity: str, robot: str) -> NDArray[np.float64]:
    array = np.asarray(q, dtype=np.float64)
    if array.ndim not in (1, 2) or array.shape[-1] != width:
        raise RobotError(
            f"The {quantity} of the robot {robot!r} has the shape {array.shape!r}; "
            f"give ({width},) or (n, {width})."
        )
    return array
