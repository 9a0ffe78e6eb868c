"""The ready-reference rows against Pinocchio, which reads the same URDF by itself."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.dynamics.general.tangent import tangent_rates, tangent_rates_jacobians
from pinion.dynamics.joint_terms import FRICTION_WIDTH
from pinion.functions import FUNCTIONS, Function, sample
from pinion.robot import (
    Model,
    load_text,
    q_from_pinocchio,
    q_to_pinocchio,
    random_tree,
    tip,
    tip_of,
    urdf_text,
    v_permutation,
)
from tests.support.breadth import some_rows
from tests.support.pinocchio_frames import SWAP, motion_of_frame
from tests.support.rows import NEW, OF_TIPS, SECOND_ORDER, has, legged

Array = NDArray[np.float64]

SEED = 19
TOLERANCE = 1e-10
ALIASES, ALIGNED = ("frame_jacobian_local", "frame_jacobian_world"), "local_world_aligned"


@cache
def robot(name: str) -> tuple[Model, Any]:
    """A robot and Pinocchio's model of the same file, with armature in both."""
    floating = name.startswith("floating ")
    name = name.removeprefix("floating ")
    if name.startswith(("tree", "branch")):
        rng = np.random.default_rng(int(name.split()[1]))
        text = random_tree(rng, int(rng.integers(2, 13)), prismatic=True, continuous=True)
    elif name == "leg":
        text = legged()
    else:
        text = urdf_text(name)
    root = (pin.JointModelFreeFlyer(),) if floating else ()
    model, reference = load_text(text, floating_base=floating), pin.buildModelFromXML(text, *root)
    rng = np.random.default_rng(SEED)
    bodies = [
        replace(b, joint=replace(b.joint, armature=0.0 if b.joint.kind.nv > 1 else x))
        for b, x in zip(model.bodies, rng.uniform(0.02, 0.2, len(model.bodies)), strict=True)
    ]
    model = replace(model, bodies=tuple(bodies))
    if name == "leg" or name.startswith("branch"):
        chain = tip(model, "lf_foot" if name == "leg" else model.tips[-1])
        reference = reduced(reference, sorted({*model.joint_names} - {*chain.joint_names}))
        model = chain
    order = v_permutation(model, reference)
    armature = np.zeros(reference.nv)
    armature[order] = [b.joint.armature for b in model.bodies for _ in range(b.joint.kind.nv)]
    reference.armature = armature
    return model, reference


def reduced(reference: Any, others: list[str]) -> Any:
    """Pinocchio's model without the bodies of other joints: `tip` drops their inertia too."""
    out = [reference.getJointId(name) for name in others]
    for k in out:
        reference.inertias[k] = pin.Inertia.Zero()
    return pin.buildReducedModel(reference, out, pin.neutral(reference))


def answers(row: Function, model: Model, reference: Any, x: dict[str, Array]) -> list[Array]:
    """What Pinocchio says of one state, in the row's blocks and the model's order."""
    data, p = reference.createData(), v_permutation(model, reference)
    q = q_to_pinocchio(model, reference, x["q"])
    v = np.zeros((3, reference.nv))
    for k, name in enumerate(("qd", "qdd", "tau")):
        if name in x:
            v[k, p] = x[name]
    qd, qdd, tau = v
    name = row.name
    if name in ("rnea_fext", "aba_fext"):
        forces = [pin.Force.Zero() for _ in range(reference.njoints)]
        for body, wrench in zip(model.bodies, x["fext"], strict=True):
            # In the joint's own frame, which is the moving link's.
            forces[reference.getJointId(body.joint.name)] = pin.Force(wrench[SWAP])
        every = pin.StdVec_Force()
        for force in forces:
            every.append(force)
        if name == "rnea_fext":
            return [pin.rnea(reference, data, q, qd, qdd, every)[p]]
        return [pin.aba(reference, data, q, qd, tau, every)[p]]
    if name in OF_TIPS:
        frame = reference.getFrameId(tip_of(model), pin.FrameType.BODY)
        base, _, axes = name.rpartition("_") if name in ALIASES else (name, "", ALIGNED)
        if not name.endswith("operational_space_inertia"):
            return [
                values[:, p] if values.shape == (6, reference.nv) else values
                for values in motion_of_frame(base, reference, frame, axes, q, qd, qdd)
            ]
        J = motion_of_frame("frame_jacobian", reference, frame, ALIGNED, q, qd, qdd)[0]
        M = np.triu(pin.crba(reference, data, q))
        M = M + np.triu(M, 1).T
        mobility = J @ np.linalg.solve(M, J.T)
        if name == "inverse_operational_space_inertia":
            return [mobility]
        if name == "operational_space_inertia":
            return [np.linalg.inv(mobility + float(x["damping"]) * np.eye(6))]
    if name in ("centre_of_mass", "com_jacobian"):
        J = np.reshape(pin.jacobianCenterOfMass(reference, data, q), (3, reference.nv))[:, p]
        com = pin.centerOfMass(reference, data, q)
        return [com] if name == "centre_of_mass" else [J, com]
    if name == "kinetic_energy":
        # Pinocchio 4.1 leaves out the armature of revolute joints about an oblique axis.
        armature, reference.armature = np.array(reference.armature), np.zeros(reference.nv)
        bodies = pin.computeKineticEnergy(reference, data, q, qd)
        reference.armature = armature
        return [np.array(bodies + 0.5 * armature @ qd**2)]
    if name == "potential_energy":
        return [np.array(pin.computePotentialEnergy(reference, data, q))]
    if name == "gravity":
        return [pin.computeGeneralizedGravity(reference, data, q)[p]]
    if name == "coriolis":
        return [(pin.computeCoriolisMatrix(reference, data, q, qd) @ qd)[p]]
    if name == "bias":
        return [pin.nonLinearEffects(reference, data, q, qd)[p]]
    if name.endswith("_regressor") or name == "fd_parameter_derivatives":
        return by_parameters(name, model, reference, q, qd, qdd, tau)
    if name.startswith("centroidal"):
        return centroidal(name, reference, q, qd, qdd, p)
    if name == "step_second_derivatives":
        h, value = float(x["dt"]), x["value"]
        weights = h * h * value[: model.nv] + h * value[model.nv :]
        return second_order("fd_second_derivatives", reference, q, qd, tau, weights, p)
    if name in SECOND_ORDER:
        return second_order(name, reference, q, qd, tau if "tau" in x else qdd, x["weights"], p)
    if name in ("euler_step", "rk4_step"):
        return stepped(name, model, reference, q, qd, tau, float(x["dt"]), p)
    pytest.fail(f"a new row: compute {name} from what Pinocchio has, in {__file__}, answers()")


def centroidal(name: str, reference: Any, q: Array, qd: Array, qdd: Array, p: Array) -> list[Array]:
    """Centroidal quantities with the angular half first."""
    data = reference.createData()
    if name == "centroidal_momentum":
        h = pin.computeCentroidalMomentum(reference, data, q, qd).vector
        A = np.reshape(pin.computeCentroidalMap(reference, data, q), (6, reference.nv))
        return [h[SWAP], A[SWAP][:, p]]
    if name == "centroidal_rate":
        rate = pin.computeCentroidalMomentumTimeVariation(
            reference, data, q, qd, np.zeros(reference.nv)
        )
        return [rate.vector[SWAP]]
    every = pin.computeCentroidalDynamicsDerivatives(reference, data, q, qd, qdd)
    return [np.reshape(rows, (6, reference.nv))[SWAP][:, p] for rows in every]


def by_parameters(
    name: str, model: Model, reference: Any, q: Array, qd: Array, qdd: Array, tau: Array
) -> list[Array]:
    """Regressors in the order of our joints, and what forward dynamics makes of one."""
    data, rows = reference.createData(), v_permutation(model, reference)
    order = [reference.getJointId(body.joint.name) - 1 for body in model.bodies]
    columns = (10 * np.array(order)[:, None] + np.arange(10)).ravel()
    if name == "kinetic_energy_regressor":
        return [np.array(pin.computeKineticEnergyRegressor(reference, data, q, qd))[columns]]
    if name == "potential_energy_regressor":
        return [np.array(pin.computePotentialEnergyRegressor(reference, data, q))[columns]]
    if name == "fd_parameter_derivatives":
        qdd = np.array(pin.aba(reference, reference.createData(), q, qd, tau))
        M = np.triu(pin.crba(reference, reference.createData(), q))
        Y = pin.computeJointTorqueRegressor(reference, data, q, qd, qdd).reshape(reference.nv, -1)
        by_parameter = -np.linalg.solve(M + np.triu(M, 1).T, Y)
        return [by_parameter[rows][:, columns], qdd[rows]]
    Y = np.array(pin.computeJointTorqueRegressor(reference, data, q, qd, qdd)).reshape(
        reference.nv, -1
    )
    Y = Y[rows][:, columns]
    if name == "gravity_regressor":
        return [Y]
    joints = np.zeros((reference.nv, len(model.bodies)))
    for k, place in enumerate(model.v_slices):
        joints[place, k] = 1.0
    share = np.clip(qd[rows] / FRICTION_WIDTH, -1.0, 1.0)
    friction = share * (15.0 - 10.0 * share**2 + 3.0 * share**4) / 8.0
    return [Y, *(joints * term[:, None] for term in (qdd[rows], qd[rows], friction))]


# Differences of order 8, whose own error is below 1e-12.
STENCIL = ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280))
STEP = 0.005
# What rounding in M^-1 leaves of differences; the algorithm itself is held to 1e-12 by complex
# steps (tests/dynamics/test_second_derivatives.py).
TOLERANCES = {"fd_second_derivatives": 1e-8, "step_second_derivatives": 1e-8}


def second_order(
    name: str, reference: Any, q: Array, qd: Array, third: Array, weights: Array, p: Array
) -> list[Array]:
    """Second derivatives by differences of Pinocchio's gradients, of which its wheel has no more.

    ``third`` is qdd of inverse, tau of forward dynamics.
    """
    data, square = reference.createData(), np.ix_(p, p)

    def gradient(q: Array, qd: Array) -> Array:
        if name == "rnea_second_derivatives":
            pin.computeRNEADerivatives(reference, data, q, qd, third)
            blocks = [data.dtau_dq, data.dtau_dv, pin.crba(reference, data, q)]
        else:
            pin.computeABADerivatives(reference, data, q, qd, third)
            blocks = [data.ddq_dq, data.ddq_dv, data.Minv]
        blocks = [np.array(block) for block in blocks]
        blocks[2] = np.triu(blocks[2]) + np.triu(blocks[2], 1).T
        return np.stack([weights @ block[square] for block in blocks])

    n = len(p)
    by_q, by_qd = np.zeros((n, 3, n)), np.zeros((n, 3, n))
    for i in range(n):
        step = np.zeros(reference.nv)
        step[p[i]] = STEP
        for far, share in STENCIL:
            for sign in (far, -far):
                factor = np.sign(sign) * share / STEP
                by_q[i] += factor * gradient(pin.integrate(reference, q, sign * step), qd)
                by_qd[i] += factor * gradient(q, qd + sign * step)
    return [by_q[:, 0], by_q[:, 1], by_qd[:, 1], by_q[:, 2]]


def stepped(
    name: str, model: Model, reference: Any, q: Array, qd: Array, tau: Array, h: float, p: Array
) -> list[Array]:
    """A step and its exact gradient by Pinocchio's forward dynamics, ``integrate`` and dIntegrate.

    Chain rule by columns of [q; qd; tau]; of positions their tangent, in Pinocchio's order.
    """
    n, data = reference.nv, reference.createData()
    start = np.eye(3 * n)
    d_q, d_qd, d_tau = start[:n], start[n : 2 * n], start[2 * n :]

    def carried(u: Array, d_u: Array) -> Array:
        by_q = pin.dIntegrate(reference, q, u, pin.ArgumentPosition.ARG0)
        by_u = pin.dIntegrate(reference, q, u, pin.ArgumentPosition.ARG1)
        return by_q @ d_q + by_u @ d_u

    def accelerated(u: Array, d_u: Array, v: Array, d_v: Array) -> tuple[Array, Array]:
        pin.computeABADerivatives(reference, data, pin.integrate(reference, q, u), v, tau)
        minv = np.triu(data.Minv) + np.triu(data.Minv, 1).T
        return np.array(data.ddq), (
            data.ddq_dq @ carried(u, d_u) + data.ddq_dv @ d_v + minv @ d_tau
        )

    none, d_none = np.zeros(n), np.zeros((n, 3 * n))
    if name == "euler_step":
        qdd, d_qdd = accelerated(none, d_none, qd, d_qd)
        end, d_end = qd + h * qdd, d_qd + h * d_qdd
        move, d_move = h * end, h * d_end
    else:
        move, d_move, end, d_end = none, d_none, qd, d_qd
        rate, d_rate, qdd, d_qdd = none, d_none, none, d_none
        for node, weight in ((0.0, 1 / 6), (0.5, 1 / 3), (0.5, 1 / 3), (1.0, 1 / 6)):
            u, d_u = node * h * rate, node * h * d_rate
            v, d_v = qd + node * h * qdd, d_qd + node * h * d_qdd
            qdd, d_qdd = accelerated(u, d_u, v, d_v)
            rate = tangent_rate(model, u, v, p)
            by_u, by_v = tangent_rate_jacobians(model, u, v, p)
            d_rate = by_u @ d_u + by_v @ d_v
            move, d_move = move + weight * h * rate, d_move + weight * h * d_rate
            end, d_end = end + weight * h * qdd, d_end + weight * h * d_qdd
    columns = np.concatenate([p, n + p, 2 * n + p])
    whole = np.vstack([carried(move, d_move)[p], d_end[p]])[:, columns]
    q_next = q_from_pinocchio(model, reference, pin.integrate(reference, q, move))
    return [q_next, end[p], whole[:, : 2 * n], whole[:, 2 * n :]]


def tangent_rate(model: Model, u: Array, v: Array, p: Array) -> Array:
    """``tangent_rates`` in Pinocchio's order, which tests of ours hold to differences."""
    rates = np.empty_like(u)
    rates[p] = tangent_rates(model, u[None, p], v[None, p])[0]
    return rates


def tangent_rate_jacobians(model: Model, u: Array, v: Array, p: Array) -> tuple[Array, Array]:
    """Their gradient, likewise."""
    both = tangent_rates_jacobians(model, u[None, p], v[None, p])
    by_u, by_v = np.zeros((2, len(u), len(u)))
    by_u[np.ix_(p, p)], by_v[np.ix_(p, p)] = both[0][0], both[1][0]
    return by_u, by_v


def agrees(row: Function, name: str, count: int) -> None:
    """Every result within the tolerance of its block's largest entry in all states."""
    tolerance = TOLERANCES.get(row.name, TOLERANCE)
    model, reference = robot(name)
    row = row.asked(row.optional)
    print(f"seed {SEED}")
    samples = sample(model, row, count, distribution="stress", seed=SEED)
    x = {key: values.astype(np.float64) for key, values in samples.items()}
    x["q"] = dynamics.normalise(model, x["q"])
    results = row.evaluate(model, x)
    each = [answers(row, model, reference, {k: v[i] for k, v in x.items()}) for i in range(count)]
    for block, *expected in zip(row.results, *each, strict=True):
        want, have = np.array(expected), results[block.name]
        assert have.shape == want.shape, block.name
        largest = max(float(np.abs(want).max()), 1e-3)
        error = np.abs(have - want).reshape(count, -1).max(axis=1)
        assert np.all(error <= tolerance * largest), (block.name, (error / largest).max())


# Contacts are compared in tests/dynamics/test_constraints.py.
COMPARED = [row for row in NEW if not FUNCTIONS[row].of_contacts]
CASES = [
    (row, name)
    for name in ("iiwa14", "hyq", "leg", "floating hyq", "floating iiwa14", "tree 3", "branch 3")
    for row in COMPARED
    if has(name, row)
]


@pytest.mark.parametrize(
    ("row", "name"),
    some_rows(CASES, lambda row, name: name in ("iiwa14", "floating hyq", "tree 3", "branch 3")),
    ids=str,
)
def test_a_row_agrees_with_pinocchio(row: str, name: str) -> None:
    agrees(FUNCTIONS[row], name, 6)


def test_the_leg_ends_at_the_foot() -> None:
    model, _ = robot("leg")
    assert tip_of(model) == "lf_foot" and model.nv == 3
    assert model.bodies[-1].name == "lf_lowerleg", "the last that moves is another link"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_trees_agree_with_pinocchio(seed: int) -> None:
    for row in COMPARED:
        for name in (f"tree {seed}", f"branch {seed}", f"floating branch {seed}"):
            if has(name, row):
                agrees(FUNCTIONS[row], name, 5)


@pytest.mark.parametrize("change", ["order", "frame", "sign"])
def test_forces_in_another_convention_are_seen(change: str) -> None:
    """Halves exchanged, body frames for links' frames, the other sign."""
    row = FUNCTIONS["rnea_fext"]

    def mistaken(model: Model, q: Any, qd: Any, qdd: Any, fext: Any, **terms: Any) -> Any:
        forces = dynamics.forces_on_bodies(model, fext[..., SWAP] if change == "order" else fext)
        if change == "frame":
            forces = fext
        if change == "sign":
            forces = -forces
        return (dynamics.rnea(model, q, qd, qdd, forces, **terms),)

    turned = "tree 3"  # whose joints' axes are not their links' z
    agrees(row, turned, 3)
    with pytest.raises(AssertionError, match="tau"):
        agrees(replace(row, floats=mistaken), turned, 3)


def test_a_jacobian_in_another_frame_is_seen() -> None:
    with pytest.raises(AssertionError, match="J"):
        agrees(replace(FUNCTIONS["frame_jacobian"], frame_reference="world"), "leg", 3)
