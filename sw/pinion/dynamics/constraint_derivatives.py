r"""Gradients of accelerations and contact forces with respect to states and efforts.

With ``K = [[M, J^T], [J, -damping]]`` of :mod:`.constraints`, and x a position or a rate,

    K [dqdd; -dforce] = - [dID; da]

(Carpentier, Budhiraja and Mansard 2021). ``dID`` is the gradient of inverse dynamics at the
solution, with the contact forces constant in their bodies (:mod:`.rnea_derivatives`), and ``da``
that of the contacts' accelerations, in the contacts' axes. Forces in base axes are ``R force``, and
``d(R force) = R (dforce + w x force)`` with w the turn of the contact.

**A row of da.** A column (dw, dal, da) of :mod:`.rnea_derivatives` changes the acceleration of a
contact at r along a unit vector e of its body by ``g_w dw + g_al dal + g_a da``, with

    e, of the point       g_a = e     g_al = r x e     g_w = 2 (w x r) x e
    e, of the rotation    g_a = 0     g_al = e         g_w = w x e

The row is carried to the base like one of the gradient of inverse dynamics. Columns are those of
the true motion, in which the base does not accelerate against gravity. The spatial acceleration of
a face is that of the point less ``w x v``, whose change also needs the column of v: ``S`` by the
rate and ``v x S`` by the position.

**Elimination** is that of :mod:`.branches`.

**A floating base** has no column for its position, and that of its orientation follows from
gravity, which turns in the base's axes. By its rates, the column is known up to the change dw: the
base can have the accelerations (dal, da) itself, and then nothing else notices them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Unpack

from numpy.typing import ArrayLike

from pinion.robot import Contact, Joint, JointKind, Model

from .axis import axis_effort, cross_axis, numbered_axes
from .branches import Eliminated, eliminate_branches
from .checks import Array, check_choice, matrix_of, needs_inverse, vector_of
from .constraint_rows import acceleration_row, add_velocities, product_of, velocity_row
from .constraints import (
    CONTACT_REFERENCES,
    GainArrays,
    check_regular,
    contact_arguments,
    gain_columns,
)
from .contact_state import Constraints, constraints_of, turn_to_base, turned_gradients
from .coupled import coupling_of
from .crba import crba_scalars
from .joint_terms import FRICTION_WIDTH, joint_terms_of
from .kinematics import path_to
from .loops import LoopMotion
from .matrices import Rows, combined, inner, transposed, zeros
from .rnea import BodyMotion, Region, forward_pass, no_region, rnea_scalars
from .rnea_derivatives import (
    Columns,
    Row,
    SubtreeChange,
    columns,
    joint_drift,
    rnea_derivatives_scalars,
    row_to_parent,
)
from .scalar import Scalar, add, is_zero, mul, sub
from .spatial import ZERO, Spatial, Vector, cross, vadd, vsub
from .stabilisation import Gains, Stabilisation


class ConstraintDerivatives(NamedTuple):
    """Accelerations and contact forces of a robot in contact, with their gradients, as arrays.

    Members
    -------
    qdd : (nv,) or (n, nv) float64, accelerations [rad/s^2 | m/s^2].
    force : (nc,) or (n, nc) [N | N m].
    dqdd_dq, dqdd_dqd, dqdd_dtau : (nv, nv) or (n, nv, nv).
    dforce_dq, dforce_dqd, dforce_dtau : (nc, nv) or (n, nc, nv).
    """

    qdd: Array
    force: Array
    dqdd_dq: Array
    dqdd_dqd: Array
    dqdd_dtau: Array
    dforce_dq: Array
    dforce_dqd: Array
    dforce_dtau: Array


class ConstraintGradient(NamedTuple):
    """Accelerations and contact forces of a robot in contact, with their gradients, as scalars.

    Members
    -------
    qdd : (nv,) accelerations.
    force : (nc,) forces.
    dqdd_dq, dqdd_dqd, dqdd_dtau : (nv, nv).
    dforce_dq, dforce_dqd, dforce_dtau : (nc, nv).
    """

    qdd: list[Scalar]
    force: list[Scalar]
    dqdd_dq: Rows
    dqdd_dqd: Rows
    dqdd_dtau: Rows
    dforce_dq: Rows
    dforce_dqd: Rows
    dforce_dtau: Rows


# Many parameters: the quantities of the equation, and the optional terms.
def constraint_dynamics_derivatives_scalars(
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
) -> ConstraintGradient:
    """Return a robot's accelerations and contact forces with their gradients, for any scalar type.

    Arguments as for :func:`.constraints.constraint_dynamics_scalars`. The gradient by position is
    along tangents if positions are not a vector. Outputs that nobody uses leave no operations in a
    traced graph.

    Raises
    ------
    DynamicsError : the robot has no contacts.
    """
    check_choice("reference", reference, CONTACT_REFERENCES)
    at_state = constraints_of(model, q, qd, active, region)
    returning = Stabilisation.of(model, at_state, q, qd, region, gains) if gains else None
    drift = returning.added_to(at_state.drift) if returning else at_state.drift
    plain = at_state.plain
    terms_of: Any = {"joint_terms": joint_terms, "friction_width": friction_width}
    bias = rnea_scalars(plain, q, qd, [0.0] * plain.nv, None, region, **terms_of)
    M = crba_scalars(plain, q, region)
    eliminated = eliminate_branches(at_state, M, damping, region, terms_of)
    last = len(plain.bodies)
    with region("solve", last):
        efforts = [sub(effort, part) for effort, part in zip(tau, bias, strict=True)]
        free = at_state.masked([sub(0.0, moving) for moving in drift])
        qdd, force = eliminated.solve(efforts, free)

    f_ext = forces_on_links(at_state, force, region)
    floats = floats_freely(plain, terms_of)
    columns_of = columns_on_a_base if floats else columns
    dtau = rnea_derivatives_scalars(
        plain, q, qd, qdd, f_ext, region, columns_of=columns_of, **terms_of
    )
    dtau = without_loops(at_state, q, force, dtau[0], region), dtau[1]
    changes = acceleration_derivatives(at_state, q, qd, qdd, region, columns_of)
    if returning:
        of_velocity = velocity_derivatives(at_state, q, qd, qd, region)
        by_q, by_qd = returning.derivatives(of_velocity)
        with region("contact", last):
            changes = (
                combined((1.0, changes[0]), (1.0, by_q)),
                combined((1.0, changes[1]), (1.0, by_qd)),
            )
    gradients = []
    for of_state, change_of, is_rate in zip(dtau, changes, (False, True), strict=True):
        solutions = []
        with region("column", last):
            if floats and not is_rate and not (returning and returning.position_gain):
                solutions = _position_columns_of_base(at_state, eliminated)
        every = enumerate(zip(transposed(of_state), transposed(change_of), strict=True))
        for k, (effort, change) in list(every)[len(solutions) :]:
            with region("column", last):
                x, y = eliminated.solve(
                    [sub(0.0, entry) for entry in effort],
                    at_state.masked([sub(0.0, entry) for entry in change]),
                    k,
                )
                if floats and is_rate and k < 6:
                    x[:6] = [
                        sub(entry, part) for entry, part in zip(x, _carried(k, qd), strict=False)
                    ]
                solutions.append((x, y))
        gradients += [transposed(part) for part in zip(*solutions, strict=True)]
    solutions = []
    for k in range(plain.nv):
        with region("column", last):
            solutions.append(eliminated.of_effort(k))
    gradients += [transposed(part) for part in zip(*solutions, strict=True)]
    dqdd_dq, dforce_dq, dqdd_dqd, dforce_dqd, dqdd_dtau, dforce_dtau = gradients
    # It is symmetric; the response of the trunk to a branch is computed on the way to the others.
    order = [*(k for branch in eliminated.branches for k in branch.at), *eliminated.trunk]
    for place, i in enumerate(order):
        for k in order[:place]:
            dqdd_dtau[k][i] = dqdd_dtau[i][k]
    if reference == "local_world_aligned":
        of_force = dforce_dq, dforce_dqd, dforce_dtau
        dforce_dq, dforce_dqd, dforce_dtau = turned_gradients(at_state, q, force, of_force, region)
        force = turn_to_base(at_state, q, region)(force)
    return ConstraintGradient(
        qdd=qdd,
        force=force,
        dqdd_dq=dqdd_dq,
        dqdd_dqd=dqdd_dqd,
        dqdd_dtau=dqdd_dtau,
        dforce_dq=dforce_dq,
        dforce_dqd=dforce_dqd,
        dforce_dtau=dforce_dtau,
    )


# Many parameters: those of the scalar function.
@needs_inverse
def constraint_dynamics_derivatives(
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
) -> ConstraintDerivatives:
    """Return a robot's accelerations and contact forces with their gradients.

    Arguments and errors as for :func:`.constraints.constraint_dynamics`.
    """
    x = contact_arguments(model, active, damping, q=q, qd=qd, tau=tau)
    gradient = constraint_dynamics_derivatives_scalars(
        model,
        *x.columns,
        reference=reference,
        joint_terms=joint_terms,
        friction_width=friction_width,
        **gain_columns(model, x.batch, **gains),
    )
    arrays = {
        name: (vector_of if name in ("qdd", "force") else matrix_of)(value, x.batch)
        for name, value in gradient._asdict().items()
    }
    check_regular(*arrays.values())
    return ConstraintDerivatives(**arrays)


def forces_on_links(
    at_state: Constraints, force: Sequence[Scalar], region: Region
) -> list[list[Scalar]]:
    """Return the contact forces' total wrench [moment; force] on each link, in the link's axes.

    Those of loops are not included (:func:`without_loops`).
    """
    wrenches: list[list[Scalar]] = [[0.0] * 6 for _ in at_state.tree.bodies]
    of_contacts = force[: len(at_state.directions)]
    for direction, component in zip(at_state.directions, of_contacts, strict=True):
        body = at_state.contacts[direction.contact].body
        with region("contact", body + 1):
            part = [mul(component, element) for half in direction.row for element in half]
            wrenches[body] = [add(a, b) for a, b in zip(wrenches[body], part, strict=True)]
    return wrenches


def without_loops(
    at_state: Constraints,
    q: Sequence[Scalar],
    force: Sequence[Scalar],
    defect: Rows,
    region: Region,
) -> Rows:
    """Subtract the position gradient of the loops' efforts from that of the joint efforts."""
    if not at_state.loops:
        return defect
    plain, tree = at_state.plain, at_state.tree
    tied = coupling_of(plain, region) if plain.coupled else None
    if tied:
        q = tied.positions(q)
    still: list[Scalar] = [0.0] * tree.nv
    change = zeros(tree.nv)
    start = len(at_state.directions)
    for loop in at_state.loops:
        end = start + loop.contact.size
        part = LoopMotion.of(loop, q, still, None, region).force_derivatives(force[start:end])
        start = end
        with region("contact", loop.bodies[-1] + 1):
            for k, row in zip(loop.v_at, part, strict=True):
                for j, entry in zip(loop.v_at, row, strict=True):
                    change[k][j] = add(change[k][j], entry)
    if tied:
        change = tied.square(change)
    with region("contact", len(plain.bodies)):
        return [
            [sub(x, y) for x, y in zip(row, moved, strict=True)]
            for row, moved in zip(defect, change, strict=True)
        ]


def floats_freely(model: Model, terms_of: dict[str, Any]) -> bool:
    """Return whether the only joint on the base is a free-flyer without armature or other terms.

    It is then the only free-flyer of the robot.
    """
    roots = [body for body in model.bodies if body.parent < 0]
    flyers = [body for body in model.bodies if body.joint.kind is JointKind.FREE_FLYER]
    if len(roots) != 1 or flyers != roots:
        return False
    terms = joint_terms_of(model, **terms_of)
    return not any(terms.acts_on(k) for k in range(6))


def columns_on_a_base(
    joint: Joint, motion: BodyMotion, before: BodyMotion, qd: Sequence[Scalar]
) -> list[tuple[SubtreeChange, SubtreeChange]]:
    """Return :func:`.rnea_derivatives.columns` less a floating base's accelerations by its rates.

    Of the rate columns of a base, only the part stays that is not an acceleration of the base.
    """
    every = columns(joint, motion, before, qd)
    if joint.kind is not JointKind.FREE_FLYER:
        return every
    return [(by_q, replace(by_qd, dal=ZERO, da=ZERO)) for by_q, by_qd in every]


def _carried(k: int, qd: Sequence[Scalar]) -> list[Scalar]:
    """Return the acceleration of a floating base by its rate k at constant ``qdd``, (6,).

    What :func:`columns_on_a_base` leaves out, the linear part first.
    """
    e: Vector = (float(k % 3 == 0), float(k % 3 == 1), float(k % 3 == 2))
    v, w = (qd[0], qd[1], qd[2]), (qd[3], qd[4], qd[5])
    return [*cross(w, e), *ZERO] if k < 3 else [*cross(e, v), *cross(w, e)]


def _position_columns_of_base(
    at_state: Constraints, eliminated: Eliminated
) -> list[tuple[list[Scalar], list[Scalar]]]:
    """Return the gradient columns of a floating base's pose, which follow without inverse dynamics.

    Seen in the base's axes, gravity g changes by ``g x e`` when the base turns about e, and so does
    the acceleration of a base that falls; contacts then lack ``J`` of that change.
    """
    n, count = at_state.plain.nv, len(at_state.J)
    solutions: list[tuple[list[Scalar], list[Scalar]]] = [([0.0] * n, [0.0] * count)] * 3
    for k in range(3):
        e: Vector = (float(k == 0), float(k == 1), float(k == 2))
        change = cross(e, at_state.upward[0])
        lacking = [sub(0.0, inner(row[:3], change)) for row in at_state.J]
        x, y = eliminated.solve([0.0] * n, lacking)
        solutions.append(([*vadd((x[0], x[1], x[2]), change), *x[3:]], y))
    return solutions


def acceleration_derivatives(
    at_state: Constraints,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    region: Region,
    columns_of: Columns = columns,
) -> tuple[Rows, Rows]:
    """Return the position and rate gradients of the contacts' accelerations, (nc, nv) each.

    ``columns_of`` : as for :func:`.rnea_derivatives.rnea_derivatives_scalars`.
    """
    plain, tree = at_state.plain, at_state.tree
    tied = coupling_of(plain, region) if plain.coupled else None
    if tied:
        q, qd, qdd = tied.positions(q), tied.rates(qd), tied.rates(qdd)
    states = forward_pass(tree, q, qd, qdd, None, region)
    slices, joints = tree.v_slices, numbered_axes(tree)
    changes: dict[int, list[tuple[SubtreeChange, SubtreeChange]]] = {}
    for i in at_state.upward.keys() - {-1}:
        with region("contact", i + 1):
            up = at_state.upward[i]
            motion, before = (
                replace(motion, a=vsub(motion.a, up))
                for motion in (states[i].motion, states[i].before)
            )
            changes[i] = columns_of(tree.bodies[i].joint, motion, before, qd[slices[i]])
    by_q, by_qd = zeros(len(at_state.directions), tree.nv), zeros(len(at_state.directions), tree.nv)
    for c, direction in enumerate(at_state.directions):
        contact = at_state.contacts[direction.contact]
        with region("contact", contact.body + 1):
            row, push = contact_row(direction.row, contact, states[contact.body].motion, at_state)
        for i in reversed(path_to(tree, contact.body)):
            parent = tree.bodies[i].parent
            with region("contact", i + 1):
                for (k, axis), (change_q, change_qd) in zip(joints[i], changes[i], strict=True):
                    by_q[c][k], by_qd[c][k] = row.times(change_q), row.times(change_qd)
                    if push is not None:
                        w = ZERO if parent < 0 else states[parent].motion.w
                        v = states[i].X.motion_to_child(w, at_state.linear[parent])
                        turned = cross_axis(axis, v, 1.0)
                        by_q[c][k] = add(by_q[c][k], product_of(push, turned))
                        by_qd[c][k] = add(by_qd[c][k], axis_effort(axis, push))
                if parent >= 0:
                    drift = joint_drift(
                        tree.bodies[i].joint, states[i], states[parent].motion.w, qd[slices[i]]
                    )
                    row = row_to_parent(states[i].X, drift, row)
                    push = None if push is None else states[i].X.force_to_parent(*push)
    for loop in at_state.loops:
        parts = LoopMotion.of(loop, q, qd, qdd, region).acceleration_derivatives()
        for rows, part in zip((by_q, by_qd), parts, strict=True):
            rows += [loop.spread(row, tree.nv) for row in part]
    if tied:
        return tied.of_columns(by_q), tied.of_columns(by_qd)
    return by_q, by_qd


def velocity_derivatives(
    at_state: Constraints,
    q: Sequence[Scalar],
    rates: Sequence[Scalar],
    rates_of_loops: Sequence[Scalar],
    region: Region,
) -> Rows:
    """Return the gradient of ``J rates`` with respect to position at constant rates, (nc, nv).

    ``rates_of_loops`` : those for the rows of loops.
    """
    plain, tree = at_state.plain, at_state.tree
    tied = coupling_of(plain, region) if plain.coupled else None
    if tied:
        q, rates = tied.positions(q), tied.rates(rates)
        rates_of_loops = tied.rates(rates_of_loops)
    states = forward_pass(tree, q, rates, [0.0] * tree.nv, None, region)
    linear: dict[int, Vector] = {-1: ZERO}
    by_q: Rows = []
    for direction in at_state.directions:
        body = at_state.contacts[direction.contact].body
        add_velocities(tree, body, rates, states, linear, region)
        by_q.append(velocity_row(tree, body, direction.row, states, linear, region))
    for loop in at_state.loops:
        part = LoopMotion.of(loop, q, rates_of_loops, None, region).velocity_derivatives()
        by_q += [loop.spread(row, tree.nv) for row in part]
    return tied.of_columns(by_q) if tied else by_q


def contact_row(
    wrench: Spatial, contact: Contact, motion: BodyMotion, at_state: Constraints
) -> tuple[Row, Spatial | None]:
    """Return the row of a contact's direction (a unit wrench), in the body's coordinates.

    The second is a row for changes of velocity, which the spatial acceleration of a face needs.
    """
    w, r, (_, force) = motion.w, contact.placement.r, wrench
    row = acceleration_row(wrench, r, w)
    if contact.size == 3 or all(map(is_zero, force)):
        return row, None
    velocity = vadd(at_state.linear[contact.body], cross(w, r))
    turning = cross(w, force)
    g_w = vsub(row.g_w, cross(velocity, force))
    return replace(row, g_w=g_w), (cross(r, turning), turning)
