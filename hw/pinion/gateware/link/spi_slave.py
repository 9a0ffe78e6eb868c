"""SPI slave that passes a core one request per transfer: `pinion.link.spi_framing`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.crc import Algorithm, Processor
from amaranth.lib.data import StructLayout
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component
from pinion.link.spi_framing import CHECK, SpiTransfer, StatusBits

WORD = 32

_LUTS = {"ram_style": "distributed"}
"""Attributes of memories of a few words, which would leave block RAM mostly empty."""


def checksum(start: int) -> Processor:
    """Create a CRC-16 with XMODEM's polynomial and the given initial value."""
    algorithm = Algorithm(
        crc_width=16,
        polynomial=0x1021,
        initial_crc=start,
        reflect_input=False,
        reflect_output=False,
        xor_output=0,
    )
    return algorithm(data_width=8).create()


class SpiSlave(Component):
    """Bridge between SPI transfers and the streams of a core.

    Parameters
    ----------
    transfer : lengths and the checksums' initial value.
    lanes_in, beats_in, lanes_out, beats_out : of the core.

    Members
    -------
    sck, cs, mosi : In(1)
        Asynchronous; ``cs`` is low during a transfer.
    miso : Out(1)
        Changes between the third and the fifth cycle after SCK's rising edge.
    request : stream of ``data``, ``last``
        Beats of the core.
    result : stream of ``data``, ``last``, ``user``

    Latency: from the last bit of a request's checksum to the first beat, 6 cycles and one per lane;
        from the last beat to the status, 3 cycles and one per lane.
    Throughput: one request per transfer; one bit of the line in `pinion.link.spi_framing.CYCLES`
        cycles.
    """

    def __init__(
        self, *, transfer: SpiTransfer, lanes_in: int, beats_in: int, lanes_out: int, beats_out: int
    ) -> None:
        self.transfer = transfer
        self.lanes_in, self.beats_in = lanes_in, beats_in
        self.lanes_out, self.beats_out = lanes_out, beats_out
        request = StructLayout({"data": WORD * lanes_in, "last": 1})
        result = StructLayout({"data": WORD * lanes_out, "last": 1, "user": 1})
        super().__init__(
            {
                "sck": In(1),
                "cs": In(1, init=1),
                "mosi": In(1),
                "miso": Out(1),
                "request": Out(stream.Signature(request)),
                "result": In(stream.Signature(result)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the conversions between SPI bits and the core's words, in both directions."""
        m = Module()
        received, byte, idle, shifted = Signal(), Signal(8), Signal(), Signal(8)
        ahead = Signal(8)  # the byte after the one on the line, ready long before it is sent
        self._bits(m, received=received, byte=byte, idle=idle, shifted=shifted, ahead=ahead)
        # Bytes received, which is the next byte's place in the transfer.
        count = Signal(range(self.transfer.size + 1))
        with m.If(idle):
            m.d.sync += count.eq(0)
        with m.Elif(received & (count != self.transfer.size)):
            m.d.sync += count.eq(count + 1)
        launch, damaged, words = self._take(m, received=received, byte=byte, idle=idle, count=count)
        launched, complete, flagged = Signal(), Signal(), Signal()
        look = self._results(m, complete=complete, flagged=flagged)
        with m.If(launch):
            m.d.sync += [launched.eq(1), complete.eq(0)]
        with m.Elif(idle):
            m.d.sync += launched.eq(0)
        self._feed(m, launch=launch, words=words)
        status = Signal(8)
        m.d.comb += [
            status[StatusBits.DONE.bit_length() - 1].eq(complete & launched),
            status[StatusBits.FLAGGED.bit_length() - 1].eq(flagged & complete & launched),
            status[StatusBits.DAMAGED.bit_length() - 1].eq(damaged),
        ]
        self._answer(
            m, received=received, idle=idle, count=count, status=status, ahead=ahead, look=look
        )
        return m

    def _bits(
        self,
        m: Module,
        *,
        received: Signal,
        byte: Signal,
        idle: Signal,
        shifted: Signal,
        ahead: Signal,
    ) -> None:
        """Sample the lines; a byte is complete at its eighth rising edge, when the next one starts.

        The line to the host changes after the rising edge on which the host samples it, not at the
        falling one, so that it has nearly a whole bit to settle.
        """
        sck, cs, mosi, before = Signal(), Signal(init=1), Signal(), Signal()
        m.submodules.sck = FFSynchronizer(self.sck, sck, stages=2)
        m.submodules.cs = FFSynchronizer(self.cs, cs, init=1, stages=2)
        m.submodules.mosi = FFSynchronizer(self.mosi, mosi, stages=2)
        bit = Signal(3)
        rises = Signal()
        m.d.sync += [before.eq(sck), received.eq(0), idle.eq(cs)]
        m.d.comb += [rises.eq(sck & ~before & ~cs), self.miso.eq(shifted[-1])]
        with m.If(cs):
            m.d.sync += [bit.eq(0), shifted.eq(0)]
        with m.Elif(rises):
            m.d.sync += [
                byte.eq(Cat(mosi, byte)),
                bit.eq(bit + 1),
                received.eq(bit == 7),
                shifted.eq(Mux(bit == 7, ahead, Cat(Const(0, 1), shifted))),
            ]

    def _take(
        self, m: Module, *, received: Signal, byte: Signal, idle: Signal, count: Signal
    ) -> tuple[Signal, Signal, Any]:
        """Store a request's words; return the launch pulse, an error flag, and a read port."""
        words = self.transfer.words_in
        depth = self.lanes_in * self.beats_in
        # Words after the record are the padding of its last beat.
        m.submodules.words = memory = Memory(shape=WORD, depth=depth, init=[], attrs=_LUTS)
        write, read = memory.write_port(), memory.read_port(domain="comb")
        m.submodules.check = crc = checksum(self.transfer.start)
        gathered = Signal(24)
        launch, damaged, checks = Signal(), Signal(), Signal()
        m.d.comb += [
            write.addr.eq(count[2:]),
            write.data.eq(Cat(gathered, byte)),
            write.en.eq(received & (count < 4 * words) & (count[:2] == 3)),
            crc.start.eq(idle),
            crc.data.eq(byte),
            crc.valid.eq(received & (count < self.transfer.asked)),
            launch.eq(checks & (crc.crc == 0)),
        ]
        m.d.sync += checks.eq(received & (count == self.transfer.asked - 1))
        with m.If(received):
            m.d.sync += gathered.eq(Cat(gathered[8:], byte))
        with m.If(idle):
            m.d.sync += damaged.eq(0)
        with m.Elif(checks):
            m.d.sync += damaged.eq(crc.crc != 0)
        return launch, damaged, read

    def _feed(self, m: Module, *, launch: Signal, words: Any) -> None:
        """Pack words from the request memory into beats for the core, one word per cycle."""
        at = Signal(range(self.lanes_in * self.beats_in + 1))
        lane, beat = Signal(range(self.lanes_in + 1)), Signal(range(self.beats_in + 1))
        m.d.comb += [words.addr.eq(at), self.request.p.last.eq(beat == self.beats_in - 1)]
        data = Signal(WORD * self.lanes_in)
        m.d.comb += self.request.p.data.eq(data)
        with m.FSM(name="feed"):
            with m.State("REST"):
                m.d.sync += [at.eq(0), lane.eq(0), beat.eq(0)]
                with m.If(launch):
                    m.next = "GATHER"
            with m.State("GATHER"):
                m.d.sync += [
                    data.eq(Cat(data[WORD:], words.data)),
                    at.eq(at + 1),
                    lane.eq(lane + 1),
                ]
                with m.If(lane == self.lanes_in - 1):
                    m.next = "OFFER"
            with m.State("OFFER"):
                m.d.comb += self.request.valid.eq(1)
                m.d.sync += lane.eq(0)
                with m.If(self.request.ready):
                    m.d.sync += beat.eq(beat + 1)
                    m.next = "GATHER"
                    with m.If(self.request.p.last):
                        m.next = "REST"

    def _results(
        self, m: Module, *, complete: Signal, flagged: Signal
    ) -> Callable[[Signal], Signal]:
        """Store result words in a memory; return a function that builds the read of a byte."""
        depth = self.lanes_out * self.beats_out
        m.submodules.results = memory = Memory(shape=WORD, depth=depth, init=[], attrs=_LUTS)
        write, read = memory.write_port(), memory.read_port(domain="comb")
        rest, last, lane = (
            Signal(WORD * self.lanes_out),
            Signal(),
            Signal(range(self.lanes_out + 1)),
        )
        at = Signal(range(depth + 1))
        m.d.comb += [write.addr.eq(at), write.data.eq(rest[:WORD])]
        with m.FSM(name="results"):
            with m.State("WAIT"):
                m.d.comb += self.result.ready.eq(1)
                m.d.sync += [rest.eq(self.result.p.data), last.eq(self.result.p.last), lane.eq(0)]
                with m.If(self.result.valid):
                    m.d.sync += flagged.eq(self.result.p.user)
                    m.next = "KEEP"
            with m.State("KEEP"):
                m.d.comb += write.en.eq(1)
                m.d.sync += [rest.eq(rest[WORD:]), at.eq(at + 1), lane.eq(lane + 1)]
                with m.If(lane == self.lanes_out - 1):
                    m.next = "WAIT"
                    with m.If(last):
                        m.d.sync += [complete.eq(1), at.eq(0)]

        def look(place: Signal) -> Signal:
            byte = Signal(8, name="found")
            m.d.comb += [
                read.addr.eq(place[2:]),
                byte.eq(read.data.word_select(place[:2], 8)),
            ]
            return byte

        return look

    def _answer(
        self,
        m: Module,
        *,
        received: Signal,
        idle: Signal,
        count: Signal,
        status: Signal,
        ahead: Signal,
        look: Callable[[Signal], Signal],
    ) -> None:
        """Prepare the byte after the one on the line, and add sent bytes to the checksum."""
        first = self.transfer.answered  # bytes received when the result's first byte is sent
        words = 4 * self.transfer.words_out
        m.submodules.sum = crc = checksum(self.transfer.start)
        place = Signal(range(words + CHECK + 1))  # of the byte ahead in the result
        result_byte = look(place)
        begun = Signal()
        sums, summed = Signal(), Signal(8)
        m.d.comb += [crc.start.eq(idle), crc.data.eq(summed), crc.valid.eq(sums)]
        m.d.sync += sums.eq(0)
        # The status is fixed during the last byte of the pause, each result byte one byte later.
        with m.If(idle):
            m.d.sync += [place.eq(0), begun.eq(0), ahead.eq(0)]
        with m.Elif(received & (count == first - 2)):
            # The status has just been sent.
            m.d.sync += [begun.eq(1), sums.eq(1), summed.eq(ahead)]
        with m.Elif(received & begun):
            m.d.sync += place.eq(place + 1)
            with m.If(place < words):
                m.d.sync += [sums.eq(1), summed.eq(ahead)]
        with m.Elif(begun):
            with m.If(place < words):
                m.d.sync += ahead.eq(result_byte)
            with m.Elif(place == words):
                m.d.sync += ahead.eq(crc.crc[8:])
            with m.Elif(place == words + 1):
                m.d.sync += ahead.eq(crc.crc[:8])
            with m.Else():
                m.d.sync += ahead.eq(0)
        with m.Elif(count == first - 2):
            m.d.sync += ahead.eq(status)
