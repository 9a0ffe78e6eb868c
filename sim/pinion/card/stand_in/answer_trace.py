"""Which response a result beat belongs to, and what the fault plan does to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pinion.cosim.stream import Flags, Words
from pinion.link import BEAT, HEADER, Layout, Magic

from .faults import Fault

Happening = tuple[Fault, int, int]
"""A fault, and the number and the sequence number of its packet."""

UNKNOWN = 1 << 40
"""Length of a packet that began without a header."""


@dataclass(kw_only=True)
class Answer:
    """A response of which beats are still to come."""

    length: int
    at: int = 0
    events: list[tuple[int, Happening]] = field(default_factory=list)
    damages: list[tuple[int, Happening]] = field(default_factory=list)
    lost: bool = False


class AnswerTrace:
    """Follows the result stream, and says how far it may go until something happens.

    Parameters
    ----------
    layout : of the build.
    """

    def __init__(self, *, layout: Layout) -> None:
        self.layout = layout
        self._awaited: dict[int, list[Happening]] = {}
        self._answer: Answer | None = None

    def expect(self, fault: Fault, packet: int, sequence: int) -> None:
        """A fault will hit the response of this sequence number."""
        self._awaited.setdefault(sequence, []).append((fault, packet, sequence))

    def forget(self) -> None:
        """The card was reset: responses that have not begun will not come."""
        self._awaited.clear()

    def lost(self) -> None:
        """The card was configured anew: the next beat begins a packet."""
        self.forget()
        self._answer = None

    def room(self, wanted: int) -> int:
        """Beats to take, at most ``wanted``, until the next event."""
        answer = self._answer
        if answer is None:
            return min(wanted, 1) if self._awaited else wanted
        if answer.lost:
            return answer.length - answer.at
        if answer.events:
            return min(wanted, max(1, answer.events[0][0] - answer.at))
        if self._awaited:
            return min(wanted, max(1, answer.length - answer.at))
        return wanted

    def pass_on(
        self,
        beats: Words,
        last: Flags,
        *,
        take: Callable[[Words, Flags], None],
        strike: Callable[[Fault, int, int], None],
    ) -> None:
        """Give beats on, with what the plan does to them.

        Parameters
        ----------
        beats, last : as the card gave them.
        take : receives the beats that get through.
        strike : called for every fault when it happens.
        """
        at = 0
        while at < len(beats):
            if self._answer is None:
                self._answer = self._begin(beats[at])
            answer = self._answer
            ends = np.flatnonzero(last[at:])
            run = int(ends[0]) + 1 if len(ends) else len(beats) - at
            stop = at + run
            piece = beats[at:stop]
            for happening in self._corrupt(answer, piece):
                strike(*happening)
            if not answer.lost:
                take(piece, last[at:stop])
            answer.at += run
            while answer.events and answer.events[0][0] <= answer.at:
                happening = answer.events.pop(0)[1]
                answer.lost |= happening[0].kind == "lost_tail"
                strike(*happening)
            if last[stop - 1]:
                self._answer = None
            at = stop

    def _begin(self, beat: Words) -> Answer:
        header = np.frombuffer(beat.tobytes(), dtype=HEADER)[0]
        if int(header["magic"]) != Magic.RESPONSE:
            return Answer(length=UNKNOWN)
        length = self.layout.response_bytes(int(header["count"])) // BEAT
        answer = Answer(length=length)
        for happening in self._awaited.pop(int(header["sequence"]), []):
            kept = answer.damages if happening[0].kind == "corrupt_beat" else answer.events
            kept.append((_place(happening[0], length), happening))
        answer.events.sort(key=lambda event: event[0])
        return answer

    def _corrupt(self, answer: Answer, piece: Words) -> list[Happening]:
        """Invert bits in beats that are about to be given."""
        struck = []
        for place, happening in list(answer.damages):
            if place < answer.at + len(piece):
                bit = happening[0].bit or 0
                piece[place - answer.at, bit // 32] ^= np.uint32(1 << bit % 32)
                answer.damages.remove((place, happening))
                struck.append(happening)
        return struck


def _place(fault: Fault, length: int) -> int:
    """Beats that are given before a fault happens."""
    if fault.kind == "corrupt_beat":
        return min(fault.beat or 0, length - 1)
    if fault.kind == "lost_tail":
        return length - min(fault.beats or 1, length - 1)
    if fault.kind == "short_read":
        return min(fault.beats or 1, length - 1)
    if fault.kind in ("etimedout", "errno512"):
        return length // 2
    return 0
