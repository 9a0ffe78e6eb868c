"""Packets as beats: integers for the component benches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pinion.link import BEAT, Layout, seal_request

Bytes = NDArray[np.uint8]


def request(layout: Layout, count: int, sequence: int, rng: np.random.Generator) -> Bytes:
    """Return a sealed request packet of random words."""
    packet = np.zeros(layout.request_bytes(count), dtype=np.uint8)
    words = layout.request_words(packet, count)
    words[:] = rng.integers(0, 1 << 32, size=words.shape, dtype=np.uint32)
    seal_request(layout, packet, count, sequence)
    return packet


def beats(packet: Bytes, size: int = BEAT) -> list[int]:
    """Return the beats of a packet, or its slices of ``size`` bytes, as integers."""
    return [int.from_bytes(row.tobytes(), "little") for row in packet.reshape(-1, size)]


def packet(values: list[int], size: int = BEAT) -> Bytes:
    """Convert beats, or slices of ``size`` bytes, from integers to bytes."""
    text = b"".join(value.to_bytes(size, "little") for value in values)
    return np.frombuffer(text, dtype=np.uint8)
