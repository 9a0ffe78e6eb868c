"""Table and picture of a walk that follows velocity commands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pinion.base.amounts import amount
from pinion.control import ControlError
from pinion.control.locomotion.walk import Push, Walk, base_speeds
from pinion.report import FigureTable
from pinion.report.palette import ALARM, DPI, FAINT, INK


def speeds_by_command(
    walked: Walk, commands: Mapping[str, tuple[float, ...]], duration: float
) -> list[dict[str, Any]]:
    """Return the mean speeds during each command, from one second after its start to its end.

    Parameters
    ----------
    commands : rows of :func:`pinion.control.locomotion.gait.gait_motion`, by name.
    duration : of the walk [s].
    """
    ends = [row[0] for row in commands.values()][1:] + [duration]
    return [
        {"command": name, "commanded": speeds, "mean": walked.mean_speeds(begin + 1.0, end)}
        for (name, (begin, *speeds)), end in zip(commands.items(), ends, strict=True)
    ]


def speeds_table(data: Mapping[str, Any]) -> FigureTable:
    """Return the table of commanded and mean speeds."""
    return FigureTable(
        title="Mean speeds, and the commanded ones",
        columns=("command", "forward, m/s", "to the left, m/s", "turning, rad/s"),
        rows=[
            (
                row["command"],
                *(
                    None if row["mean"] is None else f"{row['mean'][at]:.3f} ({speed:g})"
                    for at, speed in enumerate(row["commanded"])
                ),
            )
            for row in data["commands"]
        ],
        note=(
            "Along the base's heading, from a second after each command to its end, with "
            f"{data['pushes']} pushes of a tenth of the robot's weight for 0.1 s."
        ),
    )


def draw_walk(path: Path, walked: Walk, pushes: list[Push]) -> None:
    """Draw a walk: the path of the base from above, its speeds, and the feet on the ground.

    Parameters
    ----------
    path : of the picture; its suffix selects the format.

    Raises
    ------
    ControlError
        If the walk has fewer than two periods.
    """
    if len(walked.x) < 2:
        why = "" if walked.fallen is None else f", because the robot fell ({walked.fallen[1]})"
        raise ControlError(
            f"The walk ended after {amount(len(walked.x), 'period')}{why}: a picture needs at "
            "least two."
        )
    figure = Figure(figsize=(11.0, 6.0), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    above, speeds, feet = figure.subplot_mosaic(
        [["above", "speeds"], ["above", "feet"]], height_ratios=(2, 1)
    ).values()
    times = walked.period * np.arange(len(walked.x))
    above.plot(*walked.reference[:, :2].T, color=FAINT, linewidth=4, alpha=0.5, label="commanded")
    above.plot(*walked.x[:, :2].T, color=INK, linewidth=1.2, label="base")
    above.set(aspect="equal", xlabel="x, m", ylabel="y, m")
    above.set_title("The base from above", fontsize=10)
    colours = ("#1b6ca8", "#76b041", "#8a4f9e")
    names = ("forward, m/s", "to the left, m/s", "turning, rad/s")
    for states, width, alpha in ((walked.reference, 4.0, 0.35), (walked.x, 1.2, 1.0)):
        for rate, colour, name in zip(_speeds(states, walked.period), colours, names, strict=True):
            label = name if alpha == 1.0 else None
            speeds.plot(times, rate, color=colour, linewidth=width, alpha=alpha, label=label)
    for push in pushes:
        speeds.axvspan(push.begin, push.begin + push.duration, color=ALARM, alpha=0.5)
    speeds.set_title("Speeds, commanded ones wide, pushes in red", fontsize=10)
    for foot, (on, planned) in enumerate(zip(walked.active.T, walked.planned.T, strict=True)):
        feet.fill_between(times, foot + 0.1, foot + 0.9, planned > 0, color=FAINT, alpha=0.4)
        feet.fill_between(times, foot + 0.3, foot + 0.7, on > 0, color=INK, linewidth=0)
    feet.set(xlim=(0.0, min(4.0, times[-1])), yticks=[], xlabel="s")
    feet.set_title("Feet on the ground, planned ones gray", fontsize=10)
    for axes in (above, speeds, feet):
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    above.legend(frameon=False)
    speeds.set_ylim(top=1.15 * speeds.get_ylim()[1])
    speeds.legend(frameon=False, ncols=3, fontsize=8, loc="upper center")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _speeds(x: np.ndarray, period: float, window: float = 0.5) -> np.ndarray:
    """Return forward, leftward and yaw speeds, (3, m), as moving averages over a window [s]."""
    raw = base_speeds(x, period)
    raw = np.concatenate([raw, raw[:, -1:]], axis=1)
    rows = max(1, round(window / period))
    kernel = np.ones(rows) / rows
    return np.stack(
        [
            np.convolve(np.pad(rate, rows // 2, "edge"), kernel, "same")[
                rows // 2 : rows // 2 + len(x)
            ]
            for rate in raw
        ]
    )
