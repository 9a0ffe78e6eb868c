"""HyQ with feet that stand on the ground, its posture, and motions of its base."""

from __future__ import annotations

from functools import cache

import numpy as np

from pinion import dynamics
from pinion.control import Cost, Problem, Weights
from pinion.robot import Model, load_text, with_contacts
from pinion.robot.library import urdf_text

LEGS = ("lf", "lh", "rf", "rh")
BASE, JOINTS = 6, 12


@cache
def quadruped(contacts: bool = True) -> Model:
    """Return HyQ with a floating base, and with its four feet as contacts."""
    feet = "".join(
        f'<link name="{leg}_foot"/><joint name="{leg}_foot_joint" type="fixed">'
        f'<parent link="{leg}_lowerleg"/><child link="{leg}_foot"/><origin xyz="0.33 0 0"/></joint>'
        for leg in LEGS
    )
    text = urdf_text("hyq").replace("</robot>", f"{feet}</robot>")
    model = load_text(text, floating_base=True)
    return with_contacts(model, [f"{leg}_foot" for leg in LEGS]) if contacts else model


def standing() -> np.ndarray:
    """Return positions (19,) with bent knees, and all feet at the height 0."""
    q = dynamics.neutral_configuration(quadruped())
    for leg in range(4):
        bend = 1.0 if leg % 2 == 0 else -1.0
        q[7 + 3 * leg : 10 + 3 * leg] = -0.2, 0.75 * bend, -1.5 * bend
    _, foot = dynamics.frame_placement(quadruped(), q, "lf_foot")
    q[2] -= foot[2]
    return q


def shifts(count: int, *, knots: int = 15, schedule: np.ndarray | None = None) -> Problem:
    """Return motions of the base from standing to poses nearby, in steps of 20 ms."""
    model, rng = quadruped(), np.random.default_rng(3)
    start = np.tile(standing(), (count, 1))
    moves = np.zeros((count, model.nv))
    moves[:, :3], moves[:, 3:BASE] = (rng.uniform(-0.06, 0.06, (count, 3)) for _ in range(2))
    return Problem.of(
        model,
        knots=knots,
        dt=0.02,
        cost=shift_cost(),
        start=start,
        goal=dynamics.integrate(model, start, moves),
        active=schedule,
    )


def shift_cost() -> Cost:
    """Return a cost with other weights for the base than for the joints."""
    return Cost(
        running=Weights(
            q=[10.0] * BASE + [0.1] * JOINTS, qd=[1.0] * BASE + [0.1] * JOINTS, tau=1e-4
        ),
        final=Weights(q=[1e3] * BASE + [1.0] * JOINTS, qd=[1e2] * BASE + [1.0] * JOINTS),
    )
