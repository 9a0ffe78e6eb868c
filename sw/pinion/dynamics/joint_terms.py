r"""Joint terms in addition to rigid-body dynamics, for any scalar type.

    tau = RNEA(q, qd, qdd) + armature qdd                       always
                           + armature (w x v)                   of a free-flyer, in MJCF files
                           + a qd + b qd |qd| + c qd^3          damping, if selected
                           + friction step(qd / width)          if selected
                           + k x + l x^2 + m x^3, x = q - rest  stiffness, if selected

with the figures of :class:`pinion.robot.Joint`, which apply to each velocity of a joint. Armature
is part of the inertia matrix, as in Pinocchio and MuJoCo. Higher-order coefficients, which only
MJCF files have, are MuJoCo's: damping is odd in the rate, a spring's square term pushes one way.

Dry friction opposes motion with the same effort at any speed, so it has no gradient where motion
reverses. Here it grows to its full effort within ``width`` of rest,

    step(x) = x (15 - 10 x^2 + 3 x^4) / 8     for x from -1 to 1, and the sign of x outside,

the polynomial of lowest degree that joins the constants with two continuous derivatives. Its
derivative is ``15 / 8 (1 - x^2)^2``. Both need only a clamp and products, so that floats, programs
and cores have the same function.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from pinion.robot import JointKind, Model

from .checks import DynamicsError, check_mass
from .scalar import Scalar, absolute, add, clamp, is_zero, less, mul, select, sub

JOINT_TERMS = ("damping", "friction", "stiffness")
"""Optional terms, named after the members of a joint."""

FRICTION_WIDTH = 0.05
"""Default rate at which dry friction reaches its full effort [rad/s | m/s]."""


@dataclass(frozen=True, kw_only=True)
class JointTerms:
    """Coefficients of the joint terms for each velocity, (nv,) each, 0.0 if not selected.

    They are constants of the robot, or scalars if they are inputs (:mod:`.parametric`).

    Members
    -------
    armature : inertia of rotors, reflected to the joint [kg m^2 | kg].
    damping : [N m s/rad | N s/m]. friction : [N m | N].
    damping_poly, stiffness_poly : (nv, 2) coefficients of second and third order.
    stiffness, rest : of springs [N m/rad | N/m], and their positions of zero effort [rad | m].
    turning : for each linear velocity of a free-flyer whose armature acts in base axes, the index
        of its first velocity; -1 for any other.
    places : index of each velocity's position in q, -1 if its joint has several.
    width : rate within which friction changes sign [rad/s | m/s]; 0.0 for a jump.
    """

    armature: tuple[Scalar, ...]
    damping: tuple[Scalar, ...]
    friction: tuple[Scalar, ...]
    stiffness: tuple[Scalar, ...]
    rest: tuple[float, ...]
    places: tuple[int, ...]
    width: float
    damping_poly: tuple[tuple[float, float], ...]
    stiffness_poly: tuple[tuple[float, float], ...]
    turning: tuple[int, ...]

    def acts_on(self, k: int) -> bool:
        """Return whether velocity k has any of the terms."""
        figures = (self.armature, self.damping, self.friction, self.stiffness)
        polynomials = (*self.damping_poly[k], *self.stiffness_poly[k])
        return not all(is_zero(figure[k]) for figure in figures) or any(polynomials)

    def springs(self, k: int) -> bool:
        """Return whether velocity k has a spring."""
        return not is_zero(self.stiffness[k]) or any(self.stiffness_poly[k])

    def effort(self, k: int, q: Sequence[Scalar], qd: Sequence[Scalar]) -> Scalar:
        """Return the effort of velocity k's terms, except ``armature qdd``.

        ``q`` (nq,) and ``qd`` (nv,) are the robot's.
        """
        total = mul(qd[k], self._drag(k, qd[k]))
        if (start := self.turning[k]) >= 0:
            (wa, wb), (va, vb) = _across(k, start, qd)
            total = add(total, mul(self.armature[k], sub(mul(wa, vb), mul(wb, va))))
        if not is_zero(self.friction[k]):
            total = add(total, self._dry(k, qd[k]))
        if self.springs(k):
            x = sub(q[self.places[k]], self.rest[k])
            square, cube = self.stiffness_poly[k]
            rate: Scalar = self.stiffness[k]
            if square or cube:
                rate = add(mul(x, add(mul(cube, x), square)), rate)
            total = add(total, mul(rate, x))
        return total

    def slope(self, k: int, qd: Sequence[Scalar]) -> Scalar:
        """Return the derivative of :meth:`effort` with respect to velocity k; 0 at a jump.

        :meth:`across` has the derivatives with respect to other rates.
        """
        damping: Scalar = self.damping[k]
        if any(self.damping_poly[k]):
            square, cube = self.damping_poly[k]
            v = absolute(qd[k])
            damping = add(mul(v, add(mul(3.0 * cube, v), 2.0 * square)), damping)
        if is_zero(self.friction[k]) or self.width == 0.0:
            return damping
        x = self._clamped(qd[k])
        falloff = sub(1.0, mul(x, x))
        friction: Any = self.friction[k]
        full = 15.0 / 8.0 * friction / self.width
        return add(damping, mul(full, mul(falloff, falloff)))

    def across(self, k: int, qd: Sequence[Scalar]) -> dict[int, Scalar]:
        """Return the derivatives of :meth:`effort` with respect to other velocities, by index."""
        start = self.turning[k]
        if start < 0:
            return {}
        (wa, wb), (va, vb) = _across(k, start, qd)
        a, b = ((k - start + shift) % 3 + start for shift in (1, 2))
        m = self.armature[k]
        return {b: mul(m, wa), a: mul(-m, wb), a + 3: mul(m, vb), b + 3: mul(-m, va)}

    def rise(self, k: int, q: Sequence[Scalar]) -> Scalar:
        """Return the derivative of :meth:`effort` with respect to position k, from its spring."""
        square, cube = self.stiffness_poly[k]
        if not (square or cube):
            return self.stiffness[k]
        x = sub(q[self.places[k]], self.rest[k])
        return add(mul(x, add(mul(3.0 * cube, x), 2.0 * square)), self.stiffness[k])

    def curvature(self, k: int, qd: Sequence[Scalar]) -> Scalar:
        """Return the derivative of :meth:`slope` with respect to velocity k.

        With second-order damping it jumps at zero rate, where the value for positive rates is used.
        """
        total: Scalar = 0.0
        if any(self.damping_poly[k]):
            square, cube = self.damping_poly[k]
            total = mul(6.0 * cube, qd[k])
            if square != 0.0:
                jump = select(less(qd[k], 0.0), -2.0 * square, 2.0 * square)
                total = add(total, jump)
        if is_zero(self.friction[k]) or self.width == 0.0:
            return total
        x = self._clamped(qd[k])
        friction: Any = self.friction[k]
        full = -15.0 / 2.0 * friction / self.width**2
        return add(total, mul(full, mul(x, sub(1.0, mul(x, x)))))

    def bend(self, k: int, q: Sequence[Scalar]) -> Scalar:
        """Return the derivative of :meth:`rise` with respect to position k."""
        square, cube = self.stiffness_poly[k]
        if not (square or cube):
            return 0.0
        x = sub(q[self.places[k]], self.rest[k])
        return add(mul(6.0 * cube, x), 2.0 * square)

    def _drag(self, k: int, rate: Scalar) -> Scalar:
        """Return the damping effort divided by the rate."""
        square, cube = self.damping_poly[k]
        if not (square or cube):
            return self.damping[k]
        v = absolute(rate)
        return add(mul(v, add(mul(cube, v), square)), self.damping[k])

    def _dry(self, k: int, rate: Scalar) -> Scalar:
        friction = self.friction[k]
        if self.width == 0.0:
            return mul(friction, _sign(rate))
        x = self._clamped(rate)
        square = mul(x, x)
        inner = add(mul(mul(3.0 / 8.0, friction), square), mul(-10.0 / 8.0, friction))
        return mul(x, add(mul(square, inner), mul(15.0 / 8.0, friction)))

    def _clamped(self, rate: Scalar) -> Scalar:
        """Return the rate divided by the friction width, clamped to the range from -1 to 1."""
        return mul(clamp(rate, -self.width, self.width), 1.0 / self.width)


def _across(k: int, start: int, qd: Sequence[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
    """Return a free-flyer's angular and linear rates along the two axes that follow k's."""
    axes = [(k - start + shift) % 3 for shift in (1, 2)]
    return [qd[start + 3 + x] for x in axes], [qd[start + x] for x in axes]


def _sign(x: Scalar) -> Scalar:
    """Return the sign, -1, 0 or 1, of a float or an array."""
    if getattr(x, "apply", None) is not None:
        raise DynamicsError(
            "Dry friction with a friction_width of 0 jumps at zero rate and cannot be traced: give "
            "a positive friction_width."
        )
    return cast("Scalar", np.sign(cast("Any", x)))


def wanted_terms(joint_terms: bool | Sequence[str]) -> tuple[str, ...]:
    """Return the names of the selected terms, in the order of ``JOINT_TERMS``.

    True, or ``all`` among the names, selects all.

    Raises
    ------
    DynamicsError : unknown term.
    """
    if isinstance(joint_terms, bool):
        return JOINT_TERMS if joint_terms else ()
    names = (joint_terms,) if isinstance(joint_terms, str) else tuple(joint_terms)
    if "all" in names:
        return JOINT_TERMS
    for name in names:
        if name not in JOINT_TERMS:
            reason = "always included" if name == "armature" else "not a joint term"
            raise DynamicsError(
                f"{name!r} is {reason}: choose joint_terms from {', '.join(JOINT_TERMS)}, or all."
            )
    return tuple(name for name in JOINT_TERMS if name in names)


def joint_terms_of(
    model: Model, joint_terms: bool | Sequence[str] = (), friction_width: float = FRICTION_WIDTH
) -> JointTerms:
    """Return the terms of a model's joints: armature, and the selected ones.

    Parameters
    ----------
    joint_terms : names of ``JOINT_TERMS``; True for all.
    friction_width : rate within which friction changes sign [rad/s | m/s], 0 for a jump, which has
        no gradient and cannot be traced.

    Raises
    ------
    DynamicsError : unknown term, a width that is negative or not finite, a joint of several
        positions with a spring, or a robot without mass, as every function of inertia comes here.
    """
    check_mass(model)
    names = wanted_terms(joint_terms)
    if not 0.0 <= friction_width < math.inf:
        raise DynamicsError(
            f"friction_width is {friction_width!r}: pass 0 or a finite positive rate [rad/s | m/s]."
        )
    joints = [body.joint for body in model.bodies for _ in range(body.joint.kind.nv)]
    places: list[int] = []
    turning: list[int] = []
    for body, at in zip(model.bodies, model.q_slices, strict=True):
        kind, start = body.joint.kind, len(turning)
        linear = kind is JointKind.FREE_FLYER and body.joint.armature_in_base
        turning += [start] * 3 + [-1] * 3 if linear else [-1] * kind.nv
        places += [at.start] if kind.nq == 1 else [-1] * kind.nv
        spring = not is_zero(body.joint.stiffness) or any(body.joint.stiffness_poly)
        if kind.nq > 1 and spring and "stiffness" in names:
            raise DynamicsError(
                f"The joint {body.joint.name!r} of {model.name!r} is {kind.value} and "
                "has a spring, which only joints with one position can have: set every coefficient "
                "of its stiffness to 0, or omit 'stiffness' from joint_terms (--joint-terms)."
            )

    def figures(name: str, names: Collection[str] = names) -> tuple[Scalar, ...]:
        values = [getattr(joint, name) if name in names else 0.0 for joint in joints]
        return tuple(float(x) if isinstance(x, int) else x for x in values)

    def polynomials(name: str) -> tuple[tuple[float, float], ...]:
        none = (0.0, 0.0)
        return tuple(getattr(j, f"{name}_poly") if name in names else none for j in joints)

    return JointTerms(
        armature=figures("armature", names=("armature",)),
        damping=figures("damping"),
        friction=figures("friction"),
        stiffness=figures("stiffness"),
        rest=tuple(float(joint.rest) for joint in joints),
        places=tuple(places),
        width=float(friction_width),
        turning=tuple(turning),
        damping_poly=polynomials("damping"),
        stiffness_poly=polynomials("stiffness"),
    )


def add_slopes(
    terms: JointTerms,
    dtau_dq: list[list[Scalar]],
    dtau_dqd: list[list[Scalar]],
    k: int,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
) -> None:
    """Add the gradient of velocity k's terms to that of inverse dynamics, in place."""
    if terms.springs(k):
        dtau_dq[k][k] = add(dtau_dq[k][k], terms.rise(k, q))
    slope = terms.slope(k, qd)
    if not is_zero(slope):
        dtau_dqd[k][k] = add(dtau_dqd[k][k], slope)
    for m, other in terms.across(k, qd).items():
        dtau_dqd[k][m] = add(dtau_dqd[k][m], other)
