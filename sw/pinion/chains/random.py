"""Random chains and states for tests and experiments, reproducible by seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pinion.dynamics import DynamicsError
from pinion.dynamics.checks import check_choice
from pinion.dynamics.general.joints import kind_subspace, quaternion_matrix
from pinion.dynamics.general.spatial import skew
from pinion.robot import JointKind

from .chain import Array, Chain
from .recursion import rnea

JOINTS = ("mixed", "revolute", "prismatic", "helical")
INERTIAS = ("unit", "arm", "taper", "finger", "wide")

_PRISMATIC = 0.3
"""Fraction of prismatic joints among mixed joints."""


@dataclass(frozen=True)
class _Sizes:
    """Ranges of a link's parameters; with `taper`, values at the base and the tip."""

    length: tuple[float, float]  # m
    mass: tuple[float, float]  # kg
    gyration: tuple[float, float]  # relative to the length
    scale: str  # uniform, logarithmic, or taper: along the chain


_SIZES = {
    "unit": _Sizes((0.5, 1.5), (0.5, 1.5), (0.5, 1.0), "uniform"),
    "arm": _Sizes((0.05, 0.4), (0.3, 6.0), (0.2, 0.5), "uniform"),
    "taper": _Sizes((0.4, 0.05), (10.0, 0.05), (0.2, 0.5), "taper"),
    "finger": _Sizes((0.008, 0.012), (0.008, 0.012), (0.2, 0.5), "uniform"),
    "wide": _Sizes((1e-2, 1.0), (1e-2, 10.0), (0.05, 0.5), "logarithmic"),
}


def random_chain(
    n: int,
    seed: int,
    *,
    joints: str | Sequence[int | JointKind] = "mixed",
    inertias: str = "unit",
    branches: int = 0,
) -> Chain:
    """Return a random chain of n links, reproducible by its seed.

    Parameters
    ----------
    joints : ``mixed`` (revolute, and 30 % prismatic), ``revolute``, ``prismatic`` or ``helical``,
        each about a random axis; or one entry per link: a number of velocities, 0 to 6, for a
        joint whose S has as many random orthonormal columns, or a kind with a quaternion.
    inertias : ``unit`` (all of order one), ``arm`` (0.05 to 0.4 m, 0.3 to 6 kg), ``taper`` (10 kg
        at the base to 0.05 kg at the tip), ``finger`` (1 cm, 10 g) or ``wide`` (1 cm to 1 m, 10 g
        to 10 kg, neighbours at random: rotational inertias over nine decades).
    branches : number of side branches of one to three bodies, with mixed joints.

    Raises
    ------
    DynamicsError
        If an argument is invalid.
    """
    check_choice("inertias", inertias, INERTIAS)
    if n < 1:
        raise DynamicsError(f"A chain needs at least one link, not {n}.")
    if isinstance(joints, str):
        check_choice("joints", joints, JOINTS)
    elif len(joints) != n:
        raise DynamicsError(f"joints has length {len(joints)}, not {n}: give one joint per link.")
    if branches < 0:
        raise DynamicsError(f"branches must be 0 or more, not {branches}.")
    rng = np.random.default_rng((seed, n, INERTIAS.index(inertias)))
    joint_kinds: list[str | int | JointKind] = (
        [joints] * n if isinstance(joints, str) else [*joints]
    )
    parent = list(range(-1, n - 1))
    for _ in range(branches):
        at = int(rng.integers(n))
        for _ in range(int(rng.integers(1, 4))):
            parent.append(at)
            joint_kinds.append("mixed")
            at = len(parent) - 1
    count = len(parent)
    sizes = _SIZES[inertias]
    length = _drawn(rng, sizes.length, sizes.scale, n, count)
    mass = _drawn(rng, sizes.mass, sizes.scale, n, count)
    S = np.zeros((count, 6, 6))
    kinds: list[JointKind | None] = []
    dof = []
    for i, joint in enumerate(joint_kinds):
        columns, kind = _joint(rng, joint, length[i])
        S[i, :, : columns.shape[1]] = columns
        kinds.append(kind)
        dof.append(columns.shape[1])
    parent_length = np.array([length[max(0, p)] for p in parent])
    return Chain(
        name=f"{inertias}-{n}-{seed}",
        E=quaternion_matrix(_directions(rng, count, 4)),
        r=parent_length[:, None] * _directions(rng, count, 3),
        I=_inertias(rng, mass, length, sizes.gyration),
        S=S,
        dof=np.array(dof, np.int64),
        parent=np.array(parent, np.int64),
        kinds=tuple(kinds),
        main=np.arange(n),
        gravity=np.array([0.0, 0.0, -9.81]),
    )


@dataclass(frozen=True)
class RandomState:
    """A batch of states of a chain with their efforts.

    Members
    -------
    q : (B, nq); qd, qdd, tau : (B, nv), ``tau = ID(q, qd, qdd)``.
    """

    q: Array
    qd: Array
    qdd: Array
    tau: Array


def random_state(chain: Chain, seed: int, batch: int = 1) -> RandomState:
    """Return random positions, rates up to 1, accelerations up to 10 [rad | m, s], and efforts."""
    rng = np.random.default_rng((seed, chain.nv, batch))
    q = rng.uniform(-1.0, 1.0, (batch, chain.nq))
    for i, part in enumerate(chain.q_slices):
        kind = chain.kinds[i]
        if kind is None and chain.dof[i] == 1:
            turns = bool(np.any(chain.S[i, :3, 0]))
            # Shifts are about as long as the links; otherwise they would dominate long chains.
            q[:, part] *= np.pi if turns else float(np.linalg.norm(chain.r[i]))
        elif kind is JointKind.PLANAR:
            angle = rng.uniform(-np.pi, np.pi, batch)
            q[:, part.start + 2], q[:, part.start + 3] = np.cos(angle), np.sin(angle)
        elif kind in (JointKind.SPHERICAL, JointKind.FREE_FLYER):
            q[:, part.stop - 4 : part.stop] = _directions(rng, batch, 4)
    qd = rng.uniform(-1.0, 1.0, (batch, chain.nv))
    qdd = rng.uniform(-10.0, 10.0, (batch, chain.nv))
    # In rows as the others are: kernels take strided arrays by a slower way.
    return RandomState(q, qd, qdd, np.ascontiguousarray(rnea(chain, q, qd, qdd)))


def _drawn(
    rng: np.random.Generator, ends: tuple[float, float], scale: str, n: int, count: int
) -> Array:
    first, last = ends
    if scale == "uniform":
        return rng.uniform(first, last, count)
    if scale == "logarithmic":
        return np.asarray(np.exp(rng.uniform(np.log(first), np.log(last), count)))
    # Side bodies are like the links at the tip.
    share = np.minimum(np.arange(count) / max(1, n - 1), 1.0)
    return np.asarray(first * (last / first) ** share)


def _directions(rng: np.random.Generator, count: int, width: int) -> Array:
    directions = rng.normal(size=(count, width))
    return np.asarray(directions / np.linalg.norm(directions, axis=1, keepdims=True))


def _joint(
    rng: np.random.Generator, joint: str | int | JointKind, length: float
) -> tuple[Array, JointKind | None]:
    """Return a joint's motion subspace, and its kind; None if its displacement is ``exp(S q)``."""
    if isinstance(joint, JointKind):
        if joint.nq == joint.nv:
            raise DynamicsError(
                f"joints contains {joint}, which is not supported: give 'mixed', 'revolute', "
                "'prismatic', 'helical' or a number of degrees of freedom."
            )
        return kind_subspace(joint), joint
    if isinstance(joint, str):
        column = np.zeros((6, 1))
        axis = _directions(rng, 1, 3)[0]
        shifts = joint == "prismatic" or (joint == "mixed" and rng.random() < _PRISMATIC)
        if shifts:
            column[3:, 0] = axis
        else:
            column[:3, 0] = axis
        if joint == "helical":
            column[3:, 0] = rng.uniform(0.1, 0.5) * length * axis
        return column, None
    if not 0 <= joint <= 6:
        raise DynamicsError(f"joints contains {joint}: a joint has 0 to 6 degrees of freedom.")
    columns, _ = np.linalg.qr(rng.normal(size=(6, max(1, joint))))
    return columns[:, :joint], None


def _inertias(
    rng: np.random.Generator, mass: Array, length: Array, gyration: tuple[float, float]
) -> Array:
    """Return inertias (count, 6, 6) of bodies whose mass is centred near their mid-length."""
    count = len(mass)
    # Any second moments along three axes give the tensor of a real body.
    least, most = gyration
    second = 0.5 * rng.uniform(least**2, most**2, (count, 3)) * (length**2)[:, None]
    axes = quaternion_matrix(_directions(rng, count, 4))
    spread = axes @ (second[:, :, None] * np.swapaxes(axes, -1, -2))
    central = np.trace(spread, axis1=1, axis2=2)[:, None, None] * np.eye(3) - spread
    lever = skew(0.5 * length[:, None] * _directions(rng, count, 3))
    turned = np.swapaxes(lever, -1, -2)
    I = np.zeros((count, 6, 6))  # noqa: E741 - the field's name for it
    weight = mass[:, None, None]
    I[:, :3, :3] = weight * (central + lever @ turned)
    I[:, :3, 3:] = weight * lever
    I[:, 3:, :3] = weight * turned
    I[:, 3:, 3:] = weight * np.eye(3)
    return I
