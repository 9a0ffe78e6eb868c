"""The serial link, which replaces the DMA engine with two wires."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped

from pinion.gateware.component import Component
from pinion.link.uart_framing import SLOTS, FrameKind

from .bus import FULL, WORD, Bus
from .frames import COMMAND_FRAME, FrameReader, FrameWriter
from .registers import AXI_LITE
from .uart import UartReceiver, UartTransmitter


class SerialLink(Component):
    """Bridge between frames of `pinion.link.uart_framing` and the ports of the top.

    Parameters
    ----------
    length : length of a bit (`pinion.gateware.link.uart.bit_length`).
    slots : capacity for the stream in beats, a power of two.
    bus : width of the stream.

    Members
    -------
    rx : In(1)
        Asynchronous.
    tx : Out(1)
    h2c : stream of ``bus.request``
        A damaged beat is marked as not whole.
    c2h : stream of ``bus.response``
    awaddr ... rready : AXI4-Lite with 32 bits, towards the registers.

    Latency: of a register access 47 cycles and 22 bytes on the line; of a beat 70 to 85 cycles
    from its last byte to the stream, 212 from the stream to its first byte.
    Throughput: a beat every 69 bytes each way.
    """

    def __init__(self, *, length: int, slots: int = SLOTS, bus: Bus = FULL) -> None:
        self.length = length
        self.slots = slots
        self.bus = bus
        super().__init__(
            {
                "rx": In(1),
                "tx": Out(1),
                "h2c": Out(stream.Signature(bus.request)),
                "c2h": In(stream.Signature(bus.response)),
            }
            | {name: member.flip() for name, member in AXI_LITE.items()}
        )

    def elaborate(self, platform: object) -> Module:
        """Connect UART, frame reader and frame writer, and build the answers to commands."""
        m = Module()
        m.submodules.receiver = receiver = UartReceiver(length=self.length)
        m.submodules.reader = reader = FrameReader(slots=self.slots, bus=self.bus)
        m.submodules.writer = writer = FrameWriter(bus=self.bus)
        m.submodules.transmitter = transmitter = UartTransmitter(length=self.length)
        connect(m, reader.beat, flipped(self.h2c))
        connect(m, flipped(self.c2h), writer.beat)
        connect(m, writer.o, transmitter.i)
        m.d.comb += [
            receiver.line.eq(self.rx),
            self.tx.eq(transmitter.line),
            reader.data.eq(receiver.data),
            reader.valid.eq(receiver.valid),
            reader.broken.eq(receiver.broken),
        ]
        self._answer(m, reader, writer)
        return m

    def _answer(self, m: Module, reader: FrameReader, writer: FrameWriter) -> None:
        """Answer one command at a time; the host repeats a command that arrives meanwhile."""
        request = Signal(COMMAND_FRAME, name="asked")
        reported = Signal(WORD, name="told")  # the beats delivered that the host knows of
        fresh = Signal(WORD)
        some, many, unasked = Signal(), Signal(), Signal()
        answer = writer.command
        m.d.comb += [
            fresh.eq(reader.taken - reported),
            unasked.eq((some & ~writer.beat.valid) | many),
            self.awaddr.eq(request.offset),
            self.araddr.eq(request.offset),
            self.wdata.eq(request.value),
            self.wstrb.eq(~Const(0, 4)),
            answer.p.kind.eq(FrameKind.ROOM),
            answer.p.value.eq(reader.taken),
        ]
        # A cycle late: one cycle only fits a subtraction and a comparison.
        m.d.sync += [some.eq(fresh != 0), many.eq(fresh >= max(1, self.slots // 4))]
        with m.If(answer.valid & answer.ready & (answer.p.kind == FrameKind.ROOM)):
            m.d.sync += [reported.eq(reader.taken), some.eq(0), many.eq(0)]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += answer.valid.eq(unasked)
                m.d.sync += request.eq(reader.command)
                with m.If(reader.commanded):
                    m.d.sync += [
                        self.awvalid.eq(reader.command.kind == FrameKind.WRITE),
                        self.wvalid.eq(reader.command.kind == FrameKind.WRITE),
                        self.arvalid.eq(reader.command.kind == FrameKind.READ),
                    ]
                    m.next = "ACCESS"
            with m.State("ACCESS"):
                m.d.comb += [self.rready.eq(1), self.bready.eq(1)]
                with m.If(self.awready):
                    m.d.sync += self.awvalid.eq(0)
                with m.If(self.wready):
                    m.d.sync += self.wvalid.eq(0)
                with m.If(self.arready):
                    m.d.sync += self.arvalid.eq(0)
                with m.If(self.rvalid):
                    m.d.sync += request.value.eq(self.rdata)
                with m.If(self.rvalid | self.bvalid | (request.kind == FrameKind.SYNC)):
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                sync = request.kind == FrameKind.SYNC
                m.d.comb += [
                    answer.valid.eq(1),
                    answer.p.kind.eq(Mux(sync, FrameKind.ROOM, FrameKind.VALUE)),
                    answer.p.tag.eq(request.tag),
                    answer.p.offset.eq(request.offset),
                    answer.p.value.eq(Mux(sync, reader.taken, request.value)),
                ]
                with m.If(answer.ready):
                    m.next = "IDLE"
