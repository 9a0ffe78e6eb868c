"""The way to a card: what every transport does, and how one is found by name.

A transport moves records of 32-bit words and knows nothing of arrays. The driver finds it through
the entry points of the group ``pinion.transports``, because the simulated card lies on a floor
above the driver and a card of one's own may come from another package.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pinion.hls.manifest import Manifest

from .errors import DriverError

GROUP = "pinion.transports"

Words = NDArray[np.uint32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class CardIdentity:
    """What a card says of itself.

    Members
    -------
    build_hash : 64 bits; equal to ``Manifest.hash`` of the build that the card holds.
    """

    build_hash: int


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Results of a batch, in the order of the requests.

    Members
    -------
    words : (n, words_out) uint32, bit patterns of float32.
    flagged : (n,) bool, a value of this result left its format's range, or its request was no
        number.
    cycles : clock cycles of the card from the batch's first request beat to its last result beat,
        or None where the card does not count them. Device time, not wall time.
    """

    words: Words
    flagged: Flags
    cycles: int | None = None


class Transport(ABC):
    """A way to one card.

    A device calls it from one thread at a time, never from two at once, and not always from the
    thread that opened it. Every method may block. Failures are `TransportError`, with a sentence.
    """

    @abstractmethod
    def identity(self) -> CardIdentity:
        """Read the card's identity; works at any time, also after a failed exchange.

        A PCIe transport reads the hash from the user registers (two aligned 32-bit words).
        """

    @abstractmethod
    def exchange(self, requests: Words) -> Answers:
        """Send a batch, wait for all of its results.

        All or nothing: either every request is answered, in order, or the method raises and the
        caller resets the card. A transport never leaves results of one batch for the next.

        A PCIe transport posts the read of the results before, or together with, the write of the
        requests: a batch larger than the card's buffers would stop otherwise. It copies into
        aligned memory, frames the batch itself (the end of a transfer is no boundary), reads
        exactly as many bytes as it expects, and waits no longer than its timeout.

        Parameters
        ----------
        requests : (n, words_in) uint32, C order, n at least 1; not changed, not kept.

        Raises
        ------
        TransportError
            When the card stopped, answered too few, too many or malformed records.
        """

    @abstractmethod
    def reset(self) -> None:
        """Drop everything in flight; afterwards the card is as after configuration.

        A PCIe transport sets the reset register, drains what the card had already sent, and
        clears the error bits.
        """

    @abstractmethod
    def close(self) -> None:
        """Give the card back; called once, after the last exchange has returned."""


def transports() -> dict[str, EntryPoint]:
    """Installed transports by name."""
    return {point.name: point for point in entry_points(group=GROUP)}


def split_device(device: str) -> tuple[str, str]:
    """Name and address of a device: ``sim`` is ("sim", ""), ``xdma:0`` is ("xdma", "0")."""
    name, _, address = device.partition(":")
    return name, address


def find_transport(device: str) -> EntryPoint:
    """The entry point of a device's transport, not loaded yet.

    Raises
    ------
    DriverError
        When no installed transport has this name; the message lists those that are.
    """
    name, _ = split_device(device)
    installed = transports()
    if name not in installed:
        known = f"installed: {', '.join(sorted(installed)) or 'none'}"
        raise DriverError(
            f"There is no transport '{name}' for the device '{device}' ({known}): give the name of "
            f"a transport, with an address behind a colon if it needs one."
        )
    return installed[name]


def open_transport(folder: Path, manifest: Manifest, device: str) -> Transport:
    """Open the card that a device string names.

    Parameters
    ----------
    folder : the build folder; a simulated card is made from it.
    manifest : of that folder.
    device : ``name`` or ``name:address``.

    Raises
    ------
    DriverError
        When there is no such transport, it cannot be imported, or it is none.
    """
    point = find_transport(device)
    try:
        factory = point.load()
    except (ImportError, AttributeError) as error:
        raise DriverError(
            f"The transport '{point.name}' cannot be loaded ({error}): install what it needs, "
            f"for the simulated card `pip install 'pinion[hw]'`."
        ) from error
    transport = factory(folder, manifest, split_device(device)[1])
    if not isinstance(transport, Transport):
        raise DriverError(
            f"The entry point '{point.value}' of the transport '{point.name}' gave a "
            f"{type(transport).__name__}: it must return a pinion.driver.Transport."
        )
    return transport
