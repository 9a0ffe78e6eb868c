"""Card that answers immediately and computes nothing, for measuring the driver alone."""

from __future__ import annotations

import queue
import time

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Bytes
from pinion.driver import CardTimeoutError, Transport
from pinion.link import BEAT, HEADER, TRAILER, Layout, crc32, register
from pinion.link.registers import RESET

from .packets import Answers, PacketCard, respond

CONTROL = register("CONTROL").offset


class InstantCard(Transport):
    """Card whose responses are valid packets of zeros.

    Parameters
    ----------
    layout : layout of the build that it claims to hold.

    Members
    -------
    spent : seconds that the card itself has taken, to be subtracted from a measurement.
    worked : the same as CPU time.
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
        """Read a register of an idle card."""
        return self._registers.read_register(offset)

    def write_register(self, offset: int, value: int) -> None:
        """Write a register; a reset ends a waiting `receive`."""
        self._registers.write_register(offset, value)
        if self._waiting and offset == CONTROL and value & RESET:
            self._asked.put(None)

    def send(self, packet: Bytes) -> None:
        """Queue a request; its records are ignored."""
        began, worked = time.perf_counter(), time.thread_time()
        header = packet[:BEAT].view(HEADER)[0]
        self._asked.put((int(header["count"]), int(header["sequence"])))
        self.spent += time.perf_counter() - began
        self.worked += time.thread_time() - worked

    def receive(self, packet: Bytes) -> None:
        """Wait for a request, and write the response to the oldest one into a packet."""
        self._waiting = True
        request = self._asked.get()
        self._waiting = False
        if request is None:
            raise CardTimeoutError("The card was reset.")
        began, worked = time.perf_counter(), time.thread_time()
        count, sequence = request
        packet[:] = self._template(count)
        packet[:BEAT].view(HEADER)["sequence"] = sequence
        packet[-BEAT:].view(TRAILER)["sequence"] = sequence
        packet[-BEAT:].view(TRAILER)["crc"] = crc32(packet)
        self.spent += time.perf_counter() - began
        self.worked += time.thread_time() - worked

    def _template(self, count: int) -> Bytes:
        """Return a cached response of `count` zero records, with a checksum of 0."""
        if count not in self._templates:
            words = np.zeros((count, self._layout.words_out), dtype=np.uint32)
            answers = Answers(words=words, flagged=np.zeros(count, dtype=np.bool_))
            response = respond(self._layout, answers, sequence=0)
            response[-BEAT:].view(TRAILER)["crc"] = 0
            self._templates[count] = response
        return self._templates[count]

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def _nothing(words: NDArray[np.uint32]) -> Answers:
    raise NotImplementedError
