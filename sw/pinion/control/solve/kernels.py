r"""The steps of an iteration as functions of scalars: traced, printed and compiled like dynamics.

Functions of a robot and a cost, each of one problem at one knot, for batches of problems:

- ``final``: value, gradient and Hessian of the last knot's cost.
- ``riccati``: a step of the backward pass. With h the step's length, F = [dqdd/dq, dqdd/dqd] and
  M^-1, a semi-implicit step is A = A0 + W F and B = W M^-1 for W = [h^2; h] and A0 = [1, h; 0, 1].
  So with P = W' V W, S = W' V A0 and T = S + P F

      Q_uu = R + M^-1 P M^-1      Q_ux = M^-1 T      Q_xx = Q + A0' V A0 + F' T + S' F

  where no product with A or B is left: 5,100 multiplications for seven joints in place of 14,000.
- ``roll``: a step of a trial: feedback, forward dynamics, and what the knot costs.
- ``stage``: dynamics, their gradient, and the running cost expanded, for solvers of other kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pinion import dynamics
from pinion.api import (
    EFFORT,
    POSITION,
    VELOCITY,
    array,
    clamp,
    less,
    maximum,
    reciprocal,
    select,
    sqrt,
    uniform,
)
from pinion.functions import Block, Function
from pinion.robot import Model

from .cost import Cost, Weights, joint_ranges, soft_limits

Rows = list[list[Any]]

# Kernels are compiled, not built as cores: how their inputs are drawn decides nothing.
_ANY = uniform(-1.0, 1.0)


def _expansion(
    model: Model, cost: Cost, weights: Weights, q: Any, qd: Any, at: dict[str, Any], region: Any
) -> tuple[Any, list[Any], list[Any], Rows]:
    """Value, gradient by q and qd, and Hessian by q (that by qd is ``weights.qd``) of a knot."""
    n = model.nv
    value: Any = 0.0
    by_q: list[Any] = [0.0] * n
    by_qd: list[Any] = [0.0] * n
    by_qq: Rows = [[0.0] * n for _ in range(n)]
    low, high = soft_limits(model, cost)
    middle, half = joint_ranges(model)
    for i in range(n):
        off, late = q[i] - at["q_ref"][i], qd[i] - at["qd_ref"][i]
        value = value + 0.5 * weights.q * (off * off) + 0.5 * weights.qd * (late * late)
        by_q[i] = weights.q * off
        by_qd[i] = weights.qd * late
        by_qq[i][i] = weights.q
        if weights.limits and np.isfinite(low[i]) and np.isfinite(high[i]):
            ends = float(low[i]), float(high[i])
            beyond = q[i] - clamp(q[i], *ends)
            value = value + 0.5 * weights.limits * (beyond * beyond)
            by_q[i] = by_q[i] + weights.limits * beyond
            outside = less(q[i], ends[0]) | less(ends[1], q[i])
            by_qq[i][i] = by_qq[i][i] + select(outside, weights.limits, 0.0)
        if weights.barrier and np.isfinite(half[i]):
            wide = float(half[i])
            share = (q[i] - float(middle[i])) * (1.0 / wide)
            penalty, slope, curve = _barrier(1.0 - share * share, cost.margin)
            value = value + weights.barrier * penalty
            by_q[i] = by_q[i] - (2.0 * weights.barrier / wide) * (share * slope)
            bent = 2.0 * (share * share) * curve - slope
            by_qq[i][i] = by_qq[i][i] + (2.0 * weights.barrier / wide**2) * bent
    if weights.tip:
        _, place = dynamics.frame_placement_scalars(model, q, cost.frame, region=region)
        jacobian = dynamics.frame_jacobian_scalars(
            model, q, cost.frame, region=region, reference="local_world_aligned"
        )
        off_tip = [place[c] - at["tip_ref"][c] for c in range(3)]
        value = value + 0.5 * weights.tip * _dot(off_tip, off_tip)
        for i in range(n):
            column = [jacobian[3 + c][i] for c in range(3)]
            by_q[i] = by_q[i] + weights.tip * _dot(column, off_tip)
            for j in range(i + 1):
                other = [jacobian[3 + c][j] for c in range(3)]
                more = weights.tip * _dot(column, other)
                by_qq[i][j] = by_qq[i][j] + more
                by_qq[j][i] = by_qq[i][j]
    return value, by_q, by_qd, by_qq


def _barrier(w: Any, margin: float) -> tuple[Any, Any, Any]:
    """What :func:`.cost.barrier` is, over any scalar."""
    bounded = maximum(w, margin)
    inverse = reciprocal(bounded)
    inside = less(margin, w)
    off = (w - 2.0 * margin) * (1.0 / margin)
    beyond = 0.5 * (off * off - 1.0) - float(np.log(margin))
    return (
        select(inside, 0.0 - _logarithm(bounded), beyond),
        select(inside, 0.0 - inverse, off * (1.0 / margin)),
        select(inside, inverse * inverse, 1.0 / margin**2),
    )


def _logarithm(x: Any) -> Any:
    """Natural logarithm of a number between 1e-4 and 1, within 3e-14; there is no such operation.

    ``log x = 32 artanh t`` with ``t = (r - 1) / (r + 1)`` and r the sixteenth root of x: t^2 is
    below 0.08, and twelve terms of the series are enough.
    """
    root = sqrt(sqrt(sqrt(sqrt(x))))
    t = (root - 1.0) * reciprocal(root + 1.0)
    square = t * t
    total: Any = 1.0 / 23.0
    for odd in range(21, 0, -2):
        total = total * square + 1.0 / odd
    return 32.0 * (t * total)


def references(cost: Cost) -> tuple[str, ...]:
    """Names of the inputs that say what a knot should be near, beside the effort's."""
    return ("q_ref", "qd_ref", "tip_ref") if cost.has_tip else ("q_ref", "qd_ref")


def _reference_arrays(cost: Cost) -> dict[str, Any]:
    near = {
        "q_ref": array("nq", unit="rad", sampling=POSITION),
        "qd_ref": array("nv", unit="rad/s", sampling=VELOCITY),
    }
    if cost.has_tip:
        near["tip_ref"] = array(3, unit="m", sampling=_ANY)
    return near


def _state_arrays(q: str = "q", qd: str = "qd") -> dict[str, Any]:
    return {
        q: array("nq", unit="rad", sampling=POSITION),
        qd: array("nv", unit="rad/s", sampling=VELOCITY),
    }


def final_function(model: Model, cost: Cost) -> Function:
    """The last knot: ``value``, ``v`` (2 nv) and ``V`` (2 nv, 2 nv) of q, qd and references."""
    m = 2 * model.nv

    def final(model: Model, *, region: Any, **values: Any) -> dict[str, Any]:
        value, by_q, by_qd, by_qq = _expansion(
            model, cost, cost.final, values["q"], values["qd"], values, region
        )
        V = _blocks(by_qq, cost.final.qd)
        return {"value": value, "v": [*by_q, *by_qd], "V": V}

    return _made(
        "final",
        "cost of a motion's last knot, expanded",
        final,
        inputs={**_state_arrays(), **_reference_arrays(cost)},
        outputs={"value": array(), "v": array(m), "V": array(m, m, symmetric=True)},
    )


def stage_function(model: Model, cost: Cost, dt: float) -> Function:
    """A knot of q, qd, tau and references: a semi-implicit step with A and B, the cost expanded."""
    n = model.nv

    def stage(model: Model, *, region: Any, **values: Any) -> dict[str, Any]:
        q, qd, tau = values["q"], values["qd"], values["tau"]
        gradient = dynamics.fd_derivatives_scalars(model, q, qd, tau, region=region)
        value, by_q, by_qd, by_qq = _expansion(model, cost, cost.running, q, qd, values, region)
        effort_weight = cost.running.tau
        over = [tau[i] - values["tau_ref"][i] for i in range(n)]
        qd_next = [qd[i] + dt * gradient.qdd[i] for i in range(n)]
        lower, upper = [], []
        for i in range(n):
            row = [dt * x for x in (*gradient.dqdd_dq[i], *gradient.dqdd_dqd[i])]
            row[n + i] = row[n + i] + 1.0
            above = [dt * x for x in row]
            above[i] = above[i] + 1.0
            lower.append(row)
            upper.append(above)
        pushed = [[dt * x for x in row] for row in gradient.minv]
        return {
            "qdd": gradient.qdd,
            "q_next": [q[i] + dt * qd_next[i] for i in range(n)],
            "qd_next": qd_next,
            "A": upper + lower,
            "B": [[dt * x for x in row] for row in pushed] + pushed,
            "value": value + 0.5 * effort_weight * _dot(over, over),
            "by_x": [*by_q, *by_qd],
            "by_u": [effort_weight * x for x in over],
            "by_xx": _blocks(by_qq, cost.running.qd),
        }

    return _made(
        "stage",
        "dynamics with their gradient, and a running cost with its gradient and Hessian",
        stage,
        inputs={
            **_state_arrays(),
            "tau": array("nv", unit="N m", sampling=EFFORT),
            **_reference_arrays(cost),
            "tau_ref": array("nv", unit="N m", sampling=_ANY),
        },
        outputs={
            "qdd": array("nv", unit="rad/s^2"),
            "q_next": array("nq", unit="rad"),
            "qd_next": array("nv", unit="rad/s"),
            "A": array(2 * n, 2 * n),
            "B": array(2 * n, n),
            "value": array(),
            "by_x": array(2 * n),
            "by_u": array(n),
            "by_xx": array(2 * n, 2 * n, symmetric=True),
        },
        joint_space=not cost.has_tip,
    )


def riccati_function(model: Model, cost: Cost, dt: float) -> Function:
    """A step of the backward pass: K, k, V, v of the knot, and sums of slope and curve.

    ``dqdd_dq, dqdd_dqd, minv`` are those of the knot, ``V_next, v_next`` of the next one;
    ``pivot`` is the least pivot of Q_uu, and of all knots behind.
    """
    n, h = model.nv, dt

    def riccati(model: Model, *, region: Any, **values: Any) -> dict[str, Any]:
        D, E, M = (_rows(values[name]) for name in ("dqdd_dq", "dqdd_dqd", "minv"))
        V, v = _rows(values["V_next"]), list(values["v_next"])
        _, by_q, by_qd, by_qq = _expansion(
            model, cost, cost.running, values["q"], values["qd"], values, region
        )
        effort_weight = cost.running.tau
        by_u = [effort_weight * (values["tau"][i] - values["tau_ref"][i]) for i in range(n)]
        joints = range(n)
        F = [[*D[i], *E[i]] for i in joints]
        Vqq = [[V[max(i, j)][min(i, j)] for j in joints] for i in joints]
        Vvq = [[V[n + i][j] for j in joints] for i in joints]
        Vvv = [[V[n + max(i, j)][n + min(i, j)] for j in joints] for i in joints]
        P: Rows = [[0.0] * n for _ in joints]
        for i in joints:
            for j in range(i + 1):
                P[i][j] = P[j][i] = (h**2) * (
                    (h**2) * Vqq[i][j] + h * (Vvq[i][j] + Vvq[j][i]) + Vvv[i][j]
                )
        S: Rows = []
        for i in joints:
            first = [h * (h * Vqq[i][j] + Vvq[i][j]) for j in joints]
            then = [h * (h * Vvq[j][i] + Vvv[i][j]) for j in joints]
            S.append([*first, *(h * a + b for a, b in zip(first, then, strict=True))])
        T = [[S[i][c] + _dot(P[i], _column(F, c)) for c in range(2 * n)] for i in joints]
        y = [h * (h * v[i] + v[n + i]) for i in joints]
        G = [[_dot(M[i], P[j]) for j in joints] for i in joints]
        Quu: Rows = [[0.0] * n for _ in joints]
        for i in joints:
            for j in range(i + 1):
                Quu[i][j] = _dot(G[i], M[j])
            Quu[i][i] = Quu[i][i] + effort_weight + values["damping"]
        qu = [by_u[i] + _dot(M[i], y) for i in joints]
        # Columns of Q_ux, and last Q_u: what Q_uu is solved for.
        right = [[_dot(M[i], _column(T, c)) for c in range(2 * n)] + [qu[i]] for i in joints]
        gains, pivots = _solved(Quu, right)
        k = [gains[i][2 * n] for i in joints]
        across = [
            [*Vqq[i], *(h * Vqq[i][j] + Vvq[j][i] for j in joints)] for i in joints
        ]  # upper half of A0' V A0
        V_now: Rows = [[0.0] * (2 * n) for _ in range(2 * n)]
        for a in range(2 * n):
            for b in range(a + 1):
                if a < n:
                    moved = across[a][b]
                elif b < n:
                    moved = across[b][a]
                else:
                    i, j = a - n, b - n
                    moved = (h**2) * Vqq[i][j] + h * (Vvq[i][j] + Vvq[j][i]) + Vvv[i][j]
                left = [*_column(F, a), *_column(S, a), *(-right[i][a] for i in joints)]
                right_factor = [*_column(T, b), *_column(F, b), *(gains[i][b] for i in joints)]
                V_now[a][b] = moved + _dot(left, right_factor)
        for i in joints:
            V_now[n + i][n + i] = V_now[n + i][n + i] + cost.running.qd
            for j in range(i + 1):
                V_now[i][j] = V_now[i][j] + by_qq[i][j]
        for a in range(2 * n):
            for b in range(a):
                V_now[b][a] = V_now[a][b]
        v_now = []
        for a in range(2 * n):
            own_x = by_q[a] if a < n else by_qd[a - n]
            moved = v[a] if a < n else h * v[a - n] + v[a]
            left = [*_column(F, a), *(-right[i][a] for i in joints)]
            v_now.append(own_x + moved + _dot(left, [*y, *k]))
        gain = _dot(k, qu)
        least = values["pivot_next"]
        for pivot in pivots:
            least = select(less(pivot, least), pivot, least)
        return {
            "K": [gains[i][: 2 * n] for i in joints],
            "k": k,
            "V": V_now,
            "v": v_now,
            "slope": values["slope_next"] + gain,
            "curve": values["curve_next"] + gain - values["damping"] * _dot(k, k),
            "pivot": least,
        }

    m = 2 * n
    return _made(
        "riccati",
        "a step of a backward pass",
        riccati,
        inputs={
            **_state_arrays(),
            "tau": array("nv", unit="N m", sampling=_ANY),
            **_reference_arrays(cost),
            "tau_ref": array("nv", unit="N m", sampling=_ANY),
            **{name: array("nv", "nv", sampling=_ANY) for name in ("dqdd_dq", "dqdd_dqd")},
            "minv": array("nv", "nv", symmetric=True, sampling=_ANY),
            "damping": array(sampling=_ANY),
            "V_next": array(m, m, symmetric=True, sampling=_ANY),
            "v_next": array(m, sampling=_ANY),
            **{f"{name}_next": array(sampling=_ANY) for name in ("slope", "curve", "pivot")},
        },
        outputs={
            "K": array(n, m),
            "k": array(n),
            "V": array(m, m, symmetric=True),
            "v": array(m),
            "slope": array(),
            "curve": array(),
            "pivot": array(),
        },
    )


def roll_function(model: Model, cost: Cost, dt: float) -> Function:
    """A step of a trial: the next state, the effort, and the sum of costs so far.

    ``q_now, qd_now`` is where the trial is, ``q, qd, tau`` the trajectory that feedback is about.
    """
    n = model.nv

    def roll(model: Model, *, region: Any, **values: Any) -> dict[str, Any]:
        q, qd = values["q_now"], values["qd_now"]
        off = [
            *(q[i] - values["q"][i] for i in range(n)),
            *(qd[i] - values["qd"][i] for i in range(n)),
        ]
        K = _rows(values["K"])
        tau = [
            values["tau"][i] - values["share"] * values["k"][i] - _dot(K[i], off) for i in range(n)
        ]
        value, *_ = _expansion(model, cost, cost.running, q, qd, values, region)
        over = [tau[i] - values["tau_ref"][i] for i in range(n)]
        value = value + 0.5 * cost.running.tau * _dot(over, over)
        qdd = dynamics.aba_scalars(model, q, qd, tau, region=region)
        qd_next = [qd[i] + dt * qdd[i] for i in range(n)]
        return {
            "q_next": [q[i] + dt * qd_next[i] for i in range(n)],
            "qd_next": qd_next,
            "tau_new": tau,
            "cost": values["cost_before"] + value,
        }

    return _made(
        "roll",
        "a step of a motion under feedback, and its cost",
        roll,
        inputs={
            **_state_arrays("q_now", "qd_now"),
            **_state_arrays(),
            "tau": array("nv", unit="N m", sampling=_ANY),
            **_reference_arrays(cost),
            "tau_ref": array("nv", unit="N m", sampling=_ANY),
            "K": array(n, 2 * n, sampling=_ANY),
            "k": array(n, sampling=_ANY),
            "share": array(sampling=_ANY),
            "cost_before": array(sampling=_ANY),
        },
        outputs={
            "q_next": array("nq", unit="rad"),
            "qd_next": array("nv", unit="rad/s"),
            "tau_new": array("nv", unit="N m", sampling=_ANY),
            "cost": array(),
        },
        joint_space=not cost.has_tip,
    )


def _made(
    name: str,
    doc: str,
    step: Callable[..., Mapping[str, Any]],
    *,
    inputs: Mapping[str, Block],
    outputs: Mapping[str, Block],
    joint_space: bool = False,
) -> Function:
    """A row of an algorithm that takes its inputs, and gives its outputs, by name."""

    def scalars(model: Model, *values: Any, region: Any) -> list[Any]:
        results = step(model, region=region, **dict(zip(inputs, values, strict=True)))
        return [results[output] for output in outputs]

    return Function(
        name=name,
        doc=doc,
        inputs=tuple(replace(block, name=key) for key, block in inputs.items()),
        outputs=tuple(replace(block, name=key) for key, block in outputs.items()),
        scalars=scalars,
        joint_space=joint_space,
    )


def _rows(matrix: Any) -> Rows:
    return [list(row) for row in matrix]


def _column(matrix: Rows, c: int) -> list[Any]:
    return [row[c] for row in matrix]


def _dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
    total: Any = 0.0
    for x, y in zip(a, b, strict=True):
        total = total + x * y
    return total


def _blocks(by_qq: Rows, by_qdqd: float) -> Rows:
    n = len(by_qq)
    whole: Rows = [[*row, *([0.0] * n)] for row in by_qq]
    for i in range(n):
        whole.append([by_qdqd if c == n + i else 0.0 for c in range(2 * n)])
    return whole


def _solved(matrix: Rows, right: Rows) -> tuple[Rows, list[Any]]:
    """``matrix^-1 right`` by L D L', of which the lower triangle is read; and the pivots D."""
    n = len(matrix)
    L: Rows = [[0.0] * n for _ in range(n)]
    pivots: list[Any] = []
    inverses: list[Any] = []
    scaled: Rows = [[0.0] * n for _ in range(n)]  # L D
    for i in range(n):
        for j in range(i):
            scaled[i][j] = matrix[i][j] - _dot(scaled[i][:j], L[j][:j])
        for j in range(i):
            L[i][j] = scaled[i][j] * inverses[j]
        pivots.append(matrix[i][i] - _dot(scaled[i][:i], L[i][:i]))
        inverses.append(reciprocal(pivots[i]))
    solution = [list(row) for row in right]
    for c in range(len(right[0])):
        for i in range(n):
            solution[i][c] = solution[i][c] - _dot(L[i][:i], [solution[j][c] for j in range(i)])
        for i in reversed(range(n)):
            below = [L[j][i] for j in range(i + 1, n)]
            solution[i][c] = solution[i][c] * inverses[i] - _dot(
                below, [solution[j][c] for j in range(i + 1, n)]
            )
    return solution, pivots
