"""The scripts that the vendor tool runs: for the whole board, and for the core alone.

Their templates are the ``.tcl`` files beside this module.
"""

from __future__ import annotations

import re
from pathlib import Path

from pinion.base.escaping import comment
from pinion.gateware.dsp48e2 import MACRO
from pinion.link import Manifest
from pinion.synthesis.synth import TOP as CORE

from .board import Board
from .clocking import Mmcm
from .floorplan import PBLOCK, SHARE_PERCENT
from .strategies import SYNTHESIS, strategies_tcl
from .top import CORE_CLOCK_CELL, TOP, XDMA_CELL
from .xdma import IP, MODULE, configuration

BUILD_TCL, CORE_TCL, RESULT, CORE_RESULT, ATTEMPTS = (
    "build.tcl",
    "synth_core.tcl",
    "result.txt",
    "core_result.txt",
    "attempts.txt",
)
OUT = "out"
"""Folder beside the scripts that they write into."""

PROGRESS = "PINION: "
"""Start of a line that reports progress."""

EXPLICIT = "dsp48e2"
"""The word after ``-tclargs`` that asks for explicit DSP48E2 blocks."""

MISSED, FAILED = 1, 2
"""Exit codes: timing is missed; anything else went wrong."""

TRIES = 2
"""How often to start a strategy that ends without a result, as when Vivado itself crashes."""

_COMMON = "common.tcl"
"""Template for the first part of both scripts."""


def build_tcl(
    board: Board, manifest: Manifest, core_clock: Mmcm | None, *, synchronisers: int
) -> str:
    """Return the script that writes the bitstream if timing is met.

    Parameters
    ----------
    synchronisers : how many the design has; each has at least one register.
    """
    clocks = [_expect(f"{XDMA_CELL}/axi_aclk", board.link.clock_mhz)]
    if core_clock is not None:
        clocks.append(_expect(f"{CORE_CLOCK_CELL}/O", core_clock.mhz))
    properties = configuration(board).items()
    return _fill(
        BUILD_TCL,
        board,
        manifest,
        core_clock,
        WHAT=f"{board.title}: from Verilog to a bitstream.",
        CONFIGURATION=" \\\n".join(f"        {name} {{{value}}}" for name, value in properties)
        + " \\",
        CLOCKS="\n".join(clocks),
        SYNCHRONISERS=str(synchronisers),
        SOURCES=" ".join(sources(board)),
        CORE_CLOCK=f"{XDMA_CELL}/axi_aclk" if core_clock is None else f"{CORE_CLOCK_CELL}/O",
        TRIES=str(TRIES),
        SHARE=str(SHARE_PERCENT),
        DIE_LUT=str(board.die()["lut"]),
        DIE_DSP=str(board.die()["dsp"]),
    )


def sources(board: Board) -> tuple[str, ...]:
    """Return the files of a board's folder that determine the script's result."""
    name = board.name
    plans = (f"{name}{part}.xdc" for part in ("", "_timing", "_die", "_dies"))
    return (f"{TOP}.v", *plans, BUILD_TCL)


def core_tcl(board: Board, manifest: Manifest, core_clock: Mmcm | None) -> str:
    """Return the script that places and routes the core alone, to find its highest clock."""
    return _fill(CORE_TCL, board, manifest, core_clock, WHAT=f"{board.title}: the core alone.")


def _expect(pin: str, mhz: float) -> str:
    return f"    expect_clock {{{pin}}} {1000.0 / mhz:.3f}"


def _fill(
    script: str, board: Board, manifest: Manifest, core_clock: Mmcm | None, **words: str
) -> str:
    """Return a script from its template, with each ``@NAME@`` replaced."""
    core_mhz = board.link.clock_mhz if core_clock is None else core_clock.mhz
    words |= {
        "VERSION": comment(manifest.version),
        "ROBOT": comment(manifest.robot),
        "FUNCTION": comment(manifest.function),
        "HASH": f"{manifest.hash:016x}",
        "OUT": OUT,
        "PROGRESS": PROGRESS,
        "MISSED": str(MISSED),
        "FAILED": str(FAILED),
        "PART": board.part,
        "BOARD": board.name,
        "IP": IP,
        "MODULE": MODULE,
        "TOP": TOP,
        "PBLOCK": PBLOCK,
        "SLR": board.floorplan.slr,
        "SYNTHESIS": SYNTHESIS,
        "STRATEGIES": strategies_tcl(),
        "CORE_TOP": CORE,
        "EXPLICIT": EXPLICIT,
        "MACRO": MACRO,
        "RESULT": RESULT,
        "ATTEMPTS": ATTEMPTS,
        "CORE_RESULT": CORE_RESULT,
        "LINK_MHZ": f"{board.link.clock_mhz:g}",
        "CORE_MHZ": f"{core_mhz:.6g}",
        "FLASH": board.flash.interface,
        "FLASH_MB": str(board.flash.size_mb),
    }
    folder = Path(__file__).parent
    text = "\n".join((folder / name).read_text() for name in (_COMMON, script))
    return re.sub("@([A-Z_]+)@", lambda match: words[match[1]], text)
