"""The interface of transports to cards, and their lookup by name.

A transport moves packets and 32-bit registers, and knows neither arrays nor the meaning of a
packet. The driver finds it through the entry points of the group ``pinion.transports``, because the
simulated card is in a layer above the driver, and user-defined cards come from other packages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib.metadata import EntryPoint, entry_points
from inspect import signature
from pathlib import Path

from pinion.base.arrays import Bytes
from pinion.base.installation import install_hint
from pinion.base.progress import SILENT, Progress
from pinion.link import BEAT, Manifest

from .errors import DriverError
from .memory import aligned

GROUP = "pinion.transports"

TIMEOUT = 10.0
"""Seconds that a packet may take; the default limit of the kernel driver."""


class Transport(ABC):
    """A connection to one card, for its registers and packets.

    `send` is called from one thread and `receive` from another, concurrently; registers are read
    and written from any thread. Failures raise `TransportError` with a message for the user.

    Members
    -------
    timeout : default number of seconds that a packet may take, None for no limit.
    where : the card's address, for messages.
    """

    timeout: float | None = TIMEOUT
    where: str = "this address"

    @abstractmethod
    def read_register(self, offset: int) -> int:
        """Read a 32-bit register; works at any time, even during transfers and after faults."""

    @abstractmethod
    def write_register(self, offset: int, value: int) -> None:
        """Write a 32-bit register."""

    def allocate(self, length: int) -> Bytes:
        """Return page-aligned memory for packets, (length,) uint8, a multiple of 64 bytes."""
        return aligned(length)

    @abstractmethod
    def send(self, packet: Bytes) -> None:
        """Send a packet; return when all of it has been accepted, which may take a long time.

        Parameters
        ----------
        packet : memory from `allocate`, not modified.

        Raises
        ------
        TransportError
            If it was not accepted in time, or only in part.
        """

    @abstractmethod
    def receive(self, packet: Bytes) -> None:
        """Receive one packet of exactly this length; return when it is complete.

        It is called before the request is sent: the card holds back a response that nobody reads,
        and then accepts nothing either.

        Parameters
        ----------
        packet : memory from `allocate`, overwritten.

        Raises
        ------
        TransportError
            If it did not arrive in time, or was shorter.
        """

    def drain(self) -> None:
        """Wait for a part of an unwanted packet and discard it, while the card is in reset.

        Raises
        ------
        TransportError
            If there was nothing.
        """
        self.receive(self.allocate(BEAT))

    @abstractmethod
    def close(self) -> None:
        """Close the connection, even if the card is gone; called once."""

    def abandon(self) -> None:  # noqa: B027 - most transports have nothing that a child inherits
        """Close files that a forked child has inherited, without using the card or any lock.

        The parent's files stay open.
        """


def transports() -> dict[str, EntryPoint]:
    """Return the installed transports by name."""
    return {point.name: point for point in entry_points(group=GROUP)}


def split_device(device: str) -> tuple[str, str]:
    """Split a device string: ("sim", "") for ``sim``, ("xdma", "0") for ``xdma:0``."""
    name, _, address = device.partition(":")
    return name, address


def find_transport(device: str) -> EntryPoint:
    """Return the entry point of a device's transport, without loading it.

    Raises
    ------
    DriverError
        If no installed transport has this name; the message lists those installed.
    """
    name, _ = split_device(device)
    installed = transports()
    if name not in installed:
        listing = f"installed: {', '.join(sorted(installed)) or 'none'}"
        choice = "choose an installed one, followed by a colon and an address if it needs one"
        if not installed:
            choice = "reinstall Pinion, which includes transports"
        raise DriverError(
            f"There is no transport for '{device}' ({listing}): {choice}; "
            "for CPUs and GPUs use pinion.backend with device='cpu' or 'cuda'."
        )
    return installed[name]


def open_transport(
    folder: Path,
    manifest: Manifest,
    device: str,
    *,
    progress: Progress = SILENT,
) -> Transport:
    """Open the card named by a device string.

    Parameters
    ----------
    folder : the build folder, from which a simulated card is made.
    manifest : manifest of that folder.
    device : ``name`` or ``name:address``.
    progress : receives the steps, by transports that accept it because their opening may take long.

    Raises
    ------
    DriverError
        If there is no such transport, it cannot be imported, or it returns something else.
    """
    point = find_transport(device)
    try:
        factory = point.load()
    except (ImportError, AttributeError) as error:
        raise DriverError(
            f"The transport '{point.name}' cannot be loaded ({error}): install its requirements; "
            f"for the simulated card, {install_hint('hw')}."
        ) from error
    options = {"progress": progress} if "progress" in signature(factory).parameters else {}
    transport = factory(folder, manifest, split_device(device)[1], **options)
    if not isinstance(transport, Transport):
        raise DriverError(
            f"The entry point '{point.value}' of the transport '{point.name}' must return a "
            f"pinion.driver.Transport, not {type(transport).__name__}."
        )
    return transport
