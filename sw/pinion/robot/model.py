"""The robot as every later stage sees it: a tree of moving bodies, each behind one joint.

Conventions (Featherstone, "Rigid Body Dynamics Algorithms", 2008): spatial vectors are
``[angular; linear]`` in body coordinates, a transform is the pair ``(E, r)`` with
``Xup = [[E, 0], [-E r^, E]]`` mapping motion vectors from parent to child coordinates, bodies are
numbered so that a parent comes before its children, and the fixed base has the number -1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

Vec3 = tuple[float, float, float]
Mat3 = tuple[Vec3, Vec3, Vec3]


class JointKind(Enum):
    """What a joint does along or about its own z axis (every ``S`` is that unit axis)."""

    REVOLUTE = "revolute"
    PRISMATIC = "prismatic"

    @property
    def nq(self) -> int:
        """Number of position coordinates."""
        return 1

    @property
    def nv(self) -> int:
        """Number of velocity coordinates."""
        return 1

    @property
    def unit(self) -> str:
        """Unit of the joint's position: ``rad`` or ``m``."""
        return "rad" if self is JointKind.REVOLUTE else "m"


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
class Joint:
    """The joint between a body and its parent.

    Members
    -------
    name : the URDF joint's name.
    kind : revolute or prismatic, about or along the z axis of the child frame.
    continuous : a revolute joint without position limits.
    tree : the child frame in the parent frame at ``q = 0``.
    lower, upper : position limits [rad | m], infinite when there are none.
    velocity, effort : limits of rate and force [rad/s | m/s], [N m | N], infinite when not given.
    damping, friction : kept from the URDF; no algorithm uses them unless it says so.
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
    """A robot with a fixed base; the only robot type that later stages see.

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
    rated_velocity : (nv,) speeds of the reference distribution [rad/s | m/s].
    """

    name: str
    source: str
    bodies: tuple[Body, ...]
    gravity: Vec3 = (0.0, 0.0, -9.81)
    base_links: tuple[str, ...] = ()
    frames: tuple[Frame, ...] = ()
    notes: tuple[str, ...] = ()
    rated_velocity: tuple[float, ...] = field(default=())

    @property
    def nq(self) -> int:
        """Number of position coordinates of the whole robot."""
        return sum(body.joint.kind.nq for body in self.bodies)

    @property
    def nv(self) -> int:
        """Number of velocity coordinates of the whole robot."""
        return sum(body.joint.kind.nv for body in self.bodies)

    @property
    def parents(self) -> tuple[int, ...]:
        """Parent of each body, -1 for the base."""
        return tuple(body.parent for body in self.bodies)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joint names, in the order of ``q``."""
        return tuple(body.joint.name for body in self.bodies)
