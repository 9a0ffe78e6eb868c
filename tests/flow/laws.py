"""Independent implementations of the examples' functions, as mechanics on arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pinion import dynamics
from pinion.robot import Model, payload

Arrays = Mapping[str, np.ndarray]

# Figures of the example, base to tip; the last holds for all joints beyond.
STIFFNESS = (200.0, 200.0, 200.0, 200.0, 100.0, 100.0, 60.0)
DAMPING = (10.0, 10.0, 10.0, 10.0, 4.0, 4.0, 2.0)
VISCOUS = (1.5, 1.5, 1.0, 1.0, 0.6, 0.4, 0.4)
COULOMB = (4.0, 4.0, 3.0, 3.0, 2.0, 1.2, 1.0)


def at_joints(figures: tuple[float, ...], count: int) -> np.ndarray:
    return np.array([figures[min(k, len(figures) - 1)] for k in range(count)])


def computed_torque(model: Model, link: str, x: Arrays) -> dict[str, np.ndarray]:
    commanded = x["qdd_des"] + 20.0 * x["ed"] + 100.0 * x["e"]
    bias = dynamics.rnea(model, x["q"], x["qd"], np.zeros_like(x["qd"]))
    return {"tau": np.einsum("nij,nj->ni", dynamics.crba(model, x["q"]), commanded) + bias}


def energy_gradient(model: Model, link: str, x: Arrays) -> dict[str, np.ndarray]:
    """By differences of q, with a relative error of 1e-8."""
    M = dynamics.crba(model, x["q"])
    by_q = np.empty_like(x["qd"])
    for k in range(model.nv):
        ends = []
        for side in (1e-4, 2e-4):
            up, down = (
                0.5 * np.einsum("ni,nij,nj->n", x["qd"], dynamics.crba(model, moved), x["qd"])
                for moved in (x["q"] + side * np.eye(model.nv)[k] * s for s in (1, -1))
            )
            ends.append((up - down) / (2 * side))
        by_q[:, k] = (4 * ends[0] - ends[1]) / 3
    by_qd = np.einsum("nij,nj->ni", M, x["qd"])
    return {"energy": 0.5 * (by_qd * x["qd"]).sum(axis=1), "by_q": by_q, "by_qd": by_qd}


def tip_jacobian(model: Model, link: str, x: Arrays) -> dict[str, np.ndarray]:
    """Return the Jacobian by differences of the pose, with a relative error of 1e-9."""
    R, place = dynamics.frame_placement(model, x["q"], link)
    columns = []
    for k in range(model.nv):
        step = 1e-5 * np.eye(model.nv)[k]
        (R1, p1), (R0, p0) = (
            dynamics.frame_placement(model, x["q"] + s * step, link) for s in (1, -1)
        )
        spin = (R1 - R0) / 2e-5 @ np.swapaxes(R, 1, 2)
        angular = np.stack([spin[:, 2, 1], spin[:, 0, 2], spin[:, 1, 0]], axis=1)
        # The velocity of the point at the base's origin that moves with the link.
        moved = (p1 - p0) / 2e-5 + np.cross(place, angular)
        columns.append(np.concatenate([angular, moved], axis=1))
    return {"position": place, "rotation": R, "jacobian": np.stack(columns, axis=2)}


def tracking_law(model: Model, link: str, x: Arrays) -> dict[str, np.ndarray]:
    e = np.clip(x["q_des"] - x["q"], -0.05, 0.05)
    ed = np.clip(x["qd_des"] - x["qd"], -0.5, 0.5)
    loaded = payload(model, link, mass=2.0, com=(0.0, 0.0, 0.08))
    commanded = x["qdd_des"] + 400.0 * e + 40.0 * ed
    tau = dynamics.rnea(loaded, x["q"], x["qd"], commanded)
    s = np.clip(x["qd_des"] / 0.05, -1.0, 1.0)
    n = model.nv
    tau = tau + at_joints(STIFFNESS, n) * e + at_joints(DAMPING, n) * ed
    tau += at_joints(VISCOUS, n) * x["qd_des"] + at_joints(COULOMB, n) * (1.5 * s - 0.5 * s**3)
    return {"tau": tau}


def tip_law(model: Model, link: str, x: Arrays) -> dict[str, np.ndarray]:
    R, place = dynamics.frame_placement(model, x["q"], link)
    J = dynamics.frame_jacobian(model, x["q"], link, reference="local_world_aligned")
    moved = np.einsum("nij,nj->ni", J, x["qd"])
    # The velocity of the tip itself, not of another point of the link.
    ends = [dynamics.frame_placement(model, x["q"] + h * x["qd"], link)[1] for h in (1e-6, -1e-6)]
    assert np.abs((ends[0] - ends[1]) / 2e-6 - moved[:, 3:]).max() < 1e-7
    # The turn between two rotations from the skew part of R_d R^T, which shares no cross product.
    between = x["R_des"] @ np.swapaxes(R, 1, 2)
    skew = (between - np.swapaxes(between, 1, 2)) / 2.0
    turn = np.stack([skew[:, 2, 1], skew[:, 0, 2], skew[:, 1, 0]], axis=1)
    force = 2000.0 * np.clip(x["x_des"] - place, -0.02, 0.02)
    force += 100.0 * np.clip(x["xd_des"] - moved[:, 3:], -0.2, 0.2)
    force[:, 2] += 9.81 * x["load"]
    wrench = np.concatenate([100.0 * turn - 5.0 * moved[:, :3], force], axis=1)
    tau = np.einsum("nij,ni->nj", J, wrench) - 0.5 * x["qd"]
    return {"tau": tau + dynamics.bias(model, x["q"], x["qd"])}
