"""Parameters of a packet, appended to each of its records."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from pinion.gateware.component import Component

from .bus import COUNT, WORD, core_beat


class ParameterStage(Component):
    """Stage that removes the parameters in front of a batch and appends them to its records.

    A batch begins with as many records as the parameters fill, zeros after them. Its records are
    never combined with another batch's parameters, so nothing has to drain when they change.

    Parameters
    ----------
    record, words : 32-bit words of an incoming record, and of the parameters.
    lanes : words of a beat.

    Members
    -------
    count : stream of the number of records after the parameters, one for each batch.
    i, o : streams of ``core_beat(lanes)``: records of ``record`` and of ``record + words`` words.

    Latency: none; a record's first parameters share a beat with its last words.
    Throughput: one beat every cycle of the side that has more of them.
    """

    def __init__(self, *, record: int, words: int, lanes: int) -> None:
        self.record = record
        self.words = words
        self.lanes = lanes
        beat = stream.Signature(core_beat(lanes))
        super().__init__({"count": In(stream.Signature(COUNT)), "i": In(beat), "o": Out(beat)})

    def elaborate(self, platform: object) -> Module:
        """Build the register of parameters, and counters of beats and records."""
        m = Module()
        lanes, record, words = self.lanes, self.record, self.words
        beats_in, beats_out = -(-record // lanes), -(-(record + words) // lanes)
        parameters = [Signal(WORD, name=f"parameter{k}", reset_less=True) for k in range(words)]
        lane_words = [self.i.p.data.word_select(k, WORD) for k in range(lanes)]
        place, left, passing = Signal(range(beats_out)), Signal(COUNT, reset_less=True), Signal()
        first_records = -(-words // record)
        turn = Signal(range(first_records))

        with m.If(~passing):
            m.d.comb += self.i.ready.eq(self.count.valid)
            ends = place == beats_in - 1
            with m.If(self.i.valid & self.i.ready):
                for number, parameter in enumerate(parameters):
                    which, (beat, lane) = number // record, divmod(number % record, lanes)
                    with m.If((turn == which) & (place == beat)):
                        m.d.sync += parameter.eq(lane_words[lane])
                m.d.sync += place.eq(Mux(ends, 0, place + 1))
                with m.If(ends):
                    m.d.sync += turn.eq(turn + 1)
                    with m.If(turn == first_records - 1):
                        m.d.comb += self.count.ready.eq(1)
                        m.d.sync += [turn.eq(0), left.eq(self.count.payload), passing.eq(1)]
        with m.Else():
            comes = place < beats_in
            m.d.comb += [
                self.o.valid.eq(~comes | self.i.valid),
                self.i.ready.eq(comes & self.o.ready),
                self.o.p.last.eq(place == beats_out - 1),
            ]
            with m.If(self.o.valid & self.o.ready):
                m.d.sync += place.eq(Mux(self.o.p.last, 0, place + 1))
                with m.If(self.o.p.last):
                    m.d.sync += [left.eq(left - 1), passing.eq(left != 1)]
        for beat in range(beats_out):
            with m.If(place == beat):
                for lane in range(lanes):
                    number = beat * lanes + lane
                    word = self.o.p.data.word_select(lane, WORD)
                    if number < record:
                        m.d.comb += word.eq(lane_words[lane])
                    elif number < record + words:
                        m.d.comb += word.eq(parameters[number - record])
        return m
