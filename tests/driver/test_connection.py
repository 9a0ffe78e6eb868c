"""Who closes the card of a connection, and loads of programs over it."""

from __future__ import annotations

import itertools
import math
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pinion.card.packets import Answers, PacketCard
from pinion.card.transport import InProcessCard
from pinion.driver import Device, DriverError, TransportError
from pinion.driver.connection import Connection, _shut, _timeout
from pinion.driver.programs import load_records
from pinion.link import Layout, layout_of
from tests.driver.cards import WAIT, Card, manifest, states

LAYOUT = layout_of(manifest())


def connect(card: Card) -> Connection:
    return Connection(transport=card, card=LAYOUT, timeout=WAIT)


def test_the_last_of_several_devices_closes_the_card() -> None:
    card = Card()
    connection = connect(card)
    devices = [Device(manifest=manifest(), transport=connection) for _ in range(3)]
    for device, other in itertools.pairwise(devices):
        device.close()
        device.close()
        assert "close" not in card.calls and not connection.closed
        assert repr(device).endswith("closed>") and repr(other).endswith("open>")
        other.run(**states(3, seed=1))
    devices[-1].close()
    assert card.calls.count("close") == 1 and connection.closed


def test_a_child_only_abandons_the_card() -> None:
    """A fork that shares the files may not end the transfers of its parent."""
    card, abandoned = Card(), []
    card.abandon = lambda: abandoned.append(True)  # type: ignore[method-assign]
    connection = connect(card)
    parent, connection.owner = connection.owner, SimpleNamespace(here=False)  # type: ignore[assignment]
    connection.leave(wait=True)
    connection.leave(wait=True)
    assert abandoned == [True] and connection.closed and "close" not in card.calls
    connection.owner = parent
    connection.session.stop(wait=True)
    # The same at the end of the child's program.
    connection = connect(card)
    connection._finalizer.detach()
    _shut(connection.session, card, SimpleNamespace(here=False))  # type: ignore[arg-type]
    assert abandoned == [True, True] and "close" not in card.calls
    connection.session.stop(wait=True)


def test_a_device_that_is_lost_in_a_callback_is_closed_beside_it() -> None:
    card, closed, go = Card(), threading.Event(), threading.Event()
    card.hook = lambda words: None if go.wait(WAIT) else pytest.fail("never opened")
    card.close = closed.set  # type: ignore[method-assign]
    device = Device(manifest=manifest(), transport=card, timeout=WAIT)
    future = device.submit(**states(3, seed=1))
    future.add_done_callback(lambda _: device._connection._finalizer())
    go.set()
    future.result(WAIT)
    assert closed.wait(WAIT)


def test_the_timeout_is_the_transports_unless_given() -> None:
    transport: Any = SimpleNamespace(timeout=5.0)
    assert [_timeout(transport, value) for value in (None, 2.5, math.inf)] == [5.0, 2.5, None]
    with pytest.raises(DriverError, match=r"^The timeout must be positive, not 0 s\.$"):
        _timeout(transport, 0)


# Loads of a processor.

RECORDS = Layout(function=7, build=8, words_in=5, words_out=1)


@pytest.mark.parametrize("count", [1, 1024, 2500])
@pytest.mark.parametrize("damage", [0, 1])
def test_records_are_stored_in_packets_and_their_echo_is_compared(count: int, damage: int) -> None:
    stored: list[np.ndarray] = []

    def compute(words: np.ndarray) -> Answers:
        stored.append(words.copy())
        echo = words[:, :1].copy()
        echo[-1] ^= damage
        return Answers(words=echo, flagged=np.zeros(len(words), np.bool_), cycles=1)

    card = InProcessCard(card=PacketCard(layout=RECORDS, compute=compute), wait=WAIT)
    connection = Connection(transport=card, card=RECORDS, timeout=WAIT)
    records = np.arange(5 * count, dtype=np.uint32).reshape(count, 5) + np.uint32(0x3F80_0000)
    if damage:
        with pytest.raises(TransportError, match=r"^The card at sim answered a load with words"):
            load_records(connection, RECORDS, records)
    else:
        load_records(connection, RECORDS, records)
    connection.leave(wait=True)
    assert [len(part) for part in stored] == {1: [1], 1024: [1024], 2500: [1024, 1024, 452]}[count]
    assert np.array_equal(np.concatenate(stored), records)
