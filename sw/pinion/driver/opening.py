"""From a build folder to an open device."""

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
    done: Callable[[int, int], None] | None = None,
    timeout: float | None = None,
    window: int = WINDOW,
    progress: Progress = SILENT,
) -> Device:
    """Open a card for a build.

    Parameters
    ----------
    folder : the build folder (of ``pinion build``).
    device : ``sim``, or the name of another transport, with its address: ``xdma:0``.
    chunk, done, timeout, window : as of :class:`Device`.
    progress : told the steps of the opening: a simulated card is compiled when it is opened for the
        first time.

    Raises
    ------
    pinion.link.manifest.ManifestError
        When the folder is no intact build.
    DriverError
        When there is no such device, it is taken, or it holds another build.
    TransportError
        When the card is there and does not work.
    """
    path = Path(folder)
    manifest = Manifest.read(path)
    # A card's host may have the manifest alone, whose own hash the card confirms; a simulated card
    # is made of more files, and checks all of them.
    if (path / DIGESTS).exists():
        check_digests(path, (MANIFEST,))
    transport = open_transport(path, manifest, device, progress=progress)
    return Device(
        manifest=manifest,
        transport=transport,
        chunk=chunk,
        done=done,
        timeout=timeout,
        window=window,
    )
