"""The ready-made rows: graphs equal float models, draws make sense, errors are sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.functions import FUNCTIONS, Function, named_function, reduced_graph, sample
from pinion.functions.row import word_columns
from pinion.functions.samples import FORCE_LEVER, FORCE_SHARE, QDD_RANGE
from pinion.graph import Graph, evaluate_floats, names, op_counts
from pinion.graph.passes import fold
from pinion.hls.costs import DatapathCosts
from pinion.robot import Model, RobotError, load
from tests.dynamics.general.oracle import with_terms
from tests.support.breadth import some_rows
from tests.support.rows import JACOBIANS, NEW, OF_ADDING, OF_TIPS, SECOND_ORDER, has, robot

Array = NDArray[np.float64]

SEED = 23
ROBOTS = ("iiwa14", "hyq", "leg", "floating hyq", "floating leg")
LONG = ("rk4_step", "euler_step", "step_second_derivatives", "fd_second_derivatives")
"""Rows of many operations, which a chain on either base has as a tree does."""

CASES = [
    (row, name)
    for name in ROBOTS
    for row in NEW
    if has(name, row) and (row not in LONG or name in ("iiwa14", "floating leg"))
]


def drawn(row: Function, model: Model, count: int = 30, seed: int = SEED) -> dict[str, Array]:
    print(f"seed {seed}")
    sent = sample(model, row, count, distribution="reference", seed=seed)
    arrays = {name: values.astype(np.float64) for name, values in sent.items()}
    return arrays | {"q": dynamics.normalise(model, arrays["q"])}


def check(row: Function, model: Model, graph: Graph, arrays: dict[str, Array]) -> None:
    """The graph's results equal the float model's, to 1e-11 of each block's largest entry."""
    count = len(arrays["q"])
    columns = word_columns(row.inputs, model, arrays)
    traced, want = evaluate_floats(graph, columns), row.evaluate(model, arrays)
    assert [word for word, _ in graph.outputs] == [w for b in row.results for w in b.words(model)]
    for block in row.results:
        assert want[block.name].shape == (count, *block.dims(model))
        flat = want[block.name].reshape(count, -1)
        scale = np.abs(flat).max()
        assert scale > 0
        for word, at in block.positions(model).items():
            error = np.abs(traced[word] - flat[:, at])
            assert np.all(error <= 1e-11 * scale), f"{word} is off by {np.max(error / scale)}"
        if block.symmetric:
            assert np.array_equal(want[block.name], np.swapaxes(want[block.name], 1, 2))


@pytest.mark.parametrize(
    ("row", "name"), some_rows(CASES, lambda row, name: name not in ("hyq", "leg")), ids=str
)
def test_the_graph_is_the_float_model(row: str, name: str) -> None:
    model, function_row = robot(name), FUNCTIONS[row].asked(FUNCTIONS[row].optional)
    arrays = drawn(function_row, model)
    check(function_row, model, function_row.trace(model), arrays)
    if function_row.joint_space:
        check(function_row, model, function_row.trace(model, minimal=False), arrays)


@pytest.mark.parametrize("row", NEW)
def test_every_operation_has_its_region(row: str) -> None:
    """For reports, error messages and floorplans."""
    graph = fold(FUNCTIONS[row].trace(robot("iiwa14")))
    bare = [n for n in graph.nodes if n.region is None and n.op not in (names.INPUT, names.CONST)]
    lines = sorted({f"{n.op} at {n.line}" for n in bare})
    assert not bare, (
        f"operations of {row} have no region, {', '.join(lines)}: compute them inside "
        '`with region("NAME"):`, and pass `region` on to each function that is called'
    )


def test_an_array_is_one_thing_in_all_rows() -> None:
    """Host code, pages and drivers know an array only by its name."""
    kinds: dict[str, dict[tuple[object, str], list[str]]] = {}
    for row in FUNCTIONS.values():
        for block in (*row.inputs, *row.outputs):
            rows = kinds.setdefault(block.name, {}).setdefault((block.shape, block.unit), [])
            rows.append(row.name)
    for name, rows_by_kind in kinds.items():
        kinds_text = "; ".join(
            f"{shape} in {unit!r} in {rows}" for (shape, unit), rows in rows_by_kind.items()
        )
        assert len(rows_by_kind) == 1, (
            f"the array {name!r} has several shapes or units, {kinds_text}: give the new row's the "
            "existing shape and unit, or another name"
        )


# Variable products, products by a constant, additions and reciprocals of the iiwa14's cores: a
# change that adds operations must say why.
MOST = {
    "rnea_fext": (116, 105, 228, 0),
    "aba_fext": (264, 127, 374, 5),
    "forward_kinematics": (62, 15, 43, 0),
    "frame_jacobian": (76, 15, 77, 0),
    "frame_jacobian_local": (88, 7, 61, 0),
    "frame_jacobian_world": (78, 17, 67, 0),
    "frame_velocity": (120, 10, 74, 0),
    "frame_acceleration": (191, 25, 142, 0),
    "frame_classical_acceleration": (167, 15, 120, 0),
    "frame_drift": (165, 15, 113, 0),
    "frame_jacobian_rate": (284, 17, 233, 0),
    "centre_of_mass": (18, 4, 23, 0),
    "com_jacobian": (81, 10, 59, 0),
    "kinetic_energy": (50, 49, 63, 0),
    "potential_energy": (10, 5, 16, 0),
    "gravity": (28, 14, 26, 0),
    "coriolis": (108, 77, 166, 0),
    "bias": (110, 83, 173, 0),
    "operational_space_inertia": (634, 46, 543, 11),
    "inverse_operational_space_inertia": (514, 46, 448, 5),
    "euler_step": (1824, 268, 1762, 5),
    "rnea_second_derivatives": (1351, 312, 1513, 0),
    "fd_second_derivatives": (3178, 399, 3245, 5),
    "centroidal_momentum": (274, 61, 302, 0),
    "centroidal_rate": (170, 163, 288, 0),
    "centroidal_derivatives": (1543, 681, 1828, 0),
    "step_second_derivatives": (3310, 399, 3252, 5),
    "rk4_step": (12607, 1075, 11902, 20),
    "rnea_regressor": (774, 50, 754, 0),
    "gravity_regressor": (268, 35, 201, 0),
    "kinetic_energy_regressor": (117, 34, 66, 0),
    "potential_energy_regressor": (18, 22, 18, 0),
    "fd_parameter_derivatives": (2809, 262, 2641, 5),
    "constraint_dynamics": (517, 138, 520, 8),
    "constraint_dynamics_derivatives": (2932, 301, 2889, 8),
    "impulse_dynamics": (364, 46, 307, 8),
    "impulse_dynamics_derivatives": (1716, 120, 1493, 8),
    "contact_acceleration": (168, 24, 120, 0),
}


@pytest.mark.parametrize("row", NEW)
def test_a_row_needs_no_more_operations_than_stated(row: str) -> None:
    op_numbers = op_counts(fold(FUNCTIONS[row].trace(robot("iiwa14"))))
    counts = tuple(op_numbers[key] for key in ("mul", "mul_const", "add", "reciprocal"))
    assert row in MOST, f"a new row: write {counts} for {row} into MOST, in {__file__}"
    assert all(x <= most for x, most in zip(counts, MOST[row], strict=True)), counts


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("leg", "rnea_fext"),
        ("leg", "frame_jacobian"),
        # All that it computes vanishes where the one contact is in the air.
        ("iiwa14", "impulse_dynamics_derivatives"),
    ],
)
def test_the_reduced_graph_is_the_float_model(name: str, row: str) -> None:
    model, function_row = robot(name), FUNCTIONS[row]
    check(
        function_row,
        model,
        reduced_graph(model, function_row, costs=DatapathCosts()),
        drawn(function_row, model),
    )


# -- what affects a row ----------------------------------------------------------------------------


@pytest.mark.parametrize("row", NEW)
def test_joints_terms_count_where_the_row_says_so(row: str) -> None:
    model = with_terms(robot("iiwa14"), np.random.default_rng(SEED))
    plain = FUNCTIONS[row]
    with_all_terms = plain.with_terms(True, 0.1)
    if not plain.passive:
        assert with_all_terms is plain
        return
    arrays = drawn(with_all_terms, model)
    check(with_all_terms, model, with_all_terms.trace(model), arrays)
    # Of second derivatives only those by rates: the terms are linear except for friction.
    result = "H_qd_qd" if row == "rnea_second_derivatives" else plain.results[0].name
    without, affected = (
        plain.evaluate(model, arrays)[result],
        with_all_terms.evaluate(model, arrays)[result],
    )
    assert np.abs(affected - without).max() > 1e-6 * np.abs(without).max()


@pytest.mark.parametrize("row", FUNCTIONS)
def test_joint_space_is_what_the_canonical_robot_leaves_alone(row: str) -> None:
    """The minimal iiwa14 has other links, frames and energies, but moves in the same way."""
    model, function_row = robot("iiwa14"), FUNCTIONS[row]
    arrays = drawn(function_row, model, count=5)
    want = function_row.evaluate(model, arrays)
    try:
        results = function_row.evaluate(dynamics.minimal_model(model), arrays)
        same = all(np.abs(results[k] - want[k]).max() <= 1e-9 * np.abs(want[k]).max() for k in want)
    except dynamics.DynamicsError:  # such as no mass for a centre of mass
        same = False
    but = "" if same else "not "
    assert function_row.joint_space is same, (
        f"a new row: write joint_space={same} into {row}, whose results are {but}those of "
        "dynamics.minimal_model"
    )


def lagrangian(model: Model, q: Any, qd: Any, *, region: Any) -> tuple[Any]:
    kinetic = dynamics.kinetic_energy_scalars(model, q, qd, region)
    potential = dynamics.potential_energy_scalars(model, q, region)
    with region("difference"):
        return (kinetic - potential,)


def test_a_row_may_compose_others() -> None:
    """The example of CONTRIBUTING, without a new algorithm or float model."""
    parts = FUNCTIONS["kinetic_energy"], FUNCTIONS["potential_energy"]
    row = Function(
        name="lagrangian",
        doc="kinetic less potential energy",
        inputs=parts[0].inputs,
        outputs=(replace(parts[0].outputs[0], name="lagrange"),),
        scalars=lagrangian,
        joint_space=False,
        passive=False,
    )
    model = robot("iiwa14")
    arrays = drawn(row, model)
    graph = row.trace(model)
    check(row, model, graph, arrays)
    kinetic, potential = (part.evaluate(model, arrays) for part in parts)
    want = kinetic["kinetic"] - potential["potential"]
    assert row.evaluate(model, arrays)["lagrange"] == pytest.approx(want, rel=1e-12)
    assert {node.region.name for node in graph.nodes if node.region} >= {"difference"}


def test_a_jacobian_brings_the_pose_when_it_is_asked() -> None:
    model = robot("leg")
    arrays = drawn(FUNCTIONS["frame_jacobian"], model)
    pose = named_function("forward_kinematics").evaluate(model, arrays)
    for name in JACOBIANS:
        results = named_function(name, outputs=("p", "R")).evaluate(model, arrays)
        assert list(results) == ["J", "R", "p"]
        assert all(np.array_equal(results[key], pose[key]) for key in pose)
        assert list(named_function(name).evaluate(model, arrays)) == ["J"]


def test_a_tip_is_the_link_that_was_named() -> None:
    """The tip is not the last moving body: the foot is fixed to the lower leg and shifted."""
    model, q = robot("leg"), np.zeros((1, 3))
    pose = named_function("forward_kinematics").evaluate(model, {"q": q})
    R, p = dynamics.frame_placement(model, q, "lf_foot")
    assert np.array_equal(pose["R"], R) and np.array_equal(pose["p"], p)
    _, knee = dynamics.frame_placement(model, q, "lf_lowerleg")
    assert np.linalg.norm(p - knee) == pytest.approx(np.linalg.norm((0.33, 0.02, -0.01)))


def test_a_step_is_the_hosts_step() -> None:
    model, row = robot("hyq"), named_function("euler_step")
    arrays, dt = drawn(row, model), 0.004
    arrays["dt"] = np.full(len(arrays["q"]), dt)
    state = [arrays[name] for name in ("q", "qd", "tau")]
    step = row.evaluate(model, arrays)
    for names_of, arrays_of_host in (
        (("q_next", "qd_next"), dynamics.discrete_dynamics(model, *state, dt)),
        (("A", "B"), dynamics.discrete_derivatives(model, *state, dt)),
    ):
        for name, want in zip(names_of, arrays_of_host, strict=True):
            assert np.abs(step[name] - want).max() <= 1e-12 * np.abs(want).max(), name


# -- states ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["iiwa14", "floating hyq"])
def test_external_forces_are_shares_of_the_weight(name: str) -> None:
    model, row = robot(name), named_function("aba_fext")
    weight = 9.81 * sum(body.inertia.mass for body in model.bodies)
    shares = {"reference": 1.0, "slow": 0.1, "rest": 1e-3, "stress": 1.0, "beyond": 2.0}
    for distribution, scale in shares.items():
        sent = sample(model, row, 500, distribution=distribution, seed=4)
        largest = np.abs(sent["fext"]).max(axis=(0, 1))
        ends = scale * FORCE_SHARE * weight * np.array([FORCE_LEVER] * 3 + [1.0] * 3)
        assert np.all(largest <= ends * (1 + 1e-6)) and np.all(largest >= 0.98 * ends)
        # Efforts are those of the motion with its forces: accelerations are realistic.
        arrays = {key: values.astype(np.float64) for key, values in sent.items()}
        arrays["q"] = dynamics.normalise(model, arrays["q"])
        qdd = row.evaluate(model, arrays)["qdd"]
        assert np.abs(qdd).max() <= scale * QDD_RANGE * 1.01


def test_forces_come_at_the_corners_too_and_without_gravity() -> None:
    model, row = replace(robot("leg"), gravity=(0.0, 0.0, 0.0)), named_function("rnea_fext")
    forces = sample(model, row, 50, distribution="reference", seed=5, corners=True)["fext"]
    force = FORCE_SHARE * 9.81 * sum(body.inertia.mass for body in model.bodies)
    assert np.allclose(np.abs(forces[..., 3:]), force, rtol=1e-6)


# -- what is refused -------------------------------------------------------------------------------


def test_what_rows_speak_of_is_found() -> None:
    """They are found by what they refuse, so that a new row needs no entry."""
    operational = {"operational_space_inertia", "inverse_operational_space_inertia"}
    assert set(OF_TIPS) >= {"forward_kinematics", *JACOBIANS, *operational}
    assert set(OF_ADDING) >= set(SECOND_ORDER)
    others = {"rnea_fext", "centre_of_mass", "com_jacobian", "kinetic_energy", "gravity", "bias"}
    assert not others & {*OF_TIPS, *OF_ADDING} and others <= set(NEW)
    assert not set(OF_TIPS) & set(OF_ADDING)


@pytest.mark.parametrize("row", OF_TIPS)
def test_a_robot_of_several_tips_is_asked_which(row: str) -> None:
    model = load("hyq")
    arrays = sample(model, FUNCTIONS[row], 1, distribution="reference", seed=SEED)
    for attempt in (FUNCTIONS[row].trace, lambda m: FUNCTIONS[row].evaluate(m, arrays)):
        with pytest.raises(
            RobotError, match=r"tips, 'lf_lowerleg', .* 'rh_lowerleg': .* tip='lf_lowerleg'"
        ):
            attempt(model)


def test_a_held_leg_is_no_tip() -> None:
    joints = [n for n in load("hyq").joint_names if not n.startswith("rf_")]
    leg = load("hyq", lock=dict.fromkeys(joints))
    assert named_function("forward_kinematics").trace(leg).inputs == ("q[0]", "q[1]", "q[2]")


def test_an_inertia_without_damping_needs_six_ways_to_move() -> None:
    model, q = robot("leg"), [0.1, 0.2, 0.3]
    message = r"The link 'lf_foot' .* only 3 degrees of freedom; .* at least 6, or a positive"
    with pytest.raises(dynamics.DynamicsError, match=message):
        dynamics.operational_space_inertia(model, q, "lf_foot")
    with pytest.raises(dynamics.DynamicsError, match=message):
        dynamics.operational_space_inertia_scalars(model, q, "lf_foot")
    inertia = dynamics.operational_space_inertia(model, q, "lf_foot", 0.5)
    # In three directions there is only the damping.
    assert np.linalg.eigvalsh(inertia)[-3:] == pytest.approx(2.0, rel=1e-9)


def test_a_damping_of_an_inertia_is_refused_unless_it_is_finite_and_at_least_0() -> None:
    model, q = robot("leg"), np.zeros((2, 3))
    for damping in (-0.5, [0.1, -0.5], [0.1, np.nan], np.inf, [0.1, 0.2, 0.3]):
        with pytest.raises(dynamics.DynamicsError, match=r"damping is .*: pass a finite number"):
            dynamics.operational_space_inertia(model, q, "lf_foot", damping)


def test_an_inertia_without_damping_is_the_inverse_of_the_mobility() -> None:
    model = robot("floating leg")
    q = drawn(FUNCTIONS["gravity"], model, count=5)["q"]
    mobility = dynamics.inverse_operational_space_inertia(model, q, "lf_foot")
    inertia = dynamics.operational_space_inertia(model, q, "lf_foot")
    assert np.abs(inertia @ mobility - np.eye(6)).max() <= 1e-9
    for k in range(5):
        scalars = dynamics.operational_space_inertia_scalars(model, list(q[k]), "lf_foot")
        assert np.abs(np.array(scalars) - inertia[k]).max() <= 1e-10 * np.abs(inertia[k]).max()


def test_a_stretched_arm_has_no_inertia() -> None:
    with pytest.raises(dynamics.DynamicsError, match=r"singular|every direction"):
        dynamics.operational_space_inertia(load("iiwa14"), np.zeros(7), "iiwa_link_7")
