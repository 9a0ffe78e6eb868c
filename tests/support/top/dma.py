"""Model of the vendor's DMA engine at its user ports, for benches inside a simulator.

A write becomes transfers, cut where the driver's lists of descriptors end (the rules are those of
`pinion.card.stand_in.transfer`), TLAST at the end of each; a buffer that is not aligned gives a
partial beat at each page bound. A read takes exactly one packet; while none is posted
``c2h_tready`` is low. Source and sink are those of cocotbext-axi.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from typing import Any

import numpy as np
from cocotb.triggers import Event, First, Lock, RisingEdge
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource
from numpy.typing import NDArray

from pinion.card.stand_in.axi_card import ALL
from pinion.card.stand_in.transfer import PAGE, RING, transfer_beats, transfers
from pinion.link import BEAT

from .monitor import ComplaintError, TopMonitor

Bytes = NDArray[np.uint8]


class _WideBus(AxiStreamBus):
    """Bus without TKEEP, which the monitor checks, so that a beat is one number, not 64 bytes."""

    _optional_signals = ("tvalid", "tready", "tlast")


class PostedSink(AxiStreamSink):
    """Sink that is ready only while a read is posted, and only for as many beats as fit."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._beats = 0
        self._room = 0
        self.filled = Event()
        super().__init__(*args, **kwargs)

    def post(self, beats: int) -> None:
        """Post a read for one packet of at most this many beats."""
        self._room = beats
        self._beats = 0
        self.filled.clear()
        self.wake_event.set()

    def withdraw(self) -> None:
        """Withdraw the posted read, so that no more beats are accepted."""
        self._room = 0

    def full(self) -> bool:
        """Return whether the next beat must wait; called once per clock edge."""
        if self._room and str(self.bus.tvalid.value) == str(self.bus.tready.value) == "1":
            self._beats += 1
            if str(self.bus.tlast.value) == "1":
                self._room = 0
            elif self._beats == self._room:
                self._room = 0
                self.filled.set()
        return not self._room


class Dma:
    """DMA engine with one channel in each direction.

    Parameters
    ----------
    dut : module ``pinion_top``.
    monitor : that of the same module.
    rng : where buffers lie, and where in its ring the driver is.

    Members
    -------
    transfers, splits, partial : transfers begun, those of them that end in mid-packet, and partial
        beats in them.
    """

    def __init__(self, *, dut: Any, monitor: TopMonitor, rng: random.Random) -> None:
        self.monitor = monitor
        self.transfers = self.splits = self.partial = 0
        self._rng = rng
        self._ring, self._turn = 0, False
        self._edge = RisingEdge(dut.clk)
        self._writing, self._reading = Lock(), Lock()
        reset = {"reset": dut.rst, "reset_active_level": True}
        bus = AxiStreamBus.from_prefix(dut, "h2c")
        self._source = AxiStreamSource(bus, dut.clk, **reset)
        # The source drives X until its first frame; a real host drives something.
        bus.tdata.value = bus.tkeep.value = bus.tlast.value = 0
        self._sink = PostedSink(
            _WideBus.from_prefix(dut, "c2h"), dut.clk, byte_size=8 * BEAT, **reset
        )

    def pause(self, idle: Iterable[bool], stall: Iterable[bool]) -> None:
        """Set repeated pause patterns for the request stream and for ``c2h_tready``."""
        for side, pattern in ((self._source, idle), (self._sink, stall)):
            side.set_pause_generator(itertools.cycle(list(pattern)))

    def flow(self) -> None:
        """Remove the pause patterns of both streams."""
        for side in (self._source, self._sink):
            side.clear_pause_generator()
            side.pause = False

    async def write(self, data: Bytes, *, address: int | None = None) -> int:
        """Send data, and return when the card has accepted all of it.

        Parameters
        ----------
        data : any length.
        address : of the buffer; an aligned one anywhere in its page by default.

        Returns
        -------
        Number of the first beat among all that the card took so far.
        """
        async with self._writing:
            if address is None:
                address = self._place(min(len(data), PAGE) // BEAT)
            first = len(self.monitor.accepted)
            parts, self._ring = transfers(len(data), address, self._ring)
            view = data.data.cast("B")
            for part in parts:
                beats, keep = transfer_beats(view[part.start : part.stop], address + part.start)
                bits = np.unpackbits(keep.view(np.uint8), bitorder="little")
                self.partial += int((keep != ALL).sum())
                self._source.send_nowait(AxiStreamFrame(beats.tobytes(), tkeep=bits.tolist()))
            self.transfers += len(parts)
            self.splits += len(parts) - 1
            while not self._source.idle():
                await self._edge
            return first

    def _place(self, beats: int) -> int:
        """Choose a buffer's offset in its page, and sometimes the driver's index in its ring.

        Every other buffer of several beats has a page's end in its midst, and the ring's at that.
        """
        self._turn = not self._turn
        if self._turn and beats > 1:
            self._ring = RING - 1
            return PAGE - BEAT * self._rng.randrange(1, beats)
        if self._rng.random() < 0.3:
            self._ring = RING - self._rng.randint(1, 2)
        return BEAT * self._rng.randrange(PAGE // BEAT)

    def abandon(self) -> None:
        """Drop all transfers after the current one."""
        self._source.clear()

    def rests(self) -> bool:
        """Return whether no transfer is in progress."""
        return bool(self._source.idle())

    async def read(self, length: int, *, packet_name: str) -> Bytes:
        """Receive one packet of at most ``length`` bytes, a multiple of 64.

        Raises
        ------
        ComplaintError : the memory is full and no packet has ended.
        """
        async with self._reading:
            self._sink.post(length // BEAT)
            try:
                while self._sink.empty() and not self._sink.filled.is_set():
                    await First(self._sink.active_event.wait(), self._sink.filled.wait())
                    if self._sink.empty():
                        await self._edge
                if self._sink.empty():
                    raise ComplaintError(
                        f"{packet_name} has no TLAST on the last of its {length // BEAT} beats: "
                        "the engine would append the next packet to it."
                    )
                frame = self._sink.recv_nowait(compact=False)
            finally:
                self._sink.withdraw()
            raw = b"".join(int(beat).to_bytes(BEAT, "little") for beat in frame.tdata)
            return np.frombuffer(raw, dtype=np.uint8)

    async def read_exactly(self, length: int, *, packet_name: str) -> Bytes:
        """Receive one packet of exactly ``length`` bytes.

        Raises
        ------
        ComplaintError : it is shorter or longer.
        """
        data = await self.read(length, packet_name=packet_name)
        if len(data) != length:
            raise ComplaintError(
                f"{packet_name} ended with TLAST after {len(data) // BEAT} of {length // BEAT} "
                "beats: the engine closes its descriptor there, which leaves a gap in the read."
            )
        return data

    def configure(self) -> None:
        """Drop all transfers and the posted read, as when the card is configured again."""
        self._source.clear()
        self._sink.withdraw()
        self._sink.clear()
