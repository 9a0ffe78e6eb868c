"""Rates of a whole top in compiled simulation, as JSON: ``python benchmarks/top_rate.py BUILD``.

BUILD is a folder that `pinion build` made. ``cycles_per_result`` is what the RTL sustains from the
trailer of the first batch to that of the last; ``link_cycles_per_s`` is how fast the simulation is,
by processor time.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from pinion.boards.top import write_top
from pinion.card.batches import request_stream, response_beats
from pinion.cosim.top import CompiledTop
from pinion.driver.card import layout_of
from pinion.link import Manifest

CLOCKS = {"1": (1, 1), "0.6": (3, 5), "1.2": (6, 5)}
BATCHES = ([4000], [500] * 8, [64] * 64)


def measure(folder: Path) -> dict[str, object]:
    manifest = Manifest.read(folder)
    layout = layout_of(manifest)
    begin = time.perf_counter()
    rtlil = write_top(folder)
    written = time.perf_counter()
    card = CompiledTop.build(rtlil=rtlil)
    compiled = time.perf_counter()
    rng = np.random.default_rng(0)
    rows = []
    for name, (link, core) in CLOCKS.items():
        card.clocks(link=link, core=core)
        for counts in BATCHES:
            floats = rng.uniform(-1, 1, (sum(counts), manifest.words_in)).astype(np.float32)
            beats, last = request_stream(layout, floats.view(np.uint32), counts)
            room = response_beats(layout, counts)
            start = time.process_time()
            run = card.run(beats=beats, last=last, room=room)
            spent = time.process_time() - start
            done = run.emitted_at[run.last]
            steady = float(done[-1] - done[0]) / sum(counts[1:]) if len(counts) > 1 else None
            total = int(done[-1] - run.accepted_at[0])
            rows.append(
                {
                    "core_clock": name,
                    "batches": len(counts),
                    "count": counts[0],
                    "cycles_per_result": steady,
                    "start_up_cycles": total - manifest.ii * core / link * sum(counts),
                    "first_answer_cycles": int(done[0] - run.accepted_at[0]),
                    "link_cycles_per_s": round(run.cycles / spent),
                }
            )
    return {
        "robot": manifest.robot,
        "function": manifest.function,
        "formats": manifest.formats,
        "ii": manifest.ii,
        "words_in": manifest.words_in,
        "words_out": manifest.words_out,
        "write_s": round(written - begin, 1),
        "compile_s": round(compiled - written, 1),
        "rows": rows,
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Give one build folder: python benchmarks/top_rate.py BUILD")
    print(json.dumps(measure(Path(sys.argv[1])), indent=2))
