"""Kernels of a chain held at its tip, on a processor, against the model in 80 bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from pinion.chains.closed import TypeI, closed_chain
from pinion.chains.kernels.device_cfa import PARTS, CfaKernel, closed_kernel
from pinion.chains.kernels.device_chain import ThreadShape
from pinion.native.errors import ComputeError
from pinion.native.toolchain import Compiler
from tests.support.breadth import some_rows
from tests.support.cuda_cfa import Array, Robots, launched, random_robots, relative_errors
from tests.support.cuda_host import HostKernels

KERNELS = {
    "warp": ("oee", ThreadShape("Warp", 1, 64, 0), 0.0),
    "grid": ("oer", ThreadShape("Grid", 2, 32, 1), 0.0),
    "thread": ("ldl", ThreadShape("Thread", 1, 32, 0), 1e-3),
    "streams": ("oee", ThreadShape("Block", 2, 32, 1), 0.0),
}
NAMES = ("qdd", "F", "Lambda_inverse")


def kernels_of(name: str, n: int, robots: int) -> list[CfaKernel]:
    solver, shape, damping = KERNELS[name]
    if shape.scope == "Grid":
        shape = ThreadShape("Grid", 2, 32, -(-n // 64))
    return [
        closed_kernel(n, robots, solver=solver, shape=shape, damping=damping, part=part)
        for part in (PARTS[1:] if name == "streams" else PARTS[:1])
    ]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, compiler: Compiler) -> HostKernels:
    text = "\n".join(kernel.text for name in KERNELS for kernel in kernels_of(name, 9, 1))
    return HostKernels(text, folder=tmp_path_factory.mktemp("closed"), compiler=compiler)


def contact_of(seed: int, robots: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    E, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    E *= np.linalg.det(E)
    tip = np.concatenate([E.ravel(), rng.uniform(-0.2, 0.2, 3)])
    return {"tip": tip, "G_C": rng.normal(size=(robots, 6))}


def model(robots: Robots, contact: Mapping[str, Array], damping: float, kind: type) -> list[Array]:
    frame = contact["tip"][:9].reshape(3, 3), contact["tip"][9:]
    parts = []
    for k in robots.groups():
        at = (x[k].astype(kind) for x in (robots.q, robots.qd, robots.tau))
        type_i = TypeI(W=np.eye(6), G_C=contact["G_C"][k])
        solution = closed_chain(
            robots.chains[k.start], *at, contact=type_i, frame=frame, solver="ldl", damping=damping
        )
        parts.append([getattr(solution, name).reshape(k.stop - k.start, -1) for name in NAMES])
    return [np.concatenate(x) for x in zip(*parts, strict=True)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """Return robots with a contact, and the float model's results in 80 bits and in double."""

    robots: Robots
    contact: dict[str, Array]
    exact: list[Array]
    double: list[Array]


@cache
def case_of(n: int, count: int, damping: float) -> Case:
    # A chain per robot up to five, otherwise several states of each.
    robots, contact = random_robots(n, count, seed=n, states=-(-count // 5)), contact_of(n, count)
    return Case(
        robots=robots,
        contact=contact,
        exact=model(robots, contact, damping, np.longdouble),
        double=model(robots, contact, damping, np.float64),
    )


# 200 robots per kernel.
ROBOTS = {
    "warp": {6: 50, 9: 60, 12: 60, 31: 10, 32: 20},
    "grid": {6: 50, 9: 60, 12: 60, 32: 20, 65: 10},
    "thread": {1: 40, 2: 40, 6: 50, 9: 60, 33: 10},
    "streams": {6: 50, 9: 60, 12: 60, 32: 20, 64: 10},
}
FAST = [(name, n, count) for name, counts in ROBOTS.items() for n, count in counts.items()]
SLOW = [
    *(("warp", n, 40) for n in (12, 15, 16, 31, 32)),
    *(("grid", n, 1) for n in (12, 32, 63, 64, 128, 129)),
    *(("thread", n, 50) for n in (6, 7, 33, 100)),
]


@pytest.mark.parametrize(
    ("name", "n", "count"),
    [*some_rows(FAST, lambda name, n, count: n < 12), *some_rows(SLOW, 0)],
)
def test_equals_the_float_model(name: str, n: int, count: int, host: HostKernels) -> None:
    case = case_of(n, count, KERNELS[name][2])
    robots, contact, exact, double = case.robots, case.contact, case.exact, case.double
    if name == "grid":  # which computes one robot
        each = [
            launched(
                *(host, kernels_of(name, n, 1), robots.one(k), "float64"),
                seed=k,
                contact={**contact, "G_C": contact["G_C"][k : k + 1]},
            )
            for k in range(count)
        ]
        expected = {name: np.concatenate([x[name] for x in each]) for name in NAMES}
    else:
        kernels = kernels_of(name, n, count)
        expected = launched(host, kernels, robots, "float64", seed=n, contact=contact)
    for quantity, right, near in zip(NAMES, exact, double, strict=True):
        allowed = max(1e-11, 30 * relative_errors(near, right).max())
        assert relative_errors(expected[quantity], right).max() <= allowed, quantity


def test_a_wrench_that_is_not_determined_is_nan(host: HostKernels) -> None:
    robots = random_robots(3, 4)  # three joints cannot move the tip in six directions
    contact = contact_of(0, 4)
    results = launched(host, kernels_of("warp", 3, 4), robots, "float64", contact=contact)
    assert np.all(np.isnan(results["F"])) and np.all(np.isnan(results["qdd"]))
    damped = launched(host, kernels_of("thread", 3, 4), robots, "float64", contact=contact)
    exact = model(robots, contact, KERNELS["thread"][2], np.longdouble)
    assert relative_errors(damped["qdd"], exact[0]).max() <= 1e-9


def test_damping_is_a_number() -> None:
    with pytest.raises(ComputeError, match="must be 0 or more and finite, not nan"):
        closed_kernel(5, 1, damping=float("nan"))
