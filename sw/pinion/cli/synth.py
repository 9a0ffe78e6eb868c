"""``pinion synth``: what a build costs, as Yosys counts it, and how fast it may be."""

from __future__ import annotations

from pinion.report import resource_tables, resource_totals
from pinion.report.timing import timing_blocks

from .options import Folder, Json
from .terminal import out, pairs, put_json, say, show, steps

WIDE = 110
"""Columns that the table of paths takes before it cuts its figures."""


def command(folder: Folder, *, json: Json = False) -> None:
    """Count DSP blocks, LUTs and flip-flops by Yosys, and estimate delays."""
    from pinion.link import Manifest
    from pinion.synthesis.synth import synth

    with steps() as report:
        result = synth(folder, report=report)
    if json:
        put_json(result)
        return
    title = f"Of a {result['part']}"
    if Manifest.read(folder).target == "sim":
        title += ", the VCU118's part; the build is for no board"
    out().print(pairs(resource_totals(result), title=title))
    *counts, paths = resource_tables(result)
    for made in counts:
        show(made)
    if out().width < WIDE:
        say(timing_blocks(result["timing"]))
    else:
        show(paths)
    say(result["note"])
