"""Kernels of chains against the float models: double against 80 bits, float by a table."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from numpy.typing import NDArray

from pinion.batch import InputError
from pinion.chains import Chain, RandomState, aba, kernels, random_chain, random_state, rnea
from pinion.chains.kernels.frames import SCREW, SHIFT, TURN, Frames
from pinion.chains.kernels.kernel import SOURCES
from pinion.chains.kernels.times import chain_times
from pinion.compute.cpu import DTYPES
from pinion.compute.layouts import from_blocks, to_blocks
from pinion.native import isa
from pinion.native.errors import ComputeError
from pinion.robot import load
from tests.support.breadth import some, some_rows

Array = NDArray[Any]

LONG = np.longdouble

ROBOTS = 200

CHAINS: dict[str, dict[str, Any]] = {
    "mixed": {},
    "helical": {"joints": "helical"},
    "prismatic": {"joints": "prismatic"},
    "branches": {"branches": 4},
    "fixed": {"joints": [0, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0, 0], "branches": 2},
}


Built = Callable[..., kernels.ChainKernel]


@pytest.fixture(scope="module")
def built(cache_folder: Path) -> Built:
    return partial(kernels.compile, cache=cache_folder)


def given(function: str, state: RandomState, dtype: Any = "float64") -> dict[str, Array]:
    names = ("q", "qd", "qdd") if function == "rnea" else ("q", "qd", "tau")
    return {name: np.ascontiguousarray(getattr(state, name), dtype) for name in names}


def expected(chain: Chain, function: str, arguments: dict[str, Array], dtype: Any = LONG) -> Array:
    model = rnea if function == "rnea" else aba
    return model(chain, *(x.astype(dtype) for x in arguments.values()))


def error(values: Array, right: Array) -> Array:
    """Return each robot's error relative to its result's largest element, (B,)."""
    assert values.shape == right.shape
    assert np.isfinite(values).all()
    distance = np.abs(values - right).max(axis=-1) / np.abs(right).max(axis=-1)
    return np.asarray(distance, np.float64)


def assert_exact(
    built: Built, chain: Chain, function: str, arguments: dict[str, Array], **options: Any
) -> None:
    """Check to 1e-13 for inverse dynamics, otherwise to 1e-11 or ten times the model's error."""
    right = expected(chain, function, arguments)
    model_error = error(expected(chain, function, arguments, np.float64), right).max()
    kernel_error = error(built(chain, function, **options)(**arguments), right).max()
    assert kernel_error < (1e-13 if function == "rnea" else max(1e-11, 10 * model_error))


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("function", kernels.FUNCTIONS)
def test_double_is_as_exact_as_the_float_model(built: Built, function: str, name: str) -> None:
    chain = random_chain(12, 5, inertias="arm", **CHAINS[name])
    if function == "cfa" and len(chain.branches):
        with pytest.raises(ComputeError, match="different branches, which the kernel 'cfa'"):
            built(chain, function)
        return
    assert_exact(built, chain, function, given(function, random_state(chain, 6, ROBOTS)))


# Medians over robots, by links: two to seven times those measured, about twice those of the float
# models in float32.
FLOAT = {
    "rnea": {10: 6e-7, 100: 2.1e-6},
    "aba": {10: 1e-5, 100: 1.2e-2},
    "jsiia": {10: 1e-5, 100: 1.2e-2},
    "cfa": {10: 1e-5},
}


@pytest.mark.parametrize("function", some(kernels.FUNCTIONS, ("rnea",)))
def test_float_has_the_errors_of_its_table(built: Built, function: str) -> None:
    for n, limit in FLOAT[function].items():
        errors = []
        for seed in range(3):
            chain = random_chain(n, seed, inertias="arm")
            arguments = given(function, random_state(chain, seed, 20), np.float32)
            result = built(chain, function, dtype="float32")(**arguments)
            assert result.dtype == np.float32
            errors.append(error(result, expected(chain, function, arguments)))
        assert np.median(errors) < limit, n


@pytest.mark.parametrize("function", kernels.FUNCTIONS)
def test_long_chains(built: Built, function: str) -> None:
    chain = random_chain(200, 3, inertias="arm")
    arguments = given(function, random_state(chain, 3, 2))
    right = expected(chain, function, arguments)
    largest_error = error(built(chain, function)(**arguments), right).max()
    assert largest_error < (1e-12 if function == "rnea" else 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("inertias", ["unit", "arm", "taper", "finger"])
@pytest.mark.parametrize("n", [2, 200, 1000])
@pytest.mark.parametrize("function", kernels.FUNCTIONS)
def test_chains_of_every_length(built: Built, function: str, n: int, inertias: str) -> None:
    limit = 1e-12 if function == "rnea" else 1e-8 if n <= 200 else 1e-7
    if function == "jsiia" and n > 200:
        limit = 1e-6  # not refined: 1.3e-7 measured, from the condition of M
    for seed in range({2: 30, 200: 6, 1000: 1}[n]):
        chain = random_chain(n, seed, inertias=inertias)
        arguments = given(function, random_state(chain, seed, 1))
        right = expected(chain, function, arguments)
        largest_error = error(built(chain, function)(**arguments), right).max()
        assert largest_error < limit, seed


def test_refinement_brings_constraint_forces_to_the_errors_of_aba(built: Built) -> None:
    chain = random_chain(100, 2, inertias="arm")
    arguments = given("cfa", random_state(chain, 2, 8))
    right = expected(chain, "cfa", arguments)
    first, second = (error(built(chain, "cfa", refine=k)(**arguments), right).max() for k in (0, 1))
    assert second < 0.3 * first < 1e-6


@pytest.mark.parametrize(
    ("function", "dtype"),
    some_rows(
        itertools.product(kernels.FUNCTIONS, DTYPES),
        lambda function, dtype: dtype == "float64" or function == "rnea",
    ),
)
def test_a_robot_does_not_depend_on_its_batch(built: Built, function: str, dtype: str) -> None:
    chain = random_chain(5, 1)
    kernel = built(chain, function, dtype=dtype)
    arguments = given(function, random_state(chain, 2, 3000), dtype)
    whole = kernel(**arguments)
    for count in (1, 2, 7, 8, 9, 15, 16, 17, 33, 100):
        out = np.full((count + 1, chain.nv), 7.0, dtype)
        part = {name: x[:count] for name, x in arguments.items()}
        assert np.shares_memory(kernel(out=out[:count], **part), out)
        np.testing.assert_array_equal(out[:count], whole[:count])
        np.testing.assert_array_equal(out[count], 7.0)
    single = kernel(**{name: x[5] for name, x in arguments.items()})
    assert single.shape == (chain.nv,)
    np.testing.assert_array_equal(single, whole[5])
    for threads in (1, 2, 5):
        again = built(chain, function, dtype=dtype, threads=threads)
        np.testing.assert_array_equal(again(**arguments), whole)


@pytest.mark.slow
@pytest.mark.parametrize("function", kernels.FUNCTIONS)
def test_every_instruction_set(built: Built, function: str) -> None:
    chain = random_chain(6, 4, inertias="arm")
    arguments = given(function, random_state(chain, 4, 40))
    for machine in isa.available():
        assert_exact(built, chain, function, arguments, isa=machine.name)


def test_layouts_and_one_array_for_all(built: Built) -> None:
    chain = random_chain(6, 4)
    arguments = given("aba", random_state(chain, 4, 37))
    right = built(chain, "aba")(**arguments)
    blocks = built(chain, "aba", layout="blocks")
    result = blocks(**{name: to_blocks(x) for name, x in arguments.items()})
    np.testing.assert_array_equal(from_blocks(result, 37), right)
    rows = built(chain, "aba", layout="soa")
    result = rows(**{name: np.ascontiguousarray(x.T) for name, x in arguments.items()})
    np.testing.assert_array_equal(result.T, right)
    q, qd = arguments["q"][3], arguments["qd"][3]
    qdd = built(chain, "aba")(q=q, qd=qd, tau=arguments["tau"])
    np.testing.assert_array_equal(qdd[3], right[3])


def test_nan_stays_with_its_robot(built: Built) -> None:
    chain = random_chain(6, 4)
    arguments = given("rnea", random_state(chain, 4, 20))
    right = built(chain, "rnea")(**arguments)
    arguments["qd"][4, 2] = np.nan
    tau = built(chain, "rnea")(**arguments)
    assert np.isnan(tau[4]).any()
    np.testing.assert_array_equal(np.delete(tau, 4, 0), np.delete(right, 4, 0))
    with pytest.raises(InputError, match=r"'qd' at index \[4, 2\] is nan"):
        built(chain, "rnea", finite=True)(**arguments)


def test_a_robot_of_the_library_as_a_chain(built: Built) -> None:
    chain = Chain.of(load("hyq"))
    for function in ("rnea", "aba", "jsiia"):
        assert_exact(built, chain, function, given(function, random_state(chain, 1, 20)))


@pytest.mark.parametrize("function", ["rnea", "aba", "jsiia"])
def test_armature_is_that_of_the_float_model(built: Built, function: str) -> None:
    """Armature at some joints of every kind, and at those of a robot with side branches."""
    robots = [random_chain(9, 5, inertias="arm", joints=j) for j in ("mixed", "helical")]
    for bare in (*robots, Chain.of(load("hyq"))):
        armature = np.zeros((bare.bodies, 6))
        armature[::2, 0] = np.linspace(0.05, 0.4, len(armature[::2]))
        chain = replace(bare, armature=armature)
        arguments = given(function, random_state(chain, 1, 20))
        assert_exact(built, chain, function, arguments)
        wrong = error(built(bare, function)(**arguments), expected(chain, function, arguments))
        assert wrong.max() > 1e-3


@pytest.mark.parametrize("scale", [2.0, 1e-3])
def test_motion_subspaces_of_any_length_and_place(built: Built, scale: float) -> None:
    """Axes away from the origin, and columns of S not of length 1."""
    chain = random_chain(8, 1, inertias="arm", joints="helical")
    S = np.array(chain.S)
    S[::2] *= scale
    S[1::2, 3:, 0] = np.cross([0.3, -0.2, 0.5], S[1::2, :3, 0])
    chain = replace(chain, S=S)
    for function in kernels.FUNCTIONS:
        assert_exact(built, chain, function, given(function, random_state(chain, 3, 20)))


def test_frames_are_canonical() -> None:
    """Chains need only turns about x and the joint's z, whatever the axes' directions."""
    kinds = {"revolute": TURN, "prismatic": SHIFT, "helical": SCREW}
    for joints, kind in kinds.items():
        chain = random_chain(50, 1, joints=joints)
        bodies = Frames.of(chain).bodies("", "float64")
        assert not bodies["branch"].any()
        assert not bodies["kept"].any()
        assert (bodies["kind"] == kind).all()
    tree = Frames.of(random_chain(9, 1, branches=3)).bodies("", "float64")
    assert tree["kept"].any()
    assert tree["branch"].any()
    assert not tree["branch"][:9].any()


def test_one_library_serves_all_chains(built: Built, cache_folder: Path) -> None:
    def libraries() -> set[Path]:
        return set(cache_folder.glob("*.so"))

    built(random_chain(3, 1), "rnea")
    before = libraries()
    for chain in (random_chain(500, 1), random_chain(4, 2, joints="helical", branches=2)):
        state = random_state(chain, 1, 3)
        kernel = built(chain, "rnea")
        assert error(kernel(**given("rnea", state)), state.tau).max() < 1e-12
    assert libraries() == before != set()


MUTANTS = {
    "rnea": [("rnea.hpp", "twice = rate + rate;", "twice = rate;")],
    "aba": [
        ("aba.hpp", "I.A.zz = fnma(r.y, I.zx, fma(r.x, I.zy, I.A.zz));", ""),
        ("chain.hpp", "w.n = cross_add(r, w.f, w.n);", "w.n = cross_add(w.f, r, w.n);"),
    ],
    "jsiia": [("jsiia.hpp", "I.J.yz = fnma(l.z, r.y, fnma(r.z, p.y, I.J.yz));", "")],
    "cfa": [("cfa.hpp", "if (biased) w = minus(w, k.bias);", "")],
}


@pytest.mark.parametrize("function", some(MUTANTS, ("jsiia",)))
def test_mutants_of_the_sources_are_noticed(built: Built, function: str, tmp_path: Path) -> None:
    chain = random_chain(6, 1, inertias="arm")
    arguments = given(function, random_state(chain, 1, 16))
    right = expected(chain, function, arguments)
    for k, (file, old, new) in enumerate(MUTANTS[function]):
        folder = tmp_path / str(k)
        shutil.copytree(SOURCES, folder)
        text = (folder / file).read_text()
        assert text.count(old) >= 1
        (folder / file).write_text(text.replace(old, new))
        # Without refinement, which would correct some errors.
        kernel = built(chain, function, refine=0, sources=folder)
        assert error(kernel(**arguments), right).max() > 1e-6


def test_arguments_that_do_not_do(built: Built) -> None:
    chain = random_chain(3, 1)
    for message, options in {
        "no kernel 'crba' for chains: choose one of rnea": {"function": "crba"},
        "Unknown dtype 'float16'": {"dtype": "float16"},
        "'threads' must be a positive integer, .* not -1": {"threads": -1},
        "'refine' must be 0 or more, not -2": {"refine": -2},
        "Unknown layout 'rows'": {"layout": "rows"},
        "Unknown instruction set 'mmx'": {"isa": "mmx"},
    }.items():
        with pytest.raises(InputError, match=message):
            built(chain, **{"function": "rnea", **options})  # type: ignore[arg-type]


def test_chains_that_kernels_do_not_take(built: Built) -> None:
    chain = random_chain(3, 1)
    bent, massless = np.array(chain.I), np.array(chain.I)
    bent[1, 3, 4] += 0.1
    massless[2] = 0.0
    for message, bad in {
        "Joint 1 of the chain .* has 3 degrees of freedom": random_chain(3, 1, joints=[1, 3, 1]),
        "has no moving joint": random_chain(2, 1, joints=[0, 0]),
        "joint 1 .* is not that of a rigid body": replace(chain, I=bent),
        "joint 2 .* is singular": replace(chain, I=massless),
        "Joint 1 .* an armature of 0.5, which the kernel 'cfa'": replace(
            chain, armature=np.eye(3, 6, -1) * 0.5
        ),
    }.items():
        with pytest.raises(ComputeError, match=message):
            built(bad, "cfa")


def test_requests_that_do_not_fit(built: Built) -> None:
    chain = random_chain(3, 1)
    kernel = built(chain, "rnea")
    good = given("rnea", random_state(chain, 1, 4))
    for message, changes in {
        "no input array 'tau'": {"tau": good["q"]},
        "instead of 3": {"q": np.zeros((4, 2))},
        "different numbers": {"qd": np.zeros((3, 3))},
        "dtype complex128": {"qdd": good["qdd"].astype(complex)},
        "it must be float64": {"out": np.zeros((4, 3), np.float32)},
        "overlaps an input": {"out": good["q"]},
    }.items():
        with pytest.raises(InputError, match=message):
            kernel(**{**good, **changes})
    with pytest.raises(InputError, match="'qdd' is missing"):
        kernel(q=good["q"], qd=good["qd"])
    assert kernel(**{name: x[:0] for name, x in good.items()}).shape == (0, 3)


def test_times_stand_beside_pinocchio(cache_folder: Path) -> None:
    rows = chain_times(
        random_chain(3, 1, inertias="arm"),
        pinocchio=pin,
        functions=("rnea", "jsiia"),
        dtypes=("float64",),
        robots=20,
        rounds=1,
        seconds=0.0,
        cache=cache_folder,
    )
    listed = [(row["by"], row["function"]) for row in rows]
    assert listed == [
        ("Pinion", "rnea"),
        ("Pinion", "jsiia"),
        ("Pinocchio, loop", "rnea"),
        ("Pinocchio, pool", "rnea"),
        ("Pinocchio, loop", "aba"),
        ("Pinocchio, pool", "aba"),
    ]
    for row in rows:
        assert row["ns_per_robot"] > 0
        assert row["robots"] == 20
        assert row["against_loop"] > 0
