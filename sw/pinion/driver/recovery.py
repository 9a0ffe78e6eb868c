"""The soft reset, which recovers a card from faults."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy

from pinion.link import Cause, Layout, register
from pinion.link.registers import FRESH, IN_RESET, OPEN, QUIET, RESET

from .card import check_card, read_named
from .errors import CardFaultError, CardTimeoutError, DriverError, TransportError
from .transport import Transport

PATIENCE = 30.0
"""Seconds that a recovery waits for blocked calls and the card; longer than their timeouts."""

PAUSE = 0.0005
"""Seconds between two readings of the card's state."""

Failure = DriverError | TransportError


def hold_reset(transport: Transport, layout: Layout) -> None:
    """Begin the soft reset, in which the card drops requests and closes its open response.

    Raises
    ------
    DriverError, TransportError
        If the card no longer holds this build, or its registers cannot be reached.
    """
    check_card(transport.read_register, layout, where=transport.where)
    transport.write_register(register("CONTROL").offset, RESET)


def release_reset(transport: Transport, layout: Layout, *, patience: float = PATIENCE) -> None:
    """End the soft reset once the card is empty; no thread may be inside a transfer.

    Raises
    ------
    DriverError, TransportError
        If the card is not ready for work afterwards, with the reason.
    """
    end = time.monotonic() + patience
    while (status := read_named(transport.read_register, "STATUS")) & (
        IN_RESET | QUIET | OPEN
    ) != IN_RESET | QUIET:
        if not status & IN_RESET:
            # A card that was configured again in the meantime has left the reset.
            transport.write_register(register("CONTROL").offset, RESET)
        if status & OPEN:
            _drain(transport)
        if time.monotonic() > end:
            raise CardTimeoutError(
                f"The card did not become idle within {patience:g} s of its reset (register "
                f"STATUS = {status:#x}): load its bitstream again."
            )
        time.sleep(PAUSE)
    transport.write_register(register("CONTROL").offset, 0)
    while read_named(transport.read_register, "STATUS") & IN_RESET:
        if time.monotonic() > end:
            raise CardTimeoutError(
                f"The card stayed in reset for {patience:g} s: load its bitstream again."
            )
        time.sleep(PAUSE)
    check_card(transport.read_register, layout, where=transport.where)
    number = read_named(transport.read_register, "ERROR")
    if number:
        raise CardFaultError(
            f"The card reports a fault right after its reset ({sentence(number)}): load its "
            f"bitstream again.",
            cause=cause_of(number),
        )


def soft_reset(transport: Transport, layout: Layout, *, patience: float = PATIENCE) -> None:
    """Begin and end the soft reset of a card while no thread uses it."""
    hold_reset(transport, layout)
    release_reset(transport, layout, patience=patience)


def reset_state(transport: Transport) -> None:
    """Reset the function's states; nothing may be in flight.

    Raises
    ------
    DriverError, TransportError
        If the card's registers cannot be reached.
    """
    control = register("CONTROL").offset
    transport.write_register(control, FRESH)
    read_named(transport.read_register, "CONTROL")  # wait until the write has arrived
    transport.write_register(control, 0)
    read_named(transport.read_register, "CONTROL")


def explain(read: Callable[[int], int], error: Exception) -> Exception:
    """Return the error, extended by the fault that the card's register ERROR reports, if any."""
    if isinstance(error, CardFaultError):
        return error
    try:
        number = read_named(read, "ERROR")
    except (DriverError, TransportError):
        return error
    # A card that is gone reads as all ones; the reset will notice.
    if not number or number == 0xFFFFFFFF:
        return error
    explained = CardFaultError(
        f"The card reports a fault: {sentence(number)}. On the host: {error}",
        cause=cause_of(number),
    )
    explained.__cause__ = error
    return explained


def cause_of(number: int) -> Cause:
    """Return the cause for a value of the register ERROR, NONE for an unknown value."""
    return Cause(number) if number in list(Cause) else Cause.NONE


def sentence(number: int) -> str:
    """Describe the value of the register ERROR."""
    cause = cause_of(number)
    return cause.sentence if cause or not number else f"unknown cause {number}"


def duplicate(error: Failure) -> Failure:
    """Return a copy of an error, so that each future has a separate traceback."""
    twin = copy(error)
    twin.__cause__, twin.__traceback__ = error.__cause__, None
    return twin


def _drain(transport: Transport) -> None:
    try:
        transport.drain()
    except TransportError:
        # The offered data did not arrive: the caller's loop tries again until its timeout.
        return
