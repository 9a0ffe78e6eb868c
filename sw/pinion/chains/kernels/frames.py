"""A chain as records for kernels: joints with one degree of freedom in canonical frames.

A joint with one degree of freedom is a rotation about an axis, a translation along it, or both at
a fixed ratio (a screw). Each body's frame is moved so that this axis is its z, and rotated about z
so that x is also perpendicular to the next joint's axis. Two frames then differ only by a rotation
about the parent's x, a rotation about the body's z and a translation. Efforts and accelerations of
the joints do not depend on the frames of the bodies. Everything is computed in the widest float
type, so that rounding to the kernel's type is the only significant error.

Kernels for GPUs store each link's whole rotation and need no such x; their frames come from
:func:`.device_chain.canonical`, in the chain's own type and as a chain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pinion.chains.chain import Array, Chain
from pinion.chains.small import factorise, solve_positive
from pinion.dynamics.general.spatial import blocks, skew, times, transposed
from pinion.native import ComputeError

TURN, SHIFT, SCREW = 0, 1, 2
"""Kinds of joints, as numbered in ``kernels/chain.hpp``."""

_WIDE = np.longdouble

_RIGID = 1e-9
"""Tolerance for rigid bodies, relative to an inertia's largest element."""


def body_type(dtype: str) -> np.dtype[np.void]:
    """Return the record type of a body, ``Body`` in ``kernels/chain.hpp``."""
    return np.dtype(
        [
            *((name, np.int32) for name in ("parent", "kind", "kept", "branch")),
            *((name, dtype) for name in ("cg", "sg", "ca", "sa", "c0", "s0")),
            *((name, dtype, 3) for name in ("r", "axis")),
            *((name, dtype) for name in ("turn", "shift", "mass", "armature")),
            ("lever", dtype, 3),
            ("J", dtype, 6),
            ("second", dtype, 6),
        ]
    )


def compliance_type(dtype: str) -> np.dtype[np.void]:
    """Return the record type of compliances, ``Compliance`` in ``kernels/chain.hpp``."""
    return np.dtype(
        [
            *((name, dtype) for name in ("wa", "wl", "scale")),
            ("inverse", dtype, 21),
            ("own", dtype, 15),
            ("before", dtype, 21),
            ("cross", dtype, 30),
        ]
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Frames:
    """Bodies with moving joints, in canonical frames; arrays of the widest type.

    Members
    -------
    numbers : (n,) of the bodies in the chain, for messages.
    parent : (n,) numbers of the parents among these bodies; -1 is the base.
    X : (n, 6, 6) motion transform from the parent's frame at q = 0.
    I : (n, 6, 6) inertia about the frame's origin, including bodies fixed to it.
    S : (n, 2) angular and linear part of the motion subspace, along z.
    gravity : (3,) in the base's frame.
    armature : (n,) inertia of rotors reflected to the joints.
    """

    numbers: NDArray[np.intp]
    parent: NDArray[np.int64]
    X: Array
    I: Array  # noqa: E741 - the field's name for it
    S: Array
    gravity: Array
    armature: Array

    @classmethod
    def of(cls, chain: Chain) -> Frames:
        """Return the canonical frames of a chain.

        Raises
        ------
        ComputeError
            If a joint has more than one degree of freedom, or no joint moves.
        """
        for i, dof in enumerate(chain.dof):
            if dof > 1:
                raise ComputeError(
                    f"Joint {i} of the chain {chain.name!r} has {dof} degrees of freedom, but "
                    "kernels support at most one per joint: use pinion.chains, or split the joint "
                    "into joints with one degree of freedom."
                )
        E, r, inertia = (_wide(x) for x in (chain.E, chain.r, chain.I))
        X = blocks(E, np.zeros_like(E), -E @ skew(r), E)
        moving = np.flatnonzero(chain.dof == 1)
        if len(moving) == 0:
            raise ComputeError(
                f"The chain {chain.name!r} has no moving joint: at least one is needed."
            )
        number = {-1: -1, **{int(body): k for k, body in enumerate(moving)}}
        parent, lumped = _without_fixed(chain, X, inertia)
        parent = np.array([number[int(parent[body])] for body in moving], np.int64)
        X, lumped = X[moving], lumped[moving]
        S = _wide(chain.S[moving, :, 0])
        # From each body's frame to the canonical one; the last one belongs to the base.
        place = np.concatenate([_canonical(S, X, parent), np.eye(6, dtype=_WIDE)[None]])
        first = int(np.flatnonzero(parent < 0)[0])
        place[-1, :3, :3] = place[-1, 3:, 3:] = _towards(
            np.array([0, 0, 1], _WIDE), X[first, :3, :3].T @ place[first, 2, :3]
        )
        back = _inverse(place)
        along = times(place[:-1], S)[:, [2, 5]]
        return cls(
            numbers=moving,
            parent=parent,
            X=place[:-1] @ X @ back[parent],
            I=transposed(back[:-1]) @ lumped @ back[:-1],
            S=_rounded(along, np.abs(S).max(axis=-1)),
            gravity=place[-1, :3, :3] @ chain.gravity,
            armature=np.zeros(len(moving)) if chain.armature is None else chain.armature[moving, 0],
        )

    def bodies(self, name: str, dtype: str) -> NDArray[np.void]:
        """Return the records of the bodies for the kernels.

        Parameters
        ----------
        name : of the chain, for messages.

        Raises
        ------
        ComputeError
            If an inertia is not that of a rigid body.
        """
        n = len(self.parent)
        records = np.zeros(n, body_type(dtype))
        records["parent"] = self.parent
        apart = (self.parent >= 0) & (self.parent != np.arange(n) - 1)
        records["kept"][self.parent[apart]] = 1
        E = self.X[:, :3, :3]
        cg, sg, ca, sa, c0, s0 = _angles(E)
        records["branch"] = np.abs(sg) > 0
        for key, value in zip(("cg", "sg", "ca", "sa"), (cg, sg, ca, sa), strict=True):
            records[key] = value
        records["c0"], records["s0"] = c0, s0
        lower = transposed(E) @ self.X[:, 3:, :3]  # -r^
        records["r"] = np.stack([lower[:, 1, 2], lower[:, 2, 0], lower[:, 0, 1]], axis=-1)
        records["axis"] = E[:, 2]
        records["turn"], records["shift"] = self.S[:, 0], self.S[:, 1]
        records["kind"] = SCREW
        records["armature"] = self.armature
        # With armature, as with a screw, no row of the articulated inertia is zero.
        bare = self.armature == 0
        records["kind"][np.all(self.S == (1, 0), axis=-1) & bare] = TURN
        records["kind"][np.all(self.S == (0, 1), axis=-1) & bare] = SHIFT
        mass, lever, others = rigid_parts(self.I)
        for i in others:
            raise ComputeError(
                f"The inertia of the body at joint {self.numbers[i]} of the chain {name!r}, with "
                "the bodies fixed to it, is not that of a rigid body: build inertias from mass, "
                "centre of mass and rotational inertia, as Chain.of does."
            )
        records["mass"], records["lever"] = mass, lever
        records["J"] = self.I[:, *np.triu_indices(3)]
        half = np.trace(self.I[:, :3, :3], axis1=1, axis2=2)[:, None, None] / 2
        records["second"] = (half * np.eye(3) - self.I[:, :3, :3])[:, *np.triu_indices(3)]
        return records

    def compliances(self, name: str, dtype: str) -> NDArray[np.void]:
        """Return the records of compliances, for a chain without side branches.

        Raises
        ------
        ComputeError
            If there are side branches, a joint has armature, or an inertia is not invertible.
        """
        n = len(self.parent)
        for i in np.flatnonzero(self.armature):
            raise ComputeError(
                f"Joint {self.numbers[i]} of the chain {name!r} has an armature of "
                f"{self.armature[i]:g}, which the kernel 'cfa' does not support: choose 'aba' or "
                "'jsiia', or set the armature to 0."
            )
        for i in np.flatnonzero(self.parent != np.arange(-1, n - 1)):
            raise ComputeError(
                f"Joints {self.numbers[i - 1]} and {self.numbers[i]} of the chain {name!r} are on "
                "different branches, which the kernel 'cfa' does not support: choose 'aba' or "
                "'jsiia', or use pinion.chains."
            )
        eye: Array = np.broadcast_to(np.eye(6, dtype=_WIDE), self.I.shape)
        try:
            inverse = solve_positive(self.I, eye)
        except np.linalg.LinAlgError:
            body = next(k for k in range(n) if not _positive(self.I[k]))
            raise ComputeError(
                f"The inertia of the body at joint {self.numbers[body]} of the chain {name!r} is "
                "singular, but 'cfa' needs its inverse: give the body mass and inertia about each "
                "axis, or choose 'aba'."
            ) from None
        turn, shift = self.S[:, 0], self.S[:, 1]
        size = np.hypot(turn, shift)
        # The columns of W; the third is perpendicular to S in the plane of turns and shifts at z.
        W: Array = np.zeros((n, 6, 5), _WIDE)
        W[:, (0, 1, 3, 4), (0, 1, 3, 4)] = 1
        W[:, 2, 2], W[:, 5, 2] = -shift / size, turn / size
        # Without the joint's own turn.
        c0, s0 = _angles(self.X[:, :3, :3])[4:]
        unturned = np.zeros((n, 6, 6), _WIDE)
        for k in (0, 3):
            unturned[:, k, k] = unturned[:, k + 1, k + 1] = c0
            unturned[:, k, k + 1], unturned[:, k + 1, k] = -s0, s0
            unturned[:, k + 2, k + 2] = 1
        X: Array = unturned @ self.X
        records = np.zeros(n, compliance_type(dtype))
        records["wa"], records["wl"], records["scale"] = W[:, 2, 2], W[:, 5, 2], 1 / size**2
        lower = np.tril_indices(6)
        records["inverse"] = inverse[:, *lower]
        records["own"] = (transposed(W) @ inverse @ W)[:, *np.tril_indices(5)]
        across = inverse[:-1] @ transposed(X[1:])
        records["before"][1:] = (X[1:] @ across)[:, *lower]
        records["cross"][1:] = (transposed(W[:-1]) @ across).reshape(n - 1, 30)
        return records


def screw_axes(S: Array) -> tuple[Array, Array]:
    """Return the unit axes (n, 3) of single-axis joints, and points (n, 3) on the axes.

    Parameters
    ----------
    S : (n, 6) motion subspaces [w; v]: a screw about w through w x v / |w|^2 (Murray, Li and Sastry
        1994, section 2.3.3), or for w = 0 a translation along v, with its axis through the origin.
    """
    w, v = S[:, :3], S[:, 3:]
    square = np.sum(w * w, axis=1, keepdims=True)
    turns = square > 0
    axis = np.where(turns, w, v)
    axis = axis / np.sqrt(np.sum(axis * axis, axis=1, keepdims=True))
    point = np.where(turns, np.cross(w, v) / np.where(turns, square, 1), 0)
    return axis, point.astype(S.dtype)


def rigid_parts(inertia: Array) -> tuple[Array, Array, NDArray[np.int64]]:
    """Return masses (n,), first moments (n, 3), and indices of non-rigid inertias."""
    mass = np.trace(inertia[:, 3:, 3:], axis1=1, axis2=2) / 3
    H = inertia[:, :3, 3:]
    lever = np.stack([H[:, 2, 1], H[:, 0, 2], H[:, 1, 0]], axis=-1)
    rigid = blocks(inertia[:, :3, :3], skew(lever), -skew(lever), mass[:, None, None] * np.eye(3))
    off = np.abs(inertia - rigid).max(axis=(1, 2))
    return mass, lever, np.flatnonzero(off > _RIGID * np.abs(inertia).max(axis=(1, 2)))


def _wide(x: Array) -> Array:
    return np.asarray(x, _WIDE)


def _without_fixed(chain: Chain, X: Array, inertia: Array) -> tuple[NDArray[np.int64], Array]:
    """Merge bodies that are fixed to their parents; return parents and inertias.

    X is changed in place to refer to the moving parent.
    """
    parent, lumped = np.array(chain.parent), np.array(inertia)
    for i, (dof, p) in enumerate(zip(chain.dof, chain.parent, strict=True)):
        # Parents come first, so a fixed parent already refers to its own moving parent.
        if p >= 0 and chain.dof[p] == 0:
            X[i] = X[i] @ X[p]
            parent[i] = parent[p]
        if dof == 0 and parent[i] >= 0:
            lumped[parent[i]] += X[i].T @ inertia[i] @ X[i]
    return parent, lumped


def _canonical(S: Array, X: Array, parent: NDArray[np.int64]) -> Array:
    """Return motion transforms (n, 6, 6) from the bodies' frames to the canonical ones."""
    n = len(S)
    axis, origin = screw_axes(S)
    transforms = np.zeros((n, 6, 6), _WIDE)
    for i in range(n):
        later = np.flatnonzero(parent == i)
        # Towards the next body of the chain, if there is one; side branches need another turn.
        towards = X[later[0], :3, :3].T @ axis[later[0]] if len(later) else axis[i]
        Q = _towards(axis[i], towards)
        transforms[i] = blocks(Q, np.zeros_like(Q), -Q @ skew(origin[i]), Q)
    return transforms


def _rounded(S: Array, size: Array) -> Array:
    """Return S (n, 2) with elements that are 0 or 1 up to rounding set to exactly that.

    size : (n,) largest element of the input.
    """
    eps = 4 * np.finfo(np.float64).eps
    S = np.where(np.abs(S) <= eps * size[:, None], np.zeros_like(S), S)
    return np.where(np.abs(S - 1) <= eps, np.ones_like(S), S)


def _towards(z: Array, other: Array) -> Array:
    """Return the rotation (3, 3) to a frame with axis z, and x perpendicular to z and `other`."""
    x = np.cross(z, other)
    if np.sqrt(x @ x) < 1e-12:
        x = np.cross(z, np.eye(3)[int(np.argmin(np.abs(z)))])
    x = x - (x @ z) * z
    x /= np.sqrt(x @ x)
    return np.stack([x, np.cross(z, x), z])


def _inverse(X: Array) -> Array:
    """Return the inverses of motion transforms (n, 6, 6)."""
    E = transposed(X[:, :3, :3])
    return blocks(E, np.zeros_like(E), transposed(X[:, 3:, :3]), E)


def _positive(matrix: Array) -> bool:
    try:
        factorise(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def _angles(E: Array) -> tuple[Array, ...]:
    """Return the cosines and sines in ``E = turn_z(theta) turn_x(alpha) turn_z(gamma)``.

    The order is gamma, alpha, theta. Up to rounding, gamma is 0 except for side branches.
    """
    sa = np.hypot(E[:, 2, 0], E[:, 2, 1])
    straight = (np.abs(E[:, 2, 0]) < 1e-15) & (E[:, 2, 1] <= 0)
    safe = np.where(sa > 0, sa, np.ones_like(sa))
    cg = np.where(straight | (sa == 0), np.ones_like(sa), -E[:, 2, 1] / safe)
    sg = np.where(straight | (sa == 0), np.zeros_like(sa), E[:, 2, 0] / safe)
    ca = E[:, 2, 2]
    size = np.hypot(ca, sa)
    # The first column of E turn_z(-gamma).
    x = E[:, 0, 0] * cg + E[:, 0, 1] * sg
    y = E[:, 1, 0] * cg + E[:, 1, 1] * sg
    norm = np.hypot(x, y)
    return cg, sg, ca / size, sa / size, x / norm, -y / norm
