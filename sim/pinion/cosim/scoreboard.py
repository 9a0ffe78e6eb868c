"""When the RTL disagrees: which operation diverged first, and a waveform that shows it.

The failing request is replayed, with those before it, on a build that keeps its signals' names.
Every unit's output is compared with the integer model in the cycle in which the schedule says that
it holds a node's value; the earliest difference names the node, its unit and its source line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.fixedpoint import Wide
from pinion.gateware.emit import RTLIL
from pinion.graph import names
from pinion.graph.evaluate import FixedValues

from .compiled import CompiledCore
from .reference import Reference, Words
from .stream import pack_records
from .vcd import write_vcd

# Requests replayed before the failing one: enough to fill the pipeline with the same neighbours.
REPLAY = 40


@dataclass(frozen=True)
class Divergence:
    """The first difference of a request.

    Members
    -------
    request : number of the request in its batch.
    node, op : the graph node, -1 and "" when every unit agrees and the fault is behind them.
    unit : such as ``dot2_3``.
    cycle : after the request's launch.
    region, line : link and pass, source line.
    expected, got : integers.
    waveform : VCD file with expected values beside outputs.
    """

    request: int
    node: int
    op: str
    unit: str
    cycle: int
    region: str
    line: str
    expected: int
    got: int
    waveform: Path

    def __str__(self) -> str:
        if self.node < 0:
            return (
                f"Request {self.request}: every unit agrees with the integer model, so the fault "
                f"lies behind them, in the output lanes or converters; see {self.waveform}."
            )
        return (
            f"Request {self.request}: the first difference is %{self.node} ({self.op}, "
            f"{self.region or 'no region'}, {self.line or 'no line'}) on unit {self.unit} in cycle "
            f"{self.cycle}: {self.got} instead of {self.expected}; see {self.waveform}."
        )


def first_divergence(
    reference: Reference, words: Words, request: int, *, folder: Path, rtlil: Path | None = None
) -> Divergence:
    """Replay a failing request and find the first node that differs.

    Parameters
    ----------
    words : (n, words_in) uint32, the whole batch.
    request : number of the failing request.
    folder : where the waveform goes; it is made.
    rtlil : the design; the build folder's own when left out.
    """
    build = reference.build
    manifest, rows = build.manifest, build.schedule
    core = CompiledCore.build(rtlil=rtlil or build.folder / RTLIL, debug=True)
    # What a request finds with states, all before it have made.
    first = 0 if reference.graph.states else max(0, request - REPLAY)
    replay = words[first : request + 1]
    values, _, _ = reference.integers(replay)
    beats, last = pack_records(replay, lanes=manifest.lanes_in, beats=manifest.beats_in)
    prefix = "" if "launch" in core.signals() else "pinion_core."
    units = sorted({f"{row['kind']}_{row['unit']}" for row in rows["operations"]})
    # The port of the instance: the net behind it is optimised away and reads as 0.
    signals = {unit: f"{prefix}datapath.{unit}.unit.o" for unit in units}
    edges = ("i_tvalid", "i_tready", "o_tvalid", "o_tready", "o_tlast", "o_tuser", "o_tdata")
    cycles = (len(replay) + 2) * manifest.ii + 2 * manifest.latency_cycles + 64
    trace = core.trace([*signals.values(), f"{prefix}launch", *edges], beats, last, cycles=cycles)
    launches = np.flatnonzero(trace[f"{prefix}launch"])
    folder.mkdir(parents=True, exist_ok=True)
    waveform = folder / f"request_{request}.vcd"
    _waveform(waveform, reference, replay, trace, launches, signals, rows, values)
    launch = launches[len(replay) - 1] if len(launches) >= len(replay) else None
    if launch is not None:
        for row in sorted(rows["operations"], key=lambda r: (r["start"] + r["latency"], r["node"])):
            cycle = row["start"] + row["latency"]
            unit = f"{row['kind']}_{row['unit']}"
            width = reference.formats[row["node"]].width
            got = _signed(int(trace[signals[unit]][launch + cycle]), width)
            expected = int(_column(values, row["node"], len(replay))[-1])
            if got != expected:
                node = reference.graph.nodes[row["node"]]
                op = node.op
                if op == names.QUANTIZE:
                    op = reference.graph.nodes[node.args[0]].op
                return Divergence(
                    request, row["node"], op, unit, cycle, node.region, node.line,
                    expected, got, waveform,
                )  # fmt: skip
    return Divergence(request, -1, "", "", 0, "", "", 0, 0, waveform)


def _column(values: FixedValues, node: int, count: int) -> NDArray[np.int64]:
    """What a unit should give for a node in each request, (n,)."""
    value = values.nodes[node]
    assert not isinstance(value, Wide)  # no unit's result is wider than one limb
    return np.broadcast_to(value, (count,))


def _signed(bits: int, width: int) -> int:
    return bits - (1 << width) if bits >> (width - 1) & 1 else bits


def _waveform(
    path: Path,
    reference: Reference,
    replay: Words,
    trace: dict[str, NDArray[Any]],
    launches: NDArray[np.intp],
    signals: dict[str, str],
    rows: dict[str, list[dict[str, int]]],
    values: FixedValues,
) -> None:
    """Output beats and unit outputs with what they should be beside them."""
    manifest = reference.build.manifest
    expected, flags = reference.expected(replay)
    count = len(trace["o_tvalid"])
    shown = {name: trace[name] for name in ("i_tvalid", "i_tready", "o_tvalid", "o_tready")}
    widths = dict.fromkeys(shown, 1)
    taken = np.flatnonzero((trace["o_tvalid"] == 1) & (trace["o_tready"] == 1))
    lanes, beats = manifest.lanes_out, manifest.beats_out
    for lane in range(lanes):
        lane_bits = [int(x) >> (32 * lane) & 0xFFFFFFFF for x in trace["o_tdata"]]
        got = np.array(lane_bits, dtype=np.uint64)
        want = got.copy()
        for position, cycle in enumerate(taken[: len(replay) * beats]):
            word = position % beats * lanes + lane
            if word < expected.shape[1]:
                want[cycle] = int(expected[position // beats, word])
        shown[f"o_tdata[{lane}]"], shown[f"o_tdata[{lane}]_expected"] = got, want
        widths[f"o_tdata[{lane}]"] = widths[f"o_tdata[{lane}]_expected"] = 32
    want_user = trace["o_tuser"].copy()
    for position, cycle in enumerate(taken[: len(replay) * beats]):
        if position % beats == beats - 1:
            want_user[cycle] = int(flags[position // beats])
    shown["o_tuser"], shown["o_tuser_expected"] = trace["o_tuser"], want_user
    widths["o_tuser"] = widths["o_tuser_expected"] = 1
    for unit, signal in signals.items():
        got = trace[signal].astype(np.uint64)
        want = got.copy()
        width = 32
        for row in rows["operations"]:
            if f"{row['kind']}_{row['unit']}" != unit:
                continue
            node = row["node"]
            width = reference.formats[node].width
            column = _column(values, node, len(replay))
            for k, launch in enumerate(launches[: len(replay)]):
                cycle = launch + row["start"] + row["latency"]
                if cycle < count:
                    want[cycle] = int(column[k]) & ((1 << width) - 1)
        shown[unit], shown[f"{unit}_expected"] = got, want
        widths[unit] = widths[f"{unit}_expected"] = width
    write_vcd(path, cycles=shown, widths=widths)
