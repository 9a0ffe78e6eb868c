"""CPU that emulates a CUDA device with the kernels for chains, all compiled at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pinion.chains.kernels.cuda import ChainSource
from pinion.native.toolchain import Compiler

from .cuda_device import HostDevice
from .cuda_host import HostKernels
from .cuda_omissions import PRELUDE, WATCHED, Omissions


class ChainDevice(HostDevice):
    """Emulated device with the compiled kernels of several sources.

    Members
    -------
    seed : of the order of blocks and threads.
    omissions : of barriers.
    """

    def __init__(
        self,
        folder: Path,
        sources: Sequence[ChainSource],
        *,
        compiler: Compiler | None = None,
        watched: bool = False,
    ) -> None:
        super().__init__(folder)
        self.seed = 0
        self._texts = {
            k.name: k.text for source in sources for k in (*source.kernels, *source.alone)
        }
        start = PRELUDE + (WATCHED if watched else "")
        self._kernels = HostKernels(
            start + "".join(self._texts.values()), folder=folder, compiler=compiler
        )
        self.omissions = Omissions(self._kernels)

    def load(self, name: str, text: str) -> tuple[str, HostKernels]:
        """Return the compiled kernels, after checking that they have this text."""
        assert self._texts[name] == text
        return name, _Seeded(self)


class _Seeded(HostKernels):
    """Kernels of the device, launched with the seed that orders its threads."""

    def __init__(self, device: ChainDevice) -> None:
        self._device = device

    def launch(self, *arguments: Any, **more: Any) -> None:
        positional = list(arguments)
        positional[5] = self._device.seed
        self._device._kernels.launch(*positional, **more)
