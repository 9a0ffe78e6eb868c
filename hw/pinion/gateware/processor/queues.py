"""Queues of a team: words of requests before it, and words of results behind it."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from pinion.gateware.collisions import unchecked
from pinion.gateware.component import Component
from pinion.processor import Machine

WAITING = 4
"""Samples of a team that may wait to be computed, and samples whose results may wait to be sent."""


class RequestQueue(Component):
    """Converted words of requests, and the samples that have all of theirs.

    Parameters
    ----------
    machine : parameters.
    width : bits that describe a sample.

    Members
    -------
    begins : In(1); full : Out(1)
        A record begins to come, which reserves a place; no more places.
    accepted : In(1); room : Out(1)
        A word is on its way, for which there is room.
    word, valid, last, sample : In
        A converted word; with the last one of a record its sample.
    waits, first : Out
        There is a sample with all its words; its description.
    start, inputs : In
        The first sample begins; its number of words.
    input : Out
        Word k of the sample that has begun, k + 4 cycles after its start.
    holds : Out(1)
        There are records that have not begun.
    """

    def __init__(self, *, machine: Machine, width: int) -> None:
        self.machine = machine
        word = signed(machine.word)
        super().__init__(
            {
                **dict.fromkeys(("begins", "accepted", "valid", "last", "start"), In(1)),
                **dict.fromkeys(("full", "waits", "holds"), Out(1)),
                "room": Out(1, init=1),
                "word": In(word),
                "sample": In(width),
                "first": Out(width),
                "inputs": In(range(machine.inputs + 1)),
                "input": Out(word),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the memory of words, the queue of samples, and their counters."""
        m = Module()
        depth = self.machine.inputs
        m.submodules.samples = samples = SyncFIFOBuffered(width=len(self.sample), depth=WAITING)
        m.d.comb += [
            samples.w_en.eq(self.last),
            samples.w_data.eq(self.sample),
            samples.r_en.eq(self.start),
            *(self.waits.eq(samples.r_rdy), self.first.eq(samples.r_data)),
        ]
        m.submodules.words = memory = Memory(shape=self.word.shape(), depth=depth, init=[])
        write, read = memory.write_port(), unchecked(memory.read_port())
        head, tail, rest = Signal(range(depth)), Signal(range(depth)), Signal.like(self.inputs)
        m.d.comb += [
            *(write.addr.eq(head), write.data.eq(self.word), write.en.eq(self.valid)),
            *(read.addr.eq(tail), read.en.eq(1)),
        ]
        leaves, late = rest != 0, Signal.like(self.input)
        m.d.sync += [
            head.eq(head + self.valid),
            tail.eq(tail + leaves),
            *(late.eq(read.data), self.input.eq(late)),
            rest.eq(Mux(self.start, self.inputs, rest - leaves)),
        ]
        # A word of the memory and a place in the queue are reserved for what comes.
        room, ahead = Signal(range(depth + 1), init=depth), Signal(range(WAITING + 1))
        m.d.sync += [
            room.eq(room - self.accepted + leaves),
            # Whether it will not be 0: behind a register, because much depends on it.
            self.room.eq((room > 1) | leaves | ((room == 1) & ~self.accepted)),
            ahead.eq(ahead + self.begins - self.start),
        ]
        m.d.comb += [
            self.full.eq(ahead == WAITING),
            self.holds.eq(ahead != 0),
        ]
        return m


class ResultQueue(Component):
    """Store that brings the results of a record into their order, and queue of finished samples.

    Parameters
    ----------
    machine : parameters.
    width : bits that describe a finished sample.

    Members
    -------
    start, results : In; free : Out
        A sample begins, and reserves this number of words; the number of free words.
    output, place, word : In
        A result word, at its place in the record.
    finished, size, sample : In
        A sample ends; its number of results, and its description.
    waits, first : Out
        There is a finished sample; its description.
    issue, ends : In
        A word is taken from the store; it is the last one of the first finished sample.
    oldest : Out
        The word that was at the front of the store in the cycle before.
    holds : Out(1)
        Words are reserved or stored.
    """

    def __init__(self, *, machine: Machine, width: int) -> None:
        self.machine = machine
        word, number = signed(machine.word), range(machine.results + 1)
        super().__init__(
            {
                **dict.fromkeys(("start", "output", "finished", "issue", "ends"), In(1)),
                **dict.fromkeys(("waits", "holds"), Out(1)),
                **dict.fromkeys(("results", "size"), In(number)),
                "free": Out(number),
                "place": In(range(machine.results)),
                "word": In(word),
                "sample": In(width),
                "first": Out(width),
                "oldest": Out(word),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the store, the queue, and their counters."""
        m = Module()
        depth = self.machine.results
        m.submodules.store = memory = Memory(shape=self.word.shape(), depth=depth, init=[])
        write, read = memory.write_port(), unchecked(memory.read_port())
        head, tail = Signal(range(depth)), Signal(range(depth))
        m.d.comb += [
            *(write.addr.eq(head + self.place), write.data.eq(self.word)),
            write.en.eq(self.output),
            *(read.addr.eq(tail), read.en.eq(1), self.oldest.eq(read.data)),
        ]
        with m.If(self.finished):
            m.d.sync += head.eq(head + self.size)
        m.d.sync += tail.eq(tail + self.issue)
        m.submodules.samples = samples = SyncFIFOBuffered(width=len(self.sample), depth=WAITING)
        m.d.comb += [
            *(samples.w_en.eq(self.finished), samples.w_data.eq(self.sample)),
            *(self.waits.eq(samples.r_rdy), self.first.eq(samples.r_data)),
            samples.r_en.eq(self.ends),
        ]
        # Words of the store and a place in the queue are reserved when a sample begins.
        used, waiting = Signal(range(depth + 1)), Signal(range(WAITING + 2))
        m.d.sync += [
            used.eq(used + Mux(self.start, self.results, 0) - self.issue),
            waiting.eq(waiting + self.start - self.ends),
        ]
        m.d.comb += [
            self.free.eq(Mux(waiting < WAITING, depth - used, 0)),
            self.holds.eq(used != 0),
        ]
        return m
