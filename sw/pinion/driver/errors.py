"""What can go wrong between a program and a card."""

from __future__ import annotations

from pinion.batch import InputError
from pinion.link import Cause


class DriverError(InputError):
    """The caller can correct it: a wrong array, device name or build; the message says how."""


class WrongCardError(DriverError):
    """What answers at this address is no Pinion card, or one that speaks another protocol."""


class WrongBuildError(DriverError):
    """The card holds another build than the program was made for; the message has both hashes."""


class MissingCardError(DriverError):
    """There are no device files where they were looked for."""


class BusyError(DriverError):
    """Another program has the card."""


class AccessError(DriverError):
    """The user may not open the device files."""


class DmaBufferError(DriverError):
    """Memory that the DMA engine cannot use: not aligned, or not writable."""


class TransportError(RuntimeError):
    """The card or the way to it failed in the middle of work; the message says what was seen."""


class CardTimeoutError(TransportError):
    """Nothing came, or nothing was taken, for longer than the time allowed."""


class StateLostError(TransportError):
    """A fault broke the stream of a function with states: what they were nobody knows any more."""


class TornStreamError(TransportError):
    """A transfer ended in the middle of a packet, or a packet arrived damaged."""


class LinkError(TransportError):
    """The kernel's driver refused a transfer, or the card left the bus."""


class CardFaultError(TransportError):
    """The card itself found a fault.

    Members
    -------
    cause : what its register or its trailer named.
    """

    def __init__(self, message: str, *, cause: Cause = Cause.NONE) -> None:
        super().__init__(message)
        self.cause = cause
