"""Directory of the resident programs: names, looked up by the hash in a packet's header."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component
from pinion.processor import Machine
from pinion.processor.encoding import width_of
from pinion.processor.image import LOADER, NAME, RESULT_WORDS, record_words

from .team import fields_of


class Directory(Component):
    """Memory of the names of programs (:data:`pinion.processor.image.NAME`).

    The digest of the machine is the name of the function that loads programs. A reset keeps the
    names, as it keeps the memories of the programs.

    Parameters
    ----------
    machine : parameters.

    Members
    -------
    write, at, data : In
        Store a name: its program is resident from now on.
    clear : In(1)
        No program is resident any more.
    build, asked : In
        A hash to look up; both stay until it is ``answered``.
    answered : Out(1)
        For one cycle, in which the following are valid.
    resident, loads : Out(1)
        There is such a program; it is the function that loads programs.
    number, function, words_in, words_out : Out
        Of the program.

    Latency: at most the number of functions and 2 cycles.
    """

    def __init__(self, *, machine: Machine) -> None:
        self.machine = machine
        super().__init__(
            {
                "write": In(1),
                "at": In(range(machine.functions)),
                "data": In(width_of(NAME)),
                "clear": In(1),
                "build": In(NAME["build"].width),
                "asked": In(1),
                "answered": Out(1),
                "resident": Out(1),
                "loads": Out(1),
                "number": Out(range(machine.functions)),
                **{name: Out(NAME[name].width) for name in ("function", "words_in", "words_out")},
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the memory, and the search for a name, one per cycle."""
        m = Module()
        functions = self.machine.functions
        memory = Memory(shape=len(self.data), depth=functions, init=[])
        m.submodules.names = memory
        write, read = memory.write_port(), memory.read_port()
        valid = Signal(functions, reset_less=True)
        m.d.comb += [
            *(write.addr.eq(self.at), write.data.eq(self.data), write.en.eq(self.write)),
            read.en.eq(1),
        ]
        with m.If(self.clear):
            m.d.sync += valid.eq(0)
        with m.Elif(self.write):
            m.d.sync += valid.bit_select(self.at, 1).eq(1)

        place = Signal(range(functions))
        name = fields_of(read.data, NAME)
        loads = self.build == self.machine.digest
        matches = valid.bit_select(place, 1) & (name["build"] == self.build)
        last = place == functions - 1
        with m.FSM():
            with m.State("REST"), m.If(self.asked):
                m.d.comb += read.addr.eq(0)
                m.d.sync += place.eq(0)
                m.next = "SEARCH"
            with m.State("SEARCH"):
                m.d.comb += read.addr.eq(place + 1)
                m.d.sync += [
                    *(self.loads.eq(loads), self.resident.eq(matches | loads)),
                    *(self.number.eq(place), self.function.eq(name["function"])),
                    *(self.words_in.eq(name["words_in"]), self.words_out.eq(name["words_out"])),
                    place.eq(place + 1),
                ]
                with m.If(loads):
                    m.d.sync += [
                        self.function.eq(LOADER),
                        self.words_in.eq(record_words(self.machine)),
                        self.words_out.eq(RESULT_WORDS),
                    ]
                with m.If(loads | matches | last):
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += self.answered.eq(1)
                m.next = "REST"
        return m
