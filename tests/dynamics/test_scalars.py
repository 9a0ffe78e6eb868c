"""The algorithms on symbols: no value is used, constants fold, steps are labelled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pinion import dynamics
from pinion.dynamics.scalar import add, cos, mul, scaled_sum, sin, sub
from pinion.robot.model import Model
from tests.dynamics.models import planar_arm, random_model, random_states, relative_error
from tests.dynamics.symbols import Steps, Symbol, count, evaluate


def inputs(prefix: str, n: int) -> list[Any]:
    return [Symbol("in", f"{prefix}{i}") for i in range(n)]


def trace(model: Model) -> list[Any]:
    n = model.nv
    return list(dynamics.rnea_scalars(model, inputs("q", n), inputs("qd", n), inputs("qdd", n)))


@pytest.mark.parametrize("seed", range(5))
def test_traced_graph_computes_what_the_floats_do(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    model = random_model(rng, 6)
    states = [x[0] for x in random_states(rng, model, 1)]
    values = {
        f"{name}{i}": float(x)
        for name, state in zip(("q", "qd", "qdd"), states, strict=True)
        for i, x in enumerate(state)
    }
    traced = np.array(evaluate(trace(model), values))
    assert relative_error(traced, dynamics.rnea(model, *states)) < 1e-12


def test_energies_run_on_symbols() -> None:
    model = random_model(np.random.default_rng(3), 4)
    q, qd = inputs("q", 4), inputs("qd", 4)
    assert isinstance(dynamics.kinetic_energy_scalars(model, q, qd), Symbol)
    assert isinstance(dynamics.potential_energy_scalars(model, q), Symbol)


def test_a_pendulum_costs_three_products_by_constants_and_one_sum() -> None:
    model = planar_arm((0.7,), (1.3,))
    counts = count(trace(model))
    assert (counts["mul"], counts["mul_const"], counts["add"]) == (0, 3, 1)


def test_every_step_is_labelled_once_and_in_order() -> None:
    steps = Steps()
    model = random_model(np.random.default_rng(4), 3)
    q, qd, qdd = (inputs(name, 3) for name in ("q", "qd", "qdd"))
    dynamics.rnea_scalars(model, q, qd, qdd, region=steps)
    assert steps.seen == [("forward", i) for i in (1, 2, 3)] + [("backward", i) for i in (3, 2, 1)]


def test_constants_zero_and_one_leave_no_operation() -> None:
    x = Symbol("in", "x")
    assert add(0.0, x) is x
    assert add(x, 0.0) is x
    assert sub(x, 0.0) is x
    assert sub(0.0, x).op == "neg"  # type: ignore[attr-defined]
    assert mul(1.0, x) is x
    assert mul(x, 1.0) is x
    assert mul(0.0, x) == 0.0
    assert scaled_sum((0.0, 1.0, 0.0), (x, x, x)) is x
    assert count([scaled_sum((1.0, -1.0, 0.5), inputs("x", 3))]) == {
        "mul": 0,
        "mul_const": 1,
        "add": 2,
        "neg": 0,
        "double": 0,
        "trig": 0,
    }


def test_sine_and_cosine_take_the_scalars_own_method() -> None:
    x = Symbol("in", "x")
    assert sin(x).op == "sin"  # type: ignore[attr-defined]
    assert cos(x).op == "cos"  # type: ignore[attr-defined]
    np.testing.assert_array_equal(np.asarray(sin(np.zeros(3))), np.zeros(3))
    assert cos(1j) == pytest.approx(np.cosh(1.0))


def test_a_symbol_refuses_to_be_a_value() -> None:
    x = Symbol("in", "x")
    for question in (bool, float, int, lambda s: s < 1.0, lambda s: s == 0.0):
        with pytest.raises(TypeError, match="no value"):
            question(x)
