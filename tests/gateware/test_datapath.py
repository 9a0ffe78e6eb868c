"""The datapath: bound units, storage, and graphs unlike a robot's."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from amaranth.back import rtlil as rtlil_of
from amaranth.hdl import Module, Signal

from pinion.formats import lower
from pinion.gateware import datapath as storage
from pinion.gateware.core import Core
from pinion.gateware.datapath import Datapath
from pinion.gateware.emit import TOP, core_rtlil
from pinion.gateware.shift import LENGTHS
from pinion.graph import Graph, Node, Tracer, evaluate_floats
from pinion.graph.check import verify
from pinion.hls import Design, bind, operations, schedule
from pinion.hls.schedule.floorplan import arrange_units
from tests.gateware.cores import BUILD_HASH, Bench, bound, bound_fixed, request_bits, rnea
from tests.graph.helpers import Q16, TIMING, designed, edit
from tests.support.breadth import some_rows


def rtlil(robot: str, ii: int, build_hash: int = BUILD_HASH) -> str:
    graph, binding = bound(rnea(robot), ii=ii)
    return core_rtlil(Core(graph=graph, binding=binding, build_hash=build_hash))


def instances(text: str) -> Counter[str]:
    """Return how often each module is instantiated."""
    return Counter(re.findall(r"^\s*cell \\(\S+) ", text, re.MULTILINE))


@pytest.mark.parametrize(("robot", "ii"), some_rows([("two_link", 1), ("iiwa14", 8)], 1))
def test_the_design_has_the_bound_units_and_each_module_once(robot: str, ii: int) -> None:
    graph, binding = bound(rnea(robot), ii=ii)
    text = core_rtlil(Core(graph=graph, binding=binding, build_hash=BUILD_HASH))
    counts = instances(text)
    for kind, count in binding.schedule.units.items():
        assert counts[f"pinion_{kind.label}"] == count
    assert counts["pinion_float_to_fixed"] == binding.lanes_in
    assert counts["pinion_fixed_to_float"] == binding.lanes_out
    modules = re.findall(r"^module \\(\S+)", text, re.MULTILINE)
    assert len(modules) == len(set(modules))
    assert set(counts) <= set(modules), "an instance of a module that is not there"
    assert text.count("attribute \\top 1") == 1 and TOP in modules


def test_equal_cores_are_equal_texts_without_places() -> None:
    first = rtlil("two_link", 4)
    assert first == rtlil("two_link", 4)
    assert "attribute \\src" not in first
    assert str(Path(__file__).parents[2]) not in first
    assert first != rtlil("two_link", 4, build_hash=1)
    assert first != rtlil("two_link", 5)


@pytest.mark.slow
def test_units_chosen_for_short_wires_are_bit_exact(tmp_path: Path) -> None:
    graph, binding = bound(rnea("chain_3"), ii=4)
    rearranged = replace(binding, unit=arrange_units(binding))
    assert rearranged.unit != binding.unit
    bits = request_bits("chain_3", 500, seed=63)
    bits[::50, 3] = np.float32(500.0).view(np.uint32)
    Bench.build(graph, rearranged, tmp_path).agree(bits)


@pytest.mark.slow
def test_words_that_wait_long_in_a_large_core_are_bit_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "LARGE", 0)
    monkeypatch.setattr(storage, "LENGTHS", (4, 2))
    graph, binding = bound(rnea("two_link"), ii=2)
    counts = instances(core_rtlil(Core(graph=graph, binding=binding, build_hash=BUILD_HASH)))
    assert counts["pinion_shift4x32"] > 0 and counts["pinion_shift2x32"] > 0
    Bench.build(graph, binding, tmp_path).agree(request_bits("two_link", 300, seed=65))


@pytest.mark.parametrize("taps", [{3}, {0, 17, 60, 61}, {40, 99}, {299}])
def test_chains_are_cut_at_the_registers_that_are_read(taps: set[int]) -> None:
    stages = max(taps) + 1
    alone = list(storage._pieces(stages, None))
    assert alone == [(stage, stage) for stage in range(stages)]
    pieces = list(storage._pieces(stages, taps))
    assert [first for first, _ in pieces] == [0, *(last + 1 for _, last in pieces[:-1])]
    ends = {last for _, last in pieces}
    assert taps <= ends and pieces[-1][1] == stages - 1
    assert {last - first + 1 for first, last in pieces} <= {1, *LENGTHS}
    assert len(pieces) <= 15 * len(taps) + stages // 16


def test_ports_state_widths_and_flag_stages() -> None:
    graph, binding = bound(rnea("two_link"), ii=3, formats="q12.20")
    datapath = Datapath(graph=graph, binding=binding)
    assert datapath.lane_width == 32
    names = set(datapath.signature.members)
    assert {f"word{k}" for k in range(6)} <= names
    assert {f"lane{k}" for k in range(binding.lanes_out)} <= names
    # The oldest request's flag still exists when its last word leaves.
    assert datapath.flag_stages * 3 > max(out.cycle for out in binding.outputs)
    assert datapath.flag_stages * 3 > binding.schedule.length


def oddities() -> Graph:
    """Trace results that are inputs, constants, negations or equal, and an unused input."""
    tracer = Tracer()
    x, y = tracer.input("x"), tracer.input("y")
    tracer.input("unused")
    z = tracer.input("z")
    tracer.output("passed", x)
    tracer.output("constant", -1.5)
    tracer.output("zero", 0.0)
    tracer.output("negated", -(x * y))
    tracer.output("twice", x * y)
    tracer.output("again", x * y)
    tracer.output("square", z * z)
    tracer.output("waves", z.sin() * 2.0 - y.cos())
    tracer.output("late", ((x + y) * (y - z) + (z * x)) * x + 0.25)
    tracer.output("passed_too", z)
    return tracer.finish()


@pytest.mark.parametrize("ii", [1, pytest.param(13, marks=pytest.mark.slow)])
def test_odd_graphs_are_bit_exact(ii: int, tmp_path: Path) -> None:
    graph, binding = bound(oddities(), ii=ii)
    bench = Bench.build(graph, binding, tmp_path)
    seed = 17
    print(f"seed {seed}")
    values = np.random.default_rng(seed).uniform(-8, 8, (400, 4)).astype(np.float32)
    values[::50] *= 1000.0  # squares that do not fit
    bits = values.view(np.uint32)
    bench.agree(bits)
    words, flags, _ = bench.run(bits)
    assert 0 < flags.sum() < len(flags)
    assert set(words[:, 1].view(np.float32)) == {np.float32(-1.5)}
    assert np.array_equal(words[:, 4], words[:, 5])


def added_sums() -> Graph:
    """Return dots of one to three products, with and without addends, also of each other."""
    nodes = [Node("input", (), (f"x{k}",)) for k in range(4)]
    nodes.append(Node("const", (), (0.75,)))
    nodes.append(Node("dot", (0, 1, 2, 3, 0), (-1, 1, 1)))  # 5: an addend, a negative front
    nodes.append(Node("dot", (0, 2, 1, 3), (1, -1)))  # 6: on the same unit, without one
    nodes.append(Node("dot", (5, 1, 6), (1, 1)))  # 7: of results
    nodes.append(Node("dot", (3, 4, 1, 4, 2, 0, 4), (-1, 1, -1, 1)))  # 8: a constant addend
    nodes.append(Node("mul", (2, 3)))  # 9
    nodes.append(Node("dot", (1, 1, 7), (-1, 1)))  # 10
    return verify(Graph(tuple(nodes), tuple((f"y{k}", k) for k in range(5, 11))))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ii", "stages"),
    [(1, 1), (2, 3), (4, 2)],
)
def test_sums_with_addends_are_bit_exact(ii: int, stages: int, tmp_path: Path) -> None:
    """Operands and signs of one operation are in several slots of the interval."""
    fixed, timing = lower(added_sums(), Q16), replace(TIMING, multiplier_stages=stages)
    graph, binding = bound_fixed(fixed, ii=ii, timing=timing)
    units = {kind.products: n for kind, n in binding.schedule.units.items()}
    assert units == {1: -(-3 // ii), 2: -(-2 // ii), 3: 1}
    bench = Bench.build(graph, binding, tmp_path)
    seed = 71
    print(f"seed {seed}")
    values = np.random.default_rng(seed).uniform(-6, 6, (400, 4)).astype(np.float32)
    values[::50] *= 100.0  # products that do not fit
    bits = values.view(np.uint32)
    bench.agree(bits)
    words, flags, _ = bench.run(bits)
    assert 0 < flags.sum() < len(flags)
    # Compare with floats as well, as an independent model of the sums.
    want = evaluate_floats(
        added_sums(), {f"x{k}": values[:, k].astype(np.float64) for k in range(4)}
    )
    results = words.view(np.float32)
    for k, value in enumerate(want.values()):
        assert np.max(np.abs(results[:, k] - value)[~flags]) < 2.0**-10, k


@pytest.mark.slow
def test_divisions_are_bit_exact_and_those_by_zero_flagged(tmp_path: Path) -> None:
    tracer = Tracer()
    x, y = tracer.input("x"), tracer.input("y")
    tracer.output("inverse", 1 / x)
    tracer.output("negated", -1 / (x * 0.5))
    tracer.output("quotient", y / (x + 1.0))
    graph, binding = bound(tracer.finish(), ii=2)
    dividers = [n for kind, n in binding.schedule.units.items() if kind.name == "reciprocal"]
    assert dividers == [2]
    bench = Bench.build(graph, binding, tmp_path)
    seed = 23
    values = np.random.default_rng(seed).uniform(0.01, 90, (300, 2)).astype(np.float32)
    # Zero, -0.0, rounding to zero, a last bit (its reciprocal is out of range), x + 1 = 0.
    by_zero = {7: 0.0, 40: -0.0, 99: 2.0**-18, 150: 2.0**-16, 298: -1.0}
    for row, value in by_zero.items():
        values[row, 0] = value
    bench.agree(values.view(np.uint32))
    words, flags, _ = bench.run(values.view(np.uint32))
    assert np.flatnonzero(flags).tolist() == list(by_zero), f"seed {seed}"
    exact = values[~flags].astype(np.float64)
    results = words.view(np.float32)[~flags]
    assert np.max(np.abs(results[:, 0] - 1 / np.round(exact[:, 0] * 2**16) * 2**16)) < 2.0**-16
    assert np.max(np.abs(results[:, 2] - exact[:, 1] / (exact[:, 0] + 1))) < 100 * 2.0**-16


@pytest.mark.slow
def test_a_graph_without_operations_passes_its_words_on(tmp_path: Path) -> None:
    tracer = Tracer()
    x, y = tracer.input("x"), tracer.input("y")
    for name, value in (("b", y), ("a", x)):
        tracer.output(name, value)
    graph, binding = bound(tracer.finish(), ii=2)
    bench = Bench.build(graph, binding, tmp_path)
    values = np.random.default_rng(5).uniform(-100, 100, (50, 2)).astype(np.float32)
    bench.agree(values.view(np.uint32))


def test_words_of_one_request_have_one_width() -> None:
    graph = rnea("pendulum")
    fixed = lower(graph, Q16)
    modulo = schedule(operations(fixed, TIMING), ii=2, timing=TIMING)
    name, width, frac = fixed.nodes[0].params
    mixed = edit(fixed, 0, params=(name, int(width) - 4, frac))
    with pytest.raises(ValueError, match="All words of a request must have the same width"):
        Core(graph=mixed, binding=bind(mixed, modulo), build_hash=0)


def test_a_design_of_the_flow_is_a_core() -> None:
    design: Design = designed("pendulum", 2)
    text = core_rtlil(Core(graph=design.fixed, binding=design.binding, build_hash=BUILD_HASH))
    assert instances(text)["pinion_sincos"] == 1


@pytest.mark.parametrize("count", [1, 2, 64, 65, 2000])
def test_a_flag_of_any_number_of_units_can_be_elaborated(count: int) -> None:
    """All bits count once, and thousands of units do not exceed Python's stack."""
    bits = Signal(count)
    m = Module()
    any_bit = Signal()
    m.d.comb += any_bit.eq(storage._any([bits[k] for k in range(count)]))
    text = rtlil_of.convert(m, ports=[bits, any_bit])
    assert text.count("cell $or ") == count - 1
    read = re.findall(r"connect \\[AB] \\bits \[(\d+)\]\n", text)
    assert count == 1 or sorted(map(int, read)) == list(range(count))
