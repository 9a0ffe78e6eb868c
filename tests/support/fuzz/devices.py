"""Fuzzing of a device with corrupted responses: a batch is correct, or an error names the cause."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
from numpy.typing import NDArray

from pinion.card.packets import PacketCard
from pinion.card.transport import InProcessCard
from pinion.driver import Device, DriverError, TransportError
from pinion.link import Array, Manifest, layout_of
from tests.support.fuzz.manifests import sample
from tests.support.fuzz.mutate import Mutator
from tests.support.fuzz.packets import compute
from tests.support.fuzz.tally import Tally, error_text

CORRUPTED = 0.5
"""Share of the responses that are corrupted."""


def plain() -> Manifest:
    """Return the manifest of a function of seven words with five results."""
    return replace(
        sample(),
        inputs=(Array(name="x", shape=(7,), unit=""),),
        outputs=(Array(name="y", shape=(5,), unit=""),),
        lanes_in=7,
        beats_in=1,
        lanes_out=5,
        beats_out=1,
    )


class CorruptingCard(InProcessCard):
    """Card whose responses are corrupted at random, as by a faulty cable.

    Parameters
    ----------
    card : the model.
    mutator : corrupts responses; shorter ones leave the old content in the host's memory.
    """

    def __init__(self, *, card: PacketCard, mutator: Mutator) -> None:
        super().__init__(card=card)
        self._mutator = mutator
        self._before = b"\0"

    def receive(self, packet: NDArray[np.uint8]) -> None:
        """Receive a response into a packet, corrupted with the probability `CORRUPTED`."""
        super().receive(packet)
        raw = packet.tobytes()
        if self._mutator.random.random() < CORRUPTED:
            corrupted = self._mutator.packet(raw, self._before)[: len(packet)]
            packet[: len(corrupted)] = np.frombuffer(corrupted, dtype=np.uint8)
        self._before = raw


def fuzz_devices(*, cases: int, seed: int) -> Tally:
    """Send batches through a `pinion.driver.Device`; about half of the responses are corrupted.

    A batch has its own right results, or raises a `TransportError`; the next one is served.
    """
    tally = Tally(name="devices", seed=seed)
    rng, manifest = np.random.default_rng(seed), plain()
    card = PacketCard(layout=layout_of(manifest), compute=compute)
    transport = CorruptingCard(card=card, mutator=Mutator(random=Random(seed)))
    with Device(manifest=manifest, transport=transport) as device:
        for _ in range(cases):
            x = rng.normal(size=(int(rng.integers(1, 5)), 7)).astype(np.float32)
            expected = compute(x.view(np.uint32))
            try:
                result = device.run(x=x)
            except TransportError:
                tally.refuse()
                continue
            except DriverError as error:
                tally.fail(f"the device was given up: {error}")
                break
            except Exception as error:
                tally.fail(error_text(error))
                continue
            right = np.array_equal(result.y.view(np.uint32), expected.words)
            if right and np.array_equal(result.saturated, expected.flagged):
                tally.accept()
            else:
                tally.fail("a batch has results that are not its own, and no error")
    return tally
