"""Functions of robots with joints of any kind, and coupled ones: graphs equal the float models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.functions import (
    DISTRIBUTIONS,
    SUBJECTS,
    Block,
    Function,
    FunctionError,
    Quantity,
    independent_states,
    named_function,
    reduced_graph,
    sample,
)
from pinion.functions.row import word_columns
from pinion.graph import Graph, evaluate_floats, op_counts
from pinion.graph.costs import Costs
from pinion.graph.passes import fold
from pinion.hls.costs import DatapathCosts
from pinion.robot import JointKind, Model, coupled, load, load_text
from tests.dynamics.general.oracle import random_tree_of_kinds, with_terms
from tests.dynamics.test_joint_terms import robot as robot_with_terms

Array = NDArray[np.float64]

COUNT = 100
ROWS = [row.asked(row.optional) for row in SUBJECTS["dynamics"]]
TREES = ("tree 9", "tree 24")  # random ones, by their seeds
ROBOTS = ("hyq", "ball", "cart", "gripper", *TREES)

_SOLID = (
    '<inertial><origin xyz="0.02 -0.01 0.05"/><mass value="1.5"/>'
    '<inertia ixx="0.02" ixy="0.001" ixz="-0.002" iyy="0.03" iyz="0.0005" izz="0.025"/></inertial>'
)


def label(row: Function) -> str:
    return "-".join((row.name, *row.options.values()))


def urdf(*joints: str) -> Model:
    """A chain of equal bodies; joints as ``TYPE`` and the content of their elements."""
    text = f'<link name="l0">{_SOLID}</link>'
    for k, element in enumerate(joints, 1):
        kind, _, inside = element.partition(" ")
        text += (
            f'<link name="l{k}">{_SOLID}</link><joint name="j{k}" type="{kind}">'
            f'<origin xyz="0.1 0.05 0.2" rpy="0.3 -0.2 0.5"/><parent link="l{k - 1}"/>'
            f'<child link="l{k}"/>{inside}</joint>'
        )
    return load_text(f'<robot name="chain">{text}</robot>')


@cache
def robot(name: str) -> Model:
    axis, limit = '<axis xyz="0 1 0"/>', '<limit lower="-1" upper="1" velocity="2" effort="5"/>'
    if name.startswith("tree"):
        model = random_tree_of_kinds(np.random.default_rng(int(name.split()[1])), 4)
        return replace(model, rated_velocity=(2.0,) * model.nv)
    if name == "ball":  # URDF has no such joint; a shoulder behind an elbow, and a body behind both
        model = urdf(
            f"revolute {axis}{limit}", f"revolute {axis}{limit}", f"revolute {axis}{limit}"
        )
        bodies = list(model.bodies)
        bodies[1] = replace(bodies[1], joint=replace(bodies[1].joint, kind=JointKind.SPHERICAL))
        return replace(model, bodies=tuple(bodies), rated_velocity=(2.0,) * 5)
    if name == "cart":
        return urdf('planar <axis xyz="0 0 1"/>', f"continuous {axis}", f"prismatic {axis}{limit}")
    if name == "gripper":
        follows = '<mimic joint="j2" multiplier="-1" offset="0.01"/>'
        slides = f"prismatic {axis}{limit}"
        return urdf(f"continuous {axis}", slides, slides + follows)
    return load(name, floating_base=True)


@cache
def graph_of(name: str, row: str) -> Graph:
    function_row = next(r for r in ROWS if r.name == row)
    return function_row.trace(robot(name))


def drawn(row: Function, model: Model, seed: int, count: int = COUNT) -> dict[str, Array]:
    print(f"seed {seed}")
    sent = sample(model, row, count, distribution="reference", seed=seed)
    arrays = {name: values.astype(np.float64) for name, values in sent.items()}
    return arrays | {"q": dynamics.normalise(coupled(model), arrays["q"])}


def check(row: Function, model: Model, graph: Graph, arrays: Mapping[str, Array]) -> None:
    """The graph's results equal the float model's, to 1e-12 of each state's largest entry."""
    assert list(graph.inputs) == [w for block in row.inputs for w in block.words(model)]
    columns = word_columns(row.inputs, model, arrays)
    traced, want = evaluate_floats(graph, columns), row.evaluate(model, arrays)
    assert [word for word, _ in graph.outputs] == [w for b in row.results for w in b.words(model)]
    for block in row.results:
        flat = want[block.name].reshape(len(arrays["q"]), -1)
        scale = np.abs(flat).max(axis=1)
        assert np.all(scale > 0)
        for word, position in block.positions(model).items():
            error = np.max(np.abs(traced[word] - flat[:, position]) / scale)
            assert error <= 1e-12, f"{word} is off by {error}"


def test_the_robots_have_every_kind_of_joint() -> None:
    kinds = {body.joint.kind for name in ROBOTS for body in robot(name).bodies}
    assert kinds == set(JointKind)
    inside = {body.joint.kind for n in ROBOTS for body in robot(n).bodies if body.parent >= 0}
    assert inside == set(JointKind), "each also behind another"
    assert coupled(robot("gripper")).nv == robot("gripper").nv - 1


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("row", ROWS, ids=label)
def test_the_graph_is_the_float_model(row: Function, name: str) -> None:
    model = robot(name)
    check(row, model, graph_of(name, row.name), drawn(row, model, 31))


@pytest.mark.parametrize("name", ["hyq", "cart"])
@pytest.mark.parametrize(
    "row", [named_function("rnea_derivatives"), named_function("aba")], ids=label
)
def test_so_is_the_graph_of_the_robot_as_it_is(row: Function, name: str) -> None:
    model = robot(name)
    graph = row.trace(model, minimal=False)
    assert graph != graph_of(name, row.name), "the minimal model has other constants"
    check(row, model, graph, drawn(row, model, 32))


def test_rounded_quaternions_are_those_of_unit_length() -> None:
    model, row = robot("hyq"), named_function("rnea_derivatives")
    arrays = drawn(row, model, 33)
    rounded = arrays["q"].astype(np.float32).astype(np.float64)
    lengths = np.linalg.norm(rounded[:, 3:7], axis=1)
    assert np.abs(lengths - 1.0).max() > 1e-9
    check(row, model, graph_of("hyq", row.name), arrays | {"q": rounded})


# -- what a floating base costs and saves ----------------------------------------------------------

# Variable products, products by a constant, additions, reciprocals after folding, of HyQ on a
# floating base: a change that adds operations must say why.
MOST = {
    "rnea": (325, 388, 725, 0),
    "rnea_derivatives": (1879, 964, 2831, 0),
    "crba": (176, 124, 386, 0),
    "minv": (1692, 156, 1711, 14),
    "aba": (891, 603, 1514, 14),
    "fd_derivatives": (6815, 1310, 7649, 14),
    "fd_derivatives_from_minv": (8566, 964, 9003, 0),
}


@pytest.mark.parametrize("name", MOST)
def test_a_floating_quadruped_needs_no_more_operations_than_stated(name: str) -> None:
    op_numbers = op_counts(fold(named_function(name).trace(robot("hyq"))))
    counts = tuple(op_numbers[key] for key in ("mul", "mul_const", "add", "reciprocal"))
    assert all(x <= most for x, most in zip(counts, MOST[name], strict=True)), counts


def test_a_base_that_floats_answers_alone_to_its_own_displacement() -> None:
    graph = fold(graph_of("hyq", "fd_derivatives"))
    zero = {word for word, node in graph.outputs if graph.nodes[node].op == "const"}
    assert {f"dqdd_dq[{i},{j}]" for i in range(18) for j in range(3)} <= zero
    assert {f"dqdd_dq[{i},{j}]" for i in range(3, 18) for j in range(3, 6)} <= zero
    assert {f"dqdd_dqd[{i},{j}]" for i in range(3, 18) for j in range(3)} <= zero
    uses = graph.uses()
    read = {n.params[0] for k, n in enumerate(graph.nodes) if n.op == "input" and uses[k]}
    assert set(graph.inputs) - read == {"q[0]", "q[1]", "q[2]"}, "where it is, is not felt"


@pytest.mark.parametrize("name", ["ball", "cart", "gripper"])
def test_the_reduced_graph_is_the_float_model(name: str) -> None:
    row, model = named_function("rnea"), robot(name)
    costs: Costs = DatapathCosts()
    graph = reduced_graph(model, row, costs=costs)
    less, folded = op_counts(graph), op_counts(fold(graph_of(name, "rnea")))
    products, before = (x["mul"] + x["mul_const"] for x in (less, folded))
    assert products < before or (name == "ball" and less == folded), "which has nothing to spare"
    check(row, model, graph, drawn(row, model, 34))
    rounded = drawn(row, model, 34)
    rounded["q"] = rounded["q"].astype(np.float32).astype(np.float64)
    check(row, model, graph, rounded)


def test_states_to_search_in_break_the_length_of_a_quaternion() -> None:
    model, row = robot("hyq"), named_function("crba")
    states = independent_states(model, row, 20, seed=1)
    lengths = np.sqrt(sum(states[f"q[{k}]"] ** 2 for k in range(3, 7)))
    assert np.abs(lengths - 1.0).max() > 0.05 > np.abs(lengths - 1.0).min()


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_states_of_any_joint_are_positions(distribution: str) -> None:
    model, row = robot("tree 9"), named_function("aba")
    arrays = sample(model, row, 30, distribution=distribution, seed=3)
    assert arrays["q"].shape == (30, model.nq) and arrays["qd"].shape == (30, model.nv)
    dynamics.aba(model, arrays["q"], arrays["qd"], arrays["tau"])  # raises for a wrong length


# -- user-defined functions, and the terms of joints -----------------------------------------------


def own(name: str) -> Function:
    """A function that is not in the table: inverse dynamics or a gradient with joints' terms."""
    q = Block(name="q", shape=("nq",), unit="rad | m", sampling=Quantity.POSITION)
    qd = Block(name="qd", shape=("nv",), unit="rad/s | m/s", sampling=Quantity.VELOCITY)
    third = Block(name="u", shape=("nv",), unit="any", sampling=Quantity.ACCELERATION)
    vector = Block(name="y", shape=("nv",), unit="any")
    matrices = [Block(name=n, shape=("nv", "nv"), unit="any") for n in ("by_q", "by_qd")]
    minv = Block(name="minv", shape=("nv", "nv"), unit="any", symmetric=True)
    terms = {"joint_terms": True}
    if name == "rnea":
        return Function(
            name=name,
            doc="",
            inputs=(q, qd, third),
            outputs=(vector,),
            scalars=lambda m, *x, region: (dynamics.rnea_scalars(m, *x, region=region, **terms),),
            floats=lambda m, *x: (dynamics.rnea(m, *x, **terms),),
        )
    if name == "aba":
        return Function(
            name=name,
            doc="",
            inputs=(q, qd, third),
            outputs=(vector,),
            scalars=lambda m, *x, region: (dynamics.aba_scalars(m, *x, region=region, **terms),),
            floats=lambda m, *x: (dynamics.aba(m, *x, **terms),),
        )

    def scalars(m, *x, region):  # type: ignore[no-untyped-def]
        gradient = dynamics.fd_derivatives_scalars(m, *x, region=region, **terms)
        return gradient.qdd, gradient.dqdd_dq, gradient.dqdd_dqd, gradient.minv

    return Function(
        name=name,
        doc="",
        inputs=(q, qd, third),
        outputs=(vector, *matrices, minv),
        scalars=scalars,
        floats=lambda m, *x: dynamics.fd_derivatives(m, *x, **terms),
    )


@pytest.mark.parametrize("name", ["rnea", "aba", "fd_derivatives"])
@pytest.mark.parametrize("base", ["cart", "tree 9", "tree 24"])
def test_armature_damping_and_friction_are_traced(base: str, name: str) -> None:
    model = with_terms(robot(base), np.random.default_rng(5))
    row = own(name)
    check(row, model, row.trace(model), drawn(row, model, 35))


def test_they_are_traced_for_cores_too() -> None:
    model = with_terms(load("iiwa14"), np.random.default_rng(6))
    row = own("aba")
    check(row, model, row.trace(model), drawn(row, model, 36))


@pytest.mark.parametrize("name", ["hyq", "tree 24"])
def test_a_function_of_links_runs_on_scalars_alone(name: str) -> None:
    q = Block(name="q", shape=("nq",), unit="rad | m", sampling=Quantity.POSITION)
    qd = Block(name="qd", shape=("nv",), unit="rad/s | m/s", sampling=Quantity.VELOCITY)
    row = Function(
        name="energies",
        doc="",
        inputs=(q, qd),
        outputs=(Block(name="e", shape=(2,), unit="J"), Block(name="c", shape=(3,), unit="m")),
        scalars=lambda model, q, qd, *, region: (
            [
                dynamics.kinetic_energy_scalars(model, q, qd),
                dynamics.potential_energy_scalars(model, q),
            ],
            dynamics.centre_of_mass_scalars(model, q),
        ),
        joint_space=False,
    )
    model = robot(name)
    arrays = drawn(row, model, 37)
    check(row, model, row.trace(model), arrays)
    results = row.evaluate(model, arrays)
    energies = dynamics.kinetic_energy(model, arrays["q"], arrays["qd"])
    np.testing.assert_allclose(results["e"][:, 0], energies, rtol=1e-12)
    centre = dynamics.centre_of_mass(model, arrays["q"])
    np.testing.assert_allclose(results["c"], centre, rtol=0, atol=1e-12)


# -- what is refused -------------------------------------------------------------------------------


def test_the_gradient_by_columns_is_refused() -> None:
    row = named_function("fd_derivatives", derivatives="column")
    with pytest.raises(
        FunctionError,
        match=r"'fd_derivatives' cannot.*by columns.*'composite' \(--d",
    ):
        row.trace(robot("hyq"))


def test_friction_that_jumps_is_refused() -> None:
    model = with_terms(robot("hyq"), np.random.default_rng(7))
    row = replace(named_function("rnea"), joint_terms=("friction",), friction_width=0.0)
    with pytest.raises(
        FunctionError, match=r"'rnea' cannot be traced: .* a positive friction_width"
    ):
        row.trace(model)


@pytest.mark.parametrize("row", [row for row in ROWS if row.passive], ids=label)
@pytest.mark.parametrize("name", ["higher two_link", "higher floating hyq"])
def test_terms_of_higher_orders(name: str, row: Function) -> None:
    model = robot_with_terms(name)
    with_all_terms = row.with_terms(True)
    check(with_all_terms, model, with_all_terms.trace(model), drawn(with_all_terms, model, 6))
