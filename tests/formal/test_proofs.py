"""The proofs pass, and each of them fails for a component that is broken."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pinion.gateware.link import Crossing, ElasticBuffer, HoldingStage, Packer, Unpacker
from tests.gateware.link.mutants import mutant
from tests.support.formal import FormalError, Proof, prove
from tests.support.proofs import PROOFS

BY_NAME = {proof.name: proof for proof in PROOFS}


@pytest.mark.parametrize("name", BY_NAME)
def test_it_is_proved(name: str, tmp_path: Path):
    result = prove(BY_NAME[name], tmp_path)
    assert result.passed, result.log.read_text()[-2000:]


# Proof, component, and what is broken in it.
MUTANTS = {
    "a full stage accepts": (
        "holding",
        HoldingStage,
        ("self.i.ready.eq(~full)", "self.i.ready.eq(1)"),
    ),
    "the spare payload is overwritten": (
        "holding",
        HoldingStage,
        ("with m.If(~full)", "with m.If(1)"),
    ),
    "the buffer does not wait for the reader": (
        "elastic",
        ElasticBuffer,
        ("fifo.r_en.eq(self.o.ready)", "fifo.r_en.eq(1)"),
    ),
    "the buffer is never read": (
        "elastic",
        ElasticBuffer,
        ("self.o.valid.eq(fifo.r_rdy)", "self.o.valid.eq(0)"),
    ),
    "the padding of a batch is not dropped": (
        "unpacker_3_2_2",
        Unpacker,
        (" | (batch & (place == count))", ""),
    ),
    "a lane behind the record is not cleared": (
        "unpacker_3_2_2",
        Unpacker,
        ("lanes[g.tail :]", "lanes[g.tail + 1 :]"),
    ),
    "the unpacker waits for a beat that it does not need": (
        "unpacker_1_1_1",
        Unpacker,
        ("end > space", "end >= space"),
    ),
    "a step of the unpacker does not wait for the next": (
        "unpacker_5_3_2",
        Unpacker,
        ("turn.eq(~turned | move)", "turn.eq(1)"),
    ),
    "a full beat goes out before the rest of the last batch": (
        "packer_7_4_2",
        Packer,
        (" & ~(rest & fills)", ""),
    ),
    "lanes behind the record are packed": ("packer_3_2_2", Packer, ("end > k)", "1)")),
    "the rest of a batch stays": (
        "packer_5_3_2",
        Packer,
        ("offered.eq(rest | (placed", "offered.eq((placed"),
    ),
    "the crossing accepts when it is full": (
        "crossing",
        Crossing,
        ("self.i.ready.eq(fifo.w_rdy)", "self.i.ready.eq(1)"),
    ),
    "the crossing does not wait for the reader": (
        "crossing",
        Crossing,
        ("fifo.r_en.eq(self.o.ready)", "fifo.r_en.eq(1)"),
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_component_fails_its_proof(name: str, tmp_path: Path):
    proof, component, change = MUTANTS[name]
    broken = replace(BY_NAME[proof], component=mutant(component, *change), mode="bmc")
    assert not prove(broken, tmp_path).passed


def test_the_tools_are_found_without_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", os.defpath)
    assert prove(replace(BY_NAME["holding"], mode="bmc", depth=3), tmp_path).passed


def test_a_harness_that_the_tools_refuse_is_an_error_and_no_proof(tmp_path: Path):
    broken: Proof = replace(BY_NAME["holding"], mode="bmx")  # type: ignore[arg-type] # not a mode
    with pytest.raises(FormalError, match="no verdict on holding"):
        prove(broken, tmp_path)
