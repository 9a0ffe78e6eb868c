"""Measurement of the points of a design space, each in a separate process and folder.

A point's folder has the build and ``point.json``, which is replaced after each stage (build,
errors, synthesis, verification). An interruption therefore loses only the stage in progress, and
the next sweep starts at the first missing stage.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pinion.flow import Build, build
from pinion.flow.explore import ExploreError, Measurements, SweepPoint, best, code_version
from pinion.functions import sample
from pinion.gateware.emit import RTLIL
from pinion.link import Manifest, ManifestError
from pinion.link.digests import check_digests
from pinion.request import BuildRequest
from pinion.robot import model_from_dict, model_to_dict
from pinion.synthesis import synth
from pinion.synthesis.estimate import estimate_dsp

from .reference import Reference, float_values, request_words
from .verify import FLAGGED_SHARE, verify

POINTS, BUILD, RECORD = "points", "build", "point.json"

# Seconds within which a process must stop its tools.
_GRACE = 5.0

# Seconds after which a process that could not exit tries again.
_AGAIN = 0.01

Row = dict[str, Any]

Outcomes = Generator[tuple[SweepPoint, str | None], None, None]
"""Measured points, each with its failure, if any."""

Runner = Callable[[Sequence[SweepPoint], Path, Measurements], Outcomes]
"""Function that measures points into their folders (`point_folder`) in a sweep's folder."""


def explore(
    points: Sequence[SweepPoint],
    folder: Path,
    *,
    measure: Measurements,
    jobs: int = 1,
    on_row: Callable[[Row], None] = lambda row: None,
    elsewhere: Runner | None = None,
) -> list[Row]:
    """Measure points, several in parallel; complete earlier measurements are reused.

    Parameters
    ----------
    folder : the sweep's folder; points go into its folder ``points``.
    jobs : number of concurrent processes.
    on_row : called with each row when it is finished, in any order.
    elsewhere : runs the points instead of processes on this machine; ``jobs`` is ignored.

    Returns
    -------
    One row per point, in the order of the points, with None for what was not measured.
    ``point`` (its key), ``folder`` (of the build), ``robot``, ``function``, ``options``;
    ``ii, formats, multipliers, table_multipliers, adders, registers, schedule_cycles,
    latency_cycles, clock_mhz`` (assumed), ``results_per_second`` (at that clock);
    ``dsp`` with ``dsp_source`` (``synth`` or ``estimate``), ``lut, memory_lut`` (LUTs as memory),
    ``ff``; ``mhz_estimated`` with typical nets and its ``critical_path``, as in the ``timing`` of
    :func:`pinion.synthesis.synth.synth`, with its ``levels``; ``mhz_long_nets``;
    ``error_max, error_median`` of the worst block of results, ``error_block``, ``rel_err_max,
    rel_err_median`` by block, ``flagged``, ``valid`` (neither flagged nor undecided, so that their
    errors count), ``samples``, ``seed``, ``distribution``; ``mismatches``, ``verified``;
    ``version`` of the sources, ``seconds`` it took, ``resumed``; ``failure``, a message if a
    point could not be measured completely; ``usable``, false if it failed, has mismatches, flags
    too many of its states or has no valid result; ``pareto``, whether it is usable and no usable
    row beats it.

    Raises
    ------
    ExploreError
        If no point, sample or process is requested.
    KeyboardInterrupt
        After the processes have been stopped; finished points remain.
    """
    if not points:
        raise ExploreError("There are no points to explore: give every option at least one value.")
    if jobs < 1:
        raise ExploreError(f"The number of jobs (--jobs) must be at least 1, not {jobs}.")
    if measure.samples < 1:
        raise ExploreError(f"Measuring errors needs at least 1 sample, not {measure.samples}.")
    version = code_version()
    rows: dict[str, Row] = {}
    waiting = []
    for point in {point.key: point for point in points}.values():
        if _missing(point, folder, measure, version):
            waiting.append(point)
        else:
            rows[point.key] = _row(point, folder, measure, version, resumed=True)
            on_row(rows[point.key])
    runner = elsewhere or partial(_run, jobs=jobs)
    with _no_orphans(), closing(runner(waiting, folder, measure)) as running:
        for point, failure in running:
            # The sources may change during a sweep: a finished point records its version.
            of = version if failure else None
            rows[point.key] = _row(point, folder, measure, of, failure=failure)
            on_row(rows[point.key])
    table = [dict(rows[point.key]) for point in points]
    for row in table:
        row["usable"] = _usable(row)
    entries = [row if row["usable"] else {} for row in table]
    for row, good in zip(table, best(entries), strict=True):
        row["pareto"] = good
    return table


def point_folder(point: SweepPoint, folder: Path) -> Path:
    """Return the path of a point's subfolder in a sweep's folder."""
    return folder / POINTS / point.key


def kept(points: Sequence[SweepPoint], folder: Path, *, measure: Measurements) -> list[Row | None]:
    """Return a row for each point that this version has measured completely, None for others."""
    version = code_version()
    return [
        None
        if _missing(point, folder, measure, version)
        else _row(point, folder, measure, version, resumed=True)
        for point in points
    ]


def _row(
    point: SweepPoint,
    folder: Path,
    measure: Measurements,
    version: str | None,
    *,
    failure: str | None = None,
    resumed: bool = False,
) -> Row:
    """Return a point's row, with None for quantities that are not measured."""
    place = point_folder(point, folder)
    record = _read(place, point, version)
    measured = [record[stage] for stage, of in measure.stages().items() if _has(record, stage, of)]
    row: Row = {
        "point": point.key,
        "folder": str(place / BUILD),
        "robot": point.model.name,
        "function": point.function,
        "options": point.content["options"],
        **dict.fromkeys(_FIGURES),
        # The requested values, until the build gives the actual ones.
        "ii": point.request.ii,
        "formats": point.request.formats,
        "samples": measure.samples,
        "seed": measure.seed,
        "distribution": measure.distribution,
        "version": record.get("version"),
    }
    for figures in measured:
        row |= {key: value for key, value in figures.items() if key in _FIGURES}
    if row["dsp"] is None and row["dsp_estimate"] is not None:
        row["dsp"], row["dsp_source"] = row["dsp_estimate"], "estimate"
    row["seconds"] = round(sum(figures["seconds"] for figures in measured), 1)
    return {**row, "resumed": resumed, "failure": failure}


_FIGURES = (
    *("ii", "formats", "multipliers", "table_multipliers", "adders", "registers"),
    *("schedule_cycles", "latency_cycles", "clock_mhz", "results_per_second"),
    *("dsp", "dsp_source", "dsp_estimate", "lut", "memory_lut", "ff", "levels"),
    *("mhz_estimated", "mhz_long_nets", "critical_path"),
    *("error_max", "error_median", "error_block", "rel_err_max", "rel_err_median", "flagged"),
    *("valid", "mismatches", "verified"),
)


def _usable(row: Row) -> bool:
    """Return whether a point was measured without failure or mismatch and with few flags."""
    works = row["dsp"] is not None and not row["failure"] and not row["mismatches"]
    works &= row["verified"] is not False  # None if the RTL was not simulated
    return bool(works and row["valid"] and row["flagged"] <= FLAGGED_SHARE * row["samples"])


def _missing(point: SweepPoint, folder: Path, measure: Measurements, version: str) -> list[str]:
    """Return the stages that a point still has to run, in order; all if its build is damaged."""
    place = point_folder(point, folder)
    record, stages = _read(place, point, version), measure.stages()
    missing = [stage for stage, of in stages.items() if not _has(record, stage, of)]
    try:
        if missing:  # these stages read the build
            check_digests(place / BUILD)
        intact = not missing or f"{Manifest.read(place / BUILD).hash:016x}" == record["hash"]
    except (ManifestError, KeyError):
        intact = False
    return missing if intact else list(stages)


def _has(record: Mapping[str, Any], stage: str, of: Mapping[str, Any]) -> bool:
    """Return whether a record contains a stage that was run with the same settings."""
    return isinstance(record.get(stage), dict) and record[stage].get("of") == of


def _read(place: Path, point: SweepPoint, version: str | None) -> dict[str, Any]:
    """Read a point's record if it is from a code version (None: any); {} without one."""
    try:
        record = json.loads((place / RECORD).read_text())
        same = version in (None, record["version"]) and record["content"] == point.content
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return record if same else {}


def _run(points: Sequence[SweepPoint], folder: Path, measure: Measurements, jobs: int) -> Outcomes:
    """Measure each point in a new process; yield each point with its failure, if any.

    Each point has a pool of one process: a crash ends only that point, and its memory is freed.
    """
    queue = list(reversed(points))
    running: dict[Future[str | None], tuple[SweepPoint, ProcessPoolExecutor]] = {}
    try:
        while queue or running:
            while queue and len(running) < jobs:
                point = queue.pop()
                # spawn, because a fork of a process with threads may deadlock.
                context = multiprocessing.get_context("spawn")
                pool = ProcessPoolExecutor(1, mp_context=context, initializer=_prepare)
                with _without_interrupts():
                    future = pool.submit(measure_point, *task_of(point, folder, measure))
                running[future] = (point, pool)
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                point, pool = running.pop(future)
                pool.shutdown(wait=True)
                yield point, _outcome(future)
    finally:
        for _, pool in running.values():
            pool.shutdown(wait=False, cancel_futures=True)


def _outcome(future: Future[str | None]) -> str | None:
    try:
        return future.result()
    except (BrokenProcessPool, SystemExit):
        return (
            "The process was stopped, perhaps for lack of memory; with several jobs (--jobs), try "
            "fewer."
        )


def task_of(
    point: SweepPoint, folder: Path, measure: Measurements
) -> tuple[dict[str, Any], str, BuildRequest, Path, Measurements]:
    """Return the arguments of `measure_point` in a form that another process can receive."""
    model = model_to_dict(point.model)
    return model, point.function, point.request, folder, measure


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block SIGINT in processes started in the context; this process receives it afterwards.

    A process that is interrupted while it starts would print a traceback.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    # A blocked signal can still reach the process through a library's thread; Python then runs its
    # handler in the main thread, which is this one.
    received: list[int] = []
    handler = None
    if threading.current_thread() is threading.main_thread():
        handler = signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    try:
        yield
    finally:
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if received:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def _no_orphans() -> Iterator[None]:
    """Stop the processes started in the context if an exception leaves it."""
    existing = set(multiprocessing.active_children())
    try:
        yield
    except BaseException:
        started = [p for p in multiprocessing.active_children() if p not in existing]
        for process in started:
            process.terminate()
        for process in started:
            process.join(_GRACE)
            process.kill()
        raise


def _prepare() -> None:
    """Make a new process end on SIGTERM or with its parent, together with the tools it runs."""
    threading.Thread(target=_follow, daemon=True).start()
    sys.unraisablehook = _exit_later
    # An exception, so that tools are stopped and temporary folders removed. Installed last, because
    # the pool prints an exception that ends this function.
    for number in (signal.SIGALRM, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(1))


def _exit_later(lost: sys.UnraisableHookArgs) -> None:
    """Retry the exit after a delay if Python dropped SystemExit in a destructor."""
    if issubclass(lost.exc_type, SystemExit):
        signal.setitimer(signal.ITIMER_REAL, _AGAIN)
    else:
        sys.__unraisablehook__(lost)


def _follow() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_GRACE)
        os._exit(1)


def measure_point(
    model: Mapping[str, Any],
    function: str,
    request: BuildRequest,
    folder: Path,
    measure: Measurements,
) -> str | None:
    """Take and record a point's missing measurements; return an error message if one fails."""
    point = SweepPoint(model=model_from_dict(model), function=function, request=request)
    place = point_folder(point, folder)
    version = code_version()
    missing = _missing(point, folder, measure, version)
    if "build" in missing:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        record: dict[str, Any] = {"version": version, "content": point.content}
    else:
        record = _read(place, point, version)
    for stage in measure.stages():
        if stage not in missing:
            continue
        start = time.perf_counter()
        try:
            figures = _MEASURES[stage](point, place / BUILD, measure)
        except Exception as error:
            # Pinion's own errors are sentences. Any other is a defect: store its traceback.
            if not type(error).__module__.startswith("pinion."):
                (place / "error.txt").write_text(traceback.format_exc())
                log = f"{POINTS}/{point.key}/error.txt"  # a worker's folder is temporary
                return f"{stage}: {type(error).__name__}: {error}; see {log} in the sweep's folder."
            return " ".join(str(error).split())
        seconds = time.perf_counter() - start
        record |= {stage: {**figures, "of": measure.stages()[stage], "seconds": seconds}}
        if stage == "build":
            record["hash"] = figures["hash"]
        part = place / f"{RECORD}.part"
        part.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n")
        os.replace(part, place / RECORD)
    return None


def _build(point: SweepPoint, folder: Path, measure: Measurements) -> dict[str, Any]:
    row = point.request.row.row(point.function)
    manifest = build(point.model, row, folder, point.request).manifest
    return {
        "hash": f"{manifest.hash:016x}",
        **{key: value for key, value in manifest.to_dict().items() if key in _FIGURES},
        "results_per_second": manifest.clock_mhz * 1e6 / manifest.ii,
        "dsp_estimate": estimate_dsp((folder / RTLIL).read_text()),
    }


def _synth(point: SweepPoint, folder: Path, measure: Measurements) -> dict[str, Any]:
    counted = synth(folder)
    timing = counted["timing"]
    return {key: counted[key] for key in ("dsp", "lut", "ff", "bram", "levels", "tool")} | {
        "dsp_source": "synth",
        "memory_lut": counted["srl"] + counted["lutram"],
        "mhz_estimated": timing["mhz"]["typical"],
        "mhz_long_nets": timing["mhz"]["long"],
        "critical_path": timing["paths"][0] if timing["paths"] else None,
    }


def _verify(point: SweepPoint, folder: Path, measure: Measurements) -> dict[str, Any]:
    figures = verify(
        folder, samples=measure.samples, seed=measure.seed, distribution=measure.distribution
    )
    return {"mismatches": figures["mismatches"], "verified": figures["ok"]}


def _errors(point: SweepPoint, folder: Path, measure: Measurements) -> dict[str, Any]:
    """Return the relative errors of the integer model (:mod:`pinion.link.relative`)."""
    core_build = Build.read(folder)
    reference = Reference(core_build)
    words = request_words(
        core_build.manifest,
        sample(
            core_build.model,
            core_build.function,
            measure.samples,
            distribution=measure.distribution,
            seed=measure.seed,
        ),
    )
    bits, flags = reference.expected(words)
    comparison = reference.comparison(words, float_values(bits), flags)
    valid, largest = comparison.valid, comparison.largest
    median = {name: float(np.median(comparison.relative[name][valid])) for name in largest}
    worst = max(largest, key=lambda name: largest[name], default=None)
    return {
        "error_max": None if worst is None else largest[worst],
        "error_median": max(median.values(), default=None),
        "error_block": worst,
        "rel_err_max": largest,
        "rel_err_median": median,
        "flagged": int(flags.sum()),
        "valid": int(valid.sum()),
    }


_MEASURES: dict[str, Callable[[SweepPoint, Path, Measurements], dict[str, Any]]] = {
    "build": _build,
    "errors": _errors,
    "synth": _synth,
    "verify": _verify,
}
