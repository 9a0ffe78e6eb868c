"""Packets in memory: lengths, views, headers and checksums of requests, checks of responses."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.amounts import amount
from pinion.base.arrays import Bytes

from .checksum import crc32
from .manifest import Manifest
from .protocol import (
    BEAT,
    CRC_FIELD,
    FLAGS_PER_BEAT,
    HEADER,
    MAX_COUNT,
    PROTOCOL_VERSION,
    TRAILER,
    Magic,
    Status,
    field_of,
    function_id,
)

_NO_CRC = bytes(4)


def _reader(dtype: np.dtype[np.void]) -> tuple[Struct, Any]:
    """Return a struct and a named tuple that decode a beat ten times as fast as a NumPy view."""
    fields = [(name, field_of(dtype, name)[0]) for name in dtype.names or ()]
    plain = [name for name, sub in fields if sub.subdtype is None]
    codes = {4: "I", 8: "Q"}
    text = "".join(
        codes[sub.itemsize] if sub.subdtype is None else f"{sub.itemsize}x" for _, sub in fields
    )
    return Struct(f"<{text}"), namedtuple("Beat", plain)


_HEADER, _Header = _reader(HEADER)
_TRAILER, _Trailer = _reader(TRAILER)


class FrameError(ValueError):
    """A packet differs from what is expected; the message names the field."""


class AbortedError(FrameError):
    """The card cut off this response because it was reset."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Layout of the packets of one build; a ``count`` is a number of samples.

    Members
    -------
    function : `pinion.link.function_id` of the function.
    build : 64-bit manifest hash.
    words_in, words_out : 32-bit words of a request and of a result record.
    parameter_words : words of the parameters that serve all records of a request packet, in as many
        further records as they fill, before the others.
    interleave : samples of a record, one after another; only the last record may lack some.
    """

    function: int
    build: int
    words_in: int
    words_out: int
    parameter_words: int = 0
    interleave: int = 1

    def records(self, count: int) -> int:
        """Return the number of records of ``count`` samples."""
        return -(-count // self.interleave)

    @property
    def parameter_records(self) -> int:
        """Records of a request packet that hold parameters."""
        return -(-self.parameter_words // self.words_in) if self.parameter_words else 0

    def request_bytes(self, count: int) -> int:
        """Return the size of a request packet in bytes, a multiple of 64."""
        records = self.parameter_records + _checked(self.records(count))
        return BEAT * (1 + _beats(4 * self.words_in * records))

    def parameters(self, packet: Bytes) -> NDArray[np.uint32]:
        """Return a view (parameter_words,) of a request packet's parameters."""
        return packet[BEAT : BEAT + 4 * self.parameter_words].view(np.uint32)

    def response_bytes(self, count: int) -> int:
        """Return the size of a response packet in bytes, a multiple of 64."""
        records = _checked(self.records(count))
        return BEAT * (2 + _beats(4 * self.words_out * records) + _flag_beats(records))

    def request_words(self, packet: Bytes, count: int) -> NDArray[np.uint32]:
        """Return a view (count, words) of the samples in a request packet's records."""
        start = BEAT + 4 * self.words_in * self.parameter_records
        return self._samples(packet[start:], self.words_in, count)

    def core_words(self, payload: Bytes, count: int) -> NDArray[np.uint32]:
        """Return records with the parameters appended, (count, words_in + parameter_words)."""
        words = payload[: 4 * self.words_in * (self.parameter_records + count)].view(np.uint32)
        records = words[self.words_in * self.parameter_records :].reshape(count, self.words_in)
        if not self.parameter_words:
            return records
        parameters = np.broadcast_to(words[: self.parameter_words], (count, self.parameter_words))
        return np.concatenate([records, parameters], axis=1)

    def response_words(self, packet: Bytes, count: int) -> NDArray[np.uint32]:
        """Return a view (count, words) of the samples in a response packet's records."""
        return self._samples(packet[BEAT:], self.words_out, count)

    def response_flags(self, packet: Bytes, count: int) -> NDArray[np.bool_]:
        """Return a copy of the flags (count,); samples of a record have the same one."""
        records = self.records(count)
        start = BEAT * (1 + _beats(4 * self.words_out * records))
        bits = packet[start : start + BEAT * _flag_beats(records)]
        flags = np.unpackbits(bits, count=records, bitorder="little").astype(np.bool_)
        return np.repeat(flags, self.interleave)[:count]

    def _samples(self, payload: Bytes, words: int, count: int) -> NDArray[Any]:
        """Return a view (count, words / interleave) of records with ``words`` words."""
        length = 4 * words // self.interleave
        return payload[: length * count].view(np.uint32).reshape(count, length // 4)


def layout_of(manifest: Manifest) -> Layout:
    """Return the packet layout of a build."""
    return Layout(
        function=function_id(manifest.function),
        build=manifest.hash,
        words_in=manifest.interleave * sum(array.words for array in manifest.records),
        words_out=manifest.interleave * manifest.words_out,
        parameter_words=0 if manifest.parameters is None else manifest.parameters.words,
        interleave=manifest.interleave,
    )


@dataclass(frozen=True, kw_only=True)
class ResponseHead:
    """Status and counters of a response; cycles as in `pinion.link.protocol.TRAILER`."""

    status: Status
    sequence: int
    flagged: int
    cycles: int
    stalled: int
    starved: int


def seal_request(layout: Layout, packet: Bytes, count: int, sequence: int) -> None:
    """Write the header and checksums of a request whose records are already in the packet.

    Parameters
    ----------
    packet : (request_bytes(count),) uint8; the padding after the parameters and after the last
        record is zeroed. A last record with fewer samples is filled with the last sample.
    count : number of samples.
    sequence : 32 bits, repeated by the card.
    """
    length, records = layout.request_bytes(count), layout.records(count)
    if packet.shape != (length,) or packet.dtype != np.uint8:
        raise FrameError(
            f"A request of {amount(records, 'record')} needs an array of shape ({length},) and "
            f"dtype uint8, not {packet.shape} and {packet.dtype}."
        )
    before = 4 * layout.words_in * layout.parameter_records
    packet[BEAT + 4 * layout.parameter_words : BEAT + before] = 0
    packet[BEAT + before + 4 * layout.words_in * records :] = 0
    samples = layout.request_words(packet, records * layout.interleave)
    samples[count:] = samples[count - 1]
    header = np.zeros((), dtype=HEADER)
    header["magic"] = Magic.REQUEST
    header["version"] = PROTOCOL_VERSION
    header["function"] = layout.function
    header["count"] = records
    header["sequence"] = sequence
    header["words"] = layout.words_in
    header["build"] = layout.build
    header["payload_crc"] = crc32(packet[BEAT:])
    header["crc"] = crc32(header.tobytes())
    packet[:BEAT] = np.frombuffer(header.tobytes(), dtype=np.uint8)


def read_response(layout: Layout, packet: Bytes, count: int, sequence: int) -> ResponseHead:
    """Check a response packet against its request, and return its status and counters.

    Parameters
    ----------
    packet : (response_bytes(count),) uint8, as it was read.
    count, sequence : count and sequence number of the request.

    Raises
    ------
    AbortedError
        If the card cut it off.
    FrameError
        If anything but the records and their flags is wrong.
    """
    length, records = layout.response_bytes(count), layout.records(count)
    if packet.shape != (length,) or packet.dtype != np.uint8:
        raise FrameError(
            f"A response of {amount(records, 'record')} needs an array of shape ({length},) and "
            f"dtype uint8, not {packet.shape} and {packet.dtype}."
        )
    header = _Header._make(_HEADER.unpack_from(packet.data))
    trailer = _Trailer._make(_TRAILER.unpack_from(packet.data, length - BEAT))
    if header.magic == Magic.ABORT:
        raise AbortedError("The card was reset before its response was complete.")
    _same("magic word", header.magic, Magic.RESPONSE)
    _same("protocol version", header.version, PROTOCOL_VERSION)
    _same("build hash", header.build, layout.build)
    _same("function", header.function, layout.function)
    _same("number of words", header.words, layout.words_out)
    _same("sequence number", header.sequence, sequence)
    _same("number of records", header.count, records)
    if trailer.magic != Magic.TRAILER and _was_cut(packet):
        raise AbortedError("The card was reset before its response was complete.")
    _same("magic word of the trailer", trailer.magic, Magic.TRAILER)
    checksum = crc32(_NO_CRC, crc32(packet[: length - BEAT + CRC_FIELD]))
    _same("checksum", trailer.crc, checksum)
    _same("sequence number of the trailer", trailer.sequence, sequence)
    _same("number of records of the trailer", trailer.count, records)
    return ResponseHead(
        status=Status(trailer.status),
        sequence=sequence,
        flagged=trailer.flagged,
        cycles=trailer.cycles,
        stalled=trailer.stalled,
        starved=trailer.starved,
    )


def _was_cut(packet: Bytes) -> bool:
    first = packet.reshape(-1, BEAT)[:, :4].copy().view("<u4")
    return bool((first == int(Magic.ABORT)).any())


def _same(field: str, actual: int, expected: int) -> None:
    if actual != expected:
        raise FrameError(f"The response's {field} is {actual:#x} instead of {expected:#x}.")


def _checked(records: int) -> int:
    if not 1 <= records <= MAX_COUNT:
        raise FrameError(f"A packet must have 1 to {MAX_COUNT} records, not {records}.")
    return records


def _beats(length: int) -> int:
    return -(-length // BEAT)


def _flag_beats(count: int) -> int:
    return -(-count // FLAGS_PER_BEAT)
