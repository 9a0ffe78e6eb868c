"""Harnesses of the gearboxes, with enough invariants of their stages for an induction.

The stages are lined up from the output to the input. A word with so many others ahead of it is in
the stage that their number reaches, and there in a place that the stage's offset tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Array, Assert, Cat, Const, Elaboratable, Module, Mux, Signal, Value

from pinion.gateware.link.geometry import Geometry

from .basics import Track, begin_stream, in_order, in_time
from .inside import Inside


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Words that a stage of a gearbox holds.

    Members
    -------
    count : how many are in it, at most ``most``.
    word : from a word's number, the oldest is 0, to its required value with the tag.
    """

    count: Value
    most: int
    word: Callable[[int], Value]


def line_up(m: Module, track: Track, stages: Sequence[Stage]) -> None:
    """Assert that the stages hold exactly the words in flight, and the marked one in its place."""
    total: Value = Const(0)
    for number, stage in enumerate(stages):
        before, place = (
            Signal.like(track.flight, name=f"{prefix}{number}") for prefix in ("before", "place")
        )
        m.d.comb += [before.eq(total), place.eq(track.ahead - before)]
        m.d.comb += Assert(stage.count <= stage.most)
        with m.If(track.marked & (track.ahead >= before) & (place < stage.count)):
            for k in range(stage.most):
                with m.If(place == k):
                    m.d.comb += Assert(track.value == stage.word(k))
        total = total + stage.count
    m.d.comb += Assert(track.flight == total)


def one_of(value: Value, choices: Sequence[int] | set[int]) -> Value:
    """Return whether a value is one of the choices."""
    return Cat(value == choice for choice in sorted(choices)).any()


def places(g: Geometry) -> set[tuple[int, int]]:
    """Return the offsets at which a record's core beats can begin, with each beat's number."""
    starts: set[tuple[int, int]] = set()
    start, beat = 0, 0
    while (start, beat) not in starts:
        starts.add((start, beat))
        words = g.tail if beat == g.beats - 1 else g.lanes
        start, beat = (start + words) % g.words_per_beat, (beat + 1) % g.beats
    return starts


def unpacker(dut: Any) -> Elaboratable:
    """Return the unpacker's harness under resets in any cycle; a word's tag means end of record."""
    inside = Inside(dut)
    m = begin_stream(dut, resets=True)
    g = dut.geometry
    i, o = dut.i, dut.o
    position = Signal(range(max(2, g.record)))  # of the next word within its record
    closed = Signal(init=1)
    enters, leaves = i.valid & i.ready, o.valid & o.ready
    count = Mux(i.p.last, i.p.words, g.words_per_beat)
    after = (position + count) % g.record
    # A batch is a whole number of records.
    whole = (i.p.words > 0) & (i.p.words <= g.words_per_beat) & (after == 0)
    with m.If(i.p.last & ~whole):
        m.d.comb += i.valid.eq(0)
    with m.If(enters):
        m.d.sync += [position.eq(after), closed.eq(i.p.last)]
    track = in_order(
        m,
        entering=Mux(enters, count, 0),
        entered=[
            Cat(i.p.data.word_select(k, g.word), position == (g.record - 1 - k) % g.record)
            for k in range(g.words_per_beat)
        ],
        leaving=Mux(leaves, Mux(o.p.last, g.tail, g.lanes), 0),
        left=[
            Cat(o.p.data.word_select(k, g.word), o.p.last if k == g.tail - 1 else Const(0, 1))
            for k in range(g.lanes)
        ],
    )
    with m.If(o.valid & o.p.last):
        m.d.comb += Assert(o.p.data[g.word * g.tail :] == 0)
    in_time(m, dut, flight=track.flight, closed=closed, limit=g.words_per_beat + 4)
    _inside_unpacker(m, inside, g, track, position=position, closed=closed)
    return m


def _inside_unpacker(
    m: Module, inside: Inside, g: Geometry, track: Track, *, position: Signal, closed: Signal
) -> None:
    space, bits = g.words_per_beat, (g.words_per_beat - 1).bit_length()
    of = inside.signal
    have, final, offset, held_beat = of("have"), of("final"), of("offset"), of("held")
    beat = of("beat") if g.beats > 1 else Const(0)
    remaining, behind = Signal(range(space + 1)), Signal(range(g.lanes * g.beats))
    m.d.comb += remaining.eq(Mux(have, Mux(final, of("valid_words"), space) - offset, 0))
    m.d.comb += behind.eq(beat * g.lanes)  # words of the record that have left the held beat

    def stage(valid: Value, ending: Value, word: Callable[[int], Value]) -> Stage:
        return Stage(
            count=Mux(valid, Mux(ending, g.tail, g.lanes), 0),
            most=g.lanes,
            word=lambda k: Cat(word(k), ending if k == g.tail - 1 else Const(0, 1)),
        )

    coarse = Array(of(f"turned{k}") for k in range(min(space, g.lanes + max(g.fine_steps))))
    merged = Array(of(f"merged{k}") for k in range(space))
    by_fine, by_all = of("turned_offset"), of("merged_offset")
    line_up(
        m,
        track,
        [
            stage(of("offered"), of("last"), lambda k: of(f"lane{k}")),
            stage(of("turned"), of("turned_ending"), lambda k: coarse[(by_fine + k)[:bits]]),
            stage(of("merged"), of("merged_ending"), lambda k: merged[(by_all + k)[:bits]]),
            Stage(
                count=remaining,
                most=space,
                word=lambda k: Cat(
                    held_beat.word_select((offset + k)[:bits], g.word),
                    (behind + k) % g.record == g.record - 1,
                ),
            ),
        ],
    )
    m.d.comb += [
        Assert(position == (behind + remaining) % g.record),
        Assert(~closed | (position == 0)),
        Assert(have == (offset != 0)),
        Assert(of("fresh") == Mux(have, Cat(offset > k for k in range(space)), (1 << space) - 1)),
        Assert(of("ending") == (beat == g.beats - 1) if g.beats > 1 else Const(1)),
        Assert(one_of(Cat(offset, beat), {at + space * number for at, number in places(g)})),
        Assert(~of("merged") | one_of(by_all, g.offsets)),
        Assert(~of("turned") | one_of(by_fine, g.fine_steps)),
    ]
    with m.If(have):
        m.d.comb += Assert(final == closed)
        with m.If(final):
            m.d.comb += Assert((offset < of("valid_words")) & (of("valid_words") <= space))


def packer(dut: Any) -> Elaboratable:
    """Return the packer's harness under resets; padding words enter with a batch's end.

    A word's tag says that it is the last of its batch's last beat.
    """
    inside = Inside(dut)
    m = begin_stream(dut, resets=True)
    g = dut.geometry
    i, o = dut.i, dut.o
    space = g.words_per_beat
    beat = Signal(range(max(2, g.beats)))
    position = Signal(range(space))  # of the next word within its wide beat
    closed = Signal(init=1)
    enters, leaves = i.valid & i.ready, o.valid & o.ready
    with m.If(i.p.last != (beat == g.beats - 1)):  # last is the beat's number, and no free input
        m.d.comb += i.valid.eq(0)
    closing = i.p.last & i.p.final
    words = Mux(i.p.last, g.tail, g.lanes)
    end = Signal(range(3 * space))
    m.d.comb += end.eq(position + words)
    padding = Mux(closing, (-end)[: len(position)], 0)
    with m.If(enters):
        m.d.sync += beat.eq(Mux(i.p.last, 0, beat + 1))
        m.d.sync += position.eq(Mux(closing, 0, end % space))
        m.d.sync += closed.eq(closing)
    total = Signal(range(3 * space))
    m.d.comb += total.eq(words + padding)
    entered = []
    for k in range(g.lanes + space - 1):
        lane = i.p.data.word_select(k, g.word) if k < g.lanes else Const(0, g.word)
        entered.append(Cat(Mux(words > k, lane, 0)[: g.word], closing & (total == k + 1)))
    track = in_order(
        m,
        entering=Mux(enters, total, 0),
        entered=entered,
        leaving=Mux(leaves, space, 0),
        left=[
            Cat(o.p.data.word_select(k, g.word), o.p.last if k == space - 1 else Const(0, 1))
            for k in range(space)
        ],
    )
    in_time(m, dut, flight=track.flight, closed=closed, limit=space + 4)
    m.d.comb += Assert(position == inside.signal("offset"))
    m.d.comb += Assert(
        one_of(Cat(position, beat), {at + space * number for at, number in places(g)})
    )
    _inside_packer(m, inside, g, track, closed=closed)
    return m


@dataclass(frozen=True, kw_only=True)
class Beat:
    """Core beat in the packer: where it begins, and whether it ends a record or batch."""

    valid: Value
    offset: Value
    ending: Value
    closing: Value
    words: Signal
    end: Signal
    total: Signal
    following: Signal


def _beat(
    m: Module, g: Geometry, valid: Value, offset: Value, ending: Value, closing: Value
) -> Beat:
    space = g.words_per_beat
    words, end, total = (Signal(range(3 * space), name=n) for n in ("words", "end", "total"))
    following = Signal(range(space))
    m.d.comb += [
        words.eq(Mux(ending, g.tail, g.lanes)),
        end.eq(offset + words),
        total.eq(words + Mux(closing, (-end)[: len(following)], 0)),
        following.eq(Mux(closing, 0, end)),
        Assert(~valid | one_of(offset, g.offsets)),
        Assert(~valid | ending | ~closing),
    ]
    return Beat(
        valid=valid,
        offset=offset,
        ending=ending,
        closing=closing,
        words=words,
        end=end,
        total=total,
        following=following,
    )


def _inside_packer(m: Module, inside: Inside, g: Geometry, track: Track, *, closed: Signal) -> None:
    space, bits = g.words_per_beat, (g.words_per_beat - 1).bit_length()
    of = inside.signal
    offset, rest = of("offset"), of("rest")
    turned = _beat(m, g, of("turned"), of("turned_offset"), of("turned_end"), of("turned_close"))
    # The next stage has masks instead of the offset.
    copies = [Signal.like(of(name)) for name in ("turned_offset", "turned_end", "turned_close")]
    with m.If(of("put")):
        m.d.sync += [
            copy.eq(value)
            for copy, value in zip(
                copies, (turned.offset, turned.ending, turned.closing), strict=True
            )
        ]
    placed = _beat(m, g, of("placed"), *copies)
    upstream, gathers = Signal(range(space)), Signal(range(space))
    m.d.comb += [
        upstream.eq(Mux(turned.valid, turned.offset, offset)),
        gathers.eq(Mux(placed.valid, placed.offset, upstream)),
        Assert(~turned.valid | (offset == turned.following)),
        Assert(~placed.valid | (upstream == placed.following)),
        Assert(~rest | (gathers == 0)),
    ]
    with m.If(placed.valid):
        m.d.comb += [
            Assert(of("early") == Cat(placed.offset > k for k in range(space))),
            Assert(of("fills") == (placed.end >= space)),
            Assert(of("rests") == (placed.closing & (placed.end > space))),
            Assert(of("ends") == (placed.closing & (placed.end <= space))),
        ]
        for k in range(space):
            wraps = placed.end > space + k
            m.d.comb += Assert(of("live")[k] == Mux(placed.offset > k, wraps, placed.end > k))
    with m.If(closed):  # the last word ends a batch, wherever it is
        m.d.comb += Assert(offset == 0)
        with m.If(turned.valid):
            m.d.comb += Assert(turned.closing)
        with m.Elif(placed.valid):
            m.d.comb += Assert(placed.closing)

    def moving(at: Beat, word: Callable[[int], Value]) -> Stage:
        return Stage(
            count=Mux(at.valid, at.total, 0),
            most=g.lanes + space - 1,
            word=lambda k: Cat(
                Mux(at.words > k, word(k), 0)[: g.word], at.closing & (at.total == k + 1)
            ),
        )

    def standing(count: Value, name: str, last: Value) -> Stage:
        return Stage(
            count=count,
            most=space,
            word=lambda k: Cat(of(f"{name}{k}"), last if k == space - 1 else Const(0, 1)),
        )

    fine, words = (Array(of(f"{n}{k}") for k in range(space)) for n in ("turned", "placed"))
    line_up(
        m,
        track,
        [
            standing(Mux(of("offered"), space, 0), "out", of("last")),
            standing(Mux(rest, space, gathers), "waiting", rest),
            moving(placed, lambda k: words[(placed.offset + k)[:bits]]),
            moving(turned, lambda k: fine[(turned.offset % g.fine + k)[:bits]]),
        ],
    )
