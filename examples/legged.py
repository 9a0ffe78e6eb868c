"""HyQ stands, is pushed, jumps and lands in MuJoCo, controlled by inverse dynamics with contacts.

``python -m examples.legged`` needs a C++ compiler and MuJoCo (extra ``mjcf``). In every millisecond

- the base is to accelerate towards its target position, as by a spring and a damper;
- legs that stand follow from that, because their feet do not move: ``J qdd + gamma = 0``, with J
  and gamma of ``contact_acceleration``; legs in the air are to reach a posture;
- the least forces of the ground that give the base this acceleration follow from the first six
  equations of motion, and the joints' efforts from the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

import pinion.api as pinion
from pinion import dynamics
from pinion.control.track.mujoco_robot import Ground, MujocoRobot
from pinion.robot import load

Array = NDArray[np.float64]

BASE, LEGS = "base_link_0", ("lf", "lh", "rf", "rh")
POSTURE = np.array(2 * [0.0, 0.75, -1.5, 0.0, -0.75, 1.5])
"""Joint positions in which the feet are below the hips [rad]."""

STEP = 1e-3
RADIUS = 0.02
STANDING, CROUCHED = 0.50, 0.42
"""Heights of the base above the feet [m]."""

THRUST, DURATION = 15.0, 0.15
"""Upward acceleration of a jump [m/s^2], and its time [s]."""


@dataclass(kw_only=True)
class Legged:
    """HyQ in MuJoCo and its controller.

    Members
    -------
    robot : simulated.
    heights : of the base above the ground, one per step [m].
    in_the_air : whether no foot touched the ground, one per step.
    """

    robot: MujocoRobot
    heights: list[float] = field(default_factory=list)
    in_the_air: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        model = self.robot.model
        self._motion = pinion.backend(
            model, "contact_acceleration", device="cpu", outputs=("J_contacts",)
        )
        self._inertia = pinion.backend(model, "crba", device="cpu")
        self._inverse = pinion.backend(model, "rnea", device="cpu")

    @classmethod
    def hyq(cls) -> Legged:
        """Return the model of HyQ with contacts at its four feet."""
        feet = [f"{leg}_lowerleg@0.33,0,0" for leg in LEGS]
        model = load("hyq", floating_base=True, contacts=feet)
        robot = MujocoRobot(model, step=STEP, ground=Ground(radius=RADIUS))
        q = dynamics.neutral_configuration(model)
        q[7:] = POSTURE
        lowest = min(dynamics.frame_placement(model, q, foot)[1][2] for foot in feet)
        q[2] = RADIUS - lowest
        robot.reset(q)
        return cls(robot=robot)

    def run(self, seconds: float, height: float, *, push: float = 0.0, thrust: float = 0.0) -> None:
        """Simulate the robot for a duration under its controller.

        Parameters
        ----------
        height : desired height of the base above the feet [m].
        push : force on the base to its left [N].
        thrust : upward acceleration instead of a desired height [m/s^2].
        """
        base = self.robot.compiled.body("body_0").id
        for _ in range(round(seconds / STEP)):
            self.robot.data.xfrc_applied[base, 1] = push
            self.robot.advance(self.efforts(height, thrust))
            self.heights.append(float(self.robot.data.qpos[2]))
            self.in_the_air.append(not self.robot.active.any())

    def efforts(self, height: float, thrust: float) -> Array:
        """Return the joints' efforts (nv,), zeros for the base."""
        model = self.robot.model
        q, qd = np.split(self.robot.state, [model.nq])
        active = self.robot.active > 0.0
        contacts = self._motion(q, qd, np.zeros(model.nv))
        J, gamma = contacts.J_contacts, contacts.acceleration
        M, h = self._inertia(q).M, self._inverse(q, qd, np.zeros(model.nv)).tau

        # Legs in the air; a leg has three joints, and its foot three directions.
        qdd = np.zeros(model.nv)
        qdd[6:] = 400.0 * (POSTURE - q[7:]) - 40.0 * qd[6:]
        if not active.any():  # the base falls
            qdd[:6] = np.linalg.solve(M[:6, :6], -M[:6, 6:] @ qdd[6:] - h[:6])
            return np.concatenate([np.zeros(6), (M @ qdd + h)[6:]])
        qdd[:6] = self._base_acceleration(q, qd, height, thrust)
        rows = np.repeat(active, 3)
        stopping = -gamma - 20.0 * (J @ qd) - J[:, :6] @ qdd[:6]
        for leg in np.flatnonzero(active):
            directions, joints = slice(3 * leg, 3 * leg + 3), slice(6 + 3 * leg, 9 + 3 * leg)
            qdd[joints] = np.linalg.solve(J[directions, joints], stopping[directions])
        needed = M @ qdd + h
        force = np.linalg.lstsq(J[rows, :6].T, needed[:6], rcond=None)[0]
        return np.concatenate([np.zeros(6), needed[6:] - J[rows, 6:].T @ force])

    def _base_acceleration(self, q: Array, qd: Array, height: float, thrust: float) -> Array:
        """Return the desired acceleration of the base, in its axes, as in the model's qdd."""
        x, y, z, w = q[3:7]
        R = dynamics.frame_placement(self.robot.model, q, BASE)[0]
        velocity = R @ qd[:3]
        pull = 60.0 * (np.array([0.0, 0.0, RADIUS + height]) - q[:3]) - 16.0 * velocity
        if thrust:
            pull[2] = thrust
        angular = -120.0 * np.copysign(2.0, w) * np.array([x, y, z]) - 22.0 * qd[3:6]
        return np.concatenate([R.T @ pull - np.cross(qd[3:6], qd[:3]), angular])


def main() -> None:
    """Run the scenario, and print what the robot does."""
    hyq = Legged.hyq()
    hyq.run(1.0, STANDING)
    print(f"stands with its base {hyq.heights[-1]:.3f} m above the ground")
    hyq.run(0.1, STANDING, push=300.0)
    sideways = float(hyq.robot.data.qpos[1])
    hyq.run(1.4, STANDING)
    print(
        f"moves {1e3 * sideways:.0f} mm under a push of 300 N for 0.1 s, "
        f"and is back within {1e3 * abs(hyq.robot.data.qpos[1]):.1f} mm"
    )
    hyq.run(0.6, CROUCHED)
    begin = len(hyq.heights)
    hyq.run(DURATION, CROUCHED, thrust=THRUST)
    hyq.run(1.5, STANDING)
    print(
        f"jumps to {max(hyq.heights[begin:]):.3f} m, {STEP * sum(hyq.in_the_air[begin:]):.2f} s in "
        f"the air, and stands again at {hyq.heights[-1]:.3f} m"
    )


if __name__ == "__main__":
    main()
