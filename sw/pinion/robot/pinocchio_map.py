"""Takes positions and joint orders between a model and the same robot in Pinocchio.

Pinocchio orders joints by the names of siblings and keeps a continuous joint's position as cosine
and sine; a model keeps the order of its file and one angle. Joints are matched by name; those of
several degrees of freedom have the same coordinates in both. Pinocchio itself is never imported
here: its models are used as they are given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import RobotError
from .model import Model


def v_permutation(model: Model, pin_model: Any) -> NDArray[np.intp]:
    """Where each of the model's joints stands in Pinocchio's velocity.

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
    """Pinocchio's position of a model's position.

    Parameters
    ----------
    q : (nq,) or (n, nq) joint positions [rad | m].

    Returns
    -------
    (pin_model.nq,) or (n, pin_model.nq); a continuous joint is its cosine and sine.

    Errors
    ------
    RobotError : the two do not have the same moving joints, or q has another shape.
    """
    own = _checked(q, model.nq, "q", model.name)
    result = np.zeros((*own.shape[:-1], int(pin_model.nq)))
    for place, joint in _matched(model, pin_model):
        at, width = int(joint.idx_q), int(joint.nq)
        value = own[..., place]
        if width != value.shape[-1]:  # a continuous joint, see _matched
            value = np.concatenate([np.cos(value), np.sin(value)], axis=-1)
        result[..., at : at + width] = value
    return result


def q_from_pinocchio(model: Model, pin_model: Any, q: ArrayLike) -> NDArray[np.float64]:
    """A model's position of Pinocchio's; continuous joints come out within [-pi, pi].

    Parameters
    ----------
    q : (pin_model.nq,) or (n, pin_model.nq).

    Returns
    -------
    (nq,) or (n, nq) joint positions [rad | m].

    Errors
    ------
    RobotError : the two do not have the same moving joints, or q has another shape.
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
    """Where each free joint of the model has its positions, and Pinocchio's joint, in the model's
    order; a joint that follows another in both has none in either.
    """
    numbers = {str(name): k for k, name in enumerate(pin_model.names) if k > 0}
    ours, theirs = set(model.joint_names), set(numbers)
    if ours != theirs:
        alone = sorted(ours - theirs) or sorted(theirs - ours)
        side = "model" if ours - theirs else "Pinocchio model"
        raise RobotError(
            f"The joint {alone[0]!r} is in the {side} {model.name!r} alone; "
            "the model and the Pinocchio model must have the same moving joints."
        )
    matched = []
    for body, place in zip(model.bodies, model.q_slices, strict=True):
        joint = pin_model.joints[numbers[body.joint.name]]
        own, found = body.joint.kind, (int(joint.nq), int(joint.nv))
        follows = found == (0, 0)
        if follows != model.follows(body):
            raise RobotError(
                f"The joint {body.joint.name!r} follows another "
                + (
                    "in Pinocchio, and is one of its own in the model: give "
                    "pinion.robot.coupled(model), or build Pinocchio's without mimic=True."
                    if follows
                    else "in the model, and is one of its own in Pinocchio: build Pinocchio's with "
                    "mimic=True, or give pinion.robot.uncoupled(model)."
                )
            )
        if follows:
            continue
        if found not in ((own.nq, own.nv), (own.nq + 1, own.nv)) or found[0] > max(2, own.nq):
            raise RobotError(
                f"The joint {body.joint.name!r} is {own.value} in the model, but {found[0]} "
                f"positions and {found[1]} velocities in Pinocchio; "
                "the two must be the same robot."
            )
        matched.append((place, joint))
    return matched


def _checked(q: ArrayLike, width: int, what: str, robot: str) -> NDArray[np.float64]:
    array = np.asarray(q, dtype=np.float64)
    if array.ndim not in (1, 2) or array.shape[-1] != width:
        raise RobotError(
            f"The {what} of the robot {robot!r} has the shape {array.shape!r}; "
            f"give ({width},) or (n, {width})."
        )
    return array
