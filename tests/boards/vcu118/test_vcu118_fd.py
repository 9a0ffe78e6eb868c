"""The complete iiwa14 fd_derivatives for the VCU118: core and link at one clock.

Mapping takes four minutes.
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
        function="fd_derivatives",
        board_name="vcu118",
        mhz=250.0,
    )
    # Four for each product of 32 x 32 bits, plus those of the tables.
    assert maps_and_fits_one_die(path, board_name="vcu118", mhz=250.0)["dsp"] >= 828
