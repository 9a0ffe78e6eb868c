"""Task files, for ``pinion build --task`` and ``pinion export --controller``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pinion.base.progress import Progress

if TYPE_CHECKING:
    from pinion.flow.by_task import Goal
    from pinion.functions import Function
    from pinion.link import Manifest
    from pinion.robot import Model


def task_goal(path: Path, model: Model, row: Function, *, progress: Progress) -> Goal:
    """Return the goal for choosing a build's formats, from a task file.

    Raises
    ------
    ValueError
        Subclasses, with a message about the file, the function or the robot.
    """
    from pinion.control.task.task import read_task
    from pinion.control.task.tracking_loss import TrackingLoss

    task = read_task(path)
    measure = TrackingLoss(model, row, task)
    progress.step(f"Tracking the task '{task.name}' with gradients in float64")
    return measure.goal()


def export_task_controller(
    path: Path, model: Model, out: Path, *, dtype: str, name: str | None, progress: Progress
) -> dict[str, Any]:
    """Export the controller of a task for a robot, with the task's motion.

    Raises
    ------
    ValueError
        Subclasses, with a message about the file, the robot or the folder.
    """
    from pinion.control.task.controller import task_controller
    from pinion.control.task.task import read_task
    from pinion.control.track.export import export_controller

    task = read_task(path)
    progress.step(f"planning the motion of the task '{task.name}'")
    horizon, motion = task_controller(task, model, dtype=dtype)
    return export_controller(horizon, motion, out, name=name, progress=progress)


def task_sentence(manifest: Manifest) -> str:
    """Return a text on the formats that a task chose: their cost, savings and errors."""
    figures = manifest.tracking
    choice = (
        f"Formats chosen by the task '{manifest.task['name']}': {figures['wide']:g} x "
        f"{figures['narrow']:g} bits, about {figures['blocks']:g} multiplier blocks and "
        f"{figures['bits']:g} bits of operands"
    )
    if "ordinary_blocks" in figures:
        choice += (
            f", whereas --max-error 1e-3 takes {figures['ordinary_blocks']:g} and "
            f"{figures['ordinary_bits']:g} (estimates)"
        )
    return (
        f"{choice}. The tip's RMS error in the task is {figures['float64_rms_mm']:.3g} mm in "
        f"float64, and differs from that by {figures['found']:.2%} with the core, and by at most "
        f"{figures['held_out']:.2%} on motions that the search had not seen. Single results may "
        f"have large errors: up to {manifest.max_error:g} of the largest word of their block."
    )
