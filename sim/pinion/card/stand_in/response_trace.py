"""Application of a fault plan to the response stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pinion.base.arrays import Flags, Words
from pinion.link import BEAT, HEADER, Layout, Magic

from .faults import Fault

FaultEvent = tuple[Fault, int, int]
"""A fault, and the number and the sequence number of its packet."""

UNKNOWN = 1 << 40
"""Length of a packet without a header."""


@dataclass(kw_only=True)
class OpenResponse:
    """Response whose beats are not all received yet."""

    length: int
    at: int = 0
    events: list[tuple[int, FaultEvent]] = field(default_factory=list)
    damages: list[tuple[int, FaultEvent]] = field(default_factory=list)
    lost: bool = False


class ResponseTrace:
    """Tracker of responses that applies faults to the result stream.

    Parameters
    ----------
    layout : layout of the build.
    """

    def __init__(self, *, layout: Layout) -> None:
        self.layout = layout
        self._awaited: dict[int, list[FaultEvent]] = {}
        self._response: OpenResponse | None = None

    def expect(self, fault: Fault, packet: int, sequence: int) -> None:
        """Schedule a fault for the response with a sequence number."""
        self._awaited.setdefault(sequence, []).append((fault, packet, sequence))

    def forget(self) -> None:
        """Forget the faults of responses that have not begun, because the card was reset."""
        self._awaited.clear()

    def lost(self) -> None:
        """Forget all responses: the card is configured again, and the next beat begins a packet."""
        self.forget()
        self._response = None

    def room(self, limit: int) -> int:
        """Return the number of beats to receive before the next event, at most ``limit``."""
        response = self._response
        if response is None:
            return min(limit, 1) if self._awaited else limit
        if response.lost:
            return response.length - response.at
        if response.events:
            return min(limit, max(1, response.events[0][0] - response.at))
        if self._awaited:
            return min(limit, max(1, response.length - response.at))
        return limit

    def pass_on(
        self,
        beats: Words,
        last: Flags,
        *,
        take: Callable[[Words, Flags], None],
        inject: Callable[[Fault, int, int], None],
    ) -> None:
        """Forward beats to the reader, with the plan's faults applied.

        Parameters
        ----------
        beats, last : as the card sent them.
        take : receives the beats that are not lost.
        inject : called for every fault when it happens.
        """
        at = 0
        while at < len(beats):
            if self._response is None:
                self._response = self._begin(beats[at])
            response = self._response
            ends = np.flatnonzero(last[at:])
            run = int(ends[0]) + 1 if len(ends) else len(beats) - at
            stop = at + run
            piece = beats[at:stop]
            for event in self._corrupt(response, piece):
                inject(*event)
            if not response.lost:
                take(piece, last[at:stop])
            response.at += run
            while response.events and response.events[0][0] <= response.at:
                event = response.events.pop(0)[1]
                response.lost |= event[0].kind == "lost_tail"
                inject(*event)
            if last[stop - 1]:
                self._response = None
            at = stop

    def _begin(self, beat: Words) -> OpenResponse:
        header = np.frombuffer(beat.tobytes(), dtype=HEADER)[0]
        if int(header["magic"]) != Magic.RESPONSE:
            return OpenResponse(length=UNKNOWN)
        length = self.layout.response_bytes(int(header["count"])) // BEAT
        response = OpenResponse(length=length)
        for event in self._awaited.pop(int(header["sequence"]), []):
            target = response.damages if event[0].kind == "corrupt_beat" else response.events
            target.append((_place(event[0], length), event))
        response.events.sort(key=lambda event: event[0])
        return response

    def _corrupt(self, response: OpenResponse, piece: Words) -> list[FaultEvent]:
        """Invert bits in beats for faults that are due, and return these faults."""
        injected = []
        for place, event in list(response.damages):
            if place < response.at + len(piece):
                bit = event[0].bit or 0
                piece[place - response.at, bit // 32] ^= np.uint32(1 << bit % 32)
                response.damages.remove((place, event))
                injected.append(event)
        return injected


def _place(fault: Fault, length: int) -> int:
    """Return the number of beats that are forwarded before a fault happens."""
    if fault.kind == "corrupt_beat":
        return min(fault.beat or 0, length - 1)
    if fault.kind == "lost_tail":
        return length - min(fault.beats or 1, length - 1)
    if fault.kind == "short_read":
        return min(fault.beats or 1, length - 1)
    if fault.kind in ("etimedout", "errno512"):
        return length // 2
    return 0
