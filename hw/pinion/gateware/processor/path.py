"""Packets to and from a processor: requests of resident programs, and loads of programs."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import stream
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In, Out

from pinion.gateware.link.bus import BATCH, FULL, WORD, Bus, beat_of, result_beat
from pinion.gateware.link.elastic import ElasticBuffer
from pinion.gateware.link.packer import Packer
from pinion.gateware.link.path import LinkParameters, LinkPath
from pinion.gateware.link.reader import RequestReader
from pinion.gateware.link.tally import Tally
from pinion.gateware.link.unpacker import Unpacker
from pinion.gateware.link.writer import ResponseWriter
from pinion.link import HEADER, MAX_COUNT, PROTOCOL_VERSION, Cause, Magic
from pinion.link.registers import IDENTITY
from pinion.processor import Machine
from pinion.processor.image import LOADER, NAME, RESULT_WORDS, Store, record_words

from .directory import Directory
from .loader import Loader
from .processor import Processor

NAMES = {name: field.width for name, field in NAME.items()}


@dataclass(frozen=True, kw_only=True)
class ProcessorParameters(LinkParameters):
    """Parameters of a processor's top.

    Members
    -------
    machine, teams : of the processor.
    link_khz : clock rate.
    """

    machine: Machine
    teams: int = 1
    link_khz: int
    crossing: bool = False

    @property
    def most_words(self) -> int:
        """Largest number of words in a request record."""
        return max(self.machine.inputs, record_words(self.machine))

    def constants(self) -> dict[str, int]:
        """Return the values of the constant registers, by name; function 0 is the loader."""
        return {
            "IDENTITY": IDENTITY,
            "VERSION": PROTOCOL_VERSION,
            "BUILD_LOW": self.machine.digest & (1 << WORD) - 1,
            "BUILD_HIGH": self.machine.digest >> WORD,
            "FUNCTIONS": self.machine.functions,
            "FUNCTION_0": LOADER,
            "WORDS_IN_0": record_words(self.machine),
            "WORDS_OUT_0": RESULT_WORDS,
            "MAX_COUNT": MAX_COUNT,
            "INTERVAL": 0,
            "CORE_KHZ": self.link_khz,
            "LINK_KHZ": self.link_khz,
        }


class ProgramReader(RequestReader):
    """Request reader that looks up the program that a header names.

    Parameters
    ----------
    words : most words of a request record.
    bus : width of the streams.

    Members
    -------
    look_build, look_asked : Out
        A hash to look up; both stay until it is answered.
    look_answered, look_resident, look_function, look_words : In
        As of :class:`.directory.Directory`; ``look_words`` of a request.
    batch_words : Out
        With ``batch_valid``: words of the payload.
    """

    after_header = "LOOK"

    def __init__(self, *, words: int, bus: Bus = FULL) -> None:
        super().__init__(
            words=words,
            function=0,
            build=0,
            bus=bus,
            signature={
                "look_build": Out(NAMES["build"]),
                "look_asked": Out(1),
                "look_answered": In(1),
                "look_resident": In(1),
                "look_function": In(NAMES["function"]),
                "look_words": In(NAMES["words_in"]),
                "batch_words": Out(range(MAX_COUNT * words + 1)),
            },
        )

    def elaborate(self, platform: object) -> Module:
        """Build the reader, with registers for the fields that name a program."""
        self._function = Signal(WORD, name="function", reset_less=True)
        self._words = Signal(WORD, name="words", reset_less=True)
        self._build = Signal(NAMES["build"], name="build", reset_less=True)
        m = super().elaborate(platform)
        m.d.comb += self.look_build.eq(self._build)
        # The product of words and records is ready in the cycle after the check.
        m.d.sync += self.batch_words.eq(self._payload_words(self.batch_count))
        return m

    def _names(self) -> dict[str, Signal]:
        return {"function": self._function, "words": self._words, "build": self._build}

    def _states(self, m: Module, faults: Signal) -> None:
        with m.State("LOOK"):
            m.d.comb += self.look_asked.eq(1)
            with m.If(self.look_answered):
                resident = self.look_resident
                m.d.sync += [
                    faults[Cause.BUILD].eq(~resident),
                    faults[Cause.FUNCTION].eq(resident & (self._function != self.look_function)),
                    faults[Cause.WORDS].eq(resident & (self._words != self.look_words)),
                ]
                m.next = "CHECK"

    def _payload_words(self, count: Value) -> Value:
        return count * self.look_words

    def _compare(self, data: Value) -> dict[Cause, tuple[str, Value]]:
        causes = super()._compare(data)
        return {cause: causes[cause] for cause in (Cause.MAGIC, Cause.VERSION, Cause.COUNT)}


class ProgramWriter(ResponseWriter):
    """Response writer whose headers name the program of their batch."""

    shape = StructLayout(
        {**BATCH.members, "function": WORD, "build": NAMES["build"], "words": NAMES["words_out"]}
    )

    def __init__(self, *, bus: Bus = FULL) -> None:
        super().__init__(words=0, function=0, build=0, bus=bus)

    def _header(self) -> Value:
        batch = self.batch.p
        return beat_of(
            HEADER,
            magic=Magic.RESPONSE,
            version=PROTOCOL_VERSION,
            function=batch.function,
            count=batch.count,
            sequence=batch.sequence,
            words=batch.words,
            build=batch.build,
        )


class ProcessorPath(LinkPath):
    """Processor with its packet reader and writer, in one clock domain.

    Requests go to the program that their header names by its hash, if it is resident. Programs are
    loaded by packets with the machine's digest: a load waits until all results of earlier requests
    have been handed over, and a header until all loads before it are stored. A load that is not
    whole, because its checksum is wrong, leaves no program resident.

    Parameters
    ----------
    parameters : of the top.
    """

    parameters: ProcessorParameters

    def __init__(self, *, parameters: ProcessorParameters) -> None:
        self.parameters = parameters
        super().__init__({})

    def elaborate(self, platform: object) -> Module:
        """Build the path of a batch: reader, processor or loader, writer."""
        m = Module()
        p = self.parameters
        bus, machine = p.bus, p.machine
        m.submodules.reader = reader = ProgramReader(words=p.most_words, bus=bus)
        # A record of one word: the processor knows the lengths of records.
        m.submodules.unpacker = unpacker = Unpacker(
            words_per_beat=bus.words, record=1, lanes=1, beats=1
        )
        self._ask(m, reader, unpacker)
        m.submodules.processor = processor = Processor(machine=machine, teams=p.teams)
        m.submodules.loader = loader = Loader(machine=machine)
        m.submodules.directory = directory = Directory(machine=machine)

        m.submodules.tally = tally = Tally(lanes=1, bus=bus)
        m.submodules.packer = packer = Packer(words_per_beat=bus.words, record=1, lanes=1, beats=1)
        m.submodules.writer = writer = ProgramWriter(bus=bus)
        results = stream.Signature(result_beat(1)).create(path=("results",))
        self._answer(m, results, tally, packer, writer)
        enters = self._batches(
            m,
            reader,
            tally,
            writer,
            function=directory.function,
            build=reader.look_build,
            words=directory.words_out,
        )
        stored = self._jobs(m, reader, unpacker, processor, loader, directory, enters)
        self._loads(m, reader, loader, processor, directory, enters & directory.loads, stored)
        # While a load is answered, the processor has no results.
        m.d.comb += [
            results.valid.eq(processor.o_valid | loader.o.valid),
            Cat(results.p.data, results.p.last, results.p.flag).eq(
                Mux(
                    loader.o.valid,
                    loader.o.payload.as_value(),
                    Cat(processor.o_word, processor.o_last, processor.o_last & processor.o_flag),
                )
            ),
            loader.o.ready.eq(results.ready),
            processor.o_ready.eq(results.ready & ~loader.o.valid),
        ]
        m.d.comb += self.accepted.eq(processor.taken | loader.store)
        self._report(m, reader)
        return m

    def _jobs(
        self,
        m: Module,
        reader: ProgramReader,
        unpacker: Unpacker,
        processor: Processor,
        loader: Loader,
        directory: Directory,
        enters: ValueLike,
    ) -> Value:
        """Pass the words of each batch to the processor or the loader, in order.

        Returns
        -------
        Whether the last word of a load passes in this cycle.
        """
        job = StructLayout(
            {
                "number": len(directory.number),
                "loads": 1,
                "words": len(reader.batch_words),
            }
        )
        m.submodules.jobs = jobs = ElasticBuffer(shape=job, depth=self.parameters.flights + 2)
        m.d.comb += [
            jobs.i.valid.eq(enters),
            jobs.i.p.number.eq(directory.number),
            jobs.i.p.loads.eq(directory.loads),
            jobs.i.p.words.eq(reader.batch_words),
        ]
        left = Signal.like(reader.batch_words)
        active, passes, ends = (Signal(name=name) for name in ("active", "passes", "ends"))
        loads = jobs.o.p.loads
        ready = Mux(loads, loader.i.ready, processor.i_ready)
        m.d.comb += [
            processor.i_word.eq(unpacker.o.p.data),
            processor.i_function.eq(jobs.o.p.number),
            processor.i_valid.eq(unpacker.o.valid & active & ~loads),
            loader.i.payload.eq(unpacker.o.p.data),
            loader.i.valid.eq(unpacker.o.valid & active & loads),
            unpacker.o.ready.eq(active & ready),
            passes.eq(unpacker.o.valid & unpacker.o.ready),
            ends.eq(passes & (left == 1)),
            jobs.o.ready.eq(ends),
        ]
        with m.If(~active):
            m.d.sync += left.eq(jobs.o.p.words)
            with m.If(jobs.o.valid & ~(loads & processor.busy)):
                m.d.sync += active.eq(1)
        with m.Elif(passes):
            m.d.sync += left.eq(left - 1)
            with m.If(ends):
                m.d.sync += active.eq(0)
        return ends & loads

    def _loads(
        self,
        m: Module,
        reader: ProgramReader,
        loader: Loader,
        processor: Processor,
        directory: Directory,
        enters: ValueLike,
        stored: Value,
    ) -> None:
        """Connect the loader to the memories, and answer header look-ups between loads."""
        pending = Signal(range(self.parameters.flights + 3))
        is_load, damaged = Signal(), Signal()
        judged = reader.verdict_valid & is_load  # the verdict of the batch that came last
        m.d.sync += pending.eq(pending + Value.cast(enters) - stored)
        with m.If(enters):
            m.d.sync += is_load.eq(1)
        with m.Elif(judged):
            m.d.sync += is_load.eq(0)
        settled = (pending == 0) & ~is_load & ~loader.store
        with m.If(judged & reader.verdict_bad):
            m.d.sync += damaged.eq(1)
        with m.Elif(damaged & settled):
            m.d.sync += damaged.eq(0)
        is_name = loader.store_in == Store.NAMES
        # A register, because the memories are far.
        m.d.sync += [
            processor.store.eq(loader.store & ~is_name),
            processor.store_in.eq(loader.store_in),
            processor.store_at.eq(loader.store_at),
            processor.store_data.eq(loader.store_data),
        ]
        m.d.comb += [
            directory.write.eq(loader.store & is_name),
            directory.at.eq(loader.store_at),
            directory.data.eq(loader.store_data),
            directory.clear.eq((loader.store & ~is_name) | (damaged & settled)),
            directory.build.eq(reader.look_build),
            directory.asked.eq(reader.look_asked & settled & ~damaged),
            reader.look_answered.eq(directory.answered),
            reader.look_resident.eq(directory.resident),
            reader.look_function.eq(directory.function),
            reader.look_words.eq(directory.words_in),
        ]
