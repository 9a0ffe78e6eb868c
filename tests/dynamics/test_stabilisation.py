"""Gains against the drift of contacts and loops: Pinocchio, differences and a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.api import backend
from pinion.dynamics import DynamicsError, constraint_dynamics, constraint_dynamics_derivatives
from pinion.dynamics.stabilisation import Stabilisation
from pinion.functions import FunctionError, named_function, options_from_text, sample
from pinion.robot import Model, contacts_of, load, urdf_text
from tests.dynamics import test_constraints, test_loops
from tests.dynamics.models import relative_error
from tests.support.rows import robot as two_link

Array = NDArray[np.float64]

GAINS = (
    ("velocity_gain",),
    ("position_gain", "target"),
    ("velocity_gain", "position_gain", "target"),
)

ROBOTS = {
    "hyq": test_constraints,
    "one face of hyq": test_constraints,
    "arm on a wall": test_constraints,
    "tied tree 3": test_constraints,
    "hyq 6d": test_loops,
    "along 3d": test_loops,
    "on the base 3d": test_loops,
    "tied tree 1 3d": test_loops,
}


def robot(name: str) -> Model:
    model: Model = ROBOTS[name].robot(name)
    return model


def gains(model: Model, seed: int, names: tuple[str, ...] = GAINS[-1]) -> dict[str, Any]:
    """Return gains and targets that are apart for each contact."""
    rng, count = np.random.default_rng(seed), len(contacts_of(model))
    every = {
        "velocity_gain": rng.uniform(1.0, 5.0, count),
        "position_gain": rng.uniform(5.0, 25.0, count),
        "target": rng.normal(size=(count, 3)),
    }
    return {name: every[name] for name in names}


@pytest.mark.parametrize("reference", ["local", "local_world_aligned"])
def test_pinocchio_agrees(reference: str) -> None:
    peer = pin.buildModelFromXML(urdf_text("hyq"), pin.JointModelFreeFlyer())
    origins = [np.array([0.3, 0.01 * k, 0.02]) for k in range(4)]
    contacts = list(zip(test_constraints.LEGS, origins, [3] * 4, strict=True))
    model = load(peer, contacts=[f"{link}@{','.join(map(str, r))}" for link, r, _ in contacts])
    pulls = gains(model, 1)
    q, qd, tau = test_constraints.states(model, 3, 5)
    for k in range(len(q)):
        data, peers, datas = test_constraints.of_pinocchio(peer, contacts, reference)
        for number, constraint in enumerate(peers):
            constraint.joint2_placement = pin.SE3(np.eye(3), pulls["target"][number])
            constraint.m_baumgarte_parameters.Kp = pulls["position_gain"][number]
            constraint.m_baumgarte_parameters.Kd = pulls["velocity_gain"][number]
        settings = pin.ProximalSettings(1e-14, 0.0, 1)
        want = pin.constraintDynamics(peer, data, q[k], qd[k], tau[k], peers, datas, settings)
        qdd, force = constraint_dynamics(model, q[k], qd[k], tau[k], reference=reference, **pulls)
        assert relative_error(qdd, want) < 1e-10
        assert relative_error(force, np.array(data.lambda_c)) < 1e-9


CASES = [(name, GAINS[-1], "local") for name in ROBOTS]
CASES += [(name, names, "local") for name in ("hyq", "hyq 6d") for names in GAINS[:2]]
CASES += [(name, GAINS[-1], "local_world_aligned") for name in ("hyq 6d", "one face of hyq")]


@pytest.mark.parametrize(("name", "names", "reference"), CASES)
def test_gradients_are_those_of_differences(
    name: str, names: tuple[str, ...], reference: str
) -> None:
    model, damping, h = robot(name), 1e-3, 1e-6
    active = np.ones(len(contacts_of(model)))
    if len(active) > 1:
        active[1] = 0.0
    options: dict[str, Any] = gains(model, 2, names) | {"reference": reference}
    q, qd, tau = (np.repeat(x, model.nv, axis=0) for x in test_constraints.states(model, 1, 3))
    state = q[0], qd[0], tau[0]
    gradient = constraint_dynamics_derivatives(model, *state, active, damping, **options)

    def moved(by_q: Array, by_qd: Array) -> tuple[Array, Array]:
        at = dynamics.integrate(model, q, by_q)
        return constraint_dynamics(model, at, qd + by_qd, tau, active, damping, **options)

    steps, still = h * np.eye(model.nv), np.zeros((model.nv, model.nv))
    for variable, e, f in (("dq", steps, still), ("dqd", still, steps)):
        results = zip(("qdd", "force"), moved(e, f), moved(-e, -f), strict=True)
        for name_of, after, before in results:
            result = getattr(gradient, f"d{name_of}_{variable}")
            assert relative_error(result, (after - before).T / (2.0 * h)) < 1e-6


def test_a_turn_of_the_axes_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    none = property(lambda stabilisation: [(0.0, 0.0, 0.0)] * 9)
    with monkeypatch.context() as patch:
        patch.setattr(Stabilisation, "_distances", none)
        with pytest.raises(AssertionError):
            test_pinocchio_agrees("local")
    turns = Stabilisation._turns
    patched = lambda self, number: [[0.0] * len(row) for row in turns(self, number)]  # noqa: E731
    monkeypatch.setattr(Stabilisation, "_turns", patched)
    with pytest.raises(AssertionError):
        test_gradients_are_those_of_differences("hyq", GAINS[1], "local")


@pytest.mark.parametrize("name", ["hyq", "hyq 6d"])
def test_gains_of_zero_and_contacts_in_the_air_change_nothing(name: str) -> None:
    model = robot(name)
    state = [x[0] for x in test_constraints.states(model, 1, 6)]
    pulls, count = gains(model, 4), len(contacts_of(model))
    zero = {**pulls, "velocity_gain": 0.0, "position_gain": 0.0}
    nothing = np.zeros(count)
    for options, mask in ((zero, np.ones(count)), (pulls, nothing)):
        result = constraint_dynamics_derivatives(model, *state, mask, 1e-3, **options)
        plain = constraint_dynamics_derivatives(model, *state, mask, 1e-3)
        for value, want in zip(result, plain, strict=True):
            assert relative_error(value, want) < 1e-11 or np.array_equal(value, want)


def opening(pulls: Mapping[str, Any]) -> float:
    """Return how far a four-bar linkage that starts with an error is open after 0.5 s [m].

    It swings under its weight, in classical Runge-Kutta steps of 5 ms.
    """
    model, h = test_loops.four_bar(), 5e-3
    q, qd = test_loops.closed_angles(0.4) + [0.0, 0.02, 0.0], np.zeros(3)
    tau = np.zeros(3)

    def rate(q: Array, qd: Array) -> tuple[Array, Array]:
        return qd, constraint_dynamics(model, q, qd, tau, None, 1e-9, **pulls)[0]

    for _ in range(100):
        a = rate(q, qd)
        b = rate(q + h / 2 * a[0], qd + h / 2 * a[1])
        c = rate(q + h / 2 * b[0], qd + h / 2 * b[1])
        d = rate(q + h * c[0], qd + h * c[1])
        q = q + h / 6 * (a[0] + 2 * b[0] + 2 * c[0] + d[0])
        qd = qd + h / 6 * (a[1] + 2 * b[1] + 2 * c[1] + d[1])
    ends = [dynamics.frame_placement(model, q, name)[1] for name in test_loops.ENDS]
    return float(np.linalg.norm(ends[0] - ends[1]))


def test_a_loop_that_starts_open_closes() -> None:
    """With k_v = 2 w and k_p = w^2 an error decays as (1 + w t) exp(-w t)."""
    w, t = 20.0, 0.5
    free = opening({})
    assert free > 0.01
    closing = opening({"velocity_gain": 2.0 * w, "position_gain": w**2})
    assert closing < 1.5 * free * (1.0 + w * t) * np.exp(-w * t)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"position_gain": 10.0}, "There is a position_gain for contacts, but no target: give "),
        ({"target": np.zeros((4, 3))}, "There is a target for contacts, but no position_gain"),
        (
            {"velocity_gain": [1.0, 2.0]},
            r"velocity_gain has shape \(2,\); for all contacts and loops of 'hyq' pass \(4,\)",
        ),
        (
            {"velocity_gain": -1.0},
            r"velocity_gain has the entry -1.0: pass finite numbers of at least 0",
        ),
        ({"velocity_gain": np.nan}, "velocity_gain has the entry nan"),
        (
            {"position_gain": 1.0, "target": np.zeros(3)},
            r"target has shape \(3,\); for all contacts and loops of 'hyq' pass \(4, 3\)",
        ),
        (
            {"position_gain": 1.0, "target": np.full((4, 3), np.inf)},
            "target has the entry inf: pass finite numbers.",
        ),
    ],
)
def test_wrong_gains_are_sentences(wrong: dict[str, Any], message: str) -> None:
    model = robot("hyq")
    state = [x[0] for x in test_constraints.states(model, 1, 6)]
    for call in (constraint_dynamics, constraint_dynamics_derivatives):
        with pytest.raises(DynamicsError, match=message):
            call(model, *state, **wrong)


def test_compiled_rows_take_gains_on_request(tmp_path: Path) -> None:
    model, names = two_link("two_link"), GAINS[-1]
    row = named_function("constraint_dynamics_derivatives", inputs=names)
    assert [block.name for block in row.inputs[-3:]] == list(names)
    assert named_function(row.name, **options_from_text(row.options)) == row
    arrays = sample(model, row, 40, distribution="reference", seed=3)
    at = dynamics.frame_placement(model, arrays["q"].astype(float), contacts_of(model)[0].name)[1]
    assert 1e-3 < np.abs(arrays["target"][:, 0] - at).max() <= 0.01 + 1e-6
    with backend(model, row.name, device="cpu", inputs=names, cache=tmp_path) as compiled:
        results = compiled(**arrays)
    floats = row.evaluate(model, arrays)
    for name, value in results.items():
        if name in floats:
            assert relative_error(value, floats[name]) < 1e-9, name


def test_other_rows_have_no_such_inputs() -> None:
    with pytest.raises(FunctionError, match="'rnea' has no optional input 'target': leave it out"):
        named_function("rnea", inputs="target")
    with pytest.raises(
        FunctionError, match="no optional input 'gain': choose from velocity_gain, "
    ):
        named_function("constraint_dynamics", inputs=("gain",))
