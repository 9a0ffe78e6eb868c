"""Errors against 80-bit arithmetic, compared with Pinocchio's."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from pinion.chains import Chain, aba
from pinion.chains.accuracy import (
    PINOCCHIO,
    ULP,
    Accuracy,
    accuracy,
    forward_algorithms,
    inverse_algorithms,
    table,
)
from pinion.chains.chain import Array
from pinion.dynamics import DynamicsError

KINDS = ("unit", "arm", "taper", "finger")
SEEDS = 30
SEEDS_OF_LONG = 6  # chains of 200 links, which take half a second each


def check_forward(measured: Accuracy) -> None:
    """Check against 1e-8 and 30 times Pinocchio's largest error on the same chains."""
    limit = min(1e-8, 30 * measured.worst(PINOCCHIO))
    for name in forward_algorithms():
        assert measured.worst(name) <= limit, (measured.inertias, measured.links, name)


def check_inverse(measured: Accuracy, limit: float) -> None:
    for name in inverse_algorithms():
        assert measured.worst(name) <= limit, (measured.inertias, measured.links, name)


def test_forward_dynamics_of_long_arms() -> None:
    measured = accuracy(forward_algorithms(), inertias="arm", links=100, seeds=range(2), pin=pin)
    check_forward(measured)
    # Further from the reference than rounding: it is not compared with itself.
    assert measured.worst("ABA") > 1e-14
    assert set(measured.errors) == {ULP, PINOCCHIO, *forward_algorithms()}


def test_inverse_dynamics_of_long_arms() -> None:
    measured = accuracy(inverse_algorithms(), direction="inverse", links=200, seeds=[1], pin=pin)
    check_inverse(measured, 1e-12)
    assert measured.worst(PINOCCHIO) <= 1e-12


def test_errors_of_wrong_algorithms_are_seen() -> None:
    def off(chain: Chain, q: Array, qd: Array, tau: Array) -> Array:
        return aba(chain, q, qd, tau) * (1 + 1e-6)

    def lost(chain: Chain, q: Array, qd: Array, tau: Array) -> Array:
        return np.full_like(qd, np.nan)

    def refused(chain: Chain, q: Array, qd: Array, tau: Array) -> Array:
        raise DynamicsError("No.")

    measured = accuracy({"off": off, "lost": lost, "refused": refused}, links=5, seeds=[0, 1])
    np.testing.assert_allclose(measured.errors["off"], 1e-6, rtol=1e-3)
    assert not measured.worst("lost") <= np.inf
    assert measured.worst("refused") == np.inf
    lines = table([measured]).splitlines()
    assert lines[0] == f"| inertias | links | {ULP} | off | lost | refused |"
    assert lines[2].startswith("| arm | 5 | ")
    assert lines[2].endswith(" | 1e-06 | nan | inf |")
    with pytest.raises(DynamicsError, match="direction is 'sideways'"):
        accuracy({}, direction="sideways")


def test_single_precision_has_errors_of_its_own() -> None:
    measured = accuracy(forward_algorithms(), links=10, seeds=range(5), dtype=np.float32)
    for name in forward_algorithms():
        assert 1e-8 < np.median(measured.errors[name]) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("links", [2, 10, 50, 200])
@pytest.mark.parametrize("inertias", KINDS)
def test_forward_dynamics_of_many_chains(inertias: str, links: int) -> None:
    seeds = range(SEEDS if links < 200 else SEEDS_OF_LONG)
    check_forward(
        accuracy(forward_algorithms(), inertias=inertias, links=links, seeds=seeds, pin=pin)
    )


@pytest.mark.slow
@pytest.mark.parametrize("links", [500, 1000])
@pytest.mark.parametrize("inertias", KINDS)
def test_forward_dynamics_of_very_long_chains(inertias: str, links: int) -> None:
    algorithms = {name: f for name, f in forward_algorithms().items() if name != "JSIIA"}
    measured = accuracy(algorithms, inertias=inertias, links=links, seeds=range(2))
    for name in algorithms:
        # Efforts rounded before the scan of z lose a digit: 9e-8 measured, combined 1e-8.
        limit = 5e-7 if name == "hybrid" else 1e-7
        assert measured.worst(name) <= limit, name


@pytest.mark.slow
@pytest.mark.parametrize("links", [2, 200, 1000])
@pytest.mark.parametrize("inertias", KINDS)
def test_inverse_dynamics_of_many_chains(inertias: str, links: int) -> None:
    seeds = range({2: SEEDS, 200: SEEDS_OF_LONG, 1000: 1}[links])
    for dtype, limit in ((np.float64, 1e-12), (np.float32, 1e-5)):
        # Single precision is for up to 200 links.
        if dtype is np.float64 or links <= 200:
            measured = accuracy(
                inverse_algorithms(),
                direction="inverse",
                inertias=inertias,
                links=links,
                seeds=seeds,
                dtype=dtype,
            )
            check_inverse(measured, limit)
