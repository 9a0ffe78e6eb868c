"""The tables of the link: offsets do not overlap, and every value has a meaning."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from pinion.functions import FUNCTIONS
from pinion.link import (
    BEAT,
    CRC_FIELD,
    FLAGS_PER_BEAT,
    HEADER,
    MAX_COUNT,
    REGISTERS,
    TRAILER,
    Cause,
    Magic,
    Status,
    crc32,
    function_id,
    register,
)
from pinion.link.registers import BUSY, HALTED, IDENTITY, IN_RESET, OPEN, QUIET, SPACE


@pytest.mark.parametrize("record", [HEADER, TRAILER])
def test_the_fields_of_a_record_fill_a_beat_without_holes(record: np.dtype[np.void]) -> None:
    end = 0
    for name in record.names or ():
        dtype, offset = record.fields[name][:2]  # type: ignore[index]
        assert offset == end and offset % 4 == 0, name
        assert dtype.base.byteorder in "<=", name
        end = offset + dtype.itemsize
    assert end == record.itemsize == BEAT
    assert record.fields["crc"][1] == CRC_FIELD  # type: ignore[index]


def test_magic_words_read_as_text_in_memory() -> None:
    texts = [int(magic).to_bytes(4, "little") for magic in Magic]
    assert texts == [b"PNRQ", b"PNRS", b"PNTR", b"PNAB"]
    assert IDENTITY.to_bytes(4, "little") == b"PNIN"
    assert len({*map(int, Magic), IDENTITY}) == 5


def test_a_flag_for_each_record_of_the_largest_packet_fits_whole_beats() -> None:
    assert FLAGS_PER_BEAT == 512 and MAX_COUNT % FLAGS_PER_BEAT == 0


def test_every_cause_has_a_sentence_of_its_own() -> None:
    assert [int(cause) for cause in Cause] == list(range(len(Cause)))
    sentences = {cause.sentence for cause in Cause}
    assert len(sentences) == len(Cause) and all(sentences)


def test_bits_of_status_are_single_and_distinct() -> None:
    for bits in ([int(s) for s in Status if s], [BUSY, HALTED, OPEN, QUIET, IN_RESET]):
        assert all(bit.bit_count() == 1 for bit in bits) and len(set(bits)) == len(bits)


def test_registers_are_aligned_distinct_in_order_and_inside_the_space() -> None:
    offsets = [row.offset for row in REGISTERS]
    assert offsets == sorted(set(offsets))
    assert all(offset % 4 == 0 and 0 <= offset < SPACE for offset in offsets)
    names = [row.name for row in REGISTERS]
    assert len(set(names)) == len(names) and all(name == name.upper() for name in names)
    assert all(row.text for row in REGISTERS)


def test_the_high_word_of_a_pair_stands_behind_its_low_word() -> None:
    lows = [row for row in REGISTERS if row.name.endswith("_LOW")]
    highs = {row.name for row in REGISTERS if row.name.endswith("_HIGH")}
    assert len(lows) == 4 and {low.name.replace("LOW", "HIGH") for low in lows} == highs
    for low in lows:
        high = register(low.name.replace("LOW", "HIGH"))
        assert high.offset == low.offset + 4
        assert (high.access, high.kind) == (low.access, low.kind)


def test_what_can_be_written_is_control_and_nothing_else() -> None:
    assert {row.name for row in REGISTERS if row.access == "rw"} == {"CONTROL", "SCRATCH"}
    assert all((row.kind == "control") == (row.access == "rw") for row in REGISTERS)


def test_a_register_is_found_by_its_name() -> None:
    assert register("SCRATCH").offset == 0x3C
    with pytest.raises(KeyError, match=r"no register 'SPEED'.*SCRATCH"):
        register("SPEED")


def test_functions_have_distinct_identities() -> None:
    assert len({function_id(name) for name in FUNCTIONS}) == len(FUNCTIONS) > 5
    assert function_id("rnea") == zlib.crc32(b"rnea") == 0x80049F0D


def test_the_fast_checksum_is_that_of_zlib() -> None:
    seed = 5
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    for length in (0, 1, 63, 64, 65, 4096, 100_001):
        data = rng.integers(0, 256, size=length, dtype=np.uint8)
        assert crc32(data) == zlib.crc32(data.tobytes())
        assert crc32(data[length // 3 :], crc32(data[: length // 3])) == crc32(data)
    assert crc32(b"123456789") == 0xCBF43926, "the check value of CRC-32"
