"""Packets in memory: round trip, and refusal of changed packets."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinion.link import (
    BEAT,
    HEADER,
    MAX_COUNT,
    PROTOCOL_VERSION,
    TRAILER,
    AbortedError,
    FrameError,
    Layout,
    Magic,
    Status,
    read_response,
    seal_request,
)

Bytes = np.ndarray

LAYOUT = Layout(function=0x1234_5678, build=0x0123_4567_89AB_CDEF, words_in=21, words_out=7)

layouts = st.builds(
    Layout,
    function=st.integers(0, 2**32 - 1),
    build=st.integers(0, 2**64 - 1),
    words_in=st.integers(1, 300),
    words_out=st.integers(1, 300),
    parameter_words=st.one_of(st.just(0), st.integers(1, 60)),
)
counts = st.one_of(st.integers(1, 40), st.integers(500, 1030))
sequences = st.integers(0, 2**32 - 1)
seeds = st.integers(0, 2**32 - 1)


def respond(
    layout: Layout, count: int, sequence: int, *, seed: int
) -> tuple[Bytes, np.ndarray, np.ndarray]:
    """Write a good response without the code under test; return it with its words and flags."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2**32, size=(count, layout.words_out), dtype=np.uint32)
    flags = rng.random(count) < 0.3
    sections = [words.tobytes(), np.packbits(flags, bitorder="little").tobytes()]
    body = b"".join(s + bytes(-len(s) % 64) for s in sections)
    header = np.zeros((), dtype=HEADER)
    header["magic"], header["version"] = Magic.RESPONSE, PROTOCOL_VERSION
    header["function"], header["build"] = layout.function, layout.build
    header["count"], header["sequence"], header["words"] = count, sequence, layout.words_out
    trailer = np.zeros((), dtype=TRAILER)
    trailer["magic"], trailer["count"], trailer["sequence"] = Magic.TRAILER, count, sequence
    trailer["status"] = Status.FLAGGED if flags.any() else 0
    trailer["flagged"] = flags.sum()
    trailer["cycles"], trailer["stalled"], trailer["starved"] = 1000, 20, 3
    plain = header.tobytes() + body + trailer.tobytes()
    sealed = plain[:-4] + zlib.crc32(plain).to_bytes(4, "little")
    return np.frombuffer(sealed, dtype=np.uint8).copy(), words, flags


def reseal(packet: Bytes) -> None:
    """Make the checksum right again, so that something else must notice a change."""
    packet[-4:] = 0
    packet[-4:] = np.frombuffer(zlib.crc32(packet.tobytes()).to_bytes(4, "little"), np.uint8)


@settings(max_examples=60)
@given(layout=layouts, count=counts, sequence=sequences, seed=seeds)
def test_a_request_is_what_the_page_says(
    layout: Layout, count: int, sequence: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    packet = rng.integers(0, 256, size=layout.request_bytes(count), dtype=np.uint8)
    words = rng.integers(0, 2**32, size=(count, layout.words_in), dtype=np.uint32)
    layout.request_words(packet, count)[:] = words
    parameters = rng.integers(0, 2**32, size=layout.parameter_words, dtype=np.uint32)
    layout.parameters(packet)[:] = parameters
    seal_request(layout, packet, count, sequence)
    raw = packet.tobytes()
    # As many records as the parameters fill, zeros after them, come before the others.
    start, record = 64, 4 * layout.words_in
    while start < 64 + 4 * layout.parameter_words:
        start += record
    end = start + record * count
    assert len(raw) % 64 == 0 and len(raw) - end < 64
    front = 64 + 4 * layout.parameter_words
    assert raw[64:front] == parameters.tobytes() and not any(raw[front:start])
    assert raw[start:end] == words.tobytes() and not any(raw[end:])
    core = layout.core_words(packet[64:], count)
    assert core.shape == (count, layout.words_in + layout.parameter_words)
    assert np.array_equal(core[:, : layout.words_in], words)
    assert (core[:, layout.words_in :] == parameters).all()
    word = [int.from_bytes(raw[i : i + 4], "little") for i in range(0, 64, 4)]
    assert raw[:4] == b"PNRQ"
    assert word[1:6] == [1, layout.function, count, sequence, layout.words_in]
    assert word[6] | word[7] << 32 == layout.build
    assert word[8] == zlib.crc32(raw[64:]) and word[9:15] == [0] * 6
    assert word[15] == zlib.crc32(raw[:60] + bytes(4))


@pytest.mark.parametrize(("count", "records"), [(1, 1), (2, 1), (3, 1), (4, 2), (30, 10), (31, 11)])
def test_records_of_three_samples(count: int, records: int) -> None:
    """The last record is filled with the last sample, and a flag is that of three samples."""
    whole = Layout(function=1, build=2, words_in=6, words_out=15)
    layout = Layout(function=1, build=2, words_in=6, words_out=15, interleave=3)
    assert layout.request_bytes(count) == whole.request_bytes(records)
    assert layout.response_bytes(count) == whole.response_bytes(records)
    rng = np.random.default_rng(count)
    packet = rng.integers(0, 256, size=layout.request_bytes(count), dtype=np.uint8)
    samples = rng.integers(0, 2**32, size=(count, 2), dtype=np.uint32)
    layout.request_words(packet, count)[:] = samples
    seal_request(layout, packet, count, 7)
    filled = np.concatenate([samples, np.repeat(samples[-1:], 3 * records - count, axis=0)])
    right = np.zeros_like(packet)
    whole.request_words(right, records)[:] = filled.reshape(records, 6)
    seal_request(whole, right, records, 7)
    assert np.array_equal(packet, right)

    answer, words, flags = respond(whole, records, 7, seed=count)
    assert read_response(layout, answer, count, 7) == read_response(whole, answer, records, 7)
    assert np.array_equal(layout.response_words(answer, count), words.reshape(-1, 5)[:count])
    assert np.array_equal(layout.response_flags(answer, count), np.repeat(flags, 3)[:count])
    with pytest.raises(FrameError, match="number of records"):
        read_response(layout, respond(whole, records + 1, 7, seed=1)[0][: len(answer)], count, 7)


@settings(max_examples=60)
@given(layout=layouts, count=counts, sequence=sequences, seed=seeds)
def test_a_good_response_is_read(layout: Layout, count: int, sequence: int, seed: int) -> None:
    packet, words, flags = respond(layout, count, sequence, seed=seed)
    assert len(packet) == layout.response_bytes(count)
    before = packet.tobytes()
    head = read_response(layout, packet, count, sequence)
    assert (head.sequence, head.flagged) == (sequence, flags.sum())
    assert (head.cycles, head.stalled, head.starved) == (1000, 20, 3)
    assert bool(head.status & Status.FLAGGED) == flags.any()
    assert np.array_equal(layout.response_words(packet, count), words)
    read_flags = layout.response_flags(packet, count)
    assert read_flags.dtype == np.bool_ and np.array_equal(read_flags, flags)
    assert packet.tobytes() == before


@settings(max_examples=200)
@given(seed=seeds, count=st.integers(1, 20), data=st.data())
def test_no_flipped_bit_passes(seed: int, count: int, data: st.DataObject) -> None:
    packet, _, _ = respond(LAYOUT, count, 9, seed=seed)
    bit = data.draw(st.integers(0, 8 * len(packet) - 1))
    packet[bit // 8] ^= 1 << bit % 8
    with pytest.raises(FrameError):
        read_response(LAYOUT, packet, count, 9)


def test_every_bit_of_header_and_trailer_counts() -> None:
    packet, _, _ = respond(LAYOUT, 2, 9, seed=0)
    for byte in (*range(64), *range(len(packet) - 64, len(packet))):
        for bit in range(8):
            packet[byte] ^= 1 << bit
            with pytest.raises(FrameError):
                read_response(LAYOUT, packet, 2, 9)
            packet[byte] ^= 1 << bit
    read_response(LAYOUT, packet, 2, 9)


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("magic", "magic word"),
        ("version", "protocol version"),
        ("build", "build hash"),
        ("function", "function"),
        ("words", "number of words"),
        ("sequence", "sequence number"),
        ("count", "number of records"),
    ],
)
def test_a_wrong_header_is_named_though_its_checksum_is_right(field: str, name: str) -> None:
    packet, _, _ = respond(LAYOUT, 3, 9, seed=1)
    header = packet[:BEAT].view(HEADER)
    header[field] += 1
    reseal(packet)
    with pytest.raises(FrameError, match=f"response's {name} is 0x[0-9a-f]+ instead of 0x"):
        read_response(LAYOUT, packet, 3, 9)


@pytest.mark.parametrize(
    ("field", "name"),
    [("magic", "magic word"), ("sequence", "sequence number"), ("count", "number of records")],
)
def test_a_wrong_trailer_is_named_though_its_checksum_is_right(field: str, name: str) -> None:
    packet, _, _ = respond(LAYOUT, 3, 9, seed=2)
    packet[-BEAT:].view(TRAILER)[field] += 1
    reseal(packet)
    with pytest.raises(FrameError, match=f"{name} of the trailer is"):
        read_response(LAYOUT, packet, 3, 9)


def test_the_answer_to_another_request_is_refused() -> None:
    packet, _, _ = respond(LAYOUT, 3, 9, seed=3)
    for sequence in (8, 10, 9 + 2**31):
        with pytest.raises(FrameError, match="sequence number"):
            read_response(LAYOUT, packet, 3, sequence)


def test_a_status_that_nobody_defined_is_passed_on() -> None:
    packet, _, _ = respond(LAYOUT, 3, 9, seed=3)
    packet[-BEAT:].view(TRAILER)["status"] = 0x8000_0003
    reseal(packet)
    status = read_response(LAYOUT, packet, 3, 9).status
    assert int(status) == 0x8000_0003 and Status.PAYLOAD_CRC in status


def test_a_response_that_was_cut_off_says_so() -> None:
    abort = np.zeros(BEAT, dtype=np.uint8)
    abort[:4] = np.frombuffer(b"PNAB", np.uint8)
    packet, _, _ = respond(LAYOUT, 40, 9, seed=4)
    for beat in range(len(packet) // BEAT):
        cut = packet.copy()
        cut[beat * BEAT : (beat + 1) * BEAT] = abort
        cut[(beat + 1) * BEAT :] = 0
        with pytest.raises(AbortedError, match="reset"):
            read_response(LAYOUT, cut, 40, 9)
        # The rest of the buffer may hold what an earlier packet left there.
        cut[(beat + 1) * BEAT :] = packet[(beat + 1) * BEAT :]
        with pytest.raises(FrameError):
            read_response(LAYOUT, cut, 40, 9)


@pytest.mark.parametrize("change", [-64, -1, 1, 64])
def test_a_packet_of_another_length_is_refused(change: int) -> None:
    packet, _, _ = respond(LAYOUT, 3, 9, seed=5)
    longer = np.concatenate([packet, packet])[: len(packet) + change]
    with pytest.raises(FrameError, match=rf"3 records needs an array of shape \({len(packet)},\)"):
        read_response(LAYOUT, longer, 3, 9)
    request = np.zeros(LAYOUT.request_bytes(3) + change, dtype=np.uint8)
    with pytest.raises(
        FrameError, match=rf"3 records needs .* shape \({LAYOUT.request_bytes(3)},\)"
    ):
        seal_request(LAYOUT, request, 3, 9)


def test_a_packet_of_words_is_refused() -> None:
    packet, _, _ = respond(LAYOUT, 3, 9, seed=6)
    with pytest.raises(FrameError, match="uint32"):
        read_response(LAYOUT, packet.view(np.uint32), 3, 9)
    with pytest.raises(FrameError, match="float32"):
        seal_request(LAYOUT, np.zeros(LAYOUT.request_bytes(3), np.float32), 3, 9)


@pytest.mark.parametrize("count", [0, -1, MAX_COUNT + 1, 2**32])
def test_a_count_that_no_packet_has_is_refused(count: int) -> None:
    for length in (LAYOUT.request_bytes, LAYOUT.response_bytes):
        with pytest.raises(FrameError, match=f"1 to 16384 records, not {count}"):
            length(count)
    with pytest.raises(FrameError, match="1 to 16384"):
        seal_request(LAYOUT, np.zeros(64, np.uint8), count, 9)
    with pytest.raises(FrameError, match="1 to 16384"):
        read_response(LAYOUT, np.zeros(64, np.uint8), count, 9)


def test_the_largest_packet() -> None:
    packet, words, flags = respond(LAYOUT, MAX_COUNT, 9, seed=7)
    read_response(LAYOUT, packet, MAX_COUNT, 9)
    assert np.array_equal(LAYOUT.response_words(packet, MAX_COUNT), words)
    assert np.array_equal(LAYOUT.response_flags(packet, MAX_COUNT), flags)
    assert len(packet) == 64 * (2 + MAX_COUNT * 7 // 16 + 32)


@pytest.mark.parametrize(
    ("words", "count", "beats"), [(1, 1, 1), (1, 16, 1), (1, 17, 2), (16, 5, 5), (105, 1, 7)]
)
def test_lengths_of_packets(words: int, count: int, beats: int) -> None:
    layout = Layout(function=0, build=0, words_in=words, words_out=words)
    assert layout.request_bytes(count) == 64 * (1 + beats)
    assert layout.response_bytes(count) == 64 * (3 + beats)


@pytest.mark.parametrize("count", [511, 512, 513, 1024, 1025])
def test_flags_at_the_bounds_of_a_beat(count: int) -> None:
    layout = Layout(function=0, build=0, words_in=1, words_out=16)
    packet, _, flags = respond(layout, count, 0, seed=count)
    assert len(packet) == 64 * (count + 2 + -(-count // 512))
    read_response(layout, packet, count, 0)
    assert np.array_equal(layout.response_flags(packet, count), flags)
