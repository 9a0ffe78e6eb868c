"""``pinion demo trot``: a quadruped that follows commands by model predictive control."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import typer

from pinion.console.errors import CHECK_FAILED
from pinion.console.terminal import out, put_json, say, show, steps

COMMANDS = {
    "on the spot": (0.5, 0.0, 0.0, 0.0),
    "forward": (3.0, 0.3, 0.0, 0.0),
    "forward and sideways": (6.0, 0.3, 0.15, 0.0),
    "turning too": (9.0, 0.3, 0.15, 0.4),
    "halt": (15.0, 0.0, 0.0, 0.0),
}
"""Rows of :func:`pinion.control.locomotion.gait.gait_motion`, by name."""

DURATION, SPEED, SEED = 17.0, 0.0981, 1
"""Duration of the walk [s], change of velocity by a push [m/s], and seed of the pushes."""

PICTURE, MOVING, STILL = "trot.png", "trot.gif", "trot-stills.png"


def run(*, folder: Path, json: bool) -> None:
    """Trot, draw the pictures, and print or write the figures as JSON.

    Parameters
    ----------
    folder : where the pictures go.
    """
    from pinion.bench.trot import draw_walk, speeds_by_command, speeds_table
    from pinion.control import ControlError
    from pinion.control.locomotion.scenario import TrotScenario, shoves
    from pinion.control.track.film import film
    from pinion.control.track.mujoco_robot import library

    scenario = TrotScenario()
    library()  # refuses before the work
    began = time.perf_counter()
    if not json:
        _introduce(scenario)
    with steps() as progress:
        progress.step("Compiling a period of the controller for this machine's CPU")
        model = scenario.model()
        with scenario.plant(model) as plant:
            pushes = shoves(np.random.default_rng(SEED), model, SPEED, duration=DURATION)
            walked = scenario.run(plant, list(COMMANDS.values()), duration=DURATION, pushes=pushes)
        progress.step("Drawing")
        folder.mkdir(parents=True, exist_ok=True)
        pictures = {}
        skipped = ""
        try:
            draw_walk(folder / PICTURE, walked, pushes)
            pictures["walk"] = str(folder / PICTURE)
            progress.step("Drawing the motion")
            film(
                scenario.simulated(model),
                walked.x[:, : model.nq],
                walked.reference[:, :3],
                period=walked.period,
                moving=folder / MOVING,
                still=folder / STILL,
            )
            pictures |= {"moving": str(folder / MOVING), "still": str(folder / STILL)}
        except ControlError as error:
            skipped = str(error)
    data = {
        **walked.figures(),
        "commands": speeds_by_command(walked, COMMANDS, DURATION),
        "pushes": len(pushes),
        "pictures": pictures,
        "film_skipped": skipped,
        "seconds": time.perf_counter() - began,
    }
    if json:
        put_json(data)
    else:
        show(speeds_table(data))
        verdict = f"It fell at {walked.fallen[0]:.2f} s." if walked.fallen else "It did not fall."
        say(verdict, style="bold red" if walked.fallen else "bold green")
        if data["us_median"] is not None:
            say(
                f"A period of {scenario.knots} knots took {data['us_median']:.0f} us at the median."
            )
        say(f"The demonstration took {data['seconds']:.0f} s. No card and no GPU was used.")
        say("\nPictures", style="bold")
        out().print(f"  {'  '.join(pictures.values()) or 'none'}", soft_wrap=True)
        if skipped:
            say(f"The motion itself was not drawn. {skipped}")
    if walked.fallen:
        raise typer.Exit(CHECK_FAILED)


def _introduce(scenario: Any) -> None:
    say("Pinion: whole-body model predictive control", style="bold")
    say(
        f"HyQ trots in MuJoCo for {DURATION:g} s and follows commands, while it is pushed every "
        f"two seconds. Every {1e3 * scenario.period:g} ms the controller solves a horizon of "
        f"{scenario.knots} knots again, with the whole robot's dynamics in contact and their "
        "gradients, compiled for this CPU. Efforts act "
        f"{1e3 * scenario.disturbance.delay:g} ms late, which the controller does not know."
    )
