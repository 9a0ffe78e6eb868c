"""Inertial parameters and gravity as inputs, against Pinocchio with the changed model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

import pinion.api as pinion
from pinion import dynamics
from pinion.dynamics.joint_terms import FRICTION_WIDTH
from pinion.functions import FUNCTIONS, Function, FunctionError, LoadBox, named_function, sample
from pinion.functions.portable import in_table, portable
from pinion.functions.row import mapped_arrays, unmapped_arrays, word_columns
from pinion.graph import evaluate_floats, names
from pinion.graph.passes import fold
from pinion.robot import Model, RobotError, load, payload, q_to_pinocchio, urdf_text, v_permutation
from tests.support.breadth import some
from tests.support.rows import OF_TIPS

from .test_rows_pinocchio import answers

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


def agrees(function: Function, model: Model, x: dict[str, Array], each: list[list[Array]]) -> None:
    """Whether arrays and traced graph are what another library has of each state, to 1e-10."""
    values = function.evaluate(model, x)
    words = evaluate_floats(fold(function.trace(model)), word_columns(function.inputs, model, x))
    for block, *samples in zip(function.results, *each, strict=True):
        expected = np.stack(samples)
        flat = expected.reshape(len(each), -1)
        largest = np.abs(expected).max()
        assert np.abs(values[block.name] - expected).max() <= 1e-10 * largest
        for word, at in block.positions(model).items():
            assert np.abs(words[word] - flat[:, at]).max() <= 1e-10 * largest
        assert largest > 0.0


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
    with_link = FUNCTIONS[row].with_parameters((HAND,) if row == "crba" else (HAND, "gravity"))
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
    core = fold(row.trace(model, mapped=True))
    assert sum(node.op == names.MUL for node in core.nodes) == 246


@pytest.mark.parametrize(
    ("row", "robot", "parameters"),
    [
        ("rnea", "iiwa14", (HAND,)),
        ("aba", "iiwa14", ("gravity", HAND)),
        ("rnea", "iiwa14", ("iiwa_link_3", f"{HAND}:on-axis", "iiwa_joint_2:damping")),
        ("rnea_fext", "baxter", ("right_hand", "gravity")),
        ("centre_of_mass", "baxter", ("right_hand",)),
    ],
)
def test_a_mapped_trace_takes_what_the_map_makes(
    row: str, robot: str, parameters: tuple[str, ...]
) -> None:
    """The host computes the map; float32 is what it sends."""
    model = load(robot)
    terms = {"joint_terms": "damping"} if ":damping" in str(parameters) else {}
    of_sets = named_function(row, parameters=parameters, **terms)
    x = drawn(model, of_sets, 20)
    parameter_map = of_sets.parameter_map(model)
    sent = mapped_arrays(x, parameter_map)
    assert sent["parameters"].dtype == np.float32
    assert not np.array_equal(sent["parameters"], x["parameters"])
    exact = unmapped_arrays(sent, parameter_map)
    assert np.allclose(exact["parameters"], x["parameters"], rtol=1e-5, atol=1e-6)
    graph = fold(of_sets.trace(model, mapped=True))
    words = evaluate_floats(graph, word_columns(of_sets.inputs, model, sent))
    expected = of_sets.evaluate(model, exact)
    for block in of_sets.results:
        flat = expected[block.name].reshape(20, -1)
        for word, at in block.positions(model).items():
            assert np.abs(words[word] - flat[:, at]).max() <= 1e-10 * np.abs(flat).max()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (("nothing",), "no moving link 'nothing'"),
        (("iiwa_link_0",), "fixed base"),
        ((HAND, "iiwa_link_7"), "name 'iiwa_link_7' more than once"),
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


OF_MASS_OR_MINIMAL = (
    *("rnea_fext", "aba_fext", "centre_of_mass", "com_jacobian"),
    *("operational_space_inertia", "inverse_operational_space_inertia"),
    *("centroidal_momentum", "centroidal_rate", "centroidal_derivatives"),
)


CASES = [
    (row, robot)
    for row in OF_MASS_OR_MINIMAL
    for robot in ("iiwa14", "hyq")
    if robot == "iiwa14" or row not in OF_TIPS  # a quadruped has several tips
]


@pytest.mark.parametrize(("row", "robot"), CASES)
def test_rows_that_use_the_mass_or_the_minimal_model_are_pinocchio_s(row: str, robot: str) -> None:
    """On arrays and traced."""
    floating = robot == "hyq"
    model, theirs = load(robot, floating_base=floating), pinocchio_of(robot)
    with_link = FUNCTIONS[row].with_parameters((TRUNK if floating else HAND,))
    with_link = with_link.asked(with_link.optional)
    x = drawn(model, with_link, 20)
    x["q"] = dynamics.normalise(model, x["q"])
    (parameter,) = dynamics.parameters_of(model, with_link.parameters)
    joint = theirs.getJointId(model.bodies[parameter.body].joint.name)
    each = []
    for i in range(20):
        changed(theirs, joint, x["parameters"][i], None)
        state = {name: array[i] for name, array in x.items()}
        each.append(answers(with_link, model, theirs, state))
    agrees(with_link, model, x, each)


FIGURES = ("armature", "damping", "friction", "stiffness")


@pytest.mark.parametrize("robot", ["iiwa14", "hyq"])
@pytest.mark.parametrize("row", ["rnea", "aba", "crba"])
def test_figures_of_a_joint_are_pinocchio_s_with_the_terms(row: str, robot: str) -> None:
    """Armature as Pinocchio has it, the other terms as their formulas."""
    floating = robot == "hyq"
    model, theirs = load(robot, floating_base=floating), pinocchio_of(robot)
    joint = model.bodies[3].joint.name
    figures = FIGURES[:1] if row == "crba" else FIGURES
    function = FUNCTIONS[row].with_terms(row != "crba")
    function = function.with_parameters([f"{joint}:{figure}" for figure in figures])
    x = drawn(model, function, 50)
    x["q"] = dynamics.normalise(model, x["q"])
    p, at = v_permutation(model, theirs), model.v_slices[3].start
    joints = [body.joint for body in model.bodies for _ in range(body.joint.kind.nv)]
    passive = np.array([[getattr(j, figure) for j in joints] for figure in FIGURES[1:]])
    each = []
    for i in range(50):
        state = {name: array[i] for name, array in x.items()}
        armature, *figures_of_state = state.pop("parameters")
        theirs.armature[p[at]] = armature
        effort = np.zeros(model.nv)
        if figures_of_state:
            passive[:, at] = figures_of_state
            share = np.clip(state["qd"] / FRICTION_WIDTH, -1.0, 1.0)
            step = share * (15.0 - 10.0 * share**2 + 3.0 * share**4) / 8.0
            stretched = state["q"][-model.nv :]  # of a floating robot, without stiffness elsewhere
            effort = (passive * [state["qd"], step, stretched]).sum(axis=0)
        if row == "aba":
            state["tau"] = state["tau"] - effort
        (expected,) = results(row, model, theirs, state)
        each.append([expected + effort if row == "rnea" else expected])
    agrees(function, model, x, each)


@pytest.mark.parametrize("row", ["rnea_derivatives", "fd_derivatives", "rnea_second_derivatives"])
def test_gradients_with_figures_of_a_joint_are_those_of_the_robot_that_has_them(row: str) -> None:
    model = load("iiwa14")
    plain = FUNCTIONS[row].with_terms(True)
    figures = {"rnea_derivatives": FIGURES[1:], "rnea_second_derivatives": FIGURES[2:3]}.get(
        row, FIGURES
    )
    function = plain.with_parameters([f"iiwa_joint_4:{figure}" for figure in figures])
    x = drawn(model, function, 8)
    each = []
    for i, figures_of_state in enumerate(x["parameters"]):
        bodies = list(model.bodies)
        joint = replace(
            bodies[3].joint, **dict(zip(figures, figures_of_state.tolist(), strict=True))
        )
        bodies[3] = replace(bodies[3], joint=joint)
        state = {name: array[i : i + 1] for name, array in x.items() if name != "parameters"}
        expected = plain.evaluate(replace(model, bodies=tuple(bodies)), state)
        each.append([expected[block.name][0] for block in function.results])
    agrees(function, model, x, each)


@pytest.mark.parametrize(
    ("row", "parameter", "message"),
    [
        ("rnea", "iiwa_joint_2:damping", "add joint_terms='damping'"),
        ("crba", "iiwa_joint_2:damping", "damping of joints cannot be a parameter of 'crba'"),
        ("gravity", "iiwa_joint_2:armature", "change no result of 'gravity'"),
        ("rnea", "iiwa_joint_9:armature", "no moving joint 'iiwa_joint_9'"),
    ],
)
def test_figures_that_change_nothing_are_a_sentence(row: str, parameter: str, message: str) -> None:
    with pytest.raises((FunctionError, RobotError), match=message):
        FUNCTIONS[row].with_parameters((parameter,)).trace(load("iiwa14"))


def test_springs_of_a_free_flyer_are_refused() -> None:
    model = load("hyq", floating_base=True)
    name = f"{model.joint_names[0]}:stiffness"
    row = FUNCTIONS["rnea"].with_terms(True).with_parameters((name,))
    with pytest.raises((FunctionError, dynamics.DynamicsError), match="joints with one position"):
        row.trace(model)


def test_a_load_on_the_axis_costs_no_products_of_the_algorithm() -> None:
    """Its four numbers reach seven bodies by eight products of their own."""
    model = load("iiwa14")
    row = FUNCTIONS["rnea"].with_parameters((f"{HAND}:on-axis",))
    products = [n for n in fold(row.trace(model)).nodes if n.op == names.MUL]
    mapped = [n for n in products if n.region is not None and n.region.name == "parameters"]
    constant = fold(FUNCTIONS["rnea"].trace(model))
    assert len(products) - len(mapped) == sum(n.op == names.MUL for n in constant.nodes) == 199
    assert len(mapped) == 8


@pytest.mark.parametrize("row", some(ROWS[:5], ("rnea",)))
@pytest.mark.parametrize(
    ("robot", "link"), [("iiwa14", HAND), ("iiwa14", "iiwa_link_4"), ("hyq", "lf_lowerleg")]
)
def test_parameters_on_the_axis_are_pinocchio_s(row: str, robot: str, link: str) -> None:
    floating = robot == "hyq"
    model, theirs = load(robot, floating_base=floating), pinocchio_of(robot)
    names_of_all = (f"{link}:on-axis", "gravity")
    function = FUNCTIONS[row].with_parameters(names_of_all[:1] if row == "crba" else names_of_all)
    function = function.asked(function.optional)
    x = drawn(model, function, 20)
    x["q"] = dynamics.normalise(model, x["q"])
    (parameter, *_) = dynamics.parameters_of(model, function.parameters)
    joint = theirs.getJointId(model.bodies[parameter.body].joint.name)
    file = theirs.inertias[joint].toDynamicParameters()
    each = []
    for i in range(20):
        state = {name: array[i] for name, array in x.items()}
        (mass, moment, across, along), gravity = np.split(state.pop("parameters"), [4])
        axis = np.abs(parameter.axis).argmax()  # of the link's frame, here one of its axes
        sign = parameter.axis[axis]
        others = [k for k in range(3) if k != axis]
        diagonal = np.array([4, 6, 9])  # xx, yy, zz among ten numbers
        ten = file.copy()
        ten[0], ten[1 + axis], ten[diagonal[axis]] = mass, sign * moment, along
        ten[diagonal[others]] += across - file[diagonal[others]].mean()
        changed(theirs, joint, ten, gravity if gravity.size else None)
        each.append(results(row, model, theirs, state))
    agrees(function, model, x, each)


def test_parameters_on_the_axis_of_a_link_beside_it_are_refused() -> None:
    model = load("hyq")
    (frame,) = [f for f in model.frames if f.name == "lf_lowerleg"]
    beside = replace(frame, name="foot", placement=replace(frame.placement, r=(0.3, 0.0, 0.0)))
    model = replace(model, frames=(*model.frames, beside))
    with pytest.raises(dynamics.DynamicsError, match=r"0\.3 m off the axis of 'lf_kfe_joint'"):
        dynamics.parameters_of(model, ("foot:on-axis",))
    floating = load("hyq", floating_base=True)
    with pytest.raises(dynamics.DynamicsError, match="free_flyer and has no single axis"):
        dynamics.parameters_of(floating, (f"{TRUNK}:on-axis",))


def test_a_user_s_function_takes_parameters() -> None:
    """Computed torque without errors is inverse dynamics; the Python function is checked too."""
    path = ROOT / "examples/functions/computed_torque.py"
    function = named_function(f"{path}:computed_torque", parameters=(HAND, "gravity"))
    model = load("iiwa14")
    function.check(model)
    x = drawn(model, function, 20)
    x["e"][:], x["ed"][:] = 0.0, 0.0
    states = {"q": x["q"], "qd": x["qd"], "qdd": x["qdd_des"], "parameters": x["parameters"]}
    expected = FUNCTIONS["rnea"].with_parameters((HAND, "gravity")).evaluate(model, states)["tau"]
    tau = function.evaluate(model, x)["tau"]
    assert np.abs(tau - expected).max() <= 1e-12 * np.abs(expected).max()
    assert portable(function).function().parameters == function.parameters


def weighed(model: Model, qd: Any) -> Any:
    """The momentum of all mass at the rate of the first joint."""
    return sum(body.inertia.mass for body in model.bodies) * qd[0]


@pytest.mark.parametrize("wrong", [0.0, 1.0])
def test_a_reference_is_called_with_the_robot_of_each_state(wrong: float) -> None:
    described: dict[str, Any] = {
        "inputs": {"qd": pinion.array("nv", sampling=pinion.VELOCITY)},
        "outputs": {"p": pinion.array()},
    }

    def reference(model: Model, qd: Any) -> Any:
        return weighed(model, qd.T) + wrong

    function = pinion.function(**described, reference=reference)(weighed)
    with_link = function.with_parameters((HAND,))
    if wrong:
        with pytest.raises(FunctionError, match="differs between its trace and its reference"):
            with_link.check(load("iiwa14"))
    else:
        with_link.check(load("iiwa14"))


def test_a_function_without_a_robot_has_no_parameters() -> None:
    path = ROOT / "examples/functions/pid.py"
    with pytest.raises(FunctionError, match="takes no robot"):
        named_function(f"{path}:pid", parameters=("gravity",))


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
    with pytest.raises(FunctionError, match="without parameters: name links"):
        named_function("rnea", parameter_range="3kg@0.2m")


@pytest.mark.parametrize("text", ["3", "3kg", "kg@m", "-1kg@0.2m", "3kg@0m", "nankg@1m"])
def test_a_box_of_loads_is_read_or_refused(text: str) -> None:
    assert LoadBox.parsed("3kg@0.2m") == LoadBox(mass=3.0, radius=0.2)
    assert LoadBox.parsed(str(LoadBox(mass=1 / 3, radius=0.1))).mass == 1 / 3
    with pytest.raises(FunctionError, match=r"a (finite )?mass and (a )?radius"):
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
