"""AXI side of a card as a stand-in drives it: the compiled top or the packet-level model."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Flags, Words
from pinion.card.packets import PacketCard
from pinion.cosim.top import CompiledTop
from pinion.link import BEAT, WORDS_PER_BEAT, Magic, register
from pinion.link.registers import HALTED, IN_RESET, OPEN, RESET

Keep = NDArray[np.uint64]

ALL = np.uint64((1 << 64) - 1)
"""TKEEP of a whole beat."""

DEPTH = 512
"""Request beats that the packet-level model takes while nobody reads."""

SLICE = 20_000
"""Link cycles of one run of the compiled top, so that other threads get their turn."""

IDLE = 5_000
"""Link cycles without progress after which the compiled top is at rest; above any latency."""

CONTROL, STATUS = register("CONTROL").offset, register("STATUS").offset


@dataclass(frozen=True, kw_only=True)
class CardStep:
    """Beats that a card accepted and sent in one step.

    Members
    -------
    accepted : request beats taken.
    beats : (m, 16) uint32, result beats sent.
    last : (m,) bool, TLAST of each.
    violations : violations of AXI-Stream rules by the card.
    """

    accepted: int
    beats: Words
    last: Flags
    violations: int = 0


class AxiCard(Protocol):
    """Interface of a card's AXI side, for one thread at a time."""

    def advance(self, beats: Words, keep: Keep, last: Flags, room: int) -> CardStep:
        """Offer request beats and accept up to ``room`` result beats, until neither stream moves.

        Parameters
        ----------
        beats : (n, 16) uint32; those not accepted are offered again, before any new ones.
        keep, last : (n,) TKEEP and TLAST of each.
        room : 0 means ``c2h_tready`` low.
        """

    def read(self, offset: int) -> int:
        """Read a register."""

    def write(self, offset: int, value: int) -> None:
        """Write a register."""

    def reset(self) -> None:
        """Configure the card again; it loses all state, including counters."""


class CompiledAxiCard:
    """AXI side of a compiled top.

    Parameters
    ----------
    top : the top, just configured.
    stall : repeated pattern of cycles with ``c2h_tready`` low although a read is posted.
    """

    def __init__(self, *, top: CompiledTop, stall: Flags | None = None) -> None:
        self.top = top
        self.stall = stall

    def advance(self, beats: Words, keep: Keep, last: Flags, room: int) -> CardStep:
        """Simulate until no beat moves, or for at most `SLICE` cycles."""
        if not len(beats) and not room:
            return CardStep(accepted=0, beats=beats, last=last)
        run = self.top.run(
            beats=beats,
            keep=keep,
            last=last,
            room=room,
            stall=self.stall,
            limit=IDLE,
            cycles=SLICE,
        )
        return CardStep(
            accepted=run.accepted, beats=run.beats, last=run.last, violations=run.violations
        )

    def read(self, offset: int) -> int:
        """Read a register through AXI-Lite."""
        return self.top.read(offset)

    def write(self, offset: int, value: int) -> None:
        """Write a register through AXI-Lite."""
        self.top.write(offset, value)

    def reset(self) -> None:
        """Assert port ``rst``."""
        self.top.reset()


class PacketAxiCard:
    """AXI side of the packet-level model, with finite buffers and an interruptible stream.

    Parameters
    ----------
    card : the model.
    depth : request beats that it takes while nobody reads.
    """

    def __init__(self, *, card: PacketCard, depth: int = DEPTH) -> None:
        self.card = card
        self.depth = depth
        self._out: deque[Words] = deque()
        self._sent = 0
        self._credit = depth

    def advance(self, beats: Words, keep: Keep, last: Flags, room: int) -> CardStep:
        """Accept beats until a response waits or the buffers are full; send responses in order."""
        del last  # TLAST of a request has no meaning
        pieces: list[Words] = []
        ends: list[Flags] = []
        accepted = 0
        while True:
            room -= self._give(room, pieces, ends)
            if room:
                self._credit = self.depth
            left = len(beats) - accepted
            dropping = bool(self.card.read_register(STATUS) & (IN_RESET | HALTED))
            take = left if dropping else min(self._credit, left)
            if not take or (self._out and not dropping):
                break
            piece = slice(accepted, accepted + take)
            data = np.ascontiguousarray(beats[piece])
            for response in self.card.feed(data, whole=keep[piece] == ALL):
                self._out.append(response.view(np.uint32).reshape(-1, WORDS_PER_BEAT))
            accepted += take
            self._credit -= 0 if dropping else take
        return CardStep(
            accepted=accepted,
            beats=np.concatenate(pieces) if pieces else beats[:0],
            last=np.concatenate(ends) if ends else np.zeros(0, dtype=np.bool_),
        )

    def read(self, offset: int) -> int:
        """Read a register; STATUS shows a response that is not yet sent."""
        value = self.card.read_register(offset)
        if offset == STATUS and self._out:
            value = (value & ~IN_RESET) | OPEN
        return value

    def write(self, offset: int, value: int) -> None:
        """Write a register; a soft reset cuts off the response being sent."""
        self.card.write_register(offset, value)
        if offset == CONTROL and value & RESET:
            self._cut()

    def reset(self) -> None:
        """Drop all state, including a packet sent in part."""
        self.card.configure()
        self._out.clear()
        self._sent = 0
        self._credit = self.depth

    def _give(self, room: int, pieces: list[Words], ends: list[Flags]) -> int:
        moved = 0
        while self._out and moved < room:
            packet = self._out[0]
            piece = packet[self._sent : self._sent + room - moved]
            self._sent += len(piece)
            moved += len(piece)
            last = np.zeros(len(piece), dtype=np.bool_)
            if self._sent == len(packet):
                last[-1] = True
                self._out.popleft()
                self._sent = 0
            pieces.append(piece)
            ends.append(last)
        return moved

    def _cut(self) -> None:
        """Cut off the response after the offered beat; an abort beat ends an incomplete packet."""
        if not self._out or self._aborting():
            return
        offered = self._out[0][self._sent : self._sent + 1]
        final = self._sent + 1 == len(self._out[0])
        abort = np.zeros((0 if final else 1, WORDS_PER_BEAT), dtype=np.uint32)
        abort[:, 0] = int(Magic.ABORT)
        self._out.clear()
        self._out.append(np.concatenate([offered, abort]))
        self._sent = 0
        self._credit = self.depth

    def _aborting(self) -> bool:
        last = self._out[0][-1]
        return bool(last[0] == int(Magic.ABORT)) and len(self._out) == 1


def beats_of(data: bytes | bytearray | memoryview) -> Words:
    """Return bytes as beats (n, 16) of uint32, the last one padded with zeros."""
    raw = np.frombuffer(data, dtype=np.uint8)
    short = -len(raw) % BEAT
    if short:
        raw = np.concatenate([raw, np.zeros(short, dtype=np.uint8)])
    return raw.view(np.uint32).reshape(-1, WORDS_PER_BEAT)
