"""A complete iiwa14 fd_derivatives_from_minv for the VCU118: core slower than the link.

It is not mapped: ``test_vcu118_fd.py`` maps the larger function, and ``test_vcu118_whole.py`` a
core slower than the link.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.boards.vcu118.whole import passes_every_check

pytestmark = pytest.mark.slow


def test_it_passes_every_check(tmp_path: Path, tclsh: str) -> None:
    path = passes_every_check(
        tmp_path / "build",
        tclsh,
        robot="iiwa14",
        function="fd_derivatives_from_minv",
        board_name="vcu118",
        mhz=200.0,
        ii=32,
    )
    assert "module pinion_core" in (path / "pinion_board.v").read_text()
