"""Cost of the algorithms as graphs: operations, structural zeros, labels; and their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from pinion import dynamics
from pinion.dynamics.minimal import minimal_model
from pinion.dynamics.rnea import no_region
from pinion.dynamics.scalar import reciprocal
from pinion.robot import load
from pinion.robot.model import Model
from tests.dynamics.models import random_model, random_states, relative_error
from tests.dynamics.symbols import Steps, Symbol, count, evaluate, reachable

Trace = Callable[..., list[Any]]


def inputs(prefix: str, n: int) -> list[Any]:
    return [Symbol("in", f"{prefix}{i}") for i in range(n)]


def flat(*matrices: Sequence[Sequence[Any]]) -> list[Any]:
    return [x for matrix in matrices for row in matrix for x in row]


def trace(model: Model, name: str, region: Any = no_region) -> list[Any]:
    """Return all results of a function on symbols, row by row."""
    q, qd, qdd, tau = (inputs(x, model.nv) for x in ("q", "v", "a", "t"))
    minv = [inputs(f"m{i}_", model.nv) for i in range(model.nv)]
    if name == "crba":
        return flat(dynamics.crba_scalars(model, q, region=region))
    if name in ("minv", "minv aba"):
        method = "aba" if name == "minv aba" else "ltdl"
        return flat(dynamics.minv_scalars(model, q, region=region, method=method))
    if name == "aba":
        return dynamics.aba_scalars(model, q, qd, tau, region=region)
    if name in ("rnea_derivatives", "column"):
        method = "column" if name == "column" else "composite"
        pair = dynamics.rnea_derivatives_scalars(model, q, qd, qdd, region=region, method=method)
        return flat(*pair)
    if name == "fd_derivatives":
        forward = dynamics.fd_derivatives_scalars(model, q, qd, tau, region=region)
        return [*forward.qdd, *flat(forward.dqdd_dq, forward.dqdd_dqd, forward.minv)]
    pair = dynamics.fd_derivatives_from_minv_scalars(model, q, qd, qdd, minv, region=region)
    return flat(*pair)


NAMES = (
    "crba",
    "minv",
    "minv aba",
    "aba",
    "rnea_derivatives",
    "column",
    "fd_derivatives",
    "fd_derivatives_from_minv",
)


def values_of(model: Model, seed: int) -> tuple[dict[str, float], dict[str, Any]]:
    """Return values of the symbols, and the results of the array functions for them."""
    rng = np.random.default_rng(seed)
    (q,), (qd,), (qdd,) = random_states(rng, model, 1)
    tau = dynamics.rnea(model, q, qd, qdd)
    minv = dynamics.minv(model, q)
    states = {"q": q, "v": qd, "a": qdd, "t": tau}
    values = {f"{name}{i}": float(x) for name, state in states.items() for i, x in enumerate(state)}
    values |= {f"m{i}_{j}": float(x) for (i, j), x in np.ndenumerate(minv)}
    gradient = dynamics.rnea_derivatives(model, q, qd, qdd)
    forward = dynamics.fd_derivatives(model, q, qd, tau)
    results = {
        "crba": dynamics.crba(model, q),
        "minv": minv,
        "minv aba": minv,
        "aba": qdd,
        "rnea_derivatives": gradient,
        "column": gradient,
        "fd_derivatives": forward,
        "fd_derivatives_from_minv": (forward.dqdd_dq, forward.dqdd_dqd),
    }
    return values, results


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(4))
def test_traced_graph_computes_what_the_floats_do(name: str, seed: int) -> None:
    print(f"seed {seed}")
    model = random_model(np.random.default_rng(seed), 6)
    values, results = values_of(model, seed)
    blocks = results[name] if isinstance(results[name], tuple) else (results[name],)
    expected = np.concatenate([np.ravel(block) for block in blocks])
    actual = np.array(evaluate(trace(model, name), values))
    assert relative_error(actual, expected) < 1e-10


# Variable products, products by a constant, additions, reciprocals. Every product is a multiplier's
# slot in hardware: a change that adds some needs a reason.
MOST = {
    ("iiwa14", "crba"): (103, 42, 136, 0),
    ("iiwa14", "minv"): (268, 52, 270, 5),
    ("iiwa14", "minv aba"): (456, 108, 437, 5),
    ("iiwa14", "aba"): (305, 211, 478, 5),
    ("iiwa14", "rnea_derivatives"): (913, 403, 1114, 0),
    ("iiwa14", "column"): (2621, 1572, 3457, 0),
    ("iiwa14", "fd_derivatives"): (1796, 547, 2019, 5),
    ("iiwa14", "fd_derivatives_from_minv"): (1543, 403, 1653, 0),
    ("hyq", "crba"): (44, 60, 140, 0),
    ("hyq", "minv"): (96, 68, 176, 8),
    ("hyq", "minv aba"): (152, 124, 216, 8),
    ("hyq", "aba"): (240, 348, 516, 8),
    ("hyq", "rnea_derivatives"): (584, 600, 1112, 0),
    ("hyq", "column"): (1028, 1036, 1728, 0),
    ("hyq", "fd_derivatives"): (928, 812, 1592, 8),
    ("hyq", "fd_derivatives_from_minv"): (800, 600, 1256, 0),
}
# The same for minimal_model(...).
MOST_MINIMAL = {
    ("iiwa14", "crba"): (87, 16, 94, 0),
    ("iiwa14", "minv"): (252, 26, 228, 5),
    ("iiwa14", "minv aba"): (381, 30, 307, 5),
    ("iiwa14", "aba"): (260, 109, 334, 5),
    ("iiwa14", "rnea_derivatives"): (758, 195, 815, 0),
    ("iiwa14", "fd_derivatives"): (1613, 282, 1646, 5),
    ("iiwa14", "fd_derivatives_from_minv"): (1388, 195, 1354, 0),
}


def cost(model: Model, name: str) -> tuple[int, int, int, int]:
    results = trace(model, name)
    counts = count(results)
    reciprocals = sum(op == "reciprocal" for op, _ in reachable(results))
    return counts["mul"], counts["mul_const"], counts["add"] + counts["double"], reciprocals


@pytest.mark.parametrize(("robot", "name"), MOST)
def test_a_robot_needs_no_more_operations_than_stated(robot: str, name: str) -> None:
    operations = cost(load(robot), name)
    assert all(x <= most for x, most in zip(operations, MOST[robot, name], strict=True)), operations


@pytest.mark.parametrize(("robot", "name"), MOST_MINIMAL)
def test_the_minimal_model_needs_no_more_operations_than_stated(robot: str, name: str) -> None:
    operations = cost(minimal_model(load(robot)), name)
    assert all(x <= most for x, most in zip(operations, MOST_MINIMAL[robot, name], strict=True)), (
        operations
    )


@pytest.mark.parametrize("robot", ["iiwa14", "hyq", "baxter", "atlas", *range(20)])
def test_the_minimal_model_has_the_same_dynamics(robot: str | int) -> None:
    seed = robot if isinstance(robot, int) else 5
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    model = random_model(rng, int(rng.integers(1, 13))) if isinstance(robot, int) else load(robot)
    small = minimal_model(model)
    q, qd, qdd = random_states(rng, model, 4)
    tau = dynamics.rnea(model, q, qd, qdd)
    scale = float(np.max(np.abs(tau)))
    assert np.max(np.abs(dynamics.rnea(small, q, qd, qdd) - tau)) < 1e-11 * scale
    assert relative_error(dynamics.crba(small, q), dynamics.crba(model, q)) < 1e-11
    for method in ("composite", "column"):
        pairs = zip(
            dynamics.rnea_derivatives(small, q, qd, qdd, method=method),
            dynamics.rnea_derivatives(model, q, qd, qdd),
            strict=True,
        )
        assert all(np.max(np.abs(actual - expected)) < 1e-11 * scale for actual, expected in pairs)
    size = float(np.max(np.abs(dynamics.minv(model, q)))) * scale
    assert np.max(np.abs(dynamics.aba(small, q, qd, tau) - qdd)) < 1e-11 * max(size, 10.0)


@pytest.mark.parametrize("name", NAMES)
def test_separate_branches_give_constant_zeros(name: str) -> None:
    model = load("hyq")  # four legs of three joints on the fixed trunk
    n = model.nv
    results = trace(model, name)
    if name == "aba":
        return
    if name == "fd_derivatives":
        results = results[n:]
    for k, entry in enumerate(results):
        i, j = divmod(k % (n * n), n)
        if i // 3 != j // 3:
            assert isinstance(entry, float) and entry == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_every_operation_is_in_one_labelled_step(name: str) -> None:
    steps = Steps()
    trace(random_model(np.random.default_rng(4), 3), name, steps)
    assert steps.seen
    for pass_name, body in steps.seen:
        assert pass_name.isidentifier() and body in (1, 2, 3)


def test_reciprocal_takes_the_scalars_own_method() -> None:
    x = Symbol("in", "x")
    assert reciprocal(x).op == "reciprocal"  # type: ignore[attr-defined]
    assert reciprocal(4.0) == 0.25
    np.testing.assert_array_equal(np.asarray(reciprocal(np.array([2.0, 8.0]))), [0.5, 0.125])
    assert reciprocal(2j) == -0.5j
