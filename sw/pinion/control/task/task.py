"""Task files: the motion to track, the controller, and the allowed loss.

A task is independent of the robot: lengths are shares of an arm's reach, joint positions shares of
their ranges, rates shares of the rated ones, loads shares of the robot's mass, and friction a share
of the motion's efforts. Postures and targets are sampled from seeds, so one file serves any robot
that :mod:`pinion.control` supports.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pinion.base.escaping import one_line
from pinion.control.errors import ControlError
from pinion.control.solve.weights import Cost, Weights

FIGURE_EIGHT, REACH = "figure_eight", "reach"
KINDS = (FIGURE_EIGHT, REACH)

VERSION = 1

LARGEST = 1 << 20
"""Largest file size [bytes]."""


@dataclass(frozen=True, kw_only=True)
class TaskMotion:
    """A motion for any robot, relative to its reach, ranges and rated rates.

    Members
    -------
    kind : ``figure_eight``, drawn by the tip in the plane in which it is most mobile at a random
        posture; ``reach``, in which the joints move to random targets in turn and stop at each.
    seed : for postures and targets.
    duration : of the motion [s].
    size : width of the figure as a share of the arm's reach; or the share of each joint's range
        from which targets are sampled.
    laps, targets : number of laps of the figure, or of targets.
    speed : largest rate of any joint as a share of its rated one; figures shrink and targets move
        nearer until this holds.
    """

    kind: str
    seed: int
    duration: float
    size: float
    laps: float = 1.0
    targets: int = 2
    speed: float = 0.8


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """Disturbances unknown to the controller.

    Members
    -------
    payload : load at the tip, as a share of the robot's mass.
    friction : dry friction of each joint, as a share of the motion's RMS effort.
    damping : viscous friction, as a share of RMS effort over RMS rate.
    delay : of efforts [s].
    """

    payload: float = 0.0
    friction: float = 0.0
    damping: float = 0.0
    delay: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task for which a core's formats are chosen.

    Members
    -------
    name : letters, digits, ``-`` and ``_``.
    text : text of the file.
    loss, held_out_loss : allowed difference of the core's RMS tracking error from float64's, as a
        share of float64's, in the motion that formats are chosen on and in the held-out ones.
    evaluations : largest number of candidates.
    motion, held_out : the motion that formats are chosen on, and the held-out ones.
    period, inner : of the controller [s], and steps of the simulated robot in it.
    step, knots, iterations : of the controller's horizon.
    weights, last : of the running knots and of the last one.
    unknown : disturbances.
    """

    name: str
    text: str
    loss: float
    held_out_loss: float
    evaluations: int
    motion: TaskMotion
    held_out: tuple[TaskMotion, ...]
    period: float
    inner: int
    step: float
    knots: int
    iterations: int
    weights: Weights
    last: Weights
    unknown: Unknown

    def cost(self, frame: str) -> Cost:
        """Return the controller's cost with the link ``frame`` as the tip."""
        return Cost(running=self.weights, final=self.last, frame=frame)


def read_task(path: str | Path) -> Task:
    """Read a task file in TOML.

    Raises
    ------
    ControlError
        If a key is missing, unknown or out of range; the message gives file, key and value.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise ControlError(
                f"The task {str(path)!a} is larger than the limit of {LARGEST:,} bytes."
            )
        text = data.decode()
        return parse_task(text, where=str(path))
    except OSError as error:
        raise ControlError(
            f"The task {str(path)!a} cannot be read: {error.strerror}; give a file such as those "
            "in examples/tasks."
        ) from None
    except UnicodeDecodeError:
        raise ControlError(f"The task {str(path)!a} is not UTF-8 text: save it as UTF-8.") from None


def parse_task(text: str, *, where: str) -> Task:
    """Parse the text of a task file; ``where`` names the file in messages.

    Raises
    ------
    ControlError
        As `read_task`.
    """
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else one_line(error)
        raise ControlError(f"The task {where!a} is not valid TOML: {reason}.") from None
    top = _Table(where, "", data)
    version = top.take("version")
    if type(version) is not int or version != VERSION:
        raise top.wrong("version", version, f"this Pinion reads only version = {VERSION}")
    name = top.take("name", None)
    allowed = isinstance(name, str) and 0 < len(name) <= 40
    if not allowed or not all(c.isascii() and (c.isalnum() or c in "-_") for c in name):
        raise top.wrong("name", name, "write 1 to 40 ASCII letters, digits, '-' or '_'")
    loss = top.number("loss", 1e-9, 10.0)
    held_out_loss = top.number("held_out_loss", 1e-9, 10.0, 2.0 * loss)
    if held_out_loss < loss:
        raise top.wrong("held_out_loss", held_out_loss, f"it must be at least the loss, {loss:g}")
    evaluations = top.whole("evaluations", 1, 64, 16)
    motion_table = top.table("motion")
    motion = _motion(motion_table, {})
    held_out_tables = top.tables("held_out")
    held_out = tuple(_motion(table, motion_table.data) for table in held_out_tables)
    if not held_out:
        raise ControlError(
            f"The task {where!a} has no [[held_out]]: add one with another seed, such as "
            f"'seed = {motion.seed + 1}', to validate the chosen formats."
        )
    if motion in held_out:
        raise ControlError(
            f"The task {where!a} has a [[held_out]] equal to its [motion]: give it another seed."
        )
    control = top.table("controller")
    period = control.number("period", 1e-4, 1.0)
    step = control.number("step", 1e-4, 1.0)
    if abs(round(step / period) * period - step) > 1e-9 or round(step / period) < 1:
        raise control.wrong("step", step, f"it must be a multiple of the period, {period:g} s")
    knots, iterations = control.whole("knots", 2, 200), control.whole("iterations", 1, 20, 1)
    inner = control.whole("inner", 1, 1000, 10)
    running = control.table("running")
    weights = _weights(running)
    last = _weights(control.table("final"))
    control.done()
    if weights.tau == 0.0:
        raise running.wrong(
            "tau", running.take("tau", 0.0), "it must be above 0 to guarantee an optimum"
        )
    if last.tau != 0.0:
        raise ControlError(
            f"The task {where!a} has controller.final.tau = {last.tau}: leave it out, since the "
            "last knot has no effort."
        )
    hidden = top.table("disturbance", {})
    unknown = Unknown(
        payload=hidden.number("payload", 0.0, 10.0, 0.0),
        friction=hidden.number("friction", 0.0, 10.0, 0.0),
        damping=hidden.number("damping", 0.0, 10.0, 0.0),
        delay=hidden.number("delay", 0.0, 1.0, 0.0),
    )
    hidden.done()
    top.done()
    for table, candidate in zip((motion_table, *held_out_tables), (motion, *held_out), strict=True):
        if candidate.duration < 2 * period:
            raise table.wrong(
                "duration", candidate.duration, f"it must be at least two periods, {2 * period:g} s"
            )
    return Task(
        name=name,
        text=text,
        loss=loss,
        held_out_loss=held_out_loss,
        evaluations=evaluations,
        motion=motion,
        held_out=held_out,
        period=period,
        inner=inner,
        step=step,
        knots=knots,
        iterations=iterations,
        weights=weights,
        last=last,
        unknown=unknown,
    )


def _motion(table: _Table, base: Mapping[str, Any]) -> TaskMotion:
    """Return the motion of a table, with missing keys taken from another table."""
    table = _Table(table.where, table.path, {**base, **table.data})
    kind = table.take("kind", None)
    if kind not in KINDS:
        raise table.wrong("kind", kind, f"choose one of {', '.join(KINDS)}")
    motion = TaskMotion(
        kind=kind,
        seed=table.whole("seed", 0, 2**31),
        duration=table.number("duration", 1e-3, 60.0),
        size=table.number("size", 1e-3, 1.0),
        laps=table.number("laps", 0.01, 100.0, 1.0),
        targets=table.whole("targets", 1, 100, 2),
        speed=table.number("speed", 0.01, 1.0, 0.8),
    )
    table.done()
    return motion


def _weights(table: _Table) -> Weights:
    keys = ("q", "qd", "tau", "tip", "limits")
    weights = Weights(**{key: table.number(key, 0.0, 1e12, 0.0) for key in keys})
    table.done()
    return weights


_MISSING: Any = object()


class _Table:
    """A table of the file that records which keys are read, so that unknown ones are found."""

    def __init__(self, where: str, path: str, data: Mapping[str, Any]) -> None:
        self.where, self.path, self.data = where, path, data
        self._taken: set[str] = set()

    def take(self, key: str, default: Any = _MISSING) -> Any:
        self._taken.add(key)
        if key not in self.data and default is _MISSING:
            raise ControlError(f"The task {self.where!a} has no '{self.path}{key}': add it.")
        return self.data.get(key, default)

    def number(self, key: str, least: float, most: float, default: Any = _MISSING) -> float:
        value = self.take(key, default)
        good = type(value) in (int, float) and math.isfinite(value) and least <= value <= most
        if not good:
            raise self.wrong(key, value, f"give a number from {least:g} to {most:g}")
        return float(value)

    def whole(self, key: str, least: int, most: int, default: Any = _MISSING) -> int:
        value = self.take(key, default)
        if type(value) is not int or not least <= value <= most:
            raise self.wrong(key, value, f"give a whole number from {least} to {most}")
        return value

    def table(self, key: str, default: Any = _MISSING) -> _Table:
        value = self.take(key, default)
        if not isinstance(value, dict):
            raise self.wrong(key, value, f"write it as a table, [{self.path}{key}]")
        return _Table(self.where, f"{self.path}{key}.", value)

    def tables(self, key: str) -> list[_Table]:
        value = self.take(key, [])
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            raise self.wrong(key, value, f"write it as tables, [[{self.path}{key}]]")
        return [
            _Table(self.where, f"{self.path}{key}[{number}].", entry)
            for number, entry in enumerate(value, start=1)
        ]

    def wrong(self, key: str, value: Any, advice: str) -> ControlError:
        if key not in self.data:
            return ControlError(f"The task {self.where!a} has no '{self.path}{key}': {advice}.")
        text = one_line(repr(value))
        text = text if len(text) <= 60 else f"{text[:57]}..."
        return ControlError(f"The task {self.where!a} has {self.path}{key} = {text}: {advice}.")

    def done(self) -> None:
        left = sorted(set(self.data) - self._taken)
        if left:
            keys = ", ".join(sorted(self._taken))
            raise ControlError(
                f"The task {self.where!a} has the unknown key {(self.path + left[0])!a}: the "
                f"known keys are {keys}."
            )
