"""MuJoCo's results for a file, in the coordinates of a model of the same file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.robot import Model, load
from pinion.robot.model import JointKind

Array = NDArray[np.float64]


@dataclass
class MujocoRobot:
    """A compiled file and the model of it.

    Quaternions are (w, x, y, z) in MuJoCo; linear velocities of a free joint are in world axes
    there and in body axes here, so that their rates differ by ``w x v``.
    """

    compiled: Any
    model: Model

    def __post_init__(self) -> None:
        import mujoco

        self.mujoco = mujoco
        self.data = mujoco.MjData(self.compiled)

    def place(self, q: Array, qd: Array | None = None, qdd: Array | None = None) -> None:
        """Set MuJoCo's state from the model's positions, rates and accelerations."""
        qd, qdd = (np.zeros(self.model.nv) if x is None else x for x in (qd, qdd))
        T = self.turn(q)
        acceleration = qdd.copy()
        for s in self._free():
            acceleration[s : s + 3] += np.cross(qd[s + 3 : s + 6], qd[s : s + 3])
        self.data.qpos[:] = self.positions(q)
        self.data.qvel[:], self.data.qacc[:] = T @ qd, T @ acceleration

    def positions(self, q: Array) -> Array:
        qpos = np.array(q)
        for body, at in zip(self.model.bodies, self.model.q_slices, strict=True):
            if body.joint.kind in (JointKind.SPHERICAL, JointKind.FREE_FLYER):
                x, y, z, w = q[at.stop - 4 : at.stop]
                qpos[at.stop - 4 : at.stop] = w, x, y, z
        return qpos

    def turn(self, q: Array) -> Array:
        """Return the (nv, nv) matrix from the model's rates to MuJoCo's."""
        T = np.eye(self.model.nv)
        for body, at, s in zip(
            self.model.bodies, self.model.q_slices, self.model.v_slices, strict=True
        ):
            if body.joint.kind is JointKind.FREE_FLYER:
                R = np.zeros(9)
                x, y, z, w = q[at.stop - 4 : at.stop]
                self.mujoco.mju_quat2Mat(R, np.array([w, x, y, z]))
                T[s.start : s.start + 3, s.start : s.start + 3] = R.reshape(3, 3)
        return T

    def inverse(self, q: Array, qd: Array, qdd: Array) -> Array:
        """Return tau (nv,) by ``mj_inverse``."""
        self.place(q, qd, qdd)
        self.mujoco.mj_inverse(self.compiled, self.data)
        return np.asarray(self.turn(q).T @ self.data.qfrc_inverse)

    def forward(self, q: Array, qd: Array, tau: Array) -> Array:
        """Return qdd (nv,) by ``mj_forward``."""
        self.place(q, qd)
        T = self.turn(q)
        self.data.qfrc_applied[:] = T @ tau
        self.mujoco.mj_forward(self.compiled, self.data)
        qdd = np.asarray(T.T @ self.data.qacc)
        for s in self._free():
            qdd[s : s + 3] -= np.cross(qd[s + 3 : s + 6], qd[s : s + 3])
        return qdd

    def inertia(self, q: Array) -> Array:
        """Return M (nv, nv) by ``mj_fullM``."""
        self.place(q)
        self.mujoco.mj_forward(self.compiled, self.data)
        M = np.zeros((self.model.nv, self.model.nv))
        try:
            self.mujoco.mj_fullM(self.compiled, self.data, M)
        except TypeError:  # older releases take the sparse matrix
            self.mujoco.mj_fullM(self.compiled, M, self.data.qM)
        T = self.turn(q)
        return np.asarray(T.T @ M @ T)

    def placements(self, q: Array) -> dict[str, tuple[Array, Array]]:
        """Return rotation and position of every body with a name in the file."""
        self.place(q)
        self.mujoco.mj_kinematics(self.compiled, self.data)
        names = [self.compiled.body(k).name for k in range(self.compiled.nbody)]
        return {
            name: (np.array(self.data.xmat[k]).reshape(3, 3), np.array(self.data.xpos[k]))
            for k, name in enumerate(names)
            if name
        }

    def _free(self) -> list[int]:
        pairs = zip(self.model.bodies, self.model.v_slices, strict=True)
        return [s.start for body, s in pairs if body.joint.kind is JointKind.FREE_FLYER]


def opened(folder: Path, text: str) -> MujocoRobot:
    """Write an MJCF text to a file in ``folder`` and read it with both."""
    import mujoco

    path = folder / "robot.xml"
    path.write_text(text, encoding="utf-8")
    compiled = mujoco.MjModel.from_xml_path(str(path))
    compiled.jnt_limited[:] = 0  # whose forces MuJoCo's inverse dynamics would include
    return MujocoRobot(compiled=compiled, model=load(path))
