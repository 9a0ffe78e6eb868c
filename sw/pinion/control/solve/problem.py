"""Optimal control problems and their solutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion import dynamics
from pinion.base.amounts import amount
from pinion.base.arrays import Floats
from pinion.control.errors import ControlError, check_kind, is_whole
from pinion.control.limits import joint_ranges
from pinion.control.plant import (
    Plant,
    check_step,
    contacts_in,
    control_model,
    holding_efforts,
)
from pinion.control.state import StateSpace
from pinion.robot import Model
from pinion.robot.lookup import find_frame

from .constraints import StateConstraints, checked_final, checked_limits
from .cost import CostModel, KnotTarget, followed
from .frames import by_frame, missing
from .weights import Cost

OF_EFFORTS, OF_STATES = ("effort_limit",), ("position_limits", "rate_limit", "final")
"""Members of a problem that limit efforts, and states."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Optimal control problems of one robot, with different start states and targets.

    Members
    -------
    model : the robot, with mimic joints coupled to their leaders.
    knots : number of steps.
    dt : length of each [s].
    cost : weights.
    start : (n, nx), positions and rates.
    target : arrays of :class:`.cost.KnotTarget`.
    effort_limit : largest efforts (nu,), which no solution exceeds; None if efforts are unbounded.
    position_limits, rate_limit : lowest and highest positions, (nv,) each, and largest rates (nv,),
        which no converged solution exceeds by more than ``Options.feasibility``; None if there are
        none.
    final : what of the last state is at its target, of "positions", "rates" and "tip".
    active : (n, knots, contacts), or with 1 for either of the first two axes: 1 for a contact that
        is on the ground from a knot to the next one, 0 for one in the air; None without contacts. A
        contact on the ground has no acceleration: one that moves when it comes down goes on moving,
        unless the plant's ``velocity_gain`` brakes it.
    """

    model: Model
    knots: int
    dt: float
    cost: Cost
    start: Floats
    target: KnotTarget
    effort_limit: Floats | None = None
    active: Floats | None = None
    position_limits: tuple[Floats, Floats] | None = None
    rate_limit: Floats | None = None
    final: tuple[str, ...] = ()

    # Many parameters: the parts of a problem, by keyword.
    @classmethod
    def of(
        cls,
        model: str | Model,
        *,
        knots: int,
        dt: float,
        cost: Cost,
        start: ArrayLike,
        goal: ArrayLike | None = None,
        tip: ArrayLike | Mapping[str, ArrayLike] | None = None,
        rotation: ArrayLike | Mapping[str, ArrayLike] | None = None,
        tau: ArrayLike | None = None,
        effort_limit: ArrayLike | None = None,
        active: ArrayLike | None = None,
        position_limits: tuple[ArrayLike, ArrayLike] | None = None,
        rate_limit: ArrayLike | None = None,
        final: str | Sequence[str] = (),
    ) -> Problem:
        """Build problems, with targets broadcast over problems and knots.

        Parameters
        ----------
        model : the robot; a name or path is loaded.
        start : (nq,) or (nx,), or with n in front: positions with zero velocity, or states.
        goal : (nq,) or (nx,), with n, or n and knots + 1, in front: states without cost;
            by default the start.
        tip : (3,) with n, or n and knots + 1, in front [m]: target position of the cost's frame in
            the frame of the base; of several frames, such arrays by their names.
        rotation : (3, 3), likewise: target rotation, frame coordinates to base coordinates.
        tau : (nu,) with n, or n and knots, in front: efforts without cost; by default 0.
        effort_limit : (nu,), largest efforts in either direction, such as those of
            :func:`pinion.control.effort_limits`; by default efforts are unbounded.
        active : (contacts,) with n, or n and knots, in front: 1 for a contact on the ground, 0 for
            one in the air, loops last; by default all are on the ground. (knots, contacts) is the
            same schedule for all problems.
        position_limits : (nv,) and (nv,), lowest and highest positions of the joints with one
            position [rad | m], such as those of :func:`pinion.control.joint_limits`; infinite
            where there are none.
        rate_limit : (nv,), largest rates in either direction [rad/s | m/s], such as those of
            :func:`pinion.control.rated_rates`; infinite where there are none.
        final : names of what is exactly at its target at the last knot: "positions", "rates" (both
            of the goal), "tip" or several of them; the cost needs no weights for them.

        Raises
        ------
        ControlError
            If a shape does not match, a number is not finite, the time step is invalid, a start or
            a final target is outside the limits, or a frame lacks a weight, a target or a joint.
        """
        model = control_model(model)
        space = StateSpace(model)
        nq, nu = space.nq, space.nu
        check_kind("cost", cost, Cost)
        CostModel(model, cost)  # raises if it does not fit the robot
        if not is_whole(knots) or knots < 1:
            raise ControlError(f"'knots' is {knots!r:.60}: give a whole number of at least 1.")
        if (last := max(cost.added, default=0)) >= knots:
            raise ControlError(
                f"'added' of the cost has weights for knot {last}, but the knots with efforts are "
                f"0 to {knots - 1}: use Cost(final=...) for the last knot."
            )
        check_step(dt)
        first = states("start", start, space)
        if first.ndim != 2:
            raise ControlError(f"'start' has the shape {np.shape(start)}: give (n, {space.nx}).")
        count = len(first)
        if not count or not nu:
            subject = f"{model.name} has no actuators" if count else "'start' has no states"
            raise ControlError(f"{subject}: there is no problem to solve.")
        _check_inside(model, first)
        goals = first[:, None] if goal is None else _along("goal", states("goal", goal, space))
        _fits("goal", goals, count, knots + 1)
        final = checked_final(final)
        effort = _along("tau", finite("tau", np.zeros(nu) if tau is None else tau))
        if effort.shape[-1] != nu:
            raise ControlError(f"The last axis of 'tau' has length {effort.shape[-1]}: give {nu}.")
        _fits("tau", effort, count, knots)
        target = KnotTarget(
            q=goals[..., :nq],
            qd=goals[..., nq:],
            tau=effort,
            tip=_frame_targets(model, cost, "tip", tip, count, knots + 1, "tip" in final),
            rotation=_frame_targets(model, cost, "rotation", rotation, count, knots + 1),
        )
        limits = checked_limits(space, position_limits, rate_limit)
        problem = cls(
            model=model,
            knots=knots,
            dt=dt,
            cost=cost,
            start=first,
            target=target,
            effort_limit=None if effort_limit is None else _limit(effort_limit, nu),
            active=_schedule(model, active, count, knots),
            position_limits=limits[0],
            rate_limit=limits[1],
            final=final,
        )
        problem.constraints.check(first, target)
        return problem

    @cached_property
    def constraints(self) -> StateConstraints:
        """State limits and final constraints."""
        return StateConstraints(
            space=self.space,
            frame=self.cost.frame,
            position_limits=self.position_limits,
            rate_limit=self.rate_limit,
            final=self.final,
        )

    @property
    def constrains_states(self) -> bool:
        """Whether states have limits or final constraints."""
        return bool(self._present(OF_STATES))

    def check_limits(self, user: str, lacking: tuple[str, ...], advice: str) -> None:
        """Raise `ControlError`, with advice, if the problem has limits that a solver lacks.

        ``lacking`` : of :data:`OF_EFFORTS` and :data:`OF_STATES`.
        """
        limits = " and ".join(self._present(lacking))
        if limits:
            raise ControlError(
                f"{user} does not support {limits}: {advice}, or leave {limits} out."
            )

    def _present(self, limits: tuple[str, ...]) -> list[str]:
        values = {name: getattr(self, name) for name in limits}
        return [name for name, value in values.items() if value is not None and len(value)]

    @cached_property
    def space(self) -> StateSpace:
        """States and actuators of the robot."""
        return StateSpace(self.model)

    @property
    def count(self) -> int:
        """Number of problems."""
        return len(self.start)

    def held(self) -> Floats:
        """Return efforts (n, knots, nu) that keep the joints still at the start, as a guess."""
        q = self.start[:, : self.space.nq]
        if self.active is None or self.active.shape[1] == 1:
            first = None if self.active is None else self.active[:, 0]
            return np.repeat(holding_efforts(self.model, q, first)[:, None], self.knots, axis=1)
        active = np.broadcast_to(self.active, (self.count, *self.active.shape[1:]))
        every = np.repeat(q[:, None], self.knots, axis=1)
        return holding_efforts(self.model, every, active)

    def schedule(self, which: int) -> Floats | None:
        """Return the mask of contacts on the ground at a problem's knots, (knots, contacts)."""
        if self.active is None:
            return None
        rows = self.active[which if len(self.active) > 1 else 0]
        return np.broadcast_to(rows, (self.knots, rows.shape[1]))

    def active_at(self, knot: int) -> Floats | None:
        """Return the mask of contacts on the ground from a knot to the next, (n or 1, contacts)."""
        if self.active is None:
            return None
        return self.active[:, knot if self.active.shape[1] > 1 else 0]

    def inside(self, u: Floats) -> Floats:
        """Return efforts (..., nu) clipped to their limits, or set to them if within rounding."""
        limit = self.effort_limit
        if limit is None:
            return u
        return np.where(np.abs(u) >= limit * (1.0 - ROUNDED), np.copysign(limit, u), u)

    def at(self, index: NDArray[np.bool_] | NDArray[np.intp]) -> Problem:
        """Return the problems that a mask or indices select."""
        active = self.active
        if active is not None and len(active) > 1:
            active = active[index]
        return replace(self, start=self.start[index], target=self.target.at(index), active=active)

    def joined(self, other: Problem) -> Problem:
        """Return these problems followed by others of the same robot, cost and length."""
        active = None
        if self.active is not None and other.active is not None:
            first, then = (
                np.broadcast_to(mask, (count, *mask.shape[1:]))
                for mask, count in ((self.active, self.count), (other.active, other.count))
            )
            active = followed(first, then)
        return replace(
            self,
            start=np.concatenate([self.start, other.start]),
            target=self.target.spread(self.count).joined(other.target.spread(other.count)),
            active=active,
        )

    def check_plant(self, plant: Plant) -> None:
        """Raise `ControlError` unless a plant has the problem's model and time step."""
        check_kind("plant", plant, Plant, "a Plant, such as Plant.open(model, dt=dt)")
        if plant.dt == self.dt and plant.model == self.model:
            return
        different = [
            member.name
            for member in fields(Model)
            if getattr(plant.model, member.name) != getattr(self.model, member.name)
        ]
        if different and plant.model.name == self.model.name:
            subject = f"two models of {self.model.name} with different {', '.join(different)}"
        else:
            subject = (
                f"plant: {plant.model.name}, steps of {plant.dt} s; "
                f"problem: {self.model.name}, steps of {self.dt} s"
            )
        raise ControlError(
            f"The plant does not match the problem ({subject}): open the plant with the problem's "
            "model and time step."
        )


ROUNDED = 1e-12
"""Share of a limit, nearer to which an effort is at it."""


@dataclass(frozen=True)
class Solution:
    """Solution of n problems: trajectories, gains, costs, and how the solver ended.

    Members
    -------
    x, u : (n, knots + 1, nx) and (n, knots, nu).
    K : (n, knots, nu, 2 nv), gains of the feedback ``u - K (x' - x)`` for a state x', where
        ``x' - x`` is tangent (:meth:`.StateSpace.difference`), of a pass with the least
        regularisation that makes every knot convex; 0 if none does.
    cost : (n,).
    converged : (n,), whether the last iteration decreased the cost by less than the tolerance, or
        the expected decrease was below the rounding of the cost, and the constraints of states are
        met.
    iterations : (n,), backward passes whose line search ended, with or without a step.
    costs : (iterations + 1, n), after each iteration; a solved problem keeps its last cost. With
        constraints of states they may rise while constraints are being met.
    saturated : number of gradients that a number format could not hold, over all iterations.
    seconds : time by part: ``gradients``, ``backward``, ``rollouts``, ``rest``.
    shares : largest used share of each joint's limits, (n, nv) for each of ``position``, ``rate``
        and ``effort``; above 1, the motion exceeds the limit. 0 for a joint without one.
    binding : limits of the problem that bind: ``position`` and ``rate``, (n, knots + 1, nv) each,
        and ``effort``, (n, knots, nu).
    gap : (n,), largest difference between a knot's state and the step that should reach it
        [rad | m | rad/s | m/s]; 0 but for problems that began with states as a guess.
    multipliers : of the constraints of states: ``position`` and ``rate``, as ``binding``, above 0
        at an upper limit, and ``final``, (n, values), in the order of the problem's ``final``. At
        an optimum the gradient of the cost plus multipliers times constraints is 0.
    violation : (n,), largest violation of a constraint of states [rad | m | rad/s | m/s].
    unmet : sentence on the largest violation, empty if all constraints are met.
    """

    x: Floats
    u: Floats
    K: Floats
    cost: Floats
    converged: NDArray[np.bool_]
    iterations: NDArray[np.int64]
    costs: Floats
    saturated: int
    seconds: Mapping[str, float]
    shares: Mapping[str, Floats]
    binding: Mapping[str, NDArray[np.bool_]]
    gap: Floats
    multipliers: Mapping[str, Floats]
    violation: Floats
    unmet: str

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}={getattr(self, name).shape}" for name in ("x", "u", "K"))
        count = len(self.cost)
        most_iterations = int(self.iterations.max(initial=0))
        used = ", ".join(
            f"{name} {share.max(initial=0.0):.0%}" for name, share in self.shares.items()
        )
        opening = f", gap: {self.gap.max():.1g}" if self.gap.any() else ""
        return (
            f"Solution({shapes}, converged: {int(self.converged.sum())} of {count}, "
            f"iterations: {most_iterations} at most, saturated: {self.saturated}, "
            f"limits: {used}{opening})" + (f": {self.unmet}" if self.unmet else "")
        )


def _limit(values: ArrayLike, nu: int) -> Floats:
    """Return effort limits (nu,), checked to be above 0."""
    limit = _numbers("effort_limit", values)
    if limit.shape != (nu,):
        raise ControlError(f"'effort_limit' has the shape {limit.shape}: give {(nu,)}.")
    if not (limit > 0.0).all():
        joint = int(np.flatnonzero(~(limit > 0.0))[0])
        raise ControlError(
            f"'effort_limit' at {joint} is {limit[joint]}: it must be above 0, or infinite."
        )
    return limit


def _schedule(model: Model, active: ArrayLike | None, count: int, knots: int) -> Floats | None:
    """Return the mask of contacts on the ground, (n or 1, knots or 1, contacts), or None."""
    contacts = contacts_in(model)
    if not contacts:
        if active is not None:
            raise ControlError(
                f"'active' names contacts on the ground, but {model.name} has none: leave it out, "
                "or add contacts with pinion.robot.with_contacts."
            )
        return None
    mask = finite("active", np.ones(contacts) if active is None else active)
    if mask.ndim == 2 and count == knots > 1 and len(mask) == count:
        raise ControlError(
            f"'active' has the shape {mask.shape}, which is ambiguous, since there are as "
            f"many problems as knots: give (1, {knots}, {contacts}) for one schedule for all "
            f"problems, or ({count}, 1, {contacts}) for one mask per problem."
        )
    mask = mask[None] if mask.shape == (knots, contacts) else _along("active", mask)
    if mask.shape[-1] != contacts:
        raise ControlError(
            f"The last axis of 'active' has length {mask.shape[-1]}: give {contacts}, one for each "
            f"contact and loop of {model.name}."
        )
    _fits("active", mask, count, knots)
    wrong = mask[(mask != 0.0) & (mask != 1.0)]
    if wrong.size:
        raise ControlError(
            f"'active' has the value {wrong[0]}: give 1 for a contact on the ground, and 0 for one "
            "in the air."
        )
    return mask


def _check_inside(model: Model, start: Floats) -> None:
    """Raise `ControlError` unless start states (n, nx) are within the joints' limits."""
    middle, half = joint_ranges(model)
    outside = np.abs(start[:, : model.nq] - middle) > half * (1 + 1e-9)
    if outside.any():
        number, column = (int(i) for i in np.argwhere(outside)[0])
        joint = next(
            body.joint
            for body, positions in zip(model.bodies, model.q_slices, strict=True)
            if positions.start <= column < positions.stop
        )
        raise ControlError(
            f"The start of problem {number} has {joint.name!r} at "
            f"{start[number, column]:.6g} {joint.kind.unit}, outside its limits of "
            f"{middle[column] - half[column]:.6g} and {middle[column] + half[column]:.6g}: choose "
            "a start within them."
        )


# Many parameters: the term, its values, and what they must fit.
def _frame_targets(
    model: Model,
    cost: Cost,
    term: str,
    values: Any,
    count: int,
    knots: int,
    fixed: bool = False,
) -> Floats | dict[str, Floats] | None:
    """Return the targets of positions (``tip``) or rotations as arrays, by frame if given so.

    ``fixed`` : whether the last position of the cost's frame is a constraint, without a weight too.

    Raises
    ------
    ControlError
        If a frame has only a weight or only a target, or cannot move, or an array is invalid.
    """
    weighted, targets = cost.frames(term), by_frame(values, cost.frame)
    if fixed:
        if not targets or (cost.frame and cost.frame not in targets):
            raise ControlError("'final' names the tip, but 'tip' is missing: give its target.")
        if not cost.frame:
            raise ControlError(
                "'final' names the tip, but the cost has no 'frame': give the tip's link, "
                "Cost(frame=...)."
            )
        weighted = tuple(dict.fromkeys([*weighted, cost.frame]))
    if targets and not set(targets) <= set(weighted):
        frame = next(frame for frame in targets if frame not in weighted)
        if not frame and weighted:
            raise ControlError(
                f"The target '{term}' names no frame, but the cost's weights do: give targets by "
                f"the names of frames, {term}={{{weighted[0]!r}: ...}}."
            )
        subject = f"'{term}' of {frame!r}" if isinstance(values, Mapping) else f"'{term}'"
        raise ControlError(
            f"The target {subject} has no weight: give the cost a weight '{term}', or leave the "
            "target out."
        )
    arrays = {}
    for frame in weighted:
        if frame not in targets:
            raise ControlError(missing(term, frame))
        if find_frame(model, frame).body < 0:
            raise ControlError(
                f"The frame '{frame}' of the cost is fixed to the base and never moves: name a "
                f"link that moves, such as '{(model.tips or (model.frames[-1].name,))[0]}'."
            )
        shape = (3, 3) if term == "rotation" else (3,)
        name = f"{term}' of '{frame}" if isinstance(values, Mapping) else term
        array = finite(name, targets[frame])
        if array.shape[-len(shape) :] != shape:
            axes = ", ".join(map(str, shape))
            raise ControlError(
                f"'{name}' has the shape {array.shape}: give {shape}, (problems, {axes}) or "
                f"(problems, knots, {axes})."
            )
        arrays[frame] = _along(name, array, len(shape))
        _fits(name, arrays[frame], count, knots)
        if term == "rotation":
            _check_rotations(name, arrays[frame])
    if isinstance(values, Mapping):
        return arrays or None
    return arrays.get(cost.frame)


def _check_rotations(name: str, R: Floats) -> None:
    """Raise `ControlError` unless matrices (n, knots, 3, 3) are rotations."""
    off = np.abs(np.swapaxes(R, -1, -2) @ R - np.eye(3)).max(axis=(-2, -1))
    wrong = (off > ORTHONORMAL) | (np.linalg.det(R) < 0.0)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ControlError(
            f"'{name}' of problem {at[0]} at knot {at[1]} is not a rotation: its determinant is "
            f"{np.linalg.det(R[at]):.6g}, and its columns are orthonormal within {off[at]:.2g}; "
            "give matrices from frame coordinates to base coordinates."
        )


ORTHONORMAL = 1e-6
"""Largest error of ``R' R`` of a target."""


def finite(name: str, values: ArrayLike) -> Floats:
    """Return values as a float64 array with at least one axis, checked to be finite.

    Raises
    ------
    ControlError
        If the values are not finite numbers, or a single number.
    """
    array = _numbers(name, values)
    if array.ndim == 0:
        raise ControlError(f"'{name}' is a single number, {array}: give an array.")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ControlError(f"'{name}' at {where} is {array[where]}: it must be finite.")
    return array


def _numbers(name: str, values: ArrayLike) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ControlError(f"'{name}' is {values!r:.60}: give an array of numbers.") from None


def states(name: str, values: ArrayLike, space: StateSpace) -> Floats:
    """Return states (..., nx) from given states, or from positions with zero velocity.

    Quaternions are scaled to unit length.

    Raises
    ------
    ControlError
        If the last axis has another length, a number is not finite, or a quaternion is 0.
    """
    array = np.atleast_2d(finite(name, values))
    if array.shape[-1] == space.nq:
        array = np.concatenate([array, np.zeros((*array.shape[:-1], space.nv))], axis=-1)
    if array.shape[-1] != space.nx:
        raise ControlError(
            f"The last axis of '{name}' has length {array.shape[-1]}: give {space.nq} for "
            f"positions, or {space.nx} for positions followed by rates."
        )
    if space.flat:
        return array
    q, qd = space.parts(array)
    try:
        unit = dynamics.normalise(space.model, q.reshape(-1, space.nq))
    except dynamics.DynamicsError as error:
        raise ControlError(f"'{name}' has invalid positions. {error}") from None
    return np.concatenate([unit.reshape(q.shape), qd], axis=-1)


def _along(name: str, values: Floats, axes: int = 1) -> Floats:
    """Return values with up to two axes before their own as (n or 1, knots or 1, ...)."""
    before = values.ndim - axes
    if before == 0:
        return values[None, None]
    if before == 1:
        return values[:, None]
    if before == 2:
        return values
    raise ControlError(
        f"'{name}' has {values.ndim} axes: give at most {axes + 2}, problem and knot before the "
        "value."
    )


def _fits(name: str, values: Floats, count: int, knots: int) -> None:
    if values.shape[0] not in (1, count) or values.shape[1] not in (1, knots):
        raise ControlError(
            f"'{name}' has values for {amount(values.shape[0], 'problem')} and "
            f"{amount(values.shape[1], 'knot')}, but {amount(count, 'problem')} and "
            f"{amount(knots, 'knot')} are needed."
        )
