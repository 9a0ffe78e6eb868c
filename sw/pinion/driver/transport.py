"""The way to a card: what every transport does, and how one is found by name.

A transport moves packets and 32-bit registers, and knows neither arrays nor what a packet means.
The driver finds it through the entry points of the group ``pinion.transports``, because the
simulated card lies on a floor above the driver and a card of one's own may come from another
package.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib.metadata import EntryPoint, entry_points
from inspect import signature
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pinion.base.installation import install_hint
from pinion.base.progress import SILENT, Progress
from pinion.link import BEAT, Manifest

from .errors import DriverError
from .memory import aligned

GROUP = "pinion.transports"

TIMEOUT = 10.0
"""Seconds that a packet may take; the kernel driver's own limit is the same by default."""

Bytes = NDArray[np.uint8]


class Transport(ABC):
    """A way to one card.

    `send` is called from one thread and `receive` from another, at the same time; registers are
    read and written from any thread. Failures are `TransportError`, with a sentence.

    Members
    -------
    timeout : seconds that a device gives a packet unless told otherwise, None for any time.
    where : the card's address, for messages.
    """

    timeout: float | None = TIMEOUT
    where: str = "this address"

    @abstractmethod
    def read_register(self, offset: int) -> int:
        """Read a register, 32 bits; works at any time, also during transfers and after faults."""

    @abstractmethod
    def write_register(self, offset: int, value: int) -> None:
        """Write a register, 32 bits."""

    def allocate(self, length: int) -> Bytes:
        """Memory for packets, (length,) uint8: begins on a page; a multiple of 64 bytes."""
        return aligned(length)

    @abstractmethod
    def send(self, packet: Bytes) -> None:
        """Send a packet; returns when all of it has been taken, which may be long.

        Parameters
        ----------
        packet : memory from `allocate`, not changed.

        Raises
        ------
        TransportError
            When it was not taken in time, or only in part.
        """

    @abstractmethod
    def receive(self, packet: Bytes) -> None:
        """Receive exactly one packet of exactly this length; returns when all of it is there.

        It is called before the request goes out: the card holds back what nobody reads, and then
        takes nothing either.

        Parameters
        ----------
        packet : memory from `allocate`, overwritten.

        Raises
        ------
        TransportError
            When it did not come in time, or was shorter.
        """

    def drain(self) -> None:
        """Take some of a packet that nobody wants, waiting for it; used while the card is in reset.

        Raises
        ------
        TransportError
            When there was nothing.
        """
        self.receive(self.allocate(BEAT))

    @abstractmethod
    def close(self) -> None:
        """Give the card back; called once. What it opened is closed also where the card is gone."""

    def abandon(self) -> None:  # noqa: B027 - most transports have nothing that a child inherits
        """Close what a forked child has inherited, without a word to the card and without locks.

        The card stays with the parent, whose files stay open.
        """


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
            f"There is no card '{device}' ({known}): give one of these, with an address behind a "
            "colon if it needs one; processors and GPUs are no cards but devices of "
            "pinion.backend, such as device='cpu' or 'cuda'."
        )
    return installed[name]


def open_transport(
    folder: Path,
    manifest: Manifest,
    device: str,
    *,
    progress: Progress = SILENT,
) -> Transport:
    """Open the card that a device string names.

    Parameters
    ----------
    folder : the build folder; a simulated card is made from it.
    manifest : of that folder.
    device : ``name`` or ``name:address``.
    progress : told the steps by a transport that takes it: one whose opening may take long.

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
            f"The transport '{point.name}' cannot be loaded ({error}): install what it needs; "
            f"for the simulated card, {install_hint('hw')}."
        ) from error
    options = {"progress": progress} if "progress" in signature(factory).parameters else {}
    transport = factory(folder, manifest, split_device(device)[1], **options)
    if not isinstance(transport, Transport):
        raise DriverError(
            f"The entry point '{point.value}' of the transport '{point.name}' gave a "
            f"{type(transport).__name__}: it must return a pinion.driver.Transport."
        )
    return transport
