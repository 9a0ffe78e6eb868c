"""The robot as every later stage sees it: a tree of moving bodies, each behind one joint.

Conventions (Featherstone, "Rigid Body Dynamics Algorithms", 2008): spatial vectors are
``[angular; linear]`` in body coordinates, a transform is the pair ``(E, r)`` with
``Xup = [[E, 0], [-E r^, E]]`` mapping motion vectors from parent to child coordinates, bodies are
numbered so that a parent comes before its children, and the fixed base has the number -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import accumulate

from pinion.base.escaping import one_line
from pinion.base.html import html_table

Vec3 = tuple[float, float, float]
Mat3 = tuple[Vec3, Vec3, Vec3]


class JointKind(Enum):
    """What a joint does; an axis is always z of the joint's frame, so that ``S`` is constant.

    Coordinates are Pinocchio's, velocities are in the frame of the body that moves:

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

    A quaternion is that of the rotation from child to parent coordinates and has unit length.
    The free-flyer's own v is [linear; angular] as in Pinocchio, although every spatial vector of
    this package is [angular; linear].
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
        """Unit of the joint's position: ``rad``, ``m``, or both where it turns and shifts."""
        return {"prismatic": "m", "planar": "m, rad", "free_flyer": "m, rad"}.get(self.value, "rad")

    @property
    def simple(self) -> bool:
        """Revolute or prismatic."""
        return self in (JointKind.REVOLUTE, JointKind.PRISMATIC)


@dataclass(frozen=True, kw_only=True)
class Transform:
    """Where a child frame stands in its parent frame.

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
    I: tuple[float, float, float, float, float, float]  # noqa: E741 - the field's name for it


@dataclass(frozen=True, kw_only=True)
class Mimic:
    """A joint's tie to another: ``q = multiplier * q[joint] + offset``.

    Data alone as a robot is loaded, where the joint is one of its own in ``q``; it holds in a
    coupled model (:func:`pinion.robot.coupled`), in which every function is computed.
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
    kind : what it does, about or along the z axis of the child frame (free of it: spherical,
        free-flyer).
    continuous : a revolute joint without position limits.
    tree : the child frame in the parent frame at ``q = 0``.
    lower, upper : position limits [rad | m], infinite when there are none.
    velocity, effort : limits of rate and force [rad/s | m/s], [N m | N], infinite when not given.
    damping : viscous, effort for each unit of rate [N m s/rad | N s/m].
    friction : Coulomb's, the effort that opposes any motion [N m | N].
    armature : rotor inertia reflected to the joint, on M's diagonal [kg m^2 | kg].
    stiffness, rest : a spring's effort for each unit of position [N m/rad | N/m], and the position
        at which it gives none [rad | m]; for joints of one position.
    damping_poly : coefficients of higher orders (b, c) of damping: the effort ``b v |v| + c v^3``
        at the rate v besides.
    stiffness_poly : those of the spring: the effort ``b x^2 + c x^3`` at x from rest besides.
    armature_in_base : a free-flyer's armature acts on its origin's acceleration as the base sees
        it, ``armature (dv + w x v)``, which is MuJoCo's; Pinocchio's acts on dv alone.
    mimic : the joint that this one follows, or None.
    pitch : shift along z for each radian of a helical joint [m/rad], 0 for any other.

    Limits, damping, friction and armature of a joint with several velocities are those of each of
    them. Armature is a part of the inertia matrix everywhere; damping, friction and springs count
    where ``joint_terms`` asks for them (:mod:`pinion.dynamics.joint_terms`). A mimic holds in
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
        """The kind as people are shown it: that of a revolute joint without limits apart."""
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
    """A URDF link's frame: fixed in body ``body`` (-1 for the base) at ``placement``."""

    name: str
    body: int
    placement: Transform


@dataclass(frozen=True, kw_only=True)
class Model:
    """A robot; the only robot type that later stages see.

    The base is fixed; a robot that floats has a free-flyer as its first joint.

    Members
    -------
    name : the robot's name.
    source : the file or the built-in it came from.
    bodies : moving bodies, parents first.
    gravity : (3,) acceleration of gravity, base coordinates [m/s^2].
    base_links : the URDF links merged into the fixed base.
    frames : every URDF link's frame.
    notes : what canonicalisation did, one sentence each (axes turned, joints merged, residues
        snapped).
    rated_velocity : speeds of the reference distribution [rad/s | m/s], one a velocity of each
        joint; of joints that mimic others too, where they are coupled.
    coupled : joints that mimic others follow them and have no coordinates of their own: q, qd, qdd
        and tau are the free joints' (:mod:`.coupling`).
    tips : moving links that nothing hangs on; the one that was asked for, where the robot was cut
        down to the chain to a link. Empty where the source does not say (:func:`.subchain.tip_of`).
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

    def __repr__(self) -> str:
        size = f"{len(self.bodies)} bodies, nq {self.nq}, nv {self.nv}"
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

    @property
    def nq(self) -> int:
        """Number of position coordinates of the whole robot."""
        return sum(body.joint.kind.nq for body in self.bodies if not self.follows(body))

    @property
    def nv(self) -> int:
        """Number of velocity coordinates of the whole robot."""
        return sum(body.joint.kind.nv for body in self.bodies if not self.follows(body))

    def follows(self, body: Body) -> bool:
        """Whether a body's joint has no coordinates, since it follows another."""
        return self.coupled and body.joint.mimic is not None

    @cached_property
    def q_slices(self) -> tuple[slice, ...]:
        """Where each body's joint has its positions in ``q``; nowhere where it follows another."""
        return _slices([0 if self.follows(b) else b.joint.kind.nq for b in self.bodies])

    @cached_property
    def v_slices(self) -> tuple[slice, ...]:
        """Where each body's joint has its velocities in ``qd``, and its efforts in ``tau``; nowhere
        where it follows another.
        """
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


def _slices(widths: Sequence[int]) -> tuple[slice, ...]:
    ends = list(accumulate(widths))
    return tuple(slice(end - width, end) for end, width in zip(ends, widths, strict=True))
