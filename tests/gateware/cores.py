"""Small compiled cores and their expected results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.cosim.compiled import CompiledCore
from pinion.cosim.stream import StreamResult, pack_records, unpack_records
from pinion.fixedpoint.float32 import fixed_to_float32, float32_to_fixed
from pinion.formats import FormatPlan, lower
from pinion.functions import named_function, sample
from pinion.gateware.core import Core
from pinion.gateware.emit import core_rtlil
from pinion.gateware.library import timing_for
from pinion.graph import Graph, evaluate_integers
from pinion.graph.evaluate import formats as node_formats
from pinion.graph.passes import fold
from pinion.hls import Binding, Timing, bind, check_binding, check_schedule, operations, schedule
from pinion.hls.sums import gather_dots
from pinion.robot import load
from tests.graph.helpers import auto_formats

Words = NDArray[np.uint32]
Flags = NDArray[np.bool_]

BUILD_HASH = 0x0123_4567_89AB_CDEF


def bound(graph: Graph, *, ii: int, formats: str = "q16.16") -> tuple[Graph, Binding]:
    """Fold a traced graph, convert it to fixed point, and bind it."""
    plan = FormatPlan.parse(formats)
    timing = timing_for(plan)
    fixed = lower(gather_dots(fold(graph), timing, widths=(4, 3, 2), ii=ii), plan)
    modulo = schedule(operations(fixed, timing), ii=ii, timing=timing, effort=1)
    return fixed, bind(fixed, modulo)


def bound_auto(graph: Graph, values: dict[str, Any], *, ii: int) -> tuple[Graph, Binding]:
    """Fold a traced graph, choose formats by signal for these states, and bind it."""
    graph = fold(graph)
    plan = auto_formats(graph, values)
    timing = timing_for(plan)
    return bound_fixed(
        plan.lower(gather_dots(graph, timing, widths=(4, 3, 2), ii=ii)), ii=ii, timing=timing
    )


def bound_fixed(fixed: Graph, *, ii: int, timing: Timing) -> tuple[Graph, Binding]:
    """Schedule, check and bind a fixed graph."""
    modulo = schedule(operations(fixed, timing), ii=ii, timing=timing, effort=1)
    check_schedule(fixed, modulo)
    binding = bind(fixed, modulo)
    check_binding(fixed, binding)
    return fixed, binding


def rnea(robot: str) -> Graph:
    return named_function("rnea").trace(load(robot))


def request_bits(robot: str, count: int, *, seed: int, distribution: str = "reference") -> Words:
    """Return request words (count, words) as float32 bits."""
    row, model = named_function("rnea"), load(robot)
    arrays = sample(model, row, count, distribution=distribution, seed=seed)
    words = [arrays[block.name].reshape(count, -1) for block in row.inputs]
    return np.concatenate(words, axis=1).view(np.uint32)


@dataclass(frozen=True)
class Bench:
    """Compiled core with the graph of its expected results."""

    graph: Graph
    binding: Binding
    core: Core
    compiled: CompiledCore

    @classmethod
    def build(
        cls,
        graph: Graph,
        binding: Binding,
        folder: Path,
        *,
        reference: Graph | None = None,
        debug: bool = False,
    ) -> Bench:
        """Compile the core of a bound graph; ``reference`` is the graph of the expected values."""
        core = Core(graph=graph, binding=binding, build_hash=BUILD_HASH)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "core.il"
        path.write_text(core_rtlil(core))
        compiled = CompiledCore.build(rtlil=path, folder=folder, debug=debug)
        return cls(reference or graph, binding, core, compiled)

    def expected(self, bits: Words) -> tuple[Words, Flags]:
        """Return result words (n, words) and flags (n,) of the golden model."""
        fmts = node_formats(self.graph)
        flags = np.zeros(len(bits), dtype=np.bool_)
        ints = {}
        inputs = [i for i, node in enumerate(self.graph.nodes) if node.op == "input"]
        for k, i in enumerate(inputs):  # every word has its own binary point
            ints[self.graph.inputs[k]], flag = float32_to_fixed(bits[:, k], fmts[i])
            flags |= flag
        out, saturated = evaluate_integers(self.graph, ints)
        words = [fixed_to_float32(out[name], fmts[node]) for name, node in self.graph.outputs]
        return np.stack(words, axis=1), saturated | flags

    def pack(self, bits: Words) -> tuple[Words, Flags]:
        return pack_records(bits, lanes=self.binding.lanes_in, beats=self.binding.beats_in)

    def stream(
        self,
        beats: Words,
        last: Flags,
        *,
        records: int,
        idle: Flags | None = None,
        stall: Flags | None = None,
    ) -> tuple[Words, Flags, StreamResult]:
        """Send beats, expect `records`; return words (n, words), flags (n,) and the stream."""
        per_record = self.binding.beats_out
        result = self.compiled.run(
            beats, last, expected_beats=records * per_record, idle=idle, stall=stall
        ).check()
        ends = np.zeros(per_record, dtype=np.bool_)
        ends[-1] = True
        assert np.array_equal(result.last, np.tile(ends, records)), "TLAST is not on last beats"
        words = unpack_records(result.beats, words=len(self.graph.outputs), beats=per_record)
        return words, result.user.reshape(records, per_record)[:, -1], result

    def run(
        self, bits: Words, *, idle: Flags | None = None, stall: Flags | None = None
    ) -> tuple[Words, Flags, StreamResult]:
        beats, last = self.pack(bits)
        return self.stream(beats, last, records=len(bits), idle=idle, stall=stall)

    def agree(
        self, bits: Words, *, idle: Flags | None = None, stall: Flags | None = None
    ) -> StreamResult:
        """Run requests and compare every bit of the results with the golden model."""
        words, flags, result = self.run(bits, idle=idle, stall=stall)
        want, want_flags = self.expected(bits)
        wrong = np.flatnonzero((words != want).any(axis=1))
        assert not len(wrong), f"{len(wrong)} wrong records, the first is {wrong[:5]}"
        assert np.array_equal(flags, want_flags), np.flatnonzero(flags != want_flags)[:5]
        return result
