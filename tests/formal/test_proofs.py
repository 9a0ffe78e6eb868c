"""The proofs pass, and each of them fails for a broken component."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pinion.gateware.link import Crossing, ElasticBuffer, HoldingStage, Packer, Unpacker
from pinion.gateware.link.closer import Closer
from pinion.gateware.link.reader import RequestReader
from pinion.gateware.link.registers import RegisterBlock
from pinion.gateware.link.sequencer import ResetSequencer
from pinion.gateware.link.tally import Tally
from pinion.gateware.link.writer import ResponseWriter
from pinion.gateware.processor.directory import Directory
from pinion.gateware.processor.loader import Loader
from pinion.gateware.processor.sequencer import ProgramSequencer
from pinion.gateware.processor.team import Team
from tests.gateware.link.mutants import mutant
from tests.support.formal import FormalError, Proof, prove
from tests.support.proofs import PROOFS
from tests.support.proofs_page import PAGE, rendered, written

BY_NAME = {proof.name: proof for proof in PROOFS}


# One of each component; `make formal` proves all.
_QUICK = ("closer_narrow", "crossing", "registers_answer")


@pytest.mark.parametrize("name", _QUICK)
def test_it_is_proved(name: str, tmp_path: Path):
    result = prove(BY_NAME[name], tmp_path)
    assert result.passed, result.log.read_text()[-2000:]


# Proof, component, depth at which it fails (None: the proof's), and the change.
MUTANTS = {
    "a full stage accepts": (
        *("holding", HoldingStage, None),
        ("self.i.ready.eq(~full)", "self.i.ready.eq(1)"),
    ),
    "the spare payload is overwritten": (
        *("holding", HoldingStage, None),
        ("with m.If(~full)", "with m.If(1)"),
    ),
    "the buffer does not wait for the reader": (
        *("elastic_3", ElasticBuffer, None),
        ("fifo.r_en.eq(self.o.ready)", "fifo.r_en.eq(1)"),
    ),
    "the buffer is never read": (
        *("elastic_3", ElasticBuffer, None),
        ("self.o.valid.eq(fifo.r_rdy)", "self.o.valid.eq(0)"),
    ),
    "the padding of a batch is not dropped": (
        *("unpacker_3_2_2", Unpacker, None),
        (" | (batch & (place == count))", ""),
    ),
    "a lane behind the record is not cleared": (
        *("unpacker_3_2_2", Unpacker, None),
        ("lanes[g.tail :]", "lanes[g.tail + 1 :]"),
    ),
    "the unpacker waits for a beat that it does not need": (
        *("unpacker_1_1_1", Unpacker, None),
        ("end > space", "end >= space"),
    ),
    "a step of the unpacker does not wait for the next": (
        *("unpacker_5_3_2", Unpacker, None),
        ("turn.eq(~turned | move)", "turn.eq(1)"),
    ),
    "a full beat goes out before the rest of the last batch": (
        *("packer_7_4_2", Packer, None),
        (" & ~(rest & fills)", ""),
    ),
    "lanes behind the record are packed": ("packer_3_2_2", Packer, None, ("end > k)", "1)")),
    "the rest of a batch stays": (
        *("packer_5_3_2", Packer, None),
        ("offered.eq(rest | (placed", "offered.eq((placed"),
    ),
    "the crossing accepts when it is full": (
        *("crossing", Crossing, 16),
        ("self.i.ready.eq(fifo.w_rdy)", "self.i.ready.eq(1)"),
    ),
    "the crossing does not wait for the reader": (
        *("crossing", Crossing, 16),
        ("fifo.r_en.eq(self.o.ready)", "fifo.r_en.eq(1)"),
    ),
    "the reset withdraws a packet's end": (
        *("closer", Closer, 6),
        ("self.o.valid.eq(self.open)", "self.o.valid.eq(0)"),
    ),
    "an abort beat where no packet is open": (
        *("closer", Closer, 6),
        ("self.o.valid.eq(self.open)", "self.o.valid.eq(1)"),
    ),
    "an abort beat that ends within": (
        *("closer_narrow", Closer, 8),
        ("begins | aborts) & ends)", "begins | aborts))"),
    ),
    "a beat that is cut is not filled up": (
        *("closer_narrow", Closer, 8),
        ("self.o.valid.eq(self.open)", "self.o.valid.eq(self.open & (begins | aborts))"),
    ),
    "a beat on offer changes": (
        *("writer_16", ResponseWriter, 6),
        ("advance.eq(~offered | self.o.ready)", "advance.eq(1)"),
    ),
    "the checksum goes on while its beat waits": (
        *("writer_16", ResponseWriter, 8),
        ("checksum.valid.eq(full & advance)", "checksum.valid.eq(full)"),
    ),
    "a beat more than announced": (
        *("reader_16", RequestReader, 8),
        ("final.eq(product <= bus.words)", "final.eq(product < bus.words - 6)"),
    ),
    "the build is not looked at": (
        *("reader_16", RequestReader, 8),
        ('of("build") != self.build', "Const(0)"),
    ),
    "a header with any checksum is good": (
        *("reader_16", RequestReader, 8),
        ("refused.eq(faulty | unequal.any())", "refused.eq(faulty)"),
    ),
    "a header's checksum is over itself": (
        *("reader_16", RequestReader, 8),
        ("Mux(is_header & ends, Const(0, WORD), current.data[-WORD:])", "current.data[-WORD:]"),
    ),
    "the verdict compares with the header's checksum": (
        *("reader_16", RequestReader, 10),
        ("Mux(complete, payload_crc, header_crc)", "header_crc"),
    ),
    "a payload's checksum goes on from the header's": (
        *("reader_16", RequestReader, 8),
        ("is_header & begins | fresh", "is_header & begins"),
    ),
    "a checksum begins anew within a header": (
        *("reader_8", RequestReader, 8),
        ("is_header & begins | fresh", "is_header | fresh"),
    ),
    "a reset in the middle of a payload leaves it open to the next header": (
        *("reader_16", RequestReader, 8),
        ("is_header = Signal(init=1)", "is_header = Signal(init=1, reset_less=True)"),
    ),
    "a response of another build": (
        *("writer_16", ResponseWriter, 6),
        ("build=self.build,", "build=self.build ^ 1,"),
    ),
    "a packet's checksum goes on from the packet before": (
        *("writer_8", ResponseWriter, 8),
        ("checksum.start.eq(first & full & advance)", "checksum.start.eq(0)"),
    ),
    "the checksum stands in every slice": (
        *("writer_16", ResponseWriter, 8),
        ("Mux(out.last, checksum.crc, out.data[-WORD:])", "checksum.crc"),
    ),
    "a beat that is filled exactly stays": (
        *("packer_4_4_1", Packer, None),
        ("fills.eq(end >= space)", "fills.eq(end > space)"),
    ),
    "a reset leaves the rest of a batch": (
        *("packer_5_3_2", Packer, None),
        ("rest = Signal()  #", "rest = Signal(reset_less=True)  #"),
    ),
    "a reset in the middle of a packet leaves the place in it": (
        *("unpacker_5_3_2", Unpacker, None),
        ("offset = Signal(range(space))", "offset = Signal(range(space), reset_less=True)"),
    ),
    "a record that fills its beat waits for the next": (
        *("unpacker_4_4_1", Unpacker, None),
        ("(place == space) |", "(place > space) |"),
    ),
    "the stream runs towards a core in reset": (
        *("sequencer", ResetSequencer, 26),
        (
            "[requested.eq(0), self.core_clear.eq(0), self.drain.eq(0)]",
            "[requested.eq(0), self.stream_clear.eq(0), self.drain.eq(0)]",
        ),
    ),
    "a reset does not wait for the open packet": (
        *("sequencer", ResetSequencer, 26),
        ("(settled == SETTLE) & ~self.open", "settled == SETTLE"),
    ),
    "a pulse of a reset is forgotten": (
        *("sequencer", ResetSequencer, 26),
        ('m.State("RUN"), m.If(requested)', 'm.State("RUN"), m.If(self.held)'),
    ),
    "another record ends the batch": (
        *("tally_2", Tally, 7),
        ("final.eq(left == 2)", "final.eq(left == 3)"),
    ),
    "flags stay for the next slice": (
        *("tally_2", Tally, 7),
        ("[full.eq(0), flags.eq(0)]", "full.eq(0)"),
    ),
    "the number of flags goes on": (
        *("tally_2", Tally, 8),
        ("m.d.sync += flagged.eq(self.flagged)", "m.d.sync += flagged.eq(flagged + self.flagged)"),
    ),
    "a constant reads as another": (
        *("registers", RegisterBlock, 8),
        ("= dict(self.constants)", "= {name: value ^ 4 for name, value in self.constants.items()}"),
    ),
    "an offset without a register reads as the last one": (
        *("registers", RegisterBlock, 10),
        ("self.rvalid.eq(1), self.rdata.eq(0)]", "self.rvalid.eq(1)]"),
    ),
    "a response without address": (
        *("registers", RegisterBlock, 8),
        ("has_address & has_data", "has_data"),
    ),
    "a record is stored before its last word": (
        *("loader", Loader, 12),
        ("with m.If(place == self.size - 1)", "with m.If(place == self.size - 2)"),
    ),
    "words of a record change places": (
        *("loader", Loader, 12),
        ("Cat(data[WORD:], self.i.payload)", "Cat(self.i.payload, data[:-WORD])"),
    ),
    "names stay": ("directory", Directory, 12, ("with m.If(self.clear)", "with m.If(0)")),
    "a name that was taken away is found": (
        *("directory", Directory, 12),
        ("valid.bit_select(place, 1) & (name", "(name"),
    ),
    "the last name is not looked at": (
        *("directory", Directory, 12),
        ("last = place == functions - 1", "last = place == functions - 2"),
    ),
    "the last row is not executed": (
        *("programsequencer", ProgramSequencer, 10),
        ("row == self.last_row", "row + 1 == self.last_row"),
    ),
    "a row is executed again": (
        *("programsequencer", ProgramSequencer, 10),
        ("Mux(follows, word, 0)", "Mux(executes | follows, word, 0)"),
    ),
    "another lane's result is written": (
        *("team", Team, 10),
        ("Array([results[0], *results])", "Array([*results, results[0]])"),
    ),
    "a write is lost": (
        *("team", Team, 10),
        ("lane.write.eq((source != NO_SOURCE) | loads)", "lane.write.eq((source > 1) | loads)"),
    ),
    "read data withdrawn": (
        *("registers", RegisterBlock, 8),
        ("with m.If(self.rvalid & self.rready):", "with m.If(self.rvalid):"),
    ),
}


# The first of each component that has a quick proof.
_FIRST = {
    c: name
    for name, (_, c, *_) in reversed(MUTANTS.items())
    if c in {BY_NAME[quick].component for quick in _QUICK}
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in _FIRST.values() else pytest.mark.slow)
        for name in MUTANTS
    ],
)
def test_a_broken_component_fails_its_proof(name: str, tmp_path: Path):
    proof, component, depth, change = MUTANTS[name]
    sound = BY_NAME[proof]
    broken = mutant(component, *change)
    changed = replace(sound, component=broken, mode="bmc", depth=depth or sound.depth)
    assert not prove(changed, tmp_path).passed


def test_every_component_has_a_mutant_and_the_page_says_what_is_proved():
    proved = {proof.component for proof in PROOFS}
    assert {component for _, component, _, _ in MUTANTS.values()} == proved
    assert written(PAGE.read_text()) == PAGE.read_text(), "run python -m tests.support.proofs_page"
    by_kind = {mode: [p for p in PROOFS if p.mode == mode] for mode in ("prove", "bmc", "cover")}
    first, *_ = rendered().splitlines()
    for mode, kind in (("prove", "by induction"), ("bmc", "bounded"), ("cover", "covers")):
        assert f"{len(by_kind[mode])} {kind}" in first
    with pytest.raises(ValueError, match="0 places"):
        written("# Checks\n")


def test_the_tools_are_found_without_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", os.defpath)
    assert prove(replace(BY_NAME["holding"], mode="bmc", depth=3), tmp_path).passed


def test_a_refused_harness_raises_an_error(tmp_path: Path):
    broken: Proof = replace(BY_NAME["holding"], mode="bmx")  # type: ignore[arg-type] # not a mode
    with pytest.raises(FormalError, match="holding has no verdict"):
        prove(broken, tmp_path)
