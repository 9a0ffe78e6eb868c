"""Conversion of dense words in wide beats to the core's record-aligned beats."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, ValueLike
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component

from .geometry import Geometry, choose


class Unpacker(Component):
    """Gearbox that extracts dense records from wide beats.

    A core beat spans at most two wide beats: the stored one and the offered one. Three registered
    steps, each one LUT deep for a bit of data: `merge` takes word k of the wide beat from either of
    the two, `coarse` rotates the words by a multiple of 4, `fine` by the rest. Merging before
    rotating handles every offset alike, including the end of a batch, so that no cycle is lost
    between batches. Only offsets that occur get a multiplexer input.

    Parameters
    ----------
    word : bits of a word.
    words_per_beat : words of a wide beat, a power of two.
    record, lanes, beats : words of a record, words of a core beat, core beats of a record.

    Members
    -------
    i : stream of ``{data: word * words_per_beat, last: 1, words: range(words_per_beat + 1)}``.
        ``last`` marks a batch's last beat, and ``words`` is the number of its words in that beat;
        it is ignored elsewhere. A batch is a whole number of records.
    o : stream of ``{data: word * lanes, last: 1}``.
        ``last`` marks each record's last beat, in which lanes after the record are zero.

    Latency: 3 cycles from a wide beat's acceptance to the offer of the first core beat that ends
    in it.
    Throughput: one core beat every cycle. A wide beat is accepted in the cycle that first needs
    it; its ready depends combinationally on ``i.valid`` and ``o.ready``.
    Longest path: 4 LUTs, from the place in the batch to the next one (105 words, 14 lanes, Yosys);
    the words themselves pass one LUT between registers.
    """

    def __init__(
        self, *, word: int = 32, words_per_beat: int = 16, record: int, lanes: int, beats: int
    ) -> None:
        self.geometry = Geometry(
            word=word, words_per_beat=words_per_beat, record=record, lanes=lanes, beats=beats
        )
        wide = data.StructLayout(
            {"data": word * words_per_beat, "last": 1, "words": range(words_per_beat + 1)}
        )
        core = data.StructLayout({"data": word * lanes, "last": 1})
        super().__init__({"i": In(stream.Signature(wide)), "o": Out(stream.Signature(core))})

    def elaborate(self, platform: object) -> Module:
        """Build the counters of the position in the batch, then the three pipeline stages."""
        m = Module()
        g = self.geometry
        space = g.words_per_beat
        merged, turned, offered = (Signal(name=n) for n in ("merged", "turned", "offered"))
        merge, turn, move = (Signal(name=n) for n in ("merge", "turn", "move"))
        m.d.comb += [
            move.eq(~offered | self.o.ready),
            turn.eq(~turned | move),
            self.o.valid.eq(offered),
        ]
        offset, ending, fresh, go = self._place(m, ~merged | turn)
        m.d.comb += merge.eq(go)

        # Merge: words before the offset come from the offered beat.
        current = Signal(g.word * space, name="held", reset_less=True)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += current.eq(self.i.p.data)
        words = [Signal(g.word, name=f"merged{k}", reset_less=True) for k in range(space)]
        merged_offset = Signal(range(space), reset_less=True)
        merged_ending = Signal(reset_less=True)
        with m.If(~merged | turn):
            m.d.sync += [merged.eq(merge), merged_offset.eq(offset), merged_ending.eq(ending)]
            for k, word in enumerate(words):
                new, old = (w.word_select(k, g.word) for w in (self.i.p.data, current))
                m.d.sync += word.eq(Mux(fresh[k], new, old))

        # Coarse: by multiples of `fine`; more words than lanes, for the rest of the rotation.
        reach = min(space, g.lanes + max(g.fine_steps))
        coarse = [Signal(g.word, name=f"turned{k}", reset_less=True) for k in range(reach)]
        turned_offset = Signal(range(g.fine), reset_less=True)
        turned_ending = Signal(reset_less=True)
        with m.If(turn):
            m.d.sync += [
                turned.eq(merged),
                turned_offset.eq(merged_offset % g.fine),
                turned_ending.eq(merged_ending),
            ]
            by = merged_offset // g.fine
            choose(m, by, g.coarse_steps, coarse, lambda k, n: words[(k + n * g.fine) % space])

        # Fine, and clear the lanes after the record's end.
        lanes = [Signal(g.word, name=f"lane{k}", reset_less=True) for k in range(g.lanes)]
        last = Signal(reset_less=True)
        with m.If(move):
            m.d.sync += [offered.eq(turned), last.eq(turned_ending)]
            choose(m, turned_offset, g.fine_steps, lanes, lambda k, n: coarse[(k + n) % space])
            with m.If(turned_ending):
                m.d.sync += [lane.eq(0) for lane in lanes[g.tail :]]
        for k, lane in enumerate(lanes):
            m.d.comb += self.o.p.data.word_select(k, g.word).eq(lane)
        m.d.comb += self.o.p.last.eq(last)
        return m

    def _place(self, m: Module, free: ValueLike) -> tuple[Signal, Signal, Signal, Signal]:
        """Return the next core beat's offset, end-of-record bit and mask of new words, and ``go``.

        ``fresh`` has a bit for each word of the wide beat: take it from the offered beat.
        """
        g = self.geometry
        space = g.words_per_beat
        offset = Signal(range(space))
        ending = Signal(init=g.beats == 1)
        fresh = Signal(space, init=-1)
        have = Signal()  # the stored beat has words left
        final = Signal()  # the stored beat is its batch's last
        valid_words = Signal(range(space + 1))  # of the stored beat, if it is the last

        end = g.end(m, offset, ending, "end")
        crosses = Signal()
        needs = Signal()
        go = Signal()
        m.d.comb += [
            crosses.eq(end > space),
            needs.eq(~have | crosses),
            go.eq(free & (~needs | self.i.valid)),
            self.i.ready.eq(go & needs),
        ]
        # The end of this core beat in the last wide beat that it needs, and whether it empties it.
        place = Signal(range(space + 1))
        batch, count = Signal(), Signal(range(space + 1))
        empties = Signal()
        m.d.comb += [
            place.eq(Mux(crosses, end % space, end)),
            batch.eq(Mux(needs, self.i.p.last, final)),
            count.eq(Mux(needs, self.i.p.words, valid_words)),
            empties.eq((place == space) | (batch & (place == count))),
        ]
        with m.If(go):
            m.d.sync += have.eq(~empties)
            with m.If(needs):
                m.d.sync += [final.eq(self.i.p.last), valid_words.eq(self.i.p.words)]
            with m.If(empties):
                m.d.sync += [offset.eq(0), fresh.eq(-1)]
            with m.Else():
                m.d.sync += [offset.eq(place), fresh.eq(Cat(place > k for k in range(space)))]
        if g.beats > 1:
            beat = Signal(range(g.beats))
            with m.If(go):
                m.d.sync += beat.eq(Mux(ending, 0, beat + 1))
                m.d.sync += ending.eq(beat == g.beats - 2)
        return offset, ending, fresh, go
