"""Lengths and bytes of an SPI transfer that programs of others rely on."""

from __future__ import annotations

from binascii import crc_hqx

import pytest

from pinion.link.spi_framing import SpiError, SpiTransfer, StatusBits, fastest_hz, pause_bytes
from tests.driver.cards import manifest

TRANSFER = SpiTransfer(words_in=2, words_out=1, pause=3, start=0x1234)


def answer(*body: int) -> bytes:
    """Return a whole transfer with a status and a record, and a checksum that fits."""
    text = bytes(body)
    return bytes(13) + text + crc_hqx(text, 0x1234).to_bytes(2, "big")


def test_the_lengths_are_those_of_the_table() -> None:
    assert (TRANSFER.asked, TRANSFER.answered, TRANSFER.size) == (10, 14, 20)
    assert TRANSFER.seconds(bit_hz=1e6) == 160e-6
    assert fastest_hz(60e6) == 10e6
    m = manifest()
    transfer = SpiTransfer.of(m)
    assert (transfer.words_in, transfer.words_out) == (10, 8)
    assert (transfer.asked, transfer.answered, transfer.size) == (42, 46, 80)
    assert (transfer.pause, transfer.start) == (pause_bytes(m), m.hash & 0xFFFF)


@pytest.mark.parametrize(
    ("change", "pause"),
    [
        # 2 x (5 + 2) cycles in, 2 x (4 + 2) out, 16 of control: 42, and 48 a byte.
        *(({"latency_cycles": cycles}, pause) for cycles, pause in ((6, 2), (7, 3), (54, 3))),
        *(({"latency_cycles": 6, key: 3}, 3) for key in ("beats_in", "beats_out")),
        *(({"latency_cycles": 6, key: 6}, 3) for key in ("lanes_in", "lanes_out")),
        ({"latency_cycles": 55}, 4),
    ],
)
def test_the_pause_is_that_of_the_slowest_record(change: dict[str, int], pause: int) -> None:
    assert pause_bytes(manifest(**change)) == pause


def test_a_request_is_the_record_its_checksum_and_zeros() -> None:
    record = bytes(range(1, 9))
    sent = TRANSFER.request(record)
    assert sent == record + crc_hqx(record, 0x1234).to_bytes(2, "big") + bytes(10)
    for size in (7, 9):
        with pytest.raises(ValueError, match=f"^A request must have 8 bytes, not {size}.$"):
            TRANSFER.request(bytes(size))


def test_a_result_has_its_bits() -> None:
    assert TRANSFER.result(answer(1, 5, 6, 7, 8)) == (b"\5\6\7\x08", False)
    assert TRANSFER.result(answer(3, 5, 6, 7, 8)) == (b"\5\6\7\x08", True)
    with pytest.raises(SpiError, match=r"no result in time: lower .* to at most 1/6 of the card's"):
        TRANSFER.result(answer(2, 5, 6, 7, 8))
    with pytest.raises(SpiError, match="refused the request because its checksum was wrong"):
        TRANSFER.result(answer(4, 0, 0, 0, 0))
    assert [bit.name for bit in StatusBits] == ["DONE", "FLAGGED", "DAMAGED"]
    whole = answer(1, 5, 6, 7, 8)
    with pytest.raises(SpiError, match="checksum of the card's answer is wrong"):
        TRANSFER.result(whole[:-1] + bytes((whole[-1] ^ 1,)))
    for damaged in (whole[1:], whole + b"\0"):
        with pytest.raises(
            ValueError, match=f"^A transfer must have 20 bytes, not {len(damaged)}.$"
        ):
            TRANSFER.result(damaged)
