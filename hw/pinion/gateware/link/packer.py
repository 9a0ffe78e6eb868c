"""Conversion of the core's record-aligned beats to dense words in wide beats."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component

from .geometry import Geometry, choose


class Packer(Component):
    """Gearbox that packs records densely.

    Three registered steps, each one LUT deep for a bit of data: `fine` and `coarse` rotate the
    words of a core beat to their place in the wide beat, `gather` adds them to the waiting words. A
    core beat fills at most one wide beat and begins another; the rest of a batch is output
    separately while the next batch begins. Only offsets that occur get a multiplexer input.

    Parameters
    ----------
    word : bits of a word.
    words_per_beat : words of a wide beat, a power of two.
    record, lanes, beats : words of a record, words of a core beat, core beats of a record.

    Members
    -------
    i : stream of ``{data: word * lanes, last: 1, flag: 1, final: 1}``.
        ``last`` marks each record's last beat: lanes after the record are ignored. ``final`` is
        read there: the record is its batch's last. ``flag`` is ignored.
    o : stream of ``{data: word * words_per_beat, last: 1}``.
        ``last`` marks the batch's last beat, in which words after the batch are zero.

    Latency: 3 cycles from a core beat's acceptance to the offer of the wide beat that it
    completes.
    Throughput: one core beat every cycle; one cycle more if a batch's last core beat leaves a
    remainder and the next batch's first fills a whole wide beat (as many lanes as words).
    Longest path: 3 LUTs, from the output's ready to the input's (105 words, 14 lanes, Yosys).
    """

    def __init__(
        self, *, word: int = 32, words_per_beat: int = 16, record: int, lanes: int, beats: int
    ) -> None:
        self.geometry = Geometry(
            word=word, words_per_beat=words_per_beat, record=record, lanes=lanes, beats=beats
        )
        core = data.StructLayout({"data": word * lanes, "last": 1, "flag": 1, "final": 1})
        wide = data.StructLayout({"data": word * words_per_beat, "last": 1})
        super().__init__({"i": In(stream.Signature(core)), "o": Out(stream.Signature(wide))})

    def elaborate(self, platform: object) -> Module:
        """Build the rotation in two steps, and the register for the words of an incomplete beat."""
        m = Module()
        g = self.geometry
        space = g.words_per_beat
        turned, placed, offered = (Signal(name=n) for n in ("turned", "placed", "offered"))
        turn, put, gather = (Signal(name=n) for n in ("turn", "put", "gather"))
        free = Signal()
        m.d.comb += [
            free.eq(~offered | self.o.ready),
            put.eq(~placed | gather),
            turn.eq(~turned | put),
            self.i.ready.eq(turn),
            self.o.valid.eq(offered),
        ]
        ending = self.i.p.last
        closing = Signal()
        m.d.comb += closing.eq(ending & self.i.p.final)

        # Fine: rotate upwards by the offset's part below `fine`.
        offset = Signal(range(space))
        lanes = [self.i.p.data.word_select(k, g.word) for k in range(g.lanes)]
        source = lanes + [Const(0, g.word)] * (space - g.lanes)
        fine = [Signal(g.word, name=f"turned{k}", reset_less=True) for k in range(space)]
        turned_offset = Signal(range(space), reset_less=True)
        turned_ending, turned_closing = (Signal(name=n) for n in ("turned_end", "turned_close"))
        with m.If(turn):
            m.d.sync += [
                turned.eq(self.i.valid),
                turned_offset.eq(offset),
                turned_ending.eq(ending),
                turned_closing.eq(closing),
            ]
            with m.If(self.i.valid):
                following = g.end(m, offset, ending, "following")
                m.d.sync += offset.eq(Mux(closing, 0, following % space))
            by = offset % g.fine
            choose(m, by, g.fine_steps, fine, lambda k, n: source[(k - n) % space])

        # Coarse: the rest of the rotation, and each word's destination.
        words = [Signal(g.word, name=f"placed{k}", reset_less=True) for k in range(space)]
        early = Signal(space, reset_less=True)  # words before the offset, which are waiting words
        live = Signal(space, reset_less=True)  # words of this core beat
        fills, rests, closes = (Signal(name=n, reset_less=True) for n in ("fills", "rests", "ends"))
        with m.If(put):
            end = g.end(m, turned_offset, turned_ending, "end")
            m.d.sync += [
                placed.eq(turned),
                fills.eq(end >= space),
                rests.eq(turned_closing & (end > space)),
                closes.eq(turned_closing & (end <= space)),
            ]
            for k in range(space):
                m.d.sync += early[k].eq(turned_offset > k)
                m.d.sync += live[k].eq(Mux(turned_offset > k, end > space + k, end > k))
            by = turned_offset // g.fine
            choose(m, by, g.coarse_steps, words, lambda k, n: fine[(k - n * g.fine) % space])

        # Gather: output a complete beat, and let the other words wait.
        waiting = [Signal(g.word, name=f"waiting{k}", reset_less=True) for k in range(space)]
        rest = Signal()  # the waiting words end a batch
        last = Signal(reset_less=True)
        out = [Signal(g.word, name=f"out{k}", reset_less=True) for k in range(space)]
        m.d.comb += gather.eq(placed & free & ~(rest & fills))
        with m.If(free):
            m.d.sync += offered.eq(rest | (placed & (fills | closes)))
            m.d.sync += last.eq(rest | closes)
            for k, word in enumerate(out):
                fresh = Mux(live[k], words[k], 0)
                m.d.sync += word.eq(Mux(rest | early[k], waiting[k], fresh))
            with m.If(gather):
                m.d.sync += rest.eq(Mux(rest, closes, rests))
                for k, word in enumerate(waiting):
                    fresh = Mux(live[k], words[k], 0)
                    remaining = Mux(early[k], waiting[k], fresh)
                    m.d.sync += word.eq(Mux(fills, Mux(early[k], fresh, 0), remaining))
            with m.Else():
                m.d.sync += rest.eq(0)
        for k, word in enumerate(out):
            m.d.comb += self.o.p.data.word_select(k, g.word).eq(word)
        m.d.comb += self.o.p.last.eq(last)
        return m
