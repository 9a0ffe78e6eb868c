"""The SPI slave with a bit-level master: results belong to their requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Cat, ClockSignal, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from pinion.boards.ecp5 import spi_card
from pinion.boards.ecp5.spi_card import SpiCard
from pinion.gateware.link.spi_slave import SpiSlave
from pinion.link import Array, Manifest
from pinion.link.spi_framing import CYCLES, SpiError, SpiTransfer
from tests.driver.cards import manifest
from tests.gateware.link.mutants import mutant
from tests.support.breadth import some

WORDS_IN, LANES_IN, BEATS_IN = 5, 3, 2
WORDS_OUT, LANES_OUT, BEATS_OUT = 3, 2, 2
DELAY = 20


def small_manifest(**changes: Any) -> Manifest:
    array = {"shape": (WORDS_IN,), "unit": "1"}
    return manifest(
        inputs=(Array(name="x", **array),),
        outputs=(Array(name="y", shape=(WORDS_OUT,), unit="1"),),
        lanes_in=LANES_IN,
        beats_in=BEATS_IN,
        lanes_out=LANES_OUT,
        beats_out=BEATS_OUT,
        latency_cycles=DELAY + 8,
        **changes,
    )


def answer(words: np.ndarray) -> np.ndarray:
    """Return the stand-in core's result for a record."""
    x = words.astype(np.uint64)
    return np.array([x[0] + x[4], x[1] ^ x[2], x[3] + 7], dtype=np.uint64).astype(np.uint32)


class Adder(wiring.Component):
    """Stand-in core that flags records whose first word is odd."""

    def __init__(self) -> None:
        super().__init__(
            {
                "i_tdata": In(32 * LANES_IN),
                "i_tvalid": In(1),
                "i_tready": Out(1),
                "i_tlast": In(1),
                "o_tdata": Out(32 * LANES_OUT),
                "o_tvalid": Out(1),
                "o_tready": In(1),
                "o_tlast": Out(1),
                "o_tuser": Out(1),
            }
        )
        self.records = Signal(16)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        record = Signal(32 * LANES_IN * BEATS_IN)
        wait = Signal(range(DELAY + 1))
        x = [record.word_select(k, 32) for k in range(LANES_IN * BEATS_IN)]
        with m.FSM():
            with m.State("TAKE"):
                m.d.comb += self.i_tready.eq(1)
                with m.If(self.i_tvalid):
                    m.d.sync += record.eq(Cat(record[32 * LANES_IN :], self.i_tdata))
                    with m.If(self.i_tlast):
                        m.d.sync += [wait.eq(DELAY), self.records.eq(self.records + 1)]
                        m.next = "WORK"
            with m.State("WORK"):
                m.d.sync += wait.eq(wait - 1)
                with m.If(wait == 0):
                    m.next = "FIRST"
            with m.State("FIRST"):
                m.d.comb += [
                    self.o_tvalid.eq(1),
                    self.o_tdata.eq(Cat((x[0] + x[4])[:32], x[1] ^ x[2])),
                ]
                with m.If(self.o_tready):
                    m.next = "SECOND"
            with m.State("SECOND"):
                m.d.comb += [
                    self.o_tvalid.eq(1),
                    self.o_tlast.eq(1),
                    self.o_tuser.eq(x[0][0]),
                    # The padding of the request's last beat is zero.
                    self.o_tdata.eq(Cat((x[3] + 7 + x[5])[:32])),
                ]
                with m.If(self.o_tready):
                    m.next = "TAKE"
        return m


async def transfer(ctx: Any, card: Any, sent: bytes, *, cycles: int = CYCLES) -> bytes:
    """Perform a transfer in mode 0: data is valid half a bit before the rising edge."""
    ctx.set(card.cs, 0)
    await ctx.tick("outside").repeat(cycles)
    received = bytearray()
    for byte in sent:
        value = 0
        for place in reversed(range(8)):
            ctx.set(card.mosi, byte >> place & 1)
            await ctx.tick("outside").repeat(cycles - cycles // 2)
            value = value << 1 | ctx.get(card.miso)
            ctx.set(card.sck, 1)
            await ctx.tick("outside").repeat(cycles // 2)
            ctx.set(card.sck, 0)
        received.append(value)
    await ctx.tick("outside").repeat(cycles)
    ctx.set(card.cs, 1)
    await ctx.tick("outside").repeat(cycles)
    return bytes(received)


def simulate(bench: Callable[[Any, Any, Any], Any]) -> None:
    core = Adder()
    card = SpiCard(manifest=small_manifest(), core=core)
    simulator = Simulator(Wrapped(card))
    simulator.add_clock(1e-6, domain="outside")

    async def run(ctx: Any) -> None:
        await bench(ctx, card, core)

    simulator.add_testbench(run)
    simulator.run()


class Wrapped(wiring.Component):
    """Card with its clock from the simulator, for the card's own domain."""

    def __init__(self, card: Any) -> None:
        self.card = card
        super().__init__({})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.card = self.card
        clock, reset = ClockSignal("outside"), ResetSignal("outside")
        m.d.comb += [self.card.clk.eq(clock), self.card.rst.eq(reset)]
        beat = Signal()
        m.d.outside += beat.eq(~beat)
        return m


@pytest.mark.parametrize("cycles", some([CYCLES, 7, 10], 1))
def test_results_are_those_of_their_requests(cycles: int) -> None:
    rng = np.random.default_rng(cycles)
    lengths = SpiTransfer.of(small_manifest())

    async def bench(ctx: Any, card: Any, core: Any) -> None:
        for turn in range(4):
            words = rng.integers(0, 2**32, size=WORDS_IN, dtype=np.uint32)
            received = await transfer(ctx, card, lengths.request(words.tobytes()), cycles=cycles)
            record, flagged = lengths.result(received)
            assert (np.frombuffer(record, dtype=np.uint32) == answer(words)).all(), turn
            assert flagged == bool(words[0] & 1)
            assert not any(received[: lengths.answered - 1])

    simulate(bench)


def test_what_is_damaged_or_cut_short_launches_nothing() -> None:
    lengths, other_lengths = (
        SpiTransfer.of(small_manifest()),
        SpiTransfer.of(small_manifest(robot="other")),
    )
    assert lengths.start != other_lengths.start
    words = np.arange(2, 2 + WORDS_IN, dtype=np.uint32)
    sent = lengths.request(words.tobytes())

    async def bench(ctx: Any, card: Any, core: Any) -> None:
        for at in (0, 4 * WORDS_IN - 1, lengths.asked - 1):
            bad = bytearray(sent)
            bad[at] ^= 0x10
            with pytest.raises(SpiError, match="The card refused the request"):
                lengths.result(await transfer(ctx, card, bytes(bad)))
        with pytest.raises(SpiError, match="holds this build"):
            other_lengths.result(await transfer(ctx, card, other_lengths.request(words.tobytes())))
        await transfer(ctx, card, sent[: lengths.asked - 1])
        assert ctx.get(core.records) == 0
        # Ended after the request: computed, and discarded by the next transfer.
        await transfer(ctx, card, sent[: lengths.asked])
        record, _ = lengths.result(await transfer(ctx, card, sent))
        assert (np.frombuffer(record, dtype=np.uint32) == answer(words)).all()
        assert ctx.get(core.records) == 2

    simulate(bench)


def test_a_disturbed_answer_is_refused() -> None:
    lengths = SpiTransfer.of(small_manifest())
    received = lengths.request(bytes(4 * WORDS_IN))
    with pytest.raises(SpiError, match=r"checksum of the card's answer is wrong"):
        lengths.result(b"\xff" * len(received))
    with pytest.raises(ValueError, match="A request must have 20 bytes, not 19"):
        lengths.request(bytes(19))
    with pytest.raises(ValueError, match="bytes, not 3"):
        lengths.result(bytes(3))


MUTANTS = {
    "the status a byte late": (
        "first = self.transfer.answered ",
        "first = 1 + self.transfer.answered ",
    ),
    "any checksum is good": ("launch.eq(checks & (crc.crc == 0))", "launch.eq(checks)"),
    "words the other way": ("Cat(data[WORD:], words.data)", "Cat(words.data, data[:-WORD])"),
    "bytes the other way": ("Cat(gathered, byte)", "Cat(byte, gathered)"),
    "no sum of the status": ("begun.eq(1), sums.eq(1)", "begun.eq(1), sums.eq(0)"),
    "the flag forgotten": ("flagged & complete & launched", "0 & flagged"),
    "a bit late": ("received.eq(bit == 7)", "received.eq(bit == 6)"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_slave_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spi_card, "SpiSlave", mutant(SpiSlave, *MUTANTS[name]))
    lengths = SpiTransfer.of(small_manifest())
    words = np.array([3, 5, 6, 7, 9], dtype=np.uint32)
    sent = lengths.request(words.tobytes())
    bad = bytes((sent[0] ^ 1,)) + sent[1:]

    async def bench(ctx: Any, card: Any, core: Any) -> None:
        record, flagged = lengths.result(await transfer(ctx, card, sent))
        assert (np.frombuffer(record, dtype=np.uint32) == answer(words)).all() and flagged
        await transfer(ctx, card, bad)
        assert ctx.get(core.records) == 1

    with pytest.raises((AssertionError, SpiError)):
        simulate(bench)
