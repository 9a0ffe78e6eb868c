"""AXI4-Lite registers, generated from their table."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Cat, Module, Signal, Value, ValueLike
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component
from pinion.link import REGISTERS, Register
from pinion.link.registers import SPACE

WORD = 32
BYTES = WORD // 8
STEP = 2
"""Bits of a counter's input, its increment in a cycle."""

_LOW, _HIGH = "_LOW", "_HIGH"

AXI_LITE = {
    "awaddr": In(WORD),
    "awprot": In(3),
    "awvalid": In(1),
    "awready": Out(1),
    "wdata": In(WORD),
    "wstrb": In(BYTES),
    "wvalid": In(1),
    "wready": Out(1),
    "bresp": Out(2),
    "bvalid": Out(1),
    "bready": In(1),
    "araddr": In(WORD),
    "arprot": In(3),
    "arvalid": In(1),
    "arready": Out(1),
    "rdata": Out(WORD),
    "rresp": Out(2),
    "rvalid": Out(1),
    "rready": In(1),
}
"""Members of an AXI4-Lite slave."""


def counter_names(rows: tuple[Register, ...] = REGISTERS) -> tuple[str, ...]:
    """Return the lower-case names of the counters; a pair of registers is one counter."""
    names = [row.name.removesuffix(_LOW).lower() for row in rows if row.kind == "counter"]
    return tuple(name for name in names if not name.endswith(_HIGH.lower()))


class RegisterBlock(Component):
    """AXI4-Lite slave with all rows of `pinion.link.REGISTERS`.

    It handles one write and one read at a time, independently. Address and data of a write may
    arrive in any order. Every response is OKAY; offsets without a register read as zero and ignore
    writes. Address bits above the decoded space and the two lowest are ignored.

    Parameters
    ----------
    constants : value of each register of kind ``constant``, by name.
    writable : writable bits of each register of kind ``control``; its others read as zero.

    Members
    -------
    awaddr ... rready : AXI4-Lite with 32 bits (`AXI_LITE`).
    for each register of kind ``state``, its name in lower case : In(32)
    for each counter, its name in lower case without ``_low`` : In(2)
        Increment, which is added a cycle later.
    for each register of kind ``control``, its name in lower case : Out(32)

    Latency: 2 cycles from a read's address to its data; 2 from the later of a write's address and
    data to its response, 1 to the register's output.
    Throughput: one read every 3 cycles, one write every 3 cycles.
    """

    def __init__(self, *, constants: Mapping[str, int], writable: Mapping[str, int]) -> None:
        self.constants = dict(constants)
        self.writable = dict(writable)
        for kind, values in (("constant", self.constants), ("control", self.writable)):
            names = {row.name for row in REGISTERS if row.kind == kind}
            if names != values.keys():
                raise ValueError(
                    f"Give values for all {kind} registers and no others; missing or unknown: "
                    f"{', '.join(sorted(names ^ values.keys()))}."
                )
        rows = {"state": In(WORD), "control": Out(WORD)}
        super().__init__(
            AXI_LITE
            | {row.name.lower(): rows[row.kind] for row in REGISTERS if row.kind in rows}
            | {name: In(STEP) for name in counter_names()}
        )

    def elaborate(self, platform: object) -> Module:
        """Build the counters, the read side and the write side."""
        m = Module()
        self._read(m)
        self._write(m)
        return m

    def _values(self, m: Module) -> tuple[dict[str, ValueLike], dict[str, tuple[Signal, Value]]]:
        """Return each register's value by name, and the latches of pairs.

        A read of a pair's low word latches the high word: by the low word's name, the register that
        latches it, and its value.
        """
        highs: dict[str, tuple[Signal, Value]] = {}
        values: dict[str, ValueLike] = dict(self.constants)
        wide = {row.name.removesuffix(_HIGH) for row in REGISTERS if row.name.endswith(_HIGH)}
        for name in counter_names():
            upper = name.upper()
            # Increments come from far away, and 64 bits are a long carry: both are registered.
            step, carry = Signal(STEP, name=f"{name}_step"), Signal(name=f"{name}_carry")
            low = Signal(WORD, name=f"{name}_count")
            m.d.sync += [step.eq(getattr(self, name)), Cat(low, carry).eq(low + step)]
            if upper in wide:
                high = Signal(WORD, name=f"{name}_high")
                m.d.sync += high.eq(high + carry)
                values[upper + _LOW] = low
                latched = Signal(WORD, name=f"{name}_kept")
                values[upper + _HIGH] = latched
                highs[upper + _LOW] = latched, high + carry
            else:
                values[upper] = low
        for row in REGISTERS:
            if row.kind in ("state", "control"):
                values[row.name] = getattr(self, row.name.lower())
        return values, highs

    def _read(self, m: Module) -> None:
        values, highs = self._values(m)
        address = Signal(range(SPACE // BYTES), name="read_address")
        reading = Signal(name="asked")
        m.d.comb += [self.arready.eq(~reading & ~self.rvalid), self.rresp.eq(0)]
        with m.If(self.arvalid & self.arready):
            m.d.sync += [reading.eq(1), address.eq(_place(self.araddr))]
        with m.If(self.rvalid & self.rready):
            m.d.sync += self.rvalid.eq(0)
        with m.If(reading):
            m.d.sync += [reading.eq(0), self.rvalid.eq(1), self.rdata.eq(0)]
            with m.Switch(address):
                for row in REGISTERS:
                    with m.Case(row.offset // BYTES):
                        m.d.sync += self.rdata.eq(values[row.name])
                        if row.name in highs:
                            latched, high = highs[row.name]
                            m.d.sync += latched.eq(high)

    def _write(self, m: Module) -> None:
        address = Signal(range(SPACE // BYTES), name="write_address")
        data, strobe = (Signal(n, name=name) for n, name in ((WORD, "data"), (BYTES, "strobe")))
        has_address, has_data = (Signal(name=n) for n in ("has_address", "has_data"))
        m.d.comb += [
            self.awready.eq(~has_address & ~self.bvalid),
            self.wready.eq(~has_data & ~self.bvalid),
            self.bresp.eq(0),
        ]
        with m.If(self.awvalid & self.awready):
            m.d.sync += [has_address.eq(1), address.eq(_place(self.awaddr))]
        with m.If(self.wvalid & self.wready):
            m.d.sync += [has_data.eq(1), data.eq(self.wdata), strobe.eq(self.wstrb)]
        with m.If(self.bvalid & self.bready):
            m.d.sync += self.bvalid.eq(0)
        with m.If(has_address & has_data):
            m.d.sync += [has_address.eq(0), has_data.eq(0), self.bvalid.eq(1)]
            with m.Switch(address):
                for row in REGISTERS:
                    if row.kind != "control":
                        continue
                    with m.Case(row.offset // BYTES):
                        for bit in range(WORD):
                            if self.writable[row.name] >> bit & 1:
                                with m.If(strobe[bit // 8]):
                                    target = getattr(self, row.name.lower())
                                    m.d.sync += target[bit].eq(data[bit])


def _place(address: Value) -> Value:
    """Return the number of the register at an address."""
    return (address % SPACE) // BYTES
