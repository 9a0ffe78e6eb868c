"""A user-defined function: built, verified and run as an object, and from its folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion import driver
from pinion.api import backend
from pinion.cosim import verify
from pinion.dynamics.scalar import cos, sin
from pinion.flow import Build
from pinion.functions import (
    FUNCTIONS,
    Block,
    BuiltFunction,
    Function,
    FunctionError,
    Quantity,
    Uniform,
    sample,
)
from pinion.functions.blocks import DIMENSIONS
from pinion.link import ManifestError
from pinion.link.digests import write_digests
from pinion.robot import Model, load
from tests.support.builds import build

LENGTHS = (0.7, 0.4)


def reach(model: Model, q: Sequence[Any], gain: Any, shift: Any, *, region: Any) -> Sequence[Any]:
    """A planar tip, scaled and moved, and its derivative by the joints."""
    with region("forward", 1):
        first, both = q[0], q[0] + q[1]
        x = LENGTHS[0] * cos(first) + LENGTHS[1] * cos(both)
        y = LENGTHS[0] * sin(first) + LENGTHS[1] * sin(both)
    with region("column", 2):
        dx, dy = -LENGTHS[1] * sin(both), LENGTHS[1] * cos(both)
    tip = [gain * x + shift[0][0], gain * y + shift[1][0], shift[2][0] * 1.0]
    return tip, [[-y, dx], [x, dy]], gain * gain


REACH = Function(
    name="reach",
    doc="a scaled tip and its Jacobian",
    inputs=(
        Block(name="q", shape=("nq",), unit="rad", sampling=Quantity.POSITION),
        Block(name="gain", shape=(), unit="1", sampling=Uniform(0.5, 2.0)),
        Block(name="shift", shape=(3, 1), unit="m", sampling=Uniform(-1.0, 1.0)),
    ),
    outputs=(
        Block(name="tip", shape=(3,), unit="m"),
        Block(name="jacobian", shape=(2, "nv"), unit="m/rad"),
        Block(name="square", shape=(), unit="1"),
    ),
    scalars=reach,
)


def expected(q: Any, gain: Any, shift: Any) -> tuple[Any, Any]:
    """Return tip and Jacobian, computed independently in NumPy."""
    angles = np.cumsum(np.asarray(q, float), axis=1)
    arm = np.array(LENGTHS)
    xy = np.stack([(arm * np.cos(angles)).sum(1), (arm * np.sin(angles)).sum(1)], axis=1)
    tip = np.concatenate([gain[:, None] * xy + shift[:, :2, 0], shift[:, 2:, 0]], axis=1)
    outer = arm[1] * np.stack([-np.sin(angles[:, 1]), np.cos(angles[:, 1])], axis=1)
    turned = np.stack([-xy[:, 1], xy[:, 0]], axis=1)
    return tip, np.stack([turned, outer], axis=2)


@pytest.fixture(scope="module")
def model() -> Model:
    return load("two_link")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("own") / "reach"
    build("two_link", REACH, where, ii=4)
    return where


def test_the_table_does_not_know_it() -> None:
    assert REACH.name not in FUNCTIONS


def test_its_float_model_is_its_algorithm_on_arrays(model: Model) -> None:
    arrays = sample(model, REACH, 50, distribution="reference", seed=1)
    results = REACH.evaluate(model, {k: x.astype(np.float64) for k, x in arrays.items()})
    tip, jacobian = expected(**arrays)
    assert results["tip"].shape == (50, 3) and results["jacobian"].shape == (50, 2, 2)
    assert np.allclose(results["tip"], tip, rtol=0, atol=1e-6)
    assert np.allclose(results["jacobian"], jacobian, rtol=0, atol=1e-6)
    assert np.array_equal(results["square"], arrays["gain"].astype(np.float64) ** 2)


def test_it_verifies_bit_for_bit(folder: Path) -> None:
    for distribution in ("reference", "stress"):
        figures = verify(folder, samples=500, seed=2, distribution=distribution)
        assert figures["mismatches"] == 0 and figures["ok"], figures
        assert set(figures["rel_err_max"]) == {"tip", "jacobian", "square"}


def test_it_runs_through_the_driver(folder: Path, model: Model) -> None:
    arrays = sample(model, REACH, 40, distribution="reference", seed=3)
    with driver.open(folder) as card:
        result = card.run(**arrays)
    tip, jacobian = expected(**arrays)
    assert not result.saturated.any()
    assert np.abs(result.tip - tip).max() < 1e-3
    assert np.abs(result.jacobian - jacobian).max() < 1e-3
    assert result.square.shape == (40,)


def test_a_backend_takes_it(model: Model) -> None:
    arrays = sample(model, REACH, 8, distribution="reference", seed=4)
    with backend("two_link", REACH, device="float") as floats:
        assert np.allclose(floats.run(**arrays).tip, expected(**arrays)[0], rtol=0, atol=1e-6)


def test_its_folder_says_all_of_it(folder: Path, model: Model) -> None:
    """The built function is read back from data, without code or names."""
    stored = Build.read(folder).function
    assert stored == BuiltFunction.of(REACH, model)
    assert stored.inputs[1].sampling == Uniform(0.5, 2.0) and stored.results[1].shape == (2, 2)
    text = (folder / "function.json").read_text()
    assert BuiltFunction.from_json(json.loads(text)) == stored
    arrays = sample(model, stored, 9, distribution="reference", seed=5)
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    want = REACH.evaluate(model, wide)
    for name, values in stored.evaluate(model, wide).items():
        assert np.allclose(values, want[name], rtol=1e-14, atol=1e-15), name


def test_a_changed_function_is_no_intact_build(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in folder.iterdir():
        if path.is_file():
            (copy / path.name).write_bytes(path.read_bytes())
    text = (copy / "function.json").read_text()
    assert '"low"' not in text and "[0.5,2.0]" in text
    (copy / "function.json").write_text(text.replace("[0.5,2.0]", "[0.5,2.5]"))
    with pytest.raises(ManifestError, match=r"function\.json' is not the file that was built"):
        Build.read(copy)
    write_digests(copy)  # whoever means it can change them as well
    with pytest.raises(ManifestError, match=r"not intact .*function\.json.*build it again"):
        Build.read(copy)
    for broken in ("[" * 100_000, "[]", "{", '{"format": 1e999}'):
        (copy / "function.json").write_text(broken)
        write_digests(copy)
        with pytest.raises(ManifestError, match=r"not intact .*build it again"):
            Build.read(copy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"version": 3},
            r"version 3, but this Pinion reads 'pinion\.function', versions 1 and 2: build",
        ),
        ({"format": "x"}, r"has the format 'x', version 1"),
        ({"inputs": [{}]}, r"cannot be read \(KeyError: 'sampling'\): build the folder again"),
        ({"graph": {"format": "pinion.graph", "version": 7}}, r"version 7, but this Pinion"),
        (
            {"inputs": [{"shape": [2], "symmetric": False, "sampling": [0, 10**400]}]},
            r"cannot be read \(OverflowError: .*\): build the folder again",
        ),
    ],
    ids=["version", "format", "blocks", "graph", "range"],
)
def test_a_broken_file_is_a_sentence(model: Model, change: dict[str, Any], message: str) -> None:
    data = BuiltFunction.of(REACH, model).to_json() | change
    with pytest.raises(FunctionError, match=message):
        BuiltFunction.from_json(data)


def row(**changes: Any) -> Function:
    return Function(
        **{
            "name": "made",
            "doc": "",
            "inputs": REACH.inputs[:1],
            "outputs": (Block(name="y", shape=(), unit="1"),),
            "scalars": lambda model, q, *, region: (q[0] * q[1],),
        }
        | changes
    )


def test_what_does_not_fit_is_a_sentence(model: Model, tmp_path: Path) -> None:
    odd = Block(name="q", shape=("joints",), unit="rad", sampling=Quantity.POSITION)
    with pytest.raises(FunctionError, match=f"axis 'joints': .* one of {', '.join(DIMENSIONS)}"):
        build(model, row(inputs=(odd,)), tmp_path / "a")
    silent = Block(name="q", shape=("nq",), unit="rad")
    with pytest.raises(FunctionError, match="'q' of 'made' has no sampling"):
        build(model, row(inputs=(silent,)), tmp_path / "b")
    short = Block(name="q", shape=(3,), unit="rad", sampling=Quantity.POSITION)
    with pytest.raises(FunctionError, match=r"shape \(3,\), but .*POSITION has \(2,\)"):
        build(model, row(inputs=(short,)), tmp_path / "c")
    with pytest.raises(FunctionError, match=r"an array named 'a b': give it a name of letters"):
        row(outputs=(Block(name="a b", shape=(), unit="1"),))
    with pytest.raises(FunctionError, match="has two arrays named 'tip'"):
        row(outputs=(REACH.outputs[0], REACH.outputs[0]))
    with pytest.raises(FunctionError, match=r"cannot be sampled between 1\.0 and 0\.0"):
        Uniform(1.0, 0.0)
    with pytest.raises(FunctionError, match=r"given as an object, so derivatives \(column\)"):
        build(model, row(), tmp_path / "d", derivatives="column")
    assert not list(tmp_path.iterdir())
