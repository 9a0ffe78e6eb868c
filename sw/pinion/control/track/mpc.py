r"""Model predictive control: at every period a short horizon is solved again.

A period is one real-time iteration (M. Diehl, H. G. Bock and J. P. Schloeder, "A Real-Time
Iteration Scheme for Nonlinear Optimization in Optimal Feedback Control", SIAM J. Control and
Optimization 43(5), 2005), here with iLQR: the last solution is moved by a period, its feedback
rolled out from the state that was measured, dynamics made linear along it in one batch of
gradients, and a backward pass gives the next feedback. No line search: a full step is taken, and
where the horizon is lost it begins again at the reference. A backward pass that is not convex is
made again with the least weight on efforts that makes it so; where none does, the plan goes on with
the last feedback, moved on with it.

Until the next period ends the first effort and its feedback hold,

    u(t) = u_0 - K_0 (x(t) - x_0(t)),

about the motion that was planned for this period, which faster loops evaluate as often as they can.

What a card flags as saturated, or what is not finite, is no gradient. In its place stands
what was last trusted nearest to the same instant of the motion; before there is any, the nearest
trusted knot of the same batch. A horizon that is flagged throughout before any was trusted is an
error.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pinion.batch import Closing
from pinion.control.errors import ControlError
from pinion.control.plant import Linear, Plant
from pinion.control.solve.backward import PASSES, Quadratic, regularised
from pinion.control.solve.cost import Cost, Target
from pinion.control.solve.engine import LOST
from pinion.control.solve.ilqr import Options
from pinion.control.solve.single import single

from .motion import Motion
from .tip_cost import tip_costs

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

PARTS = ("gradients", "backward", "rest")
"""Where the time of a period goes: the backend, the backward pass, and all else."""


@dataclass(frozen=True, kw_only=True)
class Law:
    """What holds until the next period ends.

    Members
    -------
    u, K : effort (nv,) and feedback (nv, 2 nv).
    begin, rate : the state (2 nv,) that the period begins with, and its change by the second.
    limit : largest efforts (nv,).
    """

    u: Floats
    K: Floats
    begin: Floats
    rate: Floats
    limit: Floats

    def efforts(self, since: float, x: Floats) -> Floats:
        """Efforts (nv,) for the state x (2 nv,), so many seconds after the period's begin."""
        u = self.u - self.K @ (x - self.begin - since * self.rate)
        return np.clip(u, -self.limit, self.limit)


@dataclass
class Log:
    """What a controller counts and measures, by period.

    Members
    -------
    seconds : of each part, in lists by :data:`PARTS`.
    flagged : gradients that were flagged, and ``gradients`` all that there were.
    restarts : horizons that were lost and began again at the reference, and backward passes that no
        weight made convex.
    """

    seconds: dict[str, list[float]] = field(default_factory=lambda: {p: [] for p in PARTS})
    flagged: int = 0
    gradients: int = 0
    restarts: int = 0


class Mpc(Closing):
    """A controller that follows a motion.

    Parameters
    ----------
    plant : steps of the horizon's knots, gradients from any backend; closed with the controller.
    cost : of the tip, joints, rates, efforts and limits, relative to the motion's.
    motion : to follow; its ``dt`` is the period, of which the plant's step is a multiple, and it is
        longer than what is tracked by a horizon.
    knots : of the horizon.
    iterations : at each period, 1 or 2 mostly.
    backward : ``single`` (one problem, serial), or one of :data:`.backward.PASSES`.
    compiled : the tip of the cost by a compiled function.

    Members
    -------
    period : from one update to the next [s].
    log : counts and times.

    Raises
    ------
    ControlError
        When these do not go together.
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
        compiled: bool = True,
    ) -> None:
        nv, period = plant.model.nv, motion.dt
        passes = {"single": single, **PASSES}
        self._stride = round(plant.dt / period)
        if self._stride < 1 or abs(self._stride * period - plant.dt) > 1e-9:
            raise ControlError(
                f"The plant's step of {plant.dt} s is no multiple of the period of {period} s."
            )
        if motion.q.shape[1] != nv:
            raise ControlError(
                f"The motion has {motion.q.shape[1]} joints, and {plant.model.name} has {nv}."
            )
        if knots < 2 or iterations < 1:
            raise ControlError(
                f"A horizon has at least 2 knots, not {knots}, and 1 iteration, not {iterations}."
            )
        if backward not in passes:
            raise ControlError(
                f"There is no backward pass '{backward}'; choose one of {', '.join(passes)}."
            )
        if cost.has_tip and cost.frame != motion.frame:
            raise ControlError(
                f"The cost weighs the tip '{cost.frame}', and the motion is of '{motion.frame}'."
            )
        self.plant = plant
        self.motion = motion
        self.period = period
        self.knots = knots
        self.iterations = iterations
        self.log = Log()
        self._pass = passes[backward]
        self._ladder = Options().ladder()
        self._costs = tip_costs(plant.model, cost, compiled=compiled)
        self._limit = np.array([body.joint.effort for body in plant.model.bodies])
        self._states = motion.states()
        self._ahead = self._stride * np.arange(knots + 1)
        if self._ahead[-1] >= motion.rows:
            raise ControlError(
                f"The motion of {(motion.rows - 1) * period:.3g} s is shorter than a horizon of "
                f"{knots * plant.dt:.3g} s."
            )
        # The plan is kept as deviations from the motion, so that its end goes on with the motion.
        self._x = np.zeros((knots + 1, 2 * nv))
        self._u = np.zeros((knots, nv))
        self._K = np.zeros((knots, nv, 2 * nv))
        # The last linearisation of each knot, and the instant that it is of, in periods.
        self._linear: Linear | None = None
        self._instants = self._ahead[:-1]
        self._planned: int | None = None

    @property
    def periods(self) -> int:
        """How many periods the motion has, the horizon of the last one inside it."""
        return self.motion.rows - int(self._ahead[-1])

    def close(self) -> None:
        """Close the plant."""
        self.plant.close()

    def update(self, number: int, x: Floats) -> Law:
        """The law of the period `number`, from the state x (2 nv,) that was measured at its begin.

        Raises
        ------
        ControlError
            When the motion is over, the state is not finite, or every gradient of a first horizon
            was flagged.
        """
        if not 0 <= number < self.periods:
            raise ControlError(f"The motion has the periods 0 to {self.periods - 1}, not {number}.")
        if not np.isfinite(x).all():
            raise ControlError(f"The state at period {number} is not finite: {x}.")
        began = time.perf_counter()
        spent = dict.fromkeys(PARTS, 0.0)
        rows = number + self._ahead
        target = self._target(rows)
        self._shift(number)
        for _ in range(self.iterations):
            xs, us = self._rolled(x, target)
            waited = self.plant.waited
            linear = self._trusted(self.plant.linearise(xs[None, :-1], us[None]), rows[:-1])
            spent["gradients"] += self.plant.waited - waited
            cost = self._costs.expand(xs[None], us[None], target)
            problem = Quadratic(
                A=linear.A,
                B=linear.B,
                Q=cost.xx,
                q=cost.x,
                R=np.broadcast_to(cost.uu, cost.u.shape),
                r=cost.u,
            )
            mark = time.perf_counter()
            feedback = regularised(self._pass, problem, self._ladder)
            spent["backward"] += time.perf_counter() - mark
            if feedback.convex[0]:
                self._K, step = feedback.gains[0], feedback.feedforward[0]
            else:
                self.log.restarts += 1
                step = np.zeros_like(us)
            self._x, self._u = xs - self._states[rows], us - step - target.tau[0]
        u = np.clip(us[0] - step[0], -self._limit, self._limit)
        after = xs[1] - linear.B[0, 0] @ step[0]
        rate = (after - x) / self.plant.dt
        self._planned = number
        spent["rest"] = time.perf_counter() - began - sum(spent.values())
        for part, seconds in spent.items():
            self.log.seconds[part].append(seconds)
        return Law(u=u, K=self._K[0], begin=np.array(x), rate=rate, limit=self._limit)

    def _target(self, rows: NDArray[np.intp]) -> Target:
        n = self.plant.model.nv
        states = self._states[rows][None]
        return Target(
            q=states[..., :n],
            qd=states[..., n:],
            tau=self.motion.tau[rows[:-1]][None],
            tip=self.motion.tip[rows][None],
        )

    def _shift(self, number: int) -> None:
        """Move the plan and its feedback on to this period."""
        if self._planned is None:
            return
        moved = (number - self._planned) / self._stride
        self._x = _moved(self._x, moved)
        self._u = _moved(self._u, moved)
        self._K = self._K[np.minimum(np.arange(self.knots) + round(moved), self.knots - 1)]

    def _rolled(self, x: Floats, target: Target) -> tuple[Floats, Floats]:
        """States and efforts of the plan's feedback from a state, inside the efforts' limits."""
        first, efforts = np.concatenate([target.q[0], target.qd[0]], axis=1), target.tau[0]
        for feedback in (True, False):
            xs = np.empty((self.knots + 1, len(x)))
            us = efforts + self._u if feedback else efforts.copy()
            xs[0] = x
            planned = first + self._x
            for at in range(self.knots):
                if feedback:
                    us[at] -= self._K[at] @ (xs[at] - planned[at])
                us[at] = np.clip(us[at], -self._limit, self._limit)
                xs[at + 1] = self.plant.step(xs[at : at + 1], us[at : at + 1])[0]
                # A comparison that is false for what is not a number.
                if not np.abs(xs[at + 1]).max() < LOST:
                    break
            else:
                return xs, us
            # The plan has left all bounds: the motion's own efforts, without any feedback.
            self.log.restarts += 1
            self._x[:], self._u[:], self._K[:] = 0.0, 0.0, 0.0
        raise ControlError(
            f"From the state {x} the horizon of {self.knots} steps leaves all bounds: choose a "
            "shorter one."
        )

    def _trusted(self, linear: Linear, instants: NDArray[np.intp]) -> Linear:
        """Flagged gradients replaced by the last trusted ones that are nearest in time."""
        finite = np.isfinite(linear.A).all(axis=(2, 3)) & np.isfinite(linear.B).all(axis=(2, 3))
        flags = np.asarray(linear.saturated) | ~finite
        self.log.gradients += flags.size
        count = int(flags.sum())
        self.log.flagged += count
        if count:
            A, B, sources = np.array(linear.A), np.array(linear.B), np.array(instants)
            good = np.flatnonzero(~flags[0])
            source, times, choice = linear, instants, good
            if self._linear is not None:
                source, times, choice = self._linear, self._instants, np.arange(self.knots)
            elif not len(good):
                raise ControlError(
                    f"All {count} gradients of the first horizon were flagged as saturated: the "
                    "motion leaves what the build's formats were made for; build with more "
                    "integer bits, or with other ranges."
                )
            for at in np.flatnonzero(flags[0]):
                near = choice[np.argmin(np.abs(times[choice] - instants[at]))]
                A[0, at], B[0, at], sources[at] = source.A[0, near], source.B[0, near], times[near]
            linear, instants = Linear(A, B, flags), sources
        self._linear, self._instants = linear, instants
        return linear


def _moved(values: Floats, by: float) -> Floats:
    """Rows ``by`` further on, linear in between, the last one held at the end."""
    at = np.minimum(np.arange(len(values)) + by, len(values) - 1)
    low = at.astype(np.intp)
    high = np.minimum(low + 1, len(values) - 1)
    share = (at - low)[:, None]
    return np.asarray((1 - share) * values[low] + share * values[high])
