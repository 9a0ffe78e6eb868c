"""Results: arrays by attribute and by item, and no way to change them by accident."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from pinion.batch import Result

TAU = np.arange(6, dtype=np.float32).reshape(3, 2)
FLAGS = np.array([False, True, False])


@pytest.fixture
def result() -> Result:
    return Result(arrays={"tau": TAU, "qdd": 2 * TAU}, saturated=FLAGS, cycles=42)


def test_attributes_items_and_names(result: Result) -> None:
    assert result.tau is result["tau"] is TAU
    assert result.saturated is result["saturated"] is FLAGS
    assert result.names == ("tau", "qdd") and result.cycles == 42
    assert list(result) == ["tau", "qdd", "saturated"] and len(result) == 3
    assert set(result._asdict()) == {"tau", "qdd", "saturated"}
    assert {"tau", "qdd", "cycles"} <= set(dir(result))


def test_unknown_names_are_refused_with_those_there_are(result: Result) -> None:
    with pytest.raises(AttributeError, match="no 'taw'; it has tau, qdd, saturated and cycles"):
        _ = result.taw
    with pytest.raises(KeyError, match="no 'taw'; it has tau"):
        result["taw"]
    with pytest.raises(KeyError, match=r"use result\.cycles"):
        result["cycles"]
    assert not hasattr(result, "taw") and "taw" not in result and result.get("taw") is None


def test_a_result_cannot_be_changed(result: Result) -> None:
    with pytest.raises(AttributeError, match="'tau' was not set"):
        result.tau = TAU
    with pytest.raises(AttributeError, match="'cycles' was not set"):
        result.cycles = 3  # type: ignore[misc]
    with pytest.raises(AttributeError, match="'tau' was not deleted"):
        del result.tau
    assert result.tau is TAU and result.cycles == 42


def test_the_text_gives_shapes_and_flags(result: Result) -> None:
    assert repr(result) == "Result(tau=(3, 2), qdd=(3, 2), saturated: 1 of 3, cycles=42)"


def test_results_of_floats_speak_of_nothing_that_only_cards_have() -> None:
    result = Result(arrays={"tau": TAU}, saturated=np.zeros(3, np.bool_), cycles=None)
    assert repr(result) == "Result(tau=(3, 2))"
    html = result._repr_html_()
    assert "3 results" in html and "saturated" not in html and "cycles" not in html
    single = Result(arrays={"tau": TAU[0]}, saturated=np.zeros((), np.bool_), cycles=None)
    assert "<b>1 result</b>" in single._repr_html_()
    # Flags are reported, whoever computed them.
    flagged = Result(arrays={"tau": TAU}, saturated=FLAGS, cycles=None)
    assert repr(flagged) == "Result(tau=(3, 2), saturated: 1 of 3)"
    assert "saturated: 1 of 3" in flagged._repr_html_()


def test_equality_is_identity(result: Result) -> None:
    other = Result(arrays={"tau": TAU}, saturated=FLAGS, cycles=42)
    assert result == result and result != other and len({result, other}) == 2


def test_copies_and_pickles(result: Result) -> None:
    for duplicate in (copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert np.array_equal(duplicate.tau, TAU) and duplicate.cycles == 42
        assert np.array_equal(duplicate.saturated, FLAGS) and duplicate.names == result.names
