r"""Kinematic loops: frames of two bodies constrained to each other, for any scalar type.

A loop is a contact between two links (:class:`pinion.robot.Contact`). The two branches from the
link where they part, the fork, to the frames are a robot of their own (:class:`Loop`), whose base
rests: what the fork does moves both frames alike, so that the loop has no rows for the velocities
before it, and its force does not reach them. That is exact also where the frames have drifted
apart, and a robot with loops keeps its momentum as it falls.

**Rows.** With unit vectors e of the first frame's axes, in its body, the loop holds

    e . (a_1 - a_2) = - damping force     and of a face     e . (al_1 - al_2) = - damping force

of the classical accelerations of the two origins and of the angular accelerations. The force acts
on the first frame, and its opposite on the second. In Pinocchio's ``RigidConstraintModel`` with two
joints a face holds spatial accelerations; they differ where the frames' velocities differ.

**Gradient.** The rows of each branch are those of :mod:`.constraint_derivatives` with e fixed in
the body, but e turns with the first branch alone. If the joint j turns about s_j,

    of the row:     - s_j . (e x a_2)    of joints of the first branch, + of the second
    of J^T force:   that of wrenches that are constant in their bodies, and of the second one, with
                    (n, f) at r of its body, the change +- (s_j x n + r x (s_j x f), s_j x f)
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property

from pinion.robot import Contact, Frame, Model, Vec3

from .axis import Axis, axis_cross_force, axis_effort, axis_motion, numbered_axes
from .constraint_rows import acceleration_row, add_velocities, jacobian_row, velocity_row
from .kinematics import path_to
from .matrices import Rows, zeros
from .rnea import BodyState, Region, forward_pass
from .rnea_derivatives import columns, joint_drift, row_to_parent
from .scalar import Scalar, add, mul, sub
from .spatial import ZERO, Spatial, Vector, cross, dot, times_constant, vadd, vsub


@dataclass(frozen=True, kw_only=True)
class Loop:
    """The two branches of a loop as a separate robot, with the fork as its fixed base.

    Members
    -------
    contact : the first frame, its body by its number in ``model``.
    partner : the second frame, likewise.
    model : the bodies of both branches, on the fork as their base, without gravity.
    bodies : for each of its bodies, its number in the robot.
    q_at, v_at : indices of its positions and velocities in the robot's.
    """

    contact: Contact
    partner: Frame
    model: Model
    bodies: tuple[int, ...]
    q_at: tuple[int, ...]
    v_at: tuple[int, ...]

    @classmethod
    def of(cls, tree: Model, contact: Contact) -> Loop:
        """Return the loop of a robot's contact, which must have a partner."""
        partner = contact.partner
        assert partner is not None
        first, second = (set(path_to(tree, body)) for body in (contact.body, partner.body))
        bodies = tuple(sorted(first ^ second))
        numbers = {body: number for number, body in enumerate(bodies)}
        branches = tuple(
            replace(tree.bodies[body], parent=numbers.get(tree.bodies[body].parent, -1))
            for body in bodies
        )
        return cls(
            contact=replace(contact, body=numbers.get(contact.body, -1)),
            partner=replace(partner, body=numbers.get(partner.body, -1)),
            model=replace(
                tree,
                bodies=branches,
                gravity=(0.0, 0.0, 0.0),
                frames=(),
                rated_velocity=(),
                contacts=(),
                loops=(),
            ),
            bodies=bodies,
            q_at=_indices(tree.q_slices, bodies),
            v_at=_indices(tree.v_slices, bodies),
        )

    def region(self, around: Region) -> Region:
        """Return a region for the branches that calls ``around`` with the robot's body numbers."""

        def numbered(pass_name: str, body: int) -> AbstractContextManager[object]:
            return around(pass_name, self.bodies[body - 1] + 1)

        return numbered

    def positions(self, q: Sequence[Scalar]) -> list[Scalar]:
        """Return the positions of the branches' joints from those of the robot's."""
        return [q[k] for k in self.q_at]

    def rates(self, qd: Sequence[Scalar]) -> list[Scalar]:
        """Return the velocities or accelerations of the branches from those of the robot."""
        return [qd[k] for k in self.v_at]

    def spread(self, row: Sequence[Scalar], count: int) -> list[Scalar]:
        """Expand a row over the branches' velocities to a row (count,) over the robot's."""
        full: list[Scalar] = [0.0] * count
        for k, entry in zip(self.v_at, row, strict=True):
            full[k] = entry
        return full


def _indices(slices: Sequence[slice], bodies: Sequence[int]) -> tuple[int, ...]:
    return tuple(k for body in bodies for k in range(slices[body].start, slices[body].stop))


@dataclass(frozen=True, kw_only=True)
class LoopMotion:
    """The motion of a loop's two branches, seen from the fork.

    Members
    -------
    loop : the loop.
    qd : (nv,) scalars, rates of its branches.
    states : of its bodies.
    around : context manager of steps, with the numbers of the loop's bodies.
    """

    loop: Loop
    qd: list[Scalar]
    states: list[BodyState]
    around: Region

    @classmethod
    def of(
        cls,
        loop: Loop,
        q: Sequence[Scalar],
        qd: Sequence[Scalar],
        qdd: Sequence[Scalar] | None,
        region: Region,
    ) -> LoopMotion:
        """Return the motion at a state of the robot, without accelerations if `qdd` is None."""
        around, rates = loop.region(region), loop.rates(qd)
        accelerations = [0.0] * len(rates) if qdd is None else loop.rates(qdd)
        states = forward_pass(loop.model, loop.positions(q), rates, accelerations, None, around)
        return cls(loop=loop, qd=rates, states=states, around=around)

    @cached_property
    def _descents(self) -> tuple[list[int], list[int]]:
        """Bodies from the fork to the first and to the second frame."""
        model, ends = self.loop.model, (self.loop.contact.body, self.loop.partner.body)
        first, second = (path_to(model, end) for end in ends)
        return first, second

    def carried(self, vector: Vector, up: Sequence[int], down: Sequence[int]) -> Vector:
        """Rotate a vector into another body's axes: up one branch to the fork, down the other."""
        for i in reversed(up):
            with self.around("contact", i + 1):
                vector = self.states[i].X.to_parent(vector)
        for i in down:
            with self.around("contact", i + 1):
                vector = self.states[i].X.to_child(vector)
        return vector

    @cached_property
    def axes(self) -> tuple[tuple[Vector, Vector], ...]:
        """The first frame's axes, each in the coordinates of the first and of the second body."""
        first, second = self._descents
        return tuple(
            (axis, self.carried(axis, first, second)) for axis in self.loop.contact.placement.E
        )

    @cached_property
    def wrenches(self) -> tuple[tuple[Spatial, Spatial], ...]:
        """Unit wrenches on the first and on the second body, for each direction."""
        r, s = self.loop.contact.placement.r, self.loop.partner.placement.r
        angular = [((e, ZERO), (_negative(d), ZERO)) for e, d in self.axes]
        linear = []
        for e, d in self.axes:
            back = _negative(d)
            linear.append(((cross(r, e), e), (cross(s, back), back)))
        return tuple((*angular, *linear) if self.loop.contact.size > 3 else linear)

    @cached_property
    def jacobian(self) -> Rows:
        """Jacobian of the branches: for each direction, the efforts (nv,) of its unit wrenches."""
        model, ends = self.loop.model, (self.loop.contact.body, self.loop.partner.body)
        rows: Rows = []
        for pair in self.wrenches:
            row: list[Scalar] = [0.0] * model.nv
            for body, wrench in zip(ends, pair, strict=True):
                part = jacobian_row(model, body, wrench, self.states, self.around)
                row = [add(a, b) for a, b in zip(row, part, strict=True)]
            rows.append(row)
        return rows

    def _accelerations(self, body: int, r: Vec3) -> tuple[Vector, Vector]:
        """Return a body's angular acceleration and the classical acceleration of its point r."""
        if body < 0:
            return ZERO, ZERO
        motion = self.states[body].motion
        with self.around("contact", body + 1):
            return motion.al, vadd(motion.a, times_constant(motion.B, r))

    @cached_property
    def accelerations(self) -> list[Scalar]:
        """Acceleration of the first frame minus that of the second one, for each direction."""
        first, second = self.loop.contact, self.loop.partner
        al_1, a_1 = self._accelerations(first.body, first.placement.r)
        al_2, a_2 = self._accelerations(second.body, second.placement.r)
        halves = ((al_1, al_2), (a_1, a_2)) if first.size > 3 else ((a_1, a_2),)
        with self.around("contact", max(first.body, second.body) + 1):
            return [
                sub(dot(e, of_first), dot(d, of_second))
                for of_first, of_second in halves
                for e, d in self.axes
            ]

    def acceleration_derivatives(self) -> tuple[Rows, Rows]:
        """Return the position and rate gradients of `accelerations`, (directions, nv) each."""
        model, count = self.loop.model, len(self.wrenches)
        by_q, by_qd = zeros(count, model.nv), zeros(count, model.nv)
        slices, joints = model.v_slices, numbered_axes(model)
        changes = []
        for i, state in enumerate(self.states):
            with self.around("contact", i + 1):
                joint = model.bodies[i].joint
                changes.append(columns(joint, state.motion, state.before, self.qd[slices[i]]))
        ends = (
            (self.loop.contact.body, self.loop.contact.placement.r),
            (self.loop.partner.body, self.loop.partner.placement.r),
        )
        for c, pair in enumerate(self.wrenches):
            for (body, r), wrench in zip(ends, pair, strict=True):
                if body < 0:
                    continue
                with self.around("contact", body + 1):
                    row = acceleration_row(wrench, r, self.states[body].motion.w)
                for i in reversed(path_to(model, body)):
                    parent = model.bodies[i].parent
                    with self.around("contact", i + 1):
                        for (k, _), (change_q, change_qd) in zip(
                            joints[i], changes[i], strict=True
                        ):
                            by_q[c][k] = row.times(change_q)
                            by_qd[c][k] = row.times(change_qd)
                        if parent >= 0:
                            w = self.states[parent].motion.w
                            rates = self.qd[slices[i]]
                            drift = joint_drift(model.bodies[i].joint, self.states[i], w, rates)
                            row = row_to_parent(self.states[i].X, drift, row)
        second = self.loop.partner
        self._add_turns(by_q, self._accelerations(second.body, second.placement.r))
        return by_q, by_qd

    def velocity_derivatives(self) -> Rows:
        """Return the position gradient of J times the rates, at constant rates."""
        model = self.loop.model
        linear: dict[int, Vector] = {-1: ZERO}
        ends = (self.loop.contact.body, self.loop.partner.body)
        for body in ends:
            add_velocities(model, body, self.qd, self.states, linear, self.around)
        by_q: Rows = []
        for pair in self.wrenches:
            parts = [
                velocity_row(model, body, wrench, self.states, linear, self.around)
                for body, wrench in zip(ends, pair, strict=True)
            ]
            by_q.append([add(a, b) for a, b in zip(*parts, strict=True)])
        second, w, v = self.loop.partner, ZERO, ZERO
        if second.body >= 0:
            w = self.states[second.body].motion.w
            with self.around("contact", second.body + 1):
                v = vadd(linear[second.body], cross(w, second.placement.r))
        self._add_turns(by_q, (w, v))
        return by_q

    def _add_turns(self, by_q: Rows, motion: Spatial) -> None:
        """Add to the rows the effect of the first frame's rotation relative to the second body.

        ``motion`` : what the rows hold of the second frame, an angular and a linear vector.
        """
        first, second = self._descents
        if not second:
            return
        joints = numbered_axes(self.loop.model)
        half = 3 if self.loop.contact.size > 3 else 0
        for c in range(len(self.wrenches)):
            _, d = self.axes[c % 3]
            with self.around("contact", second[-1] + 1):
                turn = cross(d, motion[0] if c < half else motion[1])
            moment = turn
            for i in reversed(second):
                with self.around("contact", i + 1):
                    for k, axis in joints[i]:
                        by_q[c][k] = add(by_q[c][k], _turning(axis, moment))
                    moment = self.states[i].X.to_parent(moment)
            for i in first:
                with self.around("contact", i + 1):
                    moment = self.states[i].X.to_child(moment)
                    for k, axis in joints[i]:
                        by_q[c][k] = sub(by_q[c][k], _turning(axis, moment))

    def force_derivatives(self, force: Sequence[Scalar]) -> Rows:
        """Return the position gradient of ``J^T force`` at constant forces (directions,)."""
        model = self.loop.model
        ends = (self.loop.contact.body, self.loop.partner.body)
        wrenches: list[list[Scalar]] = [[0.0] * 6 for _ in model.bodies]
        for pair, component in zip(self.wrenches, force, strict=True):
            for body, wrench in zip(ends, pair, strict=True):
                if body < 0:
                    continue
                with self.around("contact", body + 1):
                    part = [mul(component, x) for half in wrench for x in half]
                    wrenches[body] = [add(a, b) for a, b in zip(wrenches[body], part, strict=True)]
        result = zeros(model.nv)
        joints = numbered_axes(model)
        for path in self._descents:
            carried = _halves(wrenches[path[-1]]) if path else (ZERO, ZERO)
            for place, i in reversed(list(enumerate(path))):
                for j, axis in joints[i]:
                    with self.around("contact", i + 1):
                        change = axis_cross_force(axis, carried)
                    for below, above in zip(path[place:0:-1], path[:place][::-1], strict=True):
                        with self.around("contact", below + 1):
                            change = self.states[below].X.force_to_parent(*change)
                            for k, other in joints[above]:
                                result[k][j] = add(result[k][j], axis_effort(other, change))
                if place:
                    with self.around("contact", i + 1):
                        carried = self.states[i].X.force_to_parent(*carried)
        first, second = self._descents
        if not second:
            return result
        end = self.loop.partner
        moment, push = _halves(wrenches[end.body])
        with self.around("contact", end.body + 1):
            about_origin = vsub(moment, cross(end.placement.r, push))
        for on_first, path in ((True, first), (False, second)):
            for place, i in enumerate(path):
                for j, axis in joints[i]:
                    turn = axis_motion(axis, 1.0)[0]
                    if turn == ZERO:
                        continue
                    if on_first:
                        turn = self.carried(turn, path[: place + 1], second)
                    else:
                        turn = self.carried(turn, [], second[place + 1 :])
                    with self.around("contact", end.body + 1):
                        turned = cross(turn, push)
                        bent = vadd(cross(turn, about_origin), cross(end.placement.r, turned))
                        # A joint of the first branch turns the force; one of the second turns the
                        # body, while the force stays.
                        if not on_first:
                            bent, turned = _negative(bent), _negative(turned)
                    efforts = jacobian_row(
                        model, end.body, (bent, turned), self.states, self.around
                    )
                    for k, effort in enumerate(efforts):
                        result[k][j] = add(result[k][j], effort)
        return result


def _turning(axis: Axis, moment: Vector) -> Scalar:
    """Return the component of a moment along an axis, 0 for a linear axis."""
    return axis_effort(axis, (moment, ZERO))


def _negative(vector: Vector) -> Vector:
    return vsub(ZERO, vector)


def _halves(wrench: Sequence[Scalar]) -> Spatial:
    x, y, z, a, b, c = wrench
    return (x, y, z), (a, b, c)
