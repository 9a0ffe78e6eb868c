"""``pinion demo mpc``: a figure-eight tracked by model predictive control, with pictures."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import typer

from pinion.bench.mpc.tracking import finding, solve_times_table, tracking_table
from pinion.console.errors import CHECK_FAILED
from pinion.console.terminal import out, put_json, say, show, steps

ROWS = ("cpu64", "cpu32")
PICTURE, MOVING, STILL = "tracking.png", "motion.gif", "motion.png"


def run(*, folder: Path, json: bool) -> None:
    """Track the figure-eight, draw the pictures, and print or write the figures as JSON.

    Parameters
    ----------
    folder : where the pictures go.
    """
    from pinion.bench.mpc.comparison import compare
    from pinion.bench.mpc.picture import draw_tracking
    from pinion.control import ControlError
    from pinion.control.track.film import film
    from pinion.control.track.mujoco_robot import library
    from pinion.control.track.scenario import Scenario

    scenario = Scenario()
    library()  # refuses before the work
    if not json:
        _introduce(scenario)
    began = time.perf_counter()
    with steps() as progress:
        progress.step("Compiling for this machine's CPU")
        compared = compare(scenario, rows=ROWS, progress=progress)
        data: dict[str, Any] = {"bench": "mpc", **compared.figures()}
        progress.step("Drawing")
        folder.mkdir(parents=True, exist_ok=True)
        draw_tracking(folder / PICTURE, data)
        pictures = {"tracking": str(folder / PICTURE)}
        tracked = compared.cases[0].tracked
        progress.step("Drawing the motion")
        skipped = ""
        try:
            film(
                scenario.simulated(),
                tracked.x[:, : tracked.tau.shape[1]],
                tracked.reference,
                period=tracked.period,
                moving=folder / MOVING,
                still=folder / STILL,
            )
            pictures |= {"moving": str(folder / MOVING), "still": str(folder / STILL)}
        except ControlError as error:
            skipped = str(error)
    data |= {
        "pictures": pictures,
        "film_skipped": skipped,
        "seconds": time.perf_counter() - began,
    }
    ok = data["ok"] and data["within"]
    if json:
        put_json(data)
    else:
        show(tracking_table(data))
        show(solve_times_table(data))
        say(finding(data), style="bold green" if ok else "bold red")
        say(f"The demonstration took {data['seconds']:.0f} s. No card and no GPU was used.")
        say("\nPictures", style="bold")
        out().print(f"  {'  '.join(pictures.values())}", soft_wrap=True)
        if skipped:
            say(f"The motion itself was not drawn. {skipped}")
    if not ok:
        raise typer.Exit(CHECK_FAILED)


def _introduce(scenario: Any) -> None:
    unknown = scenario.disturbance
    say("Pinion: model predictive control", style="bold")
    say(
        f"The tip of the {scenario.robot} draws a figure-eight for {scenario.duration:g} s. Every "
        f"{1e3 * scenario.period:g} ms the controller solves a horizon of {scenario.knots} knots "
        f"again, with gradients that are compiled for this CPU. MuJoCo simulates the robot, "
        f"which carries {unknown.payload:g} kg, has friction and reacts {1e3 * unknown.delay:g} ms "
        "late; the controller knows none of this."
    )
