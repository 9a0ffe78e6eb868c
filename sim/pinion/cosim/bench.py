"""cocotb test inside Icarus or Verilator that sends one batch of beats through a core.

The working directory is the bench's folder. `runner` writes ``stimuli.npz`` and ``spec.json``
there; this module writes ``result.npz`` and ``complaints.json``. Source and sink come from
cocotbext-axi, bound to the prefixes ``i`` and ``o``; `Monitor` stamps cycles and checks that an
offer stays until it is taken.
"""

from __future__ import annotations

import importlib
import itertools
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource

from pinion.base.amounts import amount
from pinion.base.arrays import Flags, Words

from .runner import COMPLAINTS, DONE, RESULT, SPEC, STIMULI
from .stream import deadlock

_PERIOD_NS = 10
_SHOWN = 5
_SIGNS = 100


class ReferenceModel(Protocol):
    """Interface of the reference object that the spec names as ``module:function``."""

    def expected(self, words: Words) -> tuple[Words, Flags]:
        """Return result words (n, words_out) and flags (n,) for request words (n, words_in)."""

    def check_floats(self, words_in: Words, words_out: Words) -> list[str]:
        """Return messages about results outside the error budget of the float model."""


class Monitor:
    """Monitor that samples both streams of a core at every rising clock edge."""

    def __init__(self, *, dut: Any) -> None:
        self.dut = dut
        # The source offers its first beat after the first edge seen here; counting from -1 makes
        # that cycle 0, as in the compiled engine.
        self.cycle = -1
        self.waited = 0
        self.violations = 0
        self.accepted: list[int] = []
        self.emitted: list[int] = []
        self.launched: list[int] = []
        self.unknown: list[str] = []

    async def run(self, n_beats: int) -> None:
        """Monitor forever; ``n_beats`` input beats will be sent."""
        dut, edge = self.dut, RisingEdge(self.dut.clk)
        offer: tuple[str, str, str] | None = None
        while True:
            await edge
            values = [
                str(s.value) for s in (dut.i_tvalid, dut.i_tready, dut.o_tvalid, dut.o_tready)
            ]
            if any(value not in "01" for value in values):
                names = "i_tvalid, i_tready, o_tvalid, o_tready"
                self.unknown.append(f"cycle {self.cycle}: {names} = {', '.join(values)}")
            i_valid, i_ready, o_valid, o_ready = (value == "1" for value in values)
            if offer is not None and (not o_valid or self._payload() != offer):
                self.violations += 1
            offer = self._payload() if o_valid and not o_ready else None
            if str(dut.launch.value) == "1":
                self.launched.append(self.cycle)
            # Only cycles in which the host is willing count towards the limit.
            if o_ready and (i_valid or len(self.accepted) >= n_beats):
                self.waited += 1
            if i_valid and i_ready:
                self.accepted.append(self.cycle)
                self.waited = 0
            if o_valid and o_ready:
                self.emitted.append(self.cycle)
                self.waited = 0
            self.cycle += 1

    def _payload(self) -> tuple[str, str, str]:
        dut = self.dut
        return str(dut.o_tdata.value), str(dut.o_tlast.value), str(dut.o_tuser.value)


def _frames(beats: Words, last: Flags) -> Iterator[AxiStreamFrame]:
    start = 0
    for end in (np.flatnonzero(last) + 1).tolist():
        yield AxiStreamFrame(beats[start:end].reshape(-1).tolist())
        start = end


def differing_records(actual: Words | Flags, expected: Words | Flags, *, name: str) -> list[str]:
    """Return messages about differences in shape or words, with the first record and word.

    Parameters
    ----------
    actual, expected : (n, words) arrays that must be equal.
    name : name of the expected side in a message.
    """
    if actual.shape != expected.shape:
        return [f"The results have shape {actual.shape}, but {name} have {expected.shape}."]
    wrong = np.argwhere(actual != expected)
    if not len(wrong):
        return []
    record, word = (int(k) for k in wrong[0])
    return [
        f"The results differ from {name} in {amount(len(wrong), 'word')} of "
        f"{amount(len(np.unique(wrong[:, 0])), 'record')}; the first is word {word} "
        f"of record {record}: {int(actual[record, word]):#010x} instead of "
        f"{int(expected[record, word]):#010x}."
    ]


def _check(
    spec: dict[str, Any], stimuli: dict[str, Any], frames: list[AxiStreamFrame]
) -> list[str]:
    """Compare output frames with expected arrays and the reference; return messages."""
    words_out = spec["words_out"]
    if len({len(frame.tdata) for frame in frames}) != 1:
        return ["The result records differ in length: not every record has TLAST on its last beat."]
    flags = np.array([frame.tuser[-1] for frame in frames], dtype=np.bool_)
    words = np.array([frame.tdata for frame in frames], dtype=np.uint32)
    words = words[:, :words_out]
    words_in = spec["words_in"]
    complaints: list[str] = []
    if "expected_words" in stimuli:
        complaints += differing_records(words, stimuli["expected_words"], name="the expected words")
    if "expected_flags" in stimuli:
        expected = stimuli["expected_flags"][:, None]
        complaints += differing_records(flags[:, None], expected, name="the expected flags")
    if spec["reference"] is not None:
        module, function = spec["reference"].split(":")
        make = getattr(importlib.import_module(module), function)
        reference: ReferenceModel = make(Path(spec["reference_folder"]))
        ends = np.flatnonzero(stimuli["last"]) + 1
        requests = stimuli["beats"].reshape(len(ends), -1)[:, :words_in]
        expected_words, expected_flags = reference.expected(requests)
        complaints += differing_records(words, expected_words, name="the reference's words")
        complaints += differing_records(
            flags[:, None], expected_flags[:, None], name="the reference's flags"
        )
        complaints += reference.check_floats(requests, words)
    return complaints


@cocotb.test()
async def stream(dut: Any) -> None:
    """Send every frame, receive and compare every result, and write the result file."""
    logging.getLogger(f"cocotb.{dut._name}").setLevel(logging.WARNING)
    folder = Path.cwd()
    spec = json.loads((folder / SPEC).read_text())
    with np.load(folder / STIMULI) as archive:
        stimuli = dict(archive)
    beats, last, n_expected = stimuli["beats"], stimuli["last"], spec["expected_beats"]

    dut.rst.value = 1
    Clock(dut.clk, _PERIOD_NS, unit="ns").start()
    clock = {"reset": dut.rst, "reset_active_level": True, "byte_size": 32}
    source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "i"), dut.clk, **clock)
    sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "o"), dut.clk, **clock)
    # The source drives X until its first frame; a real host drives defined values.
    dut.i_tdata.value, dut.i_tlast.value = 0, 0
    if hasattr(dut, "reset_state"):  # only cores with states have it
        dut.reset_state.value = 0
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)

    for pattern, side in ((stimuli["idle"], source), (stimuli["stall"], sink)):
        if len(pattern):
            side.set_pause_generator(itertools.cycle(pattern.tolist()))
    for frame in _frames(beats, last):
        source.send_nowait(frame)
    monitor = Monitor(dut=dut)
    cocotb.start_soon(monitor.run(len(beats)))

    complaints: list[str] = []
    reported = 0
    while len(monitor.accepted) < len(beats) or len(monitor.emitted) < n_expected:
        await ClockCycles(dut.clk, 1)
        if len(monitor.emitted) - reported > n_expected // _SIGNS:
            reported = len(monitor.emitted)
            (folder / DONE).write_text(str(reported))
        if monitor.unknown:
            listing = "; ".join(monitor.unknown[:_SHOWN])
            complaints.append(f"A handshake signal is X or Z after reset ({listing}).")
            break
        if monitor.waited > spec["limit"]:
            complaints.append(
                str(
                    deadlock(
                        accepted=len(monitor.accepted),
                        n_beats=len(beats),
                        emitted=len(monitor.emitted),
                        expected=n_expected,
                        cycles=monitor.cycle,
                        limit=spec["limit"],
                    )
                )
            )
            break
    sink.clear_pause_generator()
    sink.pause = False
    await ClockCycles(dut.clk, spec["drain"])

    frames: list[AxiStreamFrame] = []
    while not sink.empty():
        frames.append(sink.recv_nowait(compact=False))
    lanes = len(dut.o_tdata) // 32
    flat = [word for frame in frames for word in frame.tdata]
    rows = np.array(flat, dtype=np.uint32).reshape(-1, lanes)
    lengths = [len(frame.tdata) // lanes for frame in frames]
    ends = np.zeros(len(rows), dtype=np.bool_)
    ends[np.cumsum(lengths, dtype=np.int64) - 1] = True
    users = [bit for frame in frames for bit in frame.tuser[::lanes]]
    surplus = max(0, len(monitor.emitted) - n_expected)
    if not complaints and len(rows) < n_expected:
        complaints.append(
            "The final record is not closed by TLAST (beats after the last TLAST: "
            f"{n_expected - len(rows)} of {n_expected})."
        )
    if not complaints and not surplus and frames:
        complaints += _check(spec, stimuli, frames)
    np.savez(
        folder / RESULT,
        beats=rows[:n_expected],
        last=ends[:n_expected],
        user=np.array(users, dtype=np.bool_)[:n_expected],
        accepted=np.array(monitor.accepted, dtype=np.int64),
        emitted=np.array(monitor.emitted[:n_expected], dtype=np.int64),
        launched=np.array(monitor.launched, dtype=np.int64),
        counts=np.array([surplus, monitor.violations, monitor.cycle], dtype=np.int64),
    )
    (folder / COMPLAINTS).write_text(json.dumps(complaints))
    assert not complaints, " ".join(complaints[:_SHOWN])
