"""UART: 8 data bits, no parity, one stop bit."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component

FRACTION = 4
"""Fraction bits of a bit's length in cycles."""

LEAST = 4
"""Minimum cycles of a bit, so that its middle can be sampled."""


def bit_length(*, clock_hz: float, baud: float) -> int:
    """Return the duration of a bit in units of ``2**-FRACTION`` clock cycles.

    Raises
    ------
    ValueError
        If the clock is too slow for the rate.
    """
    length = round(clock_hz / baud * (1 << FRACTION))
    if length < LEAST << FRACTION:
        raise ValueError(
            f"A clock of {clock_hz / 1e6:g} MHz is too slow for {baud:g} bit/s: use at most "
            f"{clock_hz / LEAST:g} bit/s, or a faster clock."
        )
    return length


class UartReceiver(Component):
    """Receiver of bytes from a line that is high when idle.

    Parameters
    ----------
    length : length of a bit (`bit_length`).

    Members
    -------
    line : In(1)
        Asynchronous.
    data : Out(8)
    valid : Out(1)
        For one cycle: a byte has arrived.
    broken : Out(1)
        With ``valid``: the stop bit was missing. The next byte begins once the line has been high.

    Latency: 3 cycles from the middle of the stop bit to ``valid``.
    Throughput: a byte every 10 bits; sampling is off by at most a cycle over a byte.
    """

    def __init__(self, *, length: int) -> None:
        self.length = length
        super().__init__({"line": In(1), "data": Out(8), "valid": Out(1), "broken": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Build the state machine: wait for a start bit, then sample the middle of each bit."""
        m = Module()
        line = Signal(init=1)
        m.submodules.synchroniser = FFSynchronizer(self.line, line, init=1, stages=2)
        cycle = 1 << FRACTION
        left = Signal(range(self.length + cycle))
        bit = Signal(range(10))
        m.d.sync += self.valid.eq(0)
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [left.eq(self.length // 2 - cycle), bit.eq(0)]
                with m.If(~line):
                    m.next = "BITS"
            with m.State("BITS"):
                with m.If(left >= cycle):
                    m.d.sync += left.eq(left - cycle)
                with m.Else():
                    m.d.sync += [left.eq(left + self.length - cycle), bit.eq(bit + 1)]
                    with m.If((bit == 0) & line):  # a glitch instead of a start bit
                        m.next = "IDLE"
                    with m.Elif(bit == 9):
                        m.d.sync += [self.valid.eq(1), self.broken.eq(~line)]
                        # The next start bit may follow in half a bit.
                        with m.If(line):
                            m.next = "IDLE"
                        with m.Else():
                            m.next = "HIGH"
                    with m.Else():  # the eighth data bit shifts the start bit out
                        m.d.sync += self.data.eq(Cat(self.data[1:], line))
            with m.State("HIGH"), m.If(line):
                m.next = "IDLE"
        return m


class UartTransmitter(Component):
    """Transmitter of bytes onto a line that is high when idle.

    Parameters
    ----------
    length : length of a bit (`bit_length`).

    Members
    -------
    i : stream of bytes
    line : Out(1)
        Registered.

    Latency: 1 cycle from a byte's acceptance to its start bit.
    Throughput: a byte every 10 bits.
    """

    def __init__(self, *, length: int) -> None:
        self.length = length
        super().__init__({"i": In(stream.Signature(8)), "line": Out(1, init=1)})

    def elaborate(self, platform: object) -> Module:
        """Build a shift register of the bits to send, filled with ones."""
        m = Module()
        cycle = 1 << FRACTION
        left = Signal(range(self.length + cycle))
        bits = Signal(9)
        count = Signal(range(11))
        free = Signal(init=1)  # the count is zero: a register, because a whole frame depends on it
        m.d.comb += self.i.ready.eq(free)
        with m.If(free), m.If(self.i.valid):
            m.d.sync += [
                free.eq(0),
                self.line.eq(0),
                bits.eq(Cat(self.i.payload, 1)),
                count.eq(10),
                left.eq(self.length - cycle),
            ]
        with m.Elif(left >= cycle):
            m.d.sync += left.eq(left - cycle)
        with m.Else():
            m.d.sync += [
                left.eq(left + self.length - cycle),
                self.line.eq(bits[0]),
                bits.eq(Cat(bits[1:], 1)),
                count.eq(count - 1),
                free.eq(count == 1),
            ]
        return m
