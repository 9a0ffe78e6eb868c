"""Small whole builds: every check but the mapping, and for another board the mapping as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.boards.vcu118.whole import maps_and_fits_one_die, passes_every_check


def test_a_small_build_passes_the_checks(tmp_path: Path, tclsh: str) -> None:
    path = passes_every_check(
        tmp_path / "build", tclsh, robot="pendulum", function="rnea", board_name="vcu118", mhz=200.0
    )
    assert "module pinion_core" in (path / "pinion_board.v").read_text()


@pytest.mark.slow
def test_another_board_maps_as_well(tmp_path: Path, tclsh: str) -> None:
    path = passes_every_check(
        tmp_path / "build", tclsh, robot="pendulum", function="rnea", board_name="u250", mhz=250.0
    )
    assert maps_and_fits_one_die(path, board_name="u250", mhz=250.0)["dsp"] > 0
