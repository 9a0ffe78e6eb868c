r"""What joints add to rigid-body dynamics, over any scalar.

    tau = RNEA(q, qd, qdd) + armature qdd                       always
                           + damping qd                         where asked for
                           + friction step(qd / width)          where asked for
                           + stiffness (q - rest)               where asked for

with the figures of :class:`pinion.robot.Joint`, those of a joint with several velocities for each
of them. Armature is a part of the inertia matrix, as in Pinocchio and MuJoCo.

Dry friction opposes motion with one effort whatever the speed, which has no gradient where motion
turns round. Here it grows to its full effort within ``width`` of rest,

    step(x) = x (15 - 10 x^2 + 3 x^4) / 8     for x from -1 to 1, and the sign of x outside,

the polynomial of the lowest degree that meets the constants with two derivatives. Its own is
``15 / 8 (1 - x^2)^2``. Both need a clamp and products alone, so that floats, programs and cores
have the same function.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from pinion.dynamics.checks import DynamicsError, check_mass
from pinion.dynamics.scalar import Scalar, add, clamp, is_zero, mul, sub
from pinion.robot.model import Model

JOINT_TERMS = ("damping", "friction", "stiffness")
"""Terms that come when they are asked for, by the members of a joint that hold their figures."""

FRICTION_WIDTH = 0.05
"""Rate at which dry friction has its full effort, where none is given [rad/s | m/s]."""


@dataclass(frozen=True, kw_only=True)
class JointTerms:
    """Figures for each velocity, (nv,) each: constants of the robot, 0.0 for what is not wanted.

    Members
    -------
    armature : inertia of rotors, seen at the joint [kg m^2 | kg].
    damping : [N m s/rad | N s/m]. friction : [N m | N].
    stiffness, rest : of springs [N m/rad | N/m], and where they give no effort [rad | m].
    places : of each velocity's position in q, -1 where its joint has several.
    width : rate within which friction changes sign [rad/s | m/s]; 0.0 for a jump.
    """

    armature: tuple[float, ...]
    damping: tuple[float, ...]
    friction: tuple[float, ...]
    stiffness: tuple[float, ...]
    rest: tuple[float, ...]
    places: tuple[int, ...]
    width: float

    def acts_on(self, k: int) -> bool:
        """Whether velocity k has any of the terms."""
        figures = (self.armature, self.damping, self.friction, self.stiffness)
        return any(figure[k] != 0.0 for figure in figures)

    def effort(self, k: int, q: Sequence[Scalar], qd: Sequence[Scalar]) -> Scalar:
        """Return what velocity k's joint needs besides inertia: damping, friction and a spring.

        ``q`` (nq,) and ``qd`` (nv,) are those of the whole robot.
        """
        total = mul(self.damping[k], qd[k])
        if self.friction[k] != 0.0:
            total = add(total, self._dry(k, qd[k]))
        if self.stiffness[k] != 0.0:
            stretch = sub(q[self.places[k]], self.rest[k])
            total = add(total, mul(self.stiffness[k], stretch))
        return total

    def slope(self, k: int, qd: Sequence[Scalar]) -> Scalar:
        """Return the derivative of :meth:`effort` by velocity k's rate; by no other has it one.

        By the position it is ``stiffness``. A jump has the derivative zero.
        """
        if self.friction[k] == 0.0 or self.width == 0.0:
            return self.damping[k]
        x = self._clamped(qd[k])
        rest = sub(1.0, mul(x, x))
        full = 15.0 / 8.0 * self.friction[k] / self.width
        return add(self.damping[k], mul(full, mul(rest, rest)))

    def curvature(self, k: int, qd: Sequence[Scalar]) -> Scalar:
        """Return the derivative of :meth:`slope` by velocity k's rate: of its friction alone."""
        if self.friction[k] == 0.0 or self.width == 0.0:
            return 0.0
        x = self._clamped(qd[k])
        full = -15.0 / 2.0 * self.friction[k] / self.width**2
        return mul(full, mul(x, sub(1.0, mul(x, x))))

    def _dry(self, k: int, rate: Scalar) -> Scalar:
        friction = self.friction[k]
        if self.width == 0.0:
            return mul(friction, _sign(rate))
        x = self._clamped(rate)
        square = mul(x, x)
        inner = add(mul(3.0 / 8.0 * friction, square), -10.0 / 8.0 * friction)
        return mul(x, add(mul(square, inner), 15.0 / 8.0 * friction))

    def _clamped(self, rate: Scalar) -> Scalar:
        """Return x of the step. Clamped first, it is never larger than one, whatever the rate."""
        return mul(clamp(rate, -self.width, self.width), 1.0 / self.width)


def _sign(x: Scalar) -> Scalar:
    """Return -1, 0 or 1, of a float or of each of an array."""
    if getattr(x, "apply", None) is not None:
        raise DynamicsError(
            "Dry friction that jumps with the sign of the rate cannot be traced: give a "
            "friction_width above 0."
        )
    return cast("Scalar", np.sign(cast("Any", x)))


def wanted_terms(joint_terms: bool | Sequence[str]) -> tuple[str, ...]:
    """Return the names of the terms asked for, in the order of ``JOINT_TERMS``.

    True asks for all, and so does ``all`` among the names.

    Raises
    ------
    DynamicsError : there is no such term.
    """
    if isinstance(joint_terms, bool):
        return JOINT_TERMS if joint_terms else ()
    names = (joint_terms,) if isinstance(joint_terms, str) else tuple(joint_terms)
    if "all" in names:
        return JOINT_TERMS
    for name in names:
        if name not in JOINT_TERMS:
            what = "in every function without asking" if name == "armature" else "no joint term"
            raise DynamicsError(
                f"{name!r} is {what}: choose joint_terms from {', '.join(JOINT_TERMS)}, or all."
            )
    return tuple(name for name in JOINT_TERMS if name in names)


def joint_terms_of(
    model: Model, joint_terms: bool | Sequence[str] = (), friction_width: float = FRICTION_WIDTH
) -> JointTerms:
    """Return the terms of a model's joints: armature, and those that are asked for.

    Parameters
    ----------
    joint_terms : names of ``JOINT_TERMS``; True for all.
    friction_width : rate within which friction changes sign [rad/s | m/s], 0 for a jump, which has
        no gradient and cannot be traced.

    Raises
    ------
    DynamicsError : no such term, a width below zero or not finite, a joint of several positions
        with a spring, or a robot without any mass: every function of inertia begins here.
    """
    check_mass(model)
    names = wanted_terms(joint_terms)
    if not 0.0 <= friction_width < math.inf:
        raise DynamicsError(
            f"friction_width is {friction_width!r}, pass 0 or a finite rate above it [rad/s | m/s]."
        )
    joints = [body.joint for body in model.bodies for _ in range(body.joint.kind.nv)]
    places: list[int] = []
    for body, at in zip(model.bodies, model.q_slices, strict=True):
        kind = body.joint.kind
        places += [at.start] if kind.nq == 1 else [-1] * kind.nv
        if kind.nq > 1 and body.joint.stiffness != 0.0 and "stiffness" in names:
            raise DynamicsError(
                f"The joint {body.joint.name!r} of {model.name!r} is {kind.value} and has a "
                f"stiffness of {body.joint.stiffness:g}: springs are for joints of one position; "
                "set it to 0."
            )

    def figures(name: str) -> tuple[float, ...]:
        return tuple(float(getattr(joint, name)) if name in names else 0.0 for joint in joints)

    return JointTerms(
        armature=tuple(float(joint.armature) for joint in joints),
        damping=figures("damping"),
        friction=figures("friction"),
        stiffness=figures("stiffness"),
        rest=tuple(float(joint.rest) for joint in joints),
        places=tuple(places),
        width=float(friction_width),
    )


def add_slopes(
    terms: JointTerms,
    dtau_dq: list[list[Scalar]],
    dtau_dqd: list[list[Scalar]],
    k: int,
    qd: Sequence[Scalar],
) -> None:
    """Add velocity k's terms to the diagonals of inverse dynamics' gradient, in place."""
    if terms.stiffness[k] != 0.0:
        dtau_dq[k][k] = add(dtau_dq[k][k], terms.stiffness[k])
    slope = terms.slope(k, qd)
    if not is_zero(slope):
        dtau_dqd[k][k] = add(dtau_dqd[k][k], slope)
