"""What the algorithms say of the papers' claims."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pinion.chains import cfa, evidence


def test_counts_are_those_of_the_methods() -> None:
    found = {(row["algorithm"], row["links"]): row for row in evidence.counts((10, 100))}
    for n in (10, 100):
        levels = math.ceil(math.log2(n))
        assert found["ID by scans, Hillis and Steele", n]["levels"] == 3 * levels
        assert found["ID by scans, Brent and Kung", n]["levels"] <= 3 * (2 * levels - 1)
        assert found["ID by scans, Blelloch", n]["levels"] == 3 * (2 * levels + 1)
        assert found["CFA, odd-even elimination", n]["levels"] == levels + 1
        assert found["CFA, odd-even reduction", n]["levels"] == 2 * math.floor(math.log2(n)) + 1
        assert found["CFA, L D L^T", n]["sequential"] == 2 * n - 1
        assert found["hybrid ABIA", n]["sequential"] == n
        assert found["JSIIA", n]["sequential"] == 3 * n


def test_facts_are_what_the_claims_need(monkeypatch: pytest.MonkeyPatch) -> None:
    found = evidence.facts()
    assert found["hybrid"] == {"scans": 3, "recursions": 1}
    assert 5.0 < found["upper_blocks"]["median_condition"] < 500.0
    assert found["upper_blocks"]["largest_condition"] < 1e6
    assert found["any_joint"]["corrected"] < 1e-10 < 1.0 < found["any_joint"]["original"]
    assert found["branches"]["with_branches"] < found["branches"]["without"]
    assert found["levels_with_branches"]["levels"] < found["levels_with_branches"]["links"]
    assert 2.0 < found["serial_cfa"]["ratio"] < found["serial_cfa"]["refined"] < 4.0
    assert found["two_arrays"]["both"] >= found["two_arrays"]["first"] > 0
    # A wrong solver shows.
    monkeypatch.setattr(evidence, "cfa", lambda *given, **options: 2 * cfa(*given, **options))
    assert not np.isclose(evidence.facts()["any_joint"]["corrected"], 0.0, atol=1e-3)
