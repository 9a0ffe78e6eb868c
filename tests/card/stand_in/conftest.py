"""A card with a simple function, behind the model of the vendor's driver."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinion.card.packets import Answers, PacketCard
from pinion.card.stand_in import FaultPlan, PacketAxiCard, XdmaModel
from pinion.link import Array, Layout, layout_of, seal_request
from tests.driver.cards import manifest
from tests.support.workload import Workload

MANIFEST = manifest(
    robot="none",
    robot_source="none",
    function="sums",
    ii=1,
    inputs=(Array(name="q", shape=(5,), unit="rad"),),
    outputs=(Array(name="tau", shape=(7,), unit="N m"),),
    **{"lanes_in": 5, "beats_in": 1, "lanes_out": 7, "beats_out": 1},
)
LAYOUT = layout_of(MANIFEST)


def expected(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return results (n, 7) uint32 and flags (n,) bool of requests (n, 5) uint32."""
    columns = [words[:, j % 5] * np.uint32(2 * j + 1) + np.uint32(j) for j in range(7)]
    return np.stack(columns, axis=1), words[:, 0] % 4 == 0


def compute(words: np.ndarray) -> Answers:
    words_out, flagged = expected(words)
    return Answers(words=words_out, flagged=flagged, cycles=len(words))


class CardTools:
    """Tools for tests of the stand-in, in one fixture (test files cannot import each other)."""

    layout = LAYOUT
    manifest = MANIFEST
    echo = f"{__file__}:echo"
    expected = staticmethod(expected)

    def axi_card(self, *, depth: int = 512) -> PacketAxiCard:
        return PacketAxiCard(card=PacketCard(layout=LAYOUT, compute=compute), depth=depth)

    def model(self, plan: FaultPlan | None = None, *, depth: int = 512, **options) -> XdmaModel:
        options = {"timeout": 0.1, "sound_timeout": 60.0, "plan": plan or FaultPlan()} | options
        return XdmaModel(card=self.axi_card(depth=depth), layout=LAYOUT, **options)

    def request(self, count: int, sequence: int, *, seed: int = 0) -> np.ndarray:
        """Return a sealed packet of random words."""
        packet = np.zeros(LAYOUT.request_bytes(count), dtype=np.uint8)
        words = np.random.default_rng([seed, sequence]).integers(
            0, 1 << 32, size=(count, 5), dtype=np.uint32
        )
        LAYOUT.request_words(packet, count)[:] = words
        seal_request(LAYOUT, packet, count, sequence)
        return packet

    def workload(self, count: int, *, seed: int) -> Workload:
        """Return random requests and their results."""
        print(f"seed {seed}")
        q = np.random.default_rng(seed).normal(size=(count, 5)).astype(np.float32)
        words, flags = expected(q.view(np.uint32))
        return Workload(manifest=MANIFEST, arrays={"q": q}, words=words, flags=flags)

    def words(self, packet: np.ndarray, count: int) -> np.ndarray:
        return LAYOUT.request_words(packet, count)


@pytest.fixture
def card() -> CardTools:
    return CardTools()


def echo(folder: Path) -> tuple[PacketAxiCard, Layout]:
    """Return a card for a stand-in process, without a build."""
    del folder
    return PacketAxiCard(card=PacketCard(layout=LAYOUT, compute=compute)), LAYOUT
