"""A card behind an SPI line, in this process: the compiled RTL, bit by bit."""

from __future__ import annotations

import ctypes
import weakref
from pathlib import Path

from pinion.cosim.engines import Harness, library_of, need_verilator
from pinion.link.spi_framing import CYCLES

SPI = Harness(module="pinion_serial", stem="spi", loop="spi_engine.cpp")


class CompiledSpi:
    """Module ``pinion_serial`` with an SPI slave, compiled by Verilator, and its master.

    Time goes on in `transfer` and `wait` alone; `now` counts cycles of the card's clock since
    configuration. Called, it is a line of `pinion.driver.spi.SpiDevice`.

    Parameters
    ----------
    library : what `build` made.
    bit : cycles of a bit on the line.
    """

    def __init__(self, *, library: Path, bit: int = CYCLES) -> None:
        if bit < CYCLES:
            raise ValueError(
                f"A bit of {bit} cycles is too short for the card, which takes {CYCLES} at least."
            )
        self.library = library
        self.bit = bit
        self._lib = _load(library)
        self._card = ctypes.c_void_p(self._lib.pinion_spi_create())
        self._finalizer = weakref.finalize(self, self._lib.pinion_spi_destroy, self._card)

    @classmethod
    def build(cls, *, rtlil: Path, bit: int = CYCLES, folder: Path | None = None) -> CompiledSpi:
        """Compile a card, or take the library of an earlier build with the same content.

        Parameters
        ----------
        rtlil : file with module ``pinion_serial`` (`pinion.boards.ecp5.spi_card.spi_card_rtlil`),
            ``ulx3s-spi/card.il`` of a build.
        bit : cycles of a bit.
        folder : of the cache that libraries are found in and put into; None for the user's.

        Raises
        ------
        pinion.cosim.engines.CompileError : g++ or Verilator is missing or failed.
        pinion.gateware.yosys.YosysError : Yosys is missing or refused the design.
        """
        need_verilator()
        library = library_of(rtlil, engine="verilator", harness=SPI, folder=folder)
        return cls(library=library, bit=bit)

    @property
    def now(self) -> int:
        """Cycles of the card's clock since configuration."""
        return int(self._lib.pinion_spi_now(self._card))

    def wait(self, cycles: int) -> None:
        """Let cycles pass with the line at rest."""
        self._lib.pinion_spi_wait(self._card, cycles)

    def transfer(self, data: bytes) -> bytes:
        """Bytes out and, at the same time, as many in; chip select included."""
        out = ctypes.create_string_buffer(len(data))
        self._lib.pinion_spi_transfer(self._card, data, len(data), self.bit, out)
        return out.raw

    __call__ = transfer


def _load(library: Path) -> ctypes.CDLL:
    lib = ctypes.CDLL(str(library.resolve()))
    u64, card = ctypes.c_uint64, ctypes.c_void_p
    lib.pinion_spi_create.restype, lib.pinion_spi_create.argtypes = card, []
    lib.pinion_spi_destroy.restype, lib.pinion_spi_destroy.argtypes = None, [card]
    lib.pinion_spi_now.restype, lib.pinion_spi_now.argtypes = u64, [card]
    lib.pinion_spi_wait.restype, lib.pinion_spi_wait.argtypes = None, [card, u64]
    lib.pinion_spi_transfer.restype = None
    lib.pinion_spi_transfer.argtypes = [card, ctypes.c_char_p, u64, u64, ctypes.c_char_p]
    return lib
