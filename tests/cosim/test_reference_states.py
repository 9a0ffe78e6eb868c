"""The reference of functions with states and of functions with comparisons, by closed forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pinion.base.arrays import Words
from pinion.cosim.reference import Reference, make
from pinion.dynamics.scalar import less, select
from pinion.flow.build import BuildError
from pinion.functions import Function
from pinion.link.accuracy import Verdict
from pinion.link.comparison import Comparison
from pinion.robot import Model
from tests.support.builds import build
from tests.support.filters import DELAY, X, Y, state

NOT_A_NUMBER = 0x7FC0_0000

# Numbers that the format represents exactly.
INPUTS = np.array([0.75, -0.5, 0.125, 1.0, -1.0, 0.625, 0.0, 0.3125])


def bits(values: Any) -> Words:
    return np.asarray(values, np.float32).view(np.uint32)


WORDS = bits(INPUTS).reshape(-1, 1)


def switch(model: Model, x: Any, before: Any, *, region: Any) -> Any:
    """The earlier of two neighbours, or the later one minus 1 if it is larger."""
    return select(less(before, x), x - 1.0, before), x


SWITCH = Function(
    name="switch",
    doc="the earlier one, or the later one less one where it is larger",
    inputs=(X,),
    outputs=(Y,),
    scalars=switch,
    states=(state("before", 0.25),),
)


@pytest.fixture(scope="module")
def reference_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Function], Reference]:
    built: dict[str, Reference] = {}

    def reference(function: Function) -> Reference:
        if function.name not in built:
            where = tmp_path_factory.mktemp("states") / function.name
            build("pendulum", function, where, ii=8)
            built[function.name] = make(where)
        return built[function.name]

    return reference


def delayed(inputs: np.ndarray, resets: list[int]) -> list[float]:
    """Return the inputs of two requests ago, and initial values after each reset."""
    results: list[float] = []
    for begin, end in zip([0, *resets], [*resets, len(inputs)], strict=True):
        part = [-0.25, 0.5, *inputs[begin:end]]
        results += part[: end - begin]
    return results


@pytest.mark.parametrize("resets", [[], [3], [1, 6]])
def test_a_stream_goes_on_from_request_to_request_and_begins_at_resets(
    reference_of: Callable[[Function], Reference], resets: list[int]
) -> None:
    reference = reference_of(DELAY)
    fresh = np.isin(np.arange(8), resets) if resets else None
    results, flags = reference.expected(WORDS, fresh)
    right = delayed(INPUTS, resets)
    assert results.dtype == np.uint32 and results.shape == (8, 1) and not flags.any()
    assert results.view(np.float32)[:, 0].tolist() == right
    assert reference.float_model(WORDS, fresh)[:, 0].tolist() == right
    assert reference.float_stream(WORDS, fresh)[:, 0].tolist() == right
    values, _, states = reference.integers(WORDS, fresh)
    assert reference.integers(WORDS, fresh)[0] is values, "a stream is followed once"
    assert states["b"].tolist() == right and set(states) == {"a", "b"}
    other = np.zeros(8, np.bool_)
    assert reference.integers(WORDS, other)[0] is not values
    assert reference.integers(WORDS.copy(), other)[0] is not values


def test_a_flag_stays_until_the_state_is_reset(
    reference_of: Callable[[Function], Reference],
) -> None:
    reference = reference_of(DELAY)
    words = WORDS.copy()
    words[2, 0] = NOT_A_NUMBER
    assert reference.expected(words)[1].tolist() == [False, False, *[True] * 6]
    fresh = np.arange(8) == 5
    assert np.flatnonzero(reference.expected(words, fresh)[1]).tolist() == [2, 3, 4]


def test_errors_of_a_stream_are_of_each_request_alone(
    reference_of: Callable[[Function], Reference],
) -> None:
    """The float model begins at the integers' states, which are rounded."""
    reference = reference_of(DELAY)
    (lsb,) = {
        fmt.lsb
        for node, fmt in zip(reference.graph.nodes, reference.formats, strict=True)
        if node.op == "input"
    }
    words = bits(INPUTS + 0.3 * lsb).reshape(-1, 1)
    rounded = delayed(INPUTS, [])
    assert reference.float_model(words)[:, 0].tolist() == rounded
    stream = reference.float_stream(words)[:, 0]
    assert stream[:2].tolist() == [-0.25, 0.5]
    assert stream[2:] == pytest.approx(INPUTS[:6] + 0.3 * lsb, abs=1e-7)
    assert (stream[2:] != rounded[2:]).any()


def test_requests_near_a_comparison_are_undecided(
    reference_of: Callable[[Function], Reference],
) -> None:
    """Each value is compared with the previous one, which is a state."""
    reference = reference_of(SWITCH)
    (bound,) = reference.build.manifest.decisions.values()
    assert 0 < bound < 1e-3
    inputs = np.array([0.25, 0.25 + 0.5 * bound, 0.5, 0.5 - 1.5 * bound, -0.5, 0.75])
    words = bits(inputs).reshape(-1, 1)
    near, nearer = [0, 1], [0, 1, 3]
    assert np.flatnonzero(reference.undecided(words)).tolist() == near
    assert np.flatnonzero(reference.undecided(words, 2.0)).tolist() == nearer
    # After a reset the state is its initial value, far from the last value.
    fresh = np.arange(6) == 1
    assert np.flatnonzero(reference.undecided(words, 1.0, fresh)).tolist() == near
    fresh = np.arange(6) == 3
    assert np.flatnonzero(reference.undecided(words, 2.0, fresh)).tolist() == near
    # Undecided requests cause no complaint, decided ones do.
    results, _ = reference.expected(words)
    spoilt = results.copy()
    spoilt[near, 0] = NOT_A_NUMBER
    assert reference.check_floats(words, spoilt) == []
    spoilt[4, 0] = NOT_A_NUMBER
    (complaint,) = reference.check_floats(words, spoilt)
    assert "in 1 of 4 requests" in complaint


def test_a_distribution_has_the_errors_of_requests_that_count(
    reference_of: Callable[[Function], Reference],
) -> None:
    reference = reference_of(SWITCH)
    error = np.arange(8.0).reshape(8, 1) * 1e-4
    flags = np.arange(8) == 7
    undecided = Comparison.of(
        *(error, np.zeros((8, 1))),
        blocks={"y": [0]},
        scales={"y": 1.0},
        flagged=flags,
        undecided=np.arange(8) == 6,
    )
    options = {
        "distribution": "slow",
        "seed": 4,
        "simulator": "icarus",
        "verdict": Verdict(mismatches=2, failed=("bits",)),
    }
    distribution = reference.distribution_of(undecided, **options)
    plain = reference.distribution_of(replace(undecided, undecided=flags), **options)
    assert distribution.build == f"{reference.build.manifest.hash:016x}"
    assert (distribution.distribution, distribution.requests, distribution.seed) == ("slow", 8, 4)
    assert (distribution.flagged, distribution.simulator, distribution.verdict) == (
        1,
        "icarus",
        options["verdict"],
    )
    (block,), (all_decided,) = distribution.blocks, plain.blocks
    assert (block.name, block.unit) == ("y", "1") and tuple(block.words) == ("y",)
    assert block.lsb == reference.formats[reference.graph.outputs[0][1]].lsb
    assert tuple(block.budget) == tuple(reference.budget)
    assert tuple(block.largest) == (error[5, 0],)
    assert tuple(all_decided.largest) == (error[6, 0],)


def test_words_are_numbers_by_name(
    reference_of: Callable[[Function], Reference],
) -> None:
    reference = reference_of(DELAY)
    (columns,) = reference.columns(WORDS).items()
    assert columns[0] == reference.graph.inputs[0] and columns[1].tolist() == INPUTS.tolist()


def test_another_beginning_is_refused(reference_of: Callable[[Function], Reference]) -> None:
    reference = reference_of(DELAY)
    other = replace(DELAY, states=(DELAY.states[0], state("b", 0.75)))
    with pytest.raises(
        BuildError, match=r"initial value of -0\.25 for the state 'b', but 'delay' has 0\.75"
    ):
        Reference(reference.build, other)
    assert Reference(reference.build, DELAY).function is DELAY
    with pytest.raises(BuildError, match=r"the states .* but 'delay' has none"):
        Reference(reference.build, replace(DELAY, states=(), scalars=lambda model, x, *, region: x))


def test_a_build_that_promises_nothing_by_distribution_is_refused() -> None:
    manifest = SimpleNamespace(promises={}, version="0.0.1")
    old: Any = SimpleNamespace(manifest=manifest, folder=Path("old"))
    with pytest.raises(BuildError, match=r"'old' was made by Pinion 0\.0\.1, .* build it again"):
        Reference(old)
