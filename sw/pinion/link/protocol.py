"""The record protocol: packets of 64-byte beats on an AXI4-Stream, in each direction.

A request packet is a header and records; a response packet is a header, records, flags and a
trailer. Everything is little-endian. Records follow each other without padding; the last beat of a
section is padded with zeros.

======== ==================================================== ====================================
section  request                                              response
======== ==================================================== ====================================
header   one beat, `HEADER`, magic `Magic.REQUEST`            one beat, magic `Magic.RESPONSE`
records  ``count`` records of ``words`` float32 words         ``count`` records of ``words`` words
flags    -                                                    one bit per record, record 0 first
trailer  -                                                    one beat, `TRAILER`
======== ==================================================== ====================================

The header delimits a request, not the end of a transfer or TLAST, because the DMA engine ends a
transfer where its own lists of descriptors end. A response is one packet, of a length that the host
knows in advance, with TLAST only on its last beat.
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
"""Maximum number of records in a packet: the card stores a flag for each until the packet's end."""


class Magic(IntEnum):
    """First word of a header, trailer or abort beat, readable as text in memory."""

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
payload_crc : request: CRC-32 of all beats after the header. Response: 0; see the trailer.
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
count, sequence : as in the header.
flagged : records whose flag is set.
cycles : from acceptance of the request's header until this trailer is ready to be sent.
stalled : part of `cycles` in which a beat was offered to the host but not taken.
starved : part of `cycles` in which a request packet had begun but none of its beats was offered.
reserved : zeros.
crc : CRC-32 of the whole packet, from its header on, with this field zero.
"""

CRC_FIELD = BEAT - 4
"""Byte of ``crc`` in a header and in a trailer: their last word."""

assert HEADER.itemsize == BEAT and TRAILER.itemsize == BEAT


class Status(IntFlag):
    """Status bits of a batch, in the trailer of its response."""

    OK = 0
    PAYLOAD_CRC = 1
    """The records arrived damaged: the results are not those of the requests."""
    CORE_ERROR = 2
    """Record boundaries were lost between link and core: the results cannot be trusted."""
    FLAGGED = 4
    """Some record's flag is set. Not an error: see the flags."""


class Cause(IntEnum):
    """Fault that the card reports; the register ERROR holds the first one until a reset.

    A stopped card takes and drops every request beat and sends nothing. After `PAYLOAD_CRC` and
    `CORE_ERROR` the card does not stop: it reports them in the trailer of their batch.
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
        """Description of the fault, for an error message."""
        return _SENTENCES[self]


_SENTENCES = {
    Cause.NONE: "the card found no fault",
    Cause.MAGIC: "a request does not begin with the magic word: the stream is torn",
    Cause.VERSION: "a request header has a different protocol version",
    Cause.HEADER_CRC: "a request header arrived damaged",
    Cause.FUNCTION: "a request names a function that this card does not have",
    Cause.BUILD: "a request was made for another build",
    Cause.COUNT: f"a request header counts no records, or more than {MAX_COUNT}",
    Cause.WORDS: "a request header has the wrong number of words per record",
    Cause.PARTIAL_BEAT: "a beat has fewer than 64 bytes: the buffer was not aligned",
    Cause.PAYLOAD_CRC: "the records of a request arrived damaged",
    Cause.CORE_ERROR: "the core lost its record boundaries",
}


def field_of(record: np.dtype[np.void], name: str) -> tuple[np.dtype[Any], int]:
    """Return the type and the byte offset of a record's field.

    Parameters
    ----------
    record : a record type such as `HEADER`.

    Raises
    ------
    KeyError
        If the record has no such field.
    """
    if record.fields is None or name not in record.fields:
        raise KeyError(
            f"The record has no field '{name}'; it has {', '.join(record.names or ()) or 'none'}."
        )
    dtype, offset = record.fields[name][:2]
    return dtype, offset


def function_id(name: str) -> int:
    """Return the 32-bit identifier of a function: the CRC-32 of its name."""
    return crc32(name.encode())
