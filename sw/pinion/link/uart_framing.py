"""The serial link: beats and register accesses as frames of bytes, for boards without PCIe.

The packets of `pinion.link.protocol` are sent beat by beat. Bytes are those of a UART: 8 bits, no
parity, one stop bit, no flow control. Numbers are little-endian, except the checksum.

====== ===== ============= ======================================== ==============================
kind   name  direction     body after the kind                      meaning
====== ===== ============= ======================================== ==============================
1      BEAT  both          64 bytes                                 a beat of the stream
2      LAST  card to host  64 bytes                                 a beat with TLAST
3      READ  host to card  tag, offset, four zeros                  read a register
4      WRITE host to card  tag, offset, four bytes of value         write a register
5      VALUE card to host  tag, offset, four bytes of value         answer to READ and WRITE
6      SYNC  host to card  tag, zero, four zeros                    ask for a ROOM
7      ROOM  card to host  tag (or 0), zero, four bytes taken       answer to SYNC, or unsolicited
====== ===== ============= ======================================== ==============================

On the line a frame is kind, body and checksum (CRC-16/XMODEM of kind and body, high byte first),
stuffed so that no byte of it is zero (consistent overhead byte stuffing: each run of bytes up to a
zero, or to the frame's end, has its length plus one before it and the zero left out), and a zero.
A frame with a beat takes 69 bytes on the line, any other 11, whatever their content.

A zero always ends a frame, so a receiver that has lost its place finds it at the next zero; so does
a byte without a stop bit, which is a break. The card drops damaged frames of at most `SHORT` bytes;
a longer one was a beat, and enters the stream as a partial beat, which stops the card
(`Cause.PARTIAL_BEAT`) until its soft reset. Register frames are served at any time, even while the
card is stopped. Tags distinguish an answer from the answer to an earlier attempt: the host repeats
a READ or WRITE that is not answered. The card serves one at a time.

The card has room for ``slots`` beats that the stream has not yet taken (`SLOTS` by default). ROOM
carries the count of beats that the stream has taken since configuration (32 bits, wrapping); the
host never has more than ``slots`` further beats in flight. The card sends unsolicited ROOM frames
whenever its line is free and the count has changed, and between beats when it has changed by a
quarter of the slots. The card's data has no flow control: the host must always read.
"""

from __future__ import annotations

from binascii import crc_hqx
from enum import IntEnum

from .protocol import BEAT

BAUD = 3_000_000
"""Bits per second: the maximum of the boards' USB bridge."""

SLOTS = 64
"""Beats that the card has room for beyond those that its stream has taken."""

COMMAND = 7
"""Bytes of a frame without a beat, without checksum."""

CHECK = 2
"""Bytes of the checksum."""

SHORT = 16
"""Largest damaged frame in bytes, unstuffed and with checksum, that does not count as a beat."""

WIRE_BEAT = 1 + BEAT + CHECK + 2
"""Bytes on the line of a beat."""

WIRE_COMMAND = COMMAND + CHECK + 2

END = b"\0"


class FrameKind(IntEnum):
    """Kinds of frames on the serial line."""

    BEAT = 1
    LAST = 2
    READ = 3
    WRITE = 4
    VALUE = 5
    SYNC = 6
    ROOM = 7


def wrap(body: bytes) -> bytes:
    """Return the bytes on the line for a frame's kind and body, at most 252 bytes together."""
    if not 1 <= len(body) <= 254 - CHECK:
        raise ValueError(f"A frame must have 1 to {254 - CHECK} bytes, not {len(body)}.")
    text = body + crc_hqx(body, 0).to_bytes(CHECK, "big")
    runs = text.split(END)
    return b"".join(bytes((len(run) + 1,)) + run for run in runs) + END


def unwrap(text: bytes) -> bytes | None:
    """Return kind and body of the bytes between two zeros, or None if they are damaged."""
    runs = []
    at = 0
    if 0 in text:
        return None
    while at < len(text):
        end = at + text[at]
        runs.append(text[at + 1 : end])
        at = end
    body = END.join(runs)
    if at != len(text) or len(body) <= CHECK or crc_hqx(body, 0):
        return None
    return body[:-CHECK]


def command(kind: FrameKind, *, tag: int, offset: int = 0, value: int = 0) -> bytes:
    """Return the bytes on the line for a frame without a beat.

    Parameters
    ----------
    tag : 0 to 255.
    offset : offset of a register, 0 to 255.
    value : 32 bits.
    """
    return wrap(bytes((kind, tag, offset)) + value.to_bytes(4, "little"))


def beats(packet: bytes, *, last: bool = False) -> bytes:
    """Return the bytes on the line for a packet, one frame per beat.

    Parameters
    ----------
    packet : a multiple of 64 bytes.
    last : the final beat ends a packet of the card.
    """
    if len(packet) % BEAT:
        raise ValueError(
            f"A packet must be a multiple of {BEAT} bytes (a beat), not {len(packet)} bytes."
        )
    kind = bytes((FrameKind.BEAT,))
    frames = [wrap(kind + packet[at : at + BEAT]) for at in range(0, len(packet), BEAT)]
    if last and frames:
        frames[-1] = wrap(bytes((FrameKind.LAST,)) + packet[-BEAT:])
    return b"".join(frames)
