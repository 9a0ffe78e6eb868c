"""A task's controller for one robot: its horizon and its motion."""

from __future__ import annotations

from pinion.control.plant import single_joints_model
from pinion.control.track.motion import Motion
from pinion.control.track.period import Horizon
from pinion.robot import Model, tip_of

from .motion import robot_motion
from .task import Task


def task_controller(task: Task, model: Model, *, dtype: str = "float64") -> tuple[Horizon, Motion]:
    """Return the horizon and motion of a task's controller for a robot, as an export needs them.

    Raises
    ------
    ControlError
        If control does not support the robot, or the robot cannot perform the motion.
    """
    robot = single_joints_model(model, "a task's controller", "Mpc and export_controller")
    horizon = Horizon(
        model=robot,
        cost=task.cost(tip_of(robot)),
        knots=task.knots,
        dtype=dtype,
        step=task.step,
        period=task.period,
        iterations=task.iterations,
    )
    motion, _ = robot_motion(task.motion, robot, period=task.period, horizon=task.knots * task.step)
    return horizon, motion
