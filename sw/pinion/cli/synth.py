"""``pinion synth``: what a build costs, as Yosys counts it."""

from __future__ import annotations

from .options import Folder, Json
from .terminal import out, pairs, put_json, say, steps

_WORDS = {
    "dsp": "DSP blocks",
    "lut": "LUTs",
    "ff": "flip-flops",
    "bram": "block RAMs",
    "max_levels": "longest path",
    "tool": "counted by",
}


def command(folder: Folder, *, json: Json = False) -> None:
    """Count DSP blocks, LUTs and flip-flops by Yosys."""
    from pinion.boards.synth import synth

    with steps() as report:
        result = synth(folder, report=report)
    if json:
        put_json(result)
        return
    rows = [(words, result[name]) for name, words in _WORDS.items()]
    rows = [(n, f"{v} levels" if n == "longest path" else v) for n, v in rows]
    out().print(pairs(rows))
    say(result["note"])
