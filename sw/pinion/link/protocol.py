"""The record protocol: packets of 64-byte beats on an AXI4-Stream, each way.

A request packet is a header and records; a response packet is a header, records, flags and a
trailer. Everything is little-endian. Records follow each other densely, without padding between
them; the last beat of a section is filled up with zeros.

======== ==================================================== ====================================
section  request                                              response
======== ==================================================== ====================================
header   one beat, `HEADER`, magic `Magic.REQUEST`            one beat, magic `Magic.RESPONSE`
records  ``count`` records of ``words`` float32 words         ``count`` records of ``words`` words
flags    -                                                    one bit a record, record 0 first
trailer  -                                                    one beat, `TRAILER`
======== ==================================================== ====================================

Neither the end of a transfer nor TLAST bounds a request: its header does, because the DMA engine
ends a transfer where its own lists of descriptors end. A response is one packet of a length that
the host knows beforehand, TLAST on its last beat alone.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Any
from zlib import crc32

import numpy as np

PROTOCOL_VERSION = 1

BEAT = 64
"""Bytes of a beat."""

WORDS_PER_BEAT = BEAT // 4

FLAGS_PER_BEAT = BEAT * 8

MAX_COUNT = 16384
"""Records of a packet at most: the card keeps a flag for each until the packet's end."""


class Magic(IntEnum):
    """First word of a beat that bounds something; as bytes in memory they read as text."""

    REQUEST = int.from_bytes(b"PNRQ", "little")
    RESPONSE = int.from_bytes(b"PNRS", "little")
    TRAILER = int.from_bytes(b"PNTR", "little")
    ABORT = int.from_bytes(b"PNAB", "little")


HEADER = np.dtype(
    [
        ("magic", "<u4"),
        ("version", "<u4"),
        ("function", "<u4"),
        ("count", "<u4"),
        ("sequence", "<u4"),
        ("words", "<u4"),
        ("build", "<u8"),
        ("payload_crc", "<u4"),
        ("reserved", "<u4", (6,)),
        ("crc", "<u4"),
    ]
)
"""Header of either direction.

magic : `Magic`.
version : `PROTOCOL_VERSION`.
function : `function_id` of the function's name.
count : records in this packet, 1 to `MAX_COUNT`.
sequence : chosen by the host, repeated in the response.
words : 32-bit words of each record of this packet.
build : hash of the manifest.
payload_crc : request: CRC-32 of all beats behind the header. Response: 0, the trailer has it.
reserved : zeros, ignored by the card.
crc : request: CRC-32 of this header with this field zero. Response: 0.
"""

TRAILER = np.dtype(
    [
        ("magic", "<u4"),
        ("status", "<u4"),
        ("count", "<u4"),
        ("sequence", "<u4"),
        ("flagged", "<u4"),
        ("cycles", "<u4"),
        ("stalled", "<u4"),
        ("starved", "<u4"),
        ("reserved", "<u4", (7,)),
        ("crc", "<u4"),
    ]
)
"""Trailer of a response. Cycles are those of the link's clock.

magic : `Magic.TRAILER`.
status : bits of `Status`.
count, sequence : those of the header once more.
flagged : records whose flag is set.
cycles : from the request's header being taken to this trailer being ready to leave.
stalled : of those, cycles in which a beat was on offer to the host and not taken.
starved : of those, cycles in which a request packet had begun and none of its beats was there.
reserved : zeros.
crc : CRC-32 of the whole packet, from its header on, with this field zero.
"""

CRC_FIELD = BEAT - 4
"""Where ``crc`` stands in a header and in a trailer: their last word."""

assert HEADER.itemsize == BEAT and TRAILER.itemsize == BEAT


class Status(IntFlag):
    """What a trailer says of its batch."""

    OK = 0
    PAYLOAD_CRC = 1
    """The records came in damaged: these results belong to nobody's requests."""
    CORE_ERROR = 2
    """Records lost their bounds between link and core: the results cannot be trusted."""
    FLAGGED = 4
    """Some record's flag is set. No error: see the flags."""


class Cause(IntEnum):
    """Why the card stopped listening; the first cause stays in a register until a reset.

    A card that has stopped takes and drops every request beat and sends nothing, except after
    `PAYLOAD_CRC` and `CORE_ERROR`, which end their batch with a trailer that says so and go on.
    """

    NONE = 0
    MAGIC = 1
    VERSION = 2
    HEADER_CRC = 3
    FUNCTION = 4
    BUILD = 5
    COUNT = 6
    WORDS = 7
    PARTIAL_BEAT = 8
    PAYLOAD_CRC = 9
    CORE_ERROR = 10

    @property
    def sentence(self) -> str:
        """What the card found, for an error message."""
        return _SENTENCES[self]


_SENTENCES = {
    Cause.NONE: "the card found no fault",
    Cause.MAGIC: "a request does not begin with the magic word, the stream is torn",
    Cause.VERSION: "a request header has another protocol version",
    Cause.HEADER_CRC: "a request header arrived damaged",
    Cause.FUNCTION: "a request names a function that this card does not hold",
    Cause.BUILD: "a request was made for another build",
    Cause.COUNT: f"a request header counts no records, or more than {MAX_COUNT}",
    Cause.WORDS: "a request header has another number of words in a record",
    Cause.PARTIAL_BEAT: "a beat came with less than 64 bytes, the buffer was not aligned",
    Cause.PAYLOAD_CRC: "the records of a request arrived damaged",
    Cause.CORE_ERROR: "the core lost the bounds of its records",
}


def field_of(record: np.dtype[np.void], name: str) -> tuple[np.dtype[Any], int]:
    """Type of a record's field, and the byte of the record in which it begins.

    Parameters
    ----------
    record : such as `HEADER`.

    Raises
    ------
    KeyError
        When the record has no field of that name.
    """
    if record.fields is None or name not in record.fields:
        raise KeyError(f"The record has no field '{name}', but {record.names or ()}.")
    dtype, offset = record.fields[name][:2]
    return dtype, offset


def function_id(name: str) -> int:
    """32 bits that stand for a function's name: its CRC-32, so that no table is needed."""
    return crc32(name.encode())
