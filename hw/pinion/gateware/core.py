"""The core: a datapath between two AXI-Streams.

float32 words come in, are converted, gathered into a record, and enter the datapath at the next
slot 0; result words leave through converters into a FIFO. The datapath never waits: a record enters
only when the FIFO has room for its result (credits), so the host may pause for as long as it likes.
"""

from __future__ import annotations

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from pinion.fixedpoint import Format
from pinion.graph import Graph
from pinion.hls.binding import Binding

from .datapath import FLAG_DELAY, Datapath
from .float32 import FixedToFloat, FloatToFixed

WORD = 32


class Core(wiring.Component):
    """A dynamics function of one robot between two AXI-Streams.

    Parameters
    ----------
    graph : the fixed graph.
    binding : of its schedule.
    build_hash : 64 bits that identify the build; the driver compares them with its manifest.

    Members
    -------
    i_tdata, i_tvalid, i_tready, i_tlast
        Requests: ``beats_in`` beats of ``lanes_in`` float32 words, TLAST on the last.
    o_tdata, o_tvalid, o_tready, o_tlast, o_tuser
        Results, in the order of the requests: ``beats_out`` beats of ``lanes_out`` float32 words;
        ``o_tuser`` on the last beat is the record's flag: some value left its format's range, or
        an input was not a number.
    launch : Out(1)
        A record enters the datapath: this is cycle 0 of its schedule.
    protocol_error : Out(1)
        Some record's TLAST did not stand on its last beat (sticky). A record that ends early is
        dropped; one that does not end is flagged and the stream realigns at its TLAST.
    build_hash : Out(64)

    Latency: `total_latency`, from the first beat of a request to the last beat of its result, on
    an idle core with a host that is always ready.
    Throughput: one record every ``ii`` cycles.
    """

    # A core that is only asked for its latency is no mistake.
    _MustUse__silence = True

    def __init__(self, *, graph: Graph, binding: Binding, build_hash: int) -> None:
        self.graph = graph
        self.binding = binding
        self.hash = build_hash
        self.datapath = Datapath(graph=graph, binding=binding)
        self.ii = binding.schedule.ii
        super().__init__(
            {
                "i_tdata": In(WORD * binding.lanes_in),
                "i_tvalid": In(1),
                "i_tready": Out(1),
                "i_tlast": In(1),
                "o_tdata": Out(WORD * binding.lanes_out),
                "o_tvalid": Out(1),
                "o_tready": In(1),
                "o_tlast": Out(1),
                "o_tuser": Out(1),
                "launch": Out(1),
                "protocol_error": Out(1),
                "build_hash": Out(64),
            }
        )
        self.modules: dict[str, str] = {}
        self._next_slot = Signal(range(max(2, self.ii)))
        formats = self.datapath.formats
        # The converters move the binary points of words of one width, word by word.
        if len({formats[i].width for i in binding.inputs}) > 1:
            raise ValueError("The words of a request have one width.")
        self.input_format, moves = _coarsest([formats[i] for i in binding.inputs])
        self.to_fixed = FloatToFixed(target=self.input_format, moves=moves)
        self.output_format, moves = _coarsest([formats[out.node] for out in binding.outputs])
        negates = any(out.negated for out in binding.outputs)
        self.to_float = FixedToFloat(source=self.output_format, moves=moves, negates=negates)
        # The last word leaves its converter no earlier than the flag is complete.
        last = max(out.cycle for out in binding.outputs)
        complete = binding.schedule.length + FLAG_DELAY
        self.output_wait = max(0, complete - (last + self.to_float.latency))
        self.output_delay = self.to_float.latency + self.output_wait
        self.stages = (last + self.output_delay) // self.ii + 1
        # A record holds its credit from its launch until its last beat has left the FIFO.
        self.credits = self.stages + 3
        # Words in the converters must find room behind them.
        self.input_depth = 2 * (self.to_fixed.latency + 4)

    @property
    def total_latency(self) -> int:
        """Cycles from the first input beat to the last output beat, at the worst phase of slots.

        The last beat of the record, its conversion, two cycles in the FIFO, one each into the
        record register and the datapath, up to ``ii - 1`` cycles until slot 0, the schedule, the
        conversion back, two cycles in the FIFO.
        """
        into = self.binding.beats_in - 1 + self.to_fixed.latency + 2 + 2
        return into + self.ii - 1 + self.last_beat

    @property
    def last_beat(self) -> int:
        """Cycles from the launch of a record to the last beat of its result."""
        return max(out.cycle for out in self.binding.outputs) + self.output_delay + 2

    def elaborate(self, platform: object) -> Module:
        """Converters, record register, datapath, valid bits, FIFOs and credits."""
        m = Module()
        m.submodules.datapath = self.datapath
        m.d.comb += self.build_hash.eq(Const(self.hash, 64))
        slot, last_slot = self._slots(m)
        full, loading, flag = self._input(m)
        # What a record waits for stands in registers of one bit.
        credit = Signal(range(self.credits + 1), init=self.credits)
        granted = Signal(init=1)
        left = Signal.like(credit)
        m.d.comb += loading.eq(full & granted & last_slot)
        m.d.comb += self.datapath.flag_i.eq(flag)
        m.d.sync += self.launch.eq(loading)
        freed = self._output(m, slot, loading, last_slot)
        m.d.comb += left.eq(credit - loading + freed)
        m.d.sync += [credit.eq(left), granted.eq(left != 0)]
        return m

    def _slots(self, m: Module) -> tuple[Signal, Value]:
        """The slot, whether it is the last, and the datapath's: all from registers."""
        slot, following, ahead = (
            Signal(range(max(2, self.ii)), name=name, init=k % self.ii)
            for k, name in enumerate(("slot", "next_slot", "slot_ahead"))
        )
        if self.ii > 1:
            with m.If(ahead == self.ii - 1):
                m.d.sync += ahead.eq(0)
            with m.Else():
                m.d.sync += ahead.eq(ahead + 1)
            m.d.sync += [following.eq(ahead), slot.eq(following)]
        m.d.comb += [self.datapath.slot_ahead.eq(ahead), self._next_slot.eq(following)]
        if self.ii == 1:
            return slot, Const(1)
        last = Signal(name="last_slot")
        m.d.sync += last.eq(following == self.ii - 1)
        return slot, last

    def _input(self, m: Module) -> tuple[Signal, Signal, Signal]:
        """Beats through the converters into the record register; (full, loading, flag)."""
        lanes, beats = self.binding.lanes_in, self.binding.beats_in
        width = self.input_format.width
        latency = self.to_fixed.latency
        self.modules["pinion_float_to_fixed"] = self.to_fixed.to_rtlil("pinion_float_to_fixed")
        accept = Signal()
        m.d.comb += accept.eq(self.i_tvalid & self.i_tready)
        words, flags = [], []
        beat = self._beat(m, accept) if self.to_fixed.moves else None
        for lane in range(lanes):
            o, flag = Signal(signed(width), name=f"in{lane}"), Signal(name=f"in{lane}_flag")
            m.submodules[f"to_fixed{lane}"] = Instance(
                "pinion_float_to_fixed",
                i_clk=ClockSignal(),
                i_i=self.i_tdata.word_select(lane, WORD),
                **self._input_move(m, lane, beat),
                o_o=o,
                o_flag=flag,
            )
            words.append(o)
            flags.append(flag)
        arrived, last = accept, self.i_tlast
        for k in range(latency):
            arrived_next, last_next = Signal(name=f"arrived{k}"), Signal(name=f"last{k}")
            m.d.sync += [arrived_next.eq(arrived), last_next.eq(last)]
            arrived, last = arrived_next, last_next

        # Beats are accepted against the room behind the converters.
        m.submodules.input_fifo = fifo = SyncFIFOBuffered(
            width=lanes * (width + 1) + 1, depth=self.input_depth
        )
        room = Signal(range(self.input_depth + 1), init=self.input_depth)
        left = Signal.like(room)
        has_room = Signal(init=1)
        taken = Signal()
        returned = Signal()  # a cycle late: a beat taken moves the whole record register
        m.d.comb += [
            self.i_tready.eq(has_room),
            left.eq(room - accept + returned),
            fifo.w_data.eq(Cat(*words, *flags, last)),
            fifo.w_en.eq(arrived),
            taken.eq(fifo.r_rdy & fifo.r_en),
        ]
        m.d.sync += [returned.eq(taken), room.eq(left), has_room.eq(left != 0)]

        # The record register: beat b of the record stands in place b when the record is complete.
        full = Signal()
        loading = Signal()
        count = Signal(range(beats + 1))
        counted = Signal.like(count)
        record_flag = Signal()
        overrun = Signal()
        beat_words = [fifo.r_data[k * width : (k + 1) * width].as_signed() for k in range(lanes)]
        beat_flag = fifo.r_data[lanes * width : lanes * (width + 1)].any()
        beat_last = fifo.r_data[-1]
        place = [
            [Signal(signed(width), name=f"record{b}_{k}", reset_less=True) for k in range(lanes)]
            for b in range(beats)
        ]
        m.d.comb += [counted.eq(count), fifo.r_en.eq(~full | loading)]
        m.d.sync += [count.eq(counted), full.eq(counted == beats)]
        # A record that leaves now makes room for the first beat of the next one.
        base = Signal.like(count)
        with m.If(full):
            m.d.comb += base.eq(0)
        with m.Else():
            m.d.comb += base.eq(count)
        with m.If(loading):
            m.d.comb += counted.eq(0)
        with m.If(taken):
            for b in range(beats):
                source = place[b + 1] if b + 1 < beats else beat_words
                m.d.sync += [old.eq(new) for old, new in zip(place[b], source, strict=True)]
            m.d.sync += record_flag.eq(beat_flag | (record_flag & (base != 0)))
            with m.If(overrun):  # behind a record that did not end: skip to its TLAST
                m.d.comb += counted.eq(0)
                m.d.sync += overrun.eq(~beat_last)
            with m.Else():
                m.d.comb += counted.eq(base + 1)
                with m.If(beat_last != (base == beats - 1)):
                    m.d.sync += self.protocol_error.eq(1)
                    with m.If(beat_last):
                        m.d.comb += counted.eq(0)
                    with m.Else():
                        m.d.sync += [overrun.eq(1), record_flag.eq(1)]
        for position in range(len(self.binding.inputs)):
            word = place[position // lanes][position % lanes]
            m.d.comb += getattr(self.datapath, f"word{position}").eq(word)
        return full, loading, record_flag

    def _beat(self, m: Module, accept: Signal) -> Signal:
        """Beat at the converters in the next cycle; those past a record's end count as its last."""
        beats = self.binding.beats_in
        beat = Signal(range(max(2, beats)))
        following = Signal.like(beat)
        m.d.comb += following.eq(beat)
        with m.If(accept & self.i_tlast):
            m.d.comb += following.eq(0)
        with m.Elif(accept & (beat != beats - 1)):
            m.d.comb += following.eq(beat + 1)
        m.d.sync += beat.eq(following)
        return following

    def _input_move(self, m: Module, lane: int, following: Signal | None) -> dict[str, Signal]:
        """The converter's `move` port of a lane, by beat, from a register; nothing without one."""
        if following is None:
            return {}
        moves = {}
        for beat in range(self.binding.beats_in):
            if (position := beat * self.binding.lanes_in + lane) < len(self.binding.inputs):
                fmt = self.datapath.formats[self.binding.inputs[position]]
                moves[beat] = fmt.frac - self.input_format.frac
        move = Signal(range(self.to_fixed.moves + 1), name=f"in{lane}_move", init=moves.get(0, 0))
        with m.Switch(following):
            for beat, places in moves.items():
                with m.Case(beat):
                    m.d.sync += move.eq(places)
            with m.Default():
                m.d.sync += move.eq(0)
        return {"i_move": move}

    def _output_turn(self, m: Module, lane: int) -> dict[str, Signal]:
        """The converter's `move` and `negate` ports of a lane, by slot, as far as it has them."""
        move = Signal(range(self.to_float.moves + 1), name=f"out{lane}_move")
        negate = Signal(name=f"out{lane}_negate")
        with m.Switch(self._next_slot):
            for out in self.binding.outputs:
                if out.lane == lane:
                    fmt = self.datapath.formats[out.node]
                    with m.Case(out.cycle % self.ii):
                        m.d.sync += move.eq(fmt.frac - self.output_format.frac)
                        m.d.sync += negate.eq(out.negated)
        ports = {"i_move": move} if self.to_float.moves else {}
        return ports | ({"i_negate": negate} if self.to_float.negates else {})

    def _output(self, m: Module, slot: Signal, loading: Signal, last_slot: object) -> Signal:
        """Result words through converters into the FIFO; pulses when a record has left it."""
        binding = self.binding
        self.modules["pinion_fixed_to_float"] = self.to_float.to_rtlil("pinion_fixed_to_float")
        words = []
        for lane in range(binding.lanes_out):
            o = Signal(WORD, name=f"out{lane}")
            m.submodules[f"to_float{lane}"] = Instance(
                "pinion_fixed_to_float",
                i_clk=ClockSignal(),
                i_i=getattr(self.datapath, f"lane{lane}"),
                **self._output_turn(m, lane),
                o_o=o,
            )
            for k in range(self.output_wait):
                later = Signal(WORD, name=f"out{lane}_{k}")
                m.d.sync += later.eq(o)
                o = later
            words.append(o)

        valid = [Signal(name=f"valid{k}") for k in range(self.stages)]
        with m.If(last_slot):
            m.d.sync += valid[0].eq(loading)
            m.d.sync += [new.eq(old) for new, old in zip(valid[1:], valid[:-1], strict=True)]
        m.submodules.output_fifo = fifo = SyncFIFOBuffered(
            width=WORD * binding.lanes_out + 2, depth=self.credits * binding.beats_out
        )
        first = min(out.cycle for out in binding.outputs)
        m.d.comb += fifo.w_data[: WORD * binding.lanes_out].eq(Cat(*words))
        for beat in range(binding.beats_out):
            cycle = first + beat + self.output_delay
            stage = cycle // self.ii
            now = slot == cycle % self.ii if self.ii > 1 else Const(1)
            with m.If(now & valid[stage]):
                m.d.comb += fifo.w_en.eq(1)
                if beat == binding.beats_out - 1:
                    flag = getattr(self.datapath, f"flag{stage}")
                    m.d.comb += fifo.w_data[-2:].eq(Cat(flag, 1))
        freed = Signal()
        m.d.comb += [
            self.o_tvalid.eq(fifo.r_rdy),
            fifo.r_en.eq(self.o_tready),
            self.o_tdata.eq(fifo.r_data[: WORD * binding.lanes_out]),
            self.o_tuser.eq(fifo.r_data[-2]),
            self.o_tlast.eq(fifo.r_data[-1]),
            freed.eq(self.o_tvalid & self.o_tready & self.o_tlast),
        ]
        return freed


def _coarsest(formats: list[Format]) -> tuple[Format, int]:
    """The widest width with the fewest fraction bits, and how many more the finest has."""
    coarsest = min(fmt.frac for fmt in formats)
    width = max(fmt.width for fmt in formats)
    return Format(width, coarsest), max(fmt.frac for fmt in formats) - coarsest
