"""The reference's judgement of right, wrong and flagged results, and its refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pinion.base.arrays import Words
from pinion.cosim.reference import Reference, make, request_words
from pinion.cosim.scoreboard import Divergence
from pinion.flow.build import BuildError
from pinion.functions import row_of, sample
from tests.support.builds import build

NOT_A_NUMBER = 0x7FC0_0000


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    where = tmp_path_factory.mktemp("reference") / "two_link"
    build("two_link", "rnea", where, ii=4)
    return make(where)


@pytest.fixture
def words(reference: Reference) -> Words:
    core_build = reference.build
    arrays = sample(core_build.model, core_build.function, 50, distribution="reference", seed=2)
    return request_words(core_build.manifest, arrays)


def test_requests_are_words_in_record_order(reference: Reference, words: Words) -> None:
    core_build = reference.build
    arrays = sample(core_build.model, core_build.function, 50, distribution="reference", seed=2)
    names = [array.name for array in core_build.manifest.inputs]
    assert words.dtype == np.uint32 and words.shape == (50, core_build.manifest.words_in)
    joint = np.concatenate([np.asarray(arrays[name], np.float32) for name in names], axis=1)
    assert (words.view(np.float32) == joint).all()
    back = reference.arrays(words)
    assert all((back[name] == np.asarray(arrays[name], np.float32)).all() for name in names)


def test_right_results_are_no_complaint(reference: Reference, words: Words) -> None:
    results, flags = reference.expected(words)
    assert not flags.any() and results.dtype == np.uint32
    assert reference.check_floats(words, results) == []


def test_a_result_outside_of_its_budget_is_named(reference: Reference, words: Words) -> None:
    results, _ = reference.expected(words)
    floats = results.view(np.float32).copy()
    off = 10 * reference.budget[1]
    floats[7, 1] += off
    floats[9, 1] -= off
    (complaint,) = reference.check_floats(words, floats.view(np.uint32))
    name = reference.graph.outputs[1][0]
    assert complaint.startswith(f"{name} is off by ") and "in 2 of 50 requests" in complaint
    assert f"its budget of {reference.budget[1]:.3g}" in complaint
    # An error within the budget is accepted.
    floats = results.view(np.float32).copy()
    expected = reference.float_model(words)
    floats[3, 1] = expected[3, 1] + 0.9 * reference.budget[1]
    assert reference.check_floats(words, floats.view(np.uint32)) == []


def test_what_is_no_number_is_a_complaint(reference: Reference, words: Words) -> None:
    results, _ = reference.expected(words)
    results[4, 0] = NOT_A_NUMBER
    (complaint,) = reference.check_floats(words, results)
    assert "in 1 of 50 requests" in complaint


def test_flagged_requests_are_left_out(reference: Reference, words: Words) -> None:
    words[5, 0] = NOT_A_NUMBER
    results, flags = reference.expected(words)
    assert np.flatnonzero(flags).tolist() == [5]
    results[5, :] = NOT_A_NUMBER
    assert reference.check_floats(words, results) == []
    results[6, 0] = NOT_A_NUMBER
    (complaint,) = reference.check_floats(words, results)
    assert "in 1 of 49 requests" in complaint


def test_a_function_of_other_arrays_is_refused(reference: Reference) -> None:
    row = row_of("rnea")
    assert Reference(reference.build, row).function is row
    for other, sentence in (
        (replace(row, name="other"), "built from 'rnea', not from 'other': name the"),
        (replace(row, inputs=row.inputs[:2]), r"with the inputs q .*, qd .*, qdd .*has q .*, qd"),
        (row_of("minv"), "built from 'rnea', not from 'minv'"),
    ):
        with pytest.raises(BuildError, match=sentence):
            Reference(reference.build, other)


def test_a_divergence_says_where_it_is() -> None:
    divergence = Divergence(7, 12, "mul", "dot2_3", 9, "forward", "rnea.py:3", 5, -6, Path("w.vcd"))
    assert str(divergence) == (
        "Request 7: the first difference is %12 (mul, forward, rnea.py:3) on unit dot2_3 in cycle "
        "9: -6 instead of 5; see w.vcd."
    )
    assert "is %0 (mul," in str(replace(divergence, node=0))
    plain = replace(divergence, region="", line="")
    assert "(mul, no region, no line)" in str(plain)
    behind = Divergence(7, -1, "", "", 0, "", "", 0, 0, Path("w.vcd"))
    assert str(behind).startswith("Request 7: every unit agrees") and "see w.vcd." in str(behind)
