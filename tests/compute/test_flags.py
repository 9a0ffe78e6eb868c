"""Flags and errors of requests: results that are not finite, invalid rotations.

NumPy tells whether results are finite, and the float model whether rotations are valid.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.api import backend
from pinion.batch import InputError, Result
from pinion.compute import cpu
from pinion.compute.layouts import from_blocks, to_blocks
from pinion.dynamics import DynamicsError, normalise, rnea
from pinion.functions import named_function, sample
from pinion.native import isa
from pinion.robot import Model, load
from pinion.robot.model import JointKind
from tests.native.conftest import needs_compiler
from tests.support.breadth import some
from tests.support.rows import robot as robot_of

pytestmark = needs_compiler

SETS = [instruction_set.name for instruction_set in isa.available()]


def not_finite(result: Result) -> np.ndarray:
    """Return (n,) bools for results (n, ...), computed by NumPy."""
    rows = [np.isfinite(result[name]).reshape(len(result[name]), -1) for name in result.names]
    return ~np.concatenate(rows, axis=1).all(axis=1)


@pytest.mark.parametrize(
    "using", [pytest.param(s, marks=[] if s == SETS[0] else pytest.mark.slow) for s in SETS]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_overflows_is_flagged_and_nothing_else(
    dtype: str, using: str, cache_folder: Path
) -> None:
    rng = np.random.default_rng(34)
    large = 1e25 if dtype == "float32" else 1e200
    kernel = cpu.compile("two_link", "fd_derivatives", dtype=dtype, isa=using, cache=cache_folder)
    for count in (1, 2, 15, 16, 17, 33, 4099, 20_000):
        inputs = {n: rng.uniform(-1, 1, (count, 2)).astype(dtype) for n in ("q", "qd", "tau")}
        fast = rng.random(count) < 0.3
        inputs["qd"][fast, rng.integers(2)] = large
        result = kernel(**inputs)
        assert np.array_equal(result.saturated, not_finite(result))
        assert np.array_equal(result.saturated, fast), "qd^2 overflows there"
        assert result.saturated.dtype == np.bool_
    for k in np.flatnonzero(fast)[:3]:
        assert kernel(**{n: v[k] for n, v in inputs.items()}).saturated == np.True_
    assert kernel(**{n: v[~fast][0] for n, v in inputs.items()}).saturated == np.False_


def test_each_lane_and_each_result_counts(cache_folder: Path) -> None:
    """In one sample of a block only the result qdd is not finite."""
    row = named_function("fd_derivatives", outputs=["minv"])
    kernel = cpu.compile("two_link", row, cache=cache_folder)
    for lane in range(16):
        inputs = {name: np.full((16, 2), 0.3) for name in ("q", "qd", "tau")}
        inputs["tau"][lane, 1] = 1.7e308
        result = kernel(**inputs)
        assert np.isfinite(result.minv).all() and not np.isfinite(result.qdd[lane]).all()
        assert np.flatnonzero(result.saturated).tolist() == [lane]


@pytest.mark.parametrize(("layout", "dtype"), [("soa", "float32"), ("blocks", "float64")])
def test_flags_of_other_layouts(layout: str, dtype: str, cache_folder: Path) -> None:
    kernel = cpu.compile("two_link", "rnea", dtype=dtype, layout=layout, cache=cache_folder)
    rng = np.random.default_rng(5)
    inputs = {name: rng.uniform(-1, 1, (48, 2)).astype(dtype) for name in ("q", "qd", "qdd")}
    inputs["qd"][[0, 17, 30, 47], 0] = 1e25 if dtype == "float32" else 1e200
    if layout == "soa":
        placed = {name: np.ascontiguousarray(values.T) for name, values in inputs.items()}
    else:
        placed = {name: to_blocks(values) for name, values in inputs.items()}
    result = kernel(**placed)
    assert np.flatnonzero(result.saturated).tolist() == [0, 17, 30, 47]
    tau = result.tau.T if layout == "soa" else from_blocks(result.tau, 48)
    assert np.array_equal(result.saturated, ~np.isfinite(tau).all(axis=1))


def test_streamed_results_are_flagged_too(cache_folder: Path) -> None:
    kernel = cpu.compile(
        "two_link", "fd_derivatives", cache=cache_folder
    )  # 16 MB and more bypass caches
    count = 200_003
    inputs = {name: np.full((count, 2), 0.3) for name in ("q", "qd", "tau")}
    inputs["qd"][[0, 99_999, count - 1]] = 1e200
    assert np.flatnonzero(kernel(**inputs).saturated).tolist() == [0, 99_999, count - 1]


def test_nan_in_a_request_is_refused_or_flagged_where_it_is_let_through(cache_folder: Path) -> None:
    inputs = {name: np.full((40, 2), 0.3) for name in ("q", "qd", "qdd")}
    inputs["qd"][21, 1] = np.nan
    for device in ("cpu", "float"):
        options: dict[str, Any] = {"cache": cache_folder} if device == "cpu" else {}
        opened = backend("two_link", "rnea", device=device, **options)
        with pytest.raises(InputError, match=r"'qd' at index \[21, 1\] is nan"):
            opened(**inputs)
    result = cpu.compile("two_link", "rnea", cache=cache_folder)(**inputs)
    assert np.flatnonzero(result.saturated).tolist() == [21]


def test_the_float_model_flags_too() -> None:
    """A user-defined function overflows float64 for values within float32's range."""
    opened = backend(None, "tests.compute.portable_functions:cube_of_cube", device="float")
    result = opened(x=np.array([1.0, 1e35, 2.0]))
    assert np.flatnonzero(result.saturated).tolist() == [1] and np.isinf(result.y[1])
    assert opened(x=1e35).saturated and not opened(x=1.0).saturated


def test_an_earlier_result_is_written(cache_folder: Path) -> None:
    kernel = cpu.compile("two_link", "rnea", cache=cache_folder)
    good = {name: np.full((20, 2), 0.3) for name in ("q", "qd", "qdd")}
    bad = {**good, "qd": np.full((20, 2), 1e200)}
    first = kernel(**good)
    expected, tau, flags = first.tau.copy(), first.tau, first.saturated
    for inputs in (bad, good):
        assert kernel(**inputs, out=first) is first
        assert first.tau is tau and first.saturated is flags
        assert flags.all() == (inputs is bad) and flags.any() == (inputs is bad)
    assert np.array_equal(tau, expected)
    # A mapping's flags are written too; without them, they are new.
    flags[:] = True
    again = kernel(**good, out=first._asdict())
    assert again is not first and again.tau is tau and again.saturated is flags and not flags.any()
    assert kernel(**good, out={"tau": tau}).saturated is not flags
    # One request: its flag is right, and no other result's flag has changed.
    request = {name: values[0] for name, values in good.items()}
    single, other = kernel(**request), kernel(**request)
    assert kernel(**{**request, "qd": bad["qd"][0]}, out=single) is single
    assert single.saturated and not other.saturated
    with pytest.raises(InputError, match=r"must be \(19, 2\)"):
        kernel(**{name: values[:19] for name, values in good.items()}, out=first)
    with pytest.raises(InputError, match="no result 'tau' to write"):
        cpu.compile("two_link", "aba", cache=cache_folder)(
            *(good[name] for name in ("q", "qd", "qdd")), out=first
        )
    # A result of a card: its cycles are not those of this run.
    carded = Result(arrays={"tau": np.zeros((20, 2))}, saturated=flags.copy(), cycles=7)
    assert kernel(**good, out=carded).cycles is None and np.array_equal(carded.tau, expected)


BALL = """<mujoco><worldbody>
<body><joint name="hip" type="ball"/><inertial pos="0 0 .1" mass="1" diaginertia=".01 .02 .03"/>
<body pos="0 0 1"><joint name="knee" axis="1 0 0"/>
<inertial pos="0 0 .2" mass="2" diaginertia=".01 .01 .02"/></body></body>
</worldbody></mujoco>"""

PLANAR = """<robot name="cart"><link name="world"/>
<link name="base"><inertial><mass value="2"/>
<inertia ixx=".1" iyy=".2" izz=".3" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="floor" type="planar"><parent link="world"/><child link="base"/><axis xyz="0 0 1"/>
</joint></robot>"""


@pytest.fixture(scope="module")
def rolling(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    place = tmp_path_factory.mktemp("robots") / "cart.urdf"
    place.write_text(PLANAR)
    ball = place.with_name("ball.xml")
    ball.write_text(BALL)
    return {
        "free": robot_of("floating leg"),
        "planar": load(str(place)),
        "ball": load(str(ball)),
    }


def refused(model: Model, states: dict[str, np.ndarray]) -> str:
    """Return the float model's error for requests that it refuses, otherwise ""."""
    try:
        rnea(model, *states.values())
    except DynamicsError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("layout", "dtype"), list(zip(cpu.LAYOUTS, ["float64", "float32", "float64"], strict=True))
)
@pytest.mark.parametrize("robot", some(["free", "planar", "ball"], ("planar",)))
def test_rotations_are_refused_as_by_the_float_model(
    robot: str, dtype: str, layout: str, rolling: dict[str, Model], cache_folder: Path
) -> None:
    model = rolling[robot]
    first = {"free": 3, "planar": 2, "ball": 0}[robot]
    size = 2 if robot == "planar" else 4
    assert {"free": JointKind.FREE_FLYER, "planar": JointKind.PLANAR, "ball": JointKind.SPHERICAL}[
        robot
    ] in [body.joint.kind for body in model.bodies]
    kernel = cpu.compile(model, "rnea", dtype=dtype, layout=layout, finite=True, cache=cache_folder)
    samples = sample(model, kernel.function, 48, distribution="reference", seed=3)
    wide = {name: values.astype(np.float64) for name, values in samples.items()}
    wide["q"] = np.stack([normalise(model, q) for q in wide["q"]])
    off_by = [0.0, 2e-7, -2e-7, 9e-7, 1.2e-6, -1.2e-6, 0.1, -1.0, 1e20]
    checked = 0
    for k, off in enumerate(off_by):
        requests = {name: values.copy() for name, values in wide.items()}
        requests["q"][5 * k, first : first + size] *= 1.0 + off
        narrow = {
            name: np.ascontiguousarray(values, dtype=dtype) for name, values in requests.items()
        }
        exact = {name: values.astype(np.float64) for name, values in narrow.items()}
        length = np.linalg.norm(exact["q"][5 * k, first : first + size])
        if abs(abs(length - 1.0) - 1e-6) < 1e-9:
            continue
        checked += 1
        placed = {
            "aos": lambda x: x,
            "soa": lambda x: np.ascontiguousarray(x.T),
            "blocks": to_blocks,
        }[layout]
        call = {name: placed(values) for name, values in narrow.items()}
        refusal = refused(model, exact)
        assert bool(refusal) == (abs(off) > 1e-6)
        if not refusal:
            assert not kernel(**call).saturated.any()
            continue
        kind = "cosine-sine pair" if size == 2 else "quaternion"
        for order in (np.ascontiguousarray, np.asfortranarray):
            with pytest.raises(InputError, match=rf"The {kind} q.* has norm") as caught:
                kernel(**{name: order(values) for name, values in call.items()})
            assert str(caught.value) == refusal or layout == "blocks"
    assert checked == len(off_by)


def test_one_rotation_for_all_and_one_alone(rolling: dict[str, Model], cache_folder: Path) -> None:
    model = rolling["free"]
    kernel = cpu.compile(model, "rnea", cache=cache_folder)
    q = np.zeros(model.nq)
    v = np.zeros((5, model.nv))
    for arguments in ((q, v, v), (q, v[0], v[0]), (np.tile(q, (5, 1)), v, v)):
        with pytest.raises(InputError, match=r"The quaternion q.* has norm 0, not 1"):
            kernel(*arguments)
    q[6] = 1.0
    assert kernel(q, v, v).tau.shape == (5, model.nv)


def test_the_look_at_rotations_is_off_by_an_option(
    rolling: dict[str, Model], cache_folder: Path
) -> None:
    model = rolling["free"]
    q, v = np.zeros((3, model.nq)), np.zeros((3, model.nv))
    q[:, 6] = 1.1
    opened = backend(model, "rnea", device="cpu", check_rotations=False, cache=cache_folder)
    assert opened(q, v, v).tau.shape == (3, model.nv)
    assert copy.copy(opened)(q, v, v).tau.shape == (3, model.nv)
    with pytest.raises(InputError, match=r"norm 1\.1, not 1"):
        backend(model, "rnea", device="cpu", cache=cache_folder)(q, v, v)
    with pytest.raises(DynamicsError, match=r"norm 1\.1, not 1"):
        backend(model, "rnea", device="float")(q, v, v)


def test_nan_passes_where_it_is_let_through(rolling: dict[str, Model], cache_folder: Path) -> None:
    model = rolling["free"]
    kernel = cpu.compile(model, "rnea", cache=cache_folder)
    q, v = np.zeros((20, model.nq)), np.zeros((20, model.nv))
    q[:, 6] = 1.0
    q[4, 3], q[9, 5] = np.nan, np.inf
    result = kernel(q, v, v)
    assert np.flatnonzero(result.saturated).tolist() == [4, 9]
    q[11, 6] = 0.5
    with pytest.raises(InputError, match=r"The quaternion q\[11, 3:7\] has norm 0.5"):
        kernel(q, v, v)
