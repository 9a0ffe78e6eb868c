"""Rules of reverse mode against differences of the float models; no framework is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pinion import dynamics
from pinion.base.pages import rewritten
from pinion.batch import InputError
from pinion.compute.frameworks import gradients
from pinion.compute.frameworks.describe import TABLES
from pinion.compute.frameworks.gradients import Differentiable, differentiable
from pinion.compute.frameworks.positions import Space
from pinion.compute.frameworks.rules import CONSTANTS, RULES, WITHOUT
from pinion.functions import FUNCTIONS, arrays_of, row_of, sample
from pinion.link import Array
from pinion.robot import JointKind, Model, coupled, load, with_contacts
from pinion.robot.model import Mimic
from tests.support.breadth import some_rows
from tests.support.rows import robot

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "torch-and-jax.md"

Floats = NDArray[np.float64]
SPACE = Space(np, lambda name, array: array)

STEP = 1e-6
LINKS = {"iiwa14": ("iiwa_link_7", "iiwa_link_4"), "floating leg": ("lf_lowerleg", "base_link_0")}
ARMS = ("iiwa14", "floating leg", "turning")
SECOND_ORDER = ("rnea_derivatives", "fd_derivatives")
"""Rows whose gradient takes a row of second derivatives, which only simple joints have."""


@dataclass(frozen=True)
class FloatKernel:
    """The float model of a row with the members of a kernel."""

    model: Model
    row: Any

    @property
    def inputs(self) -> tuple[Array, ...]:
        return arrays_of(self.row.inputs, self.model)

    def __call__(self, arrays: dict[str, Floats]) -> dict[str, Floats]:
        return dict(self.row.evaluate(self.model, arrays))


def compiled(model: Model, row: str, **options: Any) -> FloatKernel:
    return FloatKernel(model, row_of(row, **options))


def run(function: Differentiable, inputs: dict[str, Floats]) -> dict[str, Floats]:
    first, inner = next(iter(function.inputs.items()))
    batch = inputs[first].shape[: inputs[first].ndim - len(inner)]
    flat = {n: inputs[n].reshape(-1, *shape) for n, shape in function.inputs.items()}
    values = function.kernel(flat)
    return {n: values[n].reshape(*batch, *shape) for n, shape in function.results.items()}


@cache
def turning() -> Model:
    """Return an arm with a planar, a spherical and a free joint among others."""
    arm = load("iiwa14")
    kinds = {1: JointKind.PLANAR, 3: JointKind.SPHERICAL, 4: JointKind.FREE_FLYER}
    bodies = [
        replace(body, joint=replace(body.joint, kind=kinds.get(i, body.joint.kind)))
        for i, body in enumerate(arm.bodies)
    ]
    nv = sum(body.joint.kind.nv for body in bodies)
    return replace(arm, bodies=tuple(bodies), rated_velocity=(1.0,) * nv)


def model_of(name: str) -> Model:
    if name != "turning":
        return robot(name)
    model = turning()
    return with_contacts(model, [model.tips[-1]])


def normalised(model: Model, inputs: dict[str, Floats]) -> dict[str, Floats]:
    return {**inputs, "q": dynamics.normalise(coupled(model), inputs["q"])}


def check(name: str, model: Model, *, results: Sequence[str] = (), **options: Any) -> None:
    """Compare each gradient of a random sum of results with differences, element by element."""
    call = differentiable(model, name, outputs=results, compile=compiled, **options)
    rng = np.random.default_rng(7)
    row = row_of(name, parameters=options.get("parameters", ()))
    state = sample(model, row, 3, distribution="reference", seed=5)
    inputs = {k: np.asarray(state[k], dtype=np.float64) for k in call.inputs}
    inputs = normalised(model, inputs)
    value = run(call, inputs)
    cotangents = {r: rng.normal(size=x.shape) for r, x in value.items()}
    needs = [x for x in call.inputs if not call.refusal([x])]
    assert needs
    linear = call.linear(SPACE, inputs, needs, run)
    for r in call.results:
        assert np.allclose(linear[r], value[r], rtol=1e-9, atol=1e-9)
    pulled = call.pull(SPACE, {**linear, **inputs}, cotangents, needs)

    def total(changed: dict[str, Floats]) -> Floats:
        values = run(call, normalised(model, changed))
        parts = [(cotangents[r] * values[r]).reshape(3, -1).sum(axis=1) for r in values]
        return np.sum(parts, axis=0)

    for x in needs:
        slopes = np.zeros_like(inputs[x])
        for place in np.ndindex(inputs[x].shape[1:]):
            ahead, behind = ({**inputs, x: inputs[x].copy()} for _ in range(2))
            ahead[x][:, *place] += STEP
            behind[x][:, *place] -= STEP
            slopes[:, *place] = (total(ahead) - total(behind)) / (2 * STEP)
        gradient = pulled.get(x, np.zeros_like(slopes))
        assert gradient.shape == slopes.shape
        scale = 1.0 + np.max(np.abs(slopes))
        error = np.max(np.abs(gradient - slopes)) / scale
        assert error < 1e-6, (x, error)  # NaN is not below it


OPTIONAL = [
    ("frame_jacobian", "R,p"),
    ("frame_jacobian_local", "R,p"),
    ("frame_jacobian_world", "R,p"),
    ("com_jacobian", "com"),
    ("fd_derivatives", "minv"),
    ("euler_step", "A,B"),
]
BY_PARAMETERS = [n for n, r in RULES.items() if any(t.by == "parameters" for t in r.terms)]
WEIGHED = ("rnea", "rnea_derivatives", "aba", "potential_energy", "gravity", "bias", "euler_step")
"""Rows with gradients by gravity."""


def has(arm: str, name: str, results: str = "") -> bool:
    second = name in SECOND_ORDER or results == "A,B"
    # The step of a joint of many kinds takes minutes here, and other tests take it.
    step = name.endswith("_step") and (arm == "turning" or name == "rk4_step")
    return arm == "iiwa14" or not (second or step)


CASES = [(name, arm) for name in RULES for arm in ARMS if has(arm, name)]


@pytest.mark.parametrize(
    ("name", "arm"), some_rows(CASES, [("rnea", "floating leg"), ("crba", "turning")])
)
def test_gradients_are_slopes(name: str, arm: str) -> None:
    check(name, model_of(arm))


@pytest.mark.parametrize(
    "line", ["q[k] = -1 g[i] rest.dtau_dq[ik]", "q[k] = g[i] rest.dtau_dq[ki]"]
)
def test_a_wrong_rule_is_noticed(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = replace(RULES["gravity"], lines=(line,))
    monkeypatch.setattr(gradients, "RULES", {**RULES, "gravity": wrong})
    with pytest.raises(AssertionError, match="'q', "):
        check("gravity", robot("floating leg"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "results", "arm"),
    [(*case, arm) for case in OPTIONAL for arm in ARMS if has(arm, *case)],
)
def test_gradients_of_optional_results_are_slopes(name: str, results: str, arm: str) -> None:
    check(name, model_of(arm), results=results)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arm"),
    [
        # Half the rows of each arm, and of the other one those that it alone has.
        (name, arm)
        for number, name in enumerate(BY_PARAMETERS)
        for place, arm in enumerate(LINKS)
        if has(arm, name) and (number % 2 == place or not all(has(other, name) for other in LINKS))
    ],
)
def test_gradients_by_parameters_are_slopes(name: str, arm: str) -> None:
    gravity = ("gravity",) if name in WEIGHED else ()
    check(name, model_of(arm), parameters=(*LINKS[arm], *gravity))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rnea", "aba", "bias", "kinetic_energy", "euler_step"])
def test_joint_terms_count_where_the_row_has_them(name: str) -> None:
    check(name, model_of("iiwa14"), joint_terms=True)


def test_every_row_has_a_rule_or_a_sentence() -> None:
    assert RULES.keys() | WITHOUT.keys() == FUNCTIONS.keys()
    assert not RULES.keys() & WITHOUT.keys()


def test_rules_name_arrays_of_rows() -> None:
    """A misspelt operand would only show up in the product that uses it."""
    for name, rule in RULES.items():
        row = FUNCTIONS[name]
        inputs = {b.name for b in row.inputs} | {"parameters"}
        arrays = inputs | {b.name for b in row.outputs}
        for label, call in rule.calls.items():
            assert call.at.keys() <= {b.name for b in FUNCTIONS[call.row].inputs} | {"parameters"}
            arrays |= {f"{label}.{b.name}" for b in FUNCTIONS[call.row].outputs}
        used = {x for term in rule.terms for x in term.arrays}
        used |= {x for call in rule.calls.values() for x in call.at.values() if "." in x}
        assert used <= arrays | CONSTANTS, name
        assert {x.partition(".")[0] for x in used if "." in x} == rule.calls.keys(), name
        assert {term.by for term in rule.terms} <= inputs
        assert {term.of for term in rule.terms} <= {b.name for b in row.outputs}


def test_the_page_lists_the_rules() -> None:
    assert PAGE.read_text() == rewritten(PAGE.read_text(), TABLES), (
        f"run: python -m pinion.compute.frameworks.describe {PAGE.relative_to(ROOT)}"
    )


@pytest.mark.parametrize("name", list(WITHOUT))
def test_a_row_without_a_gradient_names_what_can_be_used(name: str) -> None:
    with pytest.raises(InputError, match=f"^'{name}' has no gradient: .*'"):
        differentiable("two_link", name)
    assert any(f"'{other}'" in WITHOUT[name] for other in RULES)


def test_wrong_names_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"no function 'torque' with a gradient: choose one of rnea, "
    ):
        differentiable("two_link", "torque")
    with pytest.raises(InputError, match="'rk4_step' has no result 'A' with a gradient: choose"):
        differentiable("two_link", "rk4_step", outputs="A")


@pytest.mark.parametrize(
    ("name", "by", "message"),
    [
        (
            "euler_step",
            "dt",
            "'q_next' of 'euler_step' has no gradient with respect to 'dt', only with respect to "
            "q, qd, tau",
        ),
        (
            "rk4_step",
            "dt",
            "'q_next' of 'rk4_step' has no gradient with respect to 'dt', only with respect to "
            "q, qd, tau",
        ),
    ],
)
def test_an_input_without_a_gradient_is_refused(name: str, by: str, message: str) -> None:
    call = differentiable("two_link", name, compile=compiled)
    with pytest.raises(InputError, match=message):
        call.linear(SPACE, {}, [by], run)


def test_robots_without_second_derivatives_are_refused() -> None:
    def traced(model: Model, row: str, **options: Any) -> Any:
        return row_of(row, **options).trace(model)

    with pytest.raises(InputError, match="second derivatives support only joints with one of each"):
        differentiable(robot("floating leg"), "rnea_derivatives", compile=traced)


def test_shapes_have_the_same_batch_or_none() -> None:
    call = differentiable("two_link", "euler_step", compile=compiled)
    assert call.batch([(4, 3, 2), (2,), (4, 3, 2), ()]) == (4, 3)
    assert call.batch([(2,), (2,), (2,), (5,)]) == (5,)
    with pytest.raises(
        InputError, match=r"'tau' has the shape \(3, 2\): give \(\.\.\., 2\), with "
    ):
        call.batch([(4, 2), (2,), (3, 2), ()])
    with pytest.raises(InputError, match=r"'q' has the shape \(3,\): give \(\.\.\., 2\)"):
        call.batch([(3,), (2,), (2,), ()])
    with pytest.raises(InputError, match=r"needs 4 arrays \(q, qd, tau, dt\), not 1"):
        call.batch([(2,)])


def test_joints_that_follow_others_have_no_derivative_of_the_jacobian() -> None:
    hand = load("two_link")
    leader, follower = hand.bodies
    mimic = Mimic(joint=leader.joint.name, multiplier=2.0, offset=0.1)
    tied = replace(
        hand, bodies=(leader, replace(follower, joint=replace(follower.joint, mimic=mimic)))
    )
    check("forward_kinematics", tied)
    check("minv", tied)
    call = differentiable(tied, "frame_jacobian", compile=compiled)
    assert "has mimic joints" in call.refusal(["q"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rnea", "aba"])
def test_gradients_by_figures_of_joints_and_loads_on_an_axis_are_slopes(name: str) -> None:
    figures = ("iiwa_joint_2:armature", "iiwa_joint_3:damping", "iiwa_link_7:on-axis")
    check(name, model_of("iiwa14"), parameters=figures, joint_terms=("damping",))


def test_frames_and_references_are_refused() -> None:
    for options in ({"frames": ("iiwa_link_4",)}, {"reference": "world"}):
        with pytest.raises(
            InputError, match=r"do not support the option '.* only for the robot's tip.*omit '"
        ):
            differentiable("iiwa14", "frame_jacobian", compile=compiled, **options)
