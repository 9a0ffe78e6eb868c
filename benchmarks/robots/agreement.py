"""Largest differences between the float functions and Pinocchio's, function by function.

For each state and each block of a result (tau, M, dqdd_dq, ...) the error is the largest difference
in any entry, over the largest entry of Pinocchio's block, since entries near zero have no scale. A
gradient that vanishes has none either: its scale is at least ``FLOOR`` of the largest effort or
acceleration. States are sampled within the joints' limits; efforts are for random accelerations.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion import dynamics
from pinion.robot import Model, q_to_pinocchio, v_permutation

Array = NDArray[np.float64]

FUNCTIONS = ("rnea", "crba", "minv", "aba", "rnea_derivatives", "fd_derivatives")

FLOOR = 1e-3
"""Smallest scale of a gradient, relative to the quantity that it is the gradient of."""

EXTENDED = 2e-19
"""Spacing of floats of 80 bits."""

SAME = 1e-13
"""Inertia matrices that differ by less belong to the same robot."""

RATE, ACCELERATION = 2.0, 5.0
"""Largest rates [rad/s | m/s] and accelerations [rad/s^2 | m/s^2] of the states."""


CONDITION = "condition"
"""Key of the largest condition number of M, by which rounding grows in M^-1."""


def errors(model: Model, other: Any, *, states: int, seed: int) -> dict[str, float]:
    """Return the largest error of each of ``FUNCTIONS`` over random states; NaN counts as infinite.

    Forward dynamics is left out if it does not exist.
    """
    return {name: value for name, value in survey(model, other, states=states, seed=seed).items()
            if name != CONDITION}  # fmt: skip


def rounding(model: Model, other: Any, *, states: int, seed: int) -> tuple[float, float] | None:
    """Return the relative errors of Pinion's and Pinocchio's M^-1, against 80-bit arithmetic.

    None if there are no such floats, or if the two libraries read different robots.
    """
    if np.finfo(np.longdouble).eps > EXTENDED:
        return None
    q = dynamics.random_configuration(model, np.random.default_rng(seed), states)
    expected = _theirs(model, other, q, *np.zeros((2, states, model.nv)))
    nothing = np.zeros(states)
    if _error(dynamics.crba(model, q), expected["crba"][0], nothing) > SAME:
        return None
    exact = np.array(
        [dynamics.minv_scalars(model, list(map(np.longdouble, state))) for state in q],
        dtype=np.float64,
    )
    return (
        _error(dynamics.minv(model, q), exact, nothing),
        _error(expected["minv"][0], exact, nothing),
    )


def survey(model: Model, other: Any, *, states: int, seed: int) -> dict[str, float]:
    """Return the largest error of each function and, as ``CONDITION``, M's condition number."""
    rng = np.random.default_rng(seed)
    q = dynamics.random_configuration(model, rng, states)
    qd = rng.uniform(-RATE, RATE, (states, model.nv))
    qdd = rng.uniform(-ACCELERATION, ACCELERATION, (states, model.nv))
    expected = _theirs(model, other, q, qd, qdd)
    ours = _ours(model, q, qd, qdd, expected["rnea"][0])
    floors = {
        "rnea_derivatives": FLOOR * _largest(expected["rnea"][0]),
        "fd_derivatives": FLOOR * _largest(expected["aba"][0]),
    }
    nothing = np.zeros(states)
    errors = {
        name: max(
            _error(a, b, floors.get(name, nothing))
            for a, b in zip(ours[name], expected[name], strict=True)
        )
        for name in FUNCTIONS
        if name in ours
    }
    return {**errors, CONDITION: float(np.max(np.linalg.cond(expected["crba"][0])))}


def pose_error(model: Model, other: Any, *, states: int, seed: int) -> float:
    """Return the largest difference from Pinocchio in the rotation or position [m] of any link."""
    pin = import_module("pinocchio")
    data, worst = other.createData(), 0.0
    q = dynamics.random_configuration(model, np.random.default_rng(seed), states)
    for ours, theirs in zip(q, q_to_pinocchio(model, other, q), strict=True):
        pin.framesForwardKinematics(other, data, theirs)
        for body in model.bodies:
            R, p = dynamics.frame_placement(model, ours, body.name)
            placement = data.oMf[other.getFrameId(body.name)]
            parts = (
                np.max(np.abs(R - placement.rotation)),
                np.max(np.abs(p - placement.translation)),
            )
            worst = max(worst, *(np.inf if np.isnan(part) else float(part) for part in parts))
    return worst


def _error(computed: Array, want: Array, floor: Array) -> float:
    scale, difference = np.maximum(_largest(want), floor), _largest(computed - want)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(difference == 0.0, 0.0, difference / scale)
    return float(np.max(np.where(np.isnan(relative), np.inf, relative)))


def _largest(block: Array) -> Array:
    """Return the largest absolute entry of each state's block, (n,)."""
    return np.asarray(np.max(np.abs(block), axis=tuple(range(1, block.ndim))))


def _ours(model: Model, q: Array, qd: Array, qdd: Array, tau: Array) -> Mapping[str, list[Array]]:
    answers = {
        "rnea": [dynamics.rnea(model, q, qd, qdd)],
        "crba": [dynamics.crba(model, q)],
        "rnea_derivatives": list(dynamics.rnea_derivatives(model, q, qd, qdd)),
    }
    try:
        answers["minv"] = [dynamics.minv(model, q)]
        answers["aba"] = [dynamics.aba(model, q, qd, tau)]
        forward = dynamics.fd_derivatives(model, q, qd, tau)
        answers["fd_derivatives"] = [forward.dqdd_dq, forward.dqdd_dqd, forward.minv]
    except dynamics.DynamicsError:
        pass  # a joint that moves no inertia
    return answers


def _theirs(model: Model, other: Any, q: Array, qd: Array, qdd: Array) -> Mapping[str, list[Array]]:
    order = v_permutation(model, other)
    positions = q_to_pinocchio(model, other, q)
    rates, accelerations = np.zeros_like(qd), np.zeros_like(qdd)
    rates[:, order], accelerations[:, order] = qd, qdd
    states = zip(positions, rates, accelerations, strict=True)
    answers = [_their_answers(other, *state, order) for state in states]
    return {
        name: [np.array(block) for block in zip(*(answer[name] for answer in answers), strict=True)]
        for name in FUNCTIONS
    }


def _their_answers(
    other: Any, q: Array, v: Array, a: Array, order: NDArray[np.intp]
) -> dict[str, list[Array]]:
    pin = import_module("pinocchio")
    data = other.createData()
    square = np.ix_(order, order)

    def whole(matrix: Array) -> Array:
        return np.asarray((np.triu(matrix) + np.triu(matrix, 1).T)[square])

    tau = np.array(pin.rnea(other, data, q, v, a))
    answers = {
        "rnea": [tau[order]],
        "crba": [whole(pin.crba(other, data, q))],
        "minv": [whole(pin.computeMinverse(other, data, q))],
        "aba": [np.array(pin.aba(other, data, q, v, tau))[order]],
    }
    by_q, by_v, _ = pin.computeRNEADerivatives(other, data, q, v, a)
    answers["rnea_derivatives"] = [np.array(by_q)[square], np.array(by_v)[square]]
    by_q, by_v, minv = pin.computeABADerivatives(other, data, q, v, tau)
    answers["fd_derivatives"] = [
        np.array(by_q)[square],
        np.array(by_v)[square],
        np.array(whole(minv)),
    ]
    return answers
