"""Search for the first operation in which the RTL differs from the integer model.

The failing request is replayed, with those before it, on a simulation with signal names. Every
unit's output is compared with the integer model in the cycle in which the schedule has a node's
value there; the earliest difference names the node, its unit and its source line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Words
from pinion.fixedpoint import Wide
from pinion.gateware.emit import RTLIL
from pinion.graph import names
from pinion.graph.evaluate import FixedValues

from .compiled import CompiledCore
from .reference import Reference
from .stream import pack_records
from .vcd import write_vcd

# Requests replayed before the failing one, enough to fill the pipeline.
REPLAY = 40


@dataclass(frozen=True)
class Divergence:
    """First operation of a request in which RTL and integer model differ.

    Members
    -------
    request : number of the request in its batch.
    node, op : the graph node; -1 and "" if every unit agrees and the fault is after them.
    unit : the unit, such as ``dot2_3``.
    cycle : cycle after the request's launch; -1 if the core never launched it.
    region, line : link and pass, source line.
    expected, actual : integers.
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
    actual: int
    waveform: Path

    def __str__(self) -> str:
        if self.cycle < 0:
            return f"Request {self.request}: the core never launched it; see {self.waveform}."
        if self.node < 0:
            return (
                f"Request {self.request}: every unit agrees with the integer model, so the fault "
                f"is in the output lanes or converters; see {self.waveform}."
            )
        return (
            f"Request {self.request}: the first difference is %{self.node} ({self.op}, "
            f"{self.region or 'no region'}, {self.line or 'no line'}) on unit {self.unit} in cycle "
            f"{self.cycle}: {self.actual} instead of {self.expected}; see {self.waveform}."
        )


def first_divergence(
    reference: Reference, words: Words, request: int, *, folder: Path, rtlil: Path | None = None
) -> Divergence:
    """Replay a failing request and find the first node that differs.

    Parameters
    ----------
    words : (n, words_in) uint32, the whole batch.
    request : number of the failing request.
    folder : folder for the waveform, created if missing.
    rtlil : the design; the build folder's by default.
    """
    build = reference.build
    manifest, rows = build.manifest, build.schedule
    core = CompiledCore.build(rtlil=rtlil or build.folder / RTLIL, debug=True)
    # A state depends on all earlier requests.
    first = 0 if reference.graph.states else max(0, request - REPLAY)
    replay = words[first : request + 1]
    values, _, _ = reference.integers(replay)
    beats, last = pack_records(replay, lanes=manifest.lanes_in, beats=manifest.beats_in)
    prefix = "" if "launch" in core.signals() else "pinion_core."
    units = sorted({f"{row['kind']}_{row['unit']}" for row in rows["operations"]})
    # The instance's port, because its net is optimised away and reads as 0.
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
            actual = _signed(int(trace[signals[unit]][launch + cycle]), width)
            expected = int(_column(values, row["node"], len(replay))[-1])
            if actual != expected:
                node = reference.graph.nodes[row["node"]]
                op = node.op
                if op == names.QUANTIZE:
                    op = reference.graph.nodes[node.args[0]].op
                return Divergence(
                    request, row["node"], op, unit, cycle, node.region, node.line,
                    expected, actual, waveform,
                )  # fmt: skip
    cycle = -1 if launch is None else 0
    return Divergence(request, -1, "", "", cycle, "", "", 0, 0, waveform)


def _column(values: FixedValues, node: int, count: int) -> NDArray[np.int64]:
    """Return a node's expected value in each request, (n,)."""
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
    """Write a waveform (VCD) of output beats and unit outputs with their expected values."""
    manifest = reference.build.manifest
    expected, flags = reference.expected(replay)
    count = len(trace["o_tvalid"])
    traces = {name: trace[name] for name in ("i_tvalid", "i_tready", "o_tvalid", "o_tready")}
    widths = dict.fromkeys(traces, 1)
    output_cycles = np.flatnonzero((trace["o_tvalid"] == 1) & (trace["o_tready"] == 1))
    lanes, beats = manifest.lanes_out, manifest.beats_out
    for lane in range(lanes):
        lane_bits = [int(x) >> (32 * lane) & 0xFFFFFFFF for x in trace["o_tdata"]]
        actual = np.array(lane_bits, dtype=np.uint64)
        target = actual.copy()
        for position, cycle in enumerate(output_cycles[: len(replay) * beats]):
            word = position % beats * lanes + lane
            if word < expected.shape[1]:
                target[cycle] = int(expected[position // beats, word])
        traces[f"o_tdata[{lane}]"], traces[f"o_tdata[{lane}]_expected"] = actual, target
        widths[f"o_tdata[{lane}]"] = widths[f"o_tdata[{lane}]_expected"] = 32
    want_user = trace["o_tuser"].copy()
    for position, cycle in enumerate(output_cycles[: len(replay) * beats]):
        if position % beats == beats - 1:
            want_user[cycle] = int(flags[position // beats])
    traces["o_tuser"], traces["o_tuser_expected"] = trace["o_tuser"], want_user
    widths["o_tuser"] = widths["o_tuser_expected"] = 1
    for unit, signal in signals.items():
        actual = trace[signal].astype(np.uint64)
        target = actual.copy()
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
                    target[cycle] = int(column[k]) & ((1 << width) - 1)
        traces[unit], traces[f"{unit}_expected"] = actual, target
        widths[unit] = widths[f"{unit}_expected"] = width
    write_vcd(path, cycles=traces, widths=widths)
