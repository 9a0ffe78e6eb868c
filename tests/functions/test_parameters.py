"""Inertial parameters and gravity as inputs, against Pinocchio with the changed model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

import pinion.api as pinion
from pinion import dynamics
from pinion.functions import FUNCTIONS, Function, FunctionError, LoadBox, named_function, sample
from pinion.functions.portable import in_table, portable
from pinion.functions.row import word_columns
from pinion.graph import evaluate_floats, names
from pinion.graph.passes import fold
from pinion.robot import Model, RobotError, load, payload, q_to_pinocchio, urdf_text, v_permutation
from tests.support.breadth import some

Array = NDArray[np.float64]

SEED = 37

ROOT = Path(__file__).parents[2]

ROWS = ("rnea", "aba", "fd_derivatives", "crba", "rnea_derivatives", "gravity")

HAND, TRUNK = "iiwa_link_7", "base_link_0"


def drawn(model: Model, row: Function, count: int) -> dict[str, Array]:
    print(f"seed {SEED}")
    arrays = sample(model, row, count, distribution="reference", seed=SEED)
    return {name: array.astype(np.float64) for name, array in arrays.items()}


def pinocchio_of(robot: str) -> Any:
    root = (pin.JointModelFreeFlyer(),) if robot != "iiwa14" else ()
    return pin.buildModelFromXML(urdf_text(robot), *root)


def changed(theirs: Any, joint: int, values: Array, gravity: Array | None) -> None:
    theirs.inertias[joint] = pin.Inertia.FromDynamicParameters(values)
    if gravity is not None:
        theirs.gravity.linear = gravity


def results(row: str, model: Model, theirs: Any, x: dict[str, Array]) -> list[Array]:
    """What Pinocchio computes of a state, in our order of joints."""
    p, data = v_permutation(model, theirs), theirs.createData()
    q = q_to_pinocchio(model, theirs, x["q"])
    v = {name: np.zeros(theirs.nv) for name in ("qd", "qdd", "tau")}
    for name, array in v.items():
        if name in x:
            array[p] = x[name]
    square = np.ix_(p, p)
    match row:
        case "rnea":
            return [pin.rnea(theirs, data, q, v["qd"], v["qdd"])[p]]
        case "aba":
            return [pin.aba(theirs, data, q, v["qd"], v["tau"])[p]]
        case "gravity":
            return [pin.computeGeneralizedGravity(theirs, data, q)[p]]
        case "crba":
            M = np.triu(pin.crba(theirs, data, q))
            return [(M + np.triu(M, 1).T)[square]]
        case "rnea_derivatives":
            pin.computeRNEADerivatives(theirs, data, q, v["qd"], v["qdd"])
            return [data.dtau_dq[square], data.dtau_dv[square]]
    pin.computeABADerivatives(theirs, data, q, v["qd"], v["tau"])
    minv = np.triu(data.Minv) + np.triu(data.Minv, 1).T
    return [np.array(data.ddq)[p], data.ddq_dq[square], data.ddq_dv[square], minv[square]]


@pytest.mark.parametrize("robot", ["iiwa14", "hyq"])
@pytest.mark.parametrize("row", some(ROWS, ("rnea", "fd_derivatives")))
def test_a_robot_with_other_parameters_is_pinocchio_s(row: str, robot: str) -> None:
    """1,000 loads on the arm's hand; backpacks on a floating trunk; gravity of any direction."""
    floating = robot == "hyq"
    model, theirs = load(robot, floating_base=floating), pinocchio_of(robot)
    link, count = (TRUNK, 100) if floating else (HAND, 1000)
    with_link = FUNCTIONS[row].with_parameters((link, "gravity"))
    x = drawn(model, with_link, count)
    if "q" in x:
        x["q"] = dynamics.normalise(model, x["q"])
    values = with_link.evaluate(model, x)
    (parameter, _) = dynamics.parameters_of(model, with_link.parameters)
    joint = theirs.getJointId(model.bodies[parameter.body].joint.name)
    worst = 0.0
    for i in range(count):
        state = {name: array[i] for name, array in x.items()}
        sets = state.pop("parameters")
        changed(theirs, joint, sets[:10], sets[10:])
        for block, expected in zip(
            with_link.results, results(row, model, theirs, state), strict=False
        ):
            largest = np.abs(expected).max()
            worst = max(worst, float(np.abs(values[block.name][i] - expected).max() / largest))
    assert worst <= 1e-10
    assert np.isfinite(worst) and worst > 0.0


@pytest.mark.parametrize("row", some(ROWS, ("rnea", "aba")))
def test_the_traced_graph_of_the_minimal_model_is_the_float_model(row: str) -> None:
    model = load("iiwa14")
    with_link = FUNCTIONS[row].with_parameters((HAND, "gravity"))
    x = drawn(model, with_link, 20)
    expected = with_link.evaluate(model, x)
    words = evaluate_floats(fold(with_link.trace(model)), word_columns(with_link.inputs, model, x))
    for block in with_link.results:
        flat = expected[block.name].reshape(20, -1)
        for word, at in block.positions(model).items():
            assert np.abs(words[word] - flat[:, at]).max() <= 1e-11 * np.abs(flat).max()


def test_the_file_s_parameters_give_the_file_s_robot() -> None:
    model = load("iiwa14")
    row = FUNCTIONS["rnea"].with_parameters((HAND, "gravity"))
    x = drawn(model, row, 5)
    x["parameters"][:] = dynamics.parameter_values(model, row.parameters)
    plain = {name: array for name, array in x.items() if name != "parameters"}
    expected = FUNCTIONS["rnea"].evaluate(model, plain)["tau"]
    assert np.abs(row.evaluate(model, x)["tau"] - expected).max() <= 1e-12 * np.abs(expected).max()


def test_a_payload_is_a_difference_of_parameters() -> None:
    model = load("iiwa14")
    loaded = payload(model, HAND, mass=2.0, com=(0.0, 0.05, 0.1))
    before, after = (np.array(dynamics.parameter_values(m, (HAND,))) for m in (model, loaded))
    expected = [2.0, 0.0, 0.1, 0.2, 0.025, 0.0, 0.02, 0.0, -0.01, 0.005]
    assert np.abs(after - before - expected).max() < 1e-15


def test_products_are_those_of_ten_numbers_more() -> None:
    """Measured beforehand by a prototype: 246 of inverse dynamics, whose constant form has 199."""
    model = load("iiwa14")
    row = FUNCTIONS["rnea"].with_parameters((HAND,))
    graph = fold(row.trace(model))
    inside = [n for n in graph.nodes if n.region is not None and n.region.name != "parameters"]
    assert sum(node.op == names.MUL for node in inside) == 246


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (("nothing",), "no moving link 'nothing'"),
        (("iiwa_link_0",), "fixed base"),
        ((HAND, "iiwa_link_7"), "name one twice"),
    ],
)
def test_parameters_that_do_not_exist_are_a_sentence(
    parameters: tuple[str, ...], message: str
) -> None:
    model = load("iiwa14")
    with pytest.raises((FunctionError, RobotError, dynamics.DynamicsError), match=message):
        FUNCTIONS["rnea"].with_parameters(parameters).trace(model)


def test_parameters_that_change_nothing_are_refused() -> None:
    with pytest.raises(FunctionError, match=f"'{HAND}' change no result of 'forward_kinematics'"):
        FUNCTIONS["forward_kinematics"].with_parameters((HAND,)).trace(load("iiwa14"))


UNSUPPORTED = (
    *("rnea_fext", "aba_fext", "centre_of_mass", "com_jacobian"),
    *("operational_space_inertia", "inverse_operational_space_inertia"),
    *("centroidal_momentum", "centroidal_rate"),
)


@pytest.mark.parametrize("row", UNSUPPORTED)
def test_rows_that_need_constant_inertias_refuse_parameters(row: str) -> None:
    with pytest.raises(FunctionError, match="leave out the parameters"):
        FUNCTIONS[row].with_parameters((HAND,)).trace(load("iiwa14"))


def test_a_user_s_function_refuses_parameters() -> None:
    path = ROOT / "examples/functions/computed_torque.py"
    with pytest.raises(FunctionError, match="only functions of the table take parameters"):
        named_function(f"{path}:computed_torque", parameters=(HAND,))


def test_an_inverse_inertia_is_sampled_with_its_set() -> None:
    model, row = load("iiwa14"), FUNCTIONS["fd_derivatives_from_minv"].with_parameters((HAND,))
    x = drawn(model, row, 3)
    inverse = FUNCTIONS["minv"].with_parameters((HAND,))
    minv = inverse.evaluate(model, {"q": x["q"], "parameters": x["parameters"]})["minv"]
    assert np.abs(x["minv"] - minv).max() <= 1e-6 * np.abs(minv).max()
    plain = FUNCTIONS["minv"].evaluate(model, {"q": x["q"]})["minv"]
    assert np.abs(x["minv"] - plain).max() > 1e-3 * np.abs(minv).max()


def test_a_width_of_friction_is_checked_and_kept() -> None:
    with pytest.raises(FunctionError, match="friction_width is -1"):
        named_function("rnea", friction_width=-1.0)
    row = FUNCTIONS["rnea"].with_terms(("damping",), 0.2)
    assert in_table(row) and portable(row).function() == row


def test_a_range_without_parameters_is_refused() -> None:
    with pytest.raises(FunctionError, match="no parameters: name links"):
        named_function("rnea", parameter_range="3kg@0.2m")


@pytest.mark.parametrize("text", ["3", "3kg", "kg@m", "-1kg@0.2m", "3kg@0m", "nankg@1m"])
def test_a_box_of_loads_is_read_or_refused(text: str) -> None:
    assert LoadBox.parsed("3kg@0.2m") == LoadBox(mass=3.0, radius=0.2)
    assert LoadBox.parsed(str(LoadBox(mass=1 / 3, radius=0.1))).mass == 1 / 3
    with pytest.raises(FunctionError, match=r"mass and a radius"):
        LoadBox.parsed(text)


def test_one_set_serves_a_batch_and_sets_serve_samples(tmp_path: Path) -> None:
    """Compiled, in float64: as the float model, bit for bit the same for equal sets."""
    row = FUNCTIONS["rnea"].with_parameters((HAND,))
    model = load("iiwa14")
    x = drawn(model, row, 33)
    with pinion.backend(model, row, device="cpu", cache=tmp_path) as inverse_dynamics:
        each = inverse_dynamics.run(**x).tau
        expected = row.evaluate(model, x)["tau"]
        assert np.abs(each - expected).max() <= 1e-11 * np.abs(expected).max()
        parameter_set = x["parameters"][7]
        states = {name: x[name] for name in ("q", "qd", "qdd")}
        shared = inverse_dynamics.run(**states, parameters=parameter_set).tau
        repeated = inverse_dynamics.run(**states, parameters=np.tile(parameter_set, (33, 1))).tau
        assert np.array_equal(shared, repeated)
        assert np.array_equal(shared[7], each[7])
