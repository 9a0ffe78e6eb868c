"""Cards in Python, fast, slow and broken, behind the driver's transport interface."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from pinion.card.packets import Answers, PacketCard
from pinion.card.transport import InProcessCard
from pinion.link import HEADER, Array, Manifest, layout_of, register
from pinion.link.registers import RESET

BIG = np.float32(1000.0)

WAIT = 30.0
"""Seconds that only a hang takes."""


def manifest(**changes: Any) -> Manifest:
    """Return a manifest of a two-joint arm: inputs q, qd, matrix; outputs tau, matrix."""
    fields: dict[str, Any] = {
        "version": "0",
        "robot": "two_link",
        "robot_source": "two_link",
        "function": "made_up",
        "options": {},
        "formats": "q16.16",
        "target": "sim",
        "ii": 4,
        "clock_mhz": 250.0,
        "inputs": (
            Array(name="q", shape=(2,), unit="rad"),
            Array(name="qd", shape=(2,), unit="rad/s"),
            Array(name="weight", shape=(2, 3), unit="kg"),
        ),
        "outputs": (
            Array(name="tau", shape=(2,), unit="N m"),
            Array(name="scaled", shape=(2, 3), unit="kg"),
        ),
        "lanes_in": 5,
        "beats_in": 2,
        "lanes_out": 4,
        "beats_out": 2,
        "schedule_cycles": 10,
        "latency_cycles": 20,
        "multipliers": 1,
        "table_multipliers": 0,
        "adders": 1,
        "units": {"add": 1},
        "ops": {"add": 1},
        "registers": 1,
        "budget": {},
        "budget_distribution": "reference",
        "objective": "area",
        "max_error": 0.0,
        "content": "none",
    }
    return Manifest(**{**fields, **changes})


def expected(q: Any, qd: Any, weight: Any) -> tuple[Any, Any]:
    """Return the card's results in float32: tau = q + 2 qd, scaled = 3 weight."""
    with np.errstate(all="ignore"):  # damaged requests are computed as well
        return q + np.float32(2) * qd, np.float32(3) * weight


def compute(words: np.ndarray, *, cycles: int = 7) -> Answers:
    """Compute the function for (n, 10) words; flag requests whose first word is above `BIG`."""
    floats = words.view(np.float32)
    tau, scaled = expected(floats[:, 0:2], floats[:, 2:4], floats[:, 4:10])
    out = np.ascontiguousarray(np.concatenate([tau, scaled], axis=1)).view(np.uint32)
    return Answers(words=out, flagged=floats[:, 0] > BIG, cycles=cycles)


class Card(InProcessCard):
    """A card that answers at once and records its calls.

    Members
    -------
    sizes : requests in each packet.
    calls : ``packet``, ``reset`` and ``close``, in order.
    senders, receivers : identities of the sending and the receiving threads.
    hook : called with the (n, 10) words of each packet before they are answered.
    spoil : changes each response packet.
    """

    def __init__(
        self,
        *,
        build_hash: int | None = None,
        cycles: int = 7,
        m: Manifest | None = None,
        compute: Callable[..., Answers] = compute,
        wait: float = WAIT,
    ) -> None:
        self.sizes: list[int] = []
        self.calls: list[str] = []
        self.senders: set[int] = set()
        self.receivers: set[int] = set()
        self.hook: Callable[[np.ndarray], None] = lambda words: None
        self.spoil: Callable[[np.ndarray], np.ndarray | None] = lambda packet: packet
        self._busy = threading.Lock()

        def work(words: np.ndarray) -> Answers:
            self.sizes.append(len(words))
            self.calls.append("packet")
            self.hook(words)
            return compute(words, cycles=cycles)

        layout = layout_of(m or manifest())
        super().__init__(card=PacketCard(layout=layout, compute=work, build=build_hash), wait=wait)

    def write_register(self, offset: int, value: int) -> None:
        if offset == register("CONTROL").offset and value & RESET:
            self.calls.append("reset")
        super().write_register(offset, value)

    def send(self, packet: np.ndarray) -> None:
        assert self._busy.acquire(blocking=False), "two packets are being sent at once"
        try:
            assert packet.__array_interface__["data"][0] % 4096 == 0 and len(packet) % 64 == 0
            self.senders.add(threading.get_ident())
            super().send(packet)
        finally:
            self._busy.release()

    def receive(self, packet: np.ndarray) -> None:
        assert packet.__array_interface__["data"][0] % 4096 == 0 and len(packet) % 64 == 0
        self.receivers.add(threading.get_ident())
        super().receive(packet)
        changed = self.spoil(packet)
        if changed is not None and changed is not packet:
            packet[:] = changed

    def close(self) -> None:
        self.calls.append("close")


def sequence_of(packet: np.ndarray) -> int:
    """Return the sequence number of a packet."""
    return int(packet[:64].view(HEADER)[0]["sequence"])


def states(count: int, *, seed: int) -> dict[str, np.ndarray]:
    """Return random float32 request arrays."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    shapes = {"q": (count, 2), "qd": (count, 2), "weight": (count, 2, 3)}
    return {name: rng.normal(size=s).astype(np.float32) for name, s in shapes.items()}
