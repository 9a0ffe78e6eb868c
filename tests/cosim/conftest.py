"""A stand-in core with the ports of a real one, correct or with a chosen fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, ClockDomain, Const, Elaboratable, Module, Mux, Signal
from amaranth.lib import fifo, wiring
from amaranth.lib.wiring import In, Out

from pinion.gateware.verilog import emit_verilog

BUILD_HASH = 0x0123_4567_89AB_CDEF
CONSTANT = 0x1234_5678
FAULTS = ("none", "deadlock", "duplicate", "drop_valid", "unstable", "corrupt")


class AddUnit(wiring.Component):
    """An adder of the constant for each lane, as a module to test hierarchical names."""

    def __init__(self, *, lanes: int) -> None:
        self.lanes = lanes
        super().__init__({"i": In(32 * lanes), "o": Out(32 * lanes)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for lane in range(self.lanes):
            lane_bits = slice(32 * lane, 32 * lane + 32)
            m.d.comb += self.o[lane_bits].eq((self.i[lane_bits] + CONSTANT)[:32])
        return m


class StandIn(Elaboratable):
    """A FIFO of beats whose words have `CONSTANT` added; the flag says that a top bit was set."""

    def __init__(self, *, lanes: int, fault: str = "none") -> None:
        assert fault in FAULTS, fault
        self.lanes, self.fault = lanes, fault
        self.domain = ClockDomain("sync")
        self.clk, self.rst = self.domain.clk, self.domain.rst
        self.i_tdata, self.o_tdata = Signal(32 * lanes), Signal(32 * lanes)
        self.i_tvalid, self.i_tready, self.i_tlast = Signal(), Signal(), Signal()
        self.o_tvalid, self.o_tready, self.o_tlast = Signal(), Signal(), Signal()
        self.o_tuser = Signal(1)
        self.build_hash, self.launch = Signal(64), Signal()

    def ports(self) -> dict[str, tuple[Signal, None]]:
        return {name: (s, None) for name, s in vars(self).items() if isinstance(s, Signal)}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains += self.domain
        m.submodules.unit = unit = AddUnit(lanes=self.lanes)
        width = 32 * self.lanes
        m.submodules.queue = queue = fifo.SyncFIFOBuffered(width=width + 2, depth=8)
        push, pop = self.i_tvalid & self.i_tready, self.o_tvalid & self.o_tready
        tops = Cat(self.i_tdata[32 * lane + 31] for lane in range(self.lanes)).any()
        sticky, count, cycle = Signal(), Signal(16), Signal(8)
        flag = sticky | tops
        m.d.sync += cycle.eq(cycle + 1)
        with m.If(push):
            m.d.sync += [sticky.eq(Mux(self.i_tlast, 0, flag)), count.eq(count + 1)]
        m.d.comb += [
            unit.i.eq(self.i_tdata),
            queue.w_data.eq(Cat(unit.o, self.i_tlast, flag & self.i_tlast)),
            queue.w_en.eq(push),
            self.i_tready.eq(queue.w_rdy),
            self.o_tvalid.eq(queue.r_rdy),
            self.o_tdata.eq(queue.r_data[:width]),
            self.o_tlast.eq(queue.r_data[width]),
            self.o_tuser.eq(queue.r_data[width + 1]),
            queue.r_en.eq(pop),
            self.launch.eq(push & self.i_tlast),
            self.build_hash.eq(Const(BUILD_HASH, 64)),
        ]
        if self.fault == "deadlock":  # accepts eleven beats, then nothing
            m.d.comb += self.i_tready.eq(queue.w_rdy & (count < 11))
        elif self.fault == "duplicate":  # repeats the last beat of the fourth record
            popped, again = Signal(16), Signal()
            with m.If(pop):
                m.d.sync += [popped.eq(popped + 1), again.eq(popped == 7)]
            m.d.comb += queue.r_en.eq(pop & (popped != 7))
        elif self.fault == "drop_valid":  # withdraws its offer every 16 cycles
            m.d.comb += self.o_tvalid.eq(queue.r_rdy & (cycle[:4] != 0))
        elif self.fault == "unstable":  # changes the payload while the reader stalls
            m.d.comb += self.o_tdata.eq(queue.r_data[:width] ^ (cycle[:3] == 3))
        elif self.fault == "corrupt":  # one wrong bit in beat 21
            popped = Signal(16)
            m.d.sync += popped.eq(popped + pop)
            m.d.comb += self.o_tdata.eq(queue.r_data[:width] ^ Mux(popped == 21, 4, 0))
        return m


def emit(folder: Path, *, lanes: int, fault: str) -> Path:
    """Write ``core.il`` and ``core.v`` of a stand-in core into ``folder``."""
    core = StandIn(lanes=lanes, fault=fault)
    text = rtlil.convert(core, name="pinion_core", ports=core.ports(), emit_src=False)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "core.il").write_text(text)
    return folder / "core.il"


def expect(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return result words (n, words) uint32 and flags (n,) bool for words (n, words)."""
    return words + np.uint32(CONSTANT), (words >> np.uint32(31)).any(axis=1)


class StandInTools:
    """Tools for tests of the stand-in, in one fixture (test files cannot import each other)."""

    build_hash = BUILD_HASH
    constant = CONSTANT
    expect = staticmethod(expect)
    emit = staticmethod(emit)

    def __init__(self, folder: Callable[[str], Path]) -> None:
        self._folder = folder

    def rtlil(self, *, lanes: int = 2, fault: str = "none") -> Path:
        """Return the RTLIL of a core, emitted once per session."""
        folder = self._folder(f"standin_{fault}_{lanes}")
        path = folder / "core.il"
        return path if path.exists() else emit(folder, lanes=lanes, fault=fault)

    def verilog(self, *, lanes: int = 2, fault: str = "none") -> Path:
        """Return the Verilog of a core, emitted once per session."""
        source = self.rtlil(lanes=lanes, fault=fault)
        path = source.with_suffix(".v")
        if not path.exists():
            emit_verilog(source, path)
        return path

    def records(self, n: int, *, words: int, seed: int) -> np.ndarray:
        """Return random words (n, words) uint32; about one record in four raises the flag."""
        rng = np.random.default_rng(seed)
        high = rng.random((n, words)) < 0.25 / words
        low = rng.integers(0, 1 << 31, size=(n, words), dtype=np.uint32)
        return np.where(high, low | np.uint32(1 << 31), low)


@pytest.fixture(scope="session")
def standin(tmp_path_factory: pytest.TempPathFactory) -> StandInTools:
    """Stand-in cores, emitted once per session."""
    root = tmp_path_factory.mktemp("standin")

    def folder(name: str) -> Path:
        return root / name

    return StandInTools(folder)
