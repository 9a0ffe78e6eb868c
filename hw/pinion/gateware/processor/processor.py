"""A team between streams of single precision, with programs for several functions."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from pinion.fixedpoint import Format
from pinion.gateware.component import Component
from pinion.gateware.float32 import FixedToFloat, FloatToFixed
from pinion.gateware.unit import delay
from pinion.processor import Machine
from pinion.processor.encoding import Encoding
from pinion.processor.image import Store, depths, widths
from pinion.processor.machine import EDGE_FRACS

from .team import Team, fields_of

WAITING = 4
"""Samples whose results may wait to be sent."""

SENT = 16
"""Words that may wait behind the converter."""


class Processor(Component):
    """Memories of programs, a team, and converters from and to single precision.

    A sample begins when its function's constants are in the lanes, its inputs have come, and the
    result store has room for its whole record; no program ever waits. Results leave in the order
    of the requests, each record's words in theirs.

    Parameters
    ----------
    machine : its parameters.

    Members
    -------
    store, store_in, store_at, store_data : In
        Write a word of a memory (:class:`pinion.processor.image.Store`). What a sample that is
        computed or sent reads must not be written.
    i_word, i_function, i_valid : In; i_ready : Out
        Requests, a float32 word a beat, each word with the number of the record's function.
    o_word, o_last, o_flag, o_valid : Out; o_ready : In
        Results, a float32 word a beat. With the last word of a record its flag: a value left its
        format, or an input did or was not a number.
    started : Out(1)
        A sample has its inputs and room for its results, and begins.
    busy : Out(1)
        A sample has begun to be loaded, and its results have not been handed over.

    Latency: the inputs (and the constants, if the function changes) at a word a cycle, the cycles
    of the program, and `pinion.processor.machine.OVERHEAD`.
    Throughput: one sample in that time.
    """

    def __init__(self, *, machine: Machine) -> None:
        self.machine = machine
        self.encoding = Encoding(machine=machine)
        low, high = EDGE_FRACS
        fmt = Format(machine.word, low)
        self.to_fixed = FloatToFixed(target=fmt, moves=high - low)
        self.to_float = FixedToFloat(source=fmt, moves=high - low)
        if machine.results & (machine.results - 1):
            raise ValueError(f"The store of results has {machine.results} words, no power of two.")
        self._widths = widths(machine)
        super().__init__(
            {
                "store": In(1),
                "store_in": In(Store),
                "store_at": In(range(max(depths(machine).values()))),
                "store_data": In(max(self._widths.values())),
                "i_word": In(32),
                "i_function": In(range(machine.functions)),
                "i_valid": In(1),
                "i_ready": Out(1),
                "o_word": Out(32),
                "o_last": Out(1),
                "o_flag": Out(1),
                "o_valid": Out(1),
                "o_ready": In(1),
                "started": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build memories, the way in, the team, and the way out."""
        m = Module()
        m.submodules.team = team = Team(encoding=self.encoding, rows=self.machine.rows)
        m.d.comb += [
            team.program_write.eq(self.store & (self.store_in == Store.ROWS)),
            team.program_row.eq(self.store_at),
            team.program_data.eq(self.store_data),
        ]
        rests = Signal()
        finished, entry, free, lost = self._way_in(m, team, rests)
        waits = self._way_out(m, team, finished, entry, free, lost)
        m.d.comb += self.busy.eq(~rests | waits)
        return m

    def _memory(self, m: Module, store: Store) -> tuple[Value, Value]:
        """Return address and data of a memory that the host writes."""
        depth = depths(self.machine)[store]
        memory = Memory(shape=self._widths[store], depth=depth, init=[])
        m.submodules[store.name.lower()] = memory
        write, read = memory.write_port(), memory.read_port()
        m.d.comb += [
            write.addr.eq(self.store_at),
            write.data.eq(self.store_data),
            write.en.eq(self.store & (self.store_in == store)),
            read.en.eq(1),
        ]
        return read.addr, read.data

    def _way_in(
        self, m: Module, team: Team, rests: Signal
    ) -> tuple[Value, dict[str, Value], Signal, Signal]:
        """Build the directory, the loads and the start of the team.

        Returns
        -------
        Whether a sample is finished in this cycle, the entry of its function, the free words of the
        result store, which `_way_out` keeps, and whether an input did not fit.
        """
        encoding, machine = self.encoding, self.machine
        entry_at, entry_word = self._memory(m, Store.DIRECTORY)
        load_at, load = self._memory(m, Store.LOADS)
        current_word = Signal(len(entry_word))
        entry = fields_of(current_word, encoding.entry)
        function, resident, settled = (
            Signal.like(self.i_function),
            Signal.like(self.i_function),
            Signal(),
        )
        at, constants, inputs = (
            Signal(encoding.entry[name].width) for name in ("first_load", "constants", "inputs")
        )
        free, lost, finished = Signal(range(machine.results + 1)), Signal(), Signal()
        m.d.comb += [entry_at.eq(self.i_function), load_at.eq(at)]

        # A load is read in one cycle and registered in the next, because block RAM is late in its
        # cycle. Then its word is converted, and goes to the lanes when the converter is done, a
        # constant beside it.
        issued, is_constant, arrived = Signal(), Signal(), Signal(32)
        loads, loads_constant, word, record = Signal(), Signal(), Signal(32), Signal.like(load)
        m.d.sync += [
            *(issued.eq(0), arrived.eq(self.i_word)),
            *(loads.eq(issued), loads_constant.eq(is_constant)),
            *(word.eq(arrived), record.eq(load)),
        ]
        m.submodules.to_fixed = self.to_fixed
        fields = fields_of(record, encoding.load)
        m.d.comb += [
            self.to_fixed.i.eq(word),
            self.to_fixed.move.eq(fields["word"]),
        ]
        steps = self.to_fixed.latency
        valid = _marks(m, loads, steps, "loaded")
        constant, value, lanes, to = (
            delay(m, source, steps, name)
            for name, source in (
                ("constant", loads_constant),
                ("value", fields["word"]),
                ("lanes", fields["lanes"]),
                ("to", fields["to"]),
            )
        )
        m.d.comb += [
            team.load.eq(Mux(valid, lanes, 0)),
            team.load_to.eq(to),
            team.load_word.eq(Mux(constant, value.as_signed(), self.to_fixed.o)),
            team.first_row.eq(entry["first_row"]),
            team.last_row.eq(entry["last_row"]),
        ]
        with m.If(valid & ~constant & self.to_fixed.flag):
            m.d.sync += lost.eq(1)

        drain = Signal(range(steps + 2))
        with m.FSM() as states:
            with m.State("REST"):
                m.d.sync += function.eq(self.i_function)
                with m.If(self.i_valid):
                    m.next = "LOOK"
            with m.State("LOOK"):
                coming = fields_of(entry_word, encoding.entry)
                same = settled & (resident == function)
                m.d.sync += [
                    current_word.eq(entry_word),
                    at.eq(coming["first_load"] + Mux(same, coming["constants"], 0)),
                    constants.eq(Mux(same, 0, coming["constants"])),
                    inputs.eq(coming["inputs"]),
                    lost.eq(0),
                    drain.eq(steps + 1),
                    resident.eq(function),
                    settled.eq(1),
                ]
                m.next = "LOAD"
            with m.State("LOAD"):
                with m.If(constants != 0):
                    m.d.sync += [
                        *(issued.eq(1), is_constant.eq(1)),
                        *(at.eq(at + 1), constants.eq(constants - 1)),
                    ]
                with m.Elif(inputs != 0):
                    m.d.comb += self.i_ready.eq(1)
                    with m.If(self.i_valid):
                        m.d.sync += [
                            *(issued.eq(1), is_constant.eq(0)),
                            *(at.eq(at + 1), inputs.eq(inputs - 1)),
                        ]
                with m.Else():
                    m.d.sync += drain.eq(drain - 1)
                    with m.If(drain == 0):
                        m.next = "ROOM"
            with m.State("ROOM"), m.If(free >= entry["results"]):
                m.d.comb += [team.start.eq(1), self.started.eq(1)]
                m.next = "START"
            with m.State("START"):
                m.next = "RUN"
            with m.State("RUN"), m.If(~team.busy):
                m.d.comb += finished.eq(1)
                m.next = "REST"
        # A program that is written is another one, even under the same number.
        with m.If(self.store):
            m.d.sync += settled.eq(0)
        m.d.comb += rests.eq(states.ongoing("REST"))
        return finished, entry, free, lost

    def _way_out(
        self,
        m: Module,
        team: Team,
        finished: Value,
        entry: dict[str, Value],
        free: Signal,
        lost: Signal,
    ) -> Value:
        """Build the result store, which brings them into order, and the converter.

        Returns
        -------
        Whether results have not been handed over.
        """
        machine = self.machine
        depth = machine.results
        m.submodules.store = memory = Memory(shape=signed(machine.word), depth=depth, init=[])
        write, read = memory.write_port(), memory.read_port()
        head, tail = Signal(range(depth)), Signal(range(depth))
        m.d.comb += [
            write.addr.eq(head + team.output_place),
            write.data.eq(team.output_word),
            write.en.eq(team.output),
            *(read.addr.eq(tail), read.en.eq(1)),
        ]
        with m.If(finished):
            m.d.sync += head.eq(head + entry["results"])

        # Samples whose results can be sent: flag, number of words, and where their points are.
        sample = Cat(team.flag | lost, entry["results"], entry["first_result"])
        m.submodules.finished = queue = SyncFIFOBuffered(width=len(sample), depth=WAITING)
        m.d.comb += [queue.w_en.eq(finished), queue.w_data.eq(sample)]
        flag, count = queue.r_data[0], queue.r_data[1 : 1 + len(entry["results"])]
        first = queue.r_data[1 + len(count) :]
        place = Signal.like(count)
        moves_at, moves = self._memory(m, Store.RESULTS)
        m.d.comb += moves_at.eq(first + place)

        m.submodules.sent = sent = SyncFIFOBuffered(width=34, depth=SENT)
        room = Signal(range(SENT + 1), init=SENT)
        issue, ends = Signal(), Signal()
        m.d.comb += [
            issue.eq(queue.r_rdy & (room != 0)),
            ends.eq(issue & (place == count - 1)),
            queue.r_en.eq(ends),
        ]
        with m.If(issue):
            m.d.sync += [tail.eq(tail + 1), place.eq(Mux(ends, 0, place + 1))]
        # A register behind the memories, which are late in their cycle.
        stored, move = Signal(signed(machine.word)), Signal.like(moves)
        m.d.sync += [stored.eq(read.data), move.eq(moves)]
        steps = 2 + self.to_float.latency
        m.submodules.to_float = self.to_float
        m.d.comb += [
            self.to_float.i.eq(stored),
            self.to_float.move.eq(move),
            sent.w_en.eq(_marks(m, issue, steps, "sending")),
            sent.w_data.eq(Cat(self.to_float.o, delay(m, Cat(ends, flag & ends), steps, "end"))),
            self.o_valid.eq(sent.r_rdy),
            sent.r_en.eq(self.o_ready),
            Cat(self.o_word, self.o_last, self.o_flag).eq(sent.r_data),
        ]
        gone = sent.r_rdy & self.o_ready
        m.d.sync += room.eq(room - issue + gone)
        # Words of the store and a place in the queue are reserved when a sample begins.
        begins = Mux(team.start, entry["results"], 0)
        used = Signal(range(depth + 1))
        waiting = Signal(range(WAITING + 2))
        m.d.sync += [
            used.eq(used + begins - issue),
            waiting.eq(waiting + team.start - ends),
        ]
        m.d.comb += free.eq(Mux(waiting < WAITING, depth - used, 0))
        return (used != 0) | (room != SENT)


def _marks(m: Module, mark: Value, cycles: int, name: str) -> Value:
    """Delay a mark by registers that a reset clears, so that nothing outlives it."""
    for k in range(cycles):
        register = Signal(name=f"{name}{k + 1}")
        m.d.sync += register.eq(mark)
        mark = register
    return mark
