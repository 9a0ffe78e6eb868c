r"""Forward dynamics of a robot with rigid contacts and loops.

With the contacts' Jacobian J, in the contacts' axes, and the accelerations gamma that contacts have
at ``qdd = 0``,

    M qdd + h = tau + J^T force      J qdd + gamma = - damping force

(Featherstone 2008, chapter 8; Carpentier, Budhiraja and Mansard, "Proximal and Sparse Resolution of
Constrained Dynamic Equations", 2021). The ground pushes the robot with ``force``; the damping is a
compliance that makes redundant contacts regular.

**Elimination.** Velocities first, from the leaves to the base, then contacts: with
``M = L^T D L`` (:mod:`.ltdl`) and ``Y = J L^-1``, whose rows are as sparse as those of J,

    (Y D^-1 Y^T + damping) force = - gamma - Y D^-1 L^-T (tau - h)

Pivots are those of M and of a positive definite matrix. Eliminating a contact inside its limb takes
fewer operations but divides by what nearly vanishes in ordinary postures: where a leg is stretched,
or a foot is in the plane of its hip's axis.

**A contact in the air** has rows of zeros and the pivot 1: its force is exactly zero, and the
others are as without it.

**Stabilisation.** With gains, contacts that drift return (:mod:`.stabilisation`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from pinion.robot import Contact, Model

from .checks import (
    Array,
    DynamicsError,
    as_numbers,
    check_choice,
    checked_damping,
    columns_of,
    configurations,
    needs_inverse,
    vector_of,
)
from .contact_state import Constraints, constraints_of, moving_contacts, turn_to_base
from .coupled import elimination_parents
from .crba import crba_scalars
from .joint_terms import FRICTION_WIDTH
from .ltdl import by_velocity, chain, eliminated, elimination, region_at, substituted
from .matrices import Rows, inner
from .rnea import Region, no_region, rnea_scalars
from .scalar import Scalar, SingularError, add, mul, select, sub
from .stabilisation import Gains, Stabilisation

REDUNDANT = (
    "The contacts are redundant or the inertia matrix is singular in at least one state, or a "
    "value overflows: give the contacts a damping, such as 1e-6, or pass other states."
)

CONTACT_REFERENCES = ("local", "local_world_aligned")
"""Axes of contact forces: the contact's, or the base's."""


# Many parameters: the quantities of the equation, and the optional terms.
def constraint_dynamics_scalars(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    active: Sequence[Scalar],
    damping: Scalar = 0.0,
    region: Region = no_region,
    *,
    reference: str = "local",
    joint_terms: bool | Sequence[str] = (),
    friction_width: float = FRICTION_WIDTH,
    **gains: Unpack[Gains],
) -> tuple[list[Scalar], list[Scalar]]:
    """Return the accelerations and contact forces of a robot in contact, for any scalar type.

    Arguments
    ---------
    q : (nq,) scalars, joint positions [rad | m].
    qd, tau : (nv,) scalars, joint rates and efforts [N m | N].
    active : a scalar for each contact, in the robot's order: 1 if it is on the ground, 0 if not.
    damping : compliance of the contacts, on the diagonal of ``J M^-1 J^T`` [1/kg | 1/(kg m^2)].
    region : as for :func:`.rnea.rnea_scalars`; the passes are those of :func:`.crba.crba_scalars`
        and :func:`.rnea.rnea_scalars`, and ``contact``, ``factor`` and ``solve``.
    reference : axes of the forces, ``local`` or ``local_world_aligned``, about the contact's
        origin.
    joint_terms, friction_width : as for :func:`.rnea.rnea_scalars`.
    gains : against drift (:class:`.stabilisation.Gains`).

    Returns
    -------
    qdd : (nv,) scalars [rad/s^2 | m/s^2].
    force : (nc,) scalars: for each contact three components [N], or the moment [N m] and the force
        of a face.

    Raises
    ------
    DynamicsError : the robot has no contacts; gains of positions without a target.
    """
    check_choice("reference", reference, CONTACT_REFERENCES)
    at_state = constraints_of(model, q, qd, active, region)
    drift = at_state.drift
    if gains:
        drift = Stabilisation.of(model, at_state, q, qd, region, gains).added_to(drift)
    plain = at_state.plain
    terms_of: Any = {"joint_terms": joint_terms, "friction_width": friction_width}
    bias = rnea_scalars(plain, q, qd, [0.0] * plain.nv, None, region, **terms_of)
    M = crba_scalars(plain, q, region)
    with region("solve", 1):
        b = [sub(effort, part) for effort, part in zip(tau, bias, strict=True)]
    qdd, force = solve_constraints(at_state, M, b, drift, damping, region)
    if reference == "local_world_aligned":
        force = turn_to_base(at_state, q, region)(force)
    return qdd, force


def solve_constraints(
    at_state: Constraints,
    M: Sequence[Sequence[Scalar]],
    b: Sequence[Scalar],
    drift: Sequence[Scalar],
    damping: Scalar,
    region: Region,
) -> tuple[list[Scalar], list[Scalar]]:
    """Return x (nv,) and the forces f (nc,) with ``M x = b + J^T f`` and ``J x + drift = - mu f``.

    ``mu`` is the damping. The passes are ``factor`` and ``solve``.
    """
    plain, J = at_state.plain, at_state.J
    parents, at = elimination_parents(plain), by_velocity(plain, region)
    L, D_inverse = elimination(parents, M, at)
    x = eliminated(parents, L, b, at)
    Y = [eliminated(parents, L, row, at) for row in J]

    last, count = len(plain.bodies), len(J)
    with region("solve", last):
        scaled = [[mul(y, d) for y, d in zip(row, D_inverse, strict=True)] for row in Y]
        compliance: Rows = [[0.0] * count for _ in range(count)]
        free: list[Scalar] = []
        for c, moving in enumerate(drift):
            for d in range(c + 1):
                compliance[c][d] = compliance[d][c] = inner(scaled[c], Y[d])
            pivot = add(compliance[c][c], damping)
            compliance[c][c] = select(at_state.on_ground[c], pivot, 1.0)
            free.append(sub(0.0, add(moving, inner(scaled[c], x))))
        right = at_state.masked(free)

    at_last = region_at(region, last)
    dense = chain(count)
    try:
        L_c, D_c = elimination(dense, compliance, at_last)
    except SingularError:
        raise DynamicsError(REDUNDANT) from None
    right = eliminated(dense, L_c, right, at_last)
    with region("solve", last):
        right = [mul(value, d) for value, d in zip(right, D_c, strict=True)]
    force = substituted(dense, L_c, right, at_last)

    with region("solve", last):
        for k in range(plain.nv):
            for c in range(count):
                x[k] = add(x[k], mul(Y[c][k], force[c]))
            x[k] = mul(x[k], D_inverse[k])
    return substituted(parents, L, x, at), force


@dataclass(frozen=True, kw_only=True)
class ContactArguments:
    """Checked arguments of a robot in contact, split into scalars.

    Members
    -------
    columns : the vectors in their order, active and damping, split into scalars.
    batch : shape of an element, () for one state or (n,).
    """

    columns: tuple[Any, ...]
    batch: tuple[int, ...]


def contact_arguments(
    model: Model, active: ArrayLike | None, damping: ArrayLike, **vectors: ArrayLike
) -> ContactArguments:
    """Check a contact mask, a damping and a robot's vectors, as for :func:`constraint_dynamics`.

    ``vectors`` : as for :func:`.checks.configurations`.
    """
    x = configurations(model, **vectors)
    batch = x["q"].shape[:-1]
    contacts = moving_contacts(model)
    count = len(contacts)
    mask = np.ones(count) if active is None else as_numbers("active", active)
    if mask.shape not in ((count,), (*batch, count)):
        raise DynamicsError(
            f"active has shape {mask.shape}; for all contacts and loops of {model.name!r} pass "
            f"({count},){f' or {(*batch, count)}' if batch else ''}."
        )
    wrong = mask[(mask != 0.0) & (mask != 1.0)]
    if wrong.size:
        raise DynamicsError(
            f"active has the entry {wrong[0]}: pass 1 for an active contact or loop and 0 for an "
            "inactive one."
        )
    mask = np.broadcast_to(mask, (*batch, count))
    compliance = np.broadcast_to(checked_damping(damping, batch), batch)
    for i, j in coincident(contacts):
        if np.any((mask[..., i] * mask[..., j] > 0.0) & (compliance == 0.0)):
            raise DynamicsError(
                f"The contacts {contacts[i].name!r} and {contacts[j].name!r} of {model.name!r} "
                "hold the same point, so their forces are not determined: set one of the "
                "contacts to 0 in active, or give a damping, such as 1e-6."
            )
    states = [columns_of(vector) for vector in x.values()]
    return ContactArguments(columns=(*states, columns_of(mask), compliance[()]), batch=batch)


class GainArrays(TypedDict, total=False):
    """Stabilisation gains of contacts and loops as arrays, in the robot's order.

    Members
    -------
    velocity_gain : (), (contacts,) or (n, contacts) float [1/s].
    position_gain : the same [1/s^2].
    target : (contacts, 3) or (n, contacts, 3) float [m], as for :class:`.stabilisation.Gains`.
    """

    velocity_gain: ArrayLike
    position_gain: ArrayLike
    target: ArrayLike


def gain_columns(model: Model, batch: tuple[int, ...], **gains: Unpack[GainArrays]) -> Gains:
    """Check the stabilisation gains of a robot's contacts, and split them into scalars."""
    count = len(moving_contacts(model))
    split: Any = {}
    values: Mapping[str, Any] = gains
    for name, value in values.items():
        array = as_numbers(name, value)
        shape = (count, 3) if name == "target" else (count,)
        allowed = [shape, (*batch, *shape)] if name == "target" else [(), shape, (*batch, *shape)]
        if array.shape not in allowed:
            raise DynamicsError(
                f"{name} has shape {array.shape}; for all contacts and loops of {model.name!r} "
                f"pass {shape}{f' or {(*batch, *shape)}' if batch else ''}."
            )
        wrong = array[~(np.isfinite(array) & ((array >= 0.0) | (name == "target")))]
        if wrong.size:
            above = "" if name == "target" else " of at least 0"
            raise DynamicsError(f"{name} has the entry {wrong[0]}: pass finite numbers{above}.")
        every = np.broadcast_to(array, (*batch, *shape))
        split[name] = columns_of(every.reshape(*batch, -1))
        if name == "target":
            split[name] = [split[name][k : k + 3] for k in range(0, 3 * count, 3)]
    columns: Gains = split
    return columns


def coincident(contacts: Sequence[Contact]) -> list[tuple[int, int]]:
    """Return index pairs of contacts with the world that fix the same point of the same body."""
    return [
        (i, j)
        for j, second in enumerate(contacts)
        for i, first in enumerate(contacts[:j])
        if first.partner is second.partner is None
        and first.body == second.body
        and np.allclose(first.placement.r, second.placement.r, rtol=0.0, atol=1e-9)
    ]


def check_regular(*arrays: Array) -> None:
    """Raise :class:`DynamicsError` if a result is not finite."""
    if not all(np.isfinite(array).all() for array in arrays):
        raise DynamicsError(REDUNDANT)


# Many parameters: those of the scalar function.
@needs_inverse
def constraint_dynamics(
    model: Model,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    active: ArrayLike | None = None,
    damping: ArrayLike = 0.0,
    *,
    reference: str = "local",
    joint_terms: bool | Sequence[str] = (),
    friction_width: float = FRICTION_WIDTH,
    **gains: Unpack[GainArrays],
) -> tuple[Array, Array]:
    """Return the accelerations of a robot in contact, and its contact and loop forces.

    Arguments
    ---------
    q : (nq,) or (n, nq) float, joint positions [rad | m].
    qd, tau : (nv,) or (n, nv) float, joint rates and efforts [N m | N].
    active : (contacts,) or (n, contacts), 1 for a contact on the ground and 0 for one in the air;
        None: all are on the ground.
    damping : () or (n,) float, compliance of the contacts, added to the diagonal of ``J M^-1 J^T``
        [1/kg | 1/(kg m^2)]: with it redundant contacts share their forces.
    reference : axes of the forces, those of the contact (``local``) or of the base
        (``local_world_aligned``).
    joint_terms, friction_width : as for :func:`pinion.dynamics.rnea`.
    gains : against drift: ``velocity_gain`` [1/s], and ``position_gain`` [1/s^2] with ``target``
        [m] (:class:`GainArrays`).

    Returns
    -------
    qdd : (nv,) or (n, nv) float64 [rad/s^2 | m/s^2].
    force : (nc,) or (n, nc) float64, contact by contact: the force of a point [N], the moment [N m]
        and the force of a face.

    Raises
    ------
    DynamicsError : the robot has no contacts; a wrong shape, or a number that is not finite; a mask
        with numbers other than 0 and 1; redundant contacts without damping.
    """
    x = contact_arguments(model, active, damping, q=q, qd=qd, tau=tau)
    qdd, force = constraint_dynamics_scalars(
        model,
        *x.columns,
        reference=reference,
        joint_terms=joint_terms,
        friction_width=friction_width,
        **gain_columns(model, x.batch, **gains),
    )
    arrays = vector_of(qdd, x.batch), vector_of(force, x.batch)
    check_regular(*arrays)
    return arrays
