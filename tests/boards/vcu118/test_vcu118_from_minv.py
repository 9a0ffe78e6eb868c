"""The complete iiwa14 fd_derivatives_from_minv for the VCU118: core slower than the link.

A separate file, because mapping takes minutes and each file runs in one process.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.boards.vcu118.whole import maps_and_fits_one_die, passes_every_check

pytestmark = pytest.mark.slow


def test_it_passes_every_check_maps_and_fits_one_die(tmp_path: Path, tclsh: str) -> None:
    path = passes_every_check(
        tmp_path / "build",
        tclsh,
        robot="iiwa14",
        function="fd_derivatives_from_minv",
        board_name="vcu118",
        mhz=200.0,
    )
    # Four for each product of 32 x 32 bits, plus those of the tables.
    assert maps_and_fits_one_die(path, board_name="vcu118", mhz=200.0)["dsp"] >= 708
