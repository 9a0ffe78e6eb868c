"""Cards behind a serial line, in this process: a model of packets, and the compiled RTL."""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pinion.cosim.engines import Harness, library_of, need_verilator
from pinion.link import BEAT
from pinion.link.uart_framing import END, SHORT, Frame, beats, command, unwrap

from .packets import PacketCard

SERIAL = Harness(module="pinion_serial", stem="serial", loop="serial_engine.cpp")

Distortion = Callable[[bytes], bytes]
"""What a bad line does to bytes."""


def _same(data: bytes) -> bytes:
    return data


class ModelPort:
    """A `PacketCard` behind the frames of a line, as a port of the driver's serial transport.

    The card works when the host writes.

    Parameters
    ----------
    card : the model.
    down, up : what the line does to bytes to the card and to the host.
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
        """What the card has sent."""
        with self._changed:
            self._changed.wait_for(lambda: self._out or self._closed, 0.05)
            data, self._out = bytes(self._out), bytearray()
        return data

    def write(self, data: bytes) -> None:
        """Frames to the card, which answers at once."""
        *frames, self._text = (self._text + self.down(data)).split(END)
        sent = bytearray()
        for frame in frames:
            sent += self._one(frame)
        with self._changed:
            self._out += self.up(bytes(sent))
            self._changed.notify_all()

    def close(self) -> None:
        """End the reader's wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _one(self, frame: bytes) -> bytes:
        body = unwrap(frame)
        if body is not None and len(body) == 7 and body[0] in (Frame.READ, Frame.WRITE, Frame.SYNC):
            kind, tag, offset = body[:3]
            value = int.from_bytes(body[3:], "little")
            if kind == Frame.SYNC:
                return command(Frame.ROOM, tag=tag, value=self._taken)
            if kind == Frame.WRITE:
                self.card.write_register(offset, value)
            else:
                value = self.card.read_register(offset)
            return command(Frame.VALUE, tag=tag, offset=offset, value=value)
        whole = body is not None and len(body) == 1 + BEAT and body[0] == Frame.BEAT
        if not whole and len(frame) - 1 <= SHORT:
            return b""
        data = body[1:] if whole and body is not None else bytes(BEAT)
        self._taken += 1
        responses = self.card.feed(data, whole=np.array([whole]))
        room = command(Frame.ROOM, tag=0, value=self._taken)
        return room + b"".join(beats(r.tobytes(), last=True) for r in responses)


class CompiledPort:
    """Module ``pinion_serial``, compiled by Verilator, as a port of the serial transport.

    Time goes on while the host reads. Lines are as fast as the card takes: ``bit`` cycles a bit.

    Parameters
    ----------
    library : what `build` made.
    bit : cycles of a bit, that the card was made for.
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
        """Compile a card, or take the library of an earlier build with the same content.

        Parameters
        ----------
        rtlil : file with module ``pinion_serial`` (`pinion.boards.ecp5.top.card_rtlil`).
        bit : cycles of a bit.
        folder : of the cache that libraries are found in and put into; None for the user's.

        Raises
        ------
        pinion.cosim.engines.CompileError : g++ or Verilator is missing or failed.
        pinion.gateware.yosys.YosysError : Yosys is missing or refused the design.
        """
        need_verilator()
        library = library_of(rtlil, engine="verilator", harness=SERIAL, folder=folder)
        return cls(library=library, bit=bit)

    def read(self) -> bytes:
        """What the card sends within some cycles."""
        with self._lock:
            data, self._in = bytes(self._in), bytearray()
        if self._closed:
            return b""
        return self.run(data, cycles=self.CYCLES)

    def run(self, data: bytes, *, cycles: int, level: int = -1) -> bytes:
        """Send bytes, then go on for some cycles.

        Parameters
        ----------
        data : goes on the line one behind the other; queued where the line is busy.
        cycles : at least so many, and all of ``data``.
        level : 0 or 1 to hold the line there meanwhile, once it is free; -1 to leave it.
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
        """Nothing to give back."""
        self._closed = True


def _load(library: Path) -> ctypes.CDLL:
    lib = ctypes.CDLL(str(library.resolve()))
    u64, card = ctypes.c_uint64, ctypes.c_void_p
    lib.pinion_serial_create.restype, lib.pinion_serial_create.argtypes = card, [u64]
    lib.pinion_serial_destroy.restype, lib.pinion_serial_destroy.argtypes = None, [card]
    lib.pinion_serial_run.restype = u64
    lib.pinion_serial_run.argtypes = [
        *(card, ctypes.c_char_p, u64, u64, ctypes.c_int64, ctypes.c_char_p, u64)
    ]
    return lib
