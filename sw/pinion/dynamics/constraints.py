r"""Forward dynamics of a robot whose contacts are held by the world.

With the contacts' Jacobian J, in the contacts' axes, and the accelerations gamma that contacts have
at ``qdd = 0``,

    M qdd + h = tau + J^T force      J qdd + gamma = - damping force

(Featherstone 2008, chapter 8; Carpentier, Budhiraja and Mansard, "Proximal and Sparse Resolution of
Constrained Dynamic Equations", 2021). The ground pushes the robot with ``force``; the damping is a
compliance that makes redundant contacts regular.

**A point** (3d) holds the acceleration of its origin as an observer sees it, in the contact's axes.
**A face** (6d) holds the spatial acceleration of its frame, as Pinocchio does: it differs by
``w x v`` of the origin.

**A row of J** is a unit force (or moment) at the contact that is carried to the base as in
:mod:`.rnea`. It has entries only for the velocities between the contact and the base.

**Elimination.** Velocities first, from the leaves to the base, then contacts: with
``M = L^T D L`` (:mod:`.ltdl`) and ``Y = J L^-1``, whose rows are as sparse as those of J,

    (Y D^-1 Y^T + damping) force = - gamma - Y D^-1 L^-T (tau - h)

Pivots are those of M and of a positive definite matrix. Eliminating a contact inside its limb takes
fewer operations but divides by what nearly vanishes in ordinary postures: where a leg is stretched,
or a foot is in the plane of its hip's axis.

**A contact in the air** has rows of zeros and the pivot 1: its force is exactly zero, and the
others are as without it.

**Loops** of links are contacts with a link (:mod:`.loops`), behind the others.

**Gravity** is an upward acceleration of the base (:mod:`.rnea`), which is not the contact's: it is
carried to each contact as a vector and subtracted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pinion.robot import Contact, Model, RobotError, Transform, contacts_of, uncoupled
from pinion.robot.rotation import transpose

from .checks import (
    Array,
    DynamicsError,
    as_numbers,
    check_choice,
    columns_of,
    configurations,
    constant_inertias,
    needs_inverse,
    vector_of,
)
from .constraint_rows import add_velocities, jacobian_row
from .coupled import coupling_of, elimination_parents
from .crba import crba_scalars
from .joint_terms import FRICTION_WIDTH
from .kinematics import body_poses_scalars, path_to
from .loops import Loop, LoopMotion
from .ltdl import by_velocity, chain, eliminated, elimination, region_at, substituted
from .matrices import Rows, inner, transposed
from .minimal import regrouped_model, slid_model, slides_of, snapped
from .rnea import BodyState, Region, forward_pass, no_region, rnea_scalars
from .scalar import Scalar, SingularError, add, is_zero, mul, select, sub
from .spatial import ZERO, Spatial, Vector, cross, dot, rotate, times_constant, vadd, vsub

REDUNDANT = (
    "The contacts are redundant in one of these states, or the joint-space inertia matrix is "
    "singular: give the contacts a damping, such as 1e-6, or pass other positions."
)

CONTACT_REFERENCES = ("local", "local_world_aligned")
"""Axes of contact forces: the contact's, or the base's."""


@dataclass(frozen=True, kw_only=True)
class Direction:
    """One direction that a contact holds.

    Members
    -------
    contact : the contact's number.
    row : unit wrench [moment; force] of the direction on the body, about the body's origin.
    acceleration : component of the contact's acceleration at ``qdd = 0``, gravity excluded.
    """

    contact: int
    row: Spatial
    acceleration: Scalar


def moving_contacts(model: Model) -> tuple[Contact, ...]:
    """Return a robot's contacts and loops; raise :class:`DynamicsError` if it has none."""
    try:
        contacts = contacts_of(model)
    except RobotError as error:
        raise DynamicsError(str(error)) from None
    if not contacts:
        raise DynamicsError(
            f"The robot {model.name!r} has no contacts: load it with contacts=(LINK, ...) or "
            "loops=((LINK, LINK, '3d'), ...), or call pinion.robot.with_contacts."
        )
    return contacts


def reduced_model(model: Model) -> tuple[Model, tuple[Contact, ...]]:
    """Return a model with the same dynamics and fewer operations, and the contacts in its bodies.

    :func:`.minimal.minimal_model` without the unit of length, which contact forces do not share.
    """
    contacts = moving_contacts(model)
    if not constant_inertias(model):
        return model, contacts
    slides = slides_of(model)

    def moved(body: int, placement: Transform) -> Transform:
        x, y, z = placement.r
        slide = 0.0 if body < 0 else slides[body]
        return Transform(E=placement.E, r=(x, y, snapped(z - slide)))

    slid = []
    for contact in contacts:
        partner = contact.partner
        if partner is not None:
            partner = replace(partner, placement=moved(partner.body, partner.placement))
        placement = moved(contact.body, contact.placement)
        slid.append(replace(contact, placement=placement, partner=partner))
    return regrouped_model(slid_model(model)), tuple(slid)


def contact_directions(
    model: Model,
    contacts: Sequence[Contact],
    qd: Sequence[Scalar],
    states: Sequence[BodyState],
    region: Region,
) -> tuple[list[Direction], dict[int, Vector], dict[int, Vector]]:
    """Return the directions of all contacts, contact by contact, angular ones of a face first.

    ``model`` : a robot without ties; ``qd`` : (nv,) scalars, its rates; ``states`` : of its bodies
    without accelerations. The other results are ``upward`` and ``linear`` of :class:`Constraints`.
    """
    x, y, z = model.gravity
    upward: dict[int, Vector] = {-1: (0.0 - x, 0.0 - y, 0.0 - z)}
    linear: dict[int, Vector] = {-1: ZERO}
    directions: list[Direction] = []
    for number, contact in enumerate(contacts):
        for i in path_to(model, contact.body):
            if i not in upward:
                with region("contact", i + 1):
                    upward[i] = states[i].X.to_child(upward[model.bodies[i].parent])
        if contact.size > 3:
            add_velocities(model, contact.body, qd, states, linear, region)
        with region("contact", contact.body + 1):
            directions += _directions_of(number, contact, states, upward, linear)
    return directions, upward, linear


def _directions_of(
    number: int,
    contact: Contact,
    states: Sequence[BodyState],
    upward: dict[int, Vector],
    linear: dict[int, Vector],
) -> list[Direction]:
    """Return the directions of one contact."""
    motion, r = states[contact.body].motion, contact.placement.r
    acceleration = vsub(vadd(motion.a, times_constant(motion.B, r)), upward[contact.body])
    directions = []
    if contact.size > 3:
        velocity = vsub(linear[contact.body], cross(r, motion.w))
        acceleration = vsub(acceleration, cross(motion.w, velocity))
        for axis, value in zip(
            contact.placement.E, rotate(contact.placement.E, motion.al), strict=True
        ):
            directions.append(Direction(contact=number, row=(axis, ZERO), acceleration=value))
    for axis, value in zip(
        contact.placement.E, rotate(contact.placement.E, acceleration), strict=True
    ):
        row = cross(r, axis), axis
        directions.append(Direction(contact=number, row=row, acceleration=value))
    return directions


def masked(on: Scalar, x: Scalar) -> Scalar:
    """Return x if a contact is on the ground, else 0."""
    return x if is_zero(x) else select(on, x, 0.0)


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """Contacts of a robot at a state, before their forces are known.

    Members
    -------
    plain : the robot with fewer operations (:func:`reduced_model`).
    tree : the same without ties.
    contacts_and_loops : in the bodies of ``tree``, in the order of all arrays.
    contacts, loops : the two parts.
    directions : that the contacts hold.
    on_ground : of each direction, loops included, whether its contact is active.
    drift : (nc,) scalars, the contacts' accelerations at ``qdd = 0``, gravity excluded.
    J : (nc, nv) scalars, the Jacobian by the robot's velocities, zeros for contacts in the air.
    upward : of bodies between contacts and the base, the base's acceleration against gravity in the
        body's axes [m/s^2].
    linear : of bodies between faces and the base, the velocity of the origin in the body's axes
        [m/s].
    """

    plain: Model
    tree: Model
    contacts_and_loops: tuple[Contact, ...]
    contacts: tuple[Contact, ...]
    loops: tuple[Loop, ...]
    directions: list[Direction]
    on_ground: list[Scalar]
    drift: list[Scalar]
    J: Rows
    upward: dict[int, Vector]
    linear: dict[int, Vector]

    def masked(self, values: Sequence[Scalar]) -> list[Scalar]:
        """Return values (nc,) of active contacts, and zeros for the others."""
        return [masked(on, x) for on, x in zip(self.on_ground, values, strict=True)]


def constraints_of(
    model: Model,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    active: Sequence[Scalar],
    region: Region,
) -> Constraints:
    """Return a robot's contacts at a state.

    Arguments as for :func:`constraint_dynamics_scalars`.
    """
    plain, every = reduced_model(model)
    contacts = tuple(contact for contact in every if contact.partner is None)
    tied = coupling_of(plain, region) if plain.coupled else None
    tree = uncoupled(plain) if plain.coupled else plain
    loops = tuple(Loop.of(tree, contact) for contact in every[len(contacts) :])
    q_tree, qd_tree = (tied.positions(q), tied.rates(qd)) if tied else (q, qd)
    states = forward_pass(tree, q_tree, qd_tree, [0.0] * tree.nv, None, region)
    directions, upward, linear = contact_directions(tree, contacts, qd_tree, states, region)
    on_ground: list[Scalar] = []
    drift = [direction.acceleration for direction in directions]
    J: Rows = []

    def add_row(row: list[Scalar], on: Scalar, body: int) -> None:
        with region("contact", body + 1):
            row = tied.efforts(row) if tied else row
            J.append([masked(on, x) for x in row])
            on_ground.append(on)

    for direction in directions:
        body = contacts[direction.contact].body
        row = jacobian_row(tree, body, direction.row, states, region)
        add_row(row, active[direction.contact], body)
    for number, loop in enumerate(loops):
        motion = LoopMotion.of(loop, q_tree, qd_tree, None, region)
        drift += motion.accelerations
        for row in motion.jacobian:
            add_row(loop.spread(row, tree.nv), active[len(contacts) + number], loop.bodies[-1])
    return Constraints(
        plain=plain,
        tree=tree,
        contacts_and_loops=every,
        contacts=contacts,
        loops=loops,
        directions=directions,
        on_ground=on_ground,
        drift=drift,
        J=J,
        upward=upward,
        linear=linear,
    )


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
) -> tuple[list[Scalar], list[Scalar]]:
    """Return the accelerations of a robot in contact and the forces on it, over any scalar.

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

    Returns
    -------
    qdd : (nv,) scalars [rad/s^2 | m/s^2].
    force : (nc,) scalars: of each contact three components [N], or the moment [N m] and the force
        of a face.

    Raises
    ------
    DynamicsError : the robot has no contacts.
    """
    check_choice("reference", reference, CONTACT_REFERENCES)
    at_state = constraints_of(model, q, qd, active, region)
    plain = at_state.plain
    terms_of: Any = {"joint_terms": joint_terms, "friction_width": friction_width}
    bias = rnea_scalars(plain, q, qd, [0.0] * plain.nv, None, region, **terms_of)
    M = crba_scalars(plain, q, region)
    with region("solve", 1):
        b = [sub(effort, part) for effort, part in zip(tau, bias, strict=True)]
    qdd, force = solve_constraints(at_state, M, b, at_state.drift, damping, region)
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
    """Checked arguments of a robot in contact.

    Members
    -------
    columns : the vectors in their order, active and damping, split for scalars.
    batch : shape of an element, () for one state or (n,).
    """

    columns: tuple[Any, ...]
    batch: tuple[int, ...]


def contact_arguments(
    model: Model, active: ArrayLike | None, damping: ArrayLike, **vectors: ArrayLike
) -> ContactArguments:
    """Check a mask, a damping, and vectors of a robot such as those of :func:`constraint_dynamics`.

    ``vectors`` : as for :func:`.checks.configurations`.
    """
    x = configurations(model, **vectors)
    batch = x["q"].shape[:-1]
    contacts = moving_contacts(model)
    count = len(contacts)
    mask = np.ones(count) if active is None else as_numbers("active", active)
    if mask.shape not in ((count,), (*batch, count)):
        raise DynamicsError(
            f"active has shape {mask.shape}, but the robot {model.name!r} has {count} contacts: "
            f"pass ({count},), or {(*batch, count)} with a row for each state."
        )
    wrong = mask[(mask != 0.0) & (mask != 1.0)]
    if wrong.size:
        raise DynamicsError(
            f"active has the entry {wrong[0]}: pass 1 for a contact on the ground and 0 for one in "
            "the air."
        )
    compliance = as_numbers("damping", damping)
    usable = np.all((compliance >= 0.0) & np.isfinite(compliance))
    if compliance.shape not in ((), batch) or not usable:
        raise DynamicsError(
            f"damping is {damping!r:.60}: pass a finite number from 0 on, or one for each state."
        )
    mask = np.broadcast_to(mask, (*batch, count))
    compliance = np.broadcast_to(compliance, batch)
    for i, j in coincident(contacts):
        if np.any((mask[..., i] * mask[..., j] > 0.0) & (compliance == 0.0)):
            raise DynamicsError(
                f"The contacts {contacts[i].name!r} and {contacts[j].name!r} of {model.name!r} "
                "hold the same point, so that their forces are not determined: set one of them to "
                "0 in active, or give a damping, such as 1e-6."
            )
    states = [columns_of(vector) for vector in x.values()]
    return ContactArguments(columns=(*states, columns_of(mask), compliance[()]), batch=batch)


def coincident(contacts: Sequence[Contact]) -> list[tuple[int, int]]:
    """Return the pairs of contacts that hold the same point of a body."""
    return [
        (i, j)
        for j, second in enumerate(contacts)
        for i, first in enumerate(contacts[:j])
        if first.partner is second.partner is None
        and first.body == second.body
        and np.allclose(first.placement.r, second.placement.r, rtol=0.0, atol=1e-9)
    ]


def check_regular(*arrays: Array) -> None:
    """Raise if results are not finite."""
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
) -> tuple[Array, Array]:
    """Return the accelerations of a robot in contact and the forces of the ground on it.

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

    Returns
    -------
    qdd : (nv,) or (n, nv) float64 [rad/s^2 | m/s^2].
    force : (nc,) or (n, nc) float64, contact by contact: the force of a point [N], the moment [N m]
        and the force of a face.

    Raises
    ------
    DynamicsError : the robot has no contacts; an argument of another shape, or not finite; a mask
        of other numbers than 0 and 1; redundant contacts without damping.
    """
    x = contact_arguments(model, active, damping, q=q, qd=qd, tau=tau)
    qdd, force = constraint_dynamics_scalars(
        model,
        *x.columns,
        reference=reference,
        joint_terms=joint_terms,
        friction_width=friction_width,
    )
    arrays = vector_of(qdd, x.batch), vector_of(force, x.batch)
    check_regular(*arrays)
    return arrays


def turn_to_base(
    at_state: Constraints, q: Sequence[Scalar], region: Region
) -> Callable[[Sequence[Scalar]], list[Scalar]]:
    """Return the function that turns forces (nc,) into base axes from the contacts' axes."""
    contacts = at_state.contacts_and_loops
    path = sorted({i for contact in contacts for i in path_to(at_state.plain, contact.body)})
    poses = body_poses_scalars(at_state.plain, q, path, region)

    def turned(force: Sequence[Scalar]) -> list[Scalar]:
        elements: list[Scalar] = []
        for contact in contacts:
            R = poses[contact.body].R
            back = transpose(contact.placement.E)
            with region("contact", contact.body + 1):
                for _ in range(contact.size // 3):
                    x, y, z = force[len(elements) : len(elements) + 3]
                    in_body = rotate(back, (x, y, z))
                    elements += [dot(row, in_body) for row in R]
        return elements

    return turned


def turned_gradients(
    at_state: Constraints,
    q: Sequence[Scalar],
    force: Sequence[Scalar],
    gradients: Sequence[Rows],
    region: Region,
) -> list[Rows]:
    """Return gradients (nc, nv) of forces in base axes from those of forces in the contacts' axes.

    The first one is by position: there the contacts' axes turn too.
    """
    plain, tree = at_state.plain, at_state.tree
    tied = coupling_of(plain, region) if plain.coupled else None
    q_tree = tied.positions(q) if tied else q
    still: list[Scalar] = [0.0] * tree.nv
    states = forward_pass(tree, q_tree, still, still, None, region)
    by_position = [list(row) for row in gradients[0]]
    start = 0
    for contact in at_state.contacts_and_loops:
        halves = range(start, start + contact.size, 3)
        start += contact.size
        if contact.body < 0:
            continue
        rates = [
            jacobian_row(tree, contact.body, (axis, ZERO), states, region)
            for axis in contact.placement.E
        ]
        rates = [tied.efforts(row) for row in rates] if tied else rates
        with region("contact", contact.body + 1):
            for half in halves:
                x, y, z = force[half : half + 3]
                for j, (w_x, w_y, w_z) in enumerate(zip(*rates, strict=True)):
                    for k, change in enumerate(cross((w_x, w_y, w_z), (x, y, z))):
                        by_position[half + k][j] = add(by_position[half + k][j], change)
    turn = turn_to_base(at_state, q, region)
    return [
        transposed([turn(column) for column in transposed(rows)])
        for rows in (by_position, *gradients[1:])
    ]
