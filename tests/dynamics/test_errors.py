"""Invalid arguments are reported, with the shape or the index, before any computation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pinion import dynamics
from tests.dynamics.models import planar_arm, relative_error

MODEL = planar_arm((0.7, 0.4, 0.2), (1.0, 1.0, 1.0))


def broken(value: float, *index: int, shape: tuple[int, ...] = (4, 3)) -> Any:
    array = np.zeros(shape)
    array[index] = value
    return array


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"q": np.zeros(2)}, r"q has shape \(2,\), but the robot 'planar' has 3 joints"),
        ({"q": np.zeros((4, 3, 1))}, r"q has shape \(4, 3, 1\).*\(n, 3\)"),
        ({"qd": np.zeros((5, 3))}, r"qd has shape \(5, 3\) but q has \(4, 3\)"),
        ({"qdd": np.zeros(3)}, r"qdd has shape \(3,\) but q has \(4, 3\)"),
        ({"q": 0.0}, r"q has shape \(\)"),
        ({"qd": broken(np.nan, 2, 1)}, r"qd\[2, 1\] is nan"),
        ({"qdd": broken(-np.inf, 0, 2)}, r"qdd\[0, 2\] is -inf"),
        ({"q": [["a", "b", "c"]] * 4}, "q has dtype"),
        ({"q": np.zeros((4, 3), dtype=complex)}, "q has dtype complex128"),
        ({"q": [[1.0, 2.0, 3.0], [1.0]]}, "q is not a rectangular array"),
        ({"f_ext": np.zeros((3, 6))}, r"f_ext has shape \(3, 6\): pass shape \(4, 3, 6\)"),
        ({"f_ext": broken(np.nan, 1, 2, 3, shape=(4, 3, 6))}, r"f_ext\[1, 2, 3\] is nan"),
    ],
)
def test_rnea_names_the_wrong_argument(changed: dict[str, Any], message: str) -> None:
    arguments = {name: np.zeros((4, 3)) for name in ("q", "qd", "qdd")} | changed
    with pytest.raises(dynamics.DynamicsError, match=message):
        dynamics.rnea(MODEL, **arguments)


def test_other_types_than_a_model_are_refused() -> None:
    name: Any = "iiwa14"
    for wrong in (dynamics.rnea, dynamics.aba, dynamics.minv, dynamics.fd_derivatives):
        with pytest.raises(dynamics.DynamicsError, match=r"not a str: pass the result"):
            wrong(name, *np.zeros((3, 7)))


def test_energies_check_their_arguments() -> None:
    with pytest.raises(dynamics.DynamicsError, match=r"qd\[0\] is nan"):
        dynamics.kinetic_energy(MODEL, np.zeros(3), np.full(3, np.nan))
    with pytest.raises(dynamics.DynamicsError, match=r"q has shape \(4,\)"):
        dynamics.potential_energy(MODEL, np.zeros(4))


def test_lists_and_integers_are_numbers() -> None:
    tau = dynamics.rnea(MODEL, [0, 0, 0], [0.0, 0.0, 0.0], (1, 2, 3))
    assert tau.dtype == np.float64


def test_the_error_is_a_value_error() -> None:
    assert issubclass(dynamics.DynamicsError, ValueError)


def test_the_comparator_of_these_tests_fails_on_nan() -> None:
    good, bad = np.ones(3), np.array([1.0, np.nan, 1.0])
    assert relative_error(good, good) == 0.0
    for pair in ((good, bad), (bad, good), (bad, bad)):
        assert not relative_error(*pair) < 1e6
