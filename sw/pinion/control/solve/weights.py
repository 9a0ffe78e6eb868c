"""Weights of a motion's cost, by knot and by term; :mod:`.cost` has the formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pinion.base.arrays import Floats
from pinion.control.errors import ControlError, check_kind, check_number, check_whole, is_number

from .frames import by_frame


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Weights of the terms of a knot's cost, each at least 0.

    Members
    -------
    q, qd, tau : of positions [1/rad^2], rates [s^2/rad^2] and efforts [1/(N m)^2]: one number, or
        one for each of the nv changes of positions, nv rates and nu efforts.
    tip, rotation : of the position [1/m^2] and the rotation [1/rad^2] of the cost's frame: one
        number; or of several frames, numbers by their names.
    limits : of positions beyond the soft limits [1/rad^2].
    barrier : of the logarithmic barrier at each joint's limits [1].
    cones : of contact forces outside their friction cones [1/N^2].
    """

    q: ArrayLike = 0.0
    qd: ArrayLike = 0.0
    tau: ArrayLike = 0.0
    tip: float | Mapping[str, float] = 0.0
    rotation: float | Mapping[str, float] = 0.0
    limits: float = 0.0
    barrier: float = 0.0
    cones: float = 0.0

    def __post_init__(self) -> None:
        for name in BY_JOINT:
            # Tuples, so that weights compare.
            object.__setattr__(self, name, _number_or_tuple(name, getattr(self, name)))
        for name in BY_FRAME:
            object.__setattr__(self, name, _number_or_mapping(name, getattr(self, name)))
        for name in ("limits", "barrier", "cones"):
            value = getattr(self, name)
            check_number(f"The weight '{name}'", value, "give one number, for all joints")
            _check_weight(name, value)

    def by_joint(self, name: str, count: int) -> Floats:
        """Return a weight as an array (count,), with a single number repeated.

        Raises
        ------
        ControlError
            If it has another number of values.
        """
        value = np.asarray(getattr(self, name), dtype=np.float64)
        if value.ndim and value.shape != (count,):
            raise ControlError(
                f"The weight '{name}' has {len(value)} values: give one number for all joints, or "
                f"{count} numbers, one for each."
            )
        return np.broadcast_to(value, (count,))


BY_JOINT = ("q", "qd", "tau")
"""Weights that may differ from joint to joint."""

BY_FRAME = ("tip", "rotation")
"""Weights that may differ from frame to frame, and the names of their targets."""


def _number_or_tuple(name: str, value: Any) -> float | tuple[float, ...]:
    """Return a weight, checked, as a number or a tuple of numbers."""
    numbers: Any = value if isinstance(value, list | tuple) else np.asarray(value).tolist()
    several = isinstance(numbers, list | tuple)
    weights: list[Any] = list(numbers) if several else [numbers]
    if not weights or not all(map(is_number, weights)):
        raise ControlError(
            f"The weight '{name}' is {value!r:.60}: give one number, or one for each joint."
        )
    for number in weights:
        _check_weight(name, number)
    return tuple(map(float, weights)) if several else float(numbers)


def _number_or_mapping(name: str, value: Any) -> float | dict[str, float]:
    """Return a weight, checked, as a number or as numbers by frame."""
    several = isinstance(value, Mapping)
    for frame, number in value.items() if several else [("", value)]:
        subject = f"{name}' of '{frame}" if several else name
        if not is_number(number) or not isinstance(frame, str):
            raise ControlError(
                f"The weight '{subject}' is {number!r:.60}: give one number, for the cost's frame, "
                "or numbers by the names of frames."
            )
        _check_weight(subject, number)
    return dict(value) if several else value


def _check_weight(name: str, value: float) -> None:
    """Raise `ControlError` unless a weight is finite and at least 0."""
    if not (np.isfinite(value) and value >= 0.0):
        raise ControlError(f"The weight '{name}' is {value}: it must be finite and at least 0.")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Cost of a motion: the weights of its knots, and the parameters of its terms.

    Members
    -------
    running, final : weights of all knots but the last, and of the last; ``running.tau`` must be
        above 0, so that an optimum exists.
    added : weights by knot, from 0, that are added to ``running`` at that knot: a via point, or a
        foot that is tracked while it swings.
    frame : link or fixed joint to which ``tip`` and ``rotation`` refer where they are one number.
    soft : share of each joint's range, about its middle, inside which ``limits`` costs nothing.
    margin : value of ``1 - s^2`` below which ``barrier`` is quadratic: 0.05 begins at 97.5 % of the
        distance from the middle to a limit.
    friction : coefficient of the friction cones.
    least_force : least normal force of a contact on the ground [N].
    """

    running: Weights
    final: Weights
    added: Mapping[int, Weights] = field(default_factory=dict)
    frame: str = ""
    soft: float = 0.95
    margin: float = 0.05
    friction: float = 0.6
    least_force: float = 0.0

    def __post_init__(self) -> None:
        for name in ("running", "final"):
            check_kind(name, getattr(self, name), Weights)
        check_kind("added", self.added, Mapping, "Weights by knot, such as {20: Weights(...)}")
        object.__setattr__(self, "added", dict(self.added))
        for knot, weights in self.added.items():
            check_whole("A knot of 'added'", knot)
            if knot < 0:
                raise ControlError(f"A knot of 'added' is {knot}: give numbers from 0.")
            check_kind(f"added[{knot}]", weights, Weights)
        if not np.all(np.asarray(self.running.tau) > 0.0):
            raise ControlError(
                f"The running weight 'tau' is {self.running.tau}: it must be above 0 to guarantee "
                "an optimum."
            )
        if np.any(self.final.tau):
            raise ControlError(
                f"The final weight 'tau' is {self.final.tau}: leave it at 0, since the last knot "
                "has no effort."
            )
        if self.final.cones:
            raise ControlError(
                f"The final weight 'cones' is {self.final.cones}: leave it at 0, since the last "
                "knot has no forces."
            )
        for name in BY_FRAME:
            if "" in self.frames(name):
                raise ControlError(
                    f"The weight '{name}' is one number, but the cost has no 'frame': give "
                    "Cost(frame=...), or weights by the names of frames."
                )
        for name in ("soft", "margin", "friction", "least_force"):
            check_number(f"'{name}'", getattr(self, name))
        if not 0.0 < self.friction < np.inf:
            raise ControlError(f"'friction' is {self.friction}: it must be above 0 and finite.")
        if not 0.0 <= self.least_force < np.inf:
            raise ControlError(
                f"'least_force' is {self.least_force}: it must be at least 0 and finite."
            )
        if not 0.0 < self.soft <= 1.0:
            raise ControlError(f"'soft' is {self.soft}: it must be above 0 and at most 1.")
        if not LEAST_MARGIN <= self.margin < 1.0:
            raise ControlError(
                f"'margin' is {self.margin}: it must be at least {LEAST_MARGIN} and below 1."
            )

    @property
    def every(self) -> tuple[Weights, ...]:
        """Weights of all knots."""
        return self.running, *self.added.values(), self.final

    def frames(self, name: str) -> tuple[str, ...]:
        """Return the frames for which ``tip`` or ``rotation`` has a weight at any knot."""
        pairs = (
            pair
            for weights in self.every
            for pair in by_frame(getattr(weights, name), self.frame).items()
        )
        return tuple(dict.fromkeys(frame for frame, weight in pairs if weight > 0.0))

    def at_knot(self, knot: int) -> Cost:
        """Return the cost of a motion that begins at a knot and has one step."""
        return replace(self, added={0: self.added[knot]} if knot in self.added else {})

    @property
    def has_tip(self) -> bool:
        """Whether the cost weights the position of any frame."""
        return bool(self.frames("tip"))

    def check_pass(self, backward: str) -> None:
        """Raise `ControlError` if a backward pass does not support the cost."""
        if self.has_cones and backward == "parallel":
            raise ControlError(
                "Friction cones (the weight 'cones') need the backward pass 'serial', not "
                "'parallel': choose 'serial', or leave the weight at 0."
            )

    def check_compiled(self, user: str, advice: str) -> None:
        """Raise `ControlError`, with advice, if the traced cost lacks a term (:mod:`.kernels`)."""
        others = [frame for frame in self.frames("tip") if frame != self.frame]
        for present, term in (
            (self.frames("rotation"), "a weight 'rotation'"),
            (others, "a weight 'tip' of frames other than the cost's 'frame'"),
            (self.added, "weights of single knots ('added')"),
        ):
            if present:
                raise ControlError(f"{user} does not support {term}: {advice}.")

    @property
    def has_cones(self) -> bool:
        """Whether the cost weights friction cones."""
        return any(weights.cones > 0.0 for weights in self.every)

    @property
    def has_limits(self) -> bool:
        """Whether the cost weights soft limits."""
        return any(weights.limits > 0.0 for weights in self.every)

    @property
    def has_barrier(self) -> bool:
        """Whether the cost includes the barrier."""
        return any(weights.barrier > 0.0 for weights in self.every)


LEAST_MARGIN = 1e-4
"""Smallest margin of a barrier; below it, the kernels' logarithm and float32 lose digits."""
