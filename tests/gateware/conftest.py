"""The bench of all arithmetic units: operands in every cycle, latency measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from amaranth.hdl import Shape
from amaranth.sim import Simulator

from pinion.gateware.unit import Unit

Row = dict[str, int]
Trace = dict[str, list[int]]


def pytest_configure(config: pytest.Config) -> None:
    """Ignore unused units, because tests create some only to read their attributes."""
    config.addinivalue_line("filterwarnings", "ignore::amaranth.hdl.UnusedElaboratable")


def _simulate(unit: Unit, rows: Sequence[Row], tail: int) -> Trace:
    """Return every output in every cycle, sampled just before the clock edge that ends it."""
    trace: Trace = {name: [] for name in unit.outputs}

    async def bench(ctx: Any) -> None:
        for cycle in range(len(rows) + tail):
            for name in unit.inputs:
                at = cycle - unit.offset(name)
                row = rows[at] if 0 <= at < len(rows) else {}
                # Otherwise the ports change every cycle, so that a unit that samples its operands
                # a cycle late is found.
                width = Shape.cast(unit.signature.members[name].shape).width
                ctx.set(getattr(unit, name), row.get(name, (cycle * 0x9E3779B1) % (1 << width)))
            for name in unit.outputs:
                trace[name].append(ctx.get(getattr(unit, name)))
            await ctx.tick()

    simulator = Simulator(unit)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return trace


@pytest.fixture
def check() -> Callable[[Unit, Sequence[Row], Sequence[Row]], None]:
    """Compare a unit with expected results, one per cycle, at exactly its latency."""

    def run(unit: Unit, rows: Sequence[Row], expected: Sequence[Row]) -> None:
        assert len(rows) == len(expected)
        assert len(rows) >= 20, "Too few vectors to tell latencies apart."
        trace = _simulate(unit, rows, unit.latency + 3)
        matching = []
        for latency in range(unit.latency + 4):
            wrong = next(
                (
                    (n, name)
                    for n, want in enumerate(expected)
                    for name in want
                    if trace[name][n + latency] != want[name]
                ),
                None,
            )
            if wrong is None:
                matching.append(latency)
            elif latency == unit.latency:
                n, name = wrong
                actual = trace[name][n + latency]
                raise AssertionError(
                    f"Vector {n}, {name}: got {actual}, expected {expected[n][name]}; "
                    f"operands {rows[n]}."
                )
        # The latency of a constant result, such as a shift past the whole word, is not visible.
        if len({tuple(want.values()) for want in expected}) > 1:
            assert matching == [unit.latency], (
                f"Results appeared at {matching}, not {unit.latency}."
            )

    return run
