"""Exceptions of the driver."""

from __future__ import annotations

from pinion.batch import InputError
from pinion.link import Cause


class DriverError(InputError):
    """An error that the caller can correct, such as a wrong array, device name or build."""


class WrongCardError(DriverError):
    """The device at this address is not a Pinion card, or uses another protocol version."""


class WrongBuildError(DriverError):
    """The card holds a build that the program does not expect; the message has both hashes."""


class MissingCardError(DriverError):
    """The device files do not exist."""


class BusyError(DriverError):
    """Another program uses the card."""


class AccessError(DriverError):
    """The user may not open the device files."""


class DmaBufferError(DriverError):
    """Memory that the DMA engine cannot use: not aligned, not contiguous or not writable."""


class TransportError(RuntimeError):
    """The card or the link to it failed during operation; the message gives the symptom."""


class CardTimeoutError(TransportError):
    """The card sent or accepted nothing for longer than the allowed time."""


class StateLostError(TransportError):
    """A fault interrupted the stream of a function with states, and the states are lost."""


class TornStreamError(TransportError):
    """A transfer ended in the middle of a packet, or a packet arrived damaged."""


class LinkError(TransportError):
    """The kernel driver refused a transfer, or the card left the bus."""


class CardFaultError(TransportError):
    """A fault reported by the card.

    Members
    -------
    cause : the cause in its register or its trailer.
    """

    def __init__(self, message: str, *, cause: Cause = Cause.NONE) -> None:
        super().__init__(message)
        self.cause = cause
