"""The decorator: the function it makes from a Python function, and its names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.api import POSITION, array, backend, clamp, cos, function, maximum, select, sin, uniform
from pinion.functions import (
    BuiltFunction,
    Function,
    FunctionError,
    OwnFunction,
    Table,
    independent_states,
    installed,
    row_of,
    sample,
)
from pinion.functions import named_function as named
from pinion.graph import evaluate_floats
from pinion.robot import NO_ROBOT, RobotError, asked_robot, load


def covariances(rng: np.random.Generator, count: int) -> Any:
    half = rng.normal(size=(count, 2, 2))
    return half @ np.swapaxes(half, 1, 2) + np.eye(2)


@function(
    inputs={
        "A": array("m", "m", unit="1/s", sampling=uniform(-1, 1)),
        "P": array(2, 2, sampling=covariances, symmetric=True),
        "x": array("m", unit="m", sampling=uniform(-1, 1)),
        "gain": array(sampling=uniform(0.5, 2)),
    },
    outputs={"y": array("m", unit="m/s"), "size": array(), "PP": array(2, 2, symmetric=True)},
    dims={"m": 2},
)
def mix(gain: Any, x: Any, A: Any, P: Any, scale: float = 2.0) -> Any:
    """Arithmetic of vectors and matrices.

    More of it.
    """
    total = sum(x[k] ** 2 for k in range(len(x)))
    return gain * (A @ x) + np.array([1.0, 0.0]) * x[0], scale * total, (P @ P).tolist()


def states(count: int, row: Function = mix) -> dict[str, Any]:
    requests = sample(NO_ROBOT, row, count, distribution="reference", seed=3)
    return {name: values.astype(np.float64) for name, values in requests.items()}


def test_a_python_function_becomes_a_function_and_stays_one() -> None:
    assert isinstance(mix, OwnFunction) and mix.robotless and not mix.joint_space
    assert (mix.name, mix.doc) == ("mix", "Arithmetic of vectors and matrices.")
    assert [block.shape for block in mix.inputs] == [(2, 2), (2, 2), (2,), ()]
    y, size, _ = mix(2.0, np.array([1.0, 2.0]), np.eye(2), np.eye(2))
    assert y.tolist() == [3.0, 4.0] and size == 10.0


def test_what_is_computed_is_what_numpy_computes() -> None:
    mix.check(NO_ROBOT)
    x = states(50)
    want = x["gain"][:, None] * np.einsum("nij,nj->ni", x["A"], x["x"])
    want[:, 0] += x["x"][:, 0]
    with backend(None, mix, device="float") as floats:
        result = floats.run(**x)
    assert np.allclose(result.y, want, rtol=1e-14, atol=1e-14)
    assert np.allclose(result.size, 2.0 * np.sum(x["x"] ** 2, axis=1), rtol=1e-14)
    assert np.allclose(result.PP, x["P"] @ x["P"], rtol=1e-13)


def test_nodes_remember_the_users_lines() -> None:
    lines = {node.line for node in mix.trace(NO_ROBOT).nodes if node.op in ("mul", "add")}
    assert lines and all(line.startswith("test_own.py:") for line in lines), lines


def test_whole_powers_are_products() -> None:
    @function(inputs={"x": array(sampling=uniform(1, 2))}, outputs={"y": array(6)})
    def powers(x: Any) -> Any:
        return [x**0 + x, x**1, x**2, x**5, x**-2, x**3.0]

    powers.check(NO_ROBOT)
    graph = powers.trace(NO_ROBOT)
    results = evaluate_floats(graph, {"x": 1.5})
    want = [2.5, 1.5, 1.5**2, 1.5**5, 1.5**-2, 1.5**3]
    assert [float(results[f"y[{k}]"]) for k in range(6)] == pytest.approx(want, rel=1e-15)
    with pytest.raises(FunctionError, match="no formulation 'column'; there is only one"):
        powers.formulated("column")


def test_printing_a_value_does_not_fail(capsys: pytest.CaptureFixture[str]) -> None:
    @function(inputs={"x": array(2, sampling=uniform(1, 2))}, outputs={"y": array()})
    def shown(x: Any) -> Any:
        print(x, f"{x[0]:.3f} and {x[0] * x[1]!s:>9}")
        return x[0] * x[1]

    shown.trace(NO_ROBOT)
    assert "<x[0]> and <mul of test_own.py:" in capsys.readouterr().out


def test_what_a_function_draws_becomes_a_table() -> None:
    built = BuiltFunction.of(mix, NO_ROBOT)
    table = built.inputs[1].sampling
    assert isinstance(table, Table) and len(table.values) == 4096
    reread = BuiltFunction.from_json(built.to_json())
    assert reread == built
    P = states(200)["P"]
    rows = {row.tobytes() for row in table.values.reshape(-1, 2, 2)[:, [0, 1, 1], [0, 0, 1]]}
    assert all(p[[0, 1, 1], [0, 0, 1]].tobytes() in rows for p in P)
    assert (np.linalg.eigvalsh(P) > 0.99).all() and (np.swapaxes(P, 1, 2) == P).all()
    # The same states without the code that drew them.
    theirs = sample(NO_ROBOT, reread, 200, distribution="reference", seed=3)["P"]
    assert np.array_equal(theirs.astype(np.float64), P)


def test_a_word_that_is_never_drawn_but_zero_is_no_constant() -> None:
    """Reductions look for relations in states: a zero among the user's draws is not one."""

    @function(
        inputs={
            "x": array(2, sampling=lambda rng, n: rng.uniform(1, 2, (n, 2)) * [1.0, 0.0]),
            "z": array(sampling=uniform(0, 0)),
        },
        outputs={"y": array()},
    )
    def zeros(x: Any, z: Any) -> Any:
        return x[0] + x[0] * x[1] + z

    words = independent_states(NO_ROBOT, zeros, 30, seed=1)
    assert (words["x[1]"] != 0).all() and (words["z"] != 0).all()


def test_a_robot_is_asked_for_where_one_is_needed() -> None:
    assert load("none") is asked_robot(None) is NO_ROBOT
    with pytest.raises(RobotError, match="'none' has no joints"):
        asked_robot(None, lock=["j"])
    forgotten: Any = None
    with pytest.raises(RobotError, match="The robot is None, perhaps from a path"):
        load(forgotten)
    with pytest.raises(RobotError, match="'none' has no joints"):
        load("none", tip="link_2")
    with pytest.raises(FunctionError, match=r"'mix' takes no robot, but 'two_link' is given"):
        mix.check(load("two_link"))

    @function(
        inputs={"q": array("nq", unit="rad", sampling=POSITION)},
        outputs={"y": array("nv")},
    )
    def doubled(q: Any) -> Any:
        return 2.0 * q

    assert not doubled.robotless
    for wrong in (doubled, named("rnea")):
        with pytest.raises(FunctionError, match="'none' has no joints: name a robot"):
            wrong.trace(NO_ROBOT)
    doubled.check(load("two_link"))


def test_a_robot_may_make_an_output_constant_but_not_all() -> None:
    q = array("nq", unit="rad", sampling=POSITION)

    @function(inputs={"q": q}, outputs={"y": array("nv"), "mass": array(unit="kg")})
    def weighed(model: Any, q: Any) -> Any:
        return q * 2.0, sum(body.inertia.mass for body in model.bodies)

    weighed.check(load("two_link"))

    @function(inputs={"q": q}, outputs={"mass": array(unit="kg")})
    def mass(model: Any, q: Any) -> Any:
        return sum(body.inertia.mass for body in model.bodies) + 0.0 * len(q)

    with pytest.raises(FunctionError, match="'mass' of 'mass' is constant"):
        mass.check(load("two_link"))


SELDOM = {
    "beyond what is drawn": lambda x, g: select(g > 1e9, 2.0 * x, x),
    "in few states": lambda x, g: select(x < 0.999, x, g),
    "never the larger": lambda x, g: maximum(x, g - 1e4),
    "a little": lambda x, g: x + 1e-9 * g,
    "behind what clamps nothing": lambda x, g: clamp(x + g, -1e6, 1e6) - g,
    "left of cancelling terms": lambda x, g: (x + g) * (x - g) + (g + 1.0) * g,
}
NEVER = {
    "a sum and its end": lambda x, g: x + g - g,
    "a quotient": lambda x, g: x / g * g,
    "an angle": lambda x, g: x * (sin(g) ** 2 + cos(g) ** 2),
}


@pytest.mark.parametrize("case", SELDOM | NEVER, ids=lambda case: case.replace(" ", "-"))
def test_an_input_is_one_that_can_change_a_result(case: str) -> None:
    samplings = {"x": uniform(-1, 1), "g": uniform(1, 1000)}
    decorated = function(
        name="made",
        inputs={name: array(sampling=sampling) for name, sampling in samplings.items()},
        outputs={"y": array()},
    )((SELDOM | NEVER)[case])
    if case in SELDOM:
        decorated.check(NO_ROBOT)
        return
    with pytest.raises(FunctionError, match="the input 'g' of 'made' changes no output"):
        decorated.check(NO_ROBOT)


def test_regions_are_marked_if_the_function_asks_for_them() -> None:
    @function(inputs={"x": array(sampling=uniform(1, 2))}, outputs={"y": array()})
    def marked(x: Any, region: Any) -> Any:
        with region("square", 2):
            x = x * x
        with region("rest"):
            return x + 1.0

    marked.check(NO_ROBOT)
    regions = {str(node.region) for node in marked.trace(NO_ROBOT).nodes}
    assert {"square[2]", "rest"} <= regions


def test_a_reference_is_the_float_model() -> None:
    def in_numpy(x: Any) -> Any:
        return {"y": np.sin(x) + 1e-9}

    @function(
        inputs={"x": array(2, sampling=uniform(0, 1))}, outputs={"y": array(2)}, reference=in_numpy
    )
    def sine(x: Any) -> Any:
        return np.sin(x)

    sine.check(NO_ROBOT)
    x = {"x": np.array([[0.1, 0.2], [0.3, 0.4]])}
    assert np.array_equal(sine.evaluate(NO_ROBOT, x)["y"], np.sin(x["x"]) + 1e-9)
    traced = BuiltFunction.of(sine, NO_ROBOT).evaluate(NO_ROBOT, x)["y"]
    assert np.array_equal(traced, np.sin(x["x"]))


def test_a_function_may_write_to_its_arguments() -> None:
    """A model of a function may change its arrays without affecting the other two models."""

    def in_numpy(x: Any) -> Any:
        x *= 3.0
        return x

    @function(
        inputs={"x": array(2, sampling=uniform(0, 1))}, outputs={"y": array(2)}, reference=in_numpy
    )
    def thrice(x: Any) -> Any:
        x[:] = x + x + x
        return x

    thrice.check(NO_ROBOT)
    x = {"x": np.array([[0.1, 0.2], [0.3, 0.4]])}
    before = x["x"].copy()
    assert np.array_equal(thrice.evaluate(NO_ROBOT, x)["y"], before * 3.0)
    assert np.array_equal(x["x"], before)


def test_only_functions_for_hardware_are_taken() -> None:
    with pytest.raises(FunctionError, match=r"covariances is not a function for hardware: .*@pin"):
        row_of(covariances)  # type: ignore[arg-type]


PACKAGE = """
from pinion.api import array, function, uniform

@function(inputs={"x": array(sampling=uniform(-1, 1))}, outputs={"y": array()})
def twice(x):
    return 2.0 * x

plain = 3
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with entry points, good and bad."""
    (tmp_path / "own_package_of_a_test.py").write_text(PACKAGE)
    points = "\n".join(
        f"{name} = own_package_of_a_test:{target}"
        for name, target in (
            *(("twice_of_a_package", "twice"), ("rnea", "twice"), ("clashing", "twice")),
            *(("plain", "plain"), ("missing", "missing"), ("gone", "twice.name.more")),
        )
    )
    for name, text in (("one", points), ("two", "clashing = own_package_of_a_test:plain")):
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[pinion.functions]\n{text}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_package_of_a_test", raising=False)


@pytest.mark.usefixtures("package")
def test_an_entry_point_is_as_good_as_a_row() -> None:
    row = named("twice_of_a_package")
    assert isinstance(row, OwnFunction) and row.name == "twice"
    assert installed()["twice_of_a_package"] == "own_package_of_a_test:twice of one"
    with backend(None, "twice_of_a_package", device="float") as floats:
        assert floats.run(x=[0.25, 0.5]).y.tolist() == [0.5, 1.0]
    assert named("own_package_of_a_test:twice").name == "twice"
    # A package cannot take a row's name.
    assert not isinstance(named("rnea"), OwnFunction) and "rnea" not in installed()


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("clashing", r"'clashing' exists 2 times in installed packages .*:plain of two.*write"),
        ("plain", r"entry point 'plain' of one .* is of type int, not a function for hardware"),
        ("missing", r"entry point 'missing' of one .* cannot be loaded .*install the package"),
        ("gone", r"entry point 'gone' of one .* cannot be loaded"),
        ("other", r"no function 'other'; .*twice_of_a_package.*rnea of one cannot be used by name"),
        ("no_such_module:f", r"no module 'no_such_module', which 'no_such_module:f' names"),
        ("own_package_of_a_test:other", r"has no 'other'; functions for hardware there: twice"),
        ("own_package_of_a_test:plain", r"'plain' is a plain int, .*put @pinion\.api\.function"),
        ("no_such_file.py:f", r"no file 'no_such_file\.py'"),
        (":f", r"has an invalid name: write MODULE:FUNCTION"),
        ("m:f g", r"has an invalid name"),
    ],
)
def test_a_name_that_leads_nowhere_is_a_sentence(name: str, message: str) -> None:
    with pytest.raises(FunctionError, match=message) as error:
        named(name)
    assert str(error.value).endswith(".") and "\n" not in str(error.value)
