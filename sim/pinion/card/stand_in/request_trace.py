"""Application of a fault plan to the request stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pinion.base.arrays import Flags, Words
from pinion.link import BEAT, HEADER, MAX_COUNT, Magic, crc32

from .axi_card import Keep
from .faults import Fault, Injector

OTHER = 0x0BAD_B17D_0000_0001
"""Bits in which the hash of another build differs."""


@dataclass(kw_only=True)
class Segment:
    """Beats of the request stream between two faults, as sent to the card.

    Members
    -------
    beats, keep, last : as they are sent to the card.
    before : faults before they are sent.
    lost : they are never sent.
    """

    beats: Words
    keep: Keep
    last: Flags
    before: list[Fault] = field(default_factory=list)
    lost: bool = False


@dataclass(kw_only=True)
class OpenRequest:
    """Request packet whose beats are not all sent yet.

    Members
    -------
    number, sequence, count : its identity.
    length, at : its beats, and those seen so far.
    faults : faults in its remaining beats.
    lost : the remaining beats never arrive.
    """

    number: int
    sequence: int
    count: int
    length: int
    at: int = 0
    faults: list[Fault] = field(default_factory=list)
    lost: bool = False


class RequestTrace:
    """Tracker of request packets that divides the stream at faults.

    Parameters
    ----------
    injector : injector of the plan.
    emit : called for every fault with the packet's number and sequence number, before its beats
        are sent.
    """

    def __init__(self, *, injector: Injector, emit: Callable[[Fault, int, int], None]) -> None:
        self.injector = injector
        self._emit = emit
        self._packet: OpenRequest | None = None
        self.number = 0
        self.sequence = 0

    def lost(self) -> None:
        """Forget the packet in progress: the stream was cut, and the next beat begins a packet."""
        self._packet = None

    def cut(self, beats: Words, keep: Keep, last: Flags, *, other: bool) -> list[Segment]:
        """Split a transfer into segments at its faults, and apply faults of single beats.

        Parameters
        ----------
        beats, keep, last : the transfer, modified in place.
        other : whether the card holds another build now.
        """
        segments: list[Segment] = []
        at = 0
        while at < len(beats):
            if self._packet is None:
                self._begin(beats[at])
            packet = self._packet
            if packet is None:  # not a header: the card reports it
                segments.append(Segment(beats=beats[at:], keep=keep[at:], last=last[at:]))
                break
            stop = min(len(beats), at + packet.length - packet.at)
            span = slice(at, stop)
            segments += self._faulty(packet, beats[span], keep[span], last[span], other)
            packet.at += stop - at
            at = stop
            if packet.at == packet.length:
                self._packet = None
        return segments

    def _begin(self, beat: Words) -> None:
        header = np.frombuffer(beat.tobytes(), dtype=HEADER)[0]
        count = int(header["count"])
        if int(header["magic"]) != Magic.REQUEST or not 1 <= count <= MAX_COUNT:
            return
        words = int(header["words"])
        length = 1 + -(-4 * words * count // BEAT)
        packet = OpenRequest(
            number=self.number, sequence=int(header["sequence"]), count=count, length=length
        )
        self.number += 1
        self.sequence = packet.sequence
        packet.faults = self.injector.draw(packet.number, count=count, length=length)
        self._packet = packet

    def _faulty(
        self, packet: OpenRequest, beats: Words, keep: Keep, last: Flags, other: bool
    ) -> list[Segment]:
        """Split some beats of a packet at their faults; the packet keeps faults of later beats."""
        start, stop = packet.at, packet.at + len(beats)
        if other and start == 0:
            _rebuild(beats[0])
        cuts: list[tuple[int, Fault]] = []
        later: list[Fault] = []
        for fault in packet.faults:
            place = _place(fault, packet)
            if place >= stop:
                later.append(fault)
                continue
            self._emit(fault, packet.number, packet.sequence)
            index = max(place - start, 0)
            if fault.kind == "other_build":
                _rebuild(beats[0])
            elif fault.kind == "split_tlast":
                last[index] = True
            elif fault.kind == "ring_wrap":
                last[index] = True
                cuts.append((index + 1, fault))
            elif fault.kind == "partial_tkeep":
                keep[index] = np.uint64((1 << (fault.size or 1)) - 1)
            elif fault.kind == "corrupt_beat" and fault.side == "request":
                _flip(beats[index], fault.bit or 0)
            elif fault.side == "request" or fault.kind == "card_reset":
                cuts.append((index, fault))
        packet.faults = later
        return _split(packet, Segment(beats=beats, keep=keep, last=last), cuts)


def _place(fault: Fault, packet: OpenRequest) -> int:
    """Return the index of the packet's beat at which a fault happens."""
    final = packet.length - 1
    if fault.kind in ("split_tlast", "ring_wrap", "partial_tkeep", "card_reset"):
        return min(fault.beat or 0, final)
    if fault.side == "response" or fault.kind in ("other_build", "ebusy", "short_read"):
        return 0
    if fault.kind == "corrupt_beat":
        return min(fault.beat or 0, final)
    if fault.kind in ("etimedout", "errno512"):
        return packet.length // 2
    if fault.kind == "lost_tail":
        return max(packet.length - (fault.beats or 1), 1 if packet.length > 1 else 0)
    return 0


def _split(packet: OpenRequest, whole: Segment, cuts: list[tuple[int, Fault]]) -> list[Segment]:
    """Split a segment at its faults."""
    segments: list[Segment] = []
    before: list[Fault] = []
    at = 0
    size = len(whole.beats)
    for place, fault in [*sorted(cuts, key=lambda cut: cut[0]), (size, None)]:
        stop = min(place, size)
        if stop > at or (fault is None and before):
            span = slice(at, stop)
            segments.append(
                Segment(
                    beats=whole.beats[span],
                    keep=whole.keep[span],
                    last=whole.last[span],
                    before=before,
                    lost=packet.lost,
                )
            )
            before, at = [], stop
        if fault is not None:
            before.append(fault)
            packet.lost |= fault.kind == "lost_tail"
    return segments


def _flip(beat: Words, bit: int) -> None:
    beat[bit // 32] ^= np.uint32(1 << (bit % 32))


def _rebuild(beat: Words) -> None:
    """Change a header's build hash, so that the card refuses it."""
    header = np.frombuffer(beat.tobytes(), dtype=HEADER).copy()
    header["build"] ^= OTHER
    header["crc"] = 0
    header["crc"] = crc32(header.tobytes())
    beat[:] = header.view(np.uint32)
