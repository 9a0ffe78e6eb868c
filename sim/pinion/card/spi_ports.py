"""Compiled RTL of a card behind an SPI line, in this process."""

from __future__ import annotations

import ctypes
import weakref
from pathlib import Path

from pinion.cosim.engines import Harness, library_of, load_library, need_verilator
from pinion.link.spi_framing import CYCLES

SPI = Harness(module="pinion_serial", stem="spi", loop="spi_engine.cpp")


class CompiledSpi:
    """Module ``pinion_serial`` with an SPI slave, compiled by Verilator, and its master.

    Simulated time advances only in `transfer` and `wait`; `now` counts cycles of the card's clock
    since configuration. An instance is callable as a line of `pinion.driver.spi.SpiDevice`.

    Parameters
    ----------
    library : the library from `build`.
    bit : cycles per bit on the line.
    """

    def __init__(self, *, library: Path, bit: int = CYCLES) -> None:
        if bit < CYCLES:
            raise ValueError(
                f"An SPI bit must last at least {CYCLES} cycles of the card's clock, not {bit}."
            )
        self.library = library
        self.bit = bit
        self._lib = _load(library)
        self._card = ctypes.c_void_p(self._lib.pinion_spi_create())
        self._finalizer = weakref.finalize(self, self._lib.pinion_spi_destroy, self._card)

    @classmethod
    def build(cls, *, rtlil: Path, bit: int = CYCLES, folder: Path | None = None) -> CompiledSpi:
        """Compile a card, or reuse the cached library of the same design.

        Parameters
        ----------
        rtlil : file with module ``pinion_serial`` (`pinion.boards.ecp5.spi_card.spi_card_rtlil`),
            ``ulx3s-spi/card.il`` of a build.
        bit : cycles per bit.
        folder : the cache of libraries; None for the user's.

        Raises
        ------
        pinion.cosim.engines.CompileError : If g++ or Verilator is missing or fails.
        pinion.gateware.yosys.YosysError : If Yosys is missing or refuses the design.
        """
        need_verilator()
        library = library_of(rtlil, engine="verilator", harness=SPI, folder=folder)
        return cls(library=library, bit=bit)

    @property
    def now(self) -> int:
        """Number of cycles of the card's clock since configuration."""
        return int(self._lib.pinion_spi_now(self._card))

    def wait(self, cycles: int) -> None:
        """Simulate a number of cycles with the line idle."""
        self._lib.pinion_spi_wait(self._card, cycles)

    def transfer(self, data: bytes) -> bytes:
        """Send bytes in one transfer, and return the bytes received at the same time."""
        out = ctypes.create_string_buffer(len(data))
        self._lib.pinion_spi_transfer(self._card, data, len(data), self.bit, out)
        return out.raw

    __call__ = transfer


def _load(library: Path) -> ctypes.CDLL:
    u64, card, text = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_char_p
    return load_library(
        library,
        {
            "pinion_spi_create": (card, []),
            "pinion_spi_destroy": (None, [card]),
            "pinion_spi_now": (u64, [card]),
            "pinion_spi_wait": (None, [card, u64]),
            "pinion_spi_transfer": (None, [card, text, u64, u64, text]),
        },
    )
