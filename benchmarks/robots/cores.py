"""Builds cores of real files and sends requests through their RTL."""

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
"""Where a folder of builds keeps what was measured, so that a run goes on where it stopped."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A core to build: the file's name without its ending, the function, cycles between results."""

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
    """What a core turned out to be; ``failure`` says what went wrong, and the rest is None then."""

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
    """A core took longer than it may."""


def measured(
    files: dict[str, Path],
    folder: Path,
    *,
    requests: int,
    seconds: int,
    progress: Progress,
) -> Iterator[Core]:
    """Build and verify the cases one after the other; what a folder holds already is read.

    Parameters
    ----------
    files : by name without ending.
    folder : where the builds go.
    requests : that go through each core.
    seconds : that a core may take.
    """
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / RECORD
    known = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    for case in CASES:
        if case.robot not in files:
            continue
        key = f"{case.robot} {case.function} {case.ii} {requests}"
        if key not in known:
            progress.step(key)
            core = _core(case, files[case.robot], folder, requests=requests, seconds=seconds)
            known[key] = asdict(core)
            record.write_text(json.dumps(known, indent=1), encoding="utf-8")
        yield Core(**known[key])


def _core(case: Case, path: Path, folder: Path, *, requests: int, seconds: int) -> Core:
    found = opened(path, floating_base=False, snap=True)
    if isinstance(found, Refused):
        return Core(robot=case.robot, joints=0, function=case.function, ii=case.ii,
                    failure=found.reason)  # fmt: skip
    joints = found.model.nv
    try:
        with _limit(seconds):
            place = folder / f"{case.robot}_{case.function}"
            request = BuildRequest(ii=case.ii, formats="auto")
            manifest = build(found.model, named_function(case.function), place, request).manifest
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
    """Raise `TooLongError` in the main thread when the time is over."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLongError(f"It took longer than {seconds} seconds.")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
