"""Tops that break the card's own rules, each caught by the bench at the AXI side.

The numbers are those of the traps of the vendor's DMA driver: what is the driver's part of them is
tested beside the driver, what is the card's part is tested here. Each mutant is the source of one
component with one expression replaced; the bench stops at it with a sentence that names the rule,
and has nothing to say of the whole top in the same steps with the same seed.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from amaranth.lib.data import StructLayout

from pinion.gateware.link import closer, elastic, holding, path, reader, registers, top, unpacker
from pinion.gateware.link import writer as writer_module
from pinion.gateware.link.bus import Bus
from tests.card.small_tops import small_build, small_top
from tests.gateware.link.mutants import mutant
from tests.support.top.runner import Scenario, TopComplaintError, run_top_bench

pytestmark = pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus is not installed")

STEPS = ("identity", "traffic", "back_pressure", "partial_beat", "soft_resets")
SETTINGS: dict[str, Any] = {
    **{"seed": 5, "core_rate": 1.2, "rounds": 1, "batches": 4, "stall": 260},
    **{"resets": 3, "latest": 500, "limit": 1500, "polls": 80},
}


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_build(tmp_path_factory.mktemp("core"))


def bench(core: Path, folder: Path, *steps: str, broken: type[top.Top] = top.Top) -> dict[str, int]:
    return dict(
        run_top_bench(
            verilog=small_top(core, folder, top=broken),
            build=core,
            folder=folder,
            simulator="icarus",
            scenario=Scenario(steps=steps, **SETTINGS),
            timeout=1800,
        )
    )


@pytest.mark.slow  # tests/card/test_top_bench.py does so with another seed
def test_the_whole_top_passes_every_step(core: Path, tmp_path: Path) -> None:
    print(f"seed {SETTINGS['seed']}")
    figures = bench(core, tmp_path, *STEPS)
    assert figures["resets"] == 3 and figures["partial"] == 2 and figures["snapshots"] == 1
    assert figures["cut"] > 0 and figures["splits"] > 0
    assert figures["floats"] == figures["records"] > 600


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """Source ``old`` of a component becomes ``new``; ``user`` is the module that builds it in.

    ``trap`` is its number, 0 for a rule that is part of none. What is not ``quick`` is left to the
    slow tests.
    """

    trap: int
    step: str
    component: type
    old: str
    new: str
    complaint: str
    user: ModuleType | None = None
    quick: bool = False


MUTANTS = {
    "tkeep_ignored": Mutant(
        trap=2,
        step="partial_beat",
        component=top.Top,
        old="whole.eq(self.h2c_tkeep.all())",
        new="whole.eq(1)",
        complaint=r"After a beat of less than 64 bytes in mid-packet ERROR is (?!8)\d and STATUS",
    ),
    "partial_beat_not_named": Mutant(
        trap=2,
        step="partial_beat",
        component=reader.RequestReader,
        user=path,
        old="absorb.eq(full & move)]\n                with m.If(partial):\n"
        "                    m.d.comb += [self.error.eq(1), self.cause.eq(Cause.PARTIAL_BEAT)]",
        new="absorb.eq(full & move)]\n                with m.If(partial):\n"
        "                    m.d.comb += [self.error.eq(1), self.cause.eq(Cause.MAGIC)]",
        complaint=r"ERROR is 1 and STATUS 0x\w+: it must be 8, and HALTED set",
    ),
    "no_tlast": Mutant(
        trap=3,
        quick=True,
        step="traffic",
        component=top.Top,
        old="self.c2h_tlast.eq(holding.o.p.last)",
        new="self.c2h_tlast.eq(0)",
        complaint=r"has no TLAST on the last of its \d+ beats",
    ),
    "tlast_in_mid_packet": Mutant(
        trap=3,
        step="traffic",
        component=writer_module.ResponseWriter,
        user=path,
        old="m.d.comb += section.eq(self.payload.p.data)",
        new="m.d.comb += [section.eq(self.payload.p.data), last.eq(self.payload.p.last)]",
        complaint=r"ended with TLAST after \d+ of \d+ beats: .* the read has a hole",
    ),
    "requests_taken_without_room": Mutant(
        trap=6,
        step="back_pressure",
        component=elastic.ElasticBuffer,
        user=path,
        old="self.i.ready.eq(fifo.w_rdy)",
        new="self.i.ready.eq(1)",
        complaint=r"although no read is posted: it has no room for so many",
    ),
    "results_lost_under_back_pressure": Mutant(
        trap=7,
        step="back_pressure",
        component=holding.HoldingStage,
        user=top,
        old="self.i.ready.eq(~full)",
        new="self.i.ready.eq(1)",
        complaint=r"although no read is posted|ended with TLAST after",
    ),
    "offer_given_up_after_a_while": Mutant(
        trap=7,
        step="back_pressure",
        component=holding.HoldingStage,
        user=top,
        old="        with m.If(self.clear):\n",
        new="        waited = Signal(8)\n"
        "        m.d.sync += waited.eq(waited + 1)\n"
        "        with m.If(self.o.ready | ~self.o.valid):\n"
        "            m.d.sync += waited.eq(0)\n"
        "        with m.If(self.clear | waited.all()):\n",
        complaint=r"c2h_tvalid fell although nobody had taken the offer",
    ),
    "offer_changes_while_it_waits": Mutant(
        trap=7,
        step="back_pressure",
        component=holding.HoldingStage,
        user=top,
        old="m.d.sync += full.eq(1)",
        new="m.d.sync += [full.eq(1), offer.eq(self.i.payload)]",
        complaint=r"c2h_tdata changed although nobody had taken the offer",
    ),
    "unpacker_not_reset": Mutant(
        trap=10,
        step="soft_resets",
        component=unpacker.Unpacker,
        user=path,
        old="have = Signal()",
        new="have = Signal(reset_less=True)",
        complaint=r"differ from the integer model",
    ),
    "open_packet_not_closed": Mutant(
        trap=10,
        step="soft_resets",
        component=closer.Closer,
        user=top,
        old="self.o.valid.eq(self.open)",
        new="self.o.valid.eq(0)",
        complaint=r"did not come to rest in its soft reset",
    ),
    "offer_withdrawn_by_the_reset": Mutant(
        trap=10,
        step="soft_resets",
        component=top.Top,
        old="holding.clear.eq(ResetSignal())",
        new="holding.clear.eq(ResetSignal() | sequencer.stream_clear)",
        complaint=r"c2h_tvalid fell although nobody had taken the offer",
    ),
    "counter_stands": Mutant(
        trap=10,
        step="traffic",
        component=top.Top,
        old="registers.answered.eq(path.answered)",
        new="registers.answered.eq(0)",
        complaint=r"Register ANSWERED reads 0x0 instead of 0x",
    ),
    "batch_cycles_stand": Mutant(
        trap=10,
        step="traffic",
        component=top.Top,
        old="registers.batch_cycles.eq(closer.cycles)",
        new="registers.batch_cycles.eq(0)",
        complaint=r"Register BATCH_CYCLES reads 0x0 instead of 0x",
    ),
    "pair_torn": Mutant(
        trap=10,
        step="back_pressure",
        component=registers.RegisterBlock,
        user=top,
        old='values[upper + _HIGH] = Signal(WORD, name=f"{name}_kept")',
        new="values[upper + _HIGH] = high",
        complaint=r"STALLED reads 0x\w+ .* the high word is not the one that belonged",
    ),
    "results_with_a_wrong_bit": Mutant(
        trap=0,
        step="traffic",
        component=writer_module.ResponseWriter,
        user=path,
        old="section.eq(self.payload.p.data)",
        new="section.eq(self.payload.p.data ^ (1 << 32))",
        complaint=r"words of \d+ records differ from the integer model",
    ),
    "tkeep_not_whole": Mutant(
        trap=0,
        step="traffic",
        component=top.Top,
        old="self.c2h_tkeep.eq(~Const(0, bus.bytes))",
        new="self.c2h_tkeep.eq(~Const(1, bus.bytes))",
        complaint=r"c2h_tkeep is 0xf+e: all bytes of a result beat must be there",
    ),
    "wrong_hash": Mutant(
        trap=10,
        step="identity",
        component=top.Top,
        old="constants=self.parameters.constants(),",
        new='constants=self.parameters.constants() | {"BUILD_HIGH": 1},',
        complaint=r"Register BUILD_HIGH reads 0x1 instead of 0x",
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(k, marks=() if m.quick else pytest.mark.slow) for k, m in MUTANTS.items()]
)
def test_a_broken_top_is_caught(
    core: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    case = MUTANTS[name]
    print(f"trap {case.trap}, seed {SETTINGS['seed']}")
    broken = mutant(case.component, case.old, case.new)
    if case.user is not None:
        monkeypatch.setattr(case.user, case.component.__name__, broken)
        broken = top.Top
    with pytest.raises(TopComplaintError, match=case.complaint):
        bench(core, tmp_path, case.step, broken=broken)


@pytest.mark.slow
def test_trap_1_a_request_that_ends_with_its_transfer_is_caught(
    core: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLAST of a request, which the whole top ignores, led to where packets end."""
    with_last = StructLayout({**Bus().request.members, "last": 1})
    monkeypatch.setattr(Bus, "request", with_last)
    ends = mutant(
        reader.RequestReader, "with m.If(final & ends):", "with m.If(final & ends | held.last):"
    )
    monkeypatch.setattr(path, "RequestReader", ends)
    hears = mutant(
        top.Top,
        "path.request.p.whole.eq(whole),",
        "path.request.p.whole.eq(whole), path.request.p.last.eq(self.h2c_tlast),",
    )
    with pytest.raises(TopComplaintError, match=r"finds good requests faulty, ERROR is [19]: "):
        bench(core, tmp_path, "traffic", broken=hears)


def test_every_rule_of_the_card_has_a_mutant() -> None:
    """Trap 1 has a test of its own; 4, 5, 8 and 9 are the driver's alone. One is quick."""
    assert {case.trap for case in MUTANTS.values()} >= {2, 3, 6, 7, 10}
    assert any(case.quick for case in MUTANTS.values())
