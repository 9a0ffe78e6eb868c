"""A robot in MuJoCo with payload, friction and delay unknown to its controller.

The bodies come from the :class:`pinion.robot.Model`, joint by joint, so that without a disturbance
MuJoCo's accelerations equal those of :func:`pinion.dynamics.aba`. Contacts are off.
"""

from __future__ import annotations

import math
from collections import deque
from importlib import import_module
from typing import Any

import numpy as np

from pinion.base.arrays import Floats
from pinion.base.installation import install_hint
from pinion.control.errors import ControlError
from pinion.robot import JointKind, Mat3, Model, tip_of

from .disturbance import Disturbance


class MujocoRobot:
    """A robot simulated by MuJoCo.

    Parameters
    ----------
    model : of revolute and prismatic joints on a fixed base, without mimic joints.
    step : of MuJoCo's integrator [s].
    disturbance : none by default.
    frame : link that carries the payload; by default the link at the robot's end.

    Members
    -------
    model, step, disturbance, frame : the arguments.
    compiled, data : MuJoCo's model and state.

    Raises
    ------
    ControlError
        If MuJoCo is not installed or refuses the robot, or a joint is of another kind.
    """

    def __init__(
        self,
        model: Model,
        *,
        step: float = 5e-4,
        disturbance: Disturbance | None = None,
        frame: str | None = None,
    ) -> None:
        if not (np.isfinite(step) and 0.0 < step <= 0.1):
            raise ControlError(f"MuJoCo's step must be above 0 and at most 0.1 s, not {step} s.")
        if any(not body.joint.kind.simple or model.follows(body) for body in model.bodies):
            raise ControlError(
                f"{model.name} has joints that are neither revolute nor prismatic, or that mimic "
                "another: the simulated robot takes revolute and prismatic joints only."
            )
        self.model = model
        self.step = step
        self.disturbance = disturbance or Disturbance()
        self.frame = tip_of(model) if frame is None else frame
        self._mujoco = library()
        self.compiled = self._compiled()
        self.data: Any = self._mujoco.MjData(self.compiled)
        self._waiting: deque[Floats] = deque()
        self._steps_late = round(self.disturbance.delay / step)
        self.reset(np.zeros(model.nv))

    def reset(self, q: Floats, qd: Floats | None = None) -> None:
        """Set the state, with the efforts that are still delayed compensating gravity."""
        self._mujoco.mj_resetData(self.compiled, self.data)
        self.data.qpos[:] = q
        self.data.qvel[:] = 0.0 if qd is None else qd
        self._mujoco.mj_forward(self.compiled, self.data)
        efforts = np.array(self.data.qfrc_bias)
        self._waiting = deque([efforts] * self._steps_late)

    @property
    def state(self) -> Floats:
        """Current positions and rates, (2 nv,)."""
        return np.concatenate([self.data.qpos, self.data.qvel])

    def advance(self, efforts: Floats) -> None:
        """Advance by one step; the efforts (nv,) act after the delay.

        Raises
        ------
        ControlError
            If the simulation diverges: positions, rates or accelerations exceed MuJoCo's limits.
        """
        self._waiting.append(np.array(efforts))
        self.data.qfrc_applied[:] = self._waiting.popleft()
        begin = self.data.time
        self._mujoco.mj_step(self.compiled, self.data)
        kinds = self._mujoco.mjtWarning
        bad = (kinds.mjWARN_BADQPOS, kinds.mjWARN_BADQVEL, kinds.mjWARN_BADQACC)
        if any(self.data.warning[int(kind)].number for kind in bad):
            raise ControlError(
                f"The simulated {self.model.name} diverged {begin:.4g} s after its start: a "
                "position, rate or acceleration is not a number below 1e10. Choose smaller gains "
                "or efforts, or a shorter step."
            )

    def accelerations(self, q: Floats, qd: Floats, tau: Floats) -> Floats:
        """Return MuJoCo's forward dynamics of one state, (nv,), with dry friction."""
        scratch = self._mujoco.MjData(self.compiled)
        scratch.qpos[:], scratch.qvel[:], scratch.qfrc_applied[:] = q, qd, tau
        self._mujoco.mj_forward(self.compiled, scratch)
        return np.array(scratch.qacc)

    def tip(self, q: Floats) -> Floats:
        """Return tip positions (m, 3) [m] at joint positions (m, nv), by MuJoCo's kinematics."""
        scratch = self._mujoco.MjData(self.compiled)
        site = self.compiled.site("tip").id
        places = np.empty((len(q), 3))
        for row, positions in enumerate(q):
            scratch.qpos[:] = positions
            self._mujoco.mj_kinematics(self.compiled, scratch)
            places[row] = scratch.site_xpos[site]
        return places

    def _compiled(self) -> Any:
        try:
            return self.spec().compile()
        except ValueError as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise ControlError(f"MuJoCo refuses {self.model.name}: {reason}.") from None

    def spec(self) -> Any:
        """Return the robot as a MuJoCo specification, to which pictures add shapes."""
        lib = self._mujoco
        spec = lib.MjSpec()
        spec.modelname = self.model.name
        spec.option.timestep = self.step
        spec.option.gravity = list(self.model.gravity)
        spec.option.integrator = lib.mjtIntegrator.mjINT_IMPLICITFAST
        spec.option.disableflags = int(lib.mjtDisableBit.mjDSBL_CONTACT) | int(
            lib.mjtDisableBit.mjDSBL_LIMIT
        )
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
        return spec

    def _add_joint(self, child: Any, number: int) -> None:
        joint, kind = self.model.bodies[number].joint, self._mujoco.mjtJoint
        child.add_joint(
            name=f"joint_{number}",
            type=kind.mjJNT_HINGE if joint.kind is JointKind.REVOLUTE else kind.mjJNT_SLIDE,
            axis=[0.0, 0.0, 1.0],
            armature=joint.armature,
            damping=self.disturbance.damping,
            frictionloss=self.disturbance.friction,
        )

    def _add_tip(self, spec: Any, spec_bodies: list[Any]) -> None:
        tip_frame = next((frame for frame in self.model.frames if frame.name == self.frame), None)
        if tip_frame is None:
            raise ControlError(
                f"{self.model.name} has no link '{self.frame}': it has "
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


def library() -> Any:
    """Import MuJoCo, or raise `ControlError` if it is not installed."""
    try:
        return import_module("mujoco")
    except ImportError:
        raise ControlError(
            f"The controlled robot is simulated by MuJoCo: {install_hint('mjcf')}."
        ) from None


def quaternion(rotation: Mat3) -> list[float]:
    """Return (w, x, y, z) of a rotation from body to parent coordinates.

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
