"""``pinion synth``: resources of a build, counted by Yosys, and an estimate of its clock."""

from __future__ import annotations

from dataclasses import replace

from pinion.base.installation import require
from pinion.console.terminal import out, pairs, put_json, say, show, steps
from pinion.report import resource_tables, resource_totals
from pinion.report.timing import timing_blocks, timing_totals

from .options import Folder, Json

WIDE = 110
"""Columns that the table of paths needs."""


def command(folder: Folder, *, json: Json = False) -> None:
    """Count DSP blocks, LUTs and flip-flops with Yosys, and estimate delays."""
    require("hw")
    from pinion.link import Manifest
    from pinion.synthesis import synth

    with steps() as progress:
        result = synth(folder, progress=progress)
    if json:
        put_json(result)
        return
    totals = resource_totals(result)
    if Manifest.read_core(folder).target == "sim":
        totals = replace(
            totals, title=f"{totals.title}, the VCU118's part; the build is for no board"
        )
    show(totals)
    timing = [*timing_totals(result["timing"]), ("counted by", result["tool"])]
    out().print(pairs(timing))
    *counts, paths = resource_tables(result)
    for table in counts:
        show(table)
    if out().width < WIDE:
        say(timing_blocks(result["timing"]))
    else:
        show(paths)
    say(result["note"])
