"""Cores that ``pinion bench core`` compares with published designs.

They are measured like the points of a sweep: kept in a folder, and measured again only if the
sources have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from pinion.console.terminal import say, show

from .comparison import compared_table, critical_table, measured_table, published_table

if TYPE_CHECKING:
    from pinion.flow.explore import Measurements, SweepPoint

CLOCK_MHZ = 250.0
"""Clock of Pinion's cores: assumed, not confirmed by any tool."""

SAMPLES, SEED = 10_000, 0

FOLDER = Path("build") / "bench"

_FINGERS = tuple(f"{arm}_gripper_{side}_finger_joint" for arm in "rl" for side in "lr")


@dataclass(frozen=True, kw_only=True)
class CoreCase:
    """A core to measure.

    Members
    -------
    robot, lock : the robot, and its locked joints.
    function, formats, objective : what is built.
    ii : cycles between results; None for the fewest that link and part allow.
    options : further options of ``build``: ``ranges``, ``max_error``, ``derivatives``.
    """

    robot: str
    function: str
    formats: str = "auto"
    objective: str = "area"
    ii: int | None = 8
    lock: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def distribution(self) -> str:
        """Distribution of states for which the core is built and on which it is measured."""
        return str(self.options.get("ranges", "reference"))

    def point(self) -> SweepPoint:
        """Return the case as a point of :mod:`pinion.cosim.explore`."""
        from pinion.flow.explore import SweepPoint
        from pinion.request import BuildRequest
        from pinion.robot import asked_robot, coupled

        return SweepPoint(
            model=coupled(asked_robot(self.robot, lock=self.lock, snap=True)),
            function=self.function,
            request=BuildRequest().replaced(
                ii=self.ii,
                formats=self.formats,
                objective=self.objective,
                clock_mhz=CLOCK_MHZ,
                **self.options,
            ),
        )


GRADIENT = "fd_derivatives_from_minv"

CASES = (
    CoreCase(robot="iiwa14", function=GRADIENT),
    *(CoreCase(robot="iiwa14", function=GRADIENT, objective=x) for x in ("latency", "throughput")),
    CoreCase(robot="iiwa14", function=GRADIENT, formats="q16.16"),
    *(
        CoreCase(robot="iiwa14", function=name)
        for name in ("fd_derivatives", "rnea_derivatives", "aba", "minv", "rnea")
    ),
    CoreCase(robot="iiwa14", function="aba", objective="latency"),
    *(CoreCase(robot="hyq", function=name, ii=None) for name in (GRADIENT, "aba")),
    *(
        CoreCase(robot="baxter", function=name, ii=None, lock=_FINGERS)
        for name in (GRADIENT, "aba")
    ),
)


def measurements(distribution: str) -> Measurements:
    """Return the measurements to make of a core, on states of a distribution."""
    from pinion.flow.explore import Measurements

    return Measurements(
        samples=SAMPLES, seed=SEED, distribution=distribution, synth=True, verify=True
    )


def measured(
    cases: Sequence[CoreCase],
    folder: Path,
    *,
    measure: bool,
    jobs: int,
    progress: Callable[[int], None],
) -> list[dict[str, Any]]:
    """Return a row per case; figures not measured with this version of the code are None.

    Parameters
    ----------
    folder : of the builds.
    measure : whether to build, verify and synthesise missing cores (many minutes), or only read.
    jobs : number of parallel processes.
    progress : called with 1 for each finished case.
    """
    from pinion.cosim.explore import explore, kept

    points = [case.point() for case in cases]
    verdicts: dict[int, Mapping[str, Any] | None] = {}
    for distribution in dict.fromkeys(case.distribution for case in cases):
        places = [k for k, case in enumerate(cases) if case.distribution == distribution]
        case_points, measures = [points[k] for k in places], measurements(distribution)
        rows: Sequence[Mapping[str, Any] | None]
        if measure:
            rows = explore(
                case_points, folder, measure=measures, jobs=jobs, on_row=lambda row: progress(1)
            )
        else:
            rows = kept(case_points, folder, measure=measures)
        verdicts.update(zip(places, rows, strict=True))
    result = []
    for k, (case, point) in enumerate(zip(cases, points, strict=True)):
        figures = verdicts[k] or {}
        result.append(
            {
                **{"robot": case.robot, "joints": point.model.nv, "locked": list(case.lock)},
                **{"function": case.function, "formats": case.formats},
                **{"objective": case.objective, "options": dict(case.options)},
                "distribution": case.distribution,
                "ii": figures.get("ii") or case.ii,
                **{key: figures.get(key) for key in _MEASURED},
            }
        )
    return result


_MEASURED = (
    *("multipliers", "schedule_cycles", "latency_cycles", "registers"),
    *("dsp", "dsp_source", "lut", "memory_lut", "ff"),
    *("mhz_estimated", "mhz_long_nets", "critical_path"),
    *("rel_err_max", "rel_err_median", "error_max", "error_median", "flagged", "samples"),
    *("mismatches", "verified", "failure", "folder"),
)


def show_comparison(data: Mapping[str, Any]) -> None:
    """Print the four tables, each with a note on the quality of its figures."""
    show(published_table(data["published"]))
    show(measured_table(data["measured"], samples=SAMPLES))
    show(critical_table(data["measured"]))
    for row in data["measured"]:
        sentence = row["failure"]
        if row["verified"] is False:
            sentence = f"The check failed; see `pinion verify {quote(row['folder'])}`."
        if sentence:
            say(f"{row['robot']} {row['function']} {row['formats']}: {sentence}", style="bold red")
    if any(row["verified"] is None and not row["failure"] for row in data["measured"]):
        say(
            "Rows with dashes were not measured with this version of the sources; 'pinion bench "
            "core --measure' measures them, and continues after an interruption."
        )
    show(compared_table(data["compared"], clock_mhz=CLOCK_MHZ))
