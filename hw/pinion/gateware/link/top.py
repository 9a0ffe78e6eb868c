"""The link's top-level module: everything between the DMA engine's AXI ports and the core."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from amaranth.hdl import (
    Cat,
    ClockDomain,
    ClockSignal,
    Const,
    DomainRenamer,
    Instance,
    Module,
    ResetSignal,
    Signal,
    Value,
)
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer, ResetSynchronizer
from amaranth.lib.wiring import In, Out, connect

from pinion.gateware.component import Component
from pinion.link.registers import BUSY, FRESH, HALTED, IN_RESET, OPEN, QUIET, RESET

from .bus import CLOCKS, WORD, core_beat, result_beat
from .closer import Closer
from .crossing import Crossing
from .holding import HoldingStage
from .path import LinkParameters, LinkPath, StreamPath, TopParameters
from .registers import AXI_LITE, RegisterBlock
from .sequencer import ResetSequencer

TOP = "pinion_top"
CORE = "pinion_core"

QUIET_CYCLES = 256
"""Cycles without a request beat after which the link counts as quiet."""

CROSSING_DEPTH = 33
"""Depth of a crossing in payloads: at least its round trip, and a power of two plus one."""

STAGES = 3
"""Registers of a synchroniser between clock domains."""


class LinkTop(Component):
    """Base of the tops: packet streams, registers and resets around a core or a processor.

    Parameters
    ----------
    parameters : of the top.

    Members
    -------
    clk, rst : In(1)
        The link's clock, and the synchronous configuration reset.
    core_clk : In(1), only with a crossing
    h2c_tdata, h2c_tkeep, h2c_tlast, h2c_tvalid, h2c_tready
        Requests, 512 bits (``parameters.bus``). TLAST is ignored.
    c2h_tdata, c2h_tkeep, c2h_tlast, c2h_tvalid, c2h_tready
        Responses, of the same width. An offered beat stays offered through every reset except
        ``rst``.
    s_axil_awaddr ... s_axil_rready
        AXI4-Lite, 32 bits: `pinion.link.REGISTERS`.

    Clocks: ``sync`` is the link's. ``stream`` has the same clock and the soft reset.
    """

    parameters: LinkParameters

    def __init__(self) -> None:
        parameters = self.parameters
        bus = parameters.bus
        axis = {"tdata": bus.bits, "tkeep": bus.bytes, "tlast": 1, "tvalid": 1}
        super().__init__(
            {"clk": In(1), "rst": In(1)}
            | ({"core_clk": In(1)} if parameters.crossing else {})
            | {f"h2c_{name}": In(width) for name, width in axis.items()}
            | {"h2c_tready": Out(1)}
            | {f"c2h_{name}": Out(width) for name, width in axis.items()}
            | {"c2h_tready": In(1)}
            | {f"s_axil_{name}": member for name, member in AXI_LITE.items()}
        )

    def elaborate(self, platform: object) -> Module:
        """Build the logic that survives a soft reset, around the logic that it clears."""
        m = Module()
        bus = self.parameters.bus
        m.submodules.sequencer = sequencer = ResetSequencer()
        self._domains(m, sequencer)
        state_reset = Signal()
        path = self._inside(m, sequencer, state_reset)
        registers = self._registers(m)
        if self.parameters.states:
            m.d.comb += state_reset.eq((registers.control & FRESH) != 0)

        m.submodules.closer = closer = Closer(bus=bus)
        m.submodules.holding = holding = HoldingStage(shape=bus.response)
        connect(m, path.response, closer.i)
        connect(m, closer.o, holding.i)
        accepted, whole, passes = Signal(), Signal(), Signal()
        # If a reset begins or ends within a beat, the beat's remaining slices do not begin a beat.
        place, torn = bus.place(m, accepted, "place"), Signal()
        with m.If(accepted & bus.final(place)):
            m.d.sync += torn.eq(0)
        with m.Elif(sequencer.stream_clear):
            m.d.sync += torn.eq(accepted | (place != 0))
        m.d.comb += [
            whole.eq(self.h2c_tkeep.all()),
            passes.eq(~sequencer.stream_clear & ~torn),
            path.request.p.data.eq(self.h2c_tdata),
            path.request.p.whole.eq(whole),
            path.request.valid.eq(self.h2c_tvalid & passes),
            self.h2c_tready.eq(sequencer.drain | torn | (path.request.ready & passes)),
            accepted.eq(self.h2c_tvalid & self.h2c_tready),
            self.c2h_tdata.eq(holding.o.p.data),
            self.c2h_tkeep.eq(~Const(0, bus.bytes)),
            self.c2h_tlast.eq(holding.o.p.last),
            self.c2h_tvalid.eq(holding.o.valid),
            holding.o.ready.eq(self.c2h_tready),
            holding.clear.eq(ResetSignal()),
            closer.cleared.eq(sequencer.stream_clear),
            sequencer.open.eq(closer.open | holding.o.valid),
            sequencer.held.eq((registers.control & RESET) != 0),
        ]
        self._count(m, path, registers, sequencer, accepted & (place == 0))
        with m.If(closer.sent):
            m.d.sync += [
                registers.batch_cycles.eq(closer.cycles),
                registers.sequence.eq(closer.sequence),
            ]
        m.d.comb += registers.batches.eq(closer.sent)
        return m

    def _domains(self, m: Module, sequencer: ResetSequencer) -> None:
        """Create the domains ``sync`` and ``stream``: one clock signal, two resets."""
        sync, cleared = ClockDomain("sync", local=True), ClockDomain("stream", local=True)
        sync.clk, sync.rst, cleared.clk = self.clk, self.rst, self.clk
        cleared.rst = sequencer.stream_clear
        m.domains += [sync, cleared]

    def _registers(self, m: Module) -> RegisterBlock:
        m.submodules.registers = registers = RegisterBlock(
            constants=self.parameters.constants(),
            writable={
                "CONTROL": RESET | (FRESH if self.parameters.states else 0),
                "SCRATCH": (1 << WORD) - 1,
            },
        )
        for name, member in AXI_LITE.items():
            outer, inner = getattr(self, f"s_axil_{name}"), getattr(registers, name)
            m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
        return registers

    @abstractmethod
    def _inside(self, m: Module, sequencer: ResetSequencer, state_reset: Signal) -> LinkPath:
        """Build the logic that a soft reset clears, and acknowledge the reset."""

    def _count(
        self,
        m: Module,
        path: LinkPath,
        registers: RegisterBlock,
        sequencer: ResetSequencer,
        beat: Value,
    ) -> None:
        """Build the counters and the bits of STATUS."""
        stalled, starved = Signal(), Signal()
        quiet = Signal(range(QUIET_CYCLES + 1))
        clocks = Signal(CLOCKS)
        with m.If(self.h2c_tvalid):
            m.d.sync += quiet.eq(0)
        with m.Elif(quiet != QUIET_CYCLES):
            m.d.sync += quiet.eq(quiet + 1)
        m.d.sync += [
            clocks.cycles.eq(clocks.cycles + 1),
            clocks.stalled.eq(clocks.stalled + stalled),
            clocks.starved.eq(clocks.starved + starved),
        ]
        bits = {
            BUSY: path.busy,
            HALTED: path.halted,
            OPEN: sequencer.open,
            QUIET: quiet == QUIET_CYCLES,
            IN_RESET: sequencer.in_reset,
        }
        m.d.sync += [
            stalled.eq(self.c2h_tvalid & ~self.c2h_tready),
            starved.eq(path.starved),
        ]
        m.d.comb += [
            path.clocks.eq(clocks),
            registers.accepted.eq(path.accepted),
            registers.answered.eq(path.answered),
            registers.flagged.eq(path.flagged),
            registers.dropped.eq(path.dropped + (beat & sequencer.drain)),
            registers.errors.eq(path.errors),
            registers.busy.eq(path.busy),
            registers.stalled.eq(stalled),
            registers.starved.eq(starved),
            registers.error.eq(path.cause),
        ]
        m.d.sync += registers.status.eq(
            Cat(bits.get(1 << place, 0) for place in range(max(bits).bit_length()))
        )


class Top(LinkTop):
    """The link's top around the core of a build.

    Parameters
    ----------
    parameters : of the build.
    core : component with the data ports of module ``pinion_core``, in domain ``sync``, for tests;
        None for an instance of that module.

    Clocks: ``core`` is ``core_clk`` with a separate reset, or ``stream`` without a crossing.

    Latency: the core's, plus about 30 cycles if both clocks are equal.
    Throughput: the core's, as long as the link carries enough words.
    """

    parameters: TopParameters

    def __init__(self, *, parameters: TopParameters, core: Any = None) -> None:
        self.parameters = parameters
        self.core = core
        super().__init__()

    def _inside(self, m: Module, sequencer: ResetSequencer, state_reset: Signal) -> LinkPath:
        """Build the path, and the core in its own or the link's clock domain, with its reset."""
        p = self.parameters
        path = StreamPath(parameters=p)
        m.submodules.path = DomainRenamer("stream")(path)
        request = stream.Signature(core_beat(p.lanes_in)).create(path=("core_request",))
        result = stream.Signature(result_beat(p.lanes_out)).create(path=("core_result",))
        error = Signal(name="core_error")
        if p.crossing:
            core = ClockDomain("core", local=True)
            core.clk = self.core_clk
            m.domains += core
            m.submodules.core_reset = ResetSynchronizer(
                sequencer.core_clear, domain="core", stages=STAGES
            )
            m.submodules.into = into = Crossing(
                shape=core_beat(p.lanes_in),
                depth=CROSSING_DEPTH,
                i_domain="stream",
                o_domain="core",
            )
            m.submodules.back = back = Crossing(
                shape=result_beat(p.lanes_out),
                depth=CROSSING_DEPTH,
                i_domain="core",
                o_domain="stream",
            )
            connect(m, path.core_i, into.i)
            connect(m, into.o, wiring.flipped(request))
            connect(m, result, back.i)
            connect(m, back.o, path.core_o)
            down = Signal(Crossing.RESET_CYCLES + 1, reset_less=True)
            m.d.core += down.eq(Cat(ResetSignal("core"), down[:-1]))
            m.submodules.down_sync = FFSynchronizer(down[-1], sequencer.core_down, stages=STAGES)
            m.submodules.error_sync = FFSynchronizer(
                error, path.core_error, o_domain="stream", stages=STAGES
            )
        else:
            connect(m, path.core_i, wiring.flipped(request))
            connect(m, result, path.core_o)
            m.d.sync += sequencer.core_down.eq(sequencer.core_clear)
            m.d.comb += path.core_error.eq(error)
        domain = "core" if p.crossing else "stream"
        inputs = {
            "i_tdata": request.p.data,
            "i_tlast": request.p.last,
            "i_tvalid": request.valid,
            "o_tready": result.ready,
        }
        if p.states:
            inputs["reset_state"] = fresh = Signal(name="reset_state")
            if p.crossing:
                m.submodules.state_sync = FFSynchronizer(
                    state_reset, fresh, o_domain="core", stages=STAGES
                )
            else:
                m.d.comb += fresh.eq(state_reset)
        outputs = {
            "i_tready": request.ready,
            "o_tdata": result.p.data,
            "o_tlast": result.p.last,
            "o_tuser": result.p.flag,
            "o_tvalid": result.valid,
            "protocol_error": error,
        }
        if self.core is None:
            m.submodules.core = Instance(
                CORE,
                i_clk=ClockSignal(domain),
                i_rst=ResetSignal(domain),
                **{f"i_{name}": signal for name, signal in inputs.items()},
                **{f"o_{name}": signal for name, signal in outputs.items()},
            )
        else:
            m.submodules.core = DomainRenamer(domain)(self.core)
            m.d.comb += [getattr(self.core, name).eq(signal) for name, signal in inputs.items()]
            m.d.comb += [signal.eq(getattr(self.core, name)) for name, signal in outputs.items()]
        return path
