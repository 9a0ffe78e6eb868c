r"""Contacts and loops of a robot at a state: the directions that they constrain, and their axes.

**A point** (3d) holds the acceleration of its origin as an observer sees it, in the contact's axes.
**A face** (6d) holds the spatial acceleration of its frame, as Pinocchio does: it differs by
``w x v`` of the origin.

**A row of J** is a unit force (or moment) at the contact that is carried to the base as in
:mod:`.rnea`. It has entries only for the velocities between the contact and the base.

**Loops** of links are contacts with a link (:mod:`.loops`), behind the others.

**Gravity** is an upward acceleration of the base (:mod:`.rnea`), which is not the contact's: it is
carried to each contact as a vector and subtracted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from pinion.robot import Contact, Model, RobotError, Transform, contacts_of, uncoupled
from pinion.robot.rotation import transpose

from .checks import DynamicsError, constant_inertias
from .constraint_rows import add_velocities, jacobian_row
from .coupled import coupling_of
from .kinematics import body_poses_scalars, path_to
from .loops import Loop, LoopMotion
from .matrices import Rows, transposed
from .minimal import regrouped_model, slid_model, slides_of, snapped
from .rnea import BodyState, Region, forward_pass
from .scalar import Scalar, add, is_zero, select
from .spatial import ZERO, Spatial, Vector, cross, dot, rotate, times_constant, vadd, vsub


@dataclass(frozen=True, kw_only=True)
class Direction:
    """One direction that a contact constrains.

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
            f"{model.name!r} has no contacts: load it with contacts=(LINK, ...) (--contact) or "
            "loops=((LINK, LINK, '3d'), ...) (--loop), or call pinion.robot.with_contacts."
        )
    return contacts


def reduced_model(model: Model) -> tuple[Model, tuple[Contact, ...]]:
    """Return an equivalent model that needs fewer operations, and the contacts on its bodies.

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
    """Return the directions of all contacts, contact by contact, a face's angular ones first.

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
    """Return the directions of one contact: three for a point, six for a face."""
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
    """Return x if a contact is active, else 0."""
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
    directions : those that the contacts constrain.
    on_ground : for each direction, loops included, whether its contact is active.
    drift : (nc,) scalars, the contacts' accelerations at ``qdd = 0``, gravity excluded.
    J : (nc, nv) scalars, the Jacobian for the robot's velocities, zeros for contacts in the air.
    moved_by : for each direction, loops included, the velocities that move its contact, or turn its
        axes.
    upward : for bodies between contacts and base, the base's acceleration against gravity in the
        body's axes [m/s^2].
    linear : for bodies between faces and the base, the velocity of the origin in the body's axes
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
    moved_by: list[frozenset[int]]
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
    """Return a robot's contacts at a state: directions, Jacobian, and drift.

    Arguments as for :func:`.constraints.constraint_dynamics_scalars`.
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
    moved_by: list[frozenset[int]] = []
    independent = [k for k, _ in tied.columns()] if tied else range(tree.nv)

    def add_row(row: list[Scalar], on: Scalar, body: int, velocities: Iterable[int]) -> None:
        with region("contact", body + 1):
            row = tied.efforts(row) if tied else row
            J.append([masked(on, x) for x in row])
            on_ground.append(on)
            moved_by.append(frozenset(independent[k] for k in velocities))

    slices = tree.v_slices
    for direction in directions:
        body = contacts[direction.contact].body
        row = jacobian_row(tree, body, direction.row, states, region)
        path = [k for i in path_to(tree, body) for k in range(slices[i].start, slices[i].stop)]
        add_row(row, active[direction.contact], body, path)
    for number, loop in enumerate(loops):
        motion = LoopMotion.of(loop, q_tree, qd_tree, None, region)
        drift += motion.accelerations
        for row in motion.jacobian:
            spread, on = loop.spread(row, tree.nv), active[len(contacts) + number]
            add_row(spread, on, loop.bodies[-1], loop.v_at)
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
        moved_by=moved_by,
        upward=upward,
        linear=linear,
    )


def turn_to_base(
    at_state: Constraints, q: Sequence[Scalar], region: Region
) -> Callable[[Sequence[Scalar]], list[Scalar]]:
    """Return a function that rotates forces (nc,) from the contacts' axes to base axes."""
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
        rates = turning_rows(tree, contact, states, region)
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


def turning_rows(
    model: Model, contact: Contact, states: Sequence[BodyState], region: Region
) -> Rows:
    """Return the Jacobian (3, nv) of the angular velocity of a contact's axes, in these axes."""
    return [
        jacobian_row(model, contact.body, (axis, ZERO), states, region)
        for axis in contact.placement.E
    ]
