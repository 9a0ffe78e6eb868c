"""Opening of the card that holds the build of a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pinion.base.progress import SILENT, Progress
from pinion.link import Manifest
from pinion.link.digests import DIGESTS, check_digests
from pinion.link.manifest import MANIFEST

from .device import Device
from .queue import WINDOW
from .transport import open_transport


def open(
    folder: str | Path,
    *,
    device: str = "sim",
    chunk: int | None = None,
    on_packet: Callable[[int, int], None] | None = None,
    timeout: float | None = None,
    window: int = WINDOW,
    progress: Progress = SILENT,
) -> Device:
    """Open the card that holds a build, simulated or real, and return it as a device.

    Parameters
    ----------
    folder : the build folder.
    device : ``sim``, or the name of another transport, with its address: ``xdma:0``.
    chunk, on_packet, timeout, window : as for :class:`Device`.
    progress : receives the steps of the opening: the first opening of a simulated card compiles it.

    Raises
    ------
    pinion.link.manifest.ManifestError
        If the folder is not an intact build.
    DriverError
        If there is no such device, it is in use, or it holds another build.
    TransportError
        If the card does not work.
    """
    path = Path(folder)
    manifest = Manifest.read_core(path)
    # A card's host may have only the manifest, whose hash the card confirms; a simulated card is
    # made from more files and checks all of them.
    if (path / DIGESTS).exists():
        check_digests(path, (MANIFEST,))
    transport = open_transport(path, manifest, device, progress=progress)
    return Device(
        manifest=manifest,
        transport=transport,
        chunk=chunk,
        on_packet=on_packet,
        timeout=timeout,
        window=window,
    )
