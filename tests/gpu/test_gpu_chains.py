"""Kernels of chains on a GPU, if the machine has one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pinion.chains.closed import TypeI, closed_chain
from pinion.chains.kernels import cuda
from pinion.chains.random import random_chain, random_state
from pinion.chains.recursion import aba
from pinion.compute.cuda.device import CudaDevice

pytestmark = pytest.mark.slow

ROBOTS = {1: 2000, 2: 2000, 31: 2000, 32: 2000, 33: 1000, 64: 900, 100: 100}
FREE = [
    (function, method)
    for function, methods in cuda.METHODS.items()
    for method in methods
    if function != "closed"
]
HELD = {9: 1000, 32: 300, 40: 200, 130: 20, 1000: 1}
"""Links and robots of chains whose tip is held: a warp, a block and a grid for each."""


def worst(values: Any, expected: Any) -> float:
    """Return the error relative to the largest element; infinite for NaN."""
    error = float(np.max(np.abs(values - expected)) / np.max(np.abs(expected)))
    return np.inf if np.isnan(error) else error


@pytest.mark.parametrize(("function", "method"), FREE)
def test_ten_thousand_robots(function: str, method: str, gpu: CudaDevice, few: bool) -> None:
    for n, robots in ROBOTS.items():
        if few and n not in (2, 33, 64):
            continue
        count = 2 if few else robots
        chain = random_chain(n, n, inertias="arm")
        state = random_state(chain, 1, count)
        kernel = cuda.compile(chain, function, method=method, device=gpu)
        result = kernel(**{name: getattr(state, name) for name in kernel.source.inputs})
        if function == "rnea":
            assert worst(result, state.tau) <= 1e-12
            continue
        wide = [x.astype(np.longdouble) for x in (state.q, state.qd, state.tau)]
        exact = aba(chain, *wide)
        model_error = worst(aba(chain, state.q, state.qd, state.tau), exact)
        assert worst(result, exact) <= max(1e-11, 10 * model_error)


@pytest.mark.parametrize("n", [1000, 5000])
def test_one_long_robot(n: int, gpu: CudaDevice, few: bool) -> None:
    if few and n > 1000:
        pytest.skip("A grid takes minutes on a processor.")
    chain = random_chain(n, 1)
    state = random_state(chain, 1)
    tau = cuda.compile(chain, "rnea", device=gpu)(q=state.q, qd=state.qd, qdd=state.qdd)
    assert worst(tau, state.tau) <= 1e-12
    for method in ("abia", "hybrid", "cfa_oee"):
        kernel = cuda.compile(chain, "aba", method=method, device=gpu)
        tau = kernel(q=state.q, qd=state.qd, tau=state.tau)
        model_error = worst(aba(chain, state.q, state.qd, state.tau), state.qdd)
        assert worst(tau, state.qdd) <= max(1e-11, 10 * model_error)


@pytest.mark.parametrize("method", cuda.METHODS["closed"])
def test_held_tips(method: str, gpu: CudaDevice, few: bool) -> None:
    for n, robots in HELD.items():
        if few and n > 40:
            continue
        chain = random_chain(n, n, inertias="unit")
        state = random_state(chain, 1, 2 if few else robots)
        goal = np.random.default_rng(n).normal(size=(len(state.q), 6))
        contact = TypeI(W=np.eye(6), G_C=goal)
        at = {"q": state.q, "qd": state.qd, "tau": state.tau}
        exact = closed_chain(
            chain, *(x.astype(np.longdouble) for x in at.values()), contact=contact
        )
        model = closed_chain(chain, *at.values(), contact=contact)
        results = cuda.compile(chain, "closed", method=method, device=gpu)(**at, G_C=goal)
        assert list(results) == ["qdd", "F", "Lambda_inverse"]
        for name, values in results.items():
            right = getattr(exact, name)
            model_error = worst(getattr(model, name), right)
            assert worst(values, right) <= max(1e-11, 30 * model_error), (n, name)
