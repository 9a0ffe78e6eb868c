"""A card behind an SPI line: one request a transfer, for control loops.

There are no packets and no registers there (`pinion.link.spi_framing`), so this is no
:class:`pinion.driver.Device`: one request at a time, and its result when the transfer ends.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from pinion.batch import InputError, Result, by_name, check_arrays
from pinion.link import Manifest
from pinion.link.digests import check_digests
from pinion.link.spi_framing import Transfer

from .records import request_dtype, result_dtype

Line = Callable[[bytes], bytes]
"""Transfers bytes as an SPI master in mode 0, chip select low meanwhile, and returns what came."""


class SpiDevice:
    """A build on a board of the target ``ulx3s-spi``, or a simulation of it.

    Parameters
    ----------
    manifest : of the build.
    line : to the card, such as ``lambda sent: bytes(bus.xfer3(sent))`` with an open
        ``spidev.SpiDev`` of mode 0, at most a sixth of the card's clock fast.

    Members
    -------
    transfer : lengths of what goes over the line.
    """

    def __init__(self, manifest: Manifest, line: Line) -> None:
        self.manifest = manifest
        self.transfer = Transfer.of(manifest)
        self._line = line
        self._request, self._result = request_dtype(manifest), result_dtype(manifest)

    @classmethod
    def open(cls, folder: Path, line: Line) -> Self:
        """The device of a build folder.

        Raises
        ------
        pinion.link.ManifestError
            When the folder is no build, or a file of it is not the one that was built.
        """
        manifest = Manifest.read(Path(folder))
        check_digests(Path(folder))
        return cls(manifest, line)

    def run(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute one request: arrays (...) without a batch axis in, and out.

        Raises
        ------
        pinion.batch.InputError
            When an array is missing, unknown, of another shape, or holds no finite numbers.
        pinion.link.spi_framing.SpiError
            When the line was disturbed, the card is none or holds another build.
        """
        given = check_arrays(self.manifest.inputs, by_name(self.manifest.inputs, values, arrays))
        if not given.single:
            raise InputError(
                f"A batch of {given.count} is given, and an SPI line takes one request at a time: "
                "leave the batch axis out."
            )
        record = np.empty(1, dtype=self._request)
        for array in self.manifest.inputs:
            record[array.name] = array.gather(given.arrays[array.name])
        words, flagged = self.transfer.result(self._line(self.transfer.request(record.tobytes())))
        fields = np.frombuffer(words, dtype=self._result)
        found = {a.name: a.scatter(fields[a.name])[0] for a in self.manifest.outputs}
        return Result(arrays=found, saturated=np.array(flagged), cycles=None)

    def __call__(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute one request, as `run` does."""
        return self.run(*values, **arrays)
