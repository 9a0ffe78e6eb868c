"""Armature, damping, friction and springs in cores: bit for bit, and inside the budget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pinion import driver, dynamics
from pinion.cosim.verify import verify
from pinion.flow.build import Build
from pinion.functions import FunctionError, named_function, sample
from pinion.graph import evaluate_floats
from pinion.robot import Model, load
from tests.dynamics.models import relative_error
from tests.dynamics.test_joint_terms import robot
from tests.support.builds import build

DERIVATIVES = ("rnea_derivatives", "fd_derivatives", "fd_derivatives_from_minv")
FUNCTIONS = ("rnea", "aba", *DERIVATIVES)


def check(folder: Path, model: Model, name: str, formats: str, **options: object) -> Build:
    build(model, name, folder, formats=formats, joint_terms=True, **options)  # type: ignore[arg-type]
    figures = verify(folder, samples=500, seed=1)
    assert figures["mismatches"] == figures["flagged"] == 0 and figures["ok"], figures
    for word, bound in figures["budget"].items():
        assert figures["error_max"][word] <= bound
    built = Build.read(folder)
    assert built.manifest.options["joint_terms"] == "damping,friction,stiffness"
    assert built.function.joint_terms == ("damping", "friction", "stiffness")
    assert built.function.friction_width == 0.05
    assert built.manifest.units["clamp"] >= 1
    return built


def test_the_gradient_of_a_hinge_answers_through_the_driver(tmp_path: Path) -> None:
    model = robot("hinge")
    built = check(tmp_path / "core", model, "fd_derivatives", "auto", ii=2)
    requests = sample(model, built.function, 200, distribution="reference", seed=3)
    slow = np.abs(requests["qd"]) < 0.05
    assert 0.05 < slow.mean() < 0.5  # some states are inside friction's step, and some outside
    with driver.open(tmp_path / "core") as card:
        result = card.run(**requests)
    wide = {key: value.astype(np.float64) for key, value in requests.items()}
    arguments = model, wide["q"], wide["qd"], wide["tau"]
    want = dynamics.fd_derivatives(*arguments, joint_terms=True)
    budget = max(built.manifest.budget.values())
    for key in ("qdd", "dqdd_dq", "dqdd_dqd"):
        assert np.max(np.abs(result[key] - getattr(want, key))) <= budget
    without = dynamics.fd_derivatives(*arguments)
    assert np.max(np.abs(without.qdd - want.qdd)) > 0.2
    assert np.max(np.abs(without.dqdd_dqd - want.dqdd_dqd)) > 5.0  # steep where it is slow


@pytest.mark.slow
@pytest.mark.usefixtures("plain_sharing")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_hinge_with_all_terms(tmp_path: Path, name: str) -> None:
    check(tmp_path / "hinge", robot("hinge"), name, "q16.16", ii=8)


@pytest.mark.slow
@pytest.mark.usefixtures("plain_sharing")
@pytest.mark.parametrize(
    ("robot_name", "name"),
    [("iiwa14", "rnea"), ("iiwa14", "aba"), *(("two_link", name) for name in DERIVATIVES)],
)
def test_arms_with_all_terms(tmp_path: Path, robot_name: str, name: str) -> None:
    """Derivatives are of the small arm: whole ones take minutes and have the same terms."""
    check(tmp_path / robot_name, robot(robot_name), name, "auto", ii=8)


def test_armature_is_there_without_the_option() -> None:
    row = named_function("minv")
    values = evaluate_floats(row.trace(robot("hinge")), {"q[0]": np.zeros(1)})
    assert row.options == {}
    assert values["minv[0,0]"] == pytest.approx(1.0 / 0.52, rel=1e-14)


def test_the_graph_is_the_float_model_with_terms() -> None:
    model = robot("iiwa14")
    for name in FUNCTIONS:
        row = named_function(name, joint_terms=("damping", "friction"), friction_width=0.2)
        requests = sample(model, row, 40, distribution="reference", seed=2)
        wide = {key: value.astype(np.float64) for key, value in requests.items()}
        floats = row.evaluate(model, wide)
        scalars = replace(row, floats=None).evaluate(model, wide)
        for key, value in floats.items():
            assert relative_error(scalars[key], value) < 1e-12


def test_what_cannot_be_asked_for_is_said() -> None:
    with pytest.raises(
        FunctionError, match=r"'lift' is not a joint term: choose joint_terms from da"
    ):
        named_function("rnea", joint_terms=["lift"])
    with pytest.raises(
        FunctionError, match=r"friction_width is 0\.0: give a positive finite rate,"
    ):
        named_function("rnea", joint_terms=True, friction_width=0.0)
    with pytest.raises(FunctionError, match=r"No joint of the robot 'iiwa14' has friction: omit"):
        named_function("rnea", joint_terms="friction").trace(load("iiwa14"))
    row_without_terms = replace(named_function("rnea"), passive=None)
    with pytest.raises(
        FunctionError, match=r"does not say whether joint terms .damping. affect it"
    ):
        row_without_terms.with_terms("damping")
    assert named_function("crba", joint_terms=True) == named_function("crba")
