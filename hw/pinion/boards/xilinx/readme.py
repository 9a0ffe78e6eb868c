"""README for a board's folder: steps, expected resources, and what is still untested."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pinion.base.escaping import markdown
from pinion.link import Manifest, layout_of
from pinion.synthesis.estimate import Multipliers, in_words

from .board import Board
from .clocking import Mmcm
from .script import ATTEMPTS, BUILD_TCL, CORE_TCL, OUT, PROGRESS, RESULT
from .strategies import STRATEGIES
from .top import LIGHTS, TOP

_LIGHTS = {
    "link_up": "the PCIe link is up",
    "locked": "the core's clock is steady",
    "link_beat": "blinks twice a second: the link's clock is running",
    "core_beat": "blinks: the core's clock is running",
}

_TEXT = "readme.md"
"""Template of the text, beside this file."""


def readme(
    board: Board, manifest: Manifest, core_clock: Mmcm | None, *, multipliers: Sequence[Multipliers]
) -> str:
    """Return the README of a board's folder; ``multipliers`` are those of the core."""
    core_mhz = board.link.clock_mhz if core_clock is None else core_clock.mhz
    rate = core_mhz * 1e6 / manifest.ii
    die = board.die()
    lights = LIGHTS[: len(board.leds.nets)]
    from_oscillator = (
        ", the link's"
        if core_clock is None
        else f", made from {board.clock.mhz:g} MHz on the board"
    )
    twins = board.flash.interface == "SPIx8"
    text = Path(__file__).with_name(_TEXT).read_text()
    return text.format(
        robot=markdown(manifest.robot),
        function=markdown(manifest.function),
        version=markdown(manifest.version),
        hash=f"{manifest.hash:016x}",
        title=board.title,
        name=board.name,
        part=board.part,
        folder_hint="DIR",
        build=BUILD_TCL,
        core=CORE_TCL,
        out=OUT,
        result=RESULT,
        attempts=ATTEMPTS,
        strategies=len(STRATEGIES),
        progress=PROGRESS.strip(),
        top=TOP,
        files=f" (`{OUT}/pinion_primary.mcs` and `{OUT}/pinion_secondary.mcs`)"
        if twins
        else f" (`{OUT}/pinion.mcs`)",
        flash=board.flash.part,
        lights="\n".join(f"- `{board.leds.nets[i]}`: {_LIGHTS[n]}" for i, n in enumerate(lights)),
        link_mhz=board.link.clock_mhz,
        lanes=board.link.lanes,
        core_mhz=core_mhz,
        core_from=from_oscillator,
        ii=manifest.ii,
        thousands=rate / 1000,
        latency=manifest.latency_cycles,
        latency_us=manifest.latency_cycles / core_mhz,
        words_in=manifest.words_in,
        words_out=manifest.words_out,
        gbytes_in=layout_of(manifest).words_in * 4 * rate / 1e9,
        gbytes_out=manifest.words_out * 4 * rate / 1e9,
        multipliers=manifest.multipliers,
        tables=manifest.table_multipliers,
        dsp=sum(row.number * row.blocks for row in multipliers),
        why=in_words(multipliers),
        die_dsp=die["dsp"],
        die_lut=die["lut"],
        die_ff=die["ff"],
        die_bram=die["bram"],
        slrs=board.floorplan.slrs,
        slr=board.floorplan.slr,
        unknown="\n".join(f"- {text}" for text in board.unknown),
        sources="\n".join(f"- {text}" for text in board.sources),
    )
