"""Tracking of one motion with gradients from every backend, in one run.

Rows differ in the source of gradients. On the CPU the whole period is compiled, in the gradients'
dtype; the others share NumPy code in float64, with a compiled tip and compiled steps. So
tracking shows the quality of gradients, and time what a period costs. Rows: the float model, this
machine's CPU, a GPU if there is one, the exact integers of a build, and the build's RTL through the
driver, where every answer is compared with these integers.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pinion import driver
from pinion.api import CardBackend, backend
from pinion.base.arrays import Floats
from pinion.base.installation import missing_module
from pinion.base.progress import SILENT, Progress
from pinion.batch import InputError
from pinion.control import ControlError
from pinion.control.plant import Float64, gradient_row
from pinion.control.track.closed_loop import MICRO, MM, Tracked, track
from pinion.control.track.integers import Compared, IntegerModel
from pinion.control.track.motion import Motion
from pinion.control.track.scenario import Scenario
from pinion.link import Manifest, layout_of
from pinion.link.manifest import MANIFEST
from pinion.link.transfer import FIXED_US, LINKS, estimate_time
from pinion.native import ComputeError

ROWS = ("float64", "cpu64", "cpu32", "cuda", "integers", "card")
"""Sources of gradients; the first one is the reference for the others."""

COMPILED = ("cpu64", "cpu32")
"""Rows whose whole period is compiled."""

ALLOWED = 0.01
"""Relative amount by which a row's errors may differ from the first row's."""

EVERY = 25
"""Periods between the points of a picture."""


@dataclass(frozen=True)
class ComparisonRow:
    """A row of the comparison: a tracked motion, and the check of a card's gradients.

    Members
    -------
    name : of :data:`ROWS`.
    tracked : the motion.
    seconds : total time, including the robot's simulation.
    compared, mismatches : numbers of a card's gradients compared with the integers, or None.
    first : description of the first mismatch.
    """

    name: str
    tracked: Tracked
    seconds: float
    compared: int | None = None
    mismatches: int | None = None
    first: str = ""


def run_case(
    name: str,
    scenario: Scenario,
    motion: Motion,
    *,
    folder: Path | None = None,
    card: str = "sim",
    progress: Progress = SILENT,
) -> ComparisonRow:
    """Track the motion with gradients from one backend.

    Parameters
    ----------
    name : of :data:`ROWS`.
    folder : the build of ``integers`` and ``card``.
    card : as for :func:`pinion.driver.open`.
    progress : receives the number of finished periods from time to time.

    Raises
    ------
    ControlError
        If the row is unknown, or it needs a build and none is given.
    """
    watched: Compared | None = None
    model = scenario.model()
    if name == "float64":
        plant = scenario.plant_of(Float64(model, gradient_row()))
    elif name in ("cpu64", "cpu32"):
        dtype = {"cpu64": "float64", "cpu32": "float32"}[name]
        # One thread: a horizon is too little work to share.
        plant = scenario.plant("cpu", dtype=dtype, threads=1)
    elif name == "cuda":
        plant = scenario.plant_of(backend(model, gradient_row(), device="cuda", dtype="float32"))
    elif name not in ROWS:
        raise ControlError(f"There is no backend '{name}': choose from {', '.join(ROWS)}.")
    elif folder is None:
        raise ControlError(f"The backend '{name}' needs a build: give the build's folder.")
    elif name == "integers":
        plant = scenario.plant_of(IntegerModel(folder))
    else:
        integers = IntegerModel(folder)
        opened = CardBackend(
            device=driver.open(folder, device=card), folder=folder, temporary=False
        )
        watched = Compared(opened, integers)
        plant = scenario.plant_of(watched)

    def count(periods: int, total: int) -> None:
        if periods % 50 == 0 or periods == total:
            progress.step(f"{name}: {periods:,} of {total:,} periods")

    began = time.perf_counter()
    with scenario.controller(plant, motion) as controller:
        tracked = track(controller, scenario.simulated(), report=count)
    seconds = time.perf_counter() - began
    if watched is None:
        return ComparisonRow(name, tracked, seconds)
    return ComparisonRow(
        name, tracked, seconds, watched.compared, watched.mismatches, watched.first
    )  # closing compares the remaining answers


@dataclass(frozen=True)
class MpcComparison:
    """The completed rows of a comparison.

    Members
    -------
    scenario, folder, card : the arguments.
    cases : rows, the first of which is the reference.
    calm : the CPU's row with a robot without disturbances.
    left_out : reasons by name.
    """

    scenario: Scenario
    folder: Path | None
    card: str
    cases: tuple[ComparisonRow, ...]
    calm: ComparisonRow
    left_out: dict[str, str]

    def figures(self) -> dict[str, Any]:
        """Return the data of the comparison as JSON values.

        ``rows``: figures of each (:meth:`.closed_loop.Tracked.figures`), and the differences of its
        error and path from the first row's; ``undisturbed``: those of `calm`; ``card_model``: times
        of a real card; ``series``: for the picture; ``left_out``; ``within``: every error is within
        :data:`ALLOWED` of the first row's; ``ok``: no mismatch of a card of which some gradient was
        compared, no restart and, if both ran, one path of card and integers.
        """
        first = self.cases[0].tracked
        rows = [_row(case, first) for case in self.cases]
        same = _same_path(self.cases)
        over = [abs(row[key]) for row in rows for key in ("rms_over", "max_over")]
        clean = all(
            row["compared"] != 0 and not row["mismatches"] and not row["restarts"] for row in rows
        )
        model = None
        if self.folder is not None and (self.folder / MANIFEST).is_file():
            on_arrays = [case for case in self.cases if case.name not in COMPILED]
            host = [*on_arrays, *self.cases][0]
            model = card_model(self.folder, self.scenario, host)
        return {
            "rows": rows,
            "reference": self.cases[0].name,
            "card": self.card,
            "card_path_is_the_integers": same,
            "scenario": _settings(self.scenario),
            "undisturbed": _row(self.calm, first),
            "left_out": self.left_out,
            "series": _series(self.cases),
            "card_model": model,
            "allowed": ALLOWED,
            "within": all(value <= ALLOWED for value in over),  # False for NaN
            "ok": same is not False and clean,
        }


def compare(
    scenario: Scenario,
    *,
    rows: Sequence[str] = ROWS,
    folder: Path | None = None,
    card: str = "sim",
    progress: Progress = SILENT,
) -> MpcComparison:
    """Track one motion with every backend.

    Parameters
    ----------
    scenario : robot, figure, controller and disturbances.
    rows : of :data:`ROWS`; a missing GPU is left out with the reason.
    folder, card, progress : as for :func:`run_case`.
    """
    motion = scenario.motion()
    cases: list[ComparisonRow] = []
    left_out: dict[str, str] = {}
    for name in rows:
        try:
            cases.append(
                run_case(name, scenario, motion, folder=folder, card=card, progress=progress)
            )
        except (InputError, ComputeError, ModuleNotFoundError) as error:
            if name != "cuda":
                raise
            reason = str(error)
            if isinstance(error, ModuleNotFoundError):
                reason = missing_module(error) or reason
            left_out[name] = reason
    if not cases:
        raise ControlError(" ".join(["No backend can be run.", *left_out.values()]))
    calm = run_case("cpu64", without_disturbance(scenario), motion, progress=progress)
    return MpcComparison(scenario, folder, card, tuple(cases), calm, left_out)


def card_model(folder: Path, scenario: Scenario, host: ComparisonRow) -> dict[str, Any]:
    """Model a card's time for the gradients of a horizon, and the resulting rates.

    The times are the link's least and most for a batch of one horizon (:mod:`pinion.link.transfer`)
    and the host's own as measured with the controller on arrays, which a card's gradients need.
    """
    manifest = Manifest.read(folder)
    layout = layout_of(manifest)
    host_parts = [host.tracked.seconds[part] for part in ("backward", "rest")]
    host_us = MICRO * float(np.median(sum(host_parts)))
    rows = []
    for link in LINKS:
        estimated = estimate_time(manifest, layout, link, scenario.knots)
        batches = scenario.iterations
        least, most = batches * estimated["least_us"], batches * estimated["most_us"]
        rows.append(
            {
                "link": link.name,
                "least_us": least,
                "most_us": most,
                "card_us": batches * estimated["card_us"],
                "hz_most": MICRO / (host_us + least),
                "hz_least": MICRO / (host_us + most),
                "gradients_hz_most": MICRO / least,
                "gradients_hz_least": MICRO / most,
            }
        )
    return {
        "measured": False,
        "formats": manifest.formats,
        "ii": manifest.ii,
        "core_mhz": manifest.clock_mhz,
        "fixed_us": list(FIXED_US),
        "requests": scenario.knots,
        "host_us": host_us,
        "host_row": host.name,
        "links": rows,
    }


def _row(case: ComparisonRow, first: Tracked) -> dict[str, Any]:
    figures = case.tracked.figures()
    base = first.figures()
    apart = np.linalg.norm(case.tracked.tip - first.tip, axis=1)
    return {
        "name": case.name,
        **figures,
        "rms_over": figures["rms_mm"] / base["rms_mm"] - 1.0,
        "max_over": figures["max_mm"] / base["max_mm"] - 1.0,
        "apart_mm": MM * float(apart.max()),
        "seconds": case.seconds,
        "compared": case.compared,
        "mismatches": case.mismatches,
        "first_mismatch": case.first,
    }


def _same_path(cases: Sequence[ComparisonRow]) -> bool | None:
    """Return whether card and integers give the same states and efforts; None if one is missing."""
    tracked = {case.name: case.tracked for case in cases}
    if "card" not in tracked or "integers" not in tracked:
        return None
    ours, theirs = tracked["card"], tracked["integers"]
    return bool(np.array_equal(ours.x, theirs.x) and np.array_equal(ours.tau, theirs.tau))


def _settings(scenario: Scenario) -> dict[str, Any]:
    d = scenario.disturbance
    return {
        **{key: getattr(scenario, key) for key in ("robot", "duration", "period", "step")},
        **{key: getattr(scenario, key) for key in ("knots", "iterations", "inner")},
        **{key: getattr(scenario, key) for key in ("width", "height", "lap")},
        "horizon": scenario.knots * scenario.step,
        **{key: getattr(d, key) for key in ("payload", "damping", "friction", "delay")},
        "offset": list(d.offset),
    }


def _series(cases: Sequence[ComparisonRow]) -> dict[str, Any]:
    """Return the picture's data: paths in the motion's plane, and errors over time [mm]."""
    first = cases[0].tracked
    count = len(first.tip)
    at = np.unique(np.append(np.arange(0, count, EVERY), count - 1))
    centre = first.reference.mean(axis=0)
    # The plane of the figure: the two directions in which it is widest.
    _, _, axes = np.linalg.svd(first.reference - centre, full_matrices=False)
    axes = np.array([axis if axis[np.argmax(np.abs(axis))] > 0 else -axis for axis in axes[:2]])

    def flat(places: Floats) -> list[list[float]]:
        return [[round(float(x), 7) for x in p] for p in (places[at] - centre) @ axes.T]

    def apart(case: ComparisonRow) -> list[float]:
        away = MM * np.linalg.norm(case.tracked.tip - first.tip, axis=1)
        return [float(f"{x:.3g}") for x in away[at]]

    return {
        "t": [round(float(k) * first.period, 6) for k in at],
        "wanted": flat(first.reference),
        "rows": {
            case.name: {
                "path": flat(case.tracked.tip),
                "error_mm": [float(f"{MM * x:.5g}") for x in case.tracked.errors[at]],
                "apart_mm": apart(case),
            }
            for case in cases
        },
    }


def without_disturbance(scenario: Scenario) -> Scenario:
    """Return the scenario with a robot that matches the controller's model."""
    return replace(scenario, disturbance=type(scenario.disturbance)())
