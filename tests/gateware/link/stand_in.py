"""Stand-in core for the top, with faults on request."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, ClockDomain, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from numpy.typing import NDArray

from pinion.cosim import engines
from pinion.cosim.top import CompiledTop
from pinion.gateware.link.bus import FULL, Bus
from pinion.gateware.link.path import TopParameters
from pinion.gateware.link.top import TOP, Top
from pinion.link import BEAT, Layout

Words = NDArray[np.uint32]
Flags = NDArray[np.bool_]

PARAMETERS = {
    **{"function": 0xFEED_BEEF, "build": 0x0123_4567_89AB_CDEF},
    **{"words_in": 6, "lanes_in": 2, "beats_in": 3},
    **{"words_out": 5, "lanes_out": 3, "beats_out": 2},
    **{"ii": 3, "core_khz": 150_000, "link_khz": 250_000, "depth": 32},
}
LAYOUT = Layout(
    **{name: PARAMETERS[name] for name in ("function", "build", "words_in", "words_out")}
)
MASK = 0x5A5A_0FF0
LOSE = 0xDEAD_0001
"""Word 0 of a request that makes the core report lost boundaries of records."""


class StandInCore(wiring.Component):
    """Result word k is request word k with `MASK`, the flag is the top bit of word 0."""

    def __init__(self) -> None:
        lanes_in, lanes_out = PARAMETERS["lanes_in"], PARAMETERS["lanes_out"]
        super().__init__(
            {
                **{"i_tdata": In(32 * lanes_in), "i_tvalid": In(1), "i_tlast": In(1)},
                **{"i_tready": Out(1), "protocol_error": Out(1)},
                **{"o_tdata": Out(32 * lanes_out), "o_tvalid": Out(1), "o_tlast": Out(1)},
                **{"o_tuser": Out(1), "o_tready": In(1)},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = PARAMETERS
        width = 32 * p["lanes_in"]
        m.submodules.queue = queue = SyncFIFOBuffered(width=width * p["beats_in"], depth=20)
        early = Signal(width * (p["beats_in"] - 1))
        place = Signal(range(p["beats_in"]))
        accepted, ends = Signal(), Signal()
        m.d.comb += [
            self.i_tready.eq(queue.w_rdy),
            accepted.eq(self.i_tvalid & self.i_tready),
            ends.eq(place == p["beats_in"] - 1),
            queue.w_en.eq(accepted & ends),
            queue.w_data.eq(Cat(early, self.i_tdata)),
        ]
        with m.If(accepted):
            m.d.sync += early.eq(Cat(early, self.i_tdata)[width:])
            m.d.sync += place.eq(Mux(ends, 0, place + 1))
            with m.If((self.i_tlast != ends) | ((place == 0) & (self.i_tdata[:32] == LOSE))):
                m.d.sync += self.protocol_error.eq(1)
        words = Cat(queue.r_data.word_select(k, 32) ^ MASK for k in range(p["words_out"]))
        beat = Signal(range(p["beats_out"]))
        last = beat == p["beats_out"] - 1
        out = 32 * p["lanes_out"]
        m.d.comb += [
            self.o_tvalid.eq(queue.r_rdy),
            self.o_tdata.eq(Cat(words, ~early).word_select(beat, out)),
            self.o_tlast.eq(last),
            self.o_tuser.eq(Mux(last, queue.r_data[31], ~queue.r_data[31])),
            queue.r_en.eq(self.o_tready & last),
        ]
        with m.If(self.o_tvalid & self.o_tready):
            m.d.sync += beat.eq(Mux(last, 0, beat + 1))
        return m


def expect(words: Words) -> tuple[Words, Flags]:
    """Return result words (n, words_out) and flags (n,) for request words (n, words_in)."""
    results = words[:, : PARAMETERS["words_out"]] ^ np.uint32(MASK)
    return results, (words[:, 0] >> np.uint32(31)).astype(np.bool_)


class Widened(wiring.Component):
    """A narrow top with the ports of a wide one: beats are cut in front of it, joined behind."""

    def __init__(self, top: Top) -> None:
        self.top = top
        wide = Top(parameters=replace(top.parameters, bus=FULL))
        super().__init__(dict(wide.signature.members))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus, top = self.top.parameters.bus, self.top
        m.submodules.top = top
        cut = {"h2c_tdata", "h2c_tkeep", "h2c_tvalid", "h2c_tready"}
        for name, member in self.signature.members.items():
            if name not in cut and not name.startswith("c2h"):
                outer, inner = getattr(self, name), getattr(top, name)
                m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
        wires = ClockDomain("wires", local=True)
        wires.clk, wires.rst = self.clk, self.rst
        m.domains += wires
        place, count = Signal(range(bus.slices)), Signal(range(bus.slices + 1))
        with m.If(top.h2c_tvalid & top.h2c_tready):
            m.d.wires += place.eq(place + 1)
        m.d.comb += [
            top.h2c_tdata.eq(self.h2c_tdata.word_select(place, bus.bits)),
            top.h2c_tkeep.eq(self.h2c_tkeep.word_select(place, bus.bytes)),
            top.h2c_tvalid.eq(self.h2c_tvalid),
            self.h2c_tready.eq(top.h2c_tready & (place == bus.slices - 1)),
            self.c2h_tkeep.eq(~Const(0, BEAT)),
            self.c2h_tvalid.eq(count == bus.slices),
            top.c2h_tready.eq((count != bus.slices) | self.c2h_tready),
        ]
        with m.If(top.c2h_tvalid & top.c2h_tready):
            m.d.wires += [
                self.c2h_tdata.eq(Cat(self.c2h_tdata, top.c2h_tdata)[bus.bits :]),
                self.c2h_tlast.eq(top.c2h_tlast),
                count.eq(Mux(count == bus.slices, 1, count + 1)),
            ]
        with m.Elif(self.c2h_tvalid & self.c2h_tready):
            m.d.wires += count.eq(0)
        return m


def card(
    folder: Path,
    *,
    crossing: bool,
    top: type[Top] = Top,
    bus: Bus = FULL,
    optimise: bool = True,
) -> CompiledTop:
    """Compile a top around the stand-in core; ``top`` may be a mutant.

    Without optimisation the compiler takes two thirds of the time, and simulations ten times.
    """
    parameters = TopParameters(crossing=crossing, bus=bus, **PARAMETERS)
    dut = top(parameters=parameters, core=StandInCore())
    component = dut if bus == FULL else Widened(dut)
    text = rtlil.convert(component, name=TOP, emit_src=False)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "top.il").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        if not optimise:
            patch.setattr(engines, "_FAST", engines._SLOW)
        return CompiledTop.build(rtlil=folder / "top.il", folder=folder)
