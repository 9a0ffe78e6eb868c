"""The host's connection to an open card: its transport and the threads of a session."""

from __future__ import annotations

import contextlib
import math
import threading
import weakref

from pinion.link import Layout

from .card import check_card, read_named
from .errors import DriverError
from .memory import Pool
from .process import Owner
from .profile import Meter
from .queue import WINDOW, Queue
from .recovery import PATIENCE, soft_reset
from .registers import Registers
from .session import Session
from .transport import Transport

GRACE = 1.0
"""Seconds that `Connection.close` waits for a thread inside a transfer of a broken card."""


class Connection:
    """An open card, checked and reset, and the session that runs packets of any layout on it.

    Parameters
    ----------
    transport : the link to the card; the connection closes it.
    card : what the card's registers state.
    timeout, window, patience, first_sequence : as for :class:`.device.Device`.
    states : whether the card has states, so that nothing can be sent again.

    Members
    -------
    owner, transport, pool, meter, registers, session : parts.
    users : devices that have it.
    closed : whether it was closed.

    Raises
    ------
    WrongCardError, WrongBuildError
        If the card states something else; the transport is closed.
    TransportError
        If the card does not answer or does not come out of its reset; the transport is closed.
    """

    def __init__(
        self,
        *,
        transport: Transport,
        card: Layout,
        timeout: float | None = None,
        window: int = WINDOW,
        patience: float = PATIENCE,
        states: bool = False,
        first_sequence: int | None = None,
    ) -> None:
        self.owner = Owner()
        self.transport = transport
        self.closed = False
        self.users = 0
        try:
            limit = _timeout(transport, timeout)
            self.pool = Pool(allocate=transport.allocate)
            queue = Queue(take=self.pool.take, window=window)
            check_card(transport.read_register, card, where=transport.where)
            # The previous user may have left the card in the middle of a transfer.
            soft_reset(transport, card, patience=patience)
            khz = read_named(transport.read_register, "LINK_KHZ")
        except BaseException:
            close_quietly(transport)
            raise
        self.meter = Meter(link_mhz=khz / 1000)
        self.registers = Registers(transport=transport)
        self.session = Session(
            transport=transport,
            card=card,
            queue=queue,
            meter=self.meter,
            timeout=limit,
            patience=patience,
            states=states,
            first_sequence=first_sequence,
        )
        # An unreferenced connection, or the end of the program, must not leave a torn transfer.
        self._finalizer = weakref.finalize(self, _shut, self.session, transport, self.owner)

    def leave(self, *, wait: bool) -> None:
        """Remove one user, and close the card if it was the last (:meth:`.device.Device.close`).

        Raises
        ------
        DriverError
            In a callback, which would deadlock.
        """
        if self.users > 1:
            self.users -= 1
            return
        if not self.owner.here:
            self.closed = True
            if self._finalizer.detach() is not None:
                self.transport.abandon()
            return
        if self.session.inside:
            raise DriverError(
                "close() in a callback of the device would deadlock: call it from another thread."
            )
        self.closed = True
        self.session.stop(wait=wait)
        if self._finalizer.detach() is not None:
            close_quietly(self.transport)
            # With a broken card they may have been inside a transfer, which closing ends.
            self.session.join(GRACE)


def close_quietly(transport: Transport) -> None:
    """Close a transport, ignoring the `OSError` that the system raises if the card is gone."""
    with contextlib.suppress(OSError):
        transport.close()


def _timeout(transport: Transport, timeout: float | None) -> float | None:
    if timeout is None:
        return transport.timeout
    if not timeout > 0:
        raise DriverError(f"The timeout must be positive, not {timeout} s.")
    return None if math.isinf(timeout) else timeout


def _shut(session: Session, transport: Transport, owner: Owner) -> None:
    if not owner.here:  # in a forked child
        transport.abandon()
        return
    if session.inside:  # in a callback; a thread cannot wait for itself
        threading.Thread(target=_shut, args=(session, transport, owner)).start()
        return
    session.stop(wait=False)
    close_quietly(transport)
