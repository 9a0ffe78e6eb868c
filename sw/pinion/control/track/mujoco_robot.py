"""A robot in MuJoCo with payload, friction and delay unknown to its controller.

The bodies come from the :class:`pinion.robot.Model`, joint by joint, so that without a disturbance
MuJoCo's accelerations equal those of :func:`pinion.dynamics.aba`. Only a robot on the ground
touches anything, with small balls at its contacts.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from pinion.base.arrays import Floats
from pinion.base.installation import install_hint
from pinion.control.errors import ControlError
from pinion.dynamics import neutral_configuration
from pinion.robot import Contact, JointKind, Mat3, Model, contacts_of

from .disturbance import Disturbance
from .motion import end_of


@dataclass(frozen=True, kw_only=True)
class Ground:
    """Ground on which a robot stands with its contacts.

    Members
    -------
    height : of the ground at the origin, in base coordinates [m].
    friction : coefficient of sliding friction.
    radius : of the balls around the contacts' origins [m].
    slope : rise along x and along y [m/m].
    steps : places along x and heights of steps up from level ground [m].
    """

    height: float = 0.0
    friction: float = 0.8
    radius: float = 0.02
    slope: tuple[float, float] = (0.0, 0.0)
    steps: tuple[tuple[float, float], ...] = ()


def levelling(slope: Sequence[float]) -> Floats:
    """Return the quaternion (x, y, z, w) of the shortest turn of a slope's normal to the vertical.

    ``slope`` : rise along x and along y [m/m].
    """
    b, c = slope
    turn = np.array([-c, b, 0.0, 1.0 + math.sqrt(1.0 + b * b + c * c)])
    return np.asarray(turn / np.linalg.norm(turn))


BOX = 40.0
"""Length and width of a step's box [m]."""


class MujocoRobot:
    """A robot simulated by MuJoCo.

    Parameters
    ----------
    model : with revolute and prismatic joints but no mimic joints, on a fixed or floating base; its
        loops are not simulated.
    step : of MuJoCo's integrator [s].
    disturbance : none by default.
    frame : link that carries the payload; by default the floating base, or the link at the robot's
        end.
    ground : on which the model's contacts stand; with None, nothing touches anything.

    Members
    -------
    model, step, disturbance, frame, ground : the arguments.
    floats : whether the base floats.
    compiled, data : MuJoCo's model and state.

    Raises
    ------
    ControlError
        If MuJoCo is not installed or cannot compile the robot, or a joint is of another kind.
    """

    def __init__(
        self,
        model: Model,
        *,
        step: float = 5e-4,
        disturbance: Disturbance | None = None,
        frame: str | None = None,
        ground: Ground | None = None,
    ) -> None:
        if not (np.isfinite(step) and 0.0 < step <= 0.1):
            raise ControlError(f"MuJoCo's step must be above 0 and at most 0.1 s, not {step} s.")
        self.floats = model.bodies[0].joint.kind is JointKind.FREE_FLYER
        for body in model.bodies[1:] if self.floats else model.bodies:
            if model.follows(body) or not body.joint.kind.simple:
                kind = "a mimic joint" if model.follows(body) else body.joint.kind.value
                raise ControlError(
                    f"The joint {body.joint.name!r} of {model.name} is {kind}, but apart from a "
                    "floating base, MujocoRobot supports only independent revolute and prismatic "
                    "joints: lock the joint if it has one coordinate, or choose another robot."
                )
        self.model = model
        self.step = step
        self.disturbance = disturbance or Disturbance()
        self.frame = end_of(model) if frame is None else frame
        self.ground = ground
        self._mujoco = library()
        self.compiled = self._compiled()
        self.data: Any = self._mujoco.MjData(self.compiled)
        self._waiting: deque[Floats] = deque()
        self._steps_late = round(self.disturbance.delay / step)
        # MuJoCo numbers depth first.
        joints_at = [self.compiled.joint(f"joint_{number}") for number in range(len(model.bodies))]
        self._q_at = np.concatenate([at.qposadr[0] + np.arange(len(at.qpos0)) for at in joints_at])
        self._v_at = np.concatenate([at.dofadr[0] + np.arange(len(at.damping)) for at in joints_at])
        self.reset(neutral_configuration(model))

    def reset(self, q: Floats, qd: Floats | None = None) -> None:
        """Set the state; until the delay has passed, efforts cancel gravity and Coriolis forces."""
        self._mujoco.mj_resetData(self.compiled, self.data)
        self.put(self.data, q, np.zeros(self.model.nv) if qd is None else qd)
        self._mujoco.mj_forward(self.compiled, self.data)
        efforts = np.array(self.data.qfrc_bias)
        if self.floats:
            efforts[self._v_at[:6]] = 0.0
        self._waiting = deque([efforts] * self._steps_late)

    @property
    def state(self) -> Floats:
        """Current positions and rates of the model, (nq + nv,)."""
        q, qd = np.array(self.data.qpos[self._q_at]), np.array(self.data.qvel[self._v_at])
        if self.floats:
            q[3:7] = np.roll(q[3:7], -1)
            qd[:3] = self._turned(q).T @ qd[:3]
        return np.concatenate([q, qd])

    @property
    def active(self) -> Floats:
        """Whether each contact touches the ground, 1 or 0; loops, which are open here, are 0."""
        touched = {
            self.compiled.geom(int(geom)).name for pair in self.data.contact.geom for geom in pair
        }
        contacts = contacts_of(self.model)
        names = [None if contact.partner else _ball_of(contact) for contact in contacts]
        return np.array([float(name in touched) for name in names])

    def _turned(self, q: Floats) -> Floats:
        """Return the rotation (3, 3) from floating base to world at the model's positions."""
        rotation = np.empty(9)
        self._mujoco.mju_quat2Mat(rotation, np.roll(q[3:7], 1))
        return rotation.reshape(3, 3)

    def put(self, data: Any, q: Floats, qd: Floats) -> None:
        """Set MuJoCo's state: quaternions begin with w, and linear base velocity is in world axes.

        ``q``, ``qd`` : of the model.
        """
        q, qd = np.array(q, dtype=np.float64), np.array(qd, dtype=np.float64)
        if self.floats:
            qd[:3] = self._turned(q) @ qd[:3]
            q[3:7] = np.roll(q[3:7], 1)
        data.qpos[self._q_at], data.qvel[self._v_at] = q, qd

    def _efforts(self, q: Floats, tau: Floats) -> Floats:
        """Convert the model's efforts, at the model's positions, to MuJoCo's (nv,)."""
        efforts = np.empty(self.model.nv)
        efforts[self._v_at] = tau
        if self.floats:
            linear = self._v_at[:3]
            efforts[linear] = self._turned(q) @ efforts[linear]
        return efforts

    def advance(self, efforts: Floats) -> None:
        """Advance by one step; the efforts (nv,) act after the delay.

        Raises
        ------
        ControlError
            If the simulation diverges: positions, rates or accelerations exceed MuJoCo's limits.
        """
        q = self.state[: self.model.nq] if self.floats else np.zeros(0)
        self._waiting.append(self._efforts(q, efforts))
        self.data.qfrc_applied[:] = self._waiting.popleft()
        begin = self.data.time
        self._mujoco.mj_step(self.compiled, self.data)
        kinds = self._mujoco.mjtWarning
        bad = (kinds.mjWARN_BADQPOS, kinds.mjWARN_BADQVEL, kinds.mjWARN_BADQACC)
        if any(self.data.warning[int(kind)].number for kind in bad):
            raise ControlError(
                f"The simulated {self.model.name} diverged {begin:.4g} s after its start: a "
                "position, rate or acceleration is NaN or above 1e10. Choose smaller gains "
                "or efforts, or a shorter step."
            )

    def push(self, force: Floats) -> None:
        """Set the force (3,) on the base's centre of mass from now on, in world axes [N]."""
        self.data.xfrc_applied[self.compiled.body("body_0").id, :3] = force

    def accelerations(self, q: Floats, qd: Floats, tau: Floats) -> Floats:
        """Return MuJoCo's forward dynamics of one state, (nv,), with dry friction."""
        scratch = self._mujoco.MjData(self.compiled)
        self.put(scratch, q, qd)
        scratch.qfrc_applied[:] = self._efforts(q, tau)
        self._mujoco.mj_forward(self.compiled, scratch)
        qdd = np.array(scratch.qacc[self._v_at])
        if self.floats:
            qdd[:3] = self._turned(q).T @ qdd[:3] - np.cross(qd[3:6], qd[:3])
        return qdd

    def tip(self, q: Floats) -> Floats:
        """Return tip positions (m, 3) [m] at joint positions (m, nq), by MuJoCo's kinematics."""
        scratch = self._mujoco.MjData(self.compiled)
        site = self.compiled.site("tip").id
        places = np.empty((len(q), 3))
        for row, positions in enumerate(q):
            self.put(scratch, positions, np.zeros(self.model.nv))
            self._mujoco.mj_kinematics(self.compiled, scratch)
            places[row] = scratch.site_xpos[site]
        return places

    def _compiled(self) -> Any:
        try:
            return self.spec().compile()
        except ValueError as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise ControlError(f"MuJoCo cannot compile {self.model.name}: {reason}.") from None

    def spec(self) -> Any:
        """Return the robot as a MuJoCo specification, to which pictures add shapes."""
        lib = self._mujoco
        spec = lib.MjSpec()
        spec.modelname = self.model.name
        spec.option.timestep = self.step
        spec.option.gravity = list(self.model.gravity)
        spec.option.integrator = lib.mjtIntegrator.mjINT_IMPLICITFAST
        spec.option.disableflags = int(lib.mjtDisableBit.mjDSBL_LIMIT)
        if self.ground is None:
            spec.option.disableflags |= int(lib.mjtDisableBit.mjDSBL_CONTACT)
        spec_bodies: list[Any] = []
        for number, body in enumerate(self.model.bodies):
            parent = spec.worldbody if body.parent < 0 else spec_bodies[body.parent]
            child = parent.add_body(
                name=f"body_{number}",
                pos=list(body.joint.tree.r),
                quat=quaternion(_transposed(body.joint.tree.E)),
            )
            mass, h = body.inertia.mass, np.array(body.inertia.h)
            child.explicitinertial = True
            child.mass = mass
            if mass > 0.0:
                child.ipos = list(h / mass)
                child.fullinertia = _about_centre(mass, h, body.inertia.I)
            self._add_joint(child, number)
            spec_bodies.append(child)
        self._add_tip(spec, spec_bodies)
        if self.ground is not None:
            self._add_ground(spec, spec_bodies, self.ground)
        return spec

    def _add_ground(self, spec: Any, spec_bodies: list[Any], ground: Ground) -> None:
        geom = self._mujoco.mjtGeom
        # Feet do not creep where they stick.
        spec.option.cone = self._mujoco.mjtCone.mjCONE_ELLIPTIC
        spec.option.impratio = 100.0
        friction = [ground.friction, 0.005, 0.0001]  # MuJoCo's of turning and rolling
        x, y, z, w = levelling(ground.slope)
        touched = {"friction": friction, "contype": 0, "conaffinity": 1}
        spec.worldbody.add_geom(
            name="ground",
            type=geom.mjGEOM_PLANE,
            size=[0.0, 0.0, 1.0],
            pos=[0.0, 0.0, ground.height],
            quat=[w, -x, -y, -z],
            **touched,
        )
        for number, (begin, rise) in enumerate(ground.steps):
            spec.worldbody.add_geom(
                name=f"step_{number}",
                type=geom.mjGEOM_BOX,
                size=[BOX / 2, BOX / 2, rise / 2],
                pos=[begin + BOX / 2, 0.0, ground.height + rise / 2],
                **touched,
            )
        for contact in contacts_of(self.model):
            if contact.partner is None:
                spec_bodies[contact.body].add_geom(
                    name=_ball_of(contact),
                    type=geom.mjGEOM_SPHERE,
                    size=[ground.radius, 0.0, 0.0],
                    pos=list(contact.placement.r),
                    friction=friction,
                    contype=1,
                    conaffinity=0,
                )

    def _add_joint(self, child: Any, number: int) -> None:
        joint, kind = self.model.bodies[number].joint, self._mujoco.mjtJoint
        if joint.kind is JointKind.FREE_FLYER:
            child.add_joint(name=f"joint_{number}", type=kind.mjJNT_FREE)
            return
        child.add_joint(
            name=f"joint_{number}",
            type=kind.mjJNT_HINGE if joint.kind is JointKind.REVOLUTE else kind.mjJNT_SLIDE,
            axis=[0.0, 0.0, 1.0],
            armature=joint.armature + self.disturbance.armature,
            damping=self.disturbance.damping,
            frictionloss=self.disturbance.friction,
        )

    def _add_tip(self, spec: Any, spec_bodies: list[Any]) -> None:
        tip_frame = next((frame for frame in self.model.frames if frame.name == self.frame), None)
        if tip_frame is None:
            raise ControlError(
                f"{self.model.name} has no link '{self.frame}': choose one of "
                f"{', '.join(frame.name for frame in self.model.frames)}."
            )
        carrier = spec.worldbody if tip_frame.body < 0 else spec_bodies[tip_frame.body]
        place = {
            "pos": list(tip_frame.placement.r),
            "quat": quaternion(_transposed(tip_frame.placement.E)),
        }
        carrier.add_site(name="tip", **place)
        if self.disturbance.payload > 0.0:
            load = carrier.add_body(name="payload", **place)
            load.explicitinertial = True
            load.mass = self.disturbance.payload
            load.ipos = list(self.disturbance.offset)
            # A ball of 1 cm radius, since MuJoCo takes no point masses.
            inertia = 0.4 * self.disturbance.payload * 0.01**2
            load.inertia = [inertia, inertia, inertia]


def _ball_of(contact: Contact) -> str:
    """Return the name of the sphere that touches the ground at a contact."""
    return f"contact of {contact.name}"


def library() -> Any:
    """Return the module ``mujoco``, or raise `ControlError` if it is not installed."""
    try:
        return import_module("mujoco")
    except ImportError:
        raise ControlError(
            f"MuJoCo, which simulates the robot, is not installed: {install_hint('mjcf')}."
        ) from None


def quaternion(rotation: Mat3) -> list[float]:
    """Return the quaternion (w, x, y, z) of a rotation from body to parent coordinates.

    Never divides by a small component (S. W. Shepperd, "Quaternion from rotation matrix", 1978).
    """
    (a, b, c), (d, e, f), (g, h, i) = rotation
    squares = (1 + a + e + i, 1 + a - e - i, 1 - a + e - i, 1 - a - e + i)
    largest = max(range(4), key=squares.__getitem__)
    rows = (
        (squares[0], h - f, c - g, d - b),
        (h - f, squares[1], b + d, c + g),
        (c - g, b + d, squares[2], f + h),
        (d - b, c + g, f + h, squares[3]),
    )
    row = rows[largest]
    norm = math.sqrt(sum(x * x for x in row))
    return [x / norm for x in row]


def _about_centre(mass: float, h: Floats, about_origin: tuple[float, ...]) -> list[float]:
    """Return the inertia about the centre of mass in MuJoCo's order, (xx, yy, zz, xy, xz, yz)."""
    xx, xy, xz, yy, yz, zz = about_origin
    x, y, z = h / mass
    return [
        xx - mass * (y * y + z * z),
        yy - mass * (x * x + z * z),
        zz - mass * (x * x + y * y),
        xy + mass * x * y,
        xz + mass * x * z,
        yz + mass * y * z,
    ]


def _transposed(E: Mat3) -> Mat3:
    (a, b, c), (d, e, f), (g, h, i) = E
    return ((a, d, g), (b, e, h), (c, f, i))
