"""Robots of example-robot-data on their feet against Pinocchio: slow, and only what is fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.robot import Model, load, q_to_pinocchio, v_permutation, with_contacts
from tests.dynamics.models import relative_error
from tests.dynamics.test_constraints import of_pinocchio, states
from tests.robot.test_robot_corpus import FOLDER

Array = NDArray[np.float64]

SPREAD = 0.15  # m, in height: links that are as low as the lowest one are feet
ORIGIN = np.array([0.02, 0.01, -0.05])  # m, of the contact in the link's frame
DAMPING = 1e-3
LEGGED = {
    *("a1", "alexander_v1.lowerBodyOnly", "anymal", "anymal-kinova", "b1", "b1-z1", "bolt"),
    *("g1_29dof_rev_1_0", "g1_29dof_with_hand_rev_1_0", "go1", "go2", "human", "hyq_no_sensors"),
    *("icub", "icub_reduced", "laikago", "quadruped", "simple_humanoid"),
    *("simple_humanoid_classical", "solo", "solo12", "talos_full_v2", "talos_full_v2_box"),
    *("talos_reduced", "talos_reduced_box", "talos_reduced_corrected"),
}
"""Files that have to be there, and to agree."""


def feet(model: Model) -> list[str]:
    """Return up to four links at the ends of a robot that are lowest at its neutral positions."""
    parents = {body.parent for body in model.bodies}
    q = dynamics.neutral_configuration(model)
    heights = {
        body.name: dynamics.frame_placement(model, q, body.name)[1][2]
        for k, body in enumerate(model.bodies)
        if k not in parents and k > 0
    }
    lowest = sorted(heights, key=lambda name: heights[name])[:4]
    return [name for name in lowest if heights[name] < heights[lowest[0]] + SPREAD]


def deviations(path: Path, size: int) -> dict[str, float]:
    """Return the largest relative deviation of each result at two states, in both frames.

    With so much damping redundant contacts have a solution too: Pinocchio's, after one iteration,
    is ours.
    """
    peer = pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
    plain = load(path, floating_base=True)
    contacts = [(name, ORIGIN, size) for name in feet(plain)[: 4 if size == 3 else 2]]
    at = ",".join(map(str, ORIGIN))
    model = with_contacts(plain, [f"{name}@{at}:{size}d" for name, _, _ in contacts])
    order = v_permutation(model, peer)
    q, qd, tau = states(model, 2, 4)
    once = pin.ProximalSettings(1e-14, DAMPING, 1)
    worst: dict[str, float] = {}

    def compared(name: str, ours: Array, theirs: Any) -> None:
        worst[name] = max(worst.get(name, 0.0), relative_error(ours, np.array(theirs)))

    def forces(values: Any, *axes: int) -> Array:
        """Return Pinocchio's forces, or their gradients, with moments first."""
        shape = (-1, size // 3, 3, *axes)
        return np.array(values).reshape(shape)[:, ::-1].reshape(-1, *axes)

    for k in range(len(q)):
        x = q_to_pinocchio(model, peer, q[k]), np.zeros(peer.nv), np.zeros(peer.nv)
        x[1][order], x[2][order] = qd[k], tau[k]
        for reference in ("local", "local_world_aligned"):
            data, peers, datas = of_pinocchio(peer, contacts, reference)
            their_qdd = pin.constraintDynamics(peer, data, *x, peers, datas, once)
            qdd, force = dynamics.constraint_dynamics(
                model, q[k], qd[k], tau[k], None, DAMPING, reference=reference
            )
            compared("qdd", qdd, their_qdd[order])
            compared("force", force, forces(data.lambda_c))
            if reference != "local":
                continue
            pin.computeConstraintDynamicsDerivatives(peer, data, peers, datas, once)
            gradient = dynamics.constraint_dynamics_derivatives(
                model, q[k], qd[k], tau[k], None, DAMPING
            )
            for name, theirs in (
                ("dq", data.ddq_dq),
                ("dqd", data.ddq_dv),
                ("dtau", data.ddq_dtau),
            ):
                ours = getattr(gradient, f"dqdd_{name}")
                compared(f"dqdd_{name}", ours, np.array(theirs)[np.ix_(order, order)])
            for name, theirs in {"dq": data.dlambda_dq, "dqd": data.dlambda_dv}.items():
                ours = getattr(gradient, f"dforce_{name}")
                compared(f"dforce_{name}", ours, forces(theirs, peer.nv)[:, order])
    return worst


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 6], ids=["points", "faces"])
def test_legged_robots_agree_with_pinocchio(size: int) -> None:
    folders = list(FOLDER.glob("example-robot-data==*"))
    if not folders:
        pytest.skip("`make test-corpus` fetches the robots")
    files = {path.stem: path for path in sorted(folders[0].rglob("*.urdf"))}
    assert files.keys() >= LEGGED, LEGGED - files.keys()
    for name in sorted(LEGGED):
        worst = deviations(files[name], size)
        print(name, {key: f"{value:.0e}" for key, value in worst.items()})
        # The condition of the iCub's inertia matrix is 4e10, of the others at most 1e7.
        assert worst.pop("qdd") < (1e-9 if name == "icub" else 1e-10), name
        assert max(worst.values()) < 1e-8, (name, worst)


def test_feet_are_the_lowest_ends() -> None:
    assert set(feet(load("hyq", floating_base=True))) == {
        f"{leg}_lowerleg" for leg in ("lf", "lh", "rf", "rh")
    }
