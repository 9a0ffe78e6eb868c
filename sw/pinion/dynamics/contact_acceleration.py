"""Accelerations of a robot's contacts, and their gradients, for inverse dynamics with contacts.

The quantities that :mod:`.constraints` holds at zero, for any accelerations: of a point the
acceleration of its origin as an observer sees it, of a face the spatial acceleration of its frame,
both in the contact's axes and without gravity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from numpy.typing import ArrayLike

from pinion.robot import Model

from .checks import Array, columns_of, configurations, matrix_of, vector_of
from .constraint_derivatives import acceleration_derivatives
from .contact_state import constraints_of, moving_contacts
from .matrices import Rows, inner
from .rnea import Region, no_region
from .scalar import Scalar, add


class ContactGradient(NamedTuple):
    """Accelerations of contacts, with their gradients, as scalars.

    Members
    -------
    acceleration : (nc,) in the contacts' axes.
    J_contacts : (nc, nv) Jacobian of the contacts, the gradient with respect to qdd.
    dacceleration_dq, dacceleration_dqd : (nc, nv).
    """

    acceleration: list[Scalar]
    J_contacts: Rows
    dacceleration_dq: Rows
    dacceleration_dqd: Rows


class ContactAcceleration(NamedTuple):
    """Accelerations of contacts, with their gradients, as arrays.

    Members
    -------
    acceleration : (nc,) or (n, nc) float64, in the contacts' axes [m/s^2 | rad/s^2].
    J_contacts : (nc, nv) or (n, nc, nv), the contacts' Jacobian, the gradient with respect to qdd.
    dacceleration_dq, dacceleration_dqd : (nc, nv) or (n, nc, nv).
    """

    acceleration: Array
    J_contacts: Array
    dacceleration_dq: Array
    dacceleration_dqd: Array


def contact_acceleration_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    region: Region = no_region,
) -> ContactGradient:
    """Return the accelerations of a robot's contacts with their gradients, for any scalar type.

    Arguments
    ---------
    q : (nq,) scalars, joint positions [rad | m].
    qd, qdd : (nv,) scalars, joint rates and accelerations.
    region : as for :func:`.rnea.rnea_scalars`; the pass is ``contact``.

    For each contact, in the robot's order: three components [m/s^2], or those of the angular
    [rad/s^2] and of the linear acceleration of a face. The gradient by position is along tangents
    if positions are not a vector.

    Raises
    ------
    DynamicsError : the robot has no contacts.
    """
    active = [1.0] * len(moving_contacts(model))
    at_state = constraints_of(model, q, qd, active, region)
    with region("contact", len(at_state.plain.bodies)):
        acceleration = [
            add(moving, inner(row, qdd))
            for moving, row in zip(at_state.drift, at_state.J, strict=True)
        ]
    by_q, by_qd = acceleration_derivatives(at_state, q, qd, qdd, region)
    return ContactGradient(
        acceleration=acceleration,
        J_contacts=at_state.J,
        dacceleration_dq=by_q,
        dacceleration_dqd=by_qd,
    )


def contact_acceleration(
    model: Model, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike
) -> ContactAcceleration:
    """Return the accelerations of a robot's contacts with their gradients.

    Arguments
    ---------
    q : (nq,) or (n, nq) float, joint positions [rad | m].
    qd, qdd : (nv,) or (n, nv) float, joint rates and accelerations.

    Raises
    ------
    DynamicsError : the robot has no contacts; a wrong shape, or a number that is not finite.
    """
    x = configurations(model, q=q, qd=qd, qdd=qdd)
    gradient = contact_acceleration_scalars(
        model, columns_of(x["q"]), columns_of(x["qd"]), columns_of(x["qdd"])
    )
    batch = x["q"].shape[:-1]
    return ContactAcceleration(
        **{
            name: (vector_of if name == "acceleration" else matrix_of)(value, batch)
            for name, value in gradient._asdict().items()
        }
    )
