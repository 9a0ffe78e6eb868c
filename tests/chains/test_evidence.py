"""Evidence for the papers' claims."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pinion.chains import cfa, evidence


def test_counts_are_those_of_the_methods() -> None:
    rows = {(row["algorithm"], row["links"]): row for row in evidence.counts((10, 100))}
    for n in (10, 100):
        levels = math.ceil(math.log2(n))
        assert rows["ID by scans, Hillis and Steele", n]["levels"] == 3 * levels
        assert rows["ID by scans, Brent and Kung", n]["levels"] <= 3 * (2 * levels - 1)
        assert rows["ID by scans, Blelloch", n]["levels"] == 3 * (2 * levels + 1)
        assert rows["CFA, odd-even elimination", n]["levels"] == levels + 1
        assert rows["CFA, odd-even reduction", n]["levels"] == 2 * math.floor(math.log2(n)) + 1
        assert rows["CFA, L D L^T", n]["sequential"] == 2 * n - 1
        assert rows["hybrid ABIA", n]["sequential"] == n
        assert rows["JSIIA", n]["sequential"] == 3 * n


def test_facts_are_what_the_claims_need(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = evidence.facts()
    assert facts["hybrid"] == {"scans": 3, "recursions": 1}
    assert 5.0 < facts["upper_blocks"]["median_condition"] < 500.0
    assert facts["upper_blocks"]["largest_condition"] < 1e6
    assert facts["any_joint"]["corrected"] < 1e-10 < 1.0 < facts["any_joint"]["original"]
    assert facts["branches"]["with_branches"] < facts["branches"]["without"]
    assert facts["levels_with_branches"]["levels"] < facts["levels_with_branches"]["links"]
    assert 2.0 < facts["serial_cfa"]["ratio"] < facts["serial_cfa"]["refined"] < 4.0
    assert facts["two_arrays"]["both"] >= facts["two_arrays"]["first"] > 0
    # A wrong solver is noticed.
    monkeypatch.setattr(
        evidence, "cfa", lambda *arguments, **options: 2 * cfa(*arguments, **options)
    )
    assert not np.isclose(evidence.facts()["any_joint"]["corrected"], 0.0, atol=1e-3)
