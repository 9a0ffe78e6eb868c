"""Tops with small buffers for the benches inside simulators, correct or broken in one place."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from amaranth.back import rtlil

from pinion.boards.top import top_parameters
from pinion.gateware.link.top import TOP, Top
from pinion.gateware.verilog import emit_verilog
from pinion.link import Manifest
from tests.support.builds import build

DEPTH, FLIGHTS = 8, 4
"""Beats of an elastic buffer and batches in flight, few enough for a short bench to fill them."""


def small_build(folder: Path) -> Path:
    """Build a core for tops: two links, a result every 4 cycles."""
    build("two_link", "rnea", folder, ii=4)
    return folder


def small_top(core: Path, folder: Path, *, top: type[Top] = Top, crossing: bool = True) -> Path:
    """Write the Verilog of a top around a build's core; ``top`` may be a broken one."""
    parameters = dataclasses.replace(
        top_parameters(Manifest.read(core), crossing=crossing), depth=DEPTH, flights=FLIGHTS
    )
    text = rtlil.convert(top(parameters=parameters), name=TOP, emit_src=False)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "top.il").write_text(f"{text}\n{(core / 'core.il').read_text()}")
    emit_verilog(folder / "top.il", folder / "top.v")
    return folder / "top.v"
