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
    """Everything about a batch of states: (n, nv) and (n, nv, nv) arrays in our order."""

    M: Array
    minv: Array
    tau: Array
    qdd: Array
    dtau_dq: Array
    dtau_dqd: Array
    dqdd_dq: Array
    dqdd_dqd: Array


def depth_first(model: Model) -> Oracle:
    """Rebuild our model in Pinocchio with every subtree's joints in a row.

    Pinocchio's CRBA and gradients take a subtree for a contiguous block of joints; in a model that
    numbers its joints otherwise they are silently wrong. Ours ask only for parents first.
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
    """Inverse dynamics' gradient at qdd, and forward dynamics' at the tau that belongs to it.

    f_ext : (n, nv, 6), [angular; linear], in the joints' own frames; only for `depth_first`,
    whose frames are ours.
    """
    found = [
        answer(oracle, q[k], qd[k], qdd[k], None if f_ext is None else f_ext[k])
        for k in range(len(q))
    ]
    names = ("M", "minv", "tau", "qdd", "dtau_dq", "dtau_dqd", "dqdd_dq", "dqdd_dqd")
    return Answers(**{name: np.array([one[name] for one in found]) for name in names})


def answer(
    oracle: Oracle, q: Array, qd: Array, qdd: Array, f_ext: Array | None
) -> dict[str, Array]:
    model, data = oracle.model, oracle.data
    order = np.array([joint.idx_v for joint in oracle.joints])
    position = pin.neutral(model)
    rate, acceleration = np.zeros(model.nv), np.zeros(model.nv)
    for i, joint in enumerate(oracle.joints):
        own = [q[i]] if joint.nq == 1 else [np.cos(q[i]), np.sin(q[i])]
        position[joint.idx_q : joint.idx_q + joint.nq] = own
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
    found = {"tau": tau[order], "dtau_dq": by_q[square], "dtau_dqd": by_qd[square]}
    M = pin.crba(model, data, position)
    found["M"] = (np.triu(M) + np.triu(M, 1).T)[square]
    inverse = pin.computeMinverse(model, data, position)
    found["minv"] = (np.triu(inverse) + np.triu(inverse, 1).T)[square]
    found["qdd"] = pin.aba(model, data, position, rate, tau, forces)[order]
    pin.computeABADerivatives(model, data, position, rate, tau, forces)
    found["dqdd_dq"], found["dqdd_dqd"] = data.ddq_dq[square], data.ddq_dv[square]
    return {name: np.array(array, dtype=np.float64) for name, array in found.items()}
