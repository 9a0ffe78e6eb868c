"""Loading of programs from the records of packets into the memories."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component
from pinion.gateware.link.bus import WORD, result_beat
from pinion.processor import Machine
from pinion.processor.image import STORE_PLACE, Store, depths, record_words, widths


class Loader(Component):
    """Stage that writes a word for each record (:meth:`pinion.processor.image.Image.records`).

    Parameters
    ----------
    machine : parameters.

    Members
    -------
    i : stream of words of records.
    o : stream of ``result_beat(1)``: the first word of each record, once its word is stored.
    store, store_in, store_at, store_data : Out
        As of :class:`.processor.Processor`, and names.

    Throughput: a word every cycle, and two cycles more for a record.
    """

    def __init__(self, *, machine: Machine) -> None:
        self.size = record_words(machine)
        super().__init__(
            {
                "i": In(stream.Signature(WORD)),
                "o": Out(stream.Signature(result_beat(1))),
                "store": Out(1),
                "store_in": Out(Store),
                "store_at": Out(range(max(depths(machine).values()))),
                "store_data": Out(max(widths(machine).values())),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the registers that collect a record, and the state machine that stores it."""
        m = Module()
        first = Signal(WORD)
        data = Signal(WORD * (self.size - 1))
        place = Signal(range(self.size))
        m.d.comb += [
            self.store_in.eq(first[STORE_PLACE:]),
            self.store_at.eq(first),
            self.store_data.eq(data),
            *(self.o.p.data.eq(first), self.o.p.last.eq(1)),
        ]
        with m.FSM():
            with m.State("TAKE"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    m.d.sync += place.eq(place + 1)
                    with m.If(place == 0):
                        m.d.sync += first.eq(self.i.payload)
                    with m.Else():
                        m.d.sync += data.eq(Cat(data[WORD:], self.i.payload))
                    with m.If(place == self.size - 1):
                        m.d.sync += place.eq(0)
                        m.next = "STORE"
            with m.State("STORE"):
                m.d.comb += self.store.eq(1)
                m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "TAKE"
        return m
