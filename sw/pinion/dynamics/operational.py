r"""Operational-space inertia of a link: the inertia seen by a force at the link's frame.

With the frame's Jacobian J, for velocities ``[angular; linear]``, a wrench F at the frame
accelerates it by ``J M^-1 J^T F`` (Khatib, "A unified approach for motion and force control of
robot manipulators: the operational space formulation", 1987). That 6x6 matrix always exists; its
inverse, the inertia ``Lambda``, exists if the joints can move the frame in every direction.

M^-1 itself is not needed: with the inverse factors ``M^-1 = X D^-1 X^T`` of :mod:`.ltdl`,

    Y = J X        J M^-1 J^T = Y D^-1 Y^T

M is computed from the minimal model (:mod:`.minimal`), which takes fewer operations. Lambda follows
by the same factorisation of the 6x6 matrix. Near a singular posture one of its pivots, the
remaining mobility in one direction, goes to zero and Lambda grows without bound;
``(J M^-1 J^T + damping I)^-1`` is at most ``1 / damping`` (damped least squares, Nakamura and
Hanafusa 1986). Without damping a core flags requests whose pivot is below the smallest operand of
its reciprocal unit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from pinion.dynamics import arrays, kinematics
from pinion.robot import Model, Tie, ties

from .checks import Array, DynamicsError, checked_damping, needs_inverse
from .coupled import elimination_parents
from .crba import crba_scalars
from .kinematics import Reference, frame_jacobian_scalars, frame_of, path_to
from .ltdl import by_velocity, chain, factors, inverse, region_at
from .matrices import Rows, inner, transposed, zeros
from .mimic import also_coupled
from .minimal import minimal_model
from .rnea import Region, no_region
from .scalar import Scalar, add, is_zero, mul

DIRECTIONS = 6

_minv = also_coupled(arrays.minv)
_jacobian = also_coupled(kinematics.frame_jacobian)


def inverse_operational_space_inertia_scalars(
    model: Model,
    q: Sequence[Scalar],
    frame: str,
    region: Region = no_region,
    *,
    reference: Reference = "local_world_aligned",
) -> Rows:
    """Return ``J M^-1 J^T`` of a link's frame, (6, 6) scalars, for any scalar type.

    Arguments
    ---------
    q : (nq,) scalars, joint positions [rad | m].
    frame : its name, as for :func:`.kinematics.frame_placement`.
    region : as for :func:`.rnea.rnea_scalars`; the passes are those of the Jacobian and of
        :func:`.minv.minv_scalars`, and ``solve``.
    reference : of J, as for :func:`.kinematics.frame_jacobian_scalars`.

    Returns
    -------
    (6, 6) scalars, symmetric: the two triangles are the same objects; M includes the armature.
    """
    J = frame_jacobian_scalars(model, q, frame, reference=reference, region=region)
    plain = minimal_model(model)
    M = crba_scalars(plain, q, region)
    at_body = by_velocity(plain, region)
    factored = factors(elimination_parents(plain), M, at_body)
    n, columns = model.nv, transposed(factored.X)
    Y = zeros(DIRECTIONS, n)
    scaled = zeros(DIRECTIONS, n)
    for k in range(n):
        with at_body("solve", k + 1):
            for a in range(DIRECTIONS):
                total = inner(J[a][k:], columns[k][k:])
                Y[a][k], scaled[a][k] = total, mul(total, factored.D_inverse[k])
    result = zeros(DIRECTIONS)
    with region("solve", len(model.bodies)):
        for a in range(DIRECTIONS):
            for b in range(a + 1):
                result[a][b] = result[b][a] = inner(scaled[a], Y[b])
    return result


def operational_space_inertia_scalars(
    model: Model,
    q: Sequence[Scalar],
    frame: str,
    damping: Scalar = 0.0,
    region: Region = no_region,
    *,
    reference: Reference = "local_world_aligned",
) -> Rows:
    """Return ``Lambda = (J M^-1 J^T + damping I)^-1`` of a link's frame, (6, 6) scalars.

    ``damping`` : a scalar [1/(kg m^2) | 1/kg], the constant 0 for none. Other arguments and results
    as for :func:`inverse_operational_space_inertia_scalars`; the inversion has the passes
    ``factor`` and ``inverse``.

    Raises
    ------
    DynamicsError : fewer than six velocities move the link, without damping.
    """
    if is_zero(damping):
        check_free(model, frame)
    matrix = inverse_operational_space_inertia_scalars(model, q, frame, region, reference=reference)
    last = len(model.bodies)
    with region("factor", last):
        for k in range(DIRECTIONS):
            matrix[k][k] = add(matrix[k][k], damping)

    at_tip, dense = region_at(region, last), chain(DIRECTIONS)
    with region("inverse", last):
        return inverse(dense, factors(dense, matrix, at_tip), at_tip)


def inverse_operational_space_inertia(
    model: Model, q: ArrayLike, frame: str, *, reference: Reference = "local_world_aligned"
) -> Array:
    """Return ``J M^-1 J^T`` of a link's frame: (6, 6) or (n, 6, 6) float64, symmetric.

    Arguments
    ---------
    q : (nq,) or (n, nq) float, joint positions [rad | m].
    frame : its name, as for :func:`.kinematics.frame_placement`.
    reference : of J, as for :func:`pinion.dynamics.frame_jacobian`.

    Raises
    ------
    DynamicsError : as :func:`pinion.dynamics.frame_jacobian` and :func:`pinion.dynamics.minv`.
    """
    J = _jacobian(model, q, frame, reference=reference)
    product = J @ _minv(model, q) @ np.swapaxes(J, -1, -2)
    return np.asarray((product + np.swapaxes(product, -1, -2)) / 2.0)


@needs_inverse
def operational_space_inertia(
    model: Model,
    q: ArrayLike,
    frame: str,
    damping: ArrayLike = 0.0,
    *,
    reference: Reference = "local_world_aligned",
) -> Array:
    """Return ``Lambda = (J M^-1 J^T + damping I)^-1``: (6, 6) or (n, 6, 6) float64.

    ``damping`` : () or (n,) float, at least 0 [1/(kg m^2) | 1/kg]. Other arguments as for
    :func:`inverse_operational_space_inertia`.

    Raises
    ------
    DynamicsError : as for :func:`inverse_operational_space_inertia`; if a damping is negative or
        not finite; without damping, if fewer than six velocities move the link, or the matrix is
        singular.
    """
    mobility = inverse_operational_space_inertia(model, q, frame, reference=reference)
    added = checked_damping(damping, mobility.shape[:-2])
    if not np.all(added):
        check_free(model, frame)
    mobility = mobility + added[..., None, None] * np.eye(DIRECTIONS)
    try:
        inertia = np.linalg.inv(mobility)
    except np.linalg.LinAlgError:
        raise DynamicsError(
            f"The link {frame!r} of {model.name!r} cannot move in every direction in at least one "
            "posture, so its operational-space inertia does not exist: pass other positions, or a "
            "positive damping."
        ) from None
    return np.asarray((inertia + np.swapaxes(inertia, -1, -2)) / 2.0)


def check_free(model: Model, frame: str) -> None:
    """Raise `DynamicsError` if a link has fewer than six degrees of freedom."""
    v_slices = model.v_slices
    tied = ties(model) if model.coupled else [Tie(leader=k) for k in range(len(v_slices))]
    moving: set[int] = set()
    for i in path_to(model, frame_of(model, frame).body):
        leader = v_slices[tied[i].leader]
        moving.update(range(leader.start, leader.stop))
    if len(moving) < DIRECTIONS:
        raise DynamicsError(
            f"The link {frame!r} of {model.name!r} has only {len(moving)} degree"
            f"{'s' * (len(moving) != 1)} of freedom; its {DIRECTIONS} x {DIRECTIONS} "
            f"operational-space inertia needs at least {DIRECTIONS}, or a positive damping; "
            "inverse_operational_space_inertia, J M^-1 J^T, exists for every robot."
        )
