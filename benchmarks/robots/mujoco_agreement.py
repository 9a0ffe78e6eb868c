"""Largest differences between the float functions and MuJoCo's, for MJCF files.

Everything that MuJoCo adds to rigid bodies and rotors is switched off in its model: contacts,
limits and other constraints, springs, dampers, fluids and gravity compensation. Errors are as in
:mod:`.agreement`: for each block of a state, over the largest entry of MuJoCo's block.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion import dynamics
from pinion.robot import JointKind, Model

Array = NDArray[np.float64]

FUNCTIONS = ("rnea", "crba", "minv", "aba")

REACH = 0.4
"""Positions of slides and bases without limits [m]."""

RATE, ACCELERATION = 2.0, 5.0


def compiled_mjcf(path: Path) -> Any | None:
    """Return the ``mujoco.MjModel`` of a file; None if MuJoCo cannot compile it as MJCF."""
    try:
        if b"<mujoco" not in path.read_bytes():
            return None
        return import_module("mujoco").MjModel.from_xml_path(str(path))
    except ValueError:
        return None


def survey(model: Model, compiled: Any, *, states: int, seed: int) -> dict[str, float]:
    """Return the largest error of each of ``FUNCTIONS`` over random states; NaN counts as infinite.

    Forward dynamics is left out if it does not exist.
    """
    mujoco = import_module("mujoco")
    _rigid_alone(mujoco, compiled)
    data = mujoco.MjData(compiled)
    rng = np.random.default_rng(seed)
    errors: dict[str, float] = {}
    for q in dynamics.random_configuration(model, rng, states, reach=REACH):
        qd, qdd = (rng.uniform(-top, top, model.nv) for top in (RATE, ACCELERATION))
        tau, M = _theirs(mujoco, compiled, data, model, (q, qd, qdd))
        pairs = {
            "rnea": (dynamics.rnea(model, q, qd, qdd), tau),
            "crba": (dynamics.crba(model, q), M),
        }
        try:
            pairs["minv"] = (dynamics.minv(model, q), np.array(np.linalg.inv(M), np.float64))
            pairs["aba"] = (dynamics.aba(model, q, qd, tau), qdd)
        except dynamics.DynamicsError:
            pass  # a joint that moves no inertia
        for name, (ours, theirs) in pairs.items():
            error = float(np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs)))
            errors[name] = max(errors.get(name, 0.0), np.inf if np.isnan(error) else error)
    return errors


def _rigid_alone(mujoco: Any, compiled: Any) -> None:
    """Disable everything in MuJoCo's model that Pinion does not model."""
    flags = mujoco.mjtDisableBit
    for name in ("CONSTRAINT", "SPRING", "DAMPER"):
        compiled.opt.disableflags |= int(getattr(flags, f"mjDSBL_{name}"))
    compiled.opt.density = compiled.opt.viscosity = 0.0
    compiled.body_gravcomp[:] = 0.0


def _theirs(
    mujoco: Any, compiled: Any, data: Any, model: Model, state: tuple[Array, Array, Array]
) -> tuple[Array, Array]:
    """Return MuJoCo's efforts and inertia matrix in Pinion's coordinates.

    MuJoCo's quaternions begin with w, and a free joint's linear velocity is in world axes; its
    acceleration is the rate of that.
    """
    q, qd, qdd = (np.array(array) for array in state)
    turned = np.eye(model.nv)  # from our rates to MuJoCo's
    for body, at, velocities in zip(model.bodies, model.q_slices, model.v_slices, strict=True):
        if body.joint.kind.nq == 1:
            continue
        four = slice(at.stop - 4, at.stop)
        x, y, z, w = q[four]
        q[four] = (w, x, y, z)
        if body.joint.kind is JointKind.FREE_FLYER:
            R = np.empty(9)
            mujoco.mju_quat2Mat(R, q[four])
            linear, angular = (
                slice(velocities.start, velocities.start + 3),
                slice(velocities.start + 3, velocities.stop),
            )
            turned[linear, linear] = R.reshape(3, 3)
            qdd[linear] += np.cross(qd[angular], qd[linear])
    data.qpos[:], data.qvel[:], data.qacc[:] = q, turned @ qd, turned @ qdd
    mujoco.mj_inverse(compiled, data)
    M = np.empty((model.nv, model.nv))
    mujoco.mj_fullM(compiled, data, M)
    return turned.T @ np.array(data.qfrc_inverse), turned.T @ M @ turned
