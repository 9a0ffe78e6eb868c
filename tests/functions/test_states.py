"""States of functions: their float models as streams, their data in builds, errors."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from pinion.api import array, backend, function, state, uniform
from pinion.batch import InputError
from pinion.functions import (
    Block,
    BuiltFunction,
    Function,
    FunctionError,
    State,
    independent_states,
    reduced_graph,
    row_of,
    sample,
)
from pinion.hls.costs import DatapathCosts
from pinion.robot import NO_ROBOT, load
from tests.support.filters import BIQUAD, INTEGRATOR, X, Y, integrator

ARM = load("pendulum")


def stream(count: int = 300) -> dict[str, Any]:
    requests = sample(ARM, INTEGRATOR, count, distribution="reference", seed=5)
    return {name: values.astype(np.float64) for name, values in requests.items()}


def followed(x: Any) -> list[float]:
    """The integrator's algorithm in a plain loop."""
    sums, turn, results = [0.25, -0.5], 0.125, []
    for value in x:
        y, sums, turn = integrator(ARM, float(value), sums, turn, region=None)
        results.append(float(y))
    return results


def test_the_float_model_is_the_algorithm_request_by_request() -> None:
    arrays = stream()
    want = followed(arrays["x"])
    assert INTEGRATOR.evaluate(ARM, arrays)["y"] == pytest.approx(want, abs=1e-12)
    built = BuiltFunction.of(INTEGRATOR, ARM)
    assert built.evaluate(ARM, arrays)["y"] == pytest.approx(want, abs=1e-12)
    restarts = np.arange(300) == 120
    fresh = built.follow(ARM, arrays, fresh=restarts)[0]["y"]
    assert fresh[120:] == pytest.approx(followed(arrays["x"][120:]), abs=1e-12)


def test_a_function_with_states_travels_as_data() -> None:
    built = BuiltFunction.of(INTEGRATOR, ARM)
    data = json.loads(json.dumps(built.to_json()))
    assert data["version"] == 2 and BuiltFunction.from_json(data) == built
    assert [s.initial for s in built.states] == [(0.25, -0.5), 0.125]
    del data["states"]
    with pytest.raises(FunctionError, match="cannot be read"):
        BuiltFunction.from_json(data)
    plain = BuiltFunction.of(Function(**{**vars(BIQUAD), "states": (), "scalars": _plain}), ARM)
    assert plain.to_json()["version"] == 1 and "states" not in plain.to_json()


def _plain(model: Any, x: Any, *, region: Any) -> Any:
    return (x * 2.0,)


def test_the_float_backend_goes_on_until_a_reset() -> None:
    arrays = stream(60)
    want = followed(arrays["x"])
    with backend(ARM, INTEGRATOR, device="float") as model:
        batches = [model.run(x=arrays["x"][:20]).y, model.run(x=arrays["x"][20:]).y]
        assert np.concatenate(batches) == pytest.approx(want, abs=1e-12)
        model.reset_state()  # type: ignore[attr-defined]
        assert model.run(x=arrays["x"][:5]).y == pytest.approx(want[:5], abs=1e-12)


def test_processors_refuse_in_a_sentence() -> None:
    with pytest.raises(InputError, match="keeps 'sums' and 'turn' from request to request"):
        backend(ARM, INTEGRATOR, device="cpu")


def test_requests_of_a_stream_stay_for_a_while() -> None:
    x = stream(5000)["x"]
    runs = np.diff(np.flatnonzero(np.concatenate([[True], np.diff(x) != 0, [True]])))
    assert (runs == 1).sum() > 100 and runs.max() > 100
    plain = sample(ARM, _without_states(), 500, distribution="reference", seed=5)["x"]
    assert len(np.unique(plain)) == 500


def _without_states() -> Function:
    return Function(name="f", doc="", inputs=(X,), outputs=(Y,), scalars=_plain)


def test_reduction_builds_on_no_value_that_a_state_happens_to_have() -> None:
    """A state that is 0 in every stream can have any value for the passes that look at values."""
    still = Function(
        name="still",
        doc="",
        inputs=(X,),
        outputs=(Y,),
        scalars=lambda model, x, s, *, region: (x + s, s * x),
        states=(State(name="s", shape=(), unit="1"),),
    )
    words = independent_states(ARM, still, 24, seed=3)
    assert len(np.unique(words["s"])) == 24
    reduced = reduced_graph(ARM, still, costs=DatapathCosts())
    assert [str(s.word) for s in reduced.states] == ["s"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"states": (State(name="x", shape=(), unit="1"),)}, "has two arrays named 'x'"),
        ({"states": (State(name="y", shape=(), unit="1"),)}, "has two arrays named 'y'"),
        ({"states": (State(name="1", shape=(), unit="1"),)}, "give it a name of letters"),
    ],
)
def test_a_state_needs_a_name_of_its_own(changes: Any, sentence: str) -> None:
    with pytest.raises(FunctionError, match=sentence):
        Function(name="f", doc="", inputs=(X,), outputs=(Y,), scalars=_plain, **changes)


def test_initial_values_are_finite_and_as_many_as_elements() -> None:
    with pytest.raises(FunctionError, match="initial value is None: give finite numbers"):
        state(initial=None)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(FunctionError, match="initial value of 's' is nan: give finite numbers"):
        State(name="s", shape=(), unit="1", initial=float("nan"))
    with pytest.raises(FunctionError, match="has size 3, but its initial value has size 2"):
        State(name="s", shape=(3,), unit="1", initial=(0.0, 1.0)).initials(ARM)
    with pytest.raises(FunctionError, match="has symmetric=True and sampling=None: leave"):
        State(name="s", shape=(2, 2), unit="1", symmetric=True)


# ---- by decorator ----


def test_a_decorated_function_returns_next_states_by_name_or_behind_its_outputs() -> None:
    described: dict[str, Any] = {
        "inputs": {"x": array(sampling=uniform(-1.0, 1.0))},
        "outputs": {"y": array()},
        "states": {"s": state(2, unit="m", initial=[0.5, -1.0])},
    }

    @function(**described)
    def named(x: Any, s: Any) -> dict[str, Any]:
        return {"s": 0.5 * s + x, "y": s[0] - s[1]}

    @function(**described)
    def ordered(x: Any, s: Any) -> tuple[Any, Any]:
        return s[0] - s[1], 0.5 * s + x

    x = {"x": np.linspace(-1.0, 1.0, 9)}
    for decorated in (named, ordered):
        decorated.check(NO_ROBOT)
        outputs = decorated.evaluate(NO_ROBOT, x)["y"]
        assert outputs == pytest.approx(1.5 * 0.5 ** np.arange(9), abs=1e-12)


@pytest.mark.parametrize(
    ("states", "body", "sentence"),
    [
        ({"s": state()}, lambda x, s: {"y": x}, "returns no 's', the next value of a state"),
        ({"s": array()}, lambda x, s: {"y": x, "s": s}, r"described by array\(\): describe states"),
        ({"s": None}, lambda x, s: {"y": x, "s": s}, "is described by None"),
        ({"x": state()}, lambda x: {"y": x}, "has the name of an input or an output"),
        ({"s": state()}, lambda x: {"y": x}, "has no parameter for its state 's'"),
        ({"s": state()}, lambda x, s: {"y": x, "s": s + x}, "the state 's' of 'f' changes no"),
        ({"s": state(2)}, lambda x, s: {"y": x + s[0], "s": x}, r"has shape \(2,\)"),
    ],
)
def test_mistakes_with_states_are_sentences(states: Any, body: Any, sentence: str) -> None:
    with pytest.raises(FunctionError, match=sentence):
        function(
            name="f",
            inputs={"x": array(sampling=uniform(-1.0, 1.0))},
            outputs={"y": array()},
            states=states,
        )(body).check(NO_ROBOT)


def test_an_input_that_acts_through_a_state_alone_is_used() -> None:
    @function(
        inputs={"x": array(sampling=uniform(-1.0, 1.0))},
        outputs={"y": array()},
        states={"s": state()},
    )
    def late(x: Any, s: Any) -> tuple[Any, Any]:
        return 2.0 * s, x

    late.check(NO_ROBOT)
    assert isinstance(late.states[0], Block)


# ---- the example ----


def test_the_pid_controller_lets_go_of_its_limit() -> None:
    """At its limit for 3 s, then reversed: without anti-windup it would stay there for 2.4 s."""
    pid = row_of("examples/functions/pid.py:pid")
    target = np.concatenate([np.full(3000, 0.3), np.full(200, -0.3)])
    torque = pid.evaluate(NO_ROBOT, {"target": target, "measured": np.zeros(3200)})["torque"]
    assert torque[0] == 6.0 and (torque[200:3000] == 8.0).all()
    assert torque[3000] < 2.5 and (torque[3100:] < 0.0).all()
    assert torque.min() >= -8.0 and torque.max() <= 8.0
