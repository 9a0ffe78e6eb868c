"""Board folders of a small build whose link is a stand-in, created in seconds."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pinion.boards.xilinx import write
from pinion.boards.xilinx.board import load_board
from pinion.boards.xilinx.clocking import core_clock
from tests.boards.vcu118.stub import Folder, core_rtlil, manifest, stub_rtlil
from tests.support.vivado.check import read_design
from tests.support.vivado.rehearse import DesignFacts


@pytest.fixture(scope="session")
def make_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, float], Folder]:
    """Write the folder of a board for a clock of the core, once a session."""
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
    """The Tcl interpreter; skips if it is missing."""
    program = shutil.which("tclsh")
    if program is None:
        pytest.skip("tclsh is missing (Debian: apt-get install tcl): the scripts cannot rehearse")
    return program


@pytest.fixture(scope="session")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Folder], Path]:
    """Copy a board's folder, for changes."""

    def copy(folder: Folder) -> Path:
        target = tmp_path_factory.mktemp("copy") / folder.path.name
        shutil.copytree(folder.path, target)
        return target

    return copy


@pytest.fixture(scope="session")
def designs(make_folder: Callable[[str, float], Folder]) -> Callable[[str, float], DesignFacts]:
    """What Yosys reads in a board's folder, cached by board and clock."""
    facts: dict[tuple[str, float], DesignFacts] = {}

    def design(name: str, mhz: float) -> DesignFacts:
        if (name, mhz) not in facts:
            folder = make_folder(name, mhz)
            facts[name, mhz] = read_design(
                folder.path, board=folder.board, core_clock=folder.core_clock
            )
        return facts[name, mhz]

    return design


@pytest.fixture(scope="session")
def design(designs: Callable[[str, float], DesignFacts]) -> DesignFacts:
    """The VCU118's design with a core at 200 MHz."""
    return designs("vcu118", 200.0)


@pytest.fixture
def changed(
    make_folder: Callable[[str, float], Folder], copied: Callable[[Folder], Path]
) -> Callable[[str, str, str], Path]:
    """Copy the VCU118's folder at 200 MHz and replace one text in a file."""

    def change(file: str, old: str, new: str) -> Path:
        path = copied(make_folder("vcu118", 200.0))
        text = (path / file).read_text()
        assert old in text, f"{old!r} is not in {file}"
        (path / file).write_text(text.replace(old, new, 1))
        return path

    return change
