"""A card that computes something simple, behind the model of the vendor's driver."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pinion.cosim.card import FaultPlan, PacketBackend, XdmaModel
from pinion.cosim.packets import Answers, PacketCard
from pinion.link import Layout, function_id, seal_request

LAYOUT = Layout(function=function_id("sums"), build=0x0123_4567_89AB_CDEF, words_in=5, words_out=7)


def expected(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Results (n, 7) uint32 and flags (n,) bool of requests (n, 5) uint32."""
    columns = [words[:, j % 5] * np.uint32(2 * j + 1) + np.uint32(j) for j in range(7)]
    return np.stack(columns, axis=1), words[:, 0] % 4 == 0


def compute(words: np.ndarray) -> Answers:
    found, flagged = expected(words)
    return Answers(words=found, flagged=flagged, cycles=len(words))


class CardTools:
    """What the tests need of the stand-in, as one fixture (test files cannot import each other)."""

    layout = LAYOUT
    expected = staticmethod(expected)

    def backend(self, *, depth: int = 512) -> PacketBackend:
        return PacketBackend(card=PacketCard(layout=LAYOUT, compute=compute), depth=depth)

    def model(self, plan: FaultPlan | None = None, *, depth: int = 512, **options) -> XdmaModel:
        options = {"timeout": 0.3, "plan": plan or FaultPlan()} | options
        return XdmaModel(backend=self.backend(depth=depth), layout=LAYOUT, **options)

    def request(self, count: int, sequence: int, *, seed: int = 0) -> np.ndarray:
        """A sealed packet of random words."""
        packet = np.zeros(LAYOUT.request_bytes(count), dtype=np.uint8)
        words = np.random.default_rng([seed, sequence]).integers(
            0, 1 << 32, size=(count, 5), dtype=np.uint32
        )
        LAYOUT.request_words(packet, count)[:] = words
        seal_request(LAYOUT, packet, count, sequence)
        return packet

    def words(self, packet: np.ndarray, count: int) -> np.ndarray:
        return LAYOUT.request_words(packet, count)


@pytest.fixture
def card() -> CardTools:
    return CardTools()


Make = Callable[..., XdmaModel]


def echo(folder: Path) -> tuple[PacketBackend, Layout]:
    """A card for a stand-in process, without a build."""
    del folder
    return PacketBackend(card=PacketCard(layout=LAYOUT, compute=compute)), LAYOUT
