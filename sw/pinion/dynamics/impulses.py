r"""Impacts: the jump of the rates when contacts are made, and its gradient.

Contacts that close at the rates qd push the robot with impulses until they no longer approach:

    M (qd_after - qd) = J^T impulse      J (qd_after + restitution qd) = - damping impulse

(Featherstone 2008, section 11.7; Newton's law of restitution in every direction that a contact
holds; loops stay closed, without it). J is that of :mod:`.constraints`, whose solution and masks
serve here too: the jump of the rates takes the place of accelerations. No force that is finite has
a part in it, so neither gravity nor efforts do.

**Gradient.** With ``jump = qd_after - qd`` and ``u = qd_after + restitution qd``, both constant,

    K [d jump; -d impulse] = - [d (M jump - J^T impulse); dJ u]     by positions
    K [d jump; -d impulse] = - [0; (1 + restitution) J]             by rates

with K of :mod:`.constraint_derivatives`. The first row is the gradient of inverse dynamics at rest
without gravity, where jump is the acceleration. A row of ``dJ u`` is carried to the base as a
wrench, and meets ``v x S`` of the velocities that u gives (:mod:`.constraint_derivatives`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pinion.robot import Model

from .branches import eliminate_branches
from .checks import (
    Array,
    DynamicsError,
    as_numbers,
    check_choice,
    matrix_of,
    needs_inverse,
    vector_of,
)
from .constraint_derivatives import (
    floats_freely,
    forces_on_links,
    velocity_derivatives,
    without_loops,
)
from .constraints import (
    CONTACT_REFERENCES,
    check_regular,
    contact_arguments,
    solve_constraints,
)
from .contact_state import constraints_of, turn_to_base, turned_gradients
from .crba import crba_scalars
from .matrices import Rows, inner, transposed
from .rnea import Region, no_region
from .rnea_derivatives import rnea_derivatives_scalars
from .scalar import Scalar, add, mul, sub


class ImpulseGradient(NamedTuple):
    """Rates after an impact, and its impulses, with their gradients, as scalars.

    Members
    -------
    qd_after : (nv,) rates.
    impulse : (nc,) impulses.
    dqd_after_dq, dqd_after_dqd : (nv, nv).
    dimpulse_dq, dimpulse_dqd : (nc, nv).
    """

    qd_after: list[Scalar]
    impulse: list[Scalar]
    dqd_after_dq: Rows
    dqd_after_dqd: Rows
    dimpulse_dq: Rows
    dimpulse_dqd: Rows


class ImpulseDerivatives(NamedTuple):
    """Rates after an impact, and its impulses, with their gradients, as arrays.

    Members
    -------
    qd_after : (nv,) or (n, nv) float64, rates [rad/s | m/s].
    impulse : (nc,) or (n, nc) [N s | N m s].
    dqd_after_dq, dqd_after_dqd : (nv, nv) or (n, nv, nv).
    dimpulse_dq, dimpulse_dqd : (nc, nv) or (n, nc, nv).
    """

    qd_after: Array
    impulse: Array
    dqd_after_dq: Array
    dqd_after_dqd: Array
    dimpulse_dq: Array
    dimpulse_dqd: Array


# Many parameters: the quantities of the equation.
def impulse_dynamics_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    active: Sequence[Scalar],
    damping: Scalar = 0.0,
    restitution: Scalar = 0.0,
    region: Region = no_region,
    *,
    reference: str = "local",
) -> tuple[list[Scalar], list[Scalar]]:
    """Return a robot's rates after an impact and the impulses at its contacts.

    Arguments
    ---------
    q : (nq,) scalars, joint positions [rad | m].
    qd : (nv,) scalars, rates before the impact [rad/s | m/s].
    active : a scalar for each contact, in the robot's order: 1 if it is made, 0 if not.
    damping : as for :func:`.constraints.constraint_dynamics_scalars`.
    restitution : fraction of a contact's speed with which it leaves what it hit.
    region, reference : as for :func:`.constraints.constraint_dynamics_scalars`.

    Returns
    -------
    qd_after : (nv,) scalars [rad/s | m/s].
    impulse : (nc,) scalars: per contact three components [N s], or the moment's [N m s] and the
        force's of a face.

    Raises
    ------
    DynamicsError : the robot has no contacts.
    """
    check_choice("reference", reference, CONTACT_REFERENCES)
    at_rest: list[Scalar] = [0.0] * model.nv
    at_state = constraints_of(model, q, at_rest, active, region)
    plain = at_state.plain
    M = crba_scalars(plain, q, region)
    with region("solve", len(plain.bodies)):
        speed = add(restitution, 1.0)
        of_contacts = len(at_state.directions)
        drift = [
            mul(speed if c < of_contacts else 1.0, inner(row, qd))
            for c, row in enumerate(at_state.J)
        ]
    jump, impulse = solve_constraints(at_state, M, at_rest, drift, damping, region)
    with region("solve", len(plain.bodies)):
        qd_after = [add(rate, change) for rate, change in zip(qd, jump, strict=True)]
    if reference == "local_world_aligned":
        impulse = turn_to_base(at_state, q, region)(impulse)
    return qd_after, impulse


def impulse_dynamics_derivatives_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    active: Sequence[Scalar],
    damping: Scalar = 0.0,
    restitution: Scalar = 0.0,
    region: Region = no_region,
    *,
    reference: str = "local",
) -> ImpulseGradient:
    """Return a robot's rates after an impact and the impulses at its contacts, with gradients.

    Arguments as for :func:`impulse_dynamics_scalars`. The gradient by position is along tangents if
    positions are not a vector.

    Raises
    ------
    DynamicsError : the robot has no contacts.
    """
    check_choice("reference", reference, CONTACT_REFERENCES)
    at_rest: list[Scalar] = [0.0] * model.nv
    at_state = constraints_of(model, q, at_rest, active, region)
    plain = at_state.plain
    eliminated = eliminate_branches(at_state, crba_scalars(plain, q, region), damping, region, {})
    last = len(plain.bodies)
    with region("solve", last):
        speeds = [
            sub(-1.0, restitution) if c < len(at_state.directions) else -1.0
            for c in range(len(at_state.J))
        ]
        lost = [mul(speed, inner(row, qd)) for speed, row in zip(speeds, at_state.J, strict=True)]
        jump, impulse = eliminated.solve(at_rest, lost)
        qd_after = [add(rate, change) for rate, change in zip(qd, jump, strict=True)]
        rates = [
            add(after, mul(restitution, rate)) for after, rate in zip(qd_after, qd, strict=True)
        ]

    weightless = replace(plain, gravity=(0.0, 0.0, 0.0))
    wrenches = forces_on_links(at_state, impulse, region)
    defect, _ = rnea_derivatives_scalars(weightless, q, at_rest, jump, wrenches, region)
    defect = without_loops(at_state, q, impulse, defect, region)
    moved = velocity_derivatives(at_state, q, rates, qd_after, region)
    # A free-flyer's pose changes nothing that is seen from its own axes.
    first = 6 if floats_freely(plain, {}) else 0
    at_contacts: list[Scalar] = [0.0] * len(impulse)
    by_position, by_rate = [(at_rest, at_contacts)] * first, []
    with region("column", last):
        of_columns = zip(transposed(defect), transposed(moved), strict=True)
        for k, (effort, change) in list(enumerate(of_columns))[first:]:
            by_position.append(
                eliminated.solve(
                    [sub(0.0, x) for x in effort],
                    at_state.masked([sub(0.0, x) for x in change]),
                    k,
                )
            )
        for k, column in enumerate(transposed(at_state.J)):
            by_loss = [mul(speed, entry) for speed, entry in zip(speeds, column, strict=True)]
            x, y = eliminated.solve(at_rest, by_loss)
            x[k] = add(x[k], 1.0)
            by_rate.append((x, y))
    gradients = [
        transposed(part)
        for solutions in (by_position, by_rate)
        for part in zip(*solutions, strict=True)
    ]
    dqd_after_dq, dimpulse_dq, dqd_after_dqd, dimpulse_dqd = gradients
    if reference == "local_world_aligned":
        of_impulse = dimpulse_dq, dimpulse_dqd
        dimpulse_dq, dimpulse_dqd = turned_gradients(at_state, q, impulse, of_impulse, region)
        impulse = turn_to_base(at_state, q, region)(impulse)
    return ImpulseGradient(
        qd_after=qd_after,
        impulse=impulse,
        dqd_after_dq=dqd_after_dq,
        dqd_after_dqd=dqd_after_dqd,
        dimpulse_dq=dimpulse_dq,
        dimpulse_dqd=dimpulse_dqd,
    )


def _restitution(value: ArrayLike, batch: tuple[int, ...]) -> Any:
    share = as_numbers("restitution", value)
    if share.shape not in ((), batch) or not np.all((share >= 0.0) & (share <= 1.0)):
        raise DynamicsError(
            f"restitution is {value!r:.60}: pass a number from 0 to 1, or one for each state."
        )
    return np.broadcast_to(share, batch)[()]


# Many parameters: those of the scalar function.
@needs_inverse
def impulse_dynamics(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    active: ArrayLike | None = None,
    damping: ArrayLike = 0.0,
    restitution: ArrayLike = 0.0,
    *,
    reference: str = "local",
) -> tuple[Array, Array]:
    """Return a robot's rates after an impact and the impulses at its contacts, as arrays.

    Arguments
    ---------
    q : (nq,) or (n, nq) float, joint positions [rad | m].
    qd : (nv,) or (n, nv) float, rates before the impact [rad/s | m/s].
    active, damping, reference : as for :func:`.constraints.constraint_dynamics`.
    restitution : () or (n,) float from 0 to 1, fraction of a contact's speed with which it leaves
        what it hit.

    Returns
    -------
    qd_after : (nv,) or (n, nv) float64 [rad/s | m/s].
    impulse : (nc,) or (n, nc) float64, contact by contact: the impulse of a point [N s], that of
        the moment [N m s] and of the force of a face.

    Raises
    ------
    DynamicsError : as for :func:`.constraints.constraint_dynamics`; a restitution outside
        0 to 1.
    """
    x = contact_arguments(model, active, damping, q=q, qd=qd)
    columns = (*x.columns, _restitution(restitution, x.batch))
    qd_after, impulse = impulse_dynamics_scalars(model, *columns, reference=reference)
    arrays = vector_of(qd_after, x.batch), vector_of(impulse, x.batch)
    check_regular(*arrays)
    return arrays


@needs_inverse
def impulse_dynamics_derivatives(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    active: ArrayLike | None = None,
    damping: ArrayLike = 0.0,
    restitution: ArrayLike = 0.0,
    *,
    reference: str = "local",
) -> ImpulseDerivatives:
    """Return a robot's rates after an impact and the impulses with their gradients, as arrays.

    Arguments and errors as for :func:`impulse_dynamics`.
    """
    x = contact_arguments(model, active, damping, q=q, qd=qd)
    columns = (*x.columns, _restitution(restitution, x.batch))
    gradient = impulse_dynamics_derivatives_scalars(model, *columns, reference=reference)
    arrays = {
        name: (vector_of if name in ("qd_after", "impulse") else matrix_of)(value, x.batch)
        for name, value in gradient._asdict().items()
    }
    check_regular(*arrays.values())
    return ImpulseDerivatives(**arrays)
