"""A batch of states of a chain: checked arguments and the bodies' transforms.

Everything is computed in the widest type of the arguments: float32, float64, or 80 bits if the
machine has them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pinion.dynamics import DynamicsError
from pinion.dynamics.checks import check_finite, of_unit_length, rotations_of
from pinion.dynamics.general.joints import displacement
from pinion.dynamics.general.spatial import (
    blocks,
    cross_force,
    cross_motion,
    skew,
    times,
    transposed,
)

from .chain import Array, Chain

_TERMS = 14
"""Terms of the series of ``(x - sin x) / x^3`` below 1/2, with an error under 1e-20."""


@dataclass(frozen=True, kw_only=True)
class ChainState:
    """A batch of B states of a chain: the bodies' transforms, and the other arguments.

    Members
    -------
    chain : the chain of the bodies.
    X : (B, bodies, 6, 6) transforms of motions from parent to body coordinates.
    S : (bodies, 6, k) motion subspaces, k the largest number of degrees of freedom of a joint.
    I : (bodies, 6, 6) inertias.
    unused : (bodies, k, k) one on the diagonal for each column that a joint lacks: added to
        ``S^T I S`` it gives an invertible matrix.
    velocities : the other arguments by name, (B, bodies, k) with zeros in unused columns.
    wrenches : (B, 6) of the tip by name.
    base : (6,) acceleration of the base that represents gravity.
    armature : (bodies, k) inertia of rotors.
    """

    chain: Chain
    X: Array
    S: Array
    I: Array  # noqa: E741 - the field's name for it
    unused: Array
    velocities: dict[str, Array]
    wrenches: dict[str, Array]
    base: Array
    armature: Array
    batch: tuple[int, ...]

    def __getitem__(self, name: str) -> Array:
        """Return velocities, accelerations or efforts by name."""
        return self.velocities[name]

    @property
    def count(self) -> int:
        """Length of the batch."""
        return len(self.X)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the computation."""
        return self.X.dtype

    def shaped(self, x: Array) -> Array:
        """Return (B, ...), or without the batch axis if the caller gave a single state."""
        return np.asarray(x).reshape((*self.batch, *x.shape[1:]))

    def flat(self, x: Array) -> Array:
        """Return (B, bodies, k) as the caller's (nv,) or (B, nv)."""
        return self.shaped(self.chain.flat(x))

    def drift(self, v: Array, name: str = "qd") -> Array:
        """Return ``v x S qd``, (B, bodies, 6)."""
        return times(cross_motion(v), self.along(name))

    def along(self, name: str) -> Array:
        """Return S times the named velocities or accelerations, (B, bodies, 6)."""
        return times(self.S, self.velocities[name])

    def gyroscopic(self, v: Array) -> Array:
        """Return ``v x* I v``, (B, bodies, 6)."""
        return cross_force(v, times(self.I, v))


def state_of(
    chain: Chain, q: ArrayLike, *, wrenches: Iterable[str] = (), **arguments: ArrayLike
) -> ChainState:
    """Check a batch of arguments and compute the bodies' transforms.

    Parameters
    ----------
    q : (nq,) or (B, nq) positions [rad | m].
    wrenches : names of the arguments that are wrenches of the tip, (6,) or (B, 6); all others are
        velocities, accelerations or efforts, (nv,) or (B, nv).

    Raises
    ------
    DynamicsError
        If a shape, a type or a value is invalid.
    """
    widths = {name: 6 if name in wrenches else chain.nv for name in arguments}
    widths["q"] = chain.nq
    numbers = {name: _numbers(name, x) for name, x in {"q": q, **arguments}.items()}
    dtype = np.result_type(np.float32, *(x for x in numbers.values()))
    batch = numbers["q"].shape[:-1]
    for name, x in numbers.items():
        if x.ndim not in (1, 2) or x.shape[-1] != widths[name]:
            width = widths[name]
            raise DynamicsError(
                f"{name} has shape {x.shape}: for the chain {chain.name!r} pass ({width},) for one "
                f"state or (B, {width}) for a batch."
            )
        if x.shape[:-1] != batch:
            raise DynamicsError(
                f"{name} has shape {x.shape}, but q has {numbers['q'].shape}: pass one state in "
                "each, or batches of the same length."
            )
        check_finite(name, x)
        numbers[name] = np.asarray(x, dtype).reshape(-1, widths[name])
    positions = of_unit_length("q", numbers.pop("q"), rotations_of(chain.kinds, chain.q_slices))
    k = chain.width
    used = np.arange(k) < chain.dof[:, None]
    base = np.zeros(6, dtype)
    base[3:] = -chain.gravity
    rotors = np.zeros((chain.bodies, 6)) if chain.armature is None else chain.armature
    return ChainState(
        chain=chain,
        X=transforms(chain, positions),
        S=chain.S[:, :, :k].astype(dtype),
        I=chain.I.astype(dtype),
        unused=np.eye(k, dtype=dtype) * ~used[:, :, None],
        velocities={name: chain.padded(x) for name, x in numbers.items() if name not in wrenches},
        wrenches={name: numbers[name] for name in wrenches if name in numbers},
        base=base,
        armature=rotors[:, :k].astype(dtype),
        batch=batch,
    )


def _numbers(name: str, x: ArrayLike) -> Array:
    try:
        array = np.asarray(x)
    except ValueError as problem:
        reason = str(problem).rstrip(".")
        raise DynamicsError(f"{name} is not a rectangular array of numbers: {reason}.") from None
    if array.dtype.kind in "iu":
        array = array.astype(np.float64)
    if array.dtype.kind != "f" or array.dtype.itemsize < 4:
        raise DynamicsError(f"{name} has dtype {array.dtype}: pass float32 or float64.")
    return array


def transforms(chain: Chain, q: Array) -> Array:
    """Return Xup of every body, (B, bodies, 6, 6), for q (B, nq)."""
    R, p = _displacements(chain, q)
    E_tree, r_tree = chain.E.astype(q.dtype), chain.r.astype(q.dtype)
    E = transposed(R) @ E_tree
    r = r_tree + times(transposed(E_tree), p)
    return blocks(E, np.zeros_like(E), -E @ skew(r), E)


def _displacements(chain: Chain, q: Array) -> tuple[Array, Array]:
    """Return R (B, bodies, 3, 3) from body to joint frame, and p (B, bodies, 3), its origin."""
    rates = np.zeros((len(q), chain.bodies, chain.width), q.dtype)
    special = []
    for i, (columns, dof) in enumerate(zip(chain.q_slices, chain.dof, strict=True)):
        if chain.kinds[i] is None:
            rates[:, i, :dof] = q[:, columns]
        else:
            special.append(i)
    R, p = exponential(times(chain.S[:, :, : chain.width].astype(q.dtype), rates))
    for i in special:
        kind = chain.kinds[i]
        assert kind is not None
        R[:, i], p[:, i] = displacement(kind, q[:, chain.q_slices[i]])
    return R, p


def exponential(twist: Array) -> tuple[Array, Array]:
    """Return the exponential of a twist (..., 6) as R (..., 3, 3) and p (..., 3).

    Source: Murray, Li and Sastry 1994, equations 2.14 and 2.36, with the coefficients written so
    that none loses digits at small angles.
    """
    turn, shift = skew(twist[..., :3]), twist[..., 3:]
    angle = np.sqrt(np.sum(twist[..., :3] ** 2, axis=-1))[..., None, None]
    small = angle < 0.5
    safe = np.where(small, np.ones_like(angle), angle)
    half = np.where(angle == 0, np.ones_like(angle), angle) / 2
    first = np.where(angle == 0, np.ones_like(angle), np.sin(2 * half) / (2 * half))
    second = np.where(angle == 0, np.ones_like(angle), np.sin(half) / half) ** 2 / 2
    term = np.ones_like(angle) / 6
    series = term
    for k in range(1, _TERMS):
        term = -term * angle**2 / ((2 * k + 2) * (2 * k + 3))
        series = series + term
    third = np.where(small, series, (safe - np.sin(safe)) / safe**3)
    eye = np.eye(3, dtype=twist.dtype)
    square = turn @ turn
    return eye + first * turn + second * square, times(eye + second * turn + third * square, shift)
