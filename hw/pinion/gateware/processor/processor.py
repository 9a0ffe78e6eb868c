"""Teams with programs for several functions, between streams of single-precision words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from pinion.fixedpoint import Format
from pinion.gateware.collisions import unchecked
from pinion.gateware.component import Component
from pinion.gateware.float32 import FixedToFloat, FloatToFixed
from pinion.gateware.unit import delay
from pinion.processor import Machine
from pinion.processor.encoding import Encoding
from pinion.processor.image import Store, depths, widths
from pinion.processor.machine import EDGE_FRACS

from .queues import RequestQueue, ResultQueue
from .sequencer import ProgramSequencer
from .team import Team, fields_of

SENT = 16
"""Words that may wait behind the converter."""


class Processor(Component):
    """Memories of programs, teams, and converters from and to single precision.

    The teams take the requests in turn: words are converted and wait in the queue of their team,
    while samples before them are computed. All teams run the same row at the same time, each on a
    different sample. A sample begins when its function's constants are in the lanes, all its words
    have come, and its team's result store has room for its whole record; those behind it that are
    ready and have the same function begin with it, one for each team. No program ever waits.
    Results leave in the order of the requests, each record's words in theirs.

    Parameters
    ----------
    machine : its parameters.
    teams : number of teams.

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
    taken : Out(1)
        The last word of a request is taken.
    busy : Out(1)
        A sample has begun to be loaded, and its results have not been handed over.

    Latency: the inputs (and the constants, if the function changes) at one word per cycle, the rows
    of the program, and about twenty stages of registers.
    Throughput: a sample of each team in the rows of its program and
    `pinion.processor.machine.OVERHEAD`; a word of requests and of results each cycle.
    """

    def __init__(self, *, machine: Machine, teams: int = 1) -> None:
        self.machine = machine
        self.teams = teams
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
                "taken": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the memories, the input path, the teams, and the output path."""
        m = Module()
        machine, encoding = self.machine, self.encoding
        m.submodules.sequencer = sequencer = ProgramSequencer(encoding=encoding, rows=machine.rows)
        start = Signal()
        looks, next_entry = self._memory(m, Store.DIRECTORY, 2)
        # Entries of the samples that wait, whose rows are read, and, a cycle later, executed.
        coming, current, ending = (
            Signal.like(next_entry[1], name=n) for n in ("coming", "current", "ending")
        )
        begun = Signal()
        m.d.sync += [coming.eq(next_entry[1]), begun.eq(start)]
        with m.If(start):
            m.d.sync += current.eq(coming)
        with m.If(begun):
            m.d.sync += ending.eq(current)
        first, entry, last = (fields_of(word, encoding.entry) for word in (coming, current, ending))
        m.d.comb += [
            sequencer.program_write.eq(self.store & (self.store_in == Store.ROWS)),
            sequencer.program_row.eq(self.store_at),
            sequencer.program_data.eq(self.store_data),
            sequencer.start.eq(start),
            sequencer.first_row.eq(first["first_row"]),
            sequencer.last_row.eq(entry["last_row"]),
        ]

        width = {"requests": len(self.i_function) + 1}
        width["results"] = 1 + len(Cat(entry["results"], entry["first_result"]))
        teams, requests, results = [], [], []
        for k in range(self.teams):
            teams.append(Team(encoding=encoding))
            requests.append(RequestQueue(machine=machine, width=width["requests"]))
            results.append(ResultQueue(machine=machine, width=width["results"]))
            m.submodules[f"team{k}"] = teams[k]
            m.submodules[f"requests{k}"] = requests[k]
            m.submodules[f"results{k}"] = results[k]
        self._way_in(m, looks, requests)

        # The sample that begins next is the first of the team whose turn it is.
        turn, members = Signal(self.teams, init=1), Signal(self.teams)
        function, waits = Signal.like(self.i_function), Signal()
        m.d.comb += [
            function.eq(_of(turn, (queue.first[:-1] for queue in requests))),
            waits.eq(_of(turn, (queue.waits for queue in requests))),
            next_entry[0].eq(function),
        ]
        # An entry is there two cycles after its function.
        looked_up = Signal(2, name="known")
        m.d.sync += looked_up.eq(Mux(waits & ~start, Cat(Const(1, 1), looked_up[0]), 0))
        is_known = looked_up[1]
        ready = [
            is_known
            & request.waits
            & (request.first[:-1] == function)
            & (result.free >= first["results"])
            for request, result in zip(requests, results, strict=True)
        ]
        group = _together(turn, ready)
        works, finished = self._runs(
            m, sequencer, teams, function, first, waits=is_known, group=group, start=start
        )
        m.d.sync += members.eq(group)
        with m.If(start):
            # The team behind the group, unless all teams are in it.
            m.d.sync += turn.eq(Mux(members.all(), turn, members.rotate_left(1) & ~members))

        # The last row is executed in the cycle after the sequencer has given it.
        ends = _marks(m, finished, 1, "ends")
        for k, (team, request, result) in enumerate(zip(teams, requests, results, strict=True)):
            begins, takes, flag = start & members[k], Signal(), Signal()
            began = delay(m, Cat(members[k], request.first[-1]), 1, f"began{k}")
            with m.If(begun):
                m.d.sync += Cat(takes, flag).eq(began)
            m.d.comb += [
                *(team.data.eq(sequencer.data), team.start.eq(begun)),
                *(request.start.eq(begins), request.inputs.eq(first["inputs"])),
                team.input.eq(request.input),
                *(result.start.eq(begins), result.results.eq(first["results"])),
                result.output.eq(team.output & takes),
                *(result.place.eq(team.output_place), result.word.eq(team.output_word)),
                *(result.finished.eq(ends & takes), result.size.eq(last["results"])),
                result.sample.eq(Cat(team.flag | flag, last["results"], last["first_result"])),
            ]
        sends = self._way_out(m, results)
        holds = Cat(queue.holds for queue in (*requests, *results)).any()
        m.d.comb += self.busy.eq(holds | works | sends)
        return m

    def _memory(self, m: Module, store: Store, readers: int = 1) -> list[tuple[Value, Value]]:
        """Build a memory that the host writes, and return address and data of its read ports."""
        depth = depths(self.machine)[store]
        memory = Memory(shape=self._widths[store], depth=depth, init=[])
        m.submodules[store.name.lower()] = memory
        write = memory.write_port()
        m.d.comb += [
            write.addr.eq(self.store_at),
            write.data.eq(self.store_data),
            write.en.eq(self.store & (self.store_in == store)),
        ]
        ports = [unchecked(memory.read_port()) for _ in range(readers)]
        m.d.comb += [port.en.eq(1) for port in ports]
        return [(port.addr, port.data) for port in ports]

    def _way_in(self, m: Module, entry: tuple[Value, Value], queues: list[RequestQueue]) -> None:
        """Build the input path, which converts request words and gives them to the teams in turn.

        Parameters
        ----------
        entry : address and data of the directory.
        queues : of the teams.
        """
        ((at, move),) = self._memory(m, Store.INPUTS)
        function, place = Signal.like(self.i_function), Signal.like(at)
        turn = Signal(self.teams, init=1)
        fields = fields_of(entry[1], self.encoding.entry)
        left = Signal.like(fields["inputs"])
        m.d.comb += [entry[0].eq(self.i_function), at.eq(place)]

        # A point is read in one cycle and registered in the next, because block RAM is late in its
        # cycle. Then the word is converted.
        comes, ends, arrived = Signal(), Signal(), Signal(32)
        word, its_move = Signal(32), Signal.like(move)
        whose, lost = Signal.like(turn), Signal()
        m.d.sync += [
            *(comes.eq(0), ends.eq(0), whose.eq(turn), arrived.eq(self.i_word)),
            *(word.eq(arrived), its_move.eq(move)),
        ]
        m.submodules.to_fixed = self.to_fixed
        m.d.comb += [self.to_fixed.i.eq(word), self.to_fixed.move.eq(its_move)]
        steps = 1 + self.to_fixed.latency
        valid, last = _marks(m, comes, steps, "converted"), _marks(m, ends, steps, "last")
        whose = delay(m, whose, steps, "whose")
        sample = Cat(delay(m, function, steps, "of"), lost | self.to_fixed.flag)
        with m.If(valid):
            m.d.sync += lost.eq(~last & (lost | self.to_fixed.flag))

        begins, accepted = Signal(), self.i_valid & self.i_ready
        for k, queue in enumerate(queues):
            m.d.comb += [
                *(queue.begins.eq(begins & turn[k]), queue.accepted.eq(accepted & turn[k])),
                *(queue.word.eq(self.to_fixed.o), queue.valid.eq(valid & whose[k])),
                *(queue.sample.eq(sample), queue.last.eq(last & whose[k])),
            ]
        with m.FSM():
            with m.State("REST"):
                m.d.sync += function.eq(self.i_function)
                with m.If(self.i_valid & ~_of(turn, (queue.full for queue in queues))):
                    m.d.comb += begins.eq(1)
                    m.next = "LOOK"
            with m.State("LOOK"):
                m.d.sync += [place.eq(fields["first_input"]), left.eq(fields["inputs"])]
                m.next = "TAKE"
            with m.State("TAKE"):
                m.d.comb += self.i_ready.eq(_of(turn, (queue.room for queue in queues)))
                with m.If(accepted):
                    m.d.sync += [
                        *(comes.eq(1), ends.eq(left == 1)),
                        *(place.eq(place + 1), left.eq(left - 1)),
                    ]
                    with m.If(left == 1):
                        m.d.comb += self.taken.eq(1)
                        m.d.sync += turn.eq(turn.rotate_left(1))
                        m.next = "REST"

    def _runs(
        self,
        m: Module,
        sequencer: ProgramSequencer,
        teams: list[Team],
        function: Value,
        entry: dict[str, Value],
        *,
        waits: Value,
        group: Value,
        start: Signal,
    ) -> tuple[Value, Value]:
        """Build the logic that loads the constants of a function and starts its program.

        Many parameters: all that decides when a sample begins.

        Parameters
        ----------
        function, entry, waits : of the sample that waits; whether there is one.
        group : the teams with a sample that can begin, once the constants are there.
        start : to be driven: the samples of the group of the cycle before begin.

        Returns
        -------
        Whether the teams are in use, and whether their samples end in the next cycle.
        """
        ((at, constant),) = self._memory(m, Store.CONSTANTS)
        place, left = Signal.like(at), Signal.like(entry["constants"])
        reads, record = Signal(), Signal.like(constant)
        resident, settled, finished = Signal.like(function), Signal(), Signal()
        fields = fields_of(record, self.encoding.constant)
        m.d.sync += record.eq(constant)
        m.d.comb += at.eq(place)
        read = _marks(m, reads, 2, "read")
        for team in teams:
            m.d.comb += [
                team.load.eq(Mux(read, fields["lanes"], 0)),
                *(team.load_to.eq(fields["to"]), team.load_word.eq(fields["word"])),
            ]
        same = settled & (resident == function)
        # Registered, because the room is late; it only grows until the next sample begins.
        begins = Signal()
        m.d.sync += begins.eq(group.any() & same & ~start)
        with m.FSM() as states:
            with m.State("REST"):
                with m.If(begins):
                    m.d.comb += start.eq(1)
                    m.next = "RUN"
                with m.Elif(waits & ~same):
                    m.d.sync += [place.eq(entry["first_constant"]), left.eq(entry["constants"])]
                    m.next = "LOAD"
            with m.State("LOAD"):
                m.d.comb += reads.eq(left != 0)
                m.d.sync += [place.eq(place + 1), left.eq(left - 1)]
                with m.If(left == 0):
                    # The first row reads the lanes four cycles after the start.
                    m.d.sync += [resident.eq(function), settled.eq(1)]
                    m.next = "REST"
            with m.State("RUN"), m.If(~sequencer.busy):
                m.d.comb += [finished.eq(1), start.eq(begins)]
                with m.If(~begins):
                    m.next = "REST"
        # A program that is written is another one, even under the same number.
        with m.If(self.store):
            m.d.sync += settled.eq(0)
        return ~states.ongoing("REST"), finished

    def _way_out(self, m: Module, queues: list[ResultQueue]) -> Value:
        """Build the converter, and the order in which it takes the teams' results.

        Returns
        -------
        Whether there are words that have not been handed over.
        """
        turn = Signal(self.teams, init=1)
        waits = _of(turn, (queue.waits for queue in queues))
        sample = _of(turn, (queue.first for queue in queues))
        number = self.encoding.entry["results"].width
        flag, count, first = sample[0], sample[1 : 1 + number], sample[1 + number :]
        place = Signal(number)
        ((moves_at, moves),) = self._memory(m, Store.RESULTS)
        m.d.comb += moves_at.eq(first + place)

        m.submodules.sent = sent = SyncFIFOBuffered(width=34, depth=SENT)
        room = Signal(range(SENT + 1), init=SENT)
        # Whether a word is the last of its record is known a cycle before it is issued.
        issue, ends, opened, last = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [issue.eq(opened & (room != 0)), ends.eq(issue & last)]
        m.d.sync += [
            opened.eq(waits & ~ends),
            last.eq(place + Mux(issue, 2, 1) == count),
        ]
        with m.If(issue):
            m.d.sync += place.eq(Mux(ends, 0, place + 1))
        with m.If(ends):
            m.d.sync += turn.eq(turn.rotate_left(1))
        for k, queue in enumerate(queues):
            m.d.comb += [*(queue.issue.eq(issue & turn[k]), queue.ends.eq(ends & turn[k]))]
        # A register behind the memories, which are late in their cycle.
        stored, move = Signal(signed(self.machine.word)), Signal.like(moves)
        whose = delay(m, turn, 1, "whose")
        m.d.sync += [
            stored.eq(_of(whose, (queue.oldest for queue in queues)).as_signed()),
            move.eq(moves),
        ]
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
        return room != SENT


def _of(turn: Value, values: Iterable[Value]) -> Value:
    """Return the value of the team whose turn it is."""
    return reduce(or_, (Mux(bit, value, 0) for bit, value in zip(turn, values, strict=True)))


def _together(turn: Value, ready: Sequence[Value]) -> Value:
    """Return the teams that are ready, from the one whose turn it is to the first that is not."""
    teams = len(ready)
    return Cat(
        Cat(
            turn[(k - before) % teams]
            & Cat(ready[(k - j) % teams] for j in range(before + 1)).all()
            for before in range(teams)
        ).any()
        for k in range(teams)
    )


def _marks(m: Module, mark: Value, cycles: int, name: str) -> Value:
    """Delay a one-bit mark by `cycles` registers that a reset clears."""
    for k in range(cycles):
        register = Signal(name=f"{name}{k + 1}")
        m.d.sync += register.eq(mark)
        mark = register
    return mark
