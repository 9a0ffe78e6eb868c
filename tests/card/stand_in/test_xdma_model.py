"""The model of the vendor's driver: each rule visible to a program."""

from __future__ import annotations

import errno
import re
import threading
from contextlib import contextmanager

import numpy as np
import pytest

from pinion.card.stand_in import Fault, FaultPlan
from pinion.card.stand_in.transfer import Reading, pages, transfer_beats, transfers
from pinion.link import Cause, read_response, register
from pinion.link.registers import HALTED, OPEN, RESET

ERROR, STATUS, CONTROL = (register(name).offset for name in ("ERROR", "STATUS", "CONTROL"))

SOON = 0.1
"""Seconds after which a transfer must time out although the card is sound."""


@contextmanager
def fails_with(number: int):
    with pytest.raises(OSError, match=re.escape(f"[Errno {number}]")):
        yield


def word(model, name: str) -> int:
    return int.from_bytes(model.read_register(register(name).offset), "little")


def exchange(model, card, count: int, sequence: int, *, length: int | None = None):
    """Write and read concurrently; return the packet, and responses or exceptions."""
    packet = card.request(count, sequence)
    results: list = []

    def read() -> None:
        try:
            size = card.layout.response_bytes(count) if length is None else length
            results.append(model.read(size))
        except OSError as error:
            results.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        model.write(packet.data)
    except OSError as error:
        results.append(error)
    thread.join()
    return packet, results


def check(card, packet, response: bytes, count: int, sequence: int) -> None:
    array = np.frombuffer(response, dtype=np.uint8)
    read_response(card.layout, array, count, sequence)
    words, flags = card.expected(card.words(packet, count))
    assert np.array_equal(card.layout.response_words(array, count), words)
    assert np.array_equal(card.layout.response_flags(array, count), flags)


@pytest.mark.parametrize("count", [1, 3, 64, 700, 5000])
def test_packets_come_back_whole(card, count):
    model = card.model()
    for sequence in range(3):
        packet, results = exchange(model, card, count, sequence)
        check(card, packet, results[0], count, sequence)
    assert model.log() == []


def test_transfers_split_at_pages_ring_and_length():
    assert pages(10_000, 0) == [4096, 8192, 10_000]
    assert pages(10_000, 4096 - 64) == [64, 4160, 8256, 10_000]
    parts, index = transfers(3000 * 4096, 0, 0)
    assert [part.stop for part in parts] == [2048 * 4096, 3000 * 4096]
    assert index == 952
    parts, index = transfers(3000 * 4096, 0, 952)  # wraps in the middle
    assert [part.stop for part in parts] == [1096 * 4096, 3000 * 4096]
    assert index == (952 + 3000) % 2048


def test_a_buffer_that_is_not_aligned_gives_partial_beats_at_page_bounds():
    data = memoryview(bytes(range(256)) * 32)
    beats, keep = transfer_beats(data, 4096 - 40)
    ones = [bin(int(value)).count("1") for value in keep]
    assert sum(ones) == len(data)
    assert ones[0] == 40 and ones[1:65] == [64] * 64 and ones[-1] == (len(data) - 40) % 4096 % 64
    assert beats[0].tobytes()[:40] == bytes(data[:40])
    assert beats[1].tobytes() == bytes(data[40:104])


def test_a_packet_closes_its_page_and_leaves_a_hole():
    reading = Reading(length=8192)
    beats = np.ones((2, 16), dtype=np.uint32)
    assert reading.take(beats, np.array([False, True])) == 2
    assert not reading.full
    assert reading.take(beats, np.array([False, True])) == 2
    assert reading.full and reading.end == 4096 + 128
    assert set(reading.buffer[128:4096]) == {0xA5}
    short = Reading(length=4096)
    assert short.take(beats, np.array([False, True])) == 2
    assert short.full and short.end == 128
    exact = Reading(length=128 + 4096)
    assert exact.take(np.ones((70, 16), dtype=np.uint32), np.zeros(70, dtype=bool)) == 66
    assert exact.full


def test_a_read_longer_than_the_packet_waits_for_the_timeout(card):
    _, results = exchange(card.model(sound_timeout=SOON), card, 1, 0, length=8192)
    assert results[0].errno == errno.ETIMEDOUT


def test_a_sound_card_waits_for_a_busy_host(card, monkeypatch):
    """The short timeout ends a transfer only after a fault."""
    model = card.model(timeout=0.01)
    late = threading.Event()
    ask = model._given_up

    def given_up(still: float) -> bool:
        if still >= 2 * model.timeout:
            late.set()
        return ask(still)

    monkeypatch.setattr(model, "_given_up", given_up)
    response = card.layout.response_bytes(64)
    results: list = []
    thread = threading.Thread(target=lambda: results.append(model.read(response)))
    thread.start()
    assert late.wait(30)
    packet = card.request(64, 0)
    model.write(packet.data)
    thread.join()
    check(card, packet, results[0], 64, 0)
    model.write_register(CONTROL, RESET.to_bytes(4, "little"))
    with fails_with(errno.ETIMEDOUT):
        model.read(response)
    model.write_register(CONTROL, bytes(4))
    model.write(np.zeros(64, np.uint8).data)  # no header: the card halts
    with fails_with(errno.ETIMEDOUT):
        model.read(response)


def test_a_write_beyond_the_buffers_waits_for_a_read(card):
    model = card.model(depth=16, sound_timeout=SOON)
    with fails_with(errno.ETIMEDOUT):
        model.write(card.request(700, 0).data)
    model = card.model(depth=16)
    model.write(card.request(3, 0).data)  # fits


def test_the_timeout_has_another_number_in_older_drivers(card):
    with fails_with(512):
        card.model(timeout_errno=512, sound_timeout=SOON).read(256)


def test_the_stream_to_the_host_opens_once(card):
    model = card.model()
    model.open_c2h()
    with fails_with(errno.EBUSY):
        model.open_c2h()
    model.close_c2h()
    model.open_c2h()


def test_registers_are_words_whatever_is_asked_for(card):
    model = card.model()
    offset = register("SCRATCH").offset
    assert model.write_register(offset, bytes([1, 2, 3, 4, 5, 6, 7, 8])) == 4
    assert model.read_register(offset, 8) == bytes([1, 2, 3, 4])
    assert model.read_register(offset + 4, 8) == bytes(4)
    for call in (lambda: model.read_register(offset + 2), lambda: model.write_register(1, b"abcd")):
        with fails_with(errno.EPROTO):
            call()
    assert {record.kind for record in model.log()} == {"trap_9"}


def test_a_partial_beat_halts_the_card_until_the_soft_reset(card):
    model = card.model()
    packet = card.request(64, 0)
    model.write(packet.data, address=4096 - 40)
    assert word(model, "ERROR") == Cause.PARTIAL_BEAT
    assert word(model, "STATUS") & HALTED
    model.write_register(CONTROL, RESET.to_bytes(4, "little"))
    model.write_register(CONTROL, bytes(4))
    assert word(model, "ERROR") == 0
    packet, results = exchange(model, card, 5, 1)
    check(card, packet, results[0], 5, 1)
    assert [record.kind for record in model.log()] == ["trap_2"]


def test_the_soft_reset_ends_an_open_response(card):
    model = card.model()
    model.write(card.request(64, 0).data)
    assert word(model, "STATUS") & OPEN
    head = model.read(64)
    assert head[:4] == b"PNRS"
    model.write_register(CONTROL, RESET.to_bytes(4, "little"))
    rest = model.read(4096)
    assert len(rest) == 128 and rest[64:68] == b"PNAB"
    assert not word(model, "STATUS") & OPEN


HARMLESS = ("delay", "split_tlast", "ring_wrap", "ebusy")


@pytest.mark.parametrize("kind", HARMLESS)
def test_harmless_faults_change_nothing(card, kind):
    model = card.model(FaultPlan(faults=(Fault(kind=kind, at=(0, 1)),)))
    for sequence in range(3):
        packet, results = exchange(model, card, 64, sequence)
        check(card, packet, results[0], 64, sequence)
    records = model.log()
    assert [(record.kind, record.packet) for record in records] == [(kind, 0), (kind, 1)]


@pytest.mark.parametrize("side", ["request", "response"])
@pytest.mark.parametrize(("kind", "number"), [("etimedout", 110), ("errno512", 512)])
def test_transfers_that_time_out(card, kind, number, side):
    model = card.model(FaultPlan(faults=(Fault(kind=kind, at=(1,), side=side),)))
    packet, results = exchange(model, card, 64, 7)
    check(card, packet, results[0], 64, 7)
    _, results = exchange(model, card, 64, 8)
    assert number in [error.errno for error in results if isinstance(error, OSError)]
    assert [(record.kind, record.packet, record.sequence) for record in model.log()] == [
        (kind, 1, 8)
    ]


def test_a_short_read_leaves_the_rest_in_the_card(card):
    model = card.model(FaultPlan(faults=(Fault(kind="short_read", at=(0,), beats=3),)))
    _, results = exchange(model, card, 64, 0)
    assert len(results[0]) == 3 * 64
    rest = model.read(card.layout.response_bytes(64) - 3 * 64)
    assert rest[-64:-60] == b"PNTR"


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (Fault(kind="partial_tkeep", at=(0,), beat=2, size=9), Cause.PARTIAL_BEAT),
        (Fault(kind="corrupt_beat", at=(0,), beat=0, bit=70), Cause.HEADER_CRC),
        (Fault(kind="other_build", at=(0,), seconds=60.0), Cause.BUILD),
    ],
)
def test_faults_that_the_card_names(card, fault, cause):
    model = card.model(FaultPlan(faults=(fault,)))
    before = word(model, "BUILD_LOW")
    _, results = exchange(model, card, 64, 0)
    assert results[0].errno == errno.ETIMEDOUT
    assert word(model, "ERROR") == cause
    assert (word(model, "BUILD_LOW") != before) == (fault.kind == "other_build")


def test_damaged_records_are_told_in_the_trailer(card):
    fault = Fault(kind="corrupt_beat", at=(0,), beat=5, bit=511)
    model = card.model(FaultPlan(faults=(fault,)))
    _, results = exchange(model, card, 64, 0)
    assert results[0][-60] & 1
    assert word(model, "ERROR") == Cause.PAYLOAD_CRC


def test_damaged_responses_fail_their_checksum(card):
    fault = Fault(kind="corrupt_beat", side="response", at=(0,), beat=4, bit=3)
    model = card.model(FaultPlan(faults=(fault,)))
    _, results = exchange(model, card, 64, 0)
    array = np.frombuffer(results[0], dtype=np.uint8)
    with pytest.raises(ValueError, match="checksum"):
        read_response(card.layout, array, 64, 0)


@pytest.mark.parametrize("side", ["request", "response"])
def test_a_lost_tail_is_waited_for(card, side):
    fault = Fault(kind="lost_tail", side=side, at=(0,), beats=2)
    model = card.model(FaultPlan(faults=(fault,)))
    _, results = exchange(model, card, 64, 0)
    assert results[0].errno == errno.ETIMEDOUT


def test_a_card_that_is_configured_anew_in_mid_batch_tears_the_stream(card):
    model = card.model(FaultPlan(faults=(Fault(kind="card_reset", at=(1,), beat=9),)))
    exchange(model, card, 64, 0)
    assert word(model, "BATCHES") == 1
    _, results = exchange(model, card, 64, 1)
    assert results[0].errno == errno.ETIMEDOUT
    assert word(model, "BATCHES") == 0 and word(model, "ERROR") == Cause.MAGIC
