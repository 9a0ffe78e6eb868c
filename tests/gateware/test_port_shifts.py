"""Ports that shift: the part of a word that they read, and their flags if that is too little."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, Signal, signed
from amaranth.sim import Simulator

from pinion.fixedpoint import Format
from pinion.fixedpoint.reciprocal import Reciprocal
from pinion.fixedpoint.sincos import SinCos
from pinion.formats.multiplier import DSP48E2
from pinion.formats.signals import SignalPlan, lower_signals
from pinion.gateware.core import Core
from pinion.gateware.datapath import _shifted
from pinion.gateware.reciprocal import ReciprocalUnit
from pinion.gateware.sincos import SinCosUnit
from pinion.graph import Graph, Tracer
from pinion.hls import Binding, Timing, bind, operations, schedule
from tests.gateware.cores import Bench, Words, bound_auto, bound_fixed

# -- one port ------------------------------------------------------------------------------------

WIDTH = 6


def seen(value: int, shift: int, width: int) -> tuple[int, bool]:
    """Return what a port of some width reads of a value, and whether it does not fit."""
    moved = value >> shift if shift >= 0 else value << -shift
    low = -(1 << (width - 1))
    return (moved - low) % (1 << width) + low, not low <= moved <= -low - 1


@pytest.mark.parametrize("width", [2, 3, 5, 6, 7, 10])
def test_a_port_reads_every_word_correctly(width: int) -> None:
    """All words of six bits, every shift, whether or not the port is checked."""
    m = Module()
    source = Signal(signed(WIDTH))
    outs: list[tuple[int, bool, Signal]] = []
    for shift in range(-5, WIDTH + 3):
        for checked in (False, True):
            narrows = WIDTH - shift > width
            value = _shifted(source, shift, width, checked=checked, narrows=narrows)
            assert len(value) == width + checked
            out = Signal(signed(len(value)), name=f"o{len(outs)}")
            m.d.comb += out.eq(value)
            outs.append((shift, checked, out))

    async def bench(ctx: Any) -> None:
        flagged = 0
        for word in range(-(1 << (WIDTH - 1)), 1 << (WIDTH - 1)):
            ctx.set(source, word)
            await ctx.delay(1e-9)
            for shift, checked, out in outs:
                output = ctx.get(out) % (1 << len(out))
                want, misfit = seen(word, shift, width)
                assert output % (1 << width) == want % (1 << width), (word, shift)
                if checked:
                    assert output >> width == misfit, (word, shift)
                    flagged += misfit
        assert flagged

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()


# -- a datapath of such ports ----------------------------------------------------------------------

POINT = 20
TURN = DSP48E2.turn
STORED = Format(27, POINT)  # of every input and of their sum
TOGETHER = 40  # fraction bits of the pivot and of its reciprocal

# Integers of the sum at which ports overflow: +-4 and +-8 in narrow and in wide ports, +-32 where a
# zero is appended, +-64 for the word itself.
ENDS = (1 << 22, 1 << 23, 1 << 25, 1 << 26)


def wide(frac: int) -> Format:
    return Format(27, frac)


def narrow(frac: int) -> Format:
    return Format(18, frac)


def ports_graph() -> Graph:
    """Trace a sum that is read by ports of every kind, each with its own range."""
    tracer = Tracer()
    x, y, w, v = (tracer.input(name) for name in "xywv")
    plan: list[tuple[Format, tuple[Format, ...]]] = []

    def step(value: Any, fmt: Format, *ports: Format) -> Any:
        plan.append((fmt, ports))
        return value

    z = step(x + y, STORED, STORED, STORED)
    tracer.output("z", z)
    # First a fitting one: whether a port is checked must not depend on its first reader.
    tracer.output("fits", step(z * w, wide(14), wide(20), narrow(11)))
    # Narrow port: 5 bits dropped, up to 4. Wide port: 4 zeros appended, up to 4.
    tracer.output("narrow", step(z * w, wide(18), narrow(15), wide(20)))
    tracer.output("left", step(w * z, wide(18), narrow(11), wide(24)))
    # The same value at both ports, up to 16 and up to 8.
    tracer.output("square", step(z * z, wide(19), wide(22), narrow(14)))
    # Constants share the unit and always fit; the port reaches 32.
    tracer.output("times", step(z * 1.625, wide(20), wide(21), narrow(16)))
    tracer.output("precise", step(z * v, wide(19), wide(22), wide(23)))
    tracer.output("turned", step(-z, wide(18), wide(18)))
    # A sine is shorter than the other terms, without a shift, and may be negative.
    sine = step(v.sin(), TURN, STORED)
    cosine = step(v.cos(), TURN, STORED)
    tracer.output("waves", step(sine - cosine, wide(20), wide(20), wide(20)))
    tracer.output("wave", step(sine * w, wide(20), wide(20), narrow(17)))
    # The pivot is read with 3 more fraction bits than stored, up to 8.
    inverse = step(1 / z, wide(TOGETHER - 23), wide(23))
    tracer.output("inverse", inverse)
    graph = tracer.finish()
    values: dict[int, Format] = {}
    ports: dict[int, tuple[Format, ...]] = {}
    steps = iter(plan)
    for i, node in enumerate(graph.nodes):
        if node.op == "input":
            values[i] = STORED
        elif node.op != "const":
            op_ports: tuple[Format, ...]
            values[i], op_ports = next(steps)
            # A traced constant comes first, and ports are in the order of operands.
            constant_first = graph.nodes[node.args[0]].op == "const" and node.op == "mul"
            ports[i] = op_ports[::-1] if constant_first else op_ports
    return lower_signals(graph, SignalPlan(values=values, ports=ports))[0]


def timing() -> Timing:
    """Return latencies of units without a rounding stage."""
    sine = SinCosUnit(SinCos(source=STORED, target=TURN)).latency
    pivot = Reciprocal(source=wide(0), target=wide(TOGETHER))
    return Timing(rounding=0, table=1, sincos=sine, reciprocal=ReciprocalUnit(pivot).latency)


def requests(seed: int) -> Words:
    """Return float32 words (n, 4) for sums around every bound, and anywhere."""
    print("seed", seed)
    rng = np.random.default_rng(seed)
    near = [
        sign * (end - half) + step
        for end in ENDS
        for sign in (1, -1)
        for half in (0, 1 << 4, 1 << 5, 1 << 6)
        for step in range(-3, 4)
    ]
    anywhere = rng.integers(-(1 << 26), 1 << 26, 200) >> rng.integers(0, 20, 200)
    z = np.concatenate([near, anywhere, [0, 1, -1]])
    # float32 has 24 bits: a word of 27 is the sum of a coarse part and the rest.
    x = np.clip(z >> 4 << 4, -(1 << 26), (1 << 26) - 16)
    y = z - x
    w, v = rng.uniform(-1.0, 1.0, len(z)), rng.uniform(-3.1, 3.1, len(z))
    words = np.stack([x * STORED.lsb, y * STORED.lsb, w, v], axis=1)
    return rng.permutation(words).astype(np.float32).view(np.uint32)


@pytest.fixture(scope="module")
def fixed() -> Graph:
    return ports_graph()


def test_values_and_flags_are_the_integer_models(fixed: Graph, tmp_path: Path) -> None:
    graph, binding = bound_fixed(fixed, ii=6, timing=timing())
    shifts = {o.shift for op in binding.schedule.operations for o in op.operands}
    narrowing = [o for op in binding.schedule.operations for o in op.operands if o.narrows]
    assert min(shifts) < 0 < max(shifts) and len(narrowing) >= 7
    bench = Bench.build(graph, binding, tmp_path)
    bits = requests(seed=71)
    bench.agree(bits)
    _, flags = bench.expected(bits)
    x, y, *_ = bits.view(np.float32).astype(np.float64).T
    size = np.abs(x + y)
    # Above 4 the first ports overflow; below that only a small pivot does.
    assert flags[size > 4.0].all() and not flags[(size < 3.9) & (size > 0.01)].any()
    words, _, _ = bench.run(bits)
    wave = words.view(np.float32)[:, [n for n, _ in graph.outputs].index("waves")]
    v = bits.view(np.float32)[:, 3].astype(np.float64)
    assert np.max(np.abs(wave - (np.sin(v) - np.cos(v)))) < 1e-5 and wave.min() < -1


def unchecked(binding: Binding, name: str, graph: Graph) -> Binding:
    """Return the binding without checks of one operation's ports."""
    node = dict(graph.outputs)[name]
    changed = [
        replace(op, operands=tuple(replace(o, narrows=False) for o in op.operands))
        if op.node == node
        else op
        for op in binding.schedule.operations
    ]
    return replace(binding, schedule=replace(binding.schedule, operations=tuple(changed)))


@pytest.mark.slow
def test_an_unchecked_port_is_found(fixed: Graph, tmp_path: Path) -> None:
    """Only the narrow product and `left` are limited to 4: without both checks flags differ."""
    graph, binding = bound_fixed(fixed, ii=2, timing=timing())
    for name in ("narrow", "left"):
        binding = unchecked(binding, name, graph)
    bench = Bench.build(graph, binding, tmp_path)
    bits = requests(seed=72)
    words, flags, _ = bench.run(bits)
    want, want_flags = bench.expected(bits)
    assert np.array_equal(words, want), "the values do not depend on the checks"
    missed = want_flags & ~flags
    assert missed.any() and not (flags & ~want_flags).any()


@pytest.mark.slow
def test_flags_follow_their_requests_when_every_other_one_is_past_an_end(
    fixed: Graph, tmp_path: Path
) -> None:
    """Also with registers after the selection of operands."""
    slow = replace(timing(), port=1, add=2)
    modulo = schedule(operations(fixed, slow), ii=1, timing=slow, effort=1)
    bench = Bench.build(fixed, bind(fixed, modulo), tmp_path)
    bits = requests(seed=73)
    bench.agree(bits)
    _, flags = bench.expected(bits)
    order = np.argsort(flags, kind="stable")
    few = int(min(flags.sum(), (~flags).sum()))
    mixed = np.stack([order[:few], order[::-1][:few]], axis=1).ravel()
    bench.agree(bits[mixed])
    assert bench.expected(bits[mixed])[1].reshape(few, 2).sum(axis=0).tolist() == [0, few]


def test_a_result_may_be_a_sine() -> None:
    tracer = Tracer()
    x, y = tracer.input("x"), tracer.input("y")
    tracer.output("wave", x.sin())
    tracer.output("product", x * y)
    columns = {name: np.linspace(-3.0, 3.0, 50) for name in "xy"}
    graph, binding = bound_auto(tracer.finish(), columns, ii=2)
    Core(graph=graph, binding=binding, build_hash=0)
