r"""Solver steps as functions of scalars: traced, printed and compiled like dynamics.

Functions of a robot and a cost, each for one problem at one knot, run on batches of problems:

- ``final``: value, gradient and Hessian of the last knot's cost.
- ``riccati``: a step of the backward pass. With step length h, F = [dqdd/dq, dqdd/dqd] and M^-1, a
  semi-implicit step is A = A0 + W F and B = W M^-1 for W = [h^2; h] and A0 = [1, h; 0, 1]. With
  P = W' Vxx W, S = W' Vxx A0 and T = S + P F

      Quu = R + M^-1 P M^-1      Qux = M^-1 T      Qxx = Q + A0' Vxx A0 + F' T + S' F

  which needs no product with A or B: 5,100 multiplications for seven joints instead of 14,000.
- ``roll``: a step of a trial: feedback, forward dynamics, and the cost of the knot.
- ``stage``: dynamics, their gradient, and the expanded running cost, for other solvers.

The recursion and the cost are also written on arrays, in :mod:`.backward` and :mod:`.cost`. They
cannot share code: traced scalars have no ``log`` and no solver, branch by ``select``, and exploit
the structure above, while arrays go to LAPACK a batch at a time. ``tests/control/test_ilqr.py`` and
``test_stage.py`` compare both.
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
from pinion.control.limits import joint_ranges
from pinion.dynamics.displacements import inverse_jacobian, joint_difference
from pinion.dynamics.matrices import product, transposed
from pinion.dynamics.scalar import mul
from pinion.dynamics.steps import joints_of
from pinion.functions import Block, Function
from pinion.robot import Model

from .cost import soft_limits
from .frames import by_frame
from .weights import Cost, Weights

Rows = list[list[Any]]

# Kernels are compiled, not built as cores: their sampling has no effect.
ANY = uniform(-1.0, 1.0)


def expansion(
    model: Model, cost: Cost, weights: Weights, q: Any, qd: Any, at: dict[str, Any], region: Any
) -> tuple[Any, list[Any], list[Any], Rows]:
    """Return a knot's cost, gradients lq and lqd, and Hessian lqq; lqdqd is diag(weights.qd)."""
    n = model.nv
    value: Any = 0.0
    lq: list[Any] = [0.0] * n
    lqd: list[Any] = [0.0] * n
    lqq: Rows = [[0.0] * n for _ in range(n)]
    low, high = soft_limits(model, cost)
    middle, half = joint_ranges(model)
    positions, rates = by_joint(weights, "q", n), by_joint(weights, "qd", n)
    for kind, at_q, columns in joints_of(model):
        if kind.nv > 1:
            off = joint_difference(kind, at["q_ref"][at_q], q[at_q])
            late = [x - y for x, y in zip(qd[columns], at["qd_ref"][columns], strict=True)]
            weighted = [w * x for w, x in zip(positions[columns], off, strict=True)]
            lqd[columns] = [w * x for w, x in zip(rates[columns], late, strict=True)]
            value = value + 0.5 * _dot(weighted, off) + 0.5 * _dot(lqd[columns], late)
            turn = inverse_jacobian(kind, off)
            lq[columns] = product([weighted], turn)[0]
            scaled = [
                [mul(w, x) for x in row] for w, row in zip(positions[columns], turn, strict=True)
            ]
            squares = product(transposed(turn), scaled)
            for row, changed in zip(lqq[columns], squares, strict=True):
                row[columns] = changed
            continue
        i, x = columns.start, q[at_q.start]
        off, late = x - at["q_ref"][at_q.start], qd[i] - at["qd_ref"][i]
        value = value + 0.5 * positions[i] * (off * off) + 0.5 * rates[i] * (late * late)
        lq[i] = positions[i] * off
        lqd[i] = rates[i] * late
        lqq[i][i] = positions[i]
        ends = float(low[at_q.start]), float(high[at_q.start])
        if weights.limits and np.isfinite(ends).all():
            beyond = x - clamp(x, *ends)
            value = value + 0.5 * weights.limits * (beyond * beyond)
            lq[i] = lq[i] + weights.limits * beyond
            outside = less(x, ends[0]) | less(ends[1], x)
            lqq[i][i] = lqq[i][i] + select(outside, weights.limits, 0.0)
        half_range = float(half[at_q.start])
        if weights.barrier and np.isfinite(half_range):
            share = (x - float(middle[at_q.start])) * (1.0 / half_range)
            penalty, slope, curvature = _barrier(1.0 - share * share, cost.margin)
            value = value + weights.barrier * penalty
            lq[i] = lq[i] - (2.0 * weights.barrier / half_range) * (share * slope)
            chained = 2.0 * (share * share) * curvature - slope
            lqq[i][i] = lqq[i][i] + (2.0 * weights.barrier / half_range**2) * chained
    tip_weight = by_frame(weights.tip, cost.frame).get(cost.frame, 0.0)
    if tip_weight:
        _, place = dynamics.frame_placement_scalars(model, q, cost.frame, region=region)
        jacobian = dynamics.frame_jacobian_scalars(
            model, q, cost.frame, region=region, reference="local_world_aligned"
        )
        off_tip = [place[c] - at["tip_ref"][c] for c in range(3)]
        value = value + 0.5 * tip_weight * _dot(off_tip, off_tip)
        for i in range(n):
            column = [jacobian[3 + c][i] for c in range(3)]
            lq[i] = lq[i] + tip_weight * _dot(column, off_tip)
            for j in range(i + 1):
                other_column = [jacobian[3 + c][j] for c in range(3)]
                square = tip_weight * _dot(column, other_column)
                lqq[i][j] = lqq[i][j] + square
                lqq[j][i] = lqq[i][j]
    return value, lq, lqd, lqq


def _barrier(w: Any, margin: float) -> tuple[Any, Any, Any]:
    """Compute :func:`.cost.barrier` for any scalar type."""
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
    """Return the natural logarithm of a number between 1e-4 and 1, within 3e-14.

    No operation computes it: ``log x = 32 artanh t`` with ``t = (r - 1) / (r + 1)`` and r the
    sixteenth root of x. t^2 is below 0.08, so twelve terms of the series are enough.
    """
    root = sqrt(sqrt(sqrt(sqrt(x))))
    t = (root - 1.0) * reciprocal(root + 1.0)
    square = t * t
    total: Any = 1.0 / 23.0
    for odd in range(21, 0, -2):
        total = total * square + 1.0 / odd
    return 32.0 * (t * total)


def references(cost: Cost) -> tuple[str, ...]:
    """Return the names of a knot's references, excluding the effort's."""
    return ("q_ref", "qd_ref", "tip_ref") if cost.has_tip else ("q_ref", "qd_ref")


def reference_arrays(cost: Cost) -> dict[str, Any]:
    """Return the inputs for a knot's references, by the names of :func:`references`."""
    arrays = {
        "q_ref": array("nq", unit="rad", sampling=POSITION),
        "qd_ref": array("nv", unit="rad/s", sampling=VELOCITY),
    }
    if cost.has_tip:
        arrays["tip_ref"] = array(3, unit="m", sampling=ANY)
    return arrays


def state_arrays(q: str = "q", qd: str = "qd") -> dict[str, Any]:
    """Return the inputs for a state, by the names given to positions and rates."""
    return {
        q: array("nq", unit="rad", sampling=POSITION),
        qd: array("nv", unit="rad/s", sampling=VELOCITY),
    }


def final_function(model: Model, cost: Cost) -> Function:
    """Return the last knot's function, with results ``value``, ``v`` (Vx) and ``V`` (Vxx)."""
    m = 2 * model.nv

    def final(model: Model, *, region: Any, **values: Any) -> dict[str, Any]:
        value, lq, lqd, lqq = expansion(
            model, cost, cost.final, values["q"], values["qd"], values, region
        )
        return {
            "value": value,
            "v": [*lq, *lqd],
            "V": _blocks(lqq, by_joint(cost.final, "qd", model.nv)),
        }

    return step_function(
        "final",
        "cost of a motion's last knot, expanded",
        final,
        inputs={**state_arrays(), **reference_arrays(cost)},
        outputs={"value": array(), "v": array(m), "V": array(m, m, symmetric=True)},
    )


def stage_function(
    model: Model, cost: Cost, dt: float, method: dynamics.StepMethod = "semi_implicit"
) -> Function:
    """Return a running knot's function: a step with A and B, and the cost with its derivatives."""
    n = model.nv

    def stage(model: Model, *, region: Any, **values: Any) -> dict[str, Any]:
        q, qd, tau = values["q"], values["qd"], values["tau"]
        q_next, qd_next, A, B = dynamics.step_scalars(model, q, qd, tau, dt, region, method=method)
        # The step starts from these accelerations: tracing merges both.
        qdd = dynamics.fd_derivatives_scalars(model, q, qd, tau, region=region).qdd
        value, lq, lqd, lqq = expansion(model, cost, cost.running, q, qd, values, region)
        efforts = by_joint(cost.running, "tau", n)
        off_effort = [tau[i] - values["tau_ref"][i] for i in range(n)]
        by_u = [w * x for w, x in zip(efforts, off_effort, strict=True)]
        return {
            "qdd": qdd,
            "q_next": q_next,
            "qd_next": qd_next,
            "A": A,
            "B": B,
            "value": value + 0.5 * _dot(by_u, off_effort),
            "by_x": [*lq, *lqd],
            "by_u": by_u,
            "by_xx": _blocks(lqq, by_joint(cost.running, "qd", n)),
        }

    return step_function(
        "stage",
        "dynamics with their gradient, and a running cost with its gradient and Hessian",
        stage,
        inputs={
            **state_arrays(),
            "tau": array("nv", unit="N m", sampling=EFFORT),
            **reference_arrays(cost),
            "tau_ref": array("nv", unit="N m", sampling=ANY),
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
    """Return the function of a backward step: gains K, feedforward k, Vxx (V), Vx (v), and sums.

    ``dqdd_dq, dqdd_dqd, minv`` belong to the knot, ``V_next, v_next`` to the next one; ``slope``
    and ``curve`` are sums over this and all later knots, ``pivot`` is their smallest pivot of Quu.
    ``damping`` is the regularisation.
    """
    n, h = model.nv, dt

    def riccati(model: Model, *, region: Any, **values: Any) -> dict[str, Any]:
        D, E, M = (_rows(values[name]) for name in ("dqdd_dq", "dqdd_dqd", "minv"))
        next_Vxx, next_Vx = _rows(values["V_next"]), list(values["v_next"])
        _, lq, lqd, lqq = expansion(
            model, cost, cost.running, values["q"], values["qd"], values, region
        )
        efforts, rates = (by_joint(cost.running, name, n) for name in ("tau", "qd"))
        lu = [efforts[i] * (values["tau"][i] - values["tau_ref"][i]) for i in range(n)]
        joints = range(n)
        F = [[*D[i], *E[i]] for i in joints]
        Vqq = [[next_Vxx[max(i, j)][min(i, j)] for j in joints] for i in joints]
        Vvq = [[next_Vxx[n + i][j] for j in joints] for i in joints]
        Vvv = [[next_Vxx[n + max(i, j)][n + min(i, j)] for j in joints] for i in joints]
        P: Rows = [[0.0] * n for _ in joints]
        for i in joints:
            for j in range(i + 1):
                P[i][j] = P[j][i] = (h**2) * (
                    (h**2) * Vqq[i][j] + h * (Vvq[i][j] + Vvq[j][i]) + Vvv[i][j]
                )
        S: Rows = []
        for i in joints:
            by_q = [h * (h * Vqq[i][j] + Vvq[i][j]) for j in joints]
            by_qd = [h * (h * Vvq[j][i] + Vvv[i][j]) for j in joints]
            S.append([*by_q, *(h * a + b for a, b in zip(by_q, by_qd, strict=True))])
        T = [[S[i][c] + _dot(P[i], _column(F, c)) for c in range(2 * n)] for i in joints]
        y = [h * (h * next_Vx[i] + next_Vx[n + i]) for i in joints]  # W' Vx
        G = [[_dot(M[i], P[j]) for j in joints] for i in joints]
        Quu: Rows = [[0.0] * n for _ in joints]
        for i in joints:
            for j in range(i + 1):
                Quu[i][j] = _dot(G[i], M[j])
            Quu[i][i] = Quu[i][i] + efforts[i] + values["damping"]
        Qu = [lu[i] + _dot(M[i], y) for i in joints]
        Qux = [[_dot(M[i], _column(T, c)) for c in range(2 * n)] for i in joints]
        solution, pivots = _solved(Quu, [[*Qux[i], Qu[i]] for i in joints])
        gains = [row[: 2 * n] for row in solution]
        feedforward = [row[2 * n] for row in solution]
        # Upper half of A0' Vxx A0.
        upper = [[*Vqq[i], *(h * Vqq[i][j] + Vvq[j][i] for j in joints)] for i in joints]
        Vxx: Rows = [[0.0] * (2 * n) for _ in range(2 * n)]
        for a in range(2 * n):
            for b in range(a + 1):
                if a < n:
                    shifted = upper[a][b]
                elif b < n:
                    shifted = upper[b][a]
                else:
                    i, j = a - n, b - n
                    shifted = (h**2) * Vqq[i][j] + h * (Vvq[i][j] + Vvq[j][i]) + Vvv[i][j]
                left = [*_column(F, a), *_column(S, a), *(-Qux[i][a] for i in joints)]
                right = [*_column(T, b), *_column(F, b), *(gains[i][b] for i in joints)]
                Vxx[a][b] = shifted + _dot(left, right)
        for i in joints:
            Vxx[n + i][n + i] = Vxx[n + i][n + i] + rates[i]
            for j in range(i + 1):
                Vxx[i][j] = Vxx[i][j] + lqq[i][j]
        for a in range(2 * n):
            for b in range(a):
                Vxx[b][a] = Vxx[a][b]
        Vx = []
        for a in range(2 * n):
            lx = lq[a] if a < n else lqd[a - n]
            shifted = next_Vx[a] if a < n else h * next_Vx[a - n] + next_Vx[a]
            left = [*_column(F, a), *(-Qux[i][a] for i in joints)]
            Vx.append(lx + shifted + _dot(left, [*y, *feedforward]))
        expected_decrease = _dot(feedforward, Qu)
        least_pivot = values["pivot_next"]
        for pivot in pivots:
            least_pivot = select(less(pivot, least_pivot), pivot, least_pivot)
        return {
            "K": gains,
            "k": feedforward,
            "V": Vxx,
            "v": Vx,
            "slope": values["slope_next"] + expected_decrease,
            "curve": values["curve_next"]
            + expected_decrease
            - values["damping"] * _dot(feedforward, feedforward),
            "pivot": least_pivot,
        }

    m = 2 * n
    return step_function(
        "riccati",
        "a step of a backward pass",
        riccati,
        inputs={
            **state_arrays(),
            "tau": array("nv", unit="N m", sampling=ANY),
            **reference_arrays(cost),
            "tau_ref": array("nv", unit="N m", sampling=ANY),
            **{name: array("nv", "nv", sampling=ANY) for name in ("dqdd_dq", "dqdd_dqd")},
            "minv": array("nv", "nv", symmetric=True, sampling=ANY),
            "damping": array(sampling=ANY),
            "V_next": array(m, m, symmetric=True, sampling=ANY),
            "v_next": array(m, sampling=ANY),
            **{f"{name}_next": array(sampling=ANY) for name in ("slope", "curve", "pivot")},
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
    """Return the function of a trial's step: next state, effort, and accumulated cost.

    ``q_now, qd_now`` is the trial's state, ``q, qd, tau`` the trajectory that feedback refers to.
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
        value, *_ = expansion(model, cost, cost.running, q, qd, values, region)
        off_effort = [tau[i] - values["tau_ref"][i] for i in range(n)]
        efforts = by_joint(cost.running, "tau", n)
        by_u = [w * x for w, x in zip(efforts, off_effort, strict=True)]
        value = value + 0.5 * _dot(by_u, off_effort)
        qdd = dynamics.aba_scalars(model, q, qd, tau, region=region)
        qd_next = [qd[i] + dt * qdd[i] for i in range(n)]
        return {
            "q_next": [q[i] + dt * qd_next[i] for i in range(n)],
            "qd_next": qd_next,
            "tau_new": tau,
            "cost": values["cost_before"] + value,
        }

    return step_function(
        "roll",
        "a step of a motion under feedback, and its cost",
        roll,
        inputs={
            **state_arrays("q_now", "qd_now"),
            **state_arrays(),
            "tau": array("nv", unit="N m", sampling=ANY),
            **reference_arrays(cost),
            "tau_ref": array("nv", unit="N m", sampling=ANY),
            "K": array(n, 2 * n, sampling=ANY),
            "k": array(n, sampling=ANY),
            "share": array(sampling=ANY),
            "cost_before": array(sampling=ANY),
        },
        outputs={
            "q_next": array("nq", unit="rad"),
            "qd_next": array("nv", unit="rad/s"),
            "tau_new": array("nv", unit="N m", sampling=ANY),
            "cost": array(),
        },
        joint_space=not cost.has_tip,
    )


def step_function(
    name: str,
    doc: str,
    step: Callable[..., Mapping[str, Any]],
    *,
    inputs: Mapping[str, Block],
    outputs: Mapping[str, Block],
    joint_space: bool = False,
) -> Function:
    """Return a `Function` for a step, which takes inputs and returns outputs by name."""

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


def _blocks(lqq: Rows, lqdqd: Sequence[float]) -> Rows:
    n = len(lqq)
    lxx: Rows = [[*row, *([0.0] * n)] for row in lqq]
    for i in range(n):
        lxx.append([lqdqd[i] if c == n + i else 0.0 for c in range(2 * n)])
    return lxx


def by_joint(weights: Weights, name: str, count: int) -> list[float]:
    """Return a weight as ``count`` Python floats, which tracing folds."""
    return [float(weight) for weight in weights.by_joint(name, count)]


def _solved(matrix: Rows, right: Rows) -> tuple[Rows, list[Any]]:
    """Return ``matrix^-1 right``, by L D L' from the lower triangle, and the pivots D."""
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
