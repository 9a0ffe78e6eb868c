"""The checksum is CRC-32 for every beat in every state, and wrong ones are found."""

from __future__ import annotations

import random
from pathlib import Path
from zlib import crc32

import pytest

from pinion.gateware.link.checksum import Checksum
from tests.gateware.link.mutants import mutant
from tests.support.parity import NotAffineError, crc32_of, prove_checksum


def bits(data: bytes) -> list[int]:
    return [byte >> place & 1 for byte in data for place in range(8)]


def test_the_definition_is_that_of_zlib():
    draw = random.Random(5)
    for size in (1, 9, 64):
        previous, data = draw.getrandbits(32), draw.randbytes(size)
        crc = crc32_of([previous >> place & 1 for place in range(32)], bits(data))
        assert sum(bit << place for place, bit in enumerate(crc)) == crc32(data, previous)
    assert crc32(b"123456789") == 0xCBF43926


@pytest.mark.parametrize("width", [64, pytest.param(512, marks=pytest.mark.slow)])
def test_the_checksum_is_crc32_in_every_state(width: int, tmp_path: Path):
    # Combinations of valid, start and the reset, and of two registers that store them.
    assert prove_checksum(Checksum(bits=width), tmp_path) >= 16


MUTANTS = {
    "a beat's zeros are forgotten": (
        "_parities(self.data, by_data) ^ zero",
        "_parities(self.data, by_data)",
    ),
    "a bit of the beat before counts twice": (
        "crc32(bytes(size), 1 << k)",
        "crc32(bytes(size), 3 << k & 0xFFFFFFFF)",
    ),
    "a checksum goes on where it should begin": ("Mux(fresh, 0, register)", "register"),
    "a beat that does not come counts": ("arrived.eq(self.valid)", "arrived.eq(1)"),
    "a start without a beat is forgotten": (
        "with m.If(self.start & ~self.valid):",
        "with m.If(0):",
    ),
    "the highest bit of the checksum stands still": (
        "for place in range(WIDTH)\n",
        "for place in (*range(WIDTH - 1), 0)\n",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_checksum_is_found(name: str, tmp_path: Path):
    with pytest.raises(AssertionError, match="wrong with"):
        prove_checksum(mutant(Checksum, *MUTANTS[name])(bits=64), tmp_path)


def test_logic_other_than_exclusive_or_is_refused(tmp_path: Path):
    broken = mutant(Checksum, ".xor()\n", ".any()\n")
    with pytest.raises(NotAffineError):
        prove_checksum(broken(bits=64), tmp_path)
