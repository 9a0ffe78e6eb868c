"""The path of a batch: from request beats to the core, and from the core to response beats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module, ResetSignal, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect

from pinion.gateware.component import Component
from pinion.link import MAX_COUNT, PROTOCOL_VERSION, Cause
from pinion.link.registers import IDENTITY

from .bus import CLOCKS, COUNT, FULL, WORD, Bus, core_beat, result_beat
from .elastic import ElasticBuffer
from .holding import HoldingStage
from .packer import Packer
from .parameters import ParameterStage
from .reader import RequestReader
from .tally import Tally
from .unpacker import Unpacker
from .writer import ResponseWriter


@dataclass(frozen=True, kw_only=True)
class LinkParameters(ABC):
    """Parameters common to all tops.

    Members
    -------
    crossing : what is inside has a separate clock.
    depth : slices in the elastic buffer of each direction.
    flights : maximum number of batches in flight.
    bus : width of the streams of packets, no narrower than a core beat.
    states : the core keeps states, and has a port that resets them.
    """

    crossing: bool = True
    depth: int = 512
    flights: int = 16
    bus: Bus = FULL
    states: bool = False

    @abstractmethod
    def constants(self) -> dict[str, int]:
        """Return the values of the constant registers, by name."""


@dataclass(frozen=True, kw_only=True)
class TopParameters(LinkParameters):
    """Parameters of the link's top for a build.

    Members
    -------
    function : `pinion.link.function_id` of the function.
    build : 64-bit manifest hash.
    words_in, lanes_in, beats_in : words of a request record, and lanes and beats at the core.
    parameter_words : words of the parameters of a packet, which the core's records have as well.
    words_out, lanes_out, beats_out : the same for a result.
    ii : core cycles between results.
    core_khz, link_khz : clock rates of the build.
    """

    function: int
    build: int
    words_in: int
    lanes_in: int
    beats_in: int
    words_out: int
    lanes_out: int
    beats_out: int
    ii: int
    core_khz: int
    link_khz: int
    parameter_words: int = 0

    @property
    def parameter_records(self) -> int:
        """Number of records that contain the parameters of a packet."""
        return -(-self.parameter_words // self.words_in)

    def constants(self) -> dict[str, int]:
        """Return the values of the constant registers, by name."""
        return {
            "IDENTITY": IDENTITY,
            "VERSION": PROTOCOL_VERSION,
            "BUILD_LOW": self.build & (1 << WORD) - 1,
            "BUILD_HIGH": self.build >> WORD,
            "FUNCTIONS": 1,
            "FUNCTION_0": self.function,
            "WORDS_IN_0": self.words_in,
            "WORDS_OUT_0": self.words_out,
            "MAX_COUNT": MAX_COUNT,
            "INTERVAL": self.ii,
            "CORE_KHZ": self.core_khz,
            "LINK_KHZ": self.link_khz,
        }


class LinkPath(Component):
    """Base of the packet paths: the logic that a soft reset clears, in one clock domain.

    Parameters
    ----------
    parameters : of the top.
    signature : further members.

    Members
    -------
    request : stream of ``bus.request``.
    response : stream of ``bus.response``, ``last`` of a packet.
    clocks : In(`CLOCKS`)
    core_error : In(1)
        The core has lost the boundaries of its records; stays until its reset.
    accepted, answered, flagged, dropped : Out(1)
        An event to count occurs in this cycle.
    starved : Out(1)
        A packet has begun, but its next beat has not arrived.
    errors : Out(2)
        Number of faults detected in this cycle.
    cause : Out(`Cause`)
        The first fault since the reset.
    busy, halted : Out(1)
    """

    parameters: LinkParameters

    def __init__(self, signature: Mapping[str, Any]) -> None:
        bus = self.parameters.bus
        super().__init__(
            {
                "request": In(stream.Signature(bus.request)),
                **signature,
                "response": Out(stream.Signature(bus.response)),
                "clocks": In(CLOCKS),
                "core_error": In(1),
                **dict.fromkeys(("accepted", "answered", "flagged", "dropped", "starved"), Out(1)),
                "errors": Out(2),
                "cause": Out(Cause),
                "busy": Out(1),
                "halted": Out(1),
            }
        )

    def _ask(self, m: Module, reader: RequestReader, unpacker: Unpacker) -> None:
        """Connect the request stream to the reader and the unpacker through buffers."""
        p = self.parameters
        m.submodules.inbox = inbox = ElasticBuffer(shape=p.bus.request, depth=p.depth)
        connect(m, wiring.flipped(self.request), inbox.i)
        connect(m, inbox.o, reader.i)
        # The unpacker's ready has long logic: register it for the reader and the buffer.
        m.submodules.stage = stage = HoldingStage(shape=p.bus.payload)
        connect(m, reader.o, stage.i)
        connect(m, stage.o, unpacker.i)
        m.d.comb += stage.clear.eq(ResetSignal())
        m.d.comb += self.starved.eq(~reader.idle & ~inbox.o.valid)

    def _answer(
        self, m: Module, results: Any, tally: Tally, packer: Packer, writer: ResponseWriter
    ) -> None:
        """Connect a stream of results to the response stream through tally, packer and writer."""
        p = self.parameters
        bus = p.bus
        m.submodules.outbox = outbox = ElasticBuffer(shape=bus.response, depth=p.depth)
        # Block RAM outputs are late in their cycle, and ready passes tally and packer without a
        # register: there is one before, between and after them.
        m.submodules.result = result = HoldingStage(shape=result_beat(tally.lanes))
        connect(m, results, result.i)
        connect(m, result.o, tally.i)
        m.d.comb += result.clear.eq(ResetSignal())
        m.submodules.counted = counted = HoldingStage(shape=tally.o.payload.shape())
        connect(m, tally.o, counted.i)
        connect(m, counted.o, packer.i)
        m.d.comb += counted.clear.eq(ResetSignal())
        m.submodules.packed = packed = HoldingStage(shape=bus.response)
        connect(m, packer.o, packed.i)
        connect(m, packed.o, outbox.i)
        m.d.comb += packed.clear.eq(ResetSignal())
        m.submodules.ready = ready = HoldingStage(shape=bus.response)
        connect(m, outbox.o, ready.i)
        connect(m, ready.o, writer.payload)
        m.d.comb += ready.clear.eq(ResetSignal())
        # The writer reads four buffers at once when it moves: only by a registered ready.
        m.submodules.written = written = HoldingStage(shape=bus.response)
        connect(m, writer.o, written.i)
        connect(m, written.o, wiring.flipped(self.response))
        m.d.comb += written.clear.eq(ResetSignal())

        # Room for more flags than a batch can have, so that flags never block.
        m.submodules.flags = flags = ElasticBuffer(shape=bus.flags, depth=2 * bus.flag_slices)
        connect(m, tally.flags, flags.i)
        # Registered, because the acceptance of a word depends on its content.
        m.submodules.flagged = flagged = HoldingStage(shape=bus.flags)
        connect(m, flags.o, flagged.i)
        connect(m, flagged.o, writer.flags)
        m.d.comb += flagged.clear.eq(ResetSignal())
        m.d.comb += [
            writer.now.eq(self.clocks),
            writer.core_error.eq(self.core_error),
            self.answered.eq(tally.answered),
            self.flagged.eq(tally.flagged),
        ]

    def _report(self, m: Module, reader: RequestReader) -> None:
        """Latch the first fault, and count all faults."""
        m.d.comb += [self.dropped.eq(reader.dropped), self.halted.eq(reader.halted)]
        reported, lost = Signal(), Signal()
        m.d.sync += reported.eq(self.core_error)
        m.d.comb += [lost.eq(self.core_error & ~reported), self.errors.eq(reader.error + lost)]
        with m.If(self.cause == Cause.NONE):
            with m.If(reader.error):
                m.d.sync += self.cause.eq(reader.cause)
            with m.Elif(lost):
                m.d.sync += self.cause.eq(Cause.CORE_ERROR)

    def _batches(
        self,
        m: Module,
        reader: RequestReader,
        tally: Tally,
        writer: ResponseWriter,
        *counted: Any,
        **fields: Value,
    ) -> Value:
        """Pass batches from the reader to the tally and, with their other fields, to the writer.

        Parameters
        ----------
        counted : further streams of the numbers of records.
        fields : further fields of the writer's batches.

        Returns
        -------
        Whether a batch enters in this cycle.
        """
        flights = self.parameters.flights
        m.submodules.batches = batches = ElasticBuffer(shape=writer.shape, depth=flights)
        # Entries are read no later than their batch: if that buffer has room, these have.
        m.submodules.counts = counts = ElasticBuffer(shape=COUNT, depth=flights + 2)
        m.submodules.verdicts = verdicts = ElasticBuffer(shape=1, depth=flights + 2)
        connect(m, counts.o, tally.count)
        connect(m, batches.o, writer.batch)
        connect(m, verdicts.o, writer.verdict)
        began = Signal(CLOCKS, reset_less=True)
        entered = [counts]
        for target in counted:
            m.submodules.records = records = ElasticBuffer(shape=COUNT, depth=flights + 2)
            connect(m, records.o, target)
            entered.append(records)
        with m.If(reader.began):
            m.d.sync += began.eq(self.clocks)
        enters, leaves, room = Signal(), Signal(), Signal()
        # A cycle late, but in time: a batch has a payload before the next one needs room.
        m.d.sync += room.eq(batches.i.ready)
        m.d.comb += [
            reader.batch_ready.eq(room),
            enters.eq(reader.batch_valid & room),
            leaves.eq(writer.batch.valid & writer.batch.ready),
            batches.i.valid.eq(enters),
            batches.i.p.count.eq(reader.batch_count),
            batches.i.p.sequence.eq(reader.batch_sequence),
            batches.i.p.began.eq(began),
            *(batches.i.p[name].eq(value) for name, value in fields.items()),
            verdicts.i.valid.eq(reader.verdict_valid),
            verdicts.i.payload.eq(reader.verdict_bad),
        ]
        for buffer in entered:
            m.d.comb += [buffer.i.valid.eq(enters), buffer.i.payload.eq(reader.batch_count)]
        work = Signal(range(flights + 1))
        m.d.sync += work.eq(work + enters - leaves)
        m.d.comb += self.busy.eq((work != 0) | ~reader.idle)
        return enters


class StreamPath(LinkPath):
    """Path between packets and a core: the logic that a soft reset clears, except the core.

    Parameters
    ----------
    parameters : of the build.

    Members
    -------
    core_i, core_o : streams of ``core_beat(lanes_in)`` and ``result_beat(lanes_out)``.

    Latency: about 26 cycles besides the core; two more for each slice of a beat on a narrow bus.
    Throughput: the lower of a slice every cycle and a core beat every cycle.
    """

    parameters: TopParameters

    def __init__(self, *, parameters: TopParameters) -> None:
        self.parameters = parameters
        super().__init__(
            {
                "core_i": Out(stream.Signature(core_beat(parameters.lanes_in))),
                "core_o": In(stream.Signature(result_beat(parameters.lanes_out))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the stages in series, and beside them batches, flags and faults."""
        m = Module()
        p = self.parameters
        bus = p.bus
        m.submodules.reader = reader = RequestReader(
            words=p.words_in,
            before=p.parameter_records,
            function=p.function,
            build=p.build,
            bus=bus,
        )
        beats = -(-p.words_in // p.lanes_in)  # at the core: more with parameters
        m.submodules.unpacker = unpacker = Unpacker(
            words_per_beat=bus.words, record=p.words_in, lanes=p.lanes_in, beats=beats
        )
        self._ask(m, reader, unpacker)
        counted = []
        if p.parameter_words:
            counted.append(self._parameters(m, unpacker))
        else:
            connect(m, unpacker.o, wiring.flipped(self.core_i))

        m.submodules.tally = tally = Tally(lanes=p.lanes_out, bus=bus)
        m.submodules.packer = packer = Packer(
            words_per_beat=bus.words, record=p.words_out, lanes=p.lanes_out, beats=p.beats_out
        )
        m.submodules.writer = writer = ResponseWriter(
            words=p.words_out, function=p.function, build=p.build, bus=bus
        )
        self._answer(m, wiring.flipped(self.core_o), tally, packer, writer)
        self._batches(m, reader, tally, writer, *counted)
        m.d.comb += self.accepted.eq(self.core_i.valid & self.core_i.ready & self.core_i.p.last)
        self._report(m, reader)
        return m

    def _parameters(self, m: Module, unpacker: Unpacker) -> Any:
        """Append the parameters of a packet to its records, and return the stream of counts."""
        p = self.parameters
        m.submodules.parameters = parameters = ParameterStage(
            record=p.words_in, words=p.parameter_words, lanes=p.lanes_in
        )
        # A register behind it: words are selected by the beat, and the unpacker's ready is long.
        m.submodules.appended = appended = HoldingStage(shape=core_beat(p.lanes_in))
        connect(m, unpacker.o, parameters.i)
        connect(m, parameters.o, appended.i)
        connect(m, appended.o, wiring.flipped(self.core_i))
        m.d.comb += appended.clear.eq(ResetSignal())
        return parameters.count
