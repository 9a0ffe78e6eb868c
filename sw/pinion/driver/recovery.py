"""From any fault back to a working card: the soft reset, step by step."""

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
"""Seconds that a recovery waits for blocked calls and for the card; longer than their timeouts."""

PAUSE = 0.0005
"""Seconds between two readings of the card's state."""

Failure = DriverError | TransportError


def hold_reset(transport: Transport, layout: Layout) -> None:
    """Begin the soft reset: from now on the card drops requests and closes its open response.

    Raises
    ------
    DriverError, TransportError
        When it is not this build's card any more, or its registers cannot be reached.
    """
    check_card(transport.read_register, layout, where=transport.where)
    transport.write_register(register("CONTROL").offset, RESET)


def release_reset(transport: Transport, layout: Layout, *, patience: float = PATIENCE) -> None:
    """End the soft reset, once the card is empty and nobody is inside a transfer.

    Raises
    ------
    DriverError, TransportError
        When the card is not ready for work afterwards; the message says in what.
    """
    end = time.monotonic() + patience
    while (status := read_named(transport.read_register, "STATUS")) & (
        IN_RESET | QUIET | OPEN
    ) != IN_RESET | QUIET:
        if not status & IN_RESET:
            # A card that was configured anew meanwhile has forgotten that it is being reset.
            transport.write_register(register("CONTROL").offset, RESET)
        if status & OPEN:
            _drain(transport)
        if time.monotonic() > end:
            raise CardTimeoutError(
                f"The card did not come to rest within {patience:g} s of its reset (register "
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
    found = read_named(transport.read_register, "ERROR")
    if found:
        raise CardFaultError(
            f"The card reports a fault right after its reset ({sentence(found)}): load its "
            f"bitstream again.",
            cause=cause_of(found),
        )


def soft_reset(transport: Transport, layout: Layout, *, patience: float = PATIENCE) -> None:
    """Both steps, for when nobody uses the card."""
    hold_reset(transport, layout)
    release_reset(transport, layout, patience=patience)


def reset_state(transport: Transport) -> None:
    """Let the next request find the function's initial states; for when nothing is under way.

    Raises
    ------
    DriverError, TransportError
        When the card's registers cannot be reached.
    """
    control = register("CONTROL").offset
    transport.write_register(control, FRESH)
    read_named(transport.read_register, "CONTROL")  # it is there before it goes
    transport.write_register(control, 0)
    read_named(transport.read_register, "CONTROL")


def explain(read: Callable[[int], int], error: Exception) -> Exception:
    """The error with the card's own account of it, where it gives one."""
    if isinstance(error, CardFaultError):
        return error
    try:
        found = read_named(read, "ERROR")
    except (DriverError, TransportError):
        return error
    # All ones is what a card reads as that is gone; the reset will find that out.
    if not found or found == 0xFFFFFFFF:
        return error
    explained = CardFaultError(
        f"The card reports a fault: {sentence(found)}. On the host: {error}", cause=cause_of(found)
    )
    explained.__cause__ = error
    return explained


def cause_of(found: int) -> Cause:
    """The cause in a register, NONE for a number that stands for none."""
    return Cause(found) if found in list(Cause) else Cause.NONE


def sentence(found: int) -> str:
    """What the register ERROR says, in words."""
    known = cause_of(found)
    return known.sentence if known or not found else f"it names the unknown cause {found}"


def duplicate(error: Failure) -> Failure:
    """The same error once more: one for each future, so that their tracebacks stay apart."""
    twin = copy(error)
    twin.__cause__, twin.__traceback__ = error.__cause__, None
    return twin


def _drain(transport: Transport) -> None:
    try:
        transport.drain()
    except TransportError:
        # Nothing came although something was on offer: the loop tries again, and gives up in time.
        return
