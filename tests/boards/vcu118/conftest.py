"""Board folders of a small build whose link is a stand-in with the right ports, made in seconds."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pinion.boards.xilinx import write
from pinion.boards.xilinx.board import load_board
from pinion.boards.xilinx.clocking import core_clock
from tests.boards.vcu118.stub import Folder, core_rtlil, manifest, stub_rtlil


@pytest.fixture(scope="session")
def make_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, float], Folder]:
    """Writes the folder of a board for a clock of the core; each once a session."""
    folders: dict[tuple[str, float], Folder] = {}

    def make(name: str, clock_mhz: float) -> Folder:
        key = (name, clock_mhz)
        if key not in folders:
            board = load_board(name)
            record = manifest(target=name, clock_mhz=clock_mhz)
            build = tmp_path_factory.mktemp(f"{name}_{clock_mhz:g}")
            record.write(build)
            (build / "core.il").write_text(core_rtlil())
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(write, "top_rtlil", stub_rtlil)
                path = write.write_board(build, record, board=board)
            folders[key] = Folder(path, board, core_clock(board, clock_mhz), record)
        return folders[key]

    return make


@pytest.fixture(scope="session")
def tclsh() -> str:
    """The Tcl interpreter, or a skip that says how to get it."""
    program = shutil.which("tclsh")
    if program is None:
        pytest.skip("tclsh is missing (Debian: apt-get install tcl): the scripts cannot rehearse")
    return program


@pytest.fixture(scope="session")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Folder], Path]:
    """A copy of a board's folder, to break something in."""

    def copy(folder: Folder) -> Path:
        target = tmp_path_factory.mktemp("copy") / folder.path.name
        shutil.copytree(folder.path, target)
        return target

    return copy
