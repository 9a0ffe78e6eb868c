r"""Minimal models: the same dynamics with slid frames, regrouped inertias and scaled lengths.

Many models have the same equations of motion. Three changes of a model leave inverse and forward
dynamics, the inertia matrix and all gradients unchanged, and turn constants of the model into zeros
and ones, which cost no operation:

**Sliding.** A revolute or prismatic joint's frame may be anywhere on its z axis. If two axes
intersect, the frames can share the point of intersection, and the lever between them vanishes.

**Regrouping** (base parameters; Gautier and Khalil 1990, Khalil and Dombre 2002, chapter 9). The
part ``m, h_z, diag(I_yy, I_yy, 0)`` of a body's inertia does not change when the body turns about
its z axis and has no moment about it, so it can belong to the parent. A revolute body keeps
``h_x, h_y, I_xx - I_yy, I_xy, I_xz, I_yz, I_zz``. What reaches the base is dropped. Other joints
pass nothing on: a free-flyer's body keeps what its limbs give it.

**Rescaling.** Angles, rates and torques do not depend on the unit of length: in units of L metres a
lever is ``r / L`` and gravity ``g / L``, and with masses ``m L^2`` and first moments ``h L``
moments of inertia and torques keep their numbers. L is the lever that carries the most joints. The
position of a prismatic joint depends on the unit, so robots with one are not rescaled.

The new model's bodies are not the robot's: link forces, centre of mass, potential energy and frames
are valid for the original model only. The new one has no frames, and its masses may be zero. An
external force acts on it as on the robot if its moment is taken about the new origin and its force
multiplied by L (:mod:`.external`).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pinion.robot import Body, Inertia, Joint, JointKind, Model, Transform, Vec3

from .checks import constant_inertias

Array = NDArray[np.float64]

# Smaller numbers [m, kg m, kg m^2] are rounded zeros.
RESIDUE = 1e-14

# Range of levers usable as a unit of length [m], and relative rounding difference of equal ones.
UNITS = (0.25, 4.0)
SAME = 1e-12


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """An inertia about a frame's origin as arrays.

    Members
    -------
    m : mass [kg].
    h : (3,) first moment of mass [kg m].
    I : (3, 3) rotational inertia about the origin [kg m^2].
    """

    m: float
    h: Array
    I: Array  # noqa: E741 - the symbol in the literature

    def moved(self, d: Array) -> Parameters:
        """Return the inertia about the point ``-d`` [m], so that the old origin is at ``+d``."""
        h = self.h + self.m * d
        h_sum = self.h + h
        change = (d @ h_sum) * np.eye(3) - 0.5 * (np.outer(d, h_sum) + np.outer(h_sum, d))
        return Parameters(m=self.m, h=h, I=self.I + change)

    def turned(self, E: Array) -> Parameters:
        """Return the inertia ``E^T I E`` in the coordinates from which ``E`` (3, 3) transforms."""
        return Parameters(m=self.m, h=E.T @ self.h, I=E.T @ self.I @ E)

    def plus(self, other: Parameters) -> Parameters:
        """Return the sum of two inertias about the same origin."""
        return Parameters(m=self.m + other.m, h=self.h + other.h, I=self.I + other.I)

    def minus(self, other: Parameters) -> Parameters:
        """Return the difference of two inertias about the same origin."""
        return Parameters(m=self.m - other.m, h=self.h - other.h, I=self.I - other.I)


def minimal_model(model: Model, keep: Collection[int] = ()) -> Model:
    """Return a model with the same dynamics and more constants that are zero or one.

    ``q``, ``qd``, ``qdd``, ``tau`` and their order are unchanged. Use it for tracing ``rnea``,
    ``crba``, ``minv``, ``aba``, kinetic energy and the gradients; not for potential energy, frames
    or forces of links. :mod:`.external` converts external forces to its bodies. A robot with
    inertias that are inputs is returned unchanged: :func:`.parametric.parametric_model` makes them
    from its minimal model.
    """
    if not constant_inertias(model):
        return model
    return rescaled_model(regrouped_model(slid_model(model), keep))


def slid_model(model: Model) -> Model:
    """Return the first step of :func:`minimal_model`: frames slid along their joints' axes."""
    slides = slides_of(model)
    bodies: list[Body] = []
    for i, body in enumerate(model.bodies):
        E, r = np.array(body.joint.tree.E), np.array(body.joint.tree.r)
        if body.parent >= 0:
            r = r - slides[body.parent] * np.array([0.0, 0.0, 1.0])
            r = r + slides[i] * E[2]
        else:
            # The base rests: the robot's place on it does not matter.
            r = np.zeros(3)
        moved = parameters(body.inertia).moved(np.array([0.0, 0.0, -slides[i]]))
        bodies.append(rebuilt(body, r, moved))
    note = "Frames slid along their axes: dynamics only."
    return replace(model, bodies=tuple(bodies), frames=(), notes=(*model.notes, note))


def slides_of(model: Model) -> list[float]:
    """Return each body's slide along its joint's axis in :func:`slid_model` [m]."""
    slides: list[float] = []
    for i, body in enumerate(model.bodies):
        if body.parent < 0:
            slides.append(slide_of_root(model, i))
            continue
        E, r = np.array(body.joint.tree.E), np.array(body.joint.tree.r)
        r = r - slides[body.parent] * np.array([0.0, 0.0, 1.0])
        slides.append(-float(E[2] @ r) if body.joint.kind.simple else 0.0)
    return slides


def regrouped_model(model: Model, keep: Collection[int] = ()) -> Model:
    """Return the second step of :func:`minimal_model`: inertias regrouped towards the base.

    ``keep`` : bodies whose inertia stays with them.
    """
    inertias = [parameters(body.inertia) for body in model.bodies]
    for i in reversed(range(len(inertias))):
        body = model.bodies[i]
        if body.joint.kind is JointKind.REVOLUTE and i not in keep:
            inertia = inertias[i]
            round_part = Parameters(
                m=inertia.m,
                h=np.array([0.0, 0.0, inertia.h[2]]),
                I=np.diag([inertia.I[1, 1], inertia.I[1, 1], 0.0]),
            )
            inertias[i] = inertia.minus(round_part)
            if body.parent >= 0:
                tree = body.joint.tree
                carried = round_part.turned(np.array(tree.E)).moved(np.array(tree.r))
                inertias[body.parent] = inertias[body.parent].plus(carried)
    bodies = tuple(
        rebuilt(body, np.array(body.joint.tree.r), inertias[i])
        for i, body in enumerate(model.bodies)
    )
    note = "Inertias regrouped: dynamics only."
    return replace(model, bodies=bodies, frames=(), notes=(*model.notes, note))


def rescaled_model(model: Model) -> Model:
    """Return the last step of :func:`minimal_model`: lengths in a unit that makes levers 1.

    Levers outside :data:`UNITS` are not used: they would move accelerations and forces far from the
    magnitudes that number formats are made for.
    """
    unit = unit_of_length(model)
    if unit == 1.0:
        return model
    bodies: list[Body] = []
    for body in model.bodies:
        r = in_unit(body.joint.tree.r, unit)
        joint: Joint = replace(body.joint, tree=Transform(E=body.joint.tree.E, r=r))
        x, y, z = body.inertia.h
        inertia = replace(
            body.inertia, mass=body.inertia.mass * unit**2, h=(x * unit, y * unit, z * unit)
        )
        bodies.append(replace(body, joint=joint, inertia=inertia))
    note = f"Lengths in units of {unit:g} m: dynamics only."
    return replace(
        model,
        bodies=tuple(bodies),
        gravity=in_unit(model.gravity, unit, snap=False),
        frames=(),
        notes=(*model.notes, note),
    )


def unit_of_length(model: Model) -> float:
    """Return the lever length [m] with the most joints beyond it, 1.0 if none is usable."""
    if not all(body.joint.kind is JointKind.REVOLUTE for body in model.bodies):
        return 1.0
    # Joints that each body carries: its own and its descendants'.
    carried = [1] * len(model.bodies)
    for i in reversed(range(len(model.bodies))):
        parent = model.bodies[i].parent
        if parent >= 0:
            carried[parent] += carried[i]
    sums: dict[float, int] = {}
    for body, count in zip(model.bodies, carried, strict=True):
        for component in map(abs, body.joint.tree.r):
            if UNITS[0] <= component <= UNITS[1]:
                length = next((x for x in sums if abs(x - component) <= SAME * x), component)
                sums[length] = sums.get(length, 0) + count
    return max(sums, key=lambda unit: sums[unit], default=1.0)


def in_unit(v: Vec3, unit: float, *, snap: bool = True) -> Vec3:
    """Return a vector of lengths in a unit, with nearly unit components set to one."""
    x, y, z = (component / unit for component in v)
    if not snap:
        return x, y, z
    x, y, z = (
        math.copysign(1.0, component) if abs(abs(component) - 1.0) <= SAME else component
        for component in (x, y, z)
    )
    return x, y, z


def slide_of_root(model: Model, i: int) -> float:
    """Return the slide [m] of a root joint's frame along its axis, to its first child's height."""
    if not model.bodies[i].joint.kind.simple:
        return 0.0
    children = [body for body in model.bodies if body.parent == i]
    return children[0].joint.tree.r[2] if children else 0.0


def parameters(inertia: Inertia) -> Parameters:
    """Return a body's inertia as arrays."""
    xx, xy, xz, yy, yz, zz = inertia.I
    full = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return Parameters(m=inertia.mass, h=np.array(inertia.h), I=full)


def rebuilt(body: Body, lever: Array, figures: Parameters) -> Body:
    """Return a body with a new lever and a new inertia, rounding residues set to zero."""
    I = figures.I  # noqa: E741 - the symbol in the literature
    inertia = Inertia(
        mass=snapped(figures.m),
        h=snapped_vector(figures.h),
        I=(
            snapped(I[0, 0]),
            snapped(I[0, 1]),
            snapped(I[0, 2]),
            snapped(I[1, 1]),
            snapped(I[1, 2]),
            snapped(I[2, 2]),
        ),
    )
    joint: Joint = replace(body.joint, tree=Transform(E=body.joint.tree.E, r=snapped_vector(lever)))
    return replace(body, joint=joint, inertia=inertia)


def snapped_vector(a: Array) -> Vec3:
    """Return three numbers as a tuple of floats, rounding residues set to zero."""
    return snapped(a[0]), snapped(a[1]), snapped(a[2])


def snapped(x: float) -> float:
    """Return a number as a Python float, 0.0 if it is a rounding residue."""
    return 0.0 if abs(x) < RESIDUE else float(x)
