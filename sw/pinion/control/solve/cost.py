r"""Costs of motions: quadratic in states, efforts, frames, limits and forces, and a barrier.

    l(x, u) = 1/2 ( wq |q - q*|^2 + wv |qd - qd*|^2 + wu |tau - tau*|^2
                    + wp |p(q) - p*|^2 + wr |log(R*' R(q))|^2
                    + wl |outside(q)|^2 + wc |beyond(f)|^2 )
              + wb sum beta(1 - s^2)

where ``q - q*`` is the tangent change that takes q* to q (:mod:`pinion.control.state`), and wq, wv
and wu may differ from joint to joint. Any number of frames have a position p and a rotation R, each
with a weight (:mod:`.frames`). ``outside`` is how far each joint is beyond a share of its
limits, zero inside: a soft limit. ``beyond`` is how far contact forces are outside their friction
cones (:mod:`.cones`). Second derivatives of residuals are left out (Gauss-Newton), so Hessians are
never indefinite; only forces depend on both x and u. Single knots may have larger weights. The last
one has separate weights, no effort, and no forces.

``beta`` is a barrier at the limits themselves, with s between -1 and 1 for a joint between them: a
logarithm that continues as a quadratic in ``w = 1 - s^2`` below a margin d, so that motions outside
have finite costs and gradients (Hauser and Saccon, "A Barrier Function Method for the Optimization
of Trajectory Functionals with Constraints", CDC 2006; Feller and Ebenbauer, "Relaxed Logarithmic
Barrier Function Based Model Predictive Control of Linear Systems", IEEE TAC 2017):

    beta(w) = -log w    if w > d,    otherwise    ((w - 2 d)^2 / d^2 - 1) / 2 - log d

It is twice differentiable, convex in s, and zero in the middle; its Hessian is exact.

:mod:`.kernels` has the same cost on traced scalars, and says why it is written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pinion import dynamics
from pinion.base.arrays import Floats
from pinion.control.errors import ControlError, check_kind, check_number, check_whole, is_number
from pinion.control.limits import joint_ranges, limited_joints
from pinion.control.plant import ForceGradient
from pinion.control.state import StateSpace
from pinion.robot import Model
from pinion.robot.lookup import find_frame

from .cones import Cones
from .frames import by_frame, logarithm, logarithm_jacobian, missing


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
    numbers = value if isinstance(value, list | tuple) else np.asarray(value).tolist()
    several = isinstance(numbers, list | tuple)
    weights = numbers if several else [numbers]
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


def soft_limits(model: Model, cost: Cost) -> tuple[Floats, Floats]:
    """Return the lower and upper soft limits of the joints, (nq,) each; infinite without limits."""
    middle, half = joint_ranges(model)
    return middle - cost.soft * half, middle + cost.soft * half


def barrier(w: Floats, margin: float) -> tuple[Floats, Floats, Floats]:
    """Return ``beta(w)`` and its first and second derivatives with respect to w."""
    inside = w > margin
    safe = np.where(inside, w, 1.0)
    off = (w - 2.0 * margin) / margin
    value = np.where(inside, -np.log(safe), 0.5 * (off**2 - 1.0) - np.log(margin))
    slope = np.where(inside, -1.0 / safe, off / margin)
    return value, slope, np.where(inside, 1.0 / safe**2, 1.0 / margin**2)


@dataclass(frozen=True, kw_only=True)
class KnotTarget:
    """Reference states, efforts and frames of n motions, one per knot or constant.

    Members
    -------
    q, qd : (n, knots + 1, nq) and (n, knots + 1, nv), or with 1 for either of the first two axes.
    tau : (n, knots, nu), likewise.
    tip : (n, knots + 1, 3) [m] in the frame of the base, likewise: position of the cost's frame; or
        such arrays by the names of frames; None if no position has a weight.
    rotation : (n, knots + 1, 3, 3), frame coordinates to base coordinates, as ``tip``.
    """

    q: Floats
    qd: Floats
    tau: Floats
    tip: Floats | Mapping[str, Floats] | None = None
    rotation: Floats | Mapping[str, Floats] | None = None

    def at(self, index: NDArray[np.bool_] | NDArray[np.intp]) -> KnotTarget:
        """Return the targets of the problems that a mask or indices select."""
        return self._mapped(lambda x: x if len(x) == 1 else x[index])

    def at_knot(self, knot: int) -> KnotTarget:
        """Return the targets of one knot; of the last one with the efforts before it."""
        return self._mapped(lambda x: x[:, [min(knot, x.shape[1] - 1)]])

    def spread(self, count: int) -> KnotTarget:
        """Return the targets broadcast to ``count`` problems."""
        return self._mapped(lambda x: np.broadcast_to(x, (count, *x.shape[1:])))

    def joined(self, other: KnotTarget) -> KnotTarget:
        """Return these targets followed by those of other problems with the same frames."""
        return self._mapped(followed, other)

    def _mapped(self, change: Callable[..., Floats], *others: KnotTarget) -> KnotTarget:
        """Return the results of a function of each array, and of the others' same arrays."""

        def changed(name: str) -> Any:
            values, *more = (getattr(target, name) for target in (self, *others))
            if isinstance(values, Mapping):
                return {
                    key: change(x, *(other[key] for other in more)) for key, x in values.items()
                }
            return None if values is None else change(values, *more)

        return KnotTarget(**{member.name: changed(member.name) for member in fields(self)})


def followed(first: Floats, then: Floats) -> Floats:
    """Return arrays (n, knots or 1, ...) of two batches, concatenated along the first axis."""
    knots = max(first.shape[1], then.shape[1])
    return np.concatenate(
        [np.broadcast_to(x, (len(x), knots, *x.shape[2:])) for x in (first, then)]
    )


@dataclass(frozen=True)
class Expansion:
    """Values, gradients and Hessians of costs along motions.

    Members
    -------
    value : (n, knots + 1).
    x, xx : (n, knots + 1, 2 nv) and (n, knots + 1, 2 nv, 2 nv), with respect to states.
    u, uu : (n, knots, nu) and (knots, nu), with respect to efforts; uu is diagonal and constant.
    mixed : (n, knots, nu, nu + 2 nv), second derivatives with respect to efforts, and to efforts
        and states, beside uu; None without costs of forces.
    """

    value: Floats
    x: Floats
    xx: Floats
    u: Floats
    uu: Floats
    mixed: Floats | None = None


@dataclass(frozen=True)
class CostModel:
    """Cost of a robot's motions, computed on arrays.

    Members
    -------
    model, cost : the robot and its cost.
    space : its states and actuators.
    low, high : soft limits, (nq,).
    middle, half : middle and half width of each joint's range, (nq,); inf without limits.
    limited : positions with limits, and their velocities, as two arrays of indices.
    cones : friction cones of the contacts; None if they have no weight.
    """

    model: Model
    cost: Cost
    space: StateSpace = field(init=False)
    low: Floats = field(init=False)
    high: Floats = field(init=False)
    middle: Floats = field(init=False)
    half: Floats = field(init=False)
    limited: tuple[NDArray[np.intp], NDArray[np.intp]] = field(init=False)
    cones: Cones | None = field(init=False)

    def __post_init__(self) -> None:
        space = StateSpace(self.model)
        low, high = soft_limits(self.model, self.cost)
        middle, half = joint_ranges(self.model)
        for name, value in (
            ("space", space),
            ("low", low),
            ("high", high),
            ("middle", middle),
            ("half", half),
            ("limited", limited_joints(self.model)),
            ("cones", self._cones()),
        ):
            object.__setattr__(self, name, value)
        for weights in self.cost.every:
            for name in BY_JOINT:
                weights.by_joint(name, space.nu if name == "tau" else space.nv)
        for frame in self._frame_terms:
            find_frame(self.model, frame)  # raises if there is none

    def _cones(self) -> Cones | None:
        if not self.cost.has_cones:
            return None
        if not self.model.contacts:
            raise ControlError(
                f"The weight 'cones' is for contacts, but {self.model.name} has none: leave it "
                "out, or add contacts with pinion.robot.with_contacts."
            )
        return Cones.of(self.model, self.cost.friction, self.cost.least_force)

    def values(
        self, x: Floats, u: Floats, target: KnotTarget, force: Floats | None = None
    ) -> Floats:
        """Return costs (n, knots + 1) of states (n, knots + 1, nx) and efforts (n, knots, nu).

        ``force`` : (n, knots, nc), as :meth:`.Plant.forces` returns them, for friction cones.
        """
        q, qd = self.space.parts(x)
        weigh = self._by_knot(x.shape[1])
        off = self.space.between(target.q, q)
        value = 0.5 * np.sum(weigh("q") * off**2, axis=-1)
        value += 0.5 * np.sum(weigh("qd") * (qd - target.qd) ** 2, axis=-1)
        value[:, :-1] += 0.5 * np.sum(weigh("tau")[:-1] * (u - target.tau) ** 2, axis=-1)
        at, _ = self.limited
        if self.cost.has_limits:
            beyond = q - np.clip(q, self.low, self.high)
            value += 0.5 * np.sum(weigh("limits") * beyond**2, axis=-1)
        if self.cost.has_barrier:
            share = (q - self.middle)[..., at] / self.half[at]
            penalty, _, _ = barrier(1.0 - share**2, self.cost.margin)
            value += np.sum(weigh("barrier") * penalty, axis=-1)
        for frame, terms in self._frame_terms.items():
            pose = self.pose(q, frame)
            for term in terms:
                miss = self._miss(term, frame, pose, target)
                value += 0.5 * weigh(term, frame)[:, 0] * np.sum(miss**2, axis=-1)
        if self.cones is not None:
            assert force is not None
            outside = self.cones.beyond(force)
            value[:, :-1] += 0.5 * weigh("cones")[:-1, 0] * np.sum(outside**2, axis=-1)
        return np.asarray(value)

    def expand(
        self, x: Floats, u: Floats, target: KnotTarget, force: ForceGradient | None = None
    ) -> Expansion:
        """Return costs along motions with gradients and Gauss-Newton Hessians.

        ``force`` : the contact forces, for friction cones.
        """
        n = self.space.nv
        q, qd = self.space.parts(x)
        weigh = self._by_knot(x.shape[1])
        lx = np.empty((*x.shape[:-1], 2 * n))
        lxx = np.zeros((*x.shape[:-1], 2 * n, 2 * n))
        diagonal = np.arange(n)
        off = self.space.between(target.q, q)
        lx[..., :n], lx[..., n:] = weigh("q") * off, weigh("qd") * (qd - target.qd)
        if self.space.flat:
            lxx[..., diagonal, diagonal] = weigh("q")
        else:
            jacobian = self.space.between_jacobian(off)
            lx[..., :n] = np.einsum("...ki,...k->...i", jacobian, lx[..., :n])
            weighted = weigh("q")[..., None] * jacobian
            lxx[..., :n, :n] = np.swapaxes(jacobian, -1, -2) @ weighted
        lxx[..., n + diagonal, n + diagonal] = weigh("qd")
        at, moves = self.limited
        if self.cost.has_limits:
            beyond = (q - np.clip(q, self.low, self.high))[..., at]
            lx[..., moves] += weigh("limits") * beyond
            lxx[..., moves, moves] += weigh("limits") * (beyond != 0.0)
        if self.cost.has_barrier:
            half = self.half[at]
            share = (q - self.middle)[..., at] / half
            _, slope, curvature = barrier(1.0 - share**2, self.cost.margin)
            weight = weigh("barrier")
            lx[..., moves] -= weight * (2.0 * share / half) * slope
            chained = 4.0 * share**2 * curvature - 2.0 * slope
            lxx[..., moves, moves] += weight * chained / half**2
        for frame, terms in self._frame_terms.items():
            pose, velocity = self.pose(q, frame), self.pose_jacobian(q, frame)
            for term in terms:
                miss, jacobian = self._miss(term, frame, pose, target), velocity[..., 3:, :]
                if term == "rotation":
                    angular = np.swapaxes(pose[0], -1, -2) @ velocity[..., :3, :]
                    jacobian = logarithm_jacobian(miss) @ angular
                weight = weigh(term, frame)
                lx[..., :n] += weight * np.einsum("...ki,...k->...i", jacobian, miss)
                lxx[..., :n, :n] += weight[..., None] * (np.swapaxes(jacobian, -1, -2) @ jacobian)
        effort = weigh("tau")[:-1]
        lu, mixed = effort * (u - target.tau), None
        if self.cones is not None:
            assert force is not None
            outside, price = self.cones.beyond(force.value), weigh("cones")[:-1]
            inward = np.where(outside[..., None] > 0.0, self.cones.facets, 0.0)
            by_x, by_u = inward @ force.x, inward @ force.u
            lx[:, :-1] += price * np.einsum("...ki,...k->...i", by_x, outside)
            lxx[:, :-1] += price[..., None] * (np.swapaxes(by_x, -1, -2) @ by_x)
            lu = lu + price * np.einsum("...ki,...k->...i", by_u, outside)
            both = np.concatenate([by_u, by_x], axis=-1)
            mixed = price[..., None] * np.swapaxes(by_u, -1, -2) @ both
        return Expansion(
            value=self.values(x, u, target, None if force is None else force.value),
            x=lx,
            xx=lxx,
            u=lu,
            uu=effort,
            mixed=mixed,
        )

    def pose(self, q: Floats, frame: str) -> tuple[Floats, Floats]:
        """Return a frame's R (..., 3, 3) and p (..., 3) [m] at joint positions (..., nq).

        NaN where positions are not finite, as in a trial that diverged.
        """
        flat = q.reshape(-1, q.shape[-1])
        usable = np.asarray(np.isfinite(flat).all(axis=1))[:, None]
        flat = np.where(usable, flat, dynamics.neutral_configuration(self.model))
        R, p = dynamics.frame_placement(self.model, flat, frame)
        R, p = np.where(usable[..., None], R, np.nan), np.where(usable, p, np.nan)
        return R.reshape(*q.shape[:-1], 3, 3), p.reshape(*q.shape[:-1], 3)

    def pose_jacobian(self, q: Floats, frame: str) -> Floats:
        """Return a frame's Jacobian (..., 6, nv), [angular; linear] of its origin in base axes."""
        flat = q.reshape(-1, q.shape[-1])
        J = dynamics.frame_jacobian(self.model, flat, frame, reference="local_world_aligned")
        return np.asarray(J).reshape(*q.shape[:-1], 6, self.model.nv)

    @property
    def _frame_terms(self) -> dict[str, list[str]]:
        """Weighted terms of `BY_FRAME` by frame."""
        terms: dict[str, list[str]] = {}
        for name in BY_FRAME:
            for frame in self.cost.frames(name):
                terms.setdefault(frame, []).append(name)
        return terms

    def _miss(
        self, term: str, frame: str, pose: tuple[Floats, Floats], target: KnotTarget
    ) -> Floats:
        """Return how far a frame's position or rotation is from its target, (..., 3)."""
        R, p = pose
        reference = by_frame(getattr(target, term), self.cost.frame).get(frame)
        if reference is None:
            raise ControlError(missing(term, frame))
        return p - reference if term == "tip" else logarithm(np.swapaxes(reference, -1, -2) @ R)

    def _by_knot(self, knots: int) -> Callable[..., Floats]:
        """Return a function from a weight's name to its values, (knots, nv, nu or 1).

        ``frame`` : for a weight of `BY_FRAME`.
        """
        cost = self.cost
        sizes = {"q": self.space.nv, "qd": self.space.nv, "tau": self.space.nu}

        def weigh(name: str, frame: str = "") -> Floats:
            def value(weights: Weights) -> Any:
                number = getattr(weights, name)
                return by_frame(number, cost.frame).get(frame, 0.0) if frame else number

            values = np.empty((knots, sizes.get(name, 1)))
            values[:-1] = value(cost.running)
            for knot, weights in cost.added.items():
                values[knot] += value(weights)
            values[-1] = value(cost.final)
            return values

        return weigh
