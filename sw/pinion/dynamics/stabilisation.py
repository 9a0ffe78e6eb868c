r"""Baumgarte stabilisation of contacts and loops, for any scalar type.

A constraint on accelerations does not hold positions: integrated, their errors grow. With a gain
k_v of velocities and a gain k_p of positions (Baumgarte, "Stabilization of constraints and
integrals of motion in dynamical systems", 1972),

    J qdd + gamma + k_v v + k_p d = - damping force

where v is the contact's velocity, J qd, and d the offset of its origin from a target, both in the
contact's axes; of a loop, d is that of the first origin from the second one, less the target. A
face has a velocity gain in all six directions and a position gain in the three of its origin: the
rotation between two frames has no expression without branches.

**Gradient.** By the rate, that of v is J. By the position, that of v is of ``J qd`` at constant
rates (:func:`.constraint_derivatives.velocity_derivatives`), and that of d has the rows of J for
the origin and what the turn of the axes does to its components: ``s_j . (e x d)`` for the axis e,
where ``s_j`` is the rate of the turn by joint j.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypedDict

from pinion.robot import Contact, Frame, Model

from .checks import DynamicsError
from .contact_state import Constraints, moving_contacts, turning_rows
from .coupled import coupling_of
from .kinematics import FramePose, body_poses_scalars, path_to, pose_of_frame
from .loops import LoopMotion
from .matrices import Rows, inner, zeros
from .rnea import Region, forward_pass
from .scalar import Scalar, add, mul
from .spatial import Vector, cross, vsub

UNIT_VECTORS: tuple[Vector, ...] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


class Gains(TypedDict, total=False):
    """Stabilisation gains of contacts and loops, in the robot's order.

    Members
    -------
    velocity_gain : (contacts,) scalars [1/s].
    position_gain : (contacts,) scalars [1/s^2].
    target : (contacts, 3) scalars [m]: targets of the contacts' origins, in base axes; for
        loops, the offset of the first origin from the second one, in the first frame's axes. Robots
        that have only loops need none: it is then zero.
    """

    velocity_gain: Sequence[Scalar]
    position_gain: Sequence[Scalar]
    target: Sequence[Sequence[Scalar]]


@dataclass(frozen=True, kw_only=True)
class Stabilisation:
    """Accelerations that return contacts and loops to their targets, at one state.

    Members
    -------
    model : the robot as loaded: the one with fewer operations has its links elsewhere.
    at_state : its contacts.
    q, qd : (nq,) and (nv,) scalars.
    region : as for :func:`.rnea.rnea_scalars`.
    velocity_gain, position_gain : (contacts,) scalars; empty if there are none.
    target : (contacts, 3) scalars.
    """

    model: Model
    at_state: Constraints
    q: Sequence[Scalar]
    qd: Sequence[Scalar]
    region: Region
    velocity_gain: Sequence[Scalar]
    position_gain: Sequence[Scalar]
    target: Sequence[Sequence[Scalar]]

    @classmethod
    def of(
        cls,
        model: Model,
        at_state: Constraints,
        q: Sequence[Scalar],
        qd: Sequence[Scalar],
        region: Region,
        gains: Gains,
    ) -> Self:
        """Return the stabilisation; raise for a position gain without targets, or the reverse."""
        position_gain, target = gains.get("position_gain", ()), gains.get("target", ())
        if position_gain and not target and not at_state.contacts:
            target = zeros(len(position_gain), 3)
        if bool(position_gain) != bool(target):
            present, missing = (
                ("position_gain", "target") if position_gain else ("target", "position_gain")
            )
            raise DynamicsError(
                f"There is a {present} for contacts, but no {missing}: give both or neither."
            )
        return cls(
            model=model,
            at_state=at_state,
            q=q,
            qd=qd,
            region=region,
            velocity_gain=gains.get("velocity_gain", ()),
            position_gain=position_gain,
            target=target,
        )

    @cached_property
    def _distances(self) -> list[Vector]:
        """Offset of each contact from its target, or of a loop's first origin from its second."""
        contacts = moving_contacts(self.model)
        ends: list[Contact | Frame] = [*contacts]
        ends += [contact.partner for contact in contacts if contact.partner is not None]
        bodies = sorted({i for end in ends for i in path_to(self.model, end.body)})
        poses = body_poses_scalars(self.model, self.q, bodies, self.region)

        def pose(end: Contact | Frame) -> FramePose:
            frame = Frame(name=end.name, body=end.body, placement=end.placement)
            return pose_of_frame(frame, poses[end.body])

        distances = []
        for contact, (x, y, z) in zip(contacts, self.target, strict=True):
            with self.region("contact", contact.body + 1):
                place = pose(contact)
                origin = (x, y, z) if contact.partner is None else pose(contact.partner).p
                distances.append(place.from_base(vsub(place.p, origin)))
        return distances

    def added_to(self, accelerations: Sequence[Scalar]) -> list[Scalar]:
        """Return accelerations of contacts (nc,) plus those due to the gains."""
        at_state = self.at_state
        pairs = iter(zip(accelerations, at_state.J, strict=True))
        total: list[Scalar] = []
        for number, contact in enumerate(at_state.contacts_and_loops):
            with self.region("contact", contact.body + 1):
                errors: list[Scalar] = [0.0] * contact.size
                if self.position_gain:
                    x, y, z = self._distances[number]
                    if contact.partner is not None:
                        a, b, c = self.target[number]
                        x, y, z = vsub((x, y, z), (a, b, c))
                    gain = self.position_gain[number]
                    errors[-3:] = [mul(gain, error) for error in (x, y, z)]
                for error in errors:
                    acceleration, row = next(pairs)
                    if self.velocity_gain:
                        moving = mul(self.velocity_gain[number], inner(row, self.qd))
                        acceleration = add(acceleration, moving)
                    total.append(add(acceleration, error))
        return total

    def derivatives(self, of_velocity: Rows) -> tuple[Rows, Rows]:
        """Return the position and rate gradients of the added accelerations, (nc, nv) each.

        ``of_velocity`` : (nc, nv) gradient of ``J qd`` by position at constant rates.
        """
        J, nv = self.at_state.J, self.at_state.plain.nv
        by_q, by_qd = zeros(len(J), nv), zeros(len(J), nv)
        end = 0
        for number, contact in enumerate(self.at_state.contacts_and_loops):
            start, end = end, end + contact.size
            turns = self._turns(number) if self.position_gain else []
            with self.region("contact", contact.body + 1):
                if self.velocity_gain:
                    gain = self.velocity_gain[number]
                    for row in range(start, end):
                        by_q[row] = [mul(gain, x) for x in of_velocity[row]]
                        by_qd[row] = [mul(gain, x) for x in J[row]]
                if not self.position_gain:
                    continue
                gain = self.position_gain[number]
                for axis, row in zip(UNIT_VECTORS, range(end - 3, end), strict=True):
                    about = cross(axis, self._distances[number])
                    for j in range(nv):
                        change = add(J[row][j], inner(about, [turn[j] for turn in turns]))
                        by_q[row][j] = add(by_q[row][j], mul(gain, change))
        return by_q, by_qd

    def _turns(self, number: int) -> Rows:
        """Return the rotational Jacobian (3, nv) of a contact's axes, or a loop's from its fork."""
        at_state, region = self.at_state, self.region
        tree, plain = at_state.tree, at_state.plain
        tied = coupling_of(plain, region) if plain.coupled else None
        q = tied.positions(self.q) if tied else self.q
        still: list[Scalar] = [0.0] * tree.nv
        if number < len(at_state.contacts):
            states = forward_pass(tree, q, still, still, None, region)
            rows = turning_rows(tree, at_state.contacts[number], states, region)
        else:
            loop = at_state.loops[number - len(at_state.contacts)]
            motion = LoopMotion.of(loop, q, still, None, region)
            rows = turning_rows(loop.model, loop.contact, motion.states, motion.around)
            rows = [loop.spread(row, tree.nv) for row in rows]
        return [tied.efforts(row) for row in rows] if tied else rows
