"""The core: a datapath between two AXI-Streams.

Incoming float32 words are converted and gathered into a record, which enters the datapath at the
next slot 0; result words leave through converters into a FIFO. The datapath never stalls: a record
enters only when the FIFO has room for its result (credits), so the host may pause indefinitely.
"""

from __future__ import annotations

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Mux, Signal, Value, signed
from amaranth.lib.fifo import SyncFIFO, SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from pinion.base.progress import SILENT, Progress
from pinion.fixedpoint import Format
from pinion.graph import Graph
from pinion.hls import Binding

from .component import Component
from .copies import MARK, Copies
from .datapath import FLAG_DELAY, Datapath
from .float32 import FixedToFloat, FloatToFixed
from .unit import look_up

WORD = 32


class Core(Component):
    """Dynamics function of one robot between two AXI-Streams.

    Parameters
    ----------
    graph : the fixed graph.
    binding : of its schedule.
    build_hash : 64 bits that identify the build; the driver compares them with its manifest.
    progress : receives the completed share during elaboration.

    Members
    -------
    i_tdata, i_tvalid, i_tready, i_tlast
        Requests: ``beats_in`` beats of ``lanes_in`` float32 words, TLAST on the last.
    o_tdata, o_tvalid, o_tready, o_tlast, o_tuser
        Results, in the order of the requests: ``beats_out`` beats of ``lanes_out`` float32 words;
        ``o_tuser`` on the last beat is the record's flag: some value overflowed its format, or
        an input was not a number. With states it stays set for all later records, whose states may
        be wrong, until one that starts from initial values.
    reset_state : In(1), only with states
        The next record that enters the datapath starts from the states' initial values. Records
        that entered earlier are unaffected in any cycle; the core's reset does the same.
    launch : Out(1)
        A record enters the datapath: cycle 0 of its schedule.
    protocol_error : Out(1)
        Some record's TLAST was not on its last beat (sticky). A record that ends early is dropped;
        one that does not end is flagged, and the stream realigns at its TLAST.
    build_hash : Out(64)

    Latency: `latency`, from the first beat of a request to the last beat of its result, on
    an idle core with a host that is always ready.
    Throughput: one record every ``ii`` cycles.
    """

    def __init__(
        self, *, graph: Graph, binding: Binding, build_hash: int, progress: Progress = SILENT
    ) -> None:
        self.graph = graph
        self.binding = binding
        self.hash = build_hash
        self.datapath = Datapath(graph=graph, binding=binding, progress=progress)
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
            | ({"reset_state": In(1)} if binding.states else {})
        )
        self.modules: dict[str, str] = {}
        self._slot_ahead = Signal(range(max(2, self.ii)))
        formats = self.datapath.formats
        # The converters shift the binary point of each word, for words of one width.
        if len({formats[i].width for i in binding.inputs}) > 1:
            raise ValueError(
                "All words of a request must have the same width, but their widths are "
                f"{sorted({formats[i].width for i in binding.inputs})}."
            )
        self.input_format, moves = _coarsest([formats[i] for i in binding.inputs])
        self.to_fixed = FloatToFixed(target=self.input_format, moves=moves)
        self.output_format, moves = _coarsest([formats[out.node] for out in binding.outputs])
        negates = any(out.negated for out in binding.outputs)
        self.to_float = FixedToFloat(source=self.output_format, moves=moves, negates=negates)
        # The last word must not leave its converter before the flag is complete.
        last = max(out.cycle for out in binding.outputs)
        complete = binding.schedule.length + FLAG_DELAY
        self.output_wait = max(0, complete - (last + self.to_float.latency))
        self.output_delay = self.to_float.latency + self.output_wait
        self.stages = (last + self.output_delay) // self.ii + 1
        # The states advance by the same register of valid bits.
        self.kept_stages = max([self.stages, *(k + 1 for k in self.datapath.valid_stages)])
        # A record holds its credit from the decision to launch it until its last beat has left the
        # FIFO and the next may be launched.
        self.credits = max(self.stages + 3, -(-(last + self.output_delay + 6) // self.ii))
        # The FIFO needs room for all words in the converters.
        self.input_depth = 2 * (self.to_fixed.latency + 4)

    @property
    def latency(self) -> int:
        """Cycles from first input beat to last output beat, with the longest wait for slot 0.

        These are the record's remaining beats, their conversion, two cycles in the FIFO and after
        it, one each into the record register and the datapath, up to ``ii - 1`` cycles until slot
        0, the schedule, the conversion back, and two cycles in the FIFO.
        """
        into = self.binding.beats_in - 1 + self.to_fixed.latency + 2 + 2
        return into + self.ii - 1 + self.last_beat

    @property
    def last_beat(self) -> int:
        """Cycles from the launch of a record to the last beat of its result."""
        return max(out.cycle for out in self.binding.outputs) + self.output_delay + 2

    def elaborate(self, platform: object) -> Module:
        """Build converters, record register, datapath, valid bits, FIFOs and credits.

        Actions of the last slot are decided in the slot before it, so that registers drive every
        enable of a word.
        """
        m = Module()
        m.submodules.datapath = self.datapath
        m.d.comb += self.build_hash.eq(Const(self.hash, 64))
        slot, closing, last_slot = self._slots(m)
        # The conditions that a record waits for are one-bit registers.
        credit = Signal(range(self.credits + 1), init=self.credits)
        granted = Signal(init=1)
        left = Signal.like(credit)
        launching = Signal(name="chosen")
        loading = Signal()
        full, flag = self._input(m, granted & closing)
        m.d.comb += [launching.eq(full & granted & closing), self.datapath.flag_i.eq(flag)]
        m.d.sync += [loading.eq(launching), self.launch.eq(loading)]
        fresh = self._fresh(m, loading, last_slot)
        freed = self._output(m, slot, loading, last_slot, fresh)
        spent = launching if self.ii == 1 else loading  # early enough for the next decision
        m.d.comb += left.eq(credit - spent + freed)
        m.d.sync += [credit.eq(left), granted.eq(left != 0)]
        return m

    def _fresh(self, m: Module, loading: Signal, last_slot: Value) -> list[Signal]:
        """Return, by stage, whether its record starts from the initial state; [] if stateless.

        A reset of the state waits for the next record, so that it falls between two records.
        """
        if not self.binding.states:
            return []
        waiting = Signal(name="state_reset", init=1)
        fresh = [Signal(name=f"fresh{k}") for k in range(self.kept_stages)]
        with m.If(last_slot):
            m.d.sync += fresh[0].eq(loading & waiting)
            m.d.sync += [new.eq(old) for new, old in zip(fresh[1:], fresh[:-1], strict=True)]
            with m.If(loading):
                m.d.sync += waiting.eq(0)
        with m.If(self.reset_state):
            m.d.sync += waiting.eq(1)
        for stage in self.datapath.fresh_stages:
            m.d.comb += getattr(self.datapath, f"fresh{stage}").eq(fresh[stage])
        return fresh

    def _slots(self, m: Module) -> tuple[Signal, Value, Value]:
        """Return the current slot, and whether the next one and this one are the last.

        All of them, and the datapath's slot, are registers.
        """
        slot, following, ahead = (
            Signal(range(max(2, self.ii)), name=name, init=k % self.ii)
            for k, name in enumerate(("slot", "next_slot", "slot_ahead"))
        )
        m.d.comb += [self.datapath.slot_ahead.eq(ahead), self._slot_ahead.eq(ahead)]
        if self.ii == 1:
            return slot, Const(1), Const(1)
        with m.If(ahead == self.ii - 1):
            m.d.sync += ahead.eq(0)
        with m.Else():
            m.d.sync += ahead.eq(ahead + 1)
        closing, last = Signal(init=self.ii == 2), Signal(name="last_slot")
        m.d.sync += [following.eq(ahead), slot.eq(following)]
        m.d.sync += [closing.eq(ahead == self.ii - 1), last.eq(closing)]
        return slot, closing, last

    def _input(self, m: Module, may_leave: Value) -> tuple[Signal, Signal]:
        """Pass beats through the converters into the record register.

        Parameters
        ----------
        may_leave : a complete record leaves its register at the end of the next cycle.

        Returns
        -------
        Whether the record is complete at the end of this cycle, and its flag.
        """
        lanes, beats = self.binding.lanes_in, self.binding.beats_in
        width = self.input_format.width
        latency = self.to_fixed.latency
        self.modules["pinion_float_to_fixed"] = self.to_fixed.to_rtlil("pinion_float_to_fixed")
        accept = Signal()
        m.d.comb += accept.eq(self.i_tvalid & self.i_tready)
        words, flags = [], []
        coming = self._beat(m, accept) if self.to_fixed.moves else None
        for lane in range(lanes):
            o, flag = Signal(signed(width), name=f"in{lane}"), Signal(name=f"in{lane}_flag")
            m.submodules[f"to_fixed{lane}"] = Instance(
                "pinion_float_to_fixed",
                i_clk=ClockSignal(),
                i_i=self.i_tdata.word_select(lane, WORD),
                **self._input_move(m, lane, accept, coming),
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

        # A beat is accepted if the FIFO behind the converters has room for it.
        m.submodules.input_fifo = fifo = SyncFIFO(width=lanes * width + 2, depth=self.input_depth)
        room = Signal(range(self.input_depth + 1), init=self.input_depth)
        left = Signal.like(room)
        has_room = Signal(init=1)
        popped = Signal(name="taken")
        returned = Signal()
        m.d.comb += [
            self.i_tready.eq(has_room),
            left.eq(room - accept + returned),
            fifo.w_data.eq(Cat(*words, Cat(*flags).any(), last)),
            fifo.w_en.eq(arrived),
            popped.eq(fifo.r_rdy & fifo.r_en),
        ]
        m.d.sync += [returned.eq(popped), room.eq(left), has_room.eq(left != 0)]

        # A beat is popped in one cycle and moved into the record register in the next.
        full = Signal()
        count = Signal(range(beats + 1))
        counted = Signal.like(count)
        overrun = Signal()
        endless = Signal()
        beat_last = fifo.r_data[-1]
        m.d.comb += [counted.eq(count), fifo.r_en.eq(~full | may_leave)]
        m.d.sync += [count.eq(counted), full.eq(counted == beats)]
        # A record that leaves now makes room for the first beat of the next.
        base = Signal.like(count)
        with m.If(full):
            m.d.comb += base.eq(0)
        with m.Else():
            m.d.comb += base.eq(count)
        with m.If(full & may_leave):
            m.d.comb += counted.eq(0)
        with m.If(popped):
            with m.If(overrun):  # after a record without an end: skip to its TLAST
                m.d.comb += counted.eq(0)
                m.d.sync += overrun.eq(~beat_last)
            with m.Else():
                m.d.comb += counted.eq(base + 1)
                with m.If(beat_last != (base == beats - 1)):
                    m.d.sync += self.protocol_error.eq(1)
                    with m.If(beat_last):
                        m.d.comb += counted.eq(0)
                    with m.Else():
                        m.d.comb += endless.eq(1)
                        m.d.sync += overrun.eq(1)
        return full, self._record(m, fifo.r_data[:-1], popped, base == 0, endless)

    def _record(
        self, m: Module, beat: Value, popped: Value, first: Value, endless: Value
    ) -> Signal:
        """Build the record register, loaded a cycle after a beat is popped; return its flag.

        Beat b of a complete record is in place b.

        Parameters
        ----------
        beat : words of the offered beat, with their flag as the highest bit.
        popped, first, endless : it is popped, as a record's first, as the last without TLAST.
        """
        lanes, beats = self.binding.lanes_in, self.binding.beats_in
        width = self.input_format.width
        moved = Signal(beat.shape(), name="beat", reset_less=True)
        flag, begins, spoiled = Signal(name="record_flag"), Signal(), Signal()
        shift = Signal(name="record_shift")
        m.d.sync += [moved.eq(beat), shift.eq(popped), begins.eq(first), spoiled.eq(endless)]
        with m.If(shift):
            m.d.sync += flag.eq(moved[-1] | spoiled | (flag & ~begins))
        enables = Copies(m, popped, name="shift")
        for k in range(lanes):
            source: Value = moved[k * width : (k + 1) * width].as_signed()
            for b in reversed(range(beats)):
                place = Signal(signed(width), name=f"record{b}_{k}", reset_less=True)
                with m.If(enables.to(width)):
                    m.d.sync += place.eq(source)
                if (position := b * lanes + k) < len(self.binding.inputs):
                    m.d.comb += getattr(self.datapath, f"word{position}").eq(place)
                source = place
        return flag

    def _beat(self, m: Module, accept: Signal) -> Signal:
        """Return the number of the next beat; beats past a record's end count as the last."""
        beats = self.binding.beats_in
        beat = Signal(range(max(2, beats)))
        coming = Signal.like(beat)
        later = look_up([min(k + 1, beats - 1) for k in range(beats)], len(beat), beat)
        m.d.comb += coming.eq(Mux(self.i_tlast, 0, later))
        with m.If(accept):
            m.d.sync += beat.eq(coming)
        return coming

    def _input_move(
        self, m: Module, lane: int, accept: Signal, coming: Signal | None
    ) -> dict[str, Signal]:
        """Return the register for port `i_move` of a lane's converter, if it has one."""
        if coming is None:
            return {}
        moves = {}
        for beat in range(self.binding.beats_in):
            if (position := beat * self.binding.lanes_in + lane) < len(self.binding.inputs):
                fmt = self.datapath.formats[self.binding.inputs[position]]
                moves[beat] = fmt.frac - self.input_format.frac
        move = Signal(range(self.to_fixed.moves + 1), name=f"in{lane}_move", init=moves[0])
        rows = [moves.get(beat, moves[0]) for beat in range(self.binding.beats_in)]
        with m.If(accept):  # a beat without a word may take any move
            m.d.sync += move.eq(look_up(rows, len(move), coming))
        return {"i_move": move}

    def _output_turn(self, m: Module, lane: int) -> dict[str, Signal]:
        """Return the signals for `i_move` and `i_negate` of a lane's converter, if it has them."""
        moves = range(self.to_float.moves + 1)
        move = Signal(moves, name=f"out{lane}_move", reset_less=True)
        negate = Signal(name=f"out{lane}_negate", reset_less=True)
        turns = {
            out.cycle % self.ii: (
                self.datapath.formats[out.node].frac - self.output_format.frac,
                out.negated,
            )
            for out in self.binding.outputs
            if out.lane == lane
        }
        some = next(iter(turns.values()))  # any will do in unused slots: holding needs an enable
        rows = [turns.get(slot, some) for slot in range(self.ii)]
        following = Signal.like(
            self._slot_ahead, name=f"out{lane}_next_slot", init=1 % self.ii, attrs=dict(MARK)
        )
        m.d.sync += [
            following.eq(self._slot_ahead),
            move.eq(look_up([places for places, _ in rows], len(move), following)),
            negate.eq(look_up([int(negated) for _, negated in rows], 1, following)),
        ]
        ports = {"i_move": move} if self.to_float.moves else {}
        return ports | ({"i_negate": negate} if self.to_float.negates else {})

    def _output(
        self, m: Module, slot: Signal, loading: Signal, last_slot: object, fresh: list[Signal]
    ) -> Signal:
        """Pass results through converters into the FIFO; return a pulse when a record has left."""
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
                later = Signal(WORD, name=f"out{lane}_{k}", reset_less=True)
                m.d.sync += later.eq(o)
                o = later
            words.append(o)

        valid = [Signal(name=f"valid{k}") for k in range(self.kept_stages)]
        with m.If(last_slot):
            m.d.sync += valid[0].eq(loading)
            m.d.sync += [new.eq(old) for new, old in zip(valid[1:], valid[:-1], strict=True)]
        for stage in self.datapath.valid_stages:
            m.d.comb += getattr(self.datapath, f"valid{stage}").eq(valid[stage])
        m.submodules.output_fifo = fifo = SyncFIFOBuffered(
            width=WORD * binding.lanes_out + 2, depth=self.credits * binding.beats_out
        )
        first = min(out.cycle for out in binding.outputs) + self.output_delay
        writes, closes = Signal(), Signal()
        flag: Value = Const(0, 1)
        written: Value = Const(0, 1)
        for beat in range(binding.beats_out):
            # What a cycle writes is decided in the cycle before.
            stage, decision_slot = divmod(first + beat - 1, self.ii)
            now = slot == decision_slot if self.ii > 1 else Const(1)
            written |= now & valid[stage]
            if beat == binding.beats_out - 1:
                m.d.sync += closes.eq(now & valid[stage])
                age = (first + beat) // self.ii
                flag = getattr(self.datapath, f"flag{age}")
                if fresh:
                    flag = self._sticky(m, flag, fresh[age], closes)
        m.d.sync += writes.eq(written)
        m.d.comb += [
            fifo.w_data.eq(Cat(*words, flag & closes, closes)),
            fifo.w_en.eq(writes),
        ]
        freed = Signal()
        m.d.sync += freed.eq(self.o_tvalid & self.o_tready & self.o_tlast)
        m.d.comb += [
            self.o_tvalid.eq(fifo.r_rdy),
            fifo.r_en.eq(self.o_tready),
            self.o_tdata.eq(fifo.r_data[: WORD * binding.lanes_out]),
            self.o_tuser.eq(fifo.r_data[-2]),
            self.o_tlast.eq(fifo.r_data[-1]),
        ]
        return freed

    def _sticky(self, m: Module, flag: Value, fresh: Value, closes: Value) -> Value:
        """Return whether this record or an earlier one since the last state reset is flagged."""
        spoiled, flagged = Signal(name="spoiled"), Signal(name="spoiled_before")
        m.d.comb += flagged.eq(flag | (spoiled & ~fresh))
        with m.If(closes):
            m.d.sync += spoiled.eq(flagged)
        return flagged


def _coarsest(formats: list[Format]) -> tuple[Format, int]:
    """Return the format of largest width and fewest fraction bits, and the range of the latter."""
    coarsest = min(fmt.frac for fmt in formats)
    width = max(fmt.width for fmt in formats)
    return Format(width, coarsest), max(fmt.frac for fmt in formats) - coarsest
