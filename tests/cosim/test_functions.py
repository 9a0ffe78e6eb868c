"""Every function through RTL, bit for bit; a small arm for all, slowly the iiwa14 for one.

One simulation compiles for each build, which takes 3 seconds for the small arm and up to 40 for
the iiwa14; it is kept in the build folder, so that later tests of the same build take no time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pinion import driver
from pinion.cosim import stream
from pinion.cosim.reference import Reference, request_words
from pinion.cosim.verify import verify
from pinion.flow.build import Build
from pinion.functions import SUBJECTS, sample
from tests.support.breadth import some_rows
from tests.support.builds import build

II = 4
VARIANTS = [(row.name, {}) for row in SUBJECTS["dynamics"]] + [
    ("rnea_derivatives", {"derivatives": "column"}),
    pytest.param("fd_derivatives", {"outputs": ("minv",)}, marks=pytest.mark.slow),
]
DIVIDING = ("minv", "aba", "fd_derivatives")

Get = Callable[..., Path]


@pytest.fixture(scope="module")
def get(tmp_path_factory: pytest.TempPathFactory) -> Get:
    """Build folders of the arm with two joints, each built once for this file."""
    folders: dict[str, Path] = {}

    def folder(name: str, **options: object) -> Path:
        key = f"{name} {options}"
        if key not in folders:
            folders[key] = tmp_path_factory.mktemp("function") / name
            build("two_link", name, folders[key], ii=II, **options)  # type: ignore[arg-type]
        return folders[key]

    return folder


@pytest.mark.parametrize(
    ("name", "options"), some_rows(VARIANTS, lambda name, options: name in ("rnea", "aba")), ids=str
)
def test_a_small_arm_is_bit_exact(get: Get, name: str, options: dict[str, str]) -> None:
    folder = get(name, **options)
    figures = verify(folder, samples=1000, seed=1)
    assert figures["mismatches"] == 0 and figures["ok"], figures
    assert figures["flagged"] == 0 and figures["cycles_per_result"] == II
    built = Build.read(folder)
    assert built.manifest.options.keys() == options.keys()
    assert built.function.options == built.manifest.options
    assert bool(built.manifest.units.get("reciprocal")) == (name in DIVIDING)
    assert built.manifest.words_out == len(built.graph.outputs) == len(figures["budget"])
    for word, bound in figures["budget"].items():
        assert figures["error_max"][word] <= bound


@pytest.mark.parametrize("name", ["aba", "fd_derivatives_from_minv"])
def test_pauses_and_harder_states(get: Get, name: str) -> None:
    folder = get(name)
    figures = verify(
        folder, samples=1000, seed=2, idle=stream.bursts(seed=3), stall=stream.random(seed=4)
    )
    assert figures["ok"] and figures["mismatches"] == 0
    for distribution in ("stress", "beyond"):
        figures = verify(folder, samples=1000, seed=5, distribution=distribution)
        assert figures["mismatches"] == 0 and figures["wrong_unflagged"] == 0, distribution


@pytest.mark.parametrize("name", ["crba", "rnea_derivatives", "fd_derivatives_from_minv"])
def test_the_driver_fills_in_what_does_not_travel(get: Get, name: str) -> None:
    """Arrays in natural shapes through the simulated card, against both models."""
    folder = get(name)
    built, count, seed = Build.read(folder), 40, 6
    arrays = sample(built.model, built.function, count, distribution="reference", seed=seed)
    with driver.open(folder) as device:
        result = device.run(**arrays)
    assert not result.saturated.any()
    reference = Reference(built)
    words = request_words(built.manifest, arrays)
    expected, flags = reference.expected(words)
    assert not flags.any()
    floats = built.function.evaluate(
        built.model, {k: x.astype(np.float64) for k, x in arrays.items()}
    )
    start = 0
    for array in built.manifest.outputs:
        values = getattr(result, array.name)
        assert values.shape == (count, *array.shape) and values.dtype == np.float32
        sent = np.ascontiguousarray(array.gather(values)).reshape(count, -1)
        assert np.array_equal(sent.view(np.uint32), expected[:, start : start + array.words])
        budgets = {k: b for k, b in built.manifest.budget.items() if k.startswith(f"{array.name}[")}
        assert len(budgets) == array.words
        assert np.all(np.abs(values - floats[array.name]) <= max(budgets.values())), array.name
        assert not array.symmetric or np.array_equal(values, np.swapaxes(values, 1, 2))
        start += array.words
    parts = [a for a in (*built.manifest.inputs, *built.manifest.outputs) if a.sent is not None]
    assert parts, "something of this function does not travel"


@pytest.mark.slow  # forward dynamics are in tests/cosim/test_slow_robots.py
def test_the_iiwa14_divides_bit_exactly(tmp_path: Path) -> None:
    manifest = build("iiwa14", "minv", tmp_path / "minv", ii=8)
    products = manifest.ops["mul"] + manifest.ops["mul_const"]
    assert manifest.multipliers <= 1.15 * -(-products // 8)
    assert manifest.units["reciprocal"] == -(-manifest.ops["reciprocal"] // 8) == 1
    figures = verify(tmp_path / "minv", samples=1000, seed=7)
    assert figures["mismatches"] == 0 and figures["ok"], figures
    assert figures["flagged"] == 0 and figures["cycles_per_result"] == 8
    for word, bound in figures["budget"].items():
        assert figures["error_max"][word] <= bound <= 50 * figures["error_max"][word], word
