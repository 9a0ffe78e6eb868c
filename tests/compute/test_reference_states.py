"""Compiled functions compared with Pinocchio on 100,000 states of the reference distribution.

Pinocchio reads the robot's URDF itself. The states are float32, as in transfers, so both kinds of
kernel and Pinocchio use the same numbers. An error is that of a result array of one
sample, relative to the array's largest element.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

from pinion.compute import cpu
from pinion.compute.cpu import Kernel
from pinion.functions import named_function, sample
from pinion.robot import load, urdf_text
from tests.dynamics.pinocchio_adaptor import Oracle, from_urdf

Array = NDArray[np.float64]

COUNT = 100_000
CHUNK = 5_000  # states at a time: all gradients of atlas would be 6 GB
SEED = 14

# Measured over all results of a function: largest and median error of float64, then of float32.
# With an inverse, those of float64 are mostly Pinocchio's: relative to the float model the
# kernels have at most a fifth of them, and Pinocchio's own model and the one rebuilt from ours
# differ as much. float32 loses most in qdd: cancelling torques times an inverse inertia.
SEEN = {
    ("iiwa14", "rnea"): (2.4e-14, 3.4e-16, 2.4e-6, 5.5e-8),
    ("iiwa14", "aba"): (1.3e-13, 6.3e-15, 8.2e-6, 7.2e-7),
    ("iiwa14", "minv"): (1.7e-13, 1.1e-14, 3.9e-7, 3.0e-8),
    ("iiwa14", "fd_derivatives"): (3.8e-13, 3.3e-14, 7.7e-6, 8.6e-7),
    ("hyq", "rnea"): (1.9e-15, 2.4e-16, 5.0e-7, 8.1e-8),
    ("hyq", "aba"): (5.3e-14, 7.4e-15, 1.6e-5, 2.1e-6),
    ("hyq", "minv"): (1.7e-14, 2.4e-15, 3.9e-7, 7.2e-8),
    ("hyq", "fd_derivatives"): (3.2e-13, 2.4e-14, 1.5e-5, 2.1e-6),
    ("atlas", "rnea"): (8.9e-15, 5.4e-16, 1.3e-6, 7.6e-8),
    ("atlas", "aba"): (1.0e-12, 2.2e-14, 9.3e-5, 3.3e-6),
    ("atlas", "minv"): (7.0e-13, 3.8e-14, 6.3e-6, 5.7e-8),
    ("atlas", "fd_derivatives"): (1.4e-12, 9.5e-14, 4.0e-4, 4.0e-6),
}
# Other instruction sets and other builds of Pinocchio round differently.
MARGIN = 2.0

# Upper bounds of the figures above: the largest error and the median.
PROMISED = {
    ("iiwa14", "float64"): (1e-11, 2e-13),
    ("hyq", "float64"): (1e-11, 2e-13),
    ("atlas", "float64"): (1e-11, 2e-13),
    ("iiwa14", "float32"): (3e-5, 1e-6),
    ("hyq", "float32"): (4e-5, 5e-6),
    ("atlas", "float32"): (1e-3, 1e-5),
}


class Reference:
    """Pinocchio's results for arrays of states, in Pinion's order of joints."""

    def __init__(self, robot: str) -> None:
        self.oracle: Oracle = from_urdf(urdf_text(robot), load(robot).joint_names)
        assert all(joint.nq == 1 for joint in self.oracle.joints)
        self.order = np.array([joint.idx_v for joint in self.oracle.joints])
        self.square = np.ix_(self.order, self.order)

    def results(self, name: str, inputs: dict[str, Array]) -> dict[str, Array]:
        """Return results by name, (n, nv) or (n, nv, nv), for inputs (n, nv)."""
        state_columns = []
        for values in inputs.values():
            theirs = np.empty_like(values)
            theirs[:, self.order] = values
            state_columns.append(theirs)
        make: Callable[..., dict[str, Array]] = getattr(self, f"_{name}")
        each = [make(*state) for state in zip(*state_columns, strict=True)]
        return {key: np.array([row[key] for row in each]) for key in each[0]}

    def _rnea(self, q: Array, qd: Array, qdd: Array) -> dict[str, Array]:
        return {"tau": pin.rnea(self.oracle.model, self.oracle.data, q, qd, qdd)[self.order]}

    def _aba(self, q: Array, qd: Array, tau: Array) -> dict[str, Array]:
        return {"qdd": pin.aba(self.oracle.model, self.oracle.data, q, qd, tau)[self.order]}

    def _minv(self, q: Array) -> dict[str, Array]:
        upper = np.triu(pin.computeMinverse(self.oracle.model, self.oracle.data, q))
        return {"minv": (upper + np.triu(upper, 1).T)[self.square]}

    def _fd_derivatives(self, q: Array, qd: Array, tau: Array) -> dict[str, Array]:
        data = self.oracle.data
        pin.computeABADerivatives(self.oracle.model, data, q, qd, tau)
        return {
            "qdd": data.ddq[self.order],
            "dqdd_dq": data.ddq_dq[self.square],
            "dqdd_dqd": data.ddq_dv[self.square],
        }


def errors(results: NDArray[np.floating], expected: Array) -> Array:
    """Return the relative error of each sample's array, (n,); NaN if an element is NaN."""
    assert results.shape == expected.shape
    axes = tuple(range(1, expected.ndim))
    largest = np.max(np.abs(expected), axis=axes)
    return np.max(np.abs(results.astype(np.float64) - expected), axis=axes) / largest


def test_one_wrong_number_is_noticed() -> None:
    rng = np.random.default_rng(SEED)
    expected = rng.uniform(1.0, 2.0, (10, 3, 3))
    assert errors(expected.astype(np.float32), expected).max() < 6e-8
    for value in (np.nan, np.inf, 0.0):
        broken = expected.copy()
        broken[7, 1, 2] = value
        relative_errors = errors(broken, expected)
        assert not relative_errors.max() <= 0.4 and not relative_errors[7] <= 0.4
        assert not np.delete(relative_errors, 7).any()


@pytest.mark.slow
@pytest.mark.skipif(
    not any(shutil.which(name) for name in ("c++", "g++", "clang++")),
    reason="no C++ compiler on this machine",
)
@pytest.mark.parametrize(("robot", "name"), list(SEEN))
def test_all_states_agree_with_pinocchio(robot: str, name: str, cache_folder: Path) -> None:
    row, reference = named_function(name), Reference(robot)
    kernels: list[Kernel] = [
        cpu.compile(robot, row, dtype=d, cache=cache_folder) for d in cpu.DTYPES
    ]
    inputs = sample(load(robot), row, COUNT, distribution="reference", seed=SEED)
    all_errors: dict[tuple[str, str], list[Array]] = {}
    for start in range(0, COUNT, CHUNK):
        part = {key: values[start : start + CHUNK] for key, values in inputs.items()}
        wide = {key: values.astype(np.float64) for key, values in part.items()}
        expected = reference.results(name, wide)
        for kernel in kernels:
            results = kernel(**(wide if kernel.dtype == np.float64 else part))
            assert set(expected) == {a.name for a in kernel.results}
            for key, values in expected.items():
                assert results[key].dtype == kernel.dtype
                all_errors.setdefault((kernel.dtype.name, key), []).append(
                    errors(results[key], values)
                )
    for (dtype, key), parts in all_errors.items():
        every = np.concatenate(parts)
        assert every.shape == (COUNT,)
        worst, median = float(every.max()), float(np.median(every))
        print(f"| {robot} | {name} {key} | {dtype} | {worst:.2e} | {median:.2e} |")
        measured = SEEN[robot, name][:2] if dtype == "float64" else SEEN[robot, name][2:]
        assert worst <= min(MARGIN * measured[0], PROMISED[robot, dtype][0]), (key, dtype)
        assert median <= min(MARGIN * measured[1], PROMISED[robot, dtype][1]), (key, dtype)
