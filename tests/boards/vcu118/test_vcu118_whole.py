"""Small complete builds: every check; their mapping takes a minute and is a slow test.

The top around a stand-in for the link is mapped in ``test_vcu118_top.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pinion.link import Manifest
from tests.boards.vcu118.whole import maps_and_fits_one_die, passes_every_check


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, tclsh: str) -> Path:
    """The board's folder of a build whose core is slower than the link."""
    folder = tmp_path_factory.mktemp("whole") / "build"
    return passes_every_check(
        folder, tclsh, robot="pendulum", function="rnea", board_name="vcu118", mhz=200.0
    )


@pytest.mark.slow
def test_a_small_build_passes_the_checks(path: Path) -> None:
    assert "module pinion_core" in (path / "pinion_board.v").read_text()


@pytest.mark.slow
def test_a_small_build_maps_and_fits_one_die(path: Path) -> None:
    manifest = Manifest.read(path.parent)
    # Four for each product of 32 x 32 bits, one for each narrower product of the tables, and one in
    # the link, for a packet's count times the words of a record.
    blocks = 4 * manifest.multipliers + manifest.table_multipliers + 1
    assert maps_and_fits_one_die(path, board_name="vcu118", mhz=200.0)["dsp"] == blocks


@pytest.mark.slow
def test_another_board_maps_as_well(tmp_path: Path, tclsh: str) -> None:
    path = passes_every_check(
        tmp_path / "build", tclsh, robot="pendulum", function="rnea", board_name="u250", mhz=250.0
    )
    assert maps_and_fits_one_die(path, board_name="u250", mhz=250.0)["dsp"] > 0
