"""A card that answers at once and computes nothing: all else of a round trip is the driver's."""

from __future__ import annotations

import queue
import time

import numpy as np
from numpy.typing import NDArray

from pinion.driver import CardTimeoutError, Transport
from pinion.link import BEAT, HEADER, TRAILER, Layout, crc32, register
from pinion.link.registers import RESET

from .packets import Answers, PacketCard, respond

Bytes = NDArray[np.uint8]

CONTROL = register("CONTROL").offset


class InstantCard(Transport):
    """Right responses of zeros, copied from a template by length; only their framing is made anew.

    Parameters
    ----------
    layout : of the build that it claims to hold.

    Members
    -------
    spent : seconds that the card itself took so far, to be taken off what is measured.
    worked : of a processor's time the same.
    """

    timeout = None

    def __init__(self, *, layout: Layout) -> None:
        self.spent = self.worked = 0.0
        self._layout = layout
        self._registers = PacketCard(layout=layout, compute=_nothing)
        self._waiting = False
        self._templates: dict[int, Bytes] = {}
        self._asked: queue.SimpleQueue[tuple[int, int] | None] = queue.SimpleQueue()

    def read_register(self, offset: int) -> int:
        """As of a real card at rest."""
        return self._registers.read_register(offset)

    def write_register(self, offset: int, value: int) -> None:
        """As of a real card; a reset ends a read that waits."""
        self._registers.write_register(offset, value)
        if self._waiting and offset == CONTROL and value & RESET:
            self._asked.put(None)

    def send(self, packet: Bytes) -> None:
        """Note what is asked for; the records are ignored."""
        began, worked = time.perf_counter(), time.thread_time()
        header = packet[:BEAT].view(HEADER)[0]
        self._asked.put((int(header["count"]), int(header["sequence"])))
        self.spent += time.perf_counter() - began
        self.worked += time.thread_time() - worked

    def receive(self, packet: Bytes) -> None:
        """The response to the next request that came."""
        self._waiting = True
        asked = self._asked.get()
        self._waiting = False
        if asked is None:
            raise CardTimeoutError("The card was reset.")
        began, worked = time.perf_counter(), time.thread_time()
        count, sequence = asked
        packet[:] = self._template(count)
        packet[:BEAT].view(HEADER)["sequence"] = sequence
        packet[-BEAT:].view(TRAILER)["sequence"] = sequence
        packet[-BEAT:].view(TRAILER)["crc"] = crc32(packet)
        self.spent += time.perf_counter() - began
        self.worked += time.thread_time() - worked

    def _template(self, count: int) -> Bytes:
        """A response of zeros whose checksum is still 0."""
        if count not in self._templates:
            words = np.zeros((count, self._layout.words_out), dtype=np.uint32)
            answers = Answers(words=words, flagged=np.zeros(count, dtype=np.bool_))
            made = respond(self._layout, answers, sequence=0)
            made[-BEAT:].view(TRAILER)["crc"] = 0
            self._templates[count] = made
        return self._templates[count]

    def close(self) -> None:
        """Nothing to close."""


def _nothing(words: NDArray[np.uint32]) -> Answers:
    raise NotImplementedError
