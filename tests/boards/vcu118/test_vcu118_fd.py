"""A complete iiwa14 fd_derivatives for the VCU118: core and link at one clock.

Mapping takes minutes, so the core has an interval of 32 cycles. `python -m
tests.boards.vcu118.whole` maps the builds of the page, which are larger.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pinion.link import Manifest
from tests.boards.vcu118.whole import maps_and_fits_one_die, passes_every_check

pytestmark = pytest.mark.slow


def test_it_passes_every_check_maps_and_fits_one_die(tmp_path: Path, tclsh: str) -> None:
    path = passes_every_check(
        tmp_path / "build",
        tclsh,
        robot="iiwa14",
        function="fd_derivatives",
        board_name="vcu118",
        mhz=250.0,
        ii=32,
    )
    # Four for each product of 32 x 32 bits, plus those of the tables.
    least = 4 * Manifest.read(path.parent).multipliers
    assert maps_and_fits_one_die(path, board_name="vcu118", mhz=250.0)["dsp"] >= least > 0
