"""Cores of floating robots, of mimic joints, and of joints with several positions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.api import backend
from pinion.cosim.verify import verify
from pinion.dynamics.coupled import elimination_parents
from pinion.dynamics.ltdl import factors, inverse
from pinion.flow.build import Build
from pinion.flow.objective import objective_timing
from pinion.formats import FormatPlan, lower
from pinion.functions import (
    FUNCTIONS,
    Function,
    named_function,
    position_limits,
    sample,
    velocity_limits,
)
from pinion.functions.samples import DISTRIBUTIONS
from pinion.graph import evaluate_floats, op_counts
from pinion.graph.passes import fold
from pinion.hls import operations
from pinion.hls.schedule.modulo import unit_counts
from pinion.hls.sums import gather_dots
from pinion.robot import (
    JointKind,
    Model,
    RobotError,
    coupled,
    load,
    load_text,
    ties,
    uncoupled,
    with_contacts,
)
from pinion.robot.model import Mimic
from tests.support.breadth import some_rows
from tests.support.builds import build
from tests.support.rows import OF_ADDING

Array = NDArray[np.float64]

PLAN = FormatPlan.parse("q16.16")
GRIPPER = Path(__file__).parents[2] / "examples" / "gripper.urdf"


def solid(mass: float, com: str) -> str:
    return (
        f'<inertial><origin xyz="{com}"/><mass value="{mass}"/>'
        f'<inertia ixx="{0.04 * mass}" ixy="0.002" ixz="-0.001" iyy="{0.05 * mass}" iyz="0.003" '
        f'izz="{0.03 * mass}"/></inertial>'
    )


def leg(side: str, y: float) -> str:
    return (
        f'<link name="{side}_leg">{solid(1.2, "0.01 0 -0.2")}</link>'
        f'<joint name="{side}_hip" type="revolute"><parent link="trunk"/><child link="{side}_leg"/>'
        f'<origin xyz="0.05 {y} -0.1"/><axis xyz="0 1 0"/>'
        '<limit lower="-1.2" upper="1.2" velocity="4" effort="40"/></joint>'
    )


def biped() -> Model:
    """A floating trunk with two legs of one joint each."""
    text = f'<link name="trunk">{solid(6.0, "0.02 0.01 0.05")}</link>'
    legs = leg("left", 0.15) + leg("right", -0.15)
    return load_text(f'<robot name="biped">{text}{legs}</robot>', floating_base=True)


def gripper() -> Model:
    return load(GRIPPER)


ROBOTS = {"biped": biped, "gripper": gripper}


# Each simulation takes seconds to compile.
CASES = (
    ("biped", "rnea"),
    pytest.param(("gripper", "aba"), marks=pytest.mark.slow),
    pytest.param(("biped", "aba"), marks=pytest.mark.slow),
    pytest.param(("gripper", "rnea"), marks=pytest.mark.slow),
)


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    robot, name = request.param
    where = tmp_path_factory.mktemp(robot) / name
    build(ROBOTS[robot](), name, where, ii=16)
    return where


def test_cores_are_the_integers_and_answer_through_the_driver(folder: Path) -> None:
    core_build = Build.read(folder)
    for distribution in ("reference", "beyond"):
        figures = verify(folder, samples=500, seed=3, distribution=distribution)
        assert figures["mismatches"] == 0 and figures["wrong_unflagged"] == 0, figures
        assert figures["ok"] or distribution != "reference", figures
    sent = sample(core_build.model, core_build.function, 20, distribution="reference", seed=4)
    row = named_function(core_build.function.name)
    want = row.evaluate(core_build.model, {name: x.astype(float) for name, x in sent.items()})
    robot, modified = ROBOTS[core_build.model.name](), (folder / "manifest.json").stat().st_mtime_ns
    with backend(robot, row, device="sim", folder=folder, ii=16) as card:
        assert (folder / "manifest.json").stat().st_mtime_ns == modified, "built again for nothing"
        result = card.run(**sent)
        for name, values in want.items():
            assert result[name].shape == values.shape
            assert np.abs(result[name] - values).max() < 2e-2 * np.abs(values).max()
        if core_build.model.name == "biped":
            moved = {**sent, "q": sent["q"].copy()}
            moved["q"][:, :3] = 7.25
            moved_result = card.run(**moved)
            for name in want:
                np.testing.assert_array_equal(moved_result[name], result[name])


# -- quaternions -----------------------------------------------------------------------------------


def words(row: Function, model: Model, arrays: dict[str, Array]) -> dict[str, Array]:
    columns = {}
    for block in row.inputs:
        flat = arrays[block.name].reshape(len(arrays[block.name]), -1)
        columns |= {word: flat[:, at] for word, at in block.positions(model).items()}
    return columns


def test_a_quaternion_off_unit_length_costs_the_square_of_what_it_is_off() -> None:
    model, row = biped(), named_function("rnea")
    sent = sample(model, row, 200, distribution="reference", seed=6)
    arrays = {name: x.astype(np.float64) for name, x in sent.items()}
    arrays["q"] = dynamics.normalise(model, arrays["q"])
    graph = fold(row.trace(model))
    assert op_counts(graph)["reciprocal"] == 0
    exact = evaluate_floats(graph, words(row, model, arrays))
    largest = max(np.max(np.abs(x)) for x in exact.values())
    for off in (1e-6, 1e-3):
        longer = {**arrays, "q": arrays["q"].copy()}
        longer["q"][:, 3:7] *= 1.0 + off
        floats = evaluate_floats(graph, words(row, model, longer))
        error = max(np.max(np.abs(floats[w] - exact[w])) for w in exact) / largest
        squared = (2.0 * off) ** 2  # error of its squared length
        assert 0.1 * squared < error < 2.0 * squared, (off, error)


def test_states_of_cores_have_quaternions_of_unit_length_at_corners_too() -> None:
    model, row = biped(), named_function("rnea")
    for distribution in DISTRIBUTIONS:
        for corners in (False, True):
            q = sample(model, row, 50, distribution=distribution, seed=7, corners=corners)["q"]
            assert np.abs(np.linalg.norm(q[:, 3:7].astype(float), axis=1) - 1.0).max() < 2e-7


@pytest.mark.slow
@pytest.mark.parametrize("kind", [JointKind.SPHERICAL, JointKind.PLANAR, JointKind.HELICAL])
def test_a_core_has_joints_of_every_kind(kind: JointKind, tmp_path: Path) -> None:
    arm = load("two_link")
    joint = replace(arm.bodies[0].joint, kind=kind, pitch=0.1 if kind is JointKind.HELICAL else 0.0)
    bodies = (replace(arm.bodies[0], joint=joint), arm.bodies[1])
    model = replace(arm, bodies=bodies, rated_velocity=(1.5,) * (kind.nv + 1))
    build(model, "rnea", tmp_path / "core", ii=16)
    figures = verify(tmp_path / "core", samples=200, seed=5)
    assert figures["ok"] and figures["mismatches"] == 0, figures


# -- joints that mimic others ----------------------------------------------------------------------


def test_the_gripper_is_that_of_pinocchio() -> None:
    model = coupled(gripper())
    # Pinocchio has no ties to tied joints: there the right tip follows the leader directly.
    tie = '<mimic joint="left_tip" multiplier="-1"/>'
    text = GRIPPER.read_text()
    assert text.count(tie) == 1
    straight = text.replace(tie, '<mimic joint="grip" multiplier="12" offset="-0.25"/>')
    theirs = pin.buildModelFromXML(straight, True)
    assert (model.nq, model.nv, theirs.nv) == (3, 3, 3)
    names = [b.joint.name for b in model.bodies if not model.follows(b)]
    order = np.array([theirs.joints[theirs.getJointId(name)].idx_v for name in names])
    rng = np.random.default_rng(8)
    print("seed 8")
    row, data = named_function("rnea"), theirs.createData()
    q, qd, qdd = rng.uniform(-1.0, 1.0, (3, 10, 3))
    tau = row.evaluate(gripper(), {"q": q, "qd": qd, "qdd": qdd})["tau"]
    M = named_function("crba").evaluate(gripper(), {"q": q})["M"]
    for k in range(10):
        state = np.zeros((3, 3))
        state[:, order] = q[k], qd[k], qdd[k]
        want = np.array(pin.rnea(theirs, data, *state))[order]
        assert np.abs(tau[k] - want).max() <= 1e-11 * np.abs(want).max()
        full = np.array(pin.crba(theirs, data, state[0]))
        full = (np.triu(full) + np.triu(full, 1).T)[np.ix_(order, order)]
        assert np.abs(M[k] - full).max() <= 1e-11 * np.abs(full).max()


def tied_tree() -> Model:
    """HyQ on a floating base with legs tied across branches, which causes fill-in."""
    model = load("hyq", floating_base=True)
    names = model.joint_names
    follows = {4: (2, -1.0, 0.1), 8: (5, 0.5, 0.0), 9: (4, 2.0, -0.2), 12: (3, 1.0, 0.0)}
    bodies = list(model.bodies)
    for k, (leader, ratio, offset) in follows.items():
        mimic = Mimic(joint=names[leader], multiplier=ratio, offset=offset)
        bodies[k] = replace(bodies[k], joint=replace(bodies[k].joint, mimic=mimic))
    return replace(model, bodies=tuple(bodies))


def test_elimination_follows_the_entries_that_ties_make() -> None:
    model = coupled(gripper())
    assert elimination_parents(model) == (-1, 0, 1)
    # Two legs on one base, without ties and with the feet tied to each other's hips.
    legs = load("hyq", lock=dict.fromkeys(load("hyq").joint_names[6:]))
    assert elimination_parents(legs) == (-1, 0, 1, -1, 3, 4)
    names, bodies = legs.joint_names, list(legs.bodies)
    for k, leader in ((2, 3), (5, 0)):
        joint = replace(bodies[k].joint, mimic=Mimic(joint=names[leader], multiplier=0.5))
        bodies[k] = replace(bodies[k], joint=joint)
    tied = coupled(replace(legs, bodies=tuple(bodies)))
    parents = elimination_parents(tied)
    assert parents == (-1, 0, 1, 2)
    M = dynamics.crba(tied, [0.3, -0.4, 0.2, 0.5]).tolist()
    inverse_matrix = inverse(parents, factors(parents, M))
    assert np.allclose(inverse_matrix, np.linalg.inv(M), rtol=1e-10, atol=0)
    tree = (-1, 0, -1, 2)  # the way to the base
    assert not np.allclose(inverse(tree, factors(tree, M)), np.linalg.inv(M), rtol=1e-3, atol=0)


# Positions of a floating base do not add.
REFUSED = tuple((name, "floating") for name in OF_ADDING)
# Four times forward dynamics, which takes seconds to trace.
LONG = (("rk4_step", "fixed"), ("rk4_step", "floating"))
TRACED = some_rows(
    [(n, b) for n in FUNCTIONS for b in ("fixed", "floating") if (n, b) not in REFUSED],
    lambda name, base: (name, base) not in LONG,
)


@pytest.mark.parametrize(("name", "base"), TRACED)
def test_coupled_traces_are_the_arrays_with_dense_matrices(name: str, base: str) -> None:
    model = replace(tied_tree(), tips=("lh_lowerleg",))
    if base == "fixed":  # only ties couple the legs
        bodies = [replace(b, parent=max(b.parent - 1, -1)) for b in model.bodies[1:]]
        rated = model.rated_velocity[6:]
        model = replace(model, bodies=tuple(bodies), frames=(), rated_velocity=rated)
    model = with_contacts(model, ["lf_lowerleg:6d", "rh_lowerleg"])
    row = named_function(name, outputs=named_function(name).optional)
    print("seed 9")
    sent = sample(model, row, 10, distribution="reference", seed=9)
    arrays = {key: x.astype(np.float64) for key, x in sent.items()}
    arrays["q"] = dynamics.normalise(coupled(model), arrays["q"])
    results, want = (
        evaluate_floats(row.trace(model), words(row, model, arrays)),
        row.evaluate(model, arrays),
    )
    for block in row.results:
        flat = want[block.name].reshape(10, -1)
        scale = np.abs(flat).max(axis=1)
        for word, at in block.positions(model).items():
            assert np.all(np.abs(results[word] - flat[:, at]) <= 1e-10 * scale), word


def test_a_tie_that_is_wrong_is_seen() -> None:
    model, row = gripper(), named_function("rnea")
    other = list(model.bodies)
    joint = other[3].joint
    assert joint.mimic is not None
    other[3] = replace(other[3], joint=replace(joint, mimic=replace(joint.mimic, offset=0.2)))
    arrays = {
        k: x.astype(float)
        for k, x in sample(model, row, 10, distribution="reference", seed=2).items()
    }
    right = row.evaluate(model, arrays)["tau"]
    wrong = row.evaluate(replace(model, bodies=tuple(other)), arrays)["tau"]
    assert np.abs(wrong - right).max() > 1e-6 * np.abs(right).max()


def test_followers_stay_within_their_limits_and_speeds() -> None:
    model = coupled(gripper())
    sent = sample(model, named_function("rnea"), 400, distribution="reference", seed=1)
    tied = dynamics.reduce_mimic(model)
    every, rates = tied.positions(sent["q"]), tied.rates(sent["qd"])
    for k, body in enumerate(model.bodies):
        assert np.all(every[:, k] >= body.joint.lower - 1e-6), body.joint.name
        assert np.all(every[:, k] <= body.joint.upper + 1e-6), body.joint.name
        assert np.all(np.abs(rates[:, k]) <= model.rated_velocity[k] + 1e-6), body.joint.name
    assert position_limits(model)[1][2] == pytest.approx(
        0.55 / 12
    )  # the left tip's range, not 0.05
    assert velocity_limits(model, "stress")[2] == pytest.approx(0.2)
    fast = replace(model, rated_velocity=(2.0, 3.0, 1.0, 3.0, 1.0, 9.0))
    assert velocity_limits(fast, "reference")[2] == pytest.approx(0.25)


def test_a_follower_whose_limits_were_left_at_zero_does_not_hold_its_leader() -> None:
    model = gripper()
    *others, last = model.bodies
    unset = replace(last.joint, lower=0.0, upper=0.0)
    bodies = (*others, replace(last, joint=unset))
    low, high = position_limits(replace(model, bodies=bodies))
    expected = position_limits(replace(model, bodies=tuple(others)))
    np.testing.assert_array_equal((low, high), expected)
    assert low[2] < high[2]


@pytest.mark.parametrize("floating_base", [False, True])
def test_a_coupled_robot_takes_steps_with_their_gradient(floating_base: bool) -> None:
    heavy = (
        '<link name="base"><inertial><mass value="5"/>'
        '<inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>'
    )
    text = GRIPPER.read_text(encoding="utf-8").replace('<link name="base"/>', heavy)
    model = coupled(load_text(text, floating_base=floating_base))
    rng = np.random.default_rng(3)
    q = dynamics.random_configuration(model, rng)
    qd, tau = rng.uniform(-0.2, 0.2, (2, model.nv))
    dt = 1e-3
    rates = qd + dt * dynamics.aba(model, q, qd, tau)
    after = dynamics.discrete_dynamics(model, q, qd, tau, dt)
    np.testing.assert_allclose(after[1], rates, rtol=1e-12)
    np.testing.assert_allclose(after[0], dynamics.integrate(model, q, dt * rates), rtol=1e-12)
    A, B = dynamics.discrete_derivatives(model, q, qd, tau, dt)
    for k in range(model.nv):
        d = 1e-6 * np.eye(model.nv)[k]
        moved = [
            dynamics.discrete_dynamics(model, dynamics.integrate(model, q, u), qd, tau, dt)
            for u in (d, -d)
        ]
        by_q = np.concatenate(
            [dynamics.difference(model, moved[1][0], moved[0][0]), moved[0][1] - moved[1][1]]
        )
        np.testing.assert_allclose(A[:, k], by_q / 2e-6, rtol=1e-5, atol=1e-5)
    assert B.shape == (2 * model.nv, model.nv)


def test_scalars_of_a_coupled_robot_may_be_entries_of_an_array() -> None:
    model = coupled(gripper())
    q, qd, qdd = np.random.default_rng(5).uniform(-0.1, 0.1, (3, model.nv))
    from_arrays = dynamics.rnea_scalars(model, q, qd, qdd)
    assert from_arrays == dynamics.rnea_scalars(model, q.tolist(), qd.tolist(), qdd.tolist())


def test_a_coupled_model_is_made_once_and_undone() -> None:
    model = gripper()
    tied = coupled(model)
    assert coupled(tied) is tied and uncoupled(tied) == model and load("hyq") is not None
    assert [tie.ratio for tie in ties(model)] == [1.0, 1.0, 1.0, -12.0, -1.0, 12.0]
    assert model.nv == 6 and model.v_slices[5] == slice(5, 6) and tied.v_slices[5] == slice(3, 3)
    plain = load("two_link")
    assert coupled(plain) is plain
    bodies = list(model.bodies)
    bodies[2] = replace(bodies[2], joint=replace(bodies[2].joint, mimic=Mimic(joint="left_tip")))
    with pytest.raises(RobotError, match="form a cycle"):
        coupled(replace(model, bodies=tuple(bodies)))


# -- a quadruped -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_floating_quadruped(tmp_path: Path) -> None:
    build(load("hyq", floating_base=True), "rnea", tmp_path / "core", ii=16)
    figures = verify(tmp_path / "core", samples=200, seed=1)
    assert figures["ok"] and figures["mismatches"] == 0, figures


@pytest.mark.slow
def test_derivatives_on_a_floating_base(tmp_path: Path) -> None:
    # On a floating base, accelerations in q16.16 are off by more than 1e-2.
    build(biped(), "fd_derivatives", tmp_path / "core", ii=64, max_error=0.3)
    figures = verify(tmp_path / "core", samples=200, seed=1)
    assert figures["ok"] and figures["mismatches"] == 0, figures


def multipliers(model: Model, ii: int) -> int:
    """Return the multipliers of inverse dynamics at an interval."""
    timing = objective_timing("area", PLAN)
    graph = gather_dots(
        fold(named_function("rnea").trace(model)),
        timing,
        widths=(2,),
        ii=ii,
        patience=1.0,
        addends=True,
    )
    units = unit_counts(operations(lower(graph, PLAN), timing), ii)
    return sum(kind.products * count for kind, count in units.items() if kind.name == "dot")


def test_equal_legs_share_units() -> None:
    """One leg's multipliers compute four legs in four times the cycles."""
    leg, quadruped = load("hyq", tip="lf_lowerleg"), load("hyq")
    assert multipliers(quadruped, 32) == multipliers(leg, 8)
    assert multipliers(quadruped, 8) < 4 * multipliers(leg, 8)
