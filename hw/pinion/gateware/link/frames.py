"""Conversion between a line's bytes and the serial link's beats and commands.

`pinion.link.uart_framing` specifies the frames.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.crc.catalog import CRC16_XMODEM
from amaranth.lib.data import StructLayout
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component
from pinion.link import BEAT
from pinion.link.uart_framing import CHECK, COMMAND, SHORT, FrameKind

from .bus import FULL, WORD, Bus

COMMAND_FRAME = StructLayout({"kind": 8, "tag": 8, "offset": 8, "value": WORD})
"""Kind and body of a frame without a beat."""

assert COMMAND_FRAME.size == 8 * COMMAND

_LONG = 1 + BEAT + CHECK
_MANY = 127
_UPPER = 128


class FrameReader(Component):
    """Decoder of frames that accepts a byte in every cycle.

    Parameters
    ----------
    slots : capacity in beats, a power of two.
    bus : width of the stream of beats.

    Members
    -------
    data : In(8)
    valid, broken : In(1)
        A byte, and whether its stop bit was missing, which ends a frame like a zero.
    beat : stream of ``bus.request``
        Beats, in order. All slices of a damaged beat are marked as not whole, and so is the beat
        after beats that were lost for lack of room.
    command : Out(`COMMAND_FRAME`)
    commanded : Out(1)
        For one cycle: a READ, WRITE or SYNC has arrived; ``command`` stays until the next byte.
    taken : Out(32)
        Beats delivered since configuration.

    Latency: 2 cycles from a frame's last byte to ``commanded``; 3 to the offer of its beat's first
        slice, and the bytes of a slice.
    Throughput: a byte every cycle; a slice every 2 cycles plus its bytes, and 1 more per beat.
    """

    def __init__(self, *, slots: int, bus: Bus = FULL) -> None:
        if slots < 2 or slots & (slots - 1):
            raise ValueError(
                f"The number of slots must be a power of two of at least 2, not {slots}."
            )
        self.slots = slots
        self.bus = bus
        super().__init__(
            {
                "data": In(8),
                "valid": In(1),
                "broken": In(1),
                "beat": Out(stream.Signature(bus.request)),
                "command": Out(COMMAND_FRAME),
                "commanded": Out(1),
                "taken": Out(WORD),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Unstuff bytes, store them as beat and command, and accept or drop them at the end."""
        m = Module()
        count = Signal(range(_MANY + 1))  # bytes of this frame so far
        emitted, byte = Signal(), Signal(8)
        ended, sound = Signal(), Signal()
        m.submodules.crc = crc = CRC16_XMODEM(data_width=8).create()
        self._unstuff(m, emitted=emitted, byte=byte, ended=ended, sound=sound)
        kind = Signal(8)
        recent = Signal(8 * (COMMAND + CHECK))
        m.d.comb += [
            crc.start.eq(ended),
            crc.data.eq(byte),
            crc.valid.eq(emitted),
            self.command.eq(recent[: 8 * COMMAND]),
        ]
        m.d.sync += self.commanded.eq(0)
        push, whole = Signal(), Signal()
        with m.If(emitted):
            m.d.sync += [recent.eq(Cat(recent[8:], byte)), count.eq(count + (count != _MANY))]
            with m.If(count == 0):
                m.d.sync += kind.eq(byte)
        with m.If(ended):
            good = Signal()
            m.d.comb += good.eq(sound & (crc.crc == 0))
            m.d.sync += count.eq(0)
            with m.If(good & (count == COMMAND + CHECK)):
                m.d.sync += self.commanded.eq(
                    (kind == FrameKind.READ) | (kind == FrameKind.WRITE) | (kind == FrameKind.SYNC)
                )
            m.d.comb += [
                whole.eq(good & (count == _LONG) & (kind == FrameKind.BEAT)),
                push.eq(whole | (count > SHORT)),
            ]
        self._store(m, count=count, emitted=emitted, byte=byte, push=push, whole=whole)
        return m

    def _unstuff(
        self, m: Module, *, emitted: Signal, byte: Signal, ended: Signal, sound: Signal
    ) -> None:
        """Output at most one byte per input byte: itself, or the zero that a length encodes."""
        left = Signal(8)  # bytes until the next length
        first = Signal(init=1)
        with m.If(self.valid):
            with m.If((self.data == 0) | self.broken):
                m.d.comb += [ended.eq(1), sound.eq((left == 0) & ~self.broken)]
                m.d.sync += [left.eq(0), first.eq(1)]
            with m.Elif(left == 0):
                m.d.comb += emitted.eq(~first)
                m.d.sync += [left.eq(self.data - 1), first.eq(0)]
            with m.Else():
                m.d.comb += [emitted.eq(1), byte.eq(self.data)]
                m.d.sync += left.eq(left - 1)

    def _store(
        self,
        m: Module,
        *,
        count: Signal,
        emitted: Signal,
        byte: Signal,
        push: Signal,
        whole: Signal,
    ) -> None:
        """Build a ring of 64-byte slots, which are output as beats in order."""
        slots = self.slots
        m.submodules.bytes = memory = Memory(shape=8, depth=slots * BEAT, init=[])
        m.submodules.wholes = wholes = Memory(shape=1, depth=slots, init=[])
        write, mark = memory.write_port(), wholes.write_port()
        read, look = memory.read_port(), wholes.read_port(domain="comb")
        put, get = Signal(range(2 * slots)), Signal(range(2 * slots))
        full, lost = Signal(), Signal()
        place = Signal(range(BEAT))
        m.d.comb += [
            full.eq(put == get ^ slots),
            place.eq(count - 1),
            write.addr.eq(Cat(place, put[:-1])),
            write.data.eq(byte),
            write.en.eq(emitted & (count >= 1) & (count <= BEAT) & ~full),
            mark.addr.eq(put[:-1]),
            mark.data.eq(whole & ~lost),
            mark.en.eq(push & ~full),
            look.addr.eq(get[:-1]),
        ]
        with m.If(push):
            m.d.sync += lost.eq(full)
            with m.If(~full):
                m.d.sync += put.eq(put + 1)
        at = Signal(range(BEAT))
        data, left = Signal(self.bus.bits), Signal(range(self.bus.bytes))
        m.d.comb += [
            read.addr.eq(Cat(at, get[:-1])),
            read.en.eq(1),
            self.beat.p.data.eq(data),
            self.beat.p.whole.eq(look.data),
        ]
        with m.FSM():
            with m.State("WAIT"), m.If(put != get):  # `at` is 0
                m.next = "READ"
            with m.State("READ"):
                m.d.sync += [at.eq(at + 1), left.eq(self.bus.bytes - 1)]
                m.next = "LOAD"
            with m.State("LOAD"):
                m.d.sync += [data.eq(Cat(data[8:], read.data)), left.eq(left - 1)]
                with m.If(left == 0):
                    m.next = "OFFER"
                with m.Else():
                    m.d.sync += at.eq(at + 1)
            with m.State("OFFER"):
                m.d.comb += self.beat.valid.eq(1)
                with m.If(self.beat.ready):
                    m.next = "READ"
                    with m.If(at == 0):  # it has wrapped
                        m.d.sync += [get.eq(get + 1), self.taken.eq(self.taken + 1)]
                        m.next = "WAIT"


class FrameWriter(Component):
    """Encoder of beats and commands into frames.

    Parameters
    ----------
    bus : width of the stream of beats.

    Members
    -------
    command : stream of `COMMAND_FRAME`; sent before a beat, also while one is gathered.
    beat : stream of ``bus.response``
    o : stream of bytes

    Latency: 29 cycles from a command's acceptance to its first byte; from that of a beat's last
        slice 140 and the bytes of a slice.
    Throughput: one frame per latency plus 11 or 69 bytes.
    """

    def __init__(self, *, bus: Bus = FULL) -> None:
        self.bus = bus
        super().__init__(
            {
                "command": In(stream.Signature(COMMAND_FRAME)),
                "beat": In(stream.Signature(bus.response)),
                "o": Out(stream.Signature(8)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Fill a buffer, append the checksum, replace zeros with lengths from the end, and send."""
        m = Module()
        # Distributed: a block RAM would absorb `current`, and its output is late in a cycle.
        style = {"ram_style": "distributed"}
        m.submodules.bytes = memory = Memory(shape=8, depth=2 * _UPPER, init=[], attrs=style)
        write, read = memory.write_port(), memory.read_port(domain="comb")
        m.submodules.crc = crc = CRC16_XMODEM(data_width=8).create()
        rest = Signal(max(self.bus.bits, COMMAND_FRAME.size))
        last = Signal()
        left = Signal(8)
        # A beat is gathered in the lower half, also while commands pass through the upper half.
        at, length = Signal(8), Signal(8)
        fill = Signal(range(_LONG), init=1)  # after the kind, which depends on a beat's last slice
        gathered = Signal()  # a complete beat: a register, because both streams wait for it
        check = Signal(16)
        # The byte read in the previous cycle, and its place: a distributed memory and the logic
        # after it do not fit one cycle.
        current, behind, sums, stuffs = Signal(8), Signal(8), Signal(), Signal()
        m.d.sync += [current.eq(read.data), behind.eq(at), sums.eq(0), stuffs.eq(0)]
        m.d.comb += [read.addr.eq(at), write.addr.eq(at), crc.data.eq(current), crc.valid.eq(sums)]
        with m.If(stuffs):
            m.d.comb += [write.addr.eq(behind), write.en.eq(current == 0), write.data.eq(length)]
            m.d.sync += length.eq(Mux(current == 0, 1, length + 1))
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [
                    crc.start.eq(1),
                    self.command.ready.eq(~gathered),
                    self.beat.ready.eq(~gathered & ~self.command.valid),
                ]
                with m.If(gathered):
                    m.d.sync += [at.eq(0), fill.eq(1), gathered.eq(0)]
                    m.next = "KIND"
                with m.Elif(self.command.valid):
                    m.d.sync += [rest.eq(self.command.payload.as_value()), left.eq(COMMAND)]
                    m.d.sync += at.eq(_UPPER)
                    m.next = "FILL"
                with m.Elif(self.beat.valid):
                    m.d.sync += [rest.eq(self.beat.p.data), last.eq(self.beat.p.last)]
                    m.d.sync += [left.eq(self.bus.bytes), at.eq(fill)]
                    m.next = "FILL"
            with m.State("FILL"):
                m.d.comb += [write.en.eq(1), write.data.eq(rest[:8])]
                m.d.sync += [at.eq(at + 1), left.eq(left - 1), rest.eq(rest[8:])]
                with m.If(left == 1):
                    with m.If(at >= _UPPER):
                        m.d.sync += [at.eq(_UPPER), left.eq(COMMAND)]
                        m.next = "SUM"
                    with m.Else():
                        m.d.sync += [fill.eq(at + 1), gathered.eq(at == BEAT)]
                        m.next = "IDLE"
            with m.State("KIND"):
                m.d.comb += [
                    write.en.eq(1),
                    write.data.eq(Mux(last, FrameKind.LAST, FrameKind.BEAT)),
                ]
                m.d.sync += left.eq(1 + BEAT)
                m.next = "SUM"
            with m.State("SUM"):
                m.d.sync += [sums.eq(1), at.eq(at + 1), left.eq(left - 1)]
                with m.If(left == 1):
                    m.next = "SUMMED"
            with m.State("SUMMED"):  # with the last byte
                m.next = "CHECK"
            with m.State("CHECK"):
                m.d.sync += check.eq(crc.crc)
                m.next = "HIGH"
            with m.State("HIGH"):
                m.d.comb += [write.en.eq(1), write.data.eq(check[8:])]
                m.d.sync += at.eq(at + 1)
                m.next = "LOW"
            with m.State("LOW"):
                m.d.comb += [write.en.eq(1), write.data.eq(check[:8])]
                m.d.sync += [left.eq(at), length.eq(1)]  # left: the last byte's place
                m.next = "STUFF"
            with m.State("STUFF"):
                m.d.sync += stuffs.eq(1)
                with m.If(at[:-1] == 0):
                    m.next = "STUFFED"
                with m.Else():
                    m.d.sync += at.eq(at - 1)
            with m.State("STUFFED"):  # with the first byte, which may have changed
                m.next = "LENGTH"
            with m.State("LENGTH"):
                m.d.comb += [self.o.valid.eq(1), self.o.payload.eq(length)]
                with m.If(self.o.ready):
                    m.next = "FETCH"
            with m.State("FETCH"):
                m.next = "SEND"
            with m.State("SEND"):
                m.d.comb += [self.o.valid.eq(1), self.o.payload.eq(current)]
                with m.If(self.o.ready):
                    m.d.sync += at.eq(at + 1)
                    m.next = "FETCH"
                    with m.If(at == left):
                        m.next = "END"
            with m.State("END"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "IDLE"
        return m
