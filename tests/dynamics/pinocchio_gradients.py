"""Pinocchio's inertia matrices, forward dynamics and gradients, in our order of joints."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from pinion.robot.model import Model
from tests.dynamics.pinocchio_adaptor import Oracle, from_model

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Results for a batch of states: (n, nv) and (n, nv, nv) arrays in our order."""

    M: Array
    minv: Array
    tau: Array
    qdd: Array
    dtau_dq: Array
    dtau_dqd: Array
    dqdd_dq: Array
    dqdd_dqd: Array


def depth_first(model: Model) -> Oracle:
    """Rebuild our model in Pinocchio with contiguous joints in every subtree.

    Pinocchio's CRBA and gradients assume that a subtree is a contiguous block of joints; otherwise
    they are silently wrong. Ours only need parents first.
    """
    order: list[int] = []

    def visit(parent: int) -> None:
        for i, body in enumerate(model.bodies):
            if body.parent == parent:
                order.append(i)
                visit(i)

    visit(-1)
    place = {-1: -1} | {old: new for new, old in enumerate(order)}
    bodies = [replace(model.bodies[i], parent=place[model.bodies[i].parent]) for i in order]
    return Oracle(from_model(replace(model, bodies=tuple(bodies))).model, model.joint_names)


def answers(oracle: Oracle, q: Array, qd: Array, qdd: Array, f_ext: Array | None = None) -> Answers:
    """Return inverse dynamics' gradient at qdd, and forward dynamics' at its tau.

    f_ext : (n, nv, 6), [angular; linear], in the joints' frames; only for `depth_first`, whose
    frames are ours.
    """
    states = [
        answer(oracle, q[k], qd[k], qdd[k], None if f_ext is None else f_ext[k])
        for k in range(len(q))
    ]
    names = ("M", "minv", "tau", "qdd", "dtau_dq", "dtau_dqd", "dqdd_dq", "dqdd_dqd")
    return Answers(**{name: np.array([state[name] for state in states]) for name in names})


def answer(
    oracle: Oracle, q: Array, qd: Array, qdd: Array, f_ext: Array | None
) -> dict[str, Array]:
    model, data = oracle.model, oracle.data
    order = np.array([joint.idx_v for joint in oracle.joints])
    position = oracle.position(q)
    rate, acceleration = np.zeros(model.nv), np.zeros(model.nv)
    rate[order], acceleration[order] = qd, qdd
    forces = pin.StdVec_Force()
    for _ in range(model.njoints):
        forces.append(pin.Force.Zero())
    if f_ext is not None:
        for joint, wrench in zip(oracle.joints, f_ext, strict=True):
            forces[joint.id] = pin.Force(wrench[3:], wrench[:3])
    tau = pin.rnea(model, data, position, rate, acceleration, forces).copy()
    by_q, by_qd, _ = pin.computeRNEADerivatives(model, data, position, rate, acceleration, forces)
    square = np.ix_(order, order)
    result = {"tau": tau[order], "dtau_dq": by_q[square], "dtau_dqd": by_qd[square]}
    M = pin.crba(model, data, position)
    result["M"] = (np.triu(M) + np.triu(M, 1).T)[square]
    inverse = pin.computeMinverse(model, data, position)
    result["minv"] = (np.triu(inverse) + np.triu(inverse, 1).T)[square]
    result["qdd"] = pin.aba(model, data, position, rate, tau, forces)[order]
    pin.computeABADerivatives(model, data, position, rate, tau, forces)
    result["dqdd_dq"], result["dqdd_dqd"] = data.ddq_dq[square], data.ddq_dv[square]
    return {name: np.array(array, dtype=np.float64) for name, array in result.items()}
