"""Mechanisms with several loops from MJCF files, against MuJoCo with stiff constraints: a gripper
whose fingers are parallelograms, and a leg with a rod from thigh to tarsus, as Cassie has."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.robot import Model, load, loops_of

Array = NDArray[np.float64]

STEP = 1e-6  # of differences

STIFF = 'solref="0.002 1" solimp="0.9999 0.9999 0.001"'


def document(bodies: str, equality: str) -> str:
    return (
        '<mujoco><option gravity="0 0 -9.81" timestep="2e-4" integrator="Euler">'
        '<flag contact="disable" eulerdamp="disable"/></option>'
        f"<worldbody>{bodies}</worldbody><equality>{equality}</equality></mujoco>"
    )


def bar(name: str, place: str, length: float, inner: str = "", joint: str = "hinge") -> str:
    axis = ' axis="0 1 0"' if joint == "hinge" else ""
    return (
        f'<body name="{name}" pos="{place}"><joint name="{name}_joint" type="{joint}"{axis}/>'
        f'<inertial pos="{length / 2} 0.01 0" mass="{0.2 + length}" '
        'diaginertia="0.002 0.004 0.003"/>'
        f'{inner}<site name="{name}_end" pos="{length} 0 0"/></body>'
    )


def gripper() -> str:
    """Return two fingers on a sliding palm: a driver with its coupler, and a follower each."""
    fingers = "".join(
        bar(f"{side}_driver", f"0 0 {z}", 0.1, bar(f"{side}_coupler", "0.1 0 0", 0.04))
        + bar(f"{side}_follower", f"0.045 0 {1.2 * z}", 0.09)
        for side, z in (("left", 0.02), ("right", -0.02))
    )
    palm = (
        '<body name="palm"><joint name="palm_joint" type="slide" axis="1 0 0"/>'
        f'<inertial pos="0 0 0" mass="0.8" diaginertia="0.001 0.001 0.001"/>{fingers}</body>'
    )
    loops = "".join(
        f'<connect site1="{side}_coupler_end" site2="{side}_follower_end" {STIFF}/>'
        for side in ("left", "right")
    )
    return document(palm, loops)


def leg() -> str:
    """Return a leg that yaws at the hip, with a rod from its thigh to its tarsus."""
    rod = bar("rod", "0.03 0.02 -0.05", 0.42, joint="ball")
    tarsus = bar("tarsus", "0.4 0 0", 0.3, '<site name="heel" pos="0.06 0.02 -0.06"/>')
    shin = bar("shin", "0.06 0 0.04", 0.4, tarsus)
    thigh = bar("thigh", "0.05 0 0", 0.2, rod + shin)
    hip = (
        '<body name="hip" pos="0 0 1"><joint name="hip_joint" axis="0 0 1"/>'
        f'<inertial pos="0.02 0 0" mass="1.5" diaginertia="0.01 0.01 0.01"/>{thigh}</body>'
    )
    return document(hip, f'<connect site1="rod_end" site2="heel" {STIFF}/>')


MECHANISMS = {"gripper": gripper, "leg": leg}


def offsets(model: Model, q: Array) -> Array:
    """Return how far the frames of each loop are apart, in base axes."""
    parts = []
    for first, second, _ in model.loops:
        ends = (dynamics.frame_placement(model, q, name)[1] for name in (first, second))
        parts.append(np.subtract(*ends))
    return np.concatenate(parts)


def closed(model: Model, q: Array) -> Array:
    """Return the nearest positions with closed loops, by Gauss-Newton steps."""
    for _ in range(50):
        error = offsets(model, q)
        if np.abs(error).max() < 1e-13:
            return q
        columns = [
            (
                offsets(model, dynamics.integrate(model, q, STEP * axis))
                - offsets(model, dynamics.integrate(model, q, -STEP * axis))
            )
            / (2 * STEP)
            for axis in np.eye(model.nv)
        ]
        step = np.linalg.lstsq(np.stack(columns, axis=1), -error, rcond=1e-6)[0]
        q = dynamics.integrate(model, q, step)
    raise AssertionError("the loops do not close")


def opened(name: str, folder: Path) -> tuple[Model, mujoco.MjModel, Array, Array]:
    """Return a mechanism in both programs, closed positions (nq,), and efforts (nv,)."""
    file = folder / f"{name}.xml"
    file.write_text(MECHANISMS[name]())
    model, compiled = load(file), mujoco.MjModel.from_xml_path(str(file))
    rng = np.random.default_rng(39)
    start = dynamics.neutral_configuration(model)
    q = closed(model, dynamics.integrate(model, start, rng.uniform(-0.4, 0.4, model.nv)))
    return model, compiled, q, rng.normal(size=model.nv)


def to_mujoco(model: Model, q: Array) -> Array:
    """Return positions with the scalar part of quaternions first."""
    moved = q.copy()
    for at in model.q_slices:
        if at.stop - at.start == 4:
            moved[at] = np.roll(q[at], 1)
    return moved


@pytest.mark.parametrize(("name", "rows"), [("gripper", 6), ("leg", 3)])
def test_accelerations_are_mujocos(name: str, rows: int, tmp_path: Path) -> None:
    model, compiled, q, tau = opened(name, tmp_path)
    data = mujoco.MjData(compiled)
    data.qpos[:], data.qfrc_applied[:] = to_mujoco(model, q), tau
    mujoco.mj_forward(compiled, data)
    assert int(data.nefc) == rows == sum(loop.size for loop in loops_of(model))
    # MuJoCo's constraints are never quite rigid: their softness is a damping, equal in all rows.
    softness = float(data.efc_R[0])
    assert 0.0 < softness < 2e-3 and np.allclose(data.efc_R, softness, rtol=1e-9)
    qdd, force = dynamics.constraint_dynamics(model, q, np.zeros(model.nv), tau, None, softness)
    largest = np.abs(data.qacc).max()
    assert np.abs(qdd - data.qacc).max() < 1e-6 * largest
    free = dynamics.aba(model, q, np.zeros(model.nv), tau)
    assert np.abs(free - data.qacc).max() > 0.05 * largest
    assert np.abs(force).max() > 0.1


@pytest.mark.parametrize("name", MECHANISMS)
def test_motions_are_mujocos(name: str, tmp_path: Path) -> None:
    """A tenth of a second under constant efforts: what depends on velocities counts as well."""
    model, compiled, q, tau = opened(name, tmp_path)
    data = mujoco.MjData(compiled)
    data.qpos[:], data.qfrc_applied[:] = to_mujoco(model, q), tau
    qd, h = np.zeros(model.nv), float(compiled.opt.timestep)
    begin, apart = q, 0.0
    for _ in range(500):
        mujoco.mj_step(compiled, data)
        qdd, _ = dynamics.constraint_dynamics(
            model, q, qd, tau, None, 1e-9,
            velocity_gain=200.0, position_gain=10_000.0,
        )  # fmt: skip
        qd = qd + h * qdd
        q = dynamics.integrate(model, q, h * qd)
        apart = max(apart, float(np.abs(offsets(model, q)).max()))
    travelled = np.abs(dynamics.difference(model, begin, q))
    assert travelled.max() > 0.2 and apart < 2e-4
    assert np.abs(to_mujoco(model, q) - data.qpos).max() < 5e-4 * travelled.max()
    assert np.abs(qd - data.qvel).max() < 5e-4 * np.abs(qd).max()
