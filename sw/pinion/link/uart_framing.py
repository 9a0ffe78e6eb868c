"""The serial link: beats and register accesses as frames of bytes, for boards without PCIe.

The packets of `pinion.link.protocol` travel beat by beat. Bytes are those of a UART: 8 bits, no
parity, one stop bit, no lines for flow control. Numbers are little-endian, but for the checksum.

====== ===== ============= ======================================== ==============================
kind   name  direction     body behind the kind                     meaning
====== ===== ============= ======================================== ==============================
1      BEAT  both          64 bytes                                 a beat of the stream
2      LAST  card to host  64 bytes                                 a beat with TLAST
3      READ  host to card  tag, offset, four zeros                  read a register
4      WRITE host to card  tag, offset, four bytes of value         write a register
5      VALUE card to host  tag, offset, four bytes of value         answer to READ and WRITE
6      SYNC  host to card  tag, zero, four zeros                    ask for a ROOM
7      ROOM  card to host  tag (0 unasked), zero, four bytes taken  answer to SYNC, and unasked
====== ===== ============= ======================================== ==============================

On the line a frame is kind, body and checksum (CRC-16/XMODEM of kind and body, high byte first),
stuffed so that no byte of it is zero (consistent overhead byte stuffing: each run of bytes up to a
zero, or to the frame's end, has its length plus one before it and the zero left out), and a zero.
A frame of a beat takes 69 bytes on the line, any other 11, whatever they carry.

A zero ends a frame whatever was before it, so a receiver that has lost its place finds it at the
next zero; so does a byte without a stop bit, which a break is. The card drops damaged frames of at
most `SHORT` bytes; a longer one was a beat, and enters the stream as a beat that is not whole, with
which the card stops (`Cause.PARTIAL_BEAT`) until its soft reset. Register frames pass at any time,
also while the card is stopped. Tags tell an answer from the answer to an earlier try: the host
repeats a READ or WRITE that is not answered. The card serves one at a time.

The card has room for ``slots`` beats that the stream has not taken yet (`SLOTS` unless built
otherwise). ROOM carries the count of beats that the stream has taken since configuration (32 bits,
it wraps); the host never has more than ``slots`` beats under way beyond it. The card sends ROOM
without being asked whenever its line is free and the count has changed, and between beats when it
has changed by a quarter of the slots. What the card sends is not held back: the host reads always.
"""

from __future__ import annotations

from binascii import crc_hqx
from enum import IntEnum

from .protocol import BEAT

BAUD = 3_000_000
"""Bits a second: the most that the USB bridge of the boards can do."""

SLOTS = 64
"""Beats that the card has room for beyond those that its stream has taken."""

COMMAND = 7
"""Bytes of a frame that carries no beat, without checksum."""

CHECK = 2
"""Bytes of the checksum."""

SHORT = 16
"""Damaged frames of more bytes, checksum included and unstuffed, count as beats."""

WIRE_BEAT = 1 + BEAT + CHECK + 2
"""Bytes on the line of a beat."""

WIRE_COMMAND = COMMAND + CHECK + 2

END = b"\0"


class Frame(IntEnum):
    """Kinds of frames."""

    BEAT = 1
    LAST = 2
    READ = 3
    WRITE = 4
    VALUE = 5
    SYNC = 6
    ROOM = 7


def wrap(body: bytes) -> bytes:
    """Kind and body as they go on the line, at most 252 bytes: checksum, stuffing, end."""
    if not 1 <= len(body) <= 254 - CHECK:
        raise ValueError(f"A frame has 1 to {254 - CHECK} bytes, not {len(body)}.")
    text = body + crc_hqx(body, 0).to_bytes(CHECK, "big")
    runs = text.split(END)
    return b"".join(bytes((len(run) + 1,)) + run for run in runs) + END


def unwrap(text: bytes) -> bytes | None:
    """Kind and body of what came between two zeros; None when it is damaged."""
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


def command(kind: Frame, *, tag: int, offset: int = 0, value: int = 0) -> bytes:
    """A frame that carries no beat, as it goes on the line.

    Parameters
    ----------
    tag : 0 to 255.
    offset : of a register, 0 to 255.
    value : 32 bits.
    """
    return wrap(bytes((kind, tag, offset)) + value.to_bytes(4, "little"))


def beats(packet: bytes, *, last: bool = False) -> bytes:
    """Beats as they go on the line.

    Parameters
    ----------
    packet : a multiple of 64 bytes.
    last : the final one ends a packet of the card.
    """
    if len(packet) % BEAT:
        raise ValueError(f"Beats have {BEAT} bytes; {len(packet)} bytes are no whole beats.")
    kind = bytes((Frame.BEAT,))
    frames = [wrap(kind + packet[at : at + BEAT]) for at in range(0, len(packet), BEAT)]
    if last and frames:
        frames[-1] = wrap(bytes((Frame.LAST,)) + packet[-BEAT:])
    return b"".join(frames)
