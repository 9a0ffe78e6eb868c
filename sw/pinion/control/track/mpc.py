r"""Model predictive control: a short horizon is solved in every period.

A period is one real-time iteration (M. Diehl, H. G. Bock and J. P. Schloeder, "A Real-Time
Iteration Scheme for Nonlinear Optimization in Optimal Feedback Control", SIAM J. Control and
Optimization 43(5), 2005) of multiple shooting (H. G. Bock and K. J. Plitt, IFAC World Congress
1984), here with iLQR: the last plan is shifted by a period and begins with the measured state;
dynamics are linearised along it in one batch of gradients; a backward pass that includes the gaps,
differences between the ends of steps and the next knots' states, gives the feedback; and a sweep
of the linear steps, with efforts clipped to their limits, the next plan. Nothing is rolled out, so
plans of unstable robots do not diverge, and all knots are computed at once. There is no line
search: a full step is taken, and a plan that diverges restarts at the motion. It has diverged if
the tangent change from the motion to any of its states, of a position or a rate, is not finite or
reaches :data:`.engine.LOST`; how far the motion itself is from zero does not count, so robots may
be anywhere and joints may have made any number of turns. A backward pass that
is not convex is repeated with the smallest regularisation that makes it so; if none does, the last
law's gains are kept, and so is the plan, except that it begins with the measured state and the
effort of these gains.

With ``observer`` a controller estimates a load that the model lacks, such as a payload, as efforts
d at the joints (:mod:`.observer`). The plan's efforts are then v = u + d: dynamics, cost and
gradients are those of v, v is limited such that u is inside the limits, and the law's effort is
v_0 - d. At rest the model with v moves as the robot with u does, so there is no offset from the
motion.

Until the next period ends, the first effort and its gains hold,

    u(t) = u_0 - K_0 (x(t) - x_0(t)),

about the motion planned for this period; faster loops evaluate this law as often as they can.

With gradients that are compiled for the CPU the whole period is compiled (:mod:`.period`); the one
here, on arrays, is its reference and serves every other backend.

Gradients that a card flags as saturated, or that are not finite, are replaced by the trusted one
nearest to the same instant of the motion, or at first by the nearest trusted knot of the same
batch. A first horizon without any trusted gradient is an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Floats
from pinion.batch import Closing
from pinion.compute.backend import CpuBackend
from pinion.compute.cpu import Kernel
from pinion.control.errors import ControlError
from pinion.control.plant import ForceGradient, Linear, Plant, gradient_row
from pinion.control.solve.backward import PASSES, Quadratic, regularised
from pinion.control.solve.cost import KnotTarget
from pinion.control.solve.engine import LOST
from pinion.control.solve.ilqr import Options
from pinion.control.solve.problem import states
from pinion.control.solve.single import single
from pinion.control.solve.weights import Cost
from pinion.control.state import StateSpace

from .motion import Motion
from .observer import LoadObserver
from .period import (
    ALL_FLAGGED,
    DIVERGED,
    NO_PERIOD,
    NOT_FINITE,
    PARTS,
    CompiledPeriod,
    Horizon,
    LawParts,
)
from .tip_cost import tip_costs


# Not frozen: a period's call would take two microseconds longer.
@dataclass(kw_only=True, slots=True)
class Law:
    """Control law that is applied until the next one is computed.

    Members
    -------
    u, K : efforts (nu,) and gains (nu, 2 nv).
    begin, rate : state (nx,) at the start of the period, and its rate of change (2 nv,) [1/s].
    limit : largest efforts (nu,).
    space : the robot's states; None if they are vectors.
    feedback : compiled code for `efforts`, :meth:`.period.CompiledPeriod.efforts`; None without.
        Copies by :mod:`copy` and :mod:`pickle` have none: they compute on arrays, in float64.
    """

    u: Floats
    K: Floats
    begin: Floats
    rate: Floats
    limit: Floats
    space: StateSpace | None = None
    feedback: Callable[[LawParts, Floats, float, Floats], Floats] | None = None

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """Return all members but the compiled code, which belongs to this process."""
        members = {member.name: getattr(self, member.name) for member in fields(self)}
        return None, members | {"feedback": None}

    def efforts(self, since: float, x: Floats) -> Floats:
        """Return efforts (nu,) for the state x (nx,), ``since`` seconds into the period."""
        if self.feedback is not None:
            return self.feedback((self.u, self.K, self.begin, self.rate), self.limit, since, x)
        if self.space is None:
            off = x - self.begin - since * self.rate
        else:
            off = self.space.difference(self.space.integrate(self.begin, since * self.rate), x)
        return np.clip(self.u - self.K @ off, -self.limit, self.limit)


@dataclass
class Log:
    """Counts and times of a controller.

    Members
    -------
    seconds : lists of times by period, by :data:`PARTS`.
    flagged, gradients : numbers of flagged gradients and of all gradients.
    restarts : horizons that diverged and restarted at the reference, and backward passes that no
        regularisation made convex.
    """

    seconds: dict[str, list[float]] = field(default_factory=lambda: {p: [] for p in PARTS})
    flagged: int = 0
    gradients: int = 0
    restarts: int = 0


class Mpc(Closing):
    """A model predictive controller that tracks a motion.

    Parameters
    ----------
    plant : steps of the horizon, with gradients from any backend; closed with the controller.
    cost : of the tip, joints, rates, efforts, limits and contact forces, relative to the motion.
    motion : to track; its ``dt`` is the period, the plant's step is a multiple of it, and the last
        horizon lies inside it.
    knots : of the horizon.
    iterations : in each period, usually 1 or 2.
    backward : ``single`` (one problem, serial), or one of :data:`.backward.PASSES`.
    observer : time constant [s] of an estimate of unknown loads at the joints; None estimates none.
        Only for robots without contacts whose joints have one position each.
    compiled : whether code is compiled for the controller: the whole period with gradients on the
        CPU, semi-implicit steps and the pass ``single``, in their dtype; otherwise the cost's tip.

    Members
    -------
    horizon : robot, cost and knots, as compiled code and an export have them.
    period : from one update to the next [s].
    load : (nu,), estimated efforts that act besides the law's, 0 without an observer [N m | N].
    log : counts and times.

    Raises
    ------
    ControlError
        If the arguments do not match.
    """

    def __init__(
        self,
        plant: Plant,
        cost: Cost,
        motion: Motion,
        *,
        knots: int = 16,
        iterations: int = 1,
        backward: str = "single",
        observer: float | None = None,
        compiled: bool = True,
    ) -> None:
        space, passes = plant.space, {"single": single, **PASSES}
        kernel = _kernel_of(plant)
        self.horizon = Horizon(
            model=plant.model,
            cost=cost,
            knots=knots,
            dtype="float64" if kernel is None else kernel.dtype.name,
            step=plant.dt,
            period=motion.dt,
            iterations=iterations,
            method=plant.method,
            velocity_gain=plant.velocity_gain,
            damping=plant.damping,
        )
        self.horizon.check(motion)
        if backward not in passes:
            raise ControlError(
                f"There is no backward pass '{backward}': choose one of {', '.join(passes)}."
            )
        cost.check_pass(backward)
        self.plant = plant
        self.motion = motion
        self.period = motion.dt
        self.knots = knots
        self.iterations = iterations
        self.log = Log()
        self._pass = passes[backward]
        self._ladder = Options().ladder()
        self._limit = self.horizon.limits
        self._observer: LoadObserver | None = None
        if observer is not None:
            self._observer = LoadObserver(plant, self._limit, observer)
        # The last law, with its period and state, from which the observer predicts.
        self._last: tuple[int, Floats, Law] | None = None
        self._states = motion.states()
        self._shape = self._states.shape[1:]
        # None if states are vectors.
        self._curved = None if space.flat else space
        self._ahead = self.horizon.stride * np.arange(knots + 1)
        # The plan is stored as deviations from the motion, so that its end follows the motion.
        self._x = np.zeros((knots + 1, space.ndx))
        self._u = np.zeros((knots, space.nu))
        self._K = np.zeros((space.nu, space.ndx))
        # The last trusted linearisation of each knot, and its instant in periods.
        self._linear: Linear | None = None
        self._instants = self._ahead[:-1]
        self._planned: int | None = None
        self._period: CompiledPeriod | None = None
        if compiled and backward == "single" and kernel is not None:
            self._period = CompiledPeriod(self.horizon, kernel, motion)
        compiled = compiled and self._period is None
        self._costs = tip_costs(plant.model, cost, compiled=compiled)

    @property
    def periods(self) -> int:
        """Number of periods whose horizon lies inside the motion."""
        return self.motion.rows - int(self._ahead[-1])

    @property
    def load(self) -> Floats:
        """Estimated efforts that act besides the law's, (nu,) [N m | N]."""
        return np.zeros(len(self._limit)) if self._observer is None else self._observer.load

    def close(self) -> None:
        """Close the plant and the observer."""
        self.plant.close()
        if self._observer is not None:
            self._observer.close()

    def update(self, number: int, x: Floats) -> Law:
        """Return the law of the period `number` for the state x (nx,) measured at its start.

        Raises
        ------
        ControlError
            If the motion is over, the state has the wrong shape or is not finite, or every gradient
            of the first horizon was flagged.
        """
        x = np.asarray(x, dtype=np.float64)
        if x.shape != self._shape:
            raise ControlError(
                f"The state has the shape {np.shape(x)}: give positions and rates, {self._shape}."
            )
        if self._curved is not None and not self._curved.is_unit(x):
            x = states("x", x, self._curved)[0]
        self._observe(number, x)
        if self._period is not None:
            law = self._compiled_law(self._period, number, x)
        else:
            self._check(number, x)
            law = self._array_law(number, x)
        self._last = number, x.copy(), law
        return law

    def _observe(self, number: int, x: Floats) -> None:
        """Update the estimate of the load, if the last law has been applied until the state x."""
        if self._observer is None or self._last is None or not np.isfinite(x).all():
            return
        before, start, law = self._last
        seconds = (number - before) * self.period
        if seconds > 0.0:
            efforts = (law.efforts(0.0, start) + law.efforts(seconds, x)) / 2
            self._observer.update(seconds, start, x, efforts)

    def _array_law(self, number: int, x: Floats) -> Law:
        """Return the law that NumPy computes."""
        began, space = time.perf_counter(), self.plant.space
        spent = dict.fromkeys(PARTS, 0.0)
        rows = number + self._ahead
        self._shift(number)
        target = self._target(rows)
        for _ in range(self.iterations):
            if not self._iterate(x, rows, target, spent):
                self._restart()
                if not self._iterate(x, rows, target, spent):
                    self.log.restarts += 1
                    raise ControlError(self._diverged(x))
        following = space.integrate(self._states[rows[1]], self._x[1])
        self._planned = number
        spent["rest"] = time.perf_counter() - began - sum(spent.values())
        for part, seconds in spent.items():
            self.log.seconds[part].append(seconds)
        return Law(
            u=target.tau[0, 0] + self._u[0] - self.load,
            K=self._K,
            begin=np.array(x),
            rate=space.difference(x, following) / self.plant.dt,
            limit=self._limit,
            space=self._curved,
        )

    def _iterate(
        self, x: Floats, rows: NDArray[np.intp], target: KnotTarget, spent: dict[str, float]
    ) -> bool:
        """Improve the plan from the state x; return False, and keep the plan, if it diverges.

        Seconds are added to ``spent``.
        """
        space, cost, active = self.plant.space, self.horizon.cost, self._active(rows[:-1])
        efforts = target.tau[0]
        xs, us = space.integrate(self._states[rows], self._x), efforts + self._u
        away = space.difference(xs[0], x)
        xs[0] = x
        waited = self.plant.waited
        linear = self.plant.linearise(
            xs[None, :-1], us[None], active, following=xs[None, 1:], forces=cost.has_cones
        )
        gaps = space.difference(xs[1:], self.plant.step(xs[:-1], us, active))
        linear = self._trusted(linear, gaps, rows[:-1])
        gaps[~np.isfinite(gaps).all(axis=-1)] = 0.0
        spent["gradients"] += self.plant.waited - waited
        costs = self._costs.expand(xs[None], us[None], target, linear.force)
        problem = Quadratic(
            A=linear.A,
            B=linear.B,
            Q=costs.xx,
            q=costs.x,
            R=np.broadcast_to(costs.uu, costs.u.shape),
            r=costs.u,
            gaps=gaps[None],
            mixed=costs.mixed,
        )
        mark = time.perf_counter()
        feedback = regularised(self._pass, problem, self._ladder)
        spent["backward"] += time.perf_counter() - mark
        if not feedback.convex[0]:
            self.log.restarts += 1
            # The plan begins with x from here on, so that a further iteration adds no feedback.
            self._u[0] = self._clipped(us[0] - self._K @ away) - efforts[0]
            self._x[0] = space.difference(self._states[rows[0]], x)
            return True
        change, planned = np.zeros((self.knots + 1, space.ndx)), np.empty_like(us)
        for at in range(self.knots):
            step = feedback.feedforward[0, at] + feedback.gains[0, at] @ change[at]
            planned[at] = self._clipped(us[at] - step)
            moved = linear.A[0, at] @ change[at] + linear.B[0, at] @ (planned[at] - us[at])
            change[at + 1] = moved + gaps[at]
        off = space.difference(self._states[rows], space.integrate(xs, change))
        # False for NaN too.
        if not (np.abs(off) < LOST).all():
            return False
        self._K, self._x, self._u = feedback.gains[0, 0], off, planned - efforts
        return True

    def _restart(self) -> None:
        """Begin again with the motion as the plan, without feedback."""
        self.log.restarts += 1
        self._x[:], self._u[:], self._K = 0.0, 0.0, np.zeros_like(self._K)

    def _clipped(self, u: Floats) -> Floats:
        return np.clip(u, self.load - self._limit, self.load + self._limit)

    def _check(self, number: int, x: Floats) -> None:
        """Raise `ControlError` if there is no such period, or the state is not finite."""
        if not 0 <= number < self.periods:
            raise ControlError(
                f"There is no period {number}: the motion has periods 0 to {self.periods - 1}."
            )
        if not np.isfinite(x).all():
            raise ControlError(f"The state at period {number} is not finite: {x}.")

    def _compiled_law(self, period: CompiledPeriod, number: int, x: Floats) -> Law:
        """Return the law that compiled code computes."""
        answer = period.update(number, x, None if self._observer is None else self.load)
        if answer in (NO_PERIOD, NOT_FINITE):
            self._check(number, x)
        log = self.log
        log.flagged, log.gradients, log.restarts = period.counts()
        if answer == DIVERGED:
            raise ControlError(self._diverged(x))
        if answer == ALL_FLAGGED:
            raise ControlError(_all_flagged(self.knots))
        for times, seconds in zip(log.seconds.values(), period.seconds(), strict=True):
            times.append(seconds)
        u, K, begin, rate = period.law()
        law = Law(u=u, K=K, begin=begin, rate=rate, limit=self._limit, space=self._curved)
        if self._curved is not None:
            law.feedback = period.efforts
        return law

    def _target(self, rows: NDArray[np.intp]) -> KnotTarget:
        q, qd = self.plant.space.parts(self._states[rows][None])
        return KnotTarget(
            q=q,
            qd=qd,
            tau=self.motion.tau[rows[:-1]][None],
            tip=self.motion.tip[rows][None],
        )

    def _shift(self, number: int) -> None:
        """Shift the plan forward to a period."""
        if self._planned is None or number <= self._planned:
            return
        shift = (number - self._planned) / self.horizon.stride
        self._x = _shifted(self._x, shift)
        self._u = _shifted(self._u, shift)

    def _active(self, rows: NDArray[np.intp]) -> Floats | None:
        """Return the mask of contacts on the ground at rows of the motion, (rows, contacts)."""
        return None if self.motion.active is None else self.motion.active[rows]

    def _diverged(self, x: Floats) -> str:
        return (
            f"From the state {x} the plan of {self.knots} steps diverges: choose a shorter "
            "horizon, or end the run if the robot has fallen or lost its contacts."
        )

    def _trusted(self, linear: Linear, gaps: Floats, instants: NDArray[np.intp]) -> Linear:
        """Replace flagged gradients with the trusted ones nearest in time."""
        arrays = _arrays_of(linear)
        finite = np.logical_and.reduce(
            [np.isfinite(x).all(axis=tuple(range(2, x.ndim))) for x in (*arrays, gaps[None])]
        )
        flags = np.asarray(linear.saturated) | ~finite
        self.log.gradients += flags.size
        count = int(flags.sum())
        self.log.flagged += count
        if count:
            good = np.flatnonzero(~flags[0])
            source, times, choice = arrays, instants, good
            if self._linear is not None:
                source, times, choice = (
                    _arrays_of(self._linear),
                    self._instants,
                    np.arange(self.knots),
                )
            elif not len(good):
                raise ControlError(_all_flagged(count))
            replaced, sources = [x.copy() for x in arrays], np.array(instants)
            for at in np.flatnonzero(flags[0]):
                nearest = choice[np.argmin(np.abs(times[choice] - instants[at]))]
                for values, others in zip(replaced, source, strict=True):
                    values[0, at] = others[0, nearest]
                sources[at] = times[nearest]
            A, B, *force = replaced
            linear = Linear(A, B, flags, ForceGradient(*force) if force else None)
            instants = sources
        self._linear, self._instants = linear, instants
        return linear


def _arrays_of(linear: Linear) -> list[Floats]:
    """Return A, B and, if they were computed, forces with their gradient, (1, knots, ...) each."""
    force = linear.force
    return [linear.A, linear.B, *(() if force is None else (force.value, force.x, force.u))]


def _kernel_of(plant: Plant) -> Kernel | None:
    """Return the kernel of a plant's gradients; None if a whole period cannot be compiled."""
    gradients = plant.gradients
    if not isinstance(gradients, CpuBackend) or plant.method != "semi_implicit":
        return None
    expected = gradient_row(contacts=plant.contacts)
    return gradients.kernel if gradients.function == expected else None


def _all_flagged(count: int) -> str:
    return (
        f"All {count} gradients of the first horizon are flagged as saturated or not finite: "
        "choose a slower motion, or, for a build, more integer bits or other ranges."
    )


def _shifted(values: Floats, shift: float) -> Floats:
    """Return rows shifted by a fractional number of rows, with the last one repeated at the end."""
    at = np.minimum(np.arange(len(values)) + shift, len(values) - 1)
    low = at.astype(np.intp)
    high = np.minimum(low + 1, len(values) - 1)
    share = (at - low)[:, None]
    return np.asarray((1 - share) * values[low] + share * values[high])
