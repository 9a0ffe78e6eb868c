"""A robot on three legs with feet on the ground, its posture, and motions of its base."""

from __future__ import annotations

from functools import cache

import numpy as np

from pinion import dynamics
from pinion.control import Cost, Problem, Weights
from pinion.control.plant import holding_efforts
from pinion.control.track.motion import Motion
from pinion.robot import Model, load_text, with_contacts

LEGS = 3
FEET = tuple(f"lower_{leg}@0,0,-0.25" for leg in range(LEGS))
BASE, JOINTS = 6, 2 * LEGS


def _solid(name: str, mass: float, height: float) -> str:
    inertia = 0.01 * mass
    return (
        f'<link name="{name}"><inertial><origin xyz="0.01 0 {height}"/><mass value="{mass}"/>'
        f'<inertia ixx="{inertia}" ixy="0" ixz="0" iyy="{1.2 * inertia}" iyz="0" '
        f'izz="{0.8 * inertia}"/></inertial></link>'
    )


def _joint(name: str, parent: str, child: str, origin: str) -> str:
    return (
        f'<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin {origin}/><axis xyz="0 1 0"/>'
        '<limit lower="-2.0" upper="2.0" effort="40" velocity="10"/></joint>'
    )


@cache
def tripod(contacts: bool = True, *, legs: int = LEGS) -> Model:
    """Return the robot with a floating base, and with its feet as contacts."""
    parts = [_solid("base", 6.0, 0.02)]
    for leg in range(legs):
        angle = 2.0 * np.pi * leg / LEGS
        x, y = 0.2 * np.cos(angle), 0.2 * np.sin(angle)
        hip = f'xyz="{x} {y} 0" rpy="0 0 {angle}"'
        parts += [
            _solid(f"upper_{leg}", 0.6, -0.12),
            _solid(f"lower_{leg}", 0.4, -0.12),
            _joint(f"hip_{leg}", "base", f"upper_{leg}", hip),
            _joint(f"knee_{leg}", f"upper_{leg}", f"lower_{leg}", 'xyz="0 0 -0.25"'),
        ]
    model = load_text(f'<robot name="tripod">{"".join(parts)}</robot>', floating_base=True)
    return with_contacts(model, FEET[:legs]) if contacts else model


def standing() -> np.ndarray:
    """Return positions (nq,) with bent knees, and all feet at the height 0."""
    q = dynamics.neutral_configuration(tripod())
    q[7:] = LEGS * [-0.5, 1.0]
    _, foot = dynamics.frame_placement(tripod(), q, FEET[0])
    q[2] -= foot[2]
    return q


def resting(
    model: Model,
    q: np.ndarray,
    active: np.ndarray | None = None,
    *,
    frame: str,
    dt: float = 0.01,
    rows: int = 40,
) -> Motion:
    """Return a motion at rest, whose efforts hold the joints."""
    still = np.zeros((rows, model.nv))
    return Motion(
        frame=frame,
        dt=dt,
        q=np.tile(q, (rows, 1)),
        qd=still,
        qdd=still,
        tau=np.tile(holding_efforts(model, q[None])[0], (rows, 1)),
        tip=np.tile([0.1, 0.05, -0.2], (rows, 1)),
        active=active,
    )


def shifts(count: int, *, knots: int = 15, schedule: np.ndarray | None = None) -> Problem:
    """Return motions of the base from standing to poses nearby, in steps of 20 ms."""
    model, rng = tripod(), np.random.default_rng(3)
    start = np.tile(standing(), (count, 1))
    moves = np.zeros((count, model.nv))
    moves[:, :3], moves[:, 3:BASE] = (rng.uniform(-0.04, 0.04, (count, 3)) for _ in range(2))
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
            q=[10.0] * BASE + [0.1] * JOINTS, qd=[1.0] * BASE + [0.1] * JOINTS, tau=1e-3
        ),
        final=Weights(q=[1e3] * BASE + [1.0] * JOINTS, qd=[1e2] * BASE + [1.0] * JOINTS),
    )
