"""Broken readers, writers, exits and registers fail their proofs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pinion.gateware.link.closer import Closer
from pinion.gateware.link.reader import RequestReader
from pinion.gateware.link.registers import RegisterBlock
from pinion.gateware.link.writer import ResponseWriter
from tests.gateware.link.mutants import mutant
from tests.support.formal import prove
from tests.support.proofs_ends import PROOFS

BY_NAME = {proof.name: proof for proof in PROOFS}


# Proof, component, cycles in which it shows, and what is broken in it.
MUTANTS = {
    "the reset withdraws a packet's end": (
        *("exit", Closer, 6),
        ("self.o.valid.eq(self.open)", "self.o.valid.eq(0)"),
    ),
    "an abort beat where no packet is open": (
        *("exit", Closer, 6),
        ("self.o.valid.eq(self.open)", "self.o.valid.eq(1)"),
    ),
    "an abort beat that ends within": (
        *("cut", Closer, 8),
        ("begins | aborts) & ends)", "begins | aborts))"),
    ),
    "a beat that is cut is not filled up": (
        *("cut", Closer, 8),
        ("self.o.valid.eq(self.open)", "self.o.valid.eq(self.open & (begins | aborts))"),
    ),
    "a beat on offer changes": (
        *("writer", ResponseWriter, 6),
        ("advance.eq(~offered | self.o.ready)", "advance.eq(1)"),
    ),
    "the checksum goes on while its beat waits": (
        *("writer", ResponseWriter, 8),
        ("checksum.valid.eq(full & advance)", "checksum.valid.eq(full)"),
    ),
    "a beat more than announced": (
        *("reader", RequestReader, 8),
        ("final.eq(product <= bus.words)", "final.eq(product < bus.words - 6)"),
    ),
    "a response without address": (
        *("registers", RegisterBlock, 8),
        ("has_address & has_data", "has_data"),
    ),
    "read data withdrawn": (
        *("registers", RegisterBlock, 8),
        ("with m.If(self.rvalid & self.rready):", "with m.If(self.rvalid):"),
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_component_fails_its_proof(name: str, tmp_path: Path) -> None:
    proof, component, depth, change = MUTANTS[name]
    broken = mutant(component, *change)
    changed = replace(BY_NAME[proof], component=broken, mode="bmc", depth=depth)
    assert not prove(changed, tmp_path).passed
