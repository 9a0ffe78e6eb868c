"""Cores of robots with joints in series and massless links between them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinion import driver
from pinion.cosim.verify import verify
from pinion.functions import named_function as row_of
from pinion.functions import sample
from pinion.robot import load_text, summarise
from tests.robot.test_robot_faults import WRIST
from tests.support.builds import build


@pytest.mark.slow
def test_joints_in_series_through_massless_links(tmp_path: Path) -> None:
    build(load_text(WRIST), "aba", tmp_path / "core", ii=16, formats="auto")
    figures = verify(tmp_path / "core", samples=300)
    assert figures["mismatches"] == 0
    assert figures["ok"], figures


@pytest.mark.slow
def test_a_planar_base_of_one_body_is_mujocos_through_the_driver(tmp_path: Path) -> None:
    """Slide, slide and hinge in one body, and joint terms of higher orders, as a core."""
    pytest.importorskip("mujoco", reason="the mujoco library (extra mjcf) is not installed")
    from tests.robot.mujoco_oracle import MujocoRobot, opened
    from tests.robot.test_robot_mjcf_chains import CART

    terms = 'damping="1 2 3" stiffness="3 2 1" armature=".1"'
    robot: MujocoRobot = opened(tmp_path, CART.replace('type="slide"', f'type="slide" {terms}', 1))
    folder = tmp_path / "core"
    build(robot.model, "rnea", folder, formats="auto", joint_terms=True)
    figures = verify(folder, samples=500, seed=1)
    assert figures["mismatches"] == figures["flagged"] == 0 and figures["ok"], figures
    with driver.open(folder) as card:
        manifest = card.manifest
        requests = sample(robot.model, row_of("rnea"), 100, distribution="reference", seed=3)
        result = card.run(**requests)
    states = zip(requests["q"], requests["qd"], requests["qdd"], strict=True)
    want = np.array([robot.inverse(*(x.astype(np.float64) for x in state)) for state in states])
    assert np.max(np.abs(result["tau"] - want)) <= max(manifest.budget.values())


@pytest.mark.slow
def test_a_cheetah_of_one_file(tmp_path: Path) -> None:
    pytest.importorskip("mujoco", reason="the mujoco library (extra mjcf) is not installed")
    from tests.robot.mujoco_oracle import opened
    from tests.robot.test_robot_mjcf_chains import CHEETAH

    model = opened(tmp_path, CHEETAH).model
    assert [body.inertia.mass for body in model.bodies[:2]] == [0.0, 0.0]
    build(model, "rnea", tmp_path / "core", formats="auto", joint_terms="damping", ii=16)
    figures = verify(tmp_path / "core", samples=300)
    assert figures["mismatches"] == 0
    assert figures["ok"], figures


FREE = """<mujoco><worldbody><body><joint type="free" armature="1.5"/>
<inertial pos=".1 .2 0" mass="2" diaginertia=".1 .2 .25"/>
<body pos="0 0 1"><joint armature=".1"/><inertial pos="0 .1 0" mass="1" diaginertia=".1 .1 .1"/>
</body></body></worldbody></mujoco>"""


@pytest.mark.slow
def test_an_armature_in_base_axes(tmp_path: Path) -> None:
    pytest.importorskip("mujoco", reason="the mujoco library (extra mjcf) is not installed")
    from tests.robot.mujoco_oracle import opened

    model = opened(tmp_path, FREE).model
    assert model.bodies[0].joint.armature_in_base
    assert summarise(model)["joints"][0]["armature_in_base"] is True
    build(model, "rnea", tmp_path / "core", formats="auto")
    figures = verify(tmp_path / "core", samples=300)
    assert figures["mismatches"] == 0
    assert figures["ok"], figures
