"""A scenario: the iiwa14 draws a figure-eight with a payload unknown to its controller."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pinion.batch import Backend
from pinion.control.errors import ControlError
from pinion.control.plant import Plant, forward_of, gradient_row
from pinion.control.solve.weights import Cost, Weights
from pinion.robot import Model, load, tip_of

from .disturbance import Disturbance
from .motion import Motion, figure_eight, follow
from .mpc import Mpc
from .mujoco_robot import MujocoRobot


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A robot, its figure, its controller and its disturbance.

    Members
    -------
    robot : a built-in name or a URDF path.
    posture : (nv,) start positions, near which the figure is drawn.
    width, height, lap, ramp, axes : of the figure, as for :func:`.motion.figure_eight`.
    duration : of the motion [s].
    period, inner : of the controller [s], and steps of the simulated robot in it.
    step, knots, iterations : of the controller's horizon; the step is in seconds.
    weights, last : weights of the running knots and of the last one.
    disturbance : payload, friction and delay.
    """

    robot: str = "iiwa14"
    posture: tuple[float, ...] = (0.0, 0.6, 0.0, -1.4, 0.0, 1.1, 0.0)
    width: float = 0.36
    height: float = 0.24
    lap: float = 2.375
    ramp: float = 0.5
    axes: tuple[tuple[float, ...], tuple[float, ...]] = ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    duration: float = 5.0
    period: float = 0.002
    inner: int = 4
    step: float = 0.01
    knots: int = 16
    iterations: int = 1
    weights: Weights = field(
        default_factory=lambda: Weights(tip=5e3, q=10.0, qd=0.1, tau=1e-4, limits=1e3)
    )
    last: Weights = field(default_factory=lambda: Weights(tip=5e3, q=10.0, qd=0.1, limits=1e3))
    disturbance: Disturbance = field(
        default_factory=lambda: Disturbance(
            payload=1.0, offset=(0.0, 0.0, 0.05), damping=0.5, friction=1.0, delay=0.002
        )
    )

    def model(self) -> Model:
        """Load the robot, and return its model."""
        return load(self.robot)

    def motion(self) -> Motion:
        """Return the motion to track, extended by the last horizon."""
        from pinion import dynamics

        model = self.model()
        posture = np.array(self.posture)
        tip = tip_of(model)
        _, centre = dynamics.frame_placement(model, posture, tip)
        path = figure_eight(
            centre,
            width=self.width,
            height=self.height,
            lap=self.lap,
            ramp=self.ramp,
            axes=self.axes,
        )
        length = self.duration + self.knots * self.step
        return follow(model, path, posture=posture, duration=length, dt=self.period, frame=tip)

    def cost(self) -> Cost:
        """Return the controller's cost."""
        return Cost(running=self.weights, final=self.last, frame=tip_of(self.model()))

    def plant(self, device: str = "cpu", **options: Any) -> Plant:
        """Open the controller's plant on a device; a card's options name its build."""
        return Plant.open(self.model(), dt=self.step, device=device, **options)

    def plant_of(self, gradients: Backend) -> Plant:
        """Return the controller's plant with gradients from an open backend.

        Raises
        ------
        ControlError
            If the backend computes another function, or is for another robot.
        """
        model = self.model()
        function, robot = getattr(gradients, "function", None), getattr(gradients, "model", model)
        expected = [block.name for block in gradient_row().results]
        if function is not None and [block.name for block in function.results] != expected:
            outputs = ", ".join(block.name for block in function.results)
            raise ControlError(
                f"The backend's '{function.name}' computes {outputs}: a controller needs "
                f"{', '.join(expected)}; open a backend for '{gradient_row().name}' with "
                "outputs=('minv',)."
            )
        if (robot.name, robot.nv) != (model.name, model.nv):
            raise ControlError(
                f"The backend is for {robot.name} (nv {robot.nv}), but the scenario is for "
                f"{model.name} (nv {model.nv}): open a backend for {model.name}."
            )
        return Plant(model, dt=self.step, gradients=gradients, forward=forward_of(model))

    def controller(self, plant: Plant, motion: Motion, *, compiled: bool = True) -> Mpc:
        """Return a new controller that tracks a motion with a plant."""
        return Mpc(
            plant,
            self.cost(),
            motion,
            knots=self.knots,
            iterations=self.iterations,
            compiled=compiled,
        )

    def simulated(self) -> MujocoRobot:
        """Return the robot in MuJoCo, with the disturbance."""
        return MujocoRobot(
            self.model(), step=self.period / self.inner, disturbance=self.disturbance
        )
