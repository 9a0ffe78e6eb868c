"""A build reports its steps and their shares to its caller, and prints nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinion.base.progress import Progress
from tests.support.builds import build

MEASURED = {
    "Removing superfluous operations",
    "Scheduling at one result every 4 cycles",
    "Choosing units and cycles for few selector inputs",
    "Bounding the errors",
    "Elaborating the gateware",
}
"""Steps that report their share."""


def test_steps_come_in_order_and_each_rises_to_the_whole(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reports: list[tuple[str, list[float]]] = []
    build(
        "two_link",
        "rnea",
        tmp_path / "core",
        ii=4,
        progress=Progress(
            lambda text: reports.append((text, [])), lambda share: reports[-1][1].append(share)
        ),
    )
    assert capfd.readouterr() == ("", "")
    assert [step for step, _ in reports] == [
        "Tracing rnea for two_link",
        "Removing superfluous operations",
        "Scheduling at one result every 4 cycles",
        "Choosing units and cycles for few selector inputs",
        "Bounding the errors",
        "Measuring the errors on every distribution of states",
        "Elaborating the gateware",
        "Writing Verilog",
    ]
    for step, shares in reports:
        assert shares == sorted(shares), step
        assert all(0.0 <= share <= 1.0 for share in shares), step
        if step in MEASURED:
            assert shares and shares[-1] == 1.0, step
