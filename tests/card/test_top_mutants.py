"""Tops that break the card's rules, each caught by the bench at the AXI side.

The numbers are those of the traps of the vendor's DMA driver; the driver's part of them is tested
with the driver, the card's part here. Each mutant replaces one expression in the source of one
component; the bench stops with a sentence that names the rule, and passes the correct top in the
same steps with the same seed.
"""

from __future__ import annotations

import shutil
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


@pytest.mark.slow  # tests/card/test_top_bench.py runs it with another seed
def test_the_whole_top_passes_every_step(core: Path, tmp_path: Path) -> None:
    print(f"seed {SETTINGS['seed']}")
    figures = bench(core, tmp_path, *STEPS)
    assert figures["resets"] == 3 and figures["partial"] == 2 and figures["snapshots"] == 1
    assert figures["cut"] > 0 and figures["splits"] > 0
    assert figures["floats"] == figures["records"] > 600


Part = tuple[type, ModuleType | None]
"""A component, and the module that builds it into the top."""

TOP: Part = (top.Top, None)
READER: Part = (reader.RequestReader, path)
WRITER: Part = (writer_module.ResponseWriter, path)
ELASTIC: Part = (elastic.ElasticBuffer, path)
HOLDING: Part = (holding.HoldingStage, top)
UNPACKER: Part = (unpacker.Unpacker, path)
CLOSER: Part = (closer.Closer, top)
REGISTERS: Part = (registers.RegisterBlock, top)

Mutant = tuple[int, str, Part, tuple[str, str], str]
"""Number of its trap (0 without one), step of the bench, part, its source and what replaces it, and
the bench's complaint."""

QUICK = "no_tlast"
"""The mutant of the fast tests."""

MUTANTS: dict[str, Mutant] = {
    "tkeep_ignored": (
        *(2, "partial_beat", TOP),
        ("whole.eq(self.h2c_tkeep.all())", "whole.eq(1)"),
        r"After a beat of less than 64 bytes in mid-packet, ERROR is (?!8)\d and STATUS",
    ),
    "partial_beat_not_named": (
        *(2, "partial_beat", READER),
        (
            "absorb.eq(full & move)]\n                with m.If(partial):\n"
            "                    m.d.comb += [self.error.eq(1), self.cause.eq(Cause.PARTIAL_BEAT)]",
            "absorb.eq(full & move)]\n                with m.If(partial):\n"
            "                    m.d.comb += [self.error.eq(1), self.cause.eq(Cause.MAGIC)]",
        ),
        r"ERROR is 1 and STATUS 0x\w+: it must be 8, and HALTED set",
    ),
    "no_tlast": (
        *(3, "traffic", TOP),
        ("self.c2h_tlast.eq(holding.o.p.last)", "self.c2h_tlast.eq(0)"),
        r"has no TLAST on the last of its \d+ beats",
    ),
    "tlast_in_mid_packet": (
        *(3, "traffic", WRITER),
        (
            "m.d.comb += section.eq(self.payload.p.data)",
            "m.d.comb += [section.eq(self.payload.p.data), last.eq(self.payload.p.last)]",
        ),
        r"ended with TLAST after \d+ of \d+ beats: .* which leaves a gap in the read",
    ),
    "requests_taken_without_room": (
        *(6, "back_pressure", ELASTIC),
        ("self.i.ready.eq(fifo.w_rdy)", "self.i.ready.eq(1)"),
        r"although no read is posted: its buffers cannot hold so many",
    ),
    "results_lost_under_back_pressure": (
        *(7, "back_pressure", HOLDING),
        ("self.i.ready.eq(~full)", "self.i.ready.eq(1)"),
        r"although no read is posted|ended with TLAST after",
    ),
    "offer_given_up_after_a_while": (
        *(7, "back_pressure", HOLDING),
        (
            "        with m.If(self.clear):\n",
            "        waited = Signal(8)\n"
            "        m.d.sync += waited.eq(waited + 1)\n"
            "        with m.If(self.o.ready | ~self.o.valid):\n"
            "            m.d.sync += waited.eq(0)\n"
            "        with m.If(self.clear | waited.all()):\n",
        ),
        r"c2h_tvalid fell although nobody had taken the offer",
    ),
    "offer_changes_while_it_waits": (
        *(7, "back_pressure", HOLDING),
        ("m.d.sync += full.eq(1)", "m.d.sync += [full.eq(1), offer.eq(self.i.payload)]"),
        r"c2h_tdata changed although nobody had taken the offer",
    ),
    "unpacker_not_reset": (
        *(10, "soft_resets", UNPACKER),
        ("have = Signal()", "have = Signal(reset_less=True)"),
        r"differ from the integer model",
    ),
    "open_packet_not_closed": (
        *(10, "soft_resets", CLOSER),
        ("self.o.valid.eq(self.open)", "self.o.valid.eq(0)"),
        r"did not become idle in soft reset",
    ),
    "offer_withdrawn_by_the_reset": (
        *(10, "soft_resets", TOP),
        (
            "holding.clear.eq(ResetSignal())",
            "holding.clear.eq(ResetSignal() | sequencer.stream_clear)",
        ),
        r"c2h_tvalid fell although nobody had taken the offer",
    ),
    "counter_stands": (
        *(10, "traffic", TOP),
        ("registers.answered.eq(path.answered)", "registers.answered.eq(0)"),
        r"Register ANSWERED reads 0x0 instead of 0x",
    ),
    "batch_cycles_stand": (
        *(10, "traffic", TOP),
        ("registers.batch_cycles.eq(closer.cycles)", "registers.batch_cycles.eq(0)"),
        r"Register BATCH_CYCLES reads 0x0 instead of 0x",
    ),
    "pair_torn": (
        *(10, "back_pressure", REGISTERS),
        (
            "values[upper + _HIGH] = latched",
            "values[upper + _HIGH] = high",
        ),
        r"STALLED reads 0x\w+ .* the high word does not belong",
    ),
    "results_with_a_wrong_bit": (
        *(0, "traffic", WRITER),
        ("section.eq(self.payload.p.data)", "section.eq(self.payload.p.data ^ (1 << 32))"),
        r"differ from the integer model's words in",
    ),
    "tkeep_not_whole": (
        *(0, "traffic", TOP),
        ("self.c2h_tkeep.eq(~Const(0, bus.bytes))", "self.c2h_tkeep.eq(~Const(1, bus.bytes))"),
        r"c2h_tkeep is 0xf+e: all bytes of a result beat must be there",
    ),
    "wrong_hash": (
        *(10, "identity", TOP),
        (
            "constants=self.parameters.constants(),",
            'constants=self.parameters.constants() | {"BUILD_HIGH": 1},',
        ),
        r"Register BUILD_HIGH reads 0x1 instead of 0x",
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == QUICK else pytest.mark.slow) for n in MUTANTS]
)
def test_a_broken_top_is_caught(
    core: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    trap, step, (component, user), change, complaint = MUTANTS[name]
    print(f"trap {trap}, seed {SETTINGS['seed']}")
    broken = mutant(component, *change)
    if user is not None:
        monkeypatch.setattr(user, component.__name__, broken)
        broken = top.Top
    with pytest.raises(TopComplaintError, match=complaint):
        bench(core, tmp_path, step, broken=broken)


@pytest.mark.slow
def test_trap_1_a_request_that_ends_with_its_transfer_is_caught(
    core: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLAST of a request, which the correct top ignores, ends packets."""
    with_last = StructLayout({**Bus().request.members, "last": 1})
    monkeypatch.setattr(Bus, "request", with_last)
    ends = mutant(
        reader.RequestReader, "with m.If(final & ends):", "with m.If(final & ends | current.last):"
    )
    monkeypatch.setattr(path, "RequestReader", ends)
    hears = mutant(
        top.Top,
        "path.request.p.whole.eq(whole),",
        "path.request.p.whole.eq(whole), path.request.p.last.eq(self.h2c_tlast),",
    )
    with pytest.raises(TopComplaintError, match=r"rejects valid requests: ERROR is [19] "):
        bench(core, tmp_path, "traffic", broken=hears)


def test_every_rule_of_the_card_has_a_mutant() -> None:
    """Trap 1 has a separate test; 4, 5, 8 and 9 concern only the driver."""
    assert {trap for trap, *_ in MUTANTS.values()} >= {2, 3, 6, 7, 10}
