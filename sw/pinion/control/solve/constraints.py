r"""State limits and final constraints, by the method of multipliers.

A constraint keeps a number r(x) of a knot's state in ``[low, high]``, with ``low = high`` for a
final constraint. A multiplier y and a penalty p add to the cost (Hestenes 1969; Rockafellar, "A
Dual Approach to Solving Nonlinear Programming Problems by Unconstrained Optimization", 1973)

    1/2 p e^2 - y^2 / (2 p)    with    e = s - clip(s, low, high)    and    s = r(x) + y / p

After steps that hardly decrease this sum, multipliers become ``p e``, and penalties grow where
constraints are not much nearer to being met: an outer loop around iLQR that does not solve each
inner problem to the end (T. Howell, B. Jackson and Z. Manchester, "ALTRO", IROS 2019; W. Jallet et
al., "Constrained Differential Dynamic Programming: A Primal-Dual Augmented Lagrangian Approach",
IROS 2022). A constraint is met if ``|e - y / p|`` is small: r is within its bounds, and has a
multiplier only at one of them (E. G. Birgin and J. M. Martinez, "Practical Augmented Lagrangian
Methods for Constrained Optimization", 2014, chapter 4).

The first penalties are the same multiple of each number's stiffness, so that they depend
neither on units nor on weights: its change per force on it is a diagonal element of the inverse of
the motion's Hessian, which a recursion computes as the covariance of the state under efforts with
the covariance ``Quu^-1`` about the feedback.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion import dynamics
from pinion.base.arrays import Flags, Floats
from pinion.control.errors import ControlError
from pinion.control.plant import Linear
from pinion.control.state import StateSpace
from pinion.robot import Model

from .backward import FeedbackPolicy
from .cost import KnotTarget
from .frames import by_frame

FINAL = ("positions", "rates", "tip")
"""Parts of the last knot's state that a problem may fix at their targets."""


@dataclass(frozen=True, kw_only=True)
class StateConstraints:
    """Constraints of the states of a robot's motions.

    Members
    -------
    space : the robot's states.
    frame : link of the tip.
    position_limits, rate_limit, final : as those of :class:`.problem.Problem`.
    """

    space: StateSpace
    frame: str
    position_limits: tuple[Floats, Floats] | None
    rate_limit: Floats | None
    final: tuple[str, ...]

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        """Lowest and highest positions and rates, (2 nv,) each; infinite without a limit."""
        nv = self.space.nv
        low, high = np.full(2 * nv, -np.inf), np.full(2 * nv, np.inf)
        if self.position_limits is not None:
            low[:nv], high[:nv] = self.position_limits
        if self.rate_limit is not None:
            low[nv:], high[nv:] = -self.rate_limit, self.rate_limit
        return low, high

    @property
    def final_size(self) -> int:
        """Number of final constraints."""
        return max((self.part(name).stop for name in self.final), default=0)

    def part(self, name: str) -> slice:
        """Return the rows of a part named in ``final``."""
        at = self.final.index(name)
        first = sum(self.part(before).stop - self.part(before).start for before in self.final[:at])
        return slice(first, first + (3 if name == "tip" else self.space.nv))

    def limited(self, x: Floats) -> Floats:
        """Return what the limits bound, positions and rates (..., 2 nv), of states (..., nx).

        Positions are 0 for joints with several of them.
        """
        q, qd = self.space.parts(x)
        positions = np.zeros_like(qd)
        at, moves = single_joints(self.space.model)
        positions[..., moves] = q[..., at]
        return np.concatenate([positions, qd], axis=-1)

    def misses(self, x: Floats, target: KnotTarget) -> Floats:
        """Return how far last states (n, nx) are from their targets, (n, final_size)."""
        q, qd = self.space.parts(x)
        parts = [np.zeros((len(x), 0))]
        for name in self.final:
            if name == "positions":
                parts.append(self.space.between(target.q[:, -1], q))
            elif name == "rates":
                parts.append(qd - target.qd[:, -1])
            else:
                _, tip = dynamics.frame_placement(self.space.model, q, self.frame)
                parts.append(np.asarray(tip) - by_frame(target.tip, self.frame)[self.frame][:, -1])
        return np.concatenate(parts, axis=1)

    def misses_jacobian(self, x: Floats, target: KnotTarget) -> Floats:
        """Return derivatives of :meth:`misses`, (n, final_size, 2 nv)."""
        q, _ = self.space.parts(x)
        nv, model = self.space.nv, self.space.model
        parts = [np.zeros((len(x), 0, 2 * nv))]
        for name in self.final:
            rows = np.zeros((len(x), 3 if name == "tip" else nv, 2 * nv))
            if name == "positions":
                change = self.space.between(target.q[:, -1], q)
                rows[:, :, :nv] = self.space.between_jacobian(change)
            elif name == "rates":
                rows[:, :, nv:] = np.eye(nv)
            else:
                jacobian = dynamics.frame_jacobian(
                    model, q, self.frame, reference="local_world_aligned"
                )
                rows[:, :, :nv] = np.asarray(jacobian)[:, 3:]
            parts.append(rows)
        return np.concatenate(parts, axis=1)

    def excess(self, x: Floats, target: KnotTarget) -> tuple[Floats, Floats]:
        """Return how far states (n, knots + 1, nx) are beyond limits, and the final misses."""
        r = self.limited(x)
        return r - np.clip(r, *self.bounds), self.misses(x[:, -1], target)

    def violation(self, x: Floats, target: KnotTarget) -> Floats:
        """Return the largest violation of each motion, (n,)."""
        beyond, missed = (np.abs(part) for part in self.excess(x, target))
        return np.asarray(np.maximum(beyond.max(axis=(1, 2)), missed.max(axis=1, initial=0.0)))

    def check(self, start: Floats, target: KnotTarget) -> None:
        """Raise `ControlError` if start states (n, nx) or final targets are outside the limits."""
        nv, (low, high) = self.space.nv, self.bounds
        ends = np.concatenate([target.q[:, -1], target.qd[:, -1]], axis=-1)
        for subject, x, parts, advice in (
            ("start", start, ("positions", "rates"), "choose a start within it"),
            ("final target", ends, self.final, "choose a target within it"),
        ):
            r = self.limited(x)
            rounding = ROUNDED * (1.0 + np.abs(r))
            outside = (r < low - rounding) | (r > high + rounding)
            outside[:, :nv] &= "positions" in parts
            outside[:, nv:] &= "rates" in parts
            if not outside.any():
                continue
            number, column = (int(i) for i in np.argwhere(outside)[0])
            kind, name, unit = _value_of(self.space.model, column)
            value = r[number, column]
            side, limit = ("above", high) if value > high[column] else ("below", low)
            raise ControlError(
                f"The {subject} of problem {number} has the {kind} of {name!r} at {value:.6g} "
                f"{unit}, {side} its limit of {limit[column]:.6g}: {advice}."
            )

    def sentence(self, x: Floats, target: KnotTarget) -> str:
        """Return a sentence that names the constraint that states violate most."""
        beyond, missed = self.excess(x, target)
        nv, model = self.space.nv, self.space.model
        limit, final = (np.abs(part).max(initial=0.0) for part in (beyond, missed))
        if limit >= final:
            n, knot, column = _largest(beyond)
            kind, name, unit = _value_of(model, column)
            side = "above" if beyond[n, knot, column] > 0.0 else "below"
            return (
                f"The {kind} of {name!r} at knot {knot} of problem {n} is {limit:.3g} {unit} "
                f"{side} its limit."
            )
        n, row = _largest(missed)
        part = next(part for part in reversed(self.final) if row >= self.part(part).start)
        if part == "tip":
            subject, unit = f"position of the tip '{self.frame}'", "m"
        else:
            column = row - self.part(part).start + (nv if part == "rates" else 0)
            kind, name, unit = _value_of(model, column)
            subject = f"{kind} of {name!r}"
        return f"The final {subject} of problem {n} is {final:.3g} {unit} away from its target."


class AugmentedLagrangian:
    """Multipliers and penalties of the constraints of n problems, and what they add to the cost.

    Members
    -------
    constraints : what is constrained.
    limits : multipliers of positions and rates, (n, knots + 1, 2 nv), above 0 at an upper limit.
    final : of the final constraints, (n, final_size).
    """

    def __init__(self, constraints: StateConstraints, knots: int) -> None:
        self.constraints = constraints
        self.limits = np.zeros((0, knots + 1, constraints.space.ndx))
        self.final = np.zeros((0, constraints.final_size))
        self._penalties = self.limits.copy(), self.final.copy()
        self._growths = np.zeros(0, dtype=np.int64)
        self._worst = np.zeros(0)

    def add(self, count: int) -> None:
        """Add problems without multipliers or penalties."""

        def longer(array: NDArray[Any], fill: float = 0.0) -> NDArray[Any]:
            return np.concatenate([array, np.full((count, *array.shape[1:]), fill, array.dtype)])

        self.limits, self.final = longer(self.limits), longer(self.final)
        self._penalties = longer(self._penalties[0]), longer(self._penalties[1])
        self._growths, self._worst = longer(self._growths), longer(self._worst, np.inf)

    def keep(self, which: Flags) -> None:
        """Drop the problems outside the mask ``which`` (n,)."""
        self.limits, self.final = self.limits[which], self.final[which]
        self._penalties = self._penalties[0][which], self._penalties[1][which]
        self._growths, self._worst = self._growths[which], self._worst[which]

    def multipliers(self, x: Floats, target: KnotTarget, which: Flags) -> dict[str, Floats]:
        """Return the multipliers ``p e`` of the problems in ``which``, named as in `Solution`.

        An optimum of the sum above is one of the cost plus these multipliers times constraints.
        """
        limits, final = (p * e for e, _, p in self._shifted(x, target, which))
        nv = limits.shape[-1] // 2
        return {"position": limits[..., :nv], "rate": limits[..., nv:], "final": final}

    def terms(self, x: Floats, target: KnotTarget, which: Flags) -> Floats:
        """Return what multipliers and penalties add to the costs of the problems in ``which``."""
        total = np.zeros(len(x))
        for e, y, p in self._shifted(x, target, which):
            axes = tuple(range(1, e.ndim))
            total += np.sum(0.5 * p * e**2 - 0.5 * y * _quotient(y, p), axis=axes)
        return total

    def expand(self, x: Floats, target: KnotTarget, lx: Floats, lxx: Floats) -> None:
        """Add the derivatives of :meth:`terms`, of all problems, to those of the cost."""
        everything = np.ones(len(x), dtype=np.bool_)
        (e, _, p), (missed, _, weight) = self._shifted(x, target, everything)
        diagonal = np.arange(e.shape[-1])
        lx += p * e
        lxx[..., diagonal, diagonal] += p * (e != 0.0)
        if missed.shape[1]:
            jacobian = self.constraints.misses_jacobian(x[:, -1], target)
            lx[:, -1] += np.einsum("nki,nk->ni", jacobian, weight * missed)
            lxx[:, -1] += np.swapaxes(jacobian, 1, 2) @ (weight[..., None] * jacobian)

    def update(
        self,
        decrease: Floats,
        cost: Floats,
        x: Floats,
        target: KnotTarget,
        *,
        linear: Linear,
        feedback: FeedbackPolicy,
        tolerance: float,
    ) -> tuple[Flags, Flags]:
        """Update multipliers and penalties of problems near an optimum with unmet constraints.

        Parameters
        ----------
        decrease, cost : of the last step, (n,), infinite for problems to leave as they are; and
            the costs after it, with the terms of the constraints.
        x : motions, (n, knots + 1, nx).
        linear, feedback : of the last backward pass.

        Returns
        -------
        Whether each problem meets its constraints, and whether it was updated; a problem whose
        penalties are as large as they may be is not, unless it gets nearer to meeting them.
        """
        everything = np.ones(len(x), dtype=np.bool_)
        blocks = self._shifted(x, target, everything)
        worst, gain = np.zeros(len(x)), np.zeros(len(x))
        for e, y, p in blocks:
            off = np.abs(e - _quotient(y, p)).reshape(len(x), -1)
            worst = np.maximum(worst, off.max(axis=1, initial=0.0))
            gain += 0.5 * np.sum(p.reshape(len(x), -1) * off**2, axis=1)
        met = worst <= tolerance
        nearer = worst <= NEARER * self._worst
        first = np.isinf(self._worst)
        which = decrease <= np.where(first, LOOSE * np.abs(cost), EXACT * gain)
        updated = which & ~met & (nearer | (self._growths < GROWTHS))
        if not updated.any():
            return met, updated
        fresh = updated & first
        if fresh.any():
            assert feedback.Quu is not None
            compliances = _compliances(
                linear.A[fresh], linear.B[fresh], feedback.gains[fresh], feedback.Quu[fresh]
            )
            first_penalties = self._first_penalties(compliances, x[fresh], target.at(fresh))
            for penalty, values in zip(self._penalties, first_penalties, strict=True):
                penalty[fresh] = values
        later = updated & ~fresh
        grown = later & ~nearer & (self._growths < GROWTHS)
        for (e, _, p), y in zip(blocks, (self.limits, self.final), strict=True):
            y[later] = (p * e)[later]
        for penalty in self._penalties:
            penalty[grown] *= GROWTH
        self._growths += grown
        self._worst[updated] = worst[updated]
        return met, updated

    def _first_penalties(
        self, compliances: Floats, x: Floats, target: KnotTarget
    ) -> tuple[Floats, Floats]:
        """Return penalties of limits and final constraints from blocks of the inverse Hessian."""
        jacobian = self.constraints.misses_jacobian(x[:, -1], target)
        final = np.einsum("nki,nij,nkj->nk", jacobian, compliances[:, -1], jacobian)
        if "tip" in self.constraints.final:
            # As it moves, a tip is stiff in other directions.
            tip = self.constraints.part("tip")
            final[:, tip] = final[:, tip].max(axis=1, keepdims=True)
        limits = np.einsum("nkii->nki", compliances)
        # What cannot move, such as the first knot, would get an infinite penalty.
        least = LEAST**2 * limits.max(axis=(1, 2))
        limits = np.maximum(limits, LEAST * limits.max(axis=1, keepdims=True))
        return (
            STIFFNESS / np.maximum(limits, least[:, None, None]),
            STIFFNESS / np.maximum(final, least[:, None]),
        )

    def _shifted(
        self, x: Floats, target: KnotTarget, which: Flags
    ) -> list[tuple[Floats, Floats, Floats]]:
        """Return e, y and p of the limits, and of the final constraints."""
        constraints = self.constraints
        y, p = self.limits[which], self._penalties[0][which]
        s = constraints.limited(x) + _quotient(y, p)
        last, weight = self.final[which], self._penalties[1][which]
        missed = constraints.misses(x[:, -1], target) + _quotient(last, weight)
        return [
            (s - np.clip(s, *constraints.bounds), y, p),
            (missed, last, weight),
        ]


STIFFNESS = 10.0
"""First penalties, per stiffness of what is constrained."""

GROWTH, GROWTHS = 10.0, 8
"""Factor of the penalties, and how often it is applied to one problem."""

NEARER = 0.25
"""Constraints must be violated by at most this share of before, or penalties grow."""

ROUNDED = 1e-9
"""Distance from a limit, beside 1 and the value, within which a start is at it."""

LEAST = 1e-6
"""Share of the largest compliance of a number at any knot that counts as the least."""

LOOSE = 1e-2
"""Decrease of the cost, as a share, of a step after which the first penalties are set."""

EXACT = 0.1
"""Decrease of the cost of a step after which multipliers are updated.

As a share of what the update gains, ``1/2 p (e - y / p)^2`` (Rockafellar, "Augmented Lagrangians
and Applications of the Proximal Point Algorithm in Convex Programming", 1976, criterion B).
"""


def _quotient(y: Floats, p: Floats) -> Floats:
    """Return y / p, and 0 where there is no penalty."""
    return np.divide(y, p, out=np.zeros_like(y), where=p > 0.0)


def _compliances(A: Floats, B: Floats, gains: Floats, Quu: Floats) -> Floats:
    """Return blocks (n, knots + 1, 2 nv, 2 nv), one per knot, of the inverse of a motion's Hessian.

    The motion's cost is that of an effort in excess of the feedback, ``1/2 dv' Quu dv`` at each
    knot: its inverse Hessian is the covariance of the states for efforts with covariance Quu^-1.
    """
    count, knots, m, _ = B.shape
    blocks = np.zeros((count, knots + 1, m, m))
    for at in range(knots):
        closed = A[:, at] - B[:, at] @ gains[:, at]
        by_effort = B[:, at] @ np.linalg.solve(Quu[:, at], np.swapaxes(B[:, at], 1, 2))
        blocks[:, at + 1] = closed @ blocks[:, at] @ np.swapaxes(closed, 1, 2) + by_effort
    return blocks


def single_joints(model: Model) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return positions (k,) of joints with one position each, and their velocities."""
    columns = [
        (positions.start, velocities.start)
        for body, positions, velocities in zip(
            model.bodies, model.q_slices, model.v_slices, strict=True
        )
        if not model.follows(body) and body.joint.kind.nv == 1
    ]
    at = np.array(columns, dtype=np.intp).reshape(-1, 2)
    return at[:, 0], at[:, 1]


def _largest(values: Floats) -> tuple[int, ...]:
    """Return the indices of the value with the largest magnitude."""
    return tuple(int(i) for i in np.unravel_index(np.abs(values).argmax(), values.shape))


def _value_of(model: Model, column: int) -> tuple[str, str, str]:
    """Return the kind, joint and unit of one of the 2 nv changes of a state."""
    kind, at = ("position", column) if column < model.nv else ("rate", column - model.nv)
    joint, first = next(
        (body.joint, columns.start)
        for body, columns in zip(model.bodies, model.v_slices, strict=True)
        if columns.start <= at < columns.stop
    )
    unit = joint.kind.unit
    if "," in unit:  # "m, rad": a planar joint and a floating base translate first
        unit = "m" if at - first < (3 if joint.kind.nv == 6 else 2) else "rad"
    return kind, joint.name, unit if kind == "position" else f"{unit}/s"


def checked_final(final: str | Sequence[str]) -> tuple[str, ...]:
    """Return names of :data:`FINAL`, checked."""
    names = (final,) if isinstance(final, str) or not isinstance(final, Sequence) else tuple(final)
    for name in names:
        if name not in FINAL:
            raise ControlError(
                f"'final' names {name!r:.60}: choose from {', '.join(map(repr, FINAL))}."
            )
    if len(set(names)) < len(names):
        raise ControlError(f"'final' is {names}: name each part once.")
    return names


def checked_limits(
    space: StateSpace, position_limits: Any, rate_limit: ArrayLike | None
) -> tuple[tuple[Floats, Floats] | None, Floats | None]:
    """Return position limits and a rate limit as arrays (nv,), checked."""
    positions, rates = None, None
    if position_limits is not None:
        if not isinstance(position_limits, Sequence | np.ndarray) or len(position_limits) != 2:
            raise ControlError(
                f"'position_limits' is {position_limits!r:.60}: give a pair, the lowest and the "
                "highest positions."
            )
        low, high = (_limit("position_limits", side, space) for side in position_limits)
        _, moves = single_joints(space.model)
        several = np.ones(space.nv, dtype=np.bool_)
        several[moves] = False
        for column in np.flatnonzero(several & ~(np.isinf(low) & np.isinf(high))):
            name = _value_of(space.model, int(column))[1]
            raise ControlError(
                f"'position_limits' at {column} belongs to {name!r}, "
                "which has several positions: only joints with one position have limits, so give "
                "-inf and inf."
            )
        for column in np.flatnonzero(~(low < high)):
            raise ControlError(
                f"'position_limits' at {column} are {low[column]} and {high[column]}: the first "
                "must be below the second; to fix a joint, use pinion.robot.lock."
            )
        positions = low, high
    if rate_limit is not None:
        rates = _limit("rate_limit", rate_limit, space)
        for column in np.flatnonzero(~(rates > 0.0)):
            raise ControlError(
                f"'rate_limit' at {column} is {rates[column]}: it must be above 0, or infinite."
            )
    return positions, rates


def _limit(name: str, values: ArrayLike, space: StateSpace) -> Floats:
    """Return limits (nv,) that are numbers."""
    try:
        limit = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ControlError(f"'{name}' is {values!r:.60}: give an array of numbers.") from None
    if limit.shape != (space.nv,):
        raise ControlError(f"'{name}' has the shape {limit.shape}: give {(space.nv,)}.")
    return limit
