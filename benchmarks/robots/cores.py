"""Cores for published robot files, built and verified in simulation."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from benchmarks.robots.opening import Refused, opened

from pinion.base.progress import Progress
from pinion.cosim.verify import verify
from pinion.flow.build import build
from pinion.functions import named_function
from pinion.request import BuildRequest

RECORD = "cores.json"
"""File of a folder's measurements, from which an interrupted run continues."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A core to build: file name without its suffix, function, and cycles between results."""

    robot: str
    function: str
    ii: int


CASES = (
    Case(robot="double_pendulum", function="rnea", ii=8),
    Case(robot="TwoDofs", function="aba", ii=8),
    Case(robot="finger_edu", function="rnea", ii=8),
    Case(robot="iris", function="rnea", ii=16),
    Case(robot="ur5_robot", function="rnea", ii=8),
    Case(robot="ur10_robot", function="aba", ii=16),
    Case(robot="so100", function="rnea", ii=8),
    Case(robot="kinova", function="rnea", ii=8),
    Case(robot="z1", function="rnea", ii=8),
    Case(robot="xarm7", function="rnea", ii=8),
    Case(robot="panda", function="rnea", ii=16),
    Case(robot="solo", function="rnea", ii=16),
    Case(robot="bolt", function="rnea", ii=16),
    Case(robot="hyq_no_sensors", function="rnea", ii=16),
)
"""Small and medium robots, the smallest first."""


@dataclass(frozen=True, kw_only=True)
class Core:
    """Results of a core; if it failed, ``failure`` is the reason and the rest is None."""

    robot: str
    joints: int
    function: str
    ii: int
    multipliers: int | None = None
    schedule: int | None = None
    requests: int | None = None
    mismatches: int | None = None
    error: float | None = None
    failure: str = ""


class TooLongError(Exception):
    """Error for a core that exceeded its time limit."""


def measured(
    files: dict[str, Path],
    folder: Path,
    *,
    requests: int,
    seconds: int,
    progress: Progress,
) -> Iterator[Core]:
    """Build and verify the cases one after another, except those measured earlier.

    Parameters
    ----------
    files : by name without suffix.
    folder : of the builds.
    requests : number of requests for each core.
    seconds : time limit of a core.
    """
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / RECORD
    recorded = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    for case in CASES:
        if case.robot not in files:
            continue
        key = f"{case.robot} {case.function} {case.ii} {requests}"
        if key not in recorded:
            progress.step(key)
            core = _core(case, files[case.robot], folder, requests=requests, seconds=seconds)
            recorded[key] = asdict(core)
            record.write_text(json.dumps(recorded, indent=1), encoding="utf-8")
        yield Core(**recorded[key])


def _core(case: Case, path: Path, folder: Path, *, requests: int, seconds: int) -> Core:
    robot = opened(path, floating_base=False, snap=True)
    if isinstance(robot, Refused):
        return Core(robot=case.robot, joints=0, function=case.function, ii=case.ii,
                    failure=robot.reason)  # fmt: skip
    joints = robot.model.nv
    try:
        with _limit(seconds):
            place = folder / f"{case.robot}_{case.function}"
            request = BuildRequest(ii=case.ii, formats="auto")
            manifest = build(robot.model, named_function(case.function), place, request).manifest
            result = verify(place, samples=requests)
    except (ValueError, RuntimeError, TooLongError) as error:
        return Core(robot=case.robot, joints=joints, function=case.function, ii=case.ii,
                    failure=str(error))  # fmt: skip
    return Core(
        robot=case.robot,
        joints=joints,
        function=case.function,
        ii=case.ii,
        multipliers=manifest.multipliers,
        schedule=manifest.schedule_cycles,
        requests=requests,
        mismatches=result["mismatches"],
        error=max(result["rel_err_max"].values()),
        failure="" if result["ok"] else "the check failed",
    )


@contextmanager
def _limit(seconds: int) -> Iterator[None]:
    """Raise `TooLongError` in the main thread when the time is up."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLongError(f"The core took longer than {seconds} seconds.")

    previous_handler = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous_handler)
