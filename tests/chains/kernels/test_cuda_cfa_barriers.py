"""Barriers and distances of the constraint force algorithm: all are needed and sufficient."""

from __future__ import annotations

import re
from ctypes import c_longlong
from pathlib import Path

import numpy as np
import pytest

from pinion.chains.kernels.device_cfa import PARTS, CfaKernel, cfa_kernel, closed_kernel
from pinion.chains.kernels.device_chain import ThreadShape
from pinion.native.toolchain import Compiler
from tests.support.breadth import some
from tests.support.cuda_cfa import Array, Robots, launched, random_robots
from tests.support.cuda_host import HostError, HostKernels

HEADERS = Path(__file__).parents[3] / "sw/pinion/chains/kernels/sources"
N = 41
BLOCK = ThreadShape("Block", 2, 32, 1)
KERNELS: dict[str, CfaKernel | list[CfaKernel]] = {
    "oee": cfa_kernel(N, 1, solver="oee", shape=BLOCK),
    "oer": cfa_kernel(N, 1, solver="oer", shape=BLOCK),
    "ldl": cfa_kernel(N, 1, solver="ldl", shape=BLOCK),
    "grid": cfa_kernel(N, 1, solver="oee", shape=ThreadShape("Grid", 2, 32, 2)),
    "closed": closed_kernel(N, 1, solver="oee", shape=BLOCK),
    "parts": [closed_kernel(N, 1, shape=BLOCK, part=part) for part in PARTS[1:]],
}
CONTACT = {
    "tip": np.array([1.0, 0, 0, 0, 1, 0, 0, 0, 1, 0.1, 0.0, -0.2]),
    "G_C": np.zeros((1, 6)),
}
WHOLE = 1e-10
"""Tolerance of results against articulated bodies, relative to max |qdd|."""


def headers() -> str:
    """Return the headers as one text, without the common ones."""
    text = "".join((HEADERS / f"{x}.cuh").read_text() for x in ("tridiagonal", "cfa", "closed"))
    text = re.sub(r'#include "(tridiagonal|cfa)\.cuh"', "", text)
    return re.sub(r'#include "(\w+)\.cuh"', r'#include "../../chains/kernels/sources/\1.cuh"', text)


def with_mutants() -> tuple[str, list[str]]:
    """Return the kernels with mutants selected by a number in host memory, and their names."""
    text, names = headers(), []

    def switched(match: re.Match[str]) -> str:
        lines = text.count("\n", 0, match.start())
        owner = re.findall(r"struct (\w+)|void (\w+_kernel)", text[: match.start()])[-1]
        names.append(f"{''.join(owner)}, barrier before line {lines + 2}")
        return f"if (mutant != {len(names) - 1}) scope.sync();"

    text = re.sub(r"\bscope\.sync\(\);", switched, text)
    for owner, old, new in _DISTANCES:
        assert text.count(old) == 1
        near = f"const int near = mutant == {len(names)} && h > 2 ? 2 : h;\n"
        text = text.replace(old, near + new)
        names.append(f"{owner}, neighbours at 2 for h")
    sources = [k for x in KERNELS.values() for k in (x if isinstance(x, list) else [x])]
    kernels = [re.sub(r"#include .*\n", "", kernel.text) for kernel in sources]
    return "\n".join([_SWITCH, text, *kernels]), names


_SWITCH = """
#include "../../chains/kernels/sources/inverse.cuh"
static int mutant;
extern "C" __global__ void choose(long long k) { mutant = (int)k; }
"""
_DISTANCES = (
    (
        "Elimination",
        "const Step<T> step = {rows, n, i, h, coupling, i, i};",
        "const Step<T> step = {rows, n, i, near, coupling, i, i};",
    ),
    (
        "Reduction",
        "const Step<T> step = {rows, n, i, h, coupling, i + h, i - h};",
        "const Step<T> step = {rows, n, i, near, coupling, i + near, i - near};",
    ),
)


@pytest.fixture(scope="module")
def robots() -> Robots:
    return random_robots(N, 1, seed=3, inertias="unit")


def result(host: HostKernels, name: str, robots: Robots, seed: int) -> Array:
    arrays = launched(host, KERNELS[name], robots, "float64", seed=seed, contact=CONTACT)
    return np.concatenate([x.ravel() for x in arrays.values()])


def test_every_barrier_and_every_distance_is_needed(
    tmp_path: Path, compiler: Compiler, robots: Robots
) -> None:
    text, names = with_mutants()
    host = HostKernels(text, folder=tmp_path, compiler=compiler)

    def choose(k: int) -> None:
        host.launch("choose", 1, 1, 0, [c_longlong(k)], 0)

    choose(-1)
    right = {name: result(host, name, robots, 0) for name in KERNELS}
    for name in KERNELS:
        if name not in ("closed", "parts"):
            assert robots.errors(right[name][None])[0] <= WHOLE
    np.testing.assert_allclose(right["parts"], right["closed"], rtol=WHOLE)
    assert len(names) == 17 + 2
    only_parts = [k for k, owner in enumerate(names) if owner.startswith("closed_kernel")][:1]

    def shows(name: str, seed: int) -> bool:
        try:
            values = result(host, name, robots, seed)
        except HostError:
            return True
        scale = np.abs(right[name]).max()
        return not np.abs(values - right[name]).max() <= WHOLE * scale

    for k, owner in enumerate(names):
        choose(k)
        telling = ["parts"] if k in only_parts else expected(owner)
        # In some orders threads without a barrier are right by chance.
        for name in KERNELS:
            seeds = range(1, 9 if name in telling else 2)
            assert any(shows(name, seed) for seed in seeds) == (name in telling), (owner, name)


def expected(mutant: str) -> list[str]:
    """Return the kernels that contain the mutant's change."""
    owner = mutant.split(",")[0]
    return {
        "Elimination": ["oee", "grid", "closed", "parts"],
        "Reduction": ["oer"],
        "Sweep": ["ldl"],
        "cfa_kernel": ["oee", "oer", "ldl", "grid"],
        "closed_kernel": ["closed", "parts"],
    }[owner]


@pytest.mark.parametrize("name", some(["oer", "closed"], 1))
def test_no_two_threads_meet_at_a_word(
    name: str, tmp_path: Path, compiler: Compiler, robots: Robots
) -> None:
    """Check accesses of work memory in watched shared memory, in any order of threads."""
    kernel = KERNELS[name]
    assert isinstance(kernel, CfaKernel)
    scan = -(-kernel.shared_bytes // 8)
    text = "#define PINION_SHARED(T) cuda_host::Watched<T>\n" + kernel.text
    assert text.count("Work{work,") == 1
    text = text.replace("Work{work,", f"Work{{shared + {scan},")
    host = HostKernels(text, folder=tmp_path, compiler=compiler)
    # Coefficients of more levels would not fit into shared memory.
    small = random_robots(N if name == "oer" else 33, 1, seed=3, inertias="unit")
    n = small.q.shape[1]
    sized = closed_kernel(n, 1, shape=BLOCK) if name == "closed" else kernel
    arrays = launched(
        host,
        sized,
        small,
        "float64",
        contact=CONTACT,
        workspace=False,
        shared_bytes=8 * scan + sized.work_bytes,
    )
    assert all(np.all(np.isfinite(x)) for x in arrays.values())
    if name != "closed":
        assert small.errors(arrays["qdd"])[0] <= WHOLE
