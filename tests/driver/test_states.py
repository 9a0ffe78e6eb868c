"""Functions with states on a card: streams continue across batches, and end with a fault."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pinion.card.packets import Answers, PacketCard
from pinion.card.transport import InProcessCard
from pinion.driver import Device, DriverError, StateLostError, TornStreamError
from pinion.link import layout_of
from tests.driver.cards import Card, manifest

KEPT = manifest(states={"sum": 1.0})


class Summing(InProcessCard):
    """The first word of a result is 1 plus the sum of the first words since the last reset."""

    def __init__(self) -> None:
        self.total, self.restarts = 0.0, 0
        self.spoil: Callable[[Any], None] = lambda packet: None
        layout = layout_of(KEPT)
        super().__init__(card=PacketCard(layout=layout, compute=self._sum, restart=self._restart))

    def _restart(self) -> None:
        self.total, self.restarts = 1.0, self.restarts + 1

    def _sum(self, words: Any) -> Answers:
        sums = self.total + np.cumsum(words.view(np.float32)[:, 0], dtype=np.float64)
        self.total = float(sums[-1])
        results = np.zeros((len(words), 8), np.float32)
        results[:, 0] = sums
        return Answers(words=results.view(np.uint32), flagged=np.zeros(len(words), np.bool_))

    def receive(self, packet: Any) -> None:
        super().receive(packet)
        self.spoil(packet)


def requests(count: int) -> dict[str, Any]:
    return {"q": np.ones((count, 2)), "qd": np.zeros((count, 2)), "weight": np.zeros((count, 2, 3))}


def opened() -> tuple[Summing, Device]:
    card = Summing()
    return card, Device(manifest=KEPT, transport=card, chunk=3)


def test_a_stream_goes_on_over_packets_and_batches_and_begins_when_opened() -> None:
    card, device = opened()
    with device:
        first = [device.submit(**requests(n)) for n in (7, 1, 4)]
        sums = np.concatenate([batch.result().tau[:, 0] for batch in first])
        assert sums.tolist() == [float(k) for k in range(2, 14)]
        single = device.run(**{name: array[0] for name, array in requests(1).items()})
        assert single.tau[0] == 14.0
    assert card.restarts == 1


def test_a_reset_falls_behind_what_was_submitted_before() -> None:
    _, device = opened()
    with device:
        before = device.submit(**requests(9))
        device.reset_state()
        assert before.done() and before.result().tau[-1, 0] == 10.0
        assert device.run(**requests(2)).tau[:, 0].tolist() == [2.0, 3.0]
        device.reset()  # of the whole card
        assert device.run(**requests(1)).tau[:, 0].tolist() == [2.0]


def test_a_fault_ends_the_stream_and_nothing_is_sent_again() -> None:
    card, device = opened()
    with device:
        device.run(**requests(2))

        def once(packet: Any) -> None:
            packet[70] ^= 1
            card.spoil = lambda packet: None

        card.spoil = once
        hit = device.submit(**requests(8))
        with pytest.raises(TornStreamError):
            hit.result()
        while True:  # during the card's reset
            try:
                lost = device.submit(**requests(1))
            except StateLostError as error:
                sentence = str(error)
                break
            with pytest.raises(StateLostError):
                lost.result()
        assert "states of the stream were lost" in sentence
        assert "call reset_state() to begin a new stream" in sentence
        assert device.profile.resent == 0
        device.reset_state()
        assert device.run(**requests(3)).tau[:, 0].tolist() == [2.0, 3.0, 4.0]


def test_a_new_stream_may_be_asked_for_while_the_card_is_still_being_reset() -> None:
    card, device = opened()
    read = card.read_register
    with device:

        def once(packet: Any) -> None:
            packet[70] ^= 1
            card.spoil = lambda packet: None

        def slowly(offset: int) -> int:
            time.sleep(0.01)
            return read(offset)

        card.spoil = once
        card.read_register = slowly  # type: ignore[method-assign]
        with pytest.raises(TornStreamError):
            device.run(**requests(8))
        device.reset_state()
        assert device.run(**requests(3)).tau[:, 0].tolist() == [2.0, 3.0, 4.0]


def test_without_states_there_is_nothing_to_reset_and_packets_are_sent_again() -> None:
    card = Card()
    device = Device(manifest=manifest(), transport=card)
    with device, pytest.raises(DriverError, match="'made_up' has no states: there is nothing"):
        device.reset_state()
    assert card.read_register(0x30) == 0
    card.write_register(0x30, 2)
    assert card.read_register(0x30) == 0  # the bit is undefined there
