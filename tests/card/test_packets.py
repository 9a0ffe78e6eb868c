"""The packet-level card follows the protocol: causes, halts, resets, registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pinion.card.packets import Answers, PacketCard
from pinion.link import (
    BEAT,
    CRC_FIELD,
    HEADER,
    MAX_COUNT,
    REGISTERS,
    Cause,
    Layout,
    Status,
    crc32,
    function_id,
    read_response,
    register,
    seal_request,
)
from pinion.link.registers import HALTED, IN_RESET, QUIET, RESET

LAYOUT = Layout(function=function_id("x"), build=0x1234567890ABCDEF, words_in=3, words_out=5)


def compute(words: np.ndarray) -> Answers:
    return Answers(
        words=np.repeat(words[:, :1] + words[:, 2:], 5, axis=1),
        flagged=words[:, 1] % 3 == 0,
        cycles=9,
        stalled=2,
        starved=1,
    )


@pytest.fixture
def card() -> PacketCard:
    return PacketCard(layout=LAYOUT, compute=compute)


def request(count: int, sequence: int = 7, seed: int = 0) -> np.ndarray:
    packet = np.zeros(LAYOUT.request_bytes(count), np.uint8)
    rng = np.random.default_rng(seed)
    LAYOUT.request_words(packet, count)[:] = rng.integers(0, 1 << 32, (count, 3), dtype=np.uint32)
    seal_request(LAYOUT, packet, count, sequence)
    return packet


def read(card: PacketCard, name: str) -> int:
    return card.read_register(register(name).offset)


def write(card: PacketCard, name: str, value: int) -> None:
    card.write_register(register(name).offset, value)


def check(response: Any, packet: np.ndarray, count: int, sequence: int = 7) -> None:
    assert response is not None
    head = read_response(LAYOUT, response, count, sequence)
    expected = compute(LAYOUT.request_words(packet, count))
    assert np.array_equal(LAYOUT.response_words(response, count), expected.words)
    assert np.array_equal(LAYOUT.response_flags(response, count), expected.flagged)
    assert head.flagged == expected.flagged.sum() and (head.cycles, head.stalled) == (9, 2)
    assert head.status == (Status.FLAGGED if head.flagged else Status.OK)


@pytest.mark.parametrize("count", [1, 5, 6, 511, 512, 513, MAX_COUNT])
def test_a_request_is_answered(card: PacketCard, count: int) -> None:
    packet = request(count)
    check(card.answer(packet), packet, count)
    assert read(card, "ACCEPTED") == read(card, "ANSWERED") == count
    assert read(card, "BATCHES") == 1 and read(card, "SEQUENCE") == 7
    assert read(card, "BATCH_CYCLES") == read(card, "BUSY_LOW") == 9


def test_requests_may_come_in_any_pieces(card: PacketCard) -> None:
    packets = [request(n, sequence=n, seed=n) for n in (1, 70, 2, 33)]
    stream = np.concatenate(packets)
    rng = np.random.default_rng(5)
    cuts = np.sort(rng.integers(0, len(stream) // BEAT, 11)) * BEAT
    responses = [r for part in np.split(stream, cuts) for r in card.feed(part)]
    for n, packet, response in zip((1, 70, 2, 33), packets, responses, strict=True):
        check(response, packet, n, sequence=n)


def _header(name: str, value: Any, *, seal: bool = True) -> Callable[[np.ndarray], None]:
    def change(packet: np.ndarray) -> None:
        header = packet[:BEAT].view(HEADER)
        header[name] = value
        if seal:
            header["crc"] = 0
            header["crc"] = crc32(packet[:BEAT].tobytes())

    return change


CAUSES: dict[str, tuple[Cause, Callable[[np.ndarray], None]]] = {
    "magic": (Cause.MAGIC, _header("magic", 5)),
    "version": (Cause.VERSION, _header("version", 2)),
    "checksum": (Cause.HEADER_CRC, _header("reserved", 1, seal=False)),
    "function": (Cause.FUNCTION, _header("function", 1)),
    "build": (Cause.BUILD, _header("build", 1)),
    "none": (Cause.COUNT, _header("count", 0)),
    "many": (Cause.COUNT, _header("count", MAX_COUNT + 1)),
    "words": (Cause.WORDS, _header("words", 4)),
}


@pytest.mark.parametrize("name", CAUSES)
def test_a_faulty_header_stops_the_card_until_it_is_reset(card: PacketCard, name: str) -> None:
    cause, change = CAUSES[name]
    bad, good = request(4), request(4)
    change(bad)
    assert card.answer(bad) is None and card.answer(good) is None
    assert read(card, "ERROR") == cause and read(card, "STATUS") & HALTED
    assert read(card, "ERRORS") == 1
    assert read(card, "DROPPED") == 2 * len(good) // BEAT - 1
    write(card, "CONTROL", RESET)
    assert read(card, "STATUS") == QUIET | IN_RESET
    assert card.answer(good) is None
    write(card, "CONTROL", 0)
    assert read(card, "ERROR") == Cause.NONE and read(card, "STATUS") == QUIET
    assert read(card, "ERRORS") == 1 and read(card, "ACCEPTED") == 0
    check(card.answer(good), good, 4)


@pytest.mark.parametrize("beat", [0, 1, 2])
def test_a_partial_beat_stops_the_card(card: PacketCard, beat: int) -> None:
    packet = request(20)
    whole = np.ones(len(packet) // BEAT, np.bool_)
    whole[beat] = False
    assert card.feed(packet, whole=whole) == [] and read(card, "ERROR") == Cause.PARTIAL_BEAT
    write(card, "CONTROL", RESET)
    write(card, "CONTROL", 0)
    assert card.feed(packet[:-4]) == [] and read(card, "ERROR") == Cause.PARTIAL_BEAT


def test_damaged_records_are_answered_with_a_word_of_warning(card: PacketCard) -> None:
    packet, good = request(20), request(3)
    packet[BEAT + 7] ^= 1
    response = card.answer(packet)
    assert response is not None
    assert read_response(LAYOUT, response, 20, 7).status & Status.PAYLOAD_CRC
    assert read(card, "ERROR") == Cause.PAYLOAD_CRC and read(card, "ERRORS") == 1
    check(card.answer(good), good, 3)
    packet = request(2)
    packet[:4] = 0
    assert card.answer(packet) is None
    assert read(card, "ERROR") == Cause.PAYLOAD_CRC, "the first cause stays"


def test_a_reset_forgets_half_a_request(card: PacketCard) -> None:
    packet = request(20)
    assert card.feed(packet[:128]) == []
    write(card, "CONTROL", RESET)
    write(card, "CONTROL", 0)
    check(card.answer(packet), packet, 20)


def test_a_reset_during_the_computation_ends_it() -> None:
    def interrupted(words: np.ndarray) -> Answers:
        write(card, "CONTROL", RESET)
        write(card, "CONTROL", 0)
        return compute(words)

    card = PacketCard(layout=LAYOUT, compute=interrupted)
    assert card.answer(request(3)) is None and read(card, "BATCHES") == 0


def test_registers(card: PacketCard) -> None:
    before = {row.name: card.read_register(row.offset) for row in REGISTERS}
    for row in REGISTERS:
        if row.name != "CONTROL":
            card.write_register(row.offset, 0xA5A5A5A5)
    after = {row.name: card.read_register(row.offset) for row in REGISTERS}
    assert after == before | {"SCRATCH": 0xA5A5A5A5}
    assert before["BUILD_HIGH"] == 0x12345678 and before["BUILD_LOW"] == 0x90ABCDEF
    assert card.read_register(0xFC) == 0 and card.read_register(0x1000) == before["IDENTITY"]
    card.answer(request(3))
    card.configure()
    assert {row.name: card.read_register(row.offset) for row in REGISTERS} == before


def test_the_high_word_is_kept_by_reading_the_low(card: PacketCard) -> None:
    card._values["BUSY_LOW"] = 0x2_FFFF_FFFF
    assert read(card, "BUSY_LOW") == 0xFFFFFFFF
    card.answer(request(1))
    assert read(card, "BUSY_HIGH") == 2
    assert (read(card, "BUSY_LOW"), read(card, "BUSY_HIGH")) == (8, 3)


def test_random_bytes_crash_nothing(card: PacketCard) -> None:
    print("seed 11")
    rng = np.random.default_rng(11)
    good = request(9)
    for _ in range(3000):
        packet = good.copy()
        for _ in range(int(rng.integers(0, 4))):
            packet[int(rng.integers(0, len(packet)))] ^= 1 << int(rng.integers(0, 8))
        packet = packet[: int(rng.integers(0, len(packet) + 1))]
        card.feed(packet, whole=rng.random(-(-len(packet) // BEAT)) < 0.95)
        card.write_register(int(rng.integers(0, 1 << 12)), int(rng.integers(0, 1 << 32)))
        card.read_register(int(rng.integers(0, 1 << 32)))
    write(card, "CONTROL", RESET)
    write(card, "CONTROL", 0)
    check(card.answer(good), good, 9)
    assert CRC_FIELD == 60
