"""A team with programs for several functions, between streams of single-precision words."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
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

    Words of requests are converted and wait, while samples before them are computed. A sample
    begins when its function's constants are in the lanes, all its words have come, and the result
    store has room for its whole record; no program ever waits. Results leave in the order of the
    requests, each record's words in theirs.

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
        Results, a float32 word a beat. With the last word of a record its flag: a value overflowed
        its format, or an input did or was not a number.
    started : Out(1)
        A sample has its inputs and room for its results, and begins.
    busy : Out(1)
        A sample has begun to be loaded, and its results have not been handed over.

    Latency: the inputs (and the constants, if the function changes) at a word a cycle, the rows of
    the program, and about twenty stages of registers.
    Throughput: one sample in the rows of its program and `pinion.processor.machine.OVERHEAD`.
    """

    def __init__(self, *, machine: Machine) -> None:
        self.machine = machine
        self.encoding = Encoding(machine=machine)
        low, high = EDGE_FRACS
        fmt = Format(machine.word, low)
        self.to_fixed = FloatToFixed(target=fmt, moves=high - low)
        self.to_float = FixedToFloat(source=fmt, moves=high - low)
        for name in ("inputs", "results"):
            if (depth := getattr(machine, name)) & (depth - 1):
                raise ValueError(
                    f"The memory of {name} has {depth} words, which is not a power of two."
                )
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
        """Build the memories, the input path, the team, and the output path."""
        m = Module()
        m.submodules.team = team = Team(encoding=self.encoding, rows=self.machine.rows)
        m.d.comb += [
            team.program_write.eq(self.store & (self.store_in == Store.ROWS)),
            team.program_row.eq(self.store_at),
            team.program_data.eq(self.store_data),
        ]
        looks, next_entry = self._memory(m, Store.DIRECTORY, 2)
        # Entries of the sample that is computed and of the one that waits for it.
        coming, current = (Signal.like(next_entry[1], name=n) for n in ("coming", "current"))
        m.d.sync += coming.eq(next_entry[1])
        with m.If(team.start):
            m.d.sync += current.eq(coming)
        first, entry = (fields_of(word, self.encoding.entry) for word in (coming, current))
        m.d.comb += [
            team.first_row.eq(first["first_row"]),
            team.last_row.eq(entry["last_row"]),
            self.started.eq(team.start),
        ]
        waits, sample, input_word, holds = self._way_in(m, looks, team.start, first["inputs"])
        function, lost = Signal.like(self.i_function), Signal()
        m.d.comb += [
            Cat(function, lost).eq(sample),
            next_entry[0].eq(function),
            team.input.eq(input_word),
        ]
        # An entry is there two cycles after its function.
        looked_up = Signal(2, name="known")
        m.d.sync += looked_up.eq(Mux(waits & ~team.start, Cat(Const(1, 1), looked_up[0]), 0))
        free = Signal(range(self.machine.results + 1))
        finished, works = self._runs(m, team, function, first, looked_up[1], free)
        flag = Signal()
        with m.If(team.start):
            m.d.sync += flag.eq(lost)
        sends = self._way_out(
            m,
            team,
            finished,
            Cat(team.flag | flag, entry["results"], entry["first_result"]),
            Mux(team.start, first["results"], 0),
            free,
        )
        m.d.comb += self.busy.eq(holds | works | sends)
        return m

    def _memory(self, m: Module, store: Store, readers: int = 1) -> list[tuple[Value, Value]]:
        """Build a memory that the host writes; return the address and data of each read port."""
        depth = depths(self.machine)[store]
        memory = Memory(shape=self._widths[store], depth=depth, init=[])
        m.submodules[store.name.lower()] = memory
        write = memory.write_port()
        m.d.comb += [
            write.addr.eq(self.store_at),
            write.data.eq(self.store_data),
            write.en.eq(self.store & (self.store_in == store)),
        ]
        ports = [memory.read_port() for _ in range(readers)]
        m.d.comb += [port.en.eq(1) for port in ports]
        return [(port.addr, port.data) for port in ports]

    def _way_in(
        self, m: Module, entry: tuple[Value, Value], starts: Value, inputs: Value
    ) -> tuple[Value, Value, Value, Value]:
        """Build the input path, which converts request words and stores them by sample.

        Parameters
        ----------
        entry : address and data of the directory.
        starts, inputs : a sample begins in this cycle; the number of its words.

        Returns
        -------
        Whether a sample has all its words; its function, and whether one of them did not fit; the
        words of the one that has begun, the k-th k + 3 cycles later; and whether there are any
        that have not begun.
        """
        depth = self.machine.inputs
        ((at, move),) = self._memory(m, Store.INPUTS)
        function, place = Signal.like(self.i_function), Signal.like(at)
        fields = fields_of(entry[1], self.encoding.entry)
        left = Signal.like(fields["inputs"])
        m.d.comb += [entry[0].eq(self.i_function), at.eq(place)]

        # A point is read in one cycle and registered in the next, because block RAM is late in its
        # cycle. Then the word is converted.
        comes, ends, arrived = Signal(), Signal(), Signal(32)
        word, its_move = Signal(32), Signal.like(move)
        m.d.sync += [
            *(comes.eq(0), ends.eq(0), arrived.eq(self.i_word)),
            *(word.eq(arrived), its_move.eq(move)),
        ]
        m.submodules.to_fixed = self.to_fixed
        m.d.comb += [self.to_fixed.i.eq(word), self.to_fixed.move.eq(its_move)]
        steps = 1 + self.to_fixed.latency
        valid, last = _marks(m, comes, steps, "converted"), _marks(m, ends, steps, "last")
        lost = Signal()
        sample = Cat(delay(m, function, steps, "of"), lost | self.to_fixed.flag)
        with m.If(valid):
            m.d.sync += lost.eq(~last & (lost | self.to_fixed.flag))
        m.submodules.samples = samples = SyncFIFOBuffered(width=len(sample), depth=WAITING)
        m.d.comb += [
            samples.w_en.eq(last),
            samples.w_data.eq(sample),
            samples.r_en.eq(starts),
        ]

        m.submodules.waiting = memory = Memory(
            shape=signed(self.machine.word), depth=depth, init=[]
        )
        write, read = memory.write_port(), memory.read_port()
        head, tail, rest = Signal(range(depth)), Signal(range(depth)), Signal.like(left)
        m.d.comb += [
            write.addr.eq(head),
            write.data.eq(self.to_fixed.o),
            write.en.eq(valid),
            *(read.addr.eq(tail), read.en.eq(1)),
        ]
        leaves, input_word = rest != 0, Signal(signed(self.machine.word))
        m.d.sync += [head.eq(head + valid), tail.eq(tail + leaves), input_word.eq(read.data)]
        m.d.sync += rest.eq(Mux(starts, inputs, rest - leaves))

        # A word of the memory and a place in the queue are reserved for what comes.
        room, ahead = Signal(range(depth + 1), init=depth), Signal(range(WAITING + 1))
        begins, accepted = Signal(), self.i_valid & self.i_ready
        m.d.sync += [room.eq(room - accepted + leaves), ahead.eq(ahead + begins - starts)]
        with m.FSM():
            with m.State("REST"):
                m.d.sync += function.eq(self.i_function)
                with m.If(self.i_valid & (ahead != WAITING)):
                    m.d.comb += begins.eq(1)
                    m.next = "LOOK"
            with m.State("LOOK"):
                m.d.sync += [place.eq(fields["first_input"]), left.eq(fields["inputs"])]
                m.next = "TAKE"
            with m.State("TAKE"):
                m.d.comb += self.i_ready.eq(room != 0)
                with m.If(accepted):
                    m.d.sync += [
                        *(comes.eq(1), ends.eq(left == 1)),
                        *(place.eq(place + 1), left.eq(left - 1)),
                    ]
                    with m.If(left == 1):
                        m.next = "REST"
        return samples.r_rdy, samples.r_data, input_word, ahead != 0

    def _runs(
        self,
        m: Module,
        team: Team,
        function: Value,
        entry: dict[str, Value],
        looked_up: Value,
        free: Value,
    ) -> tuple[Value, Value]:
        """Build the logic that loads the constants of a function and starts the team.

        Parameters
        ----------
        function, entry, looked_up : of the sample that waits; whether there is one.
        free : words of the result store.

        Returns
        -------
        Whether a sample ends in this cycle, and whether the team is in use.
        """
        ((at, constant),) = self._memory(m, Store.CONSTANTS)
        place, left = Signal.like(at), Signal.like(entry["constants"])
        reads, record = Signal(), Signal.like(constant)
        resident, settled, finished = Signal.like(function), Signal(), Signal()
        fields = fields_of(record, self.encoding.constant)
        m.d.sync += record.eq(constant)
        m.d.comb += [
            at.eq(place),
            team.load.eq(Mux(_marks(m, reads, 2, "read"), fields["lanes"], 0)),
            team.load_to.eq(fields["to"]),
            team.load_word.eq(fields["word"]),
        ]
        same = settled & (resident == function)
        # Registered, because the room is late; it only grows until the next sample begins.
        begins = Signal()
        m.d.sync += begins.eq(looked_up & same & (free >= entry["results"]) & ~team.start)
        with m.FSM() as states:
            with m.State("REST"):
                with m.If(begins):
                    m.d.comb += team.start.eq(1)
                    m.next = "RUN"
                with m.Elif(looked_up & ~same):
                    m.d.sync += [place.eq(entry["first_constant"]), left.eq(entry["constants"])]
                    m.next = "LOAD"
            with m.State("LOAD"):
                m.d.comb += reads.eq(left != 0)
                m.d.sync += [place.eq(place + 1), left.eq(left - 1)]
                with m.If(left == 0):
                    # The first row reads the lanes three cycles after the start.
                    m.d.sync += [resident.eq(function), settled.eq(1)]
                    m.next = "REST"
            with m.State("RUN"), m.If(~team.busy):
                m.d.comb += [finished.eq(1), team.start.eq(begins)]
                with m.If(~begins):
                    m.next = "REST"
        # A program that is written is another one, even under the same number.
        with m.If(self.store):
            m.d.sync += settled.eq(0)
        return finished, ~states.ongoing("REST")

    def _way_out(
        self,
        m: Module,
        team: Team,
        finished: Value,
        sample: Value,
        begins: Value,
        free: Signal,
    ) -> Value:
        """Build the result store, which reorders results, and the converter.

        Parameters
        ----------
        finished, sample : a sample ends in this cycle; its flag, number of words, and where their
            points are.
        begins : words of the sample that begins in this cycle, or 0.
        free : words of the store, to be driven.

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
        number = self.encoding.entry["results"].width
        with m.If(finished):
            m.d.sync += head.eq(head + sample[1 : 1 + number])

        # Samples whose results can be sent.
        m.submodules.finished = queue = SyncFIFOBuffered(width=len(sample), depth=WAITING)
        m.d.comb += [queue.w_en.eq(finished), queue.w_data.eq(sample)]
        flag, count = queue.r_data[0], queue.r_data[1 : 1 + number]
        first = queue.r_data[1 + number :]
        place = Signal.like(count)
        ((moves_at, moves),) = self._memory(m, Store.RESULTS)
        m.d.comb += moves_at.eq(first + place)

        m.submodules.sent = sent = SyncFIFOBuffered(width=34, depth=SENT)
        room = Signal(range(SENT + 1), init=SENT)
        # Whether a word is the last of its record is known a cycle before it is issued.
        issue, ends, opened, last = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            issue.eq(opened & (room != 0)),
            ends.eq(issue & last),
            queue.r_en.eq(ends),
        ]
        m.d.sync += [
            opened.eq(queue.r_rdy & ~ends),
            last.eq(place + Mux(issue, 2, 1) == count),
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
        used = Signal(range(depth + 1))
        waiting = Signal(range(WAITING + 2))
        m.d.sync += [
            used.eq(used + begins - issue),
            waiting.eq(waiting + team.start - ends),
        ]
        m.d.comb += free.eq(Mux(waiting < WAITING, depth - used, 0))
        return (used != 0) | (room != SENT)


def _marks(m: Module, mark: Value, cycles: int, name: str) -> Value:
    """Delay a one-bit mark by `cycles` registers that a reset clears."""
    for k in range(cycles):
        register = Signal(name=f"{name}{k + 1}")
        m.d.sync += register.eq(mark)
        mark = register
    return mark
