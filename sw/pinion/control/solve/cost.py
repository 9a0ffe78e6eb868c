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

:mod:`.weights` has the weights; :mod:`.kernels` has the same cost on traced scalars, and says why
it is written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion import dynamics
from pinion.base.arrays import Floats
from pinion.control.errors import ControlError
from pinion.control.limits import joint_ranges, limited_joints
from pinion.control.plant import ForceGradient
from pinion.control.state import StateSpace
from pinion.robot import Model
from pinion.robot.lookup import find_frame

from .cones import Cones
from .frames import by_frame, logarithm, logarithm_jacobian, missing
from .weights import BY_FRAME, BY_JOINT, Cost, Weights


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
        """Return the targets of one knot; the last knot has the efforts of the one before it."""
        return self._mapped(lambda x: x[:, [min(knot, x.shape[1] - 1)]])

    def spread(self, count: int) -> KnotTarget:
        """Return the targets broadcast to ``count`` problems."""
        return self._mapped(lambda x: np.broadcast_to(x, (count, *x.shape[1:])))

    def joined(self, other: KnotTarget) -> KnotTarget:
        """Return these targets followed by those of other problems with the same frames."""
        return self._mapped(followed, other)

    def _mapped(self, change: Callable[..., Floats], *others: KnotTarget) -> KnotTarget:
        """Return targets with a function applied to each array and the same one of ``others``."""

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
        """Terms of `BY_FRAME` that have a weight, by frame."""
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
