"""Pinocchio's joints of every kind, on the same random trees as ours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from pinion.robot.model import Joint, JointKind, Model
from tests.dynamics.models import random_model

Array = NDArray[np.float64]

# Ours is [angular; linear], Pinocchio's is [linear; angular].
SWAP = np.array([3, 4, 5, 0, 1, 2])


def joint_model(joint: Joint) -> pin.JointModel:
    makers = {
        JointKind.REVOLUTE: pin.JointModelRZ,
        JointKind.PRISMATIC: pin.JointModelPZ,
        JointKind.SPHERICAL: pin.JointModelSpherical,
        JointKind.PLANAR: pin.JointModelPlanar,
        JointKind.FREE_FLYER: pin.JointModelFreeFlyer,
    }
    if joint.kind is JointKind.HELICAL:
        return pin.JointModelHZ(joint.pitch)
    return makers[joint.kind]()


def rebuilt(model: Model) -> pin.Model:
    """Rebuild our model in Pinocchio, joint by joint; gradients need depth-first numbering."""
    pin_model = pin.Model()
    pin_model.gravity.linear = np.array(model.gravity)
    ids: list[int] = []
    for body in model.bodies:
        placement = pin.SE3(np.array(body.joint.tree.E).T, np.array(body.joint.tree.r))
        parent = 0 if body.parent < 0 else ids[body.parent]
        ids.append(pin_model.addJoint(parent, joint_model(body.joint), placement, body.joint.name))
        xx, xy, xz, yy, yz, zz = body.inertia.I
        com = np.array(body.inertia.h) / body.inertia.mass
        shift = body.inertia.mass * (com @ com * np.eye(3) - np.outer(com, com))
        central = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) - shift
        inertia = pin.Inertia(body.inertia.mass, com, central)
        pin_model.appendBodyToJoint(ids[-1], inertia, pin.SE3.Identity())
    armature = [b.joint.armature for b in model.bodies for _ in range(b.joint.kind.nv)]
    pin_model.armature = np.array(armature)
    return pin_model


def random_tree_of_kinds(rng: np.random.Generator, bodies: int) -> Model:
    """Return a random tree of joints of any kind, numbered depth first as Pinocchio needs."""
    plain = random_model(rng, bodies)
    children: dict[int, list[int]] = {}
    for i, body in enumerate(plain.bodies):
        children.setdefault(body.parent, []).append(i)
    order: list[int] = []
    waiting = list(reversed(children[-1]))
    while waiting:
        order.append(waiting.pop())
        waiting += reversed(children.get(order[-1], []))
    place = {-1: -1} | {old: new for new, old in enumerate(order)}
    kinds = list(JointKind)
    reordered = []
    for old in order:
        body = plain.bodies[old]
        kind = kinds[rng.integers(len(kinds))]
        pitch = float(rng.normal() * 0.3) if kind is JointKind.HELICAL else 0.0
        joint = replace(body.joint, kind=kind, pitch=pitch)
        reordered.append(replace(body, parent=place[body.parent], joint=joint))
    return replace(plain, bodies=tuple(reordered))


def with_terms(model: Model, rng: np.random.Generator) -> Model:
    """Return the model with armature, damping and friction at every joint."""
    bodies = [
        replace(
            body,
            joint=replace(
                body.joint,
                armature=float(rng.uniform(0.05, 0.5)),
                damping=float(rng.uniform(0.0, 2.0)),
                friction=float(rng.uniform(0.0, 1.0)),
            ),
        )
        for body in model.bodies
    ]
    return replace(model, bodies=tuple(bodies))


def answer(
    model: pin.Model, q: Array, qd: Array, qdd: Array, wrenches: Array | None = None
) -> dict[str, Array]:
    """Return all results for one state; ``wrenches`` (bodies, 6) are in our body coordinates."""
    data = model.createData()
    forces = pin.StdVec_Force()
    forces.append(pin.Force.Zero())
    for i in range(model.njoints - 1):
        wrench = np.zeros(6) if wrenches is None else wrenches[i][SWAP]
        forces.append(pin.Force(wrench))
    tau = np.array(pin.rnea(model, data, q, qd, qdd, forces))
    by_q, by_qd, _ = pin.computeRNEADerivatives(model, data, q, qd, qdd, forces)
    results = {"tau": tau, "dtau_dq": np.array(by_q), "dtau_dqd": np.array(by_qd)}
    M = np.array(pin.crba(model, data, q))
    results["M"] = np.triu(M) + np.triu(M, 1).T
    inverse = np.array(pin.computeMinverse(model, data, q))
    results["minv"] = np.triu(inverse) + np.triu(inverse, 1).T
    results["qdd"] = np.array(pin.aba(model, data, q, qd, tau, forces))
    pin.computeABADerivatives(model, data, q, qd, tau, forces)
    results["dqdd_dq"], results["dqdd_dqd"] = np.array(data.ddq_dq), np.array(data.ddq_dv)
    results["kinetic"] = np.array(pin.computeKineticEnergy(model, data, q, qd))
    results["potential"] = np.array(pin.computePotentialEnergy(model, data, q))
    return results
