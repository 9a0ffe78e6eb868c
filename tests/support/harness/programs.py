"""Harnesses of the processor: loads of programs, their names, and the rows of a team."""

from __future__ import annotations

from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cat, Cover, Elaboratable, Mux, Signal, Value

from pinion.gateware.link.bus import WORD
from pinion.gateware.processor.team import fields_of
from pinion.processor.encoding import NO_SOURCE, width_of
from pinion.processor.image import NAME, STORE_PLACE

from .basics import begin, offer_anything, stable
from .inside import Inside


def loader(dut: Any) -> Elaboratable:
    """Return the loader's harness: each record stores its word once, and is answered once."""
    inside = Inside(dut)
    m = begin(dut, dut.o.ready)
    offer_anything(m, dut.i)
    stable(m, dut.o.valid, dut.o.ready, Value.cast(dut.o.payload))
    words = [Signal(WORD, name=f"word{k}") for k in range(dut.size)]
    place, full, stored = Signal(range(dut.size)), Signal(), Signal()
    with m.If(dut.i.valid & dut.i.ready):
        m.d.comb += Assert(~full)
        for k, word in enumerate(words):
            with m.If(place == k):
                m.d.sync += word.eq(dut.i.payload)
        m.d.sync += place.eq(Mux(place == dut.size - 1, 0, place + 1))
        with m.If(place == dut.size - 1):
            m.d.sync += full.eq(1)
    with m.If(dut.store):
        m.d.sync += stored.eq(1)
        m.d.comb += [
            Assert(dut.store_in == words[0][STORE_PLACE : STORE_PLACE + len(dut.store_in)]),
            Assert(dut.store_at == words[0][: len(dut.store_at)]),
            Assert(dut.store_data == Cat(*words[1:])[: len(dut.store_data)]),
        ]
    with m.If(dut.o.valid):
        m.d.comb += [Assert(full & stored), Assert(dut.o.p.data == words[0]), Assert(dut.o.p.last)]
        with m.If(dut.o.ready):
            m.d.sync += [full.eq(0), stored.eq(0)]
    m.d.comb += [Assert(dut.store == (full & ~stored)), Cover(dut.o.valid)]
    # Where the words of the record are inside.
    first, data = inside.signal("first"), inside.signal("data")
    m.d.comb += [
        Assert(inside.signal("place") == place),
        Assert(place < dut.size),
        Assert(~full | (place == 0)),
        Assert(~stored | full),
        Assert(inside.state("TAKE") == ~full),
        Assert(inside.state("ANSWER") == stored),
    ]
    for k in range(1, dut.size + 1):
        complete = full if k == dut.size else (place == k)
        with m.If(complete):
            m.d.comb += Assert(first == words[0])
            if k > 1:
                m.d.comb += Assert(data[(dut.size - k) * WORD :] == Cat(*words[1:k]))
    return m


def directory(dut: Any) -> Elaboratable:
    """Return the directory's harness: a program is resident if stored since the last clear."""
    inside = Inside(dut)
    m = begin(dut, dut.write, dut.at, dut.data, dut.clear, dut.asked, dut.build)
    waits, before = Signal(), Signal.like(dut.build)
    m.d.sync += [waits.eq(dut.asked & ~dut.answered), before.eq(dut.build)]
    with m.If(waits):
        m.d.comb += Assume(dut.asked & (dut.build == before))
    with m.If(dut.asked):
        m.d.comb += Assume(~dut.write & ~dut.clear)
    # Of one name, any of them.
    slot, stored = AnyConst(range(2 ** len(dut.at))), Signal()
    m.d.comb += Assume(slot < dut.machine.functions)
    name = fields_of(inside.look("names", slot), NAME)
    with m.If(dut.clear):
        m.d.sync += stored.eq(0)
    with m.Elif(dut.write & (dut.at == slot)):
        m.d.sync += stored.eq(1)
    answers = stored & (name["build"] == dut.build)
    with m.If(dut.answered):
        m.d.comb += [
            Assert(dut.loads == (dut.build == dut.machine.digest)),
            Assert(~answers | dut.resident),
            Cover(dut.resident & ~dut.loads & (dut.number == slot)),
        ]
        with m.If(dut.resident & ~dut.loads & (dut.number == slot)):
            m.d.comb += [
                Assert(answers),
                *(
                    Assert(getattr(dut, field) == name[field])
                    for field in ("function", "words_in", "words_out")
                ),
            ]
    # The search so far has not seen the name.
    place, search = inside.signal("place"), inside.state("SEARCH")
    valid = inside.signal("valid")
    m.d.comb += [
        # No name has been stored before the harness begins to watch.
        Assert((valid >> slot)[0] == stored),
        Assert(inside.state("REST", "SEARCH", "ANSWER")),
        Assert(~search | (place < dut.machine.functions)),
        Assert(~search | (place <= slot) | ~answers),
        Assert(inside.state("REST") | waits),
        Assert(~dut.answered | (dut.resident | ~answers)),
    ]
    return m


def sequencer(dut: Any) -> Elaboratable:
    """Return the sequencer's harness: it gives each row of a program once, in its cycle."""
    inside = Inside(dut)
    m = begin(dut, dut.program_write, dut.program_row, dut.program_data, dut.start, dut.first_row)
    # The age of a program in cycles, 0 of none; row k of it is read in cycle k + 2, and issued in
    # the next.
    age = Signal(range(dut.program_rows + 4))
    first, last = Signal.like(dut.first_row), Signal.like(dut.first_row)
    m.d.comb += [
        dut.last_row.eq(last),
        Assume(~(dut.busy & (dut.program_write | dut.start))),
        Assume(~dut.start | ~dut.program_write),
    ]
    ends = AnySeq(len(last))
    with m.If(dut.start):
        m.d.comb += [Assume(dut.first_row <= ends), Assume(ends < dut.program_rows)]
        m.d.sync += [age.eq(1), first.eq(dut.first_row), last.eq(ends)]
    with m.Elif(age == last - first + 3):
        m.d.sync += age.eq(0)
    with m.Elif(age != 0):
        m.d.sync += age.eq(age + 1)
    count = Signal(range(dut.program_rows + 1))
    row, issued = Signal.like(first), Signal()
    slices = range(-(-len(dut.data) // dut.slice))
    word = Cat(inside.look(f"program{k}", row) for k in slices)
    m.d.comb += [
        count.eq(last - first + 1),
        *(row.eq(first + age - 3), issued.eq((age >= 3) & (age <= count + 2))),
        Assert(dut.busy == (age != 0)),
        Assert(dut.data == Mux(issued, word, 0)),
        Cover(age == 5),
    ]
    # How the registers hang together with the age.
    running, executes, follows = map(inside.signal, ("running", "executes", "follows"))
    m.d.comb += [
        Assert((first <= last) & (last < dut.program_rows)),
        Assert(age <= count + 2),
        Assert(running == ((age >= 1) & (age <= count))),
        Assert(executes == ((age >= 2) & (age <= count + 1))),
        Assert(follows == issued),
        Assert(~running | (inside.signal("row") == first + age - 1)),
        Assert(~follows | (inside.signal("word") == word)),
    ]
    return m


def team(dut: Any) -> Elaboratable:
    """Return a team's harness: lanes do what the row of the cycle before says, and no more."""
    inside = Inside(dut)
    machine, encoding = dut.encoding.machine, dut.encoding
    lanes = [inside.hollow(f"lane{k}") for k in range(machine.lanes)]
    inverse = inside.hollow("inverse")
    m = begin(
        dut,
        *(dut.data, dut.load, dut.load_to, dut.load_word, dut.input, dut.start),
        *(signal for lane in lanes for signal in (lane.result, lane.clipped)),
        *(inverse.o, inverse.lost),
    )
    data = Signal.like(dut.data)
    m.d.sync += data.eq(dut.data)
    m.d.comb += [Assert(inside.signal("row") == data), Cover(data.any())]

    results = [*(lane.result for lane in lanes), inverse.o, dut.input]
    for number, lane in enumerate(lanes):
        fields = fields_of(data[number * width_of(encoding.lane) :], encoding.lane)
        for name, value in fields.items():
            if name not in ("source", "to"):
                m.d.comb += Assert(getattr(lane, name) == value)
        loads, address = dut.load[number], len(fields["to"])
        m.d.comb += Assert(lane.write == (loads | (fields["source"] != NO_SOURCE)))
        with m.If(loads):
            to = dut.load_to.word_select(number, address)
            m.d.comb += [Assert(lane.word == dut.load_word), Assert(lane.to == to)]
        for code, result in enumerate(results, NO_SOURCE + 1):
            with m.If(~loads & (fields["source"] == code)):
                m.d.comb += [Assert(lane.word == result), Assert(lane.to == fields["to"])]
    fields = fields_of(data[machine.lanes * width_of(encoding.lane) :], encoding.team)
    m.d.comb += [
        Assert(dut.output == (fields["output_source"] != NO_SOURCE)),
        Assert(inverse.valid == (fields["operand"] != NO_SOURCE)),
        Assert(inverse.points == fields["points"]),
        Assert(dut.output_place == fields["output"]),
    ]
    for code, result in enumerate(results, NO_SOURCE + 1):
        with m.If(fields["output_source"] == code):
            m.d.comb += Assert(dut.output_word == result)
        with m.If(fields["operand"] == code):
            m.d.comb += Assert(inverse.x == result)
    # A flag is of the sample that began last.
    flag = Signal()
    lost = Cat(*(lane.clipped for lane in lanes), inverse.lost).any()
    with m.If(lost):
        m.d.sync += flag.eq(1)
    with m.Elif(dut.start):
        m.d.sync += flag.eq(0)
    m.d.comb += Assert(dut.flag == flag)
    return m
