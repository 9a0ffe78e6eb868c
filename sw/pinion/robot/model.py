"""The robot model: a tree of moving bodies, each connected to its parent by one joint.

Conventions (Featherstone, "Rigid Body Dynamics Algorithms", 2008): spatial vectors are
``[angular; linear]`` in body coordinates, a transform is the pair ``(E, r)`` with
``Xup = [[E, 0], [-E r^, E]]`` mapping motion vectors from parent to child coordinates, bodies are
numbered so that a parent comes before its children, and the fixed base has the number -1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import accumulate
from typing import Any

from pinion.base.escaping import one_line
from pinion.base.html import html_table

Vec3 = tuple[float, float, float]
Mat3 = tuple[Vec3, Vec3, Vec3]


class JointKind(Enum):
    """Type of a joint; an axis is always z of the joint's frame, so that ``S`` is constant.

    Coordinates are Pinocchio's, velocities are in the moving body's frame:

    =========== ======================================= ===================================
    kind        q                                       v
    =========== ======================================= ===================================
    REVOLUTE    angle about z                           its rate
    PRISMATIC   shift along z                           its rate
    HELICAL     angle about z, shift ``pitch`` times it rate of the angle
    SPHERICAL   quaternion (x, y, z, w)                 angular velocity
    PLANAR      x, y, cos, sin of the angle about z     (v_x, v_y, w_z)
    FREE_FLYER  position, quaternion (x, y, z, w)       (linear, angular): 3 and 3
    =========== ======================================= ===================================

    A quaternion is a unit one and rotates child to parent coordinates. The free-flyer's v is
    [linear; angular] as in Pinocchio, although every spatial vector of this package is
    [angular; linear].
    """

    REVOLUTE = "revolute"
    PRISMATIC = "prismatic"
    HELICAL = "helical"
    SPHERICAL = "spherical"
    PLANAR = "planar"
    FREE_FLYER = "free_flyer"

    @property
    def nq(self) -> int:
        """Number of position coordinates."""
        return {"spherical": 4, "planar": 4, "free_flyer": 7}.get(self.value, 1)

    @property
    def nv(self) -> int:
        """Number of velocity coordinates."""
        return {"spherical": 3, "planar": 3, "free_flyer": 6}.get(self.value, 1)

    @property
    def unit(self) -> str:
        """Unit of the joint's position: ``rad``, ``m``, or both if it rotates and translates."""
        return {"prismatic": "m", "planar": "m, rad", "free_flyer": "m, rad"}.get(self.value, "rad")

    @property
    def simple(self) -> bool:
        """Whether the joint is revolute or prismatic."""
        return self in (JointKind.REVOLUTE, JointKind.PRISMATIC)


@dataclass(frozen=True, kw_only=True)
class Transform:
    """Pose of a child frame in its parent frame.

    Members
    -------
    E : (3, 3) rotation, parent coordinates to child coordinates (the transpose of URDF's rotation).
    r : (3,) origin of the child frame, parent coordinates [m].
    """

    E: Mat3
    r: Vec3


@dataclass(frozen=True, kw_only=True)
class Inertia:
    """Rigid-body inertia about the origin of the body's frame, in body coordinates.

    Members
    -------
    mass : [kg].
    h : (3,) first moment of mass, mass times centre of mass [kg m].
    I : (xx, xy, xz, yy, yz, zz) rotational inertia about the frame's *origin* [kg m^2].
    """

    mass: float
    h: Vec3
    I: tuple[float, float, float, float, float, float]  # noqa: E741 - the symbol in the literature


@dataclass(frozen=True, kw_only=True)
class Mimic:
    """Coupling of a joint to another: ``q = multiplier * q[joint] + offset``.

    A loaded robot only records it, and the joint has its own entry in ``q``; it takes effect in a
    coupled model (:func:`pinion.robot.coupled`), for which every function is computed.
    """

    joint: str
    multiplier: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Joint:
    """The joint between a body and its parent.

    Members
    -------
    name : the URDF joint's name.
    kind : its type; the motion is about or along the z axis of the child frame, except for
        spherical joints and free-flyers.
    continuous : a revolute joint without position limits.
    tree : the child frame in the parent frame at ``q = 0``.
    lower, upper : position limits [rad | m], infinite if there are none.
    velocity, effort : limits of rate and force [rad/s | m/s], [N m | N], infinite if not stated.
    damping : viscous damping, effort per unit of rate [N m s/rad | N s/m].
    friction : Coulomb friction, the effort that opposes any motion [N m | N].
    armature : rotor inertia reflected to the joint, on M's diagonal [kg m^2 | kg].
    stiffness, rest : a spring's effort per unit of position [N m/rad | N/m], and its position of
        zero effort [rad | m]; for joints with one position.
    damping_poly : higher-order damping coefficients (b, c): an additional effort
        ``b v |v| + c v^3`` at the rate v.
    stiffness_poly : the same for the spring: an additional effort ``b x^2 + c x^3`` at x from rest.
    armature_in_base : a free-flyer's armature acts on its origin's acceleration as the base sees
        it, ``armature (dv + w x v)``, as in MuJoCo; in Pinocchio it acts on dv alone.
    mimic : the joint that this one follows, or None.
    pitch : shift along z for each radian of a helical joint [m/rad], 0 for any other.

    Limits, damping, friction and armature of a joint with several velocities apply to each of them.
    Armature is always part of the inertia matrix; damping, friction and springs count only if
    ``joint_terms`` selects them (:mod:`pinion.dynamics.joint_terms`). A mimic takes effect in
    coupled models.
    """

    name: str
    kind: JointKind
    continuous: bool
    tree: Transform
    lower: float
    upper: float
    velocity: float
    effort: float
    damping: float = 0.0
    friction: float = 0.0
    armature: float = 0.0
    mimic: Mimic | None = None
    pitch: float = 0.0
    stiffness: float = 0.0
    rest: float = 0.0
    damping_poly: tuple[float, float] = (0.0, 0.0)
    stiffness_poly: tuple[float, float] = (0.0, 0.0)
    armature_in_base: bool = False

    @property
    def shown_kind(self) -> str:
        """Name of the joint's kind for display, "continuous" if revolute without limits."""
        return "continuous" if self.continuous else self.kind.value


@dataclass(frozen=True, kw_only=True)
class Body:
    """A moving body: its joint, its parent's number (-1 for the base), its inertia.

    ``links`` names the URDF links that were merged into it, the moving link first.
    """

    name: str
    parent: int
    joint: Joint
    inertia: Inertia
    links: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A link's frame: fixed in body ``body`` (-1 for the base) at ``placement``."""

    name: str
    body: int
    placement: Transform


@dataclass(frozen=True, kw_only=True)
class Model:
    """A robot as a tree of moving bodies on a fixed base.

    A floating robot has a free-flyer as its first joint. All later stages use only this type.

    Members
    -------
    name : the robot's name.
    source : the file or the built-in robot it was read from.
    bodies : moving bodies, parents first.
    gravity : (3,) acceleration of gravity, base coordinates [m/s^2].
    base_links : the URDF links merged into the fixed base.
    frames : every URDF link's frame.
    notes : what canonicalisation did, one sentence each (axes turned, joints merged, residues
        snapped).
    rated_velocity : speeds of the reference distribution [rad/s | m/s], one for each velocity of
        each joint, coupled mimic joints included.
    coupled : mimic joints follow their leaders and have no coordinates: q, qd, qdd and tau are
        those of the independent joints (:mod:`.coupling`).
    tips : moving links without children; the requested link if the robot was cut down to a chain.
        Empty if the source does not say (:func:`.subchain.tip_of`).
    fixed_joints : names of fixed and locked joints, each with the link whose frame it places.
    contacts : frames that may be in contact with the world, each with ``:3d`` or ``:6d``
        (:mod:`.contacts`).
    loops : for each loop the names of two frames that hold each other, and ``3d`` or ``6d``
        (:mod:`.contacts`).
    """

    name: str
    source: str
    bodies: tuple[Body, ...]
    gravity: Vec3 = (0.0, 0.0, -9.81)
    base_links: tuple[str, ...] = ()
    frames: tuple[Frame, ...] = ()
    notes: tuple[str, ...] = ()
    rated_velocity: tuple[float, ...] = field(default=())
    coupled: bool = False
    tips: tuple[str, ...] = ()
    fixed_joints: tuple[tuple[str, str], ...] = ()
    contacts: tuple[str, ...] = ()
    loops: tuple[tuple[str, str, str], ...] = ()

    def __repr__(self) -> str:
        count = len(self.bodies)
        size = f"{count} {'body' if count == 1 else 'bodies'}, nq {self.nq}, nv {self.nv}"
        return f"<Model {one_line(self.name)!a}: {size}>"

    def _repr_html_(self) -> str:
        rows = [
            (
                number,
                body.joint.name,
                body.joint.shown_kind,
                "base" if body.parent < 0 else self.bodies[body.parent].name,
                body.name,
                f"{body.inertia.mass:.4g}",
            )
            for number, body in enumerate(self.bodies)
        ]
        return html_table(
            f"{self.name}: nq {self.nq}, nv {self.nv}",
            rows,
            heads=("", "joint", "kind", "on", "body", "mass [kg]"),
            note=self.source,
        )

    @cached_property
    def nq(self) -> int:
        """Number of position coordinates of the whole robot."""
        return sum(body.joint.kind.nq for body in self.bodies if not self.follows(body))

    @cached_property
    def nv(self) -> int:
        """Number of velocity coordinates of the whole robot."""
        return sum(body.joint.kind.nv for body in self.bodies if not self.follows(body))

    def follows(self, body: Body) -> bool:
        """Return whether a body's joint follows another and so has no coordinates."""
        return self.coupled and body.joint.mimic is not None

    @cached_property
    def q_slices(self) -> tuple[slice, ...]:
        """Slice of each body's joint in ``q``; empty if it follows another."""
        return _slices([0 if self.follows(b) else b.joint.kind.nq for b in self.bodies])

    @cached_property
    def v_slices(self) -> tuple[slice, ...]:
        """Slice of each body's joint in ``qd`` and ``tau``; empty if it follows another."""
        return _slices([0 if self.follows(b) else b.joint.kind.nv for b in self.bodies])

    @property
    def single_dof(self) -> bool:
        """Whether every joint is revolute or prismatic."""
        return all(body.joint.kind.simple for body in self.bodies)

    @property
    def parents(self) -> tuple[int, ...]:
        """Parent of each body, -1 for the base."""
        return tuple(body.parent for body in self.bodies)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joint names, in the order of ``q``."""
        return tuple(body.joint.name for body in self.bodies)


def vec3(values: Iterable[Any]) -> Vec3:
    """Return three numbers as a tuple of floats."""
    x, y, z = map(float, values)
    return (x, y, z)


def _slices(widths: Sequence[int]) -> tuple[slice, ...]:
    ends = list(accumulate(widths))
    return tuple(slice(end - width, end) for end, width in zip(ends, widths, strict=True))
