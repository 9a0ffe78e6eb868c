"""A card connected by SPI: one request per transfer, for control loops.

The line has neither packets nor registers (`pinion.link.spi_framing`), so this is not a
:class:`pinion.driver.Device`: a transfer carries one request and returns its result.
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
from pinion.link.spi_framing import SpiTransfer

from .parameters import ParameterSets
from .records import request_dtype, result_dtype

Line = Callable[[bytes], bytes]
"""Function that transfers bytes as an SPI master in mode 0, with chip select low, and returns the
received bytes."""


class SpiDevice:
    """A build on a board of the target ``ulx3s-spi``, or a simulation of it.

    Parameters
    ----------
    manifest : manifest of the build.
    line : line to the card, such as ``lambda sent: bytes(bus.xfer3(sent))`` with an open
        ``spidev.SpiDev`` in mode 0 at no more than a sixth of the card's clock.

    Members
    -------
    transfer : lengths of a transfer.
    """

    def __init__(self, manifest: Manifest, line: Line) -> None:
        self.manifest = manifest
        self.transfer = SpiTransfer.of(manifest)
        self._line = line
        self._request, self._result = request_dtype(manifest), result_dtype(manifest)
        self._parameters = None if manifest.parameters is None else ParameterSets(manifest)

    @classmethod
    def open(cls, folder: Path, line: Line) -> Self:
        """Open a build folder's device on an SPI line, if all files of the build are unchanged.

        Raises
        ------
        pinion.link.ManifestError
            If the folder is not a build, or a file changed since it was built.
        """
        manifest = Manifest.read_core(Path(folder))
        check_digests(Path(folder))
        return cls(manifest, line)

    def run(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute one request; inputs and outputs have no batch axis.

        Raises
        ------
        pinion.batch.InputError
            If an array is missing, unknown, of another shape, or not finite.
        DriverError
            If a parameter is outside the bounds that the formats of the build were chosen for.
        pinion.link.spi_framing.SpiError
            If the line was disturbed, or there is no card with this build.
        """
        request = check_arrays(self.manifest.inputs, by_name(self.manifest.inputs, values, arrays))
        if not request.single:
            raise InputError(
                f"An SPI line carries one request at a time, not a batch of {request.count}: call "
                "run() for each request, without the batch axis."
            )
        if self._parameters is not None:
            self._parameters.runs(request)
        record = np.empty(1, dtype=self._request)
        for array in self.manifest.inputs:
            record[array.name] = array.gather(request.arrays[array.name])
        words, flagged = self.transfer.result(self._line(self.transfer.request(record.tobytes())))
        fields = np.frombuffer(words, dtype=self._result)
        outputs = {a.name: a.scatter(fields[a.name])[0] for a in self.manifest.outputs}
        return Result(arrays=outputs, saturated=np.array(flagged), cycles=None)

    def __call__(self, /, *values: ArrayLike, **arrays: ArrayLike) -> Result:
        """Compute one request, as `run` does."""
        return self.run(*values, **arrays)
