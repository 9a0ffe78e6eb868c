"""Mutations of bytes and JSON, such as faulty links, damaged files and mistakes cause."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

from pinion.link import BEAT, Magic

_WORDS = (0, 1, 2, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 16384, 16385, *map(int, Magic))

_JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 7, 2**31, 2**64, -(2**64), 10**400),
    *(0.5, -0.0, 1e-320, 1e308, float("nan"), float("inf"), float("-inf")),
    *("", "q", "7", "x" * 1000, "\ud800", "\x00", "../..", "NaN"),
    *([], {}, [[]], [0, 0], [-1], [[0, 1.0]], [10**9] * 9, {"": None}, {"ii": 8}, [None] * 3),
)


class Mutator:
    """Mutator of packets, JSON and text, which repeats its changes for the same seed.

    Parameters
    ----------
    random : the source of all chance.
    """

    def __init__(self, *, random: Random) -> None:
        self.random = random
        self._ways: tuple[Callable[[bytearray, bytes], bytearray], ...] = (
            *(self._flip, self._flip, self._scramble, self._word, self._word),
            *(self._swap, self._drop, self._repeat, self._blank, self._shift),
            *(self._truncate, self._extend, self._splice, self._noise),
        )

    def packet(self, raw: bytes, other: bytes) -> bytes:
        """Return a copy of a packet with one or a few changes, some with pieces of another packet.

        It may have any length, also none, and may by chance be the same.
        """
        packet = bytearray(raw)
        for _ in range(1 if self.random.random() < 0.8 else self.random.randint(2, 5)):
            packet = self.random.choice(self._ways)(packet, other)
        return bytes(packet)

    def _place(self, length: int) -> int:
        """Return a random position; half of the time it is in the first or last beat."""
        if not length:
            return 0
        if self.random.random() < 0.5:
            near = self.random.randrange(min(length, BEAT))
            return near if self.random.random() < 0.5 else length - 1 - near
        return self.random.randrange(length)

    def _beat(self, packet: bytearray) -> slice:
        start = BEAT * self.random.randrange(max(1, len(packet) // BEAT))
        return slice(start, start + BEAT)

    def _flip(self, packet: bytearray, other: bytes) -> bytearray:
        for _ in range(self.random.choice((1, 1, 1, 2, 8)) if packet else 0):
            packet[self._place(len(packet))] ^= 1 << self.random.randrange(8)
        return packet

    def _scramble(self, packet: bytearray, other: bytes) -> bytearray:
        at, length = self._place(len(packet)), self.random.randint(1, 32)
        length = min(length, len(packet) - at)
        packet[at : at + length] = self.random.randbytes(length)
        return packet

    def _word(self, packet: bytearray, other: bytes) -> bytearray:
        at = self._place(len(packet)) & ~3
        if at + 4 <= len(packet):
            packet[at : at + 4] = self.random.choice(_WORDS).to_bytes(4, "little")
        return packet

    def _swap(self, packet: bytearray, other: bytes) -> bytearray:
        first, two = self._beat(packet), self._beat(packet)
        packet[first], packet[two] = packet[two], packet[first]
        return packet

    def _drop(self, packet: bytearray, other: bytes) -> bytearray:
        del packet[self._beat(packet)]
        # The next beat may take its place.
        return packet + other[:BEAT] if self.random.random() < 0.5 else packet

    def _repeat(self, packet: bytearray, other: bytes) -> bytearray:
        beat, length = self._beat(packet), len(packet)
        packet[beat.stop : beat.stop] = packet[beat]
        return packet[:length] if self.random.random() < 0.5 else packet

    def _blank(self, packet: bytearray, other: bytes) -> bytearray:
        beat = self._beat(packet)
        packet[beat] = bytes(len(packet[beat]))
        if self.random.random() < 0.3:
            packet[beat.start : beat.start + 4] = int(Magic.ABORT).to_bytes(4, "little")
        return packet

    def _shift(self, packet: bytearray, other: bytes) -> bytearray:
        by = self.random.randint(1, BEAT)
        return bytearray(by) + packet[:-by] if self.random.random() < 0.5 else packet[by:]

    def _truncate(self, packet: bytearray, other: bytes) -> bytearray:
        return packet[: self.random.randint(0, len(packet))]

    def _extend(self, packet: bytearray, other: bytes) -> bytearray:
        return packet + self.random.randbytes(self.random.randint(1, 3 * BEAT))

    def _splice(self, packet: bytearray, other: bytes) -> bytearray:
        at = self._beat(packet).start
        return packet[:at] + other[at:]

    def _noise(self, packet: bytearray, other: bytes) -> bytearray:
        return bytearray(self.random.randbytes(len(packet)))

    def json(self, data: Any) -> Any:
        """Return a JSON value with a few parts replaced, removed, duplicated or swapped.

        ``data`` itself is changed where it is a list or a dictionary.
        """
        for _ in range(1 if self.random.random() < 0.7 else self.random.randint(2, 4)):
            data = self._node(data)
        return data

    def _junk(self) -> Any:
        return deepcopy(self.random.choice(_JUNK))

    def _node(self, data: Any) -> Any:
        r = self.random
        if not isinstance(data, dict | list) or not data or r.random() < 0.02:
            return self._junk()
        keys: list[Any] = list(data) if isinstance(data, dict) else list(range(len(data)))
        key = r.choice(keys)
        match r.randrange(9):
            case 0:
                del data[key]
            case 1:
                data[key] = self._junk()
            case 2:
                data[key] = [data[key]]
            case 3:
                second = r.choice(keys)
                data[key], data[second] = data[second], data[key]
            case 4 if isinstance(data, dict):
                data[f"{key}{r.choice(('', '_', ' '))}"] = self._junk()
            case 4 if isinstance(data, list):
                data.insert(key, r.choice((deepcopy(data[key]), self._junk())))
            case 5 if type(data[key]) is float or (type(data[key]) is int and data[key] < 2**64):
                data[key] += r.choice((-1, 1, 0.5, 2**32))
            case _:
                data[key] = self._node(data[key])
        return data

    def text(self, text: str) -> bytes:
        """Return a text as bytes, some of them changed, removed, duplicated or inserted."""
        raw = bytearray(text.encode())
        r = self.random
        for _ in range(1 if r.random() < 0.7 else r.randint(2, 6)):
            at = r.randrange(len(raw) + 1)
            end = min(len(raw), at + r.choice((1, 1, 2, 10, 100)))
            match r.randrange(7):
                case 0 if at < len(raw):
                    raw[at] ^= 1 << r.randrange(8)
                case 1:
                    del raw[at:end]
                case 2:
                    raw[at:at] = raw[at:end]
                case 3:
                    raw[at:at] = json.dumps(self._junk()).encode()
                case 4:
                    raw[at:at] = r.choice((b"[", b"{", b'"', b"\\u", b"-", b"1e999", b" ", b"\x00"))
                case 5 if r.random() < 0.01:
                    raw[at:at] = r.choice((b"[", b'{"a":', b"1")) * 20_000
                case _:
                    raw[at:end] = r.randbytes(end - at)
        return bytes(raw)
