"""MJCF files against MuJoCo's own inverse dynamics."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from pinion.dynamics import rnea
from pinion.robot import Model, RobotError, from_mjcf, load
from tests.robot.kinematics import frames
from tests.robot.test_robot_errors import check

ARM = """
<mujoco model="arm">
  <compiler angle="radian"/>
  <option gravity="0.5 -1 -9.81"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <geom type="plane" size="1 1 0.1"/>
    <body name="stand" pos="0.1 0 0.3" euler="0.3 0.2 -0.4">
      <geom type="box" size="0.1 0.1 0.1"/>
      <body name="upper" pos="0 0.1 0.2" euler="0.1 -0.7 0.4">
        <joint name="shoulder" axis="0.6 0 0.8" pos="0.02 -0.03 0.01" range="-1.5 2"/>
        <geom type="capsule" size="0.04" fromto="0 0 0 0.3 0.1 0"/>
        <body name="pad" pos="0.1 0.05 0" euler="1 0 0">
          <geom type="box" size="0.02 0.05 0.01"/>
        </body>
        <body name="slider" pos="0.3 0.1 0" quat="1 2 3 4">
          <joint name="rail" type="slide" axis="0 -1 0" range="-0.2 0.3" ref="0.1"
                 armature="0" actuatorfrcrange="-20 30"/>
          <geom type="box" size="0.05 0.03 0.02" pos="0.01 0.02 0.03"/>
          <body pos="0 0 -0.2">
            <joint axis="0 1 0" ref="0.4" range="-1 1"/>
            <inertial mass="0.7" pos="0.01 0 0.05" fullinertia="0.02 0.03 0.025 0.002 0 0.001"/>
          </body>
        </body>
        <body name="fan" pos="0 0 0.1">
          <joint name="spin" axis="0 0 1" damping="0"/>
          <geom type="cylinder" size="0.1 0.01"/>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def has_mujoco() -> bool:
    """Return whether the optional library is installed, which the tests do not require."""
    try:
        import mujoco  # noqa: F401
    except ImportError:
        return False
    return True


needs_mujoco = pytest.mark.skipif(
    not has_mujoco(), reason="the mujoco library (extra mjcf) is not installed"
)


def written(folder: Path, text: str) -> Path:
    path = folder / "arm.xml"
    path.write_text(text, encoding="utf-8")
    return path


@needs_mujoco
def test_inverse_dynamics_and_frames_are_mujocos(tmp_path: Path) -> None:
    path = written(tmp_path, ARM)
    model = load(path)
    assert model.gravity == (0.5, -1.0, -9.81)
    assert model.joint_names == ("shoulder", "rail", "joint_2", "spin")
    assert (model.name, model.source) == ("arm", str(path))
    check_against_mujoco(path, model, seed=3, states=20, tolerance=1e-11)


def check_against_mujoco(
    path: Path, model: Model, *, seed: int, states: int, tolerance: float, joint_terms: bool = False
) -> None:
    """Inverse dynamics and placements of every body at random states."""
    import mujoco

    compiled = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(compiled)
    rng = np.random.default_rng(seed)
    for _ in range(states):
        # Inside the limits: outside, MuJoCo's inverse dynamics includes the limits' forces.
        q = rng.uniform((-1.5, -0.2, -1.0, -3.0), (2.0, 0.3, 1.0, 3.0))
        qd, qdd = rng.uniform(-2.0, 2.0, (2, model.nv))
        data.qpos[:], data.qvel[:], data.qacc[:] = q, qd, qdd
        mujoco.mj_inverse(compiled, data)
        theirs = np.array(data.qfrc_inverse)
        ours = rnea(model, q, qd, qdd, joint_terms=joint_terms)
        assert np.max(np.abs(ours - theirs)) <= tolerance * np.max(np.abs(theirs))
        compare_frames(model, compiled, data)


def compare_frames(model: Model, compiled: object, data: object) -> None:
    """Compare the placement of every body."""
    for name, placement in frames(model, np.array(data.qpos)).items():  # type: ignore[attr-defined]
        number = int(name.removeprefix("body_")) if name.startswith("body_") else None
        body = data.body(name if number is None else number)  # type: ignore[attr-defined]
        np.testing.assert_allclose(placement[:3, 3], body.xpos, rtol=0, atol=1e-12)
        np.testing.assert_allclose(placement[:3, :3].ravel(), body.xmat, rtol=0, atol=1e-12)


@needs_mujoco
def test_limits_and_merged_bodies(tmp_path: Path) -> None:
    model = load(written(tmp_path, ARM), gravity=(0.0, 0.0, -1.0))
    shoulder, rail, elbow, spin = (body.joint for body in model.bodies)
    assert model.gravity == (0.0, 0.0, -1.0)
    assert (shoulder.lower, shoulder.upper, shoulder.continuous) == (-1.5, 2.0, False)
    assert (rail.lower, rail.upper, rail.effort, rail.kind.unit) == (-0.2, 0.3, 20.0, "m")
    assert (elbow.lower, elbow.upper) == (-1.0, 1.0)
    assert (spin.continuous, spin.upper) == (True, np.inf)
    assert model.base_links == ("world", "stand")
    assert model.bodies[0].links == ("upper", "pad")
    assert model.parents == (-1, 0, 1, 0)
    assert load(written(tmp_path, ARM), lock={"rail": None}, tip="fan").nq == 2


@needs_mujoco
def test_springs_damping_and_armature_are_mujocos(tmp_path: Path) -> None:
    terms = 'damping="0.3" armature="0.1" stiffness="5" springref="0.4"'
    path = written(tmp_path, ARM.replace('damping="0"', terms))
    model = load(path)
    assert model.bodies[-1].joint.rest == pytest.approx(0.4)
    check_against_mujoco(path, model, seed=4, states=5, tolerance=1e-10, joint_terms=True)


@needs_mujoco
def test_omissions_are_noted(tmp_path: Path) -> None:
    text = ARM.replace('damping="0"', 'damping="0.3" frictionloss="0.2" armature="0.1" '
                       'stiffness="5"').replace("</worldbody>", '</worldbody><equality>'
                       '<joint joint1="rail" joint2="spin"/></equality>')  # fmt: skip
    model = load(written(tmp_path, text))
    assert (
        "The file has equality constraints other than connect and weld, left out of the model."
        in model.notes
    )
    spin = model.bodies[-1].joint
    assert (spin.damping, spin.friction, spin.armature) == (0.3, 0.2, 0.1)
    assert (spin.stiffness, spin.rest) == (5.0, 0.0)
    assert not any("spring" in note for note in model.notes)
    assert not any("left out" in note for note in load(written(tmp_path, ARM)).notes)


@needs_mujoco
@pytest.mark.parametrize(
    ("change", "needles"),
    [
        (("<body pos=", "<body shape="), ("MuJoCo cannot load", "shape")),
        (("</mujoco>", "</mujoca>"), ("arm.xml",)),
    ],
)  # fmt: skip
def test_bad_files_give_one_sentence(
    tmp_path: Path, change: tuple[str, str], needles: tuple[str, ...]
) -> None:
    text = ARM.replace(*change)
    assert text != ARM
    with pytest.raises(RobotError) as error:
        from_mjcf(written(tmp_path, text))
    check(error, *needles)


def test_without_the_library_the_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)  # as if it were missing
    with pytest.raises(RobotError) as error:
        load(written(tmp_path, ARM))
    check(error, "arm.xml", "the extra 'mjcf'", "pip install")


def test_an_xml_file_may_be_a_urdf(tmp_path: Path) -> None:
    path = written(tmp_path, '<robot name="r"/>')
    with pytest.raises(RobotError) as error:
        load(path)
    check(error, "no links")
