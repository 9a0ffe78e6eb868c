"""CRC-32 of beats, as in zlib."""

from __future__ import annotations

from zlib import crc32

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component

WIDTH = 32


class Checksum(Component):
    """CRC-32 (:func:`zlib.crc32`) of the beats so far, at one beat per cycle.

    A CRC over beats is affine over GF(2): each of its bits is the parity of certain bits of the
    beat and of the previous CRC. Calls of zlib determine these, one bit at a time.
    `amaranth.lib.crc` computes the same by chains of two-input gates, which at 512 bits take three
    times as long to elaborate as the rest of the top.

    Parameters
    ----------
    bits : of a beat, a multiple of 8.

    Members
    -------
    start : In(1)
        Discard the beats so far; with ``valid``, this beat is the first.
    data : In(bits)
    valid : In(1)
        Accept the beat.
    crc : Out(32)

    Latency: 1 cycle from a beat to the checksum that includes it, followed by three levels of
    logic.
    Throughput: one beat every cycle.
    """

    def __init__(self, *, bits: int) -> None:
        if bits < 8 or bits % 8:
            raise ValueError(
                f"The width of a beat must be a positive multiple of 8 bits, not {bits}."
            )
        self.bits = bits
        super().__init__(
            {"start": In(1), "data": In(bits), "valid": In(1), "crc": Out(WIDTH)},
        )

    def elaborate(self, platform: object) -> Module:
        """Build the register of the beat's part, and its combination with the previous checksum."""
        m = Module()
        size = self.bits // 8
        zero = crc32(bytes(size))
        by_data = [crc32((1 << k).to_bytes(size, "little")) ^ zero for k in range(self.bits)]
        by_crc = [crc32(bytes(size), 1 << k) ^ zero for k in range(WIDTH)]
        part, arrived, fresh = Signal(WIDTH, reset_less=True), Signal(), Signal()
        register, before = Signal(WIDTH), Signal(WIDTH)
        # Each bit depends on half of the beat's bits: their parity takes a cycle.
        with m.If(self.valid):
            m.d.sync += part.eq(_parities(self.data, by_data) ^ zero)
        m.d.sync += [arrived.eq(self.valid), fresh.eq(self.start), register.eq(self.crc)]
        with m.If(self.start & ~self.valid):
            m.d.sync += register.eq(0)
        m.d.comb += before.eq(Mux(fresh, 0, register))
        m.d.comb += self.crc.eq(Mux(arrived, _parities(before, by_crc) ^ part, register))
        return m


def _parities(bits: Signal, masks: list[int]) -> Cat:
    """Return, for each bit of a checksum, the parity of the bits whose masks contain it."""
    return Cat(
        Cat(bits[k] for k, mask in enumerate(masks) if mask >> place & 1).xor()
        for place in range(WIDTH)
    )
