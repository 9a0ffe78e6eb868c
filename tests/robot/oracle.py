"""Inverse dynamics of a model and of Pinocchio's, side by side."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from pinion.dynamics import rnea
from pinion.robot import Model, q_to_pinocchio, v_permutation

Array = NDArray[np.float64]


def rnea_error(model: Model, other: pin.Model, rng: np.random.Generator, states: int = 5) -> float:
    """Return the largest difference of tau at random states, relative to the largest tau."""
    q, qd, qdd = (rng.uniform(-2.0, 2.0, (states, model.nv)) for _ in range(3))
    ours = rnea(model, q, qd, qdd)
    theirs = pinocchio_rnea(model, other, q, qd, qdd)
    return float(np.max(np.abs(ours - theirs)) / max(1e-12, float(np.max(np.abs(theirs)))))


def pinocchio_rnea(model: Model, other: pin.Model, q: Array, qd: Array, qdd: Array) -> Array:
    """Return Pinocchio's tau (n, nv); every array is in the model's order."""
    order, data = v_permutation(model, other), other.createData()
    positions = q_to_pinocchio(model, other, q)
    tau = np.zeros_like(qd)
    for k, position in enumerate(positions):
        rate, acceleration = np.zeros(other.nv), np.zeros(other.nv)
        rate[order], acceleration[order] = qd[k], qdd[k]
        tau[k] = pin.rnea(other, data, position, rate, acceleration)[order]
    return tau
