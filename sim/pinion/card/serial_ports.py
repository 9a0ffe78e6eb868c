"""Cards behind a serial line, in this process: a packet-level model and the compiled RTL."""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pinion.cosim.engines import Harness, library_of, load_library, need_verilator
from pinion.link import BEAT
from pinion.link.uart_framing import END, SHORT, FrameKind, beats, command, unwrap

from .packets import PacketCard

SERIAL = Harness(module="pinion_serial", stem="serial", loop="serial_engine.cpp")

Distortion = Callable[[bytes], bytes]
"""The effect of a bad line on bytes."""


def _same(data: bytes) -> bytes:
    return data


class ModelPort:
    """A `PacketCard` behind a framed line, as a port of the driver's serial transport.

    The card computes while the host writes.

    Parameters
    ----------
    card : the model.
    down, up : effect of the line on bytes to the card and to the host.
    """

    def __init__(
        self, *, card: PacketCard, down: Distortion = _same, up: Distortion = _same
    ) -> None:
        self.card = card
        self.down = down
        self.up = up
        self._changed = threading.Condition()
        self._text = b""
        self._out = bytearray()
        self._taken = 0
        self._closed = False

    def read(self) -> bytes:
        """Return the bytes that the card has sent, waiting up to 50 ms for any."""
        with self._changed:
            self._changed.wait_for(lambda: self._out or self._closed, 0.05)
            data, self._out = bytes(self._out), bytearray()
        return data

    def write(self, data: bytes) -> None:
        """Send bytes to the card, which answers complete frames before this call returns."""
        *frames, self._text = (self._text + self.down(data)).split(END)
        sent = bytearray()
        for frame in frames:
            sent += self._answer(frame)
        with self._changed:
            self._out += self.up(bytes(sent))
            self._changed.notify_all()

    def close(self) -> None:
        """End a waiting `read`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _answer(self, frame: bytes) -> bytes:
        body = unwrap(frame)
        if (
            body is not None
            and len(body) == 7
            and body[0] in (FrameKind.READ, FrameKind.WRITE, FrameKind.SYNC)
        ):
            kind, tag, offset = body[:3]
            value = int.from_bytes(body[3:], "little")
            if kind == FrameKind.SYNC:
                return command(FrameKind.ROOM, tag=tag, value=self._taken)
            if kind == FrameKind.WRITE:
                self.card.write_register(offset, value)
            else:
                value = self.card.read_register(offset)
            return command(FrameKind.VALUE, tag=tag, offset=offset, value=value)
        whole = body is not None and len(body) == 1 + BEAT and body[0] == FrameKind.BEAT
        if not whole and len(frame) - 1 <= SHORT:
            return b""
        data = body[1:] if whole and body is not None else bytes(BEAT)
        self._taken += 1
        responses = self.card.feed(data, whole=np.array([whole]))
        room = command(FrameKind.ROOM, tag=0, value=self._taken)
        return room + b"".join(beats(r.tobytes(), last=True) for r in responses)


class CompiledPort:
    """Module ``pinion_serial``, compiled by Verilator, as a port of the serial transport.

    Simulated time advances while the host reads. A bit on the line takes ``bit`` cycles.

    Parameters
    ----------
    library : the library from `build`.
    bit : cycles per bit of the card's design.
    """

    CYCLES = 20_000

    def __init__(self, *, library: Path, bit: int) -> None:
        self.library = library
        self.bit = bit
        self._lib = _load(library)
        self._card = ctypes.c_void_p(self._lib.pinion_serial_create(bit))
        self._finalizer = weakref.finalize(self, self._lib.pinion_serial_destroy, self._card)
        self._lock = threading.Lock()
        self._in = bytearray()
        self._closed = False

    @classmethod
    def build(cls, *, rtlil: Path, bit: int, folder: Path | None = None) -> CompiledPort:
        """Compile a card, or reuse the cached library of the same design.

        Parameters
        ----------
        rtlil : file with module ``pinion_serial`` (`pinion.boards.ecp5.top.card_rtlil`).
        bit : cycles per bit.
        folder : the cache of libraries; None for the user's.

        Raises
        ------
        pinion.cosim.engines.CompileError : If g++ or Verilator is missing or fails.
        pinion.gateware.yosys.YosysError : If Yosys is missing or refuses the design.
        """
        need_verilator()
        library = library_of(rtlil, engine="verilator", harness=SERIAL, folder=folder)
        return cls(library=library, bit=bit)

    def read(self) -> bytes:
        """Simulate `CYCLES` cycles with the queued bytes, and return the bytes from the card."""
        with self._lock:
            data, self._in = bytes(self._in), bytearray()
        if self._closed:
            return b""
        return self.run(data, cycles=self.CYCLES)

    def run(self, data: bytes, *, cycles: int, level: int = -1) -> bytes:
        """Send bytes and simulate at least `cycles` cycles; return the bytes that the card sends.

        Parameters
        ----------
        data : sent byte by byte; queued if the line is busy.
        cycles : minimum number of cycles; all of ``data`` is sent in any case.
        level : 0 or 1 to hold the line at that level once it is free; -1 to leave it.
        """
        out = ctypes.create_string_buffer(cycles // self.bit + 16 * len(data) + 64)
        count = self._lib.pinion_serial_run(
            self._card, data, len(data), cycles, level, out, len(out)
        )
        if not count:
            time.sleep(0)
        return out.raw[:count]

    def write(self, data: bytes) -> None:
        """Queue bytes for the line."""
        with self._lock:
            self._in += data

    def close(self) -> None:
        """Make later reads return nothing; there is nothing to release."""
        self._closed = True


def _load(library: Path) -> ctypes.CDLL:
    u64, card, text = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_char_p
    return load_library(
        library,
        {
            "pinion_serial_create": (card, [u64]),
            "pinion_serial_destroy": (None, [card]),
            "pinion_serial_run": (u64, [card, text, u64, u64, ctypes.c_int64, text, u64]),
        },
    )
