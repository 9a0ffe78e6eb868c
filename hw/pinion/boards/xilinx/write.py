"""Writer of the files in a build folder that the vendor tool needs for a board."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from pinion.base import installation
from pinion.base.escaping import comment
from pinion.base.progress import SILENT, Progress
from pinion.boards.pins import BoardError
from pinion.boards.top import top_rtlil
from pinion.gateware import run_yosys
from pinion.gateware.dsp48e2 import explicit_text, with_explicit
from pinion.gateware.emit import RTLIL
from pinion.gateware.verilog import mark_registers
from pinion.gateware.yosys import yosys_path
from pinion.link import Manifest, ManifestError
from pinion.synthesis.estimate import multipliers_of
from pinion.synthesis.synth import TOP as CORE

from .board import Board
from .clocking import Mmcm, core_clock, reachable_mhz
from .floorplan import die_xdc, dies_xdc
from .readme import readme
from .script import BUILD_TCL, CORE_TCL, build_tcl, core_tcl
from .top import TOP, board_rtlil
from .xdc import pins_xdc, timing_xdc
from .xdma import black_box

README = "README.md"
_RUN = (".tcl", ".xdc")
_KILOHERTZ = 1e-3


def write_board(
    folder: Path,
    manifest: Manifest,
    *,
    board: Board,
    progress: Progress = SILENT,
) -> Path:
    """Write a board's folder, ``<folder>/<name of the board>``.

    It contains the whole design as one Verilog file, constraints, the scripts for the vendor tool
    and a README. Its content does not depend on its location or on the time.

    Parameters
    ----------
    folder : the build folder, with ``core.il`` and the manifest.
    manifest : manifest of the build, with a clock that `pinion.boards.xilinx.reachable_mhz`
        returned.
    board : the board.
    progress : receives each step.

    Returns
    -------
    The board's folder.

    Raises
    ------
    BoardError
        If the board's clock manager cannot generate the manifest's clock.
    pinion.gateware.yosys.YosysError
        If the parts do not fit together.
    """
    reachable = reachable_mhz(board, manifest.clock_mhz)
    if abs(reachable - manifest.clock_mhz) > _KILOHERTZ:
        raise BoardError(
            f"The {board.name} cannot clock a core at {manifest.clock_mhz:g} MHz: build it for "
            f"{reachable:.3f} MHz."
        )
    clock = core_clock(board, manifest.clock_mhz)
    core = (folder / RTLIL).read_text()
    target = folder / board.name
    target.mkdir(parents=True, exist_ok=True)
    progress.step(f"Writing the design for {board.name}")
    synchronisers = write_verilog(
        target / f"{TOP}.v",
        board=board,
        core_clock=clock,
        link=top_rtlil(folder, crossing=clock is not None, link_mhz=board.link.clock_mhz),
        headline=f"// Written by Pinion {comment(manifest.version)} for "
        f"{comment(manifest.robot)}, {comment(manifest.function)}, build "
        f"{manifest.hash:016x}; board {board.name}.\n",
        explicit=explicit_text(folder),
    )
    texts = {
        **_scripts(board, manifest, clock, core, synchronisers),
        README: readme(board, manifest, clock, multipliers=multipliers_of(core, top=CORE)),
    }
    for name, text in texts.items():
        (target / name).write_text(text)
    return target


def _scripts(
    board: Board, manifest: Manifest, clock: Mmcm | None, core: str, synchronisers: int
) -> dict[str, str]:
    """Return the text of every file that the vendor tool runs, constraints included, by name."""
    return {
        f"{board.name}.xdc": pins_xdc(board, crossing=clock is not None),
        f"{board.name}_timing.xdc": timing_xdc(board, clock),
        f"{board.name}_die.xdc": die_xdc(board),
        f"{board.name}_dies.xdc": dies_xdc(board, core),
        BUILD_TCL: build_tcl(board, manifest, clock, synchronisers=synchronisers),
        CORE_TCL: core_tcl(board, manifest, clock),
    }


def check_scripts(folder: Path, manifest: Manifest, *, board: Board) -> None:
    """Raise if a script differs from the one that this version of Pinion writes for a build.

    The vendor tool runs the scripts with all the rights of the user, and a build folder may be
    untrusted, so they are generated again and compared.

    Raises
    ------
    ManifestError
        With the name of the file that differs.
    """
    target = folder / board.name
    clock = core_clock(board, manifest.clock_mhz)
    core = (folder / RTLIL).read_text()
    scripts = {path.name: path.read_text() for path in target.iterdir() if path.suffix in _RUN}
    # The number of synchronisers is all that a script depends on in the design itself.
    count = re.search(r"\$marked < (\d+)\}", scripts.get(BUILD_TCL, ""))
    expected = _scripts(board, manifest, clock, core, int(count[1]) if count else 0)
    for name in sorted({*scripts, *expected}):
        if scripts.get(name) != expected.get(name):
            raise ManifestError(
                f"'{target / name}' differs from what Pinion {installation.version()} writes for "
                "this build, and the vendor tool would run it: build the folder again, or run "
                "your own scripts with 'vivado -mode batch -source'."
            )


def write_verilog(
    path: Path,
    *,
    board: Board,
    core_clock: Mmcm | None,
    link: str,
    headline: str = "",
    explicit: str = "",
) -> int:
    """Write the board's top and all its modules, except the DMA engine and primitives, as Verilog.

    The hierarchy is kept, because constraints name cells by it. Registers of synchronisers are
    marked, so that the vendor tool keeps them separate and close together.

    Parameters
    ----------
    link : RTLIL of ``pinion_top`` and everything in it.
    headline : comment at the start of the file.
    explicit : other forms of some modules (:func:`pinion.gateware.dsp48e2.with_explicit`).

    Returns
    -------
    The number of synchronisers in the design.

    Raises
    ------
    BoardError
        If two parts disagree on the width of a port.
    pinion.gateware.yosys.YosysError
        If they disagree on anything else.
    """
    board_text = board_rtlil(board, core_clock)
    synchronisers = [*synchroniser_modules(board_text), *synchroniser_modules(link)]
    if not synchronisers:
        raise BoardError(
            f"No synchroniser was found in the design for {board.name}: reinstall Pinion and "
            "Amaranth."
        )
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".rtlil-") as scratch:
        work = Path(scratch)
        (work / "board.il").write_text(board_text)
        (work / "link.il").write_text(link)
        (work / "xdma.v").write_text(black_box(board))
        log = run_yosys(
            [
                "read_rtlil board.il",
                "read_rtlil link.il",
                "read_verilog xdma.v",
                "read_verilog -lib -specify +/xilinx/cells_sim.v",
                "read_verilog -lib +/xilinx/cells_xtra.v",
                f"hierarchy -check -top {TOP}",
                "proc",
                "memory_collect",
                *(
                    f'setattr -set ASYNC_REG "TRUE" {name}/w:stage*'.replace("$", "\\$")
                    for name in synchronisers
                ),
                f"write_verilog {yosys_path(path, folder=work)}",
            ],
            folder=work,
            name="board",
        )
    if widths := re.findall(r"Resizing cell port .*", log):
        raise BoardError(f"Connected ports of {board.name}'s design differ in width ({widths[0]}).")
    # The first line depends on the Yosys binary and where it was compiled.
    body = path.read_text().split("\n", 1)[1]
    path.write_text(headline + with_explicit(mark_registers(body), explicit))
    return len(synchronisers)


def synchroniser_modules(rtlil: str) -> list[str]:
    """Return the names of synchroniser modules, recognised by Amaranth's ``stage0`` registers.

    The core is skipped, because it has a single clock.
    """
    modules, module = [], ""
    for line in rtlil.splitlines():
        if line.startswith("module \\"):
            module = line.removeprefix("module \\")
        elif re.fullmatch(r"  wire .*\\stage0", line) and not module.startswith("pinion_core"):
            modules.append(module)
    return modules
