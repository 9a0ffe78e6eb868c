"""Cards made of Python: fast, slow and broken ones, behind the driver's transport interface."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from pinion.driver import Answers, CardIdentity, Transport
from pinion.hls.manifest import Array, Manifest

BIG = np.float32(1000.0)


def manifest(**changes: Any) -> Manifest:
    """A function of an arm with two joints: q, qd, matrix in; tau and a matrix out."""
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
        "latency_cycles": 10,
        "total_latency_cycles": 20,
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
    """What the card computes, in float32: tau = q + 2 qd, scaled = 3 weight."""
    return q + np.float32(2) * qd, np.float32(3) * weight


class Card(Transport):
    """Answers at once; flags a request whose first word is above `BIG`."""

    def __init__(self, *, build_hash: int | None = None, cycles: int | None = 7) -> None:
        self.hash = manifest().hash if build_hash is None else build_hash
        self.cycles = cycles
        self.sizes: list[int] = []
        self.calls: list[str] = []
        self.threads: set[int] = set()
        self.hook: Callable[[np.ndarray], None] = lambda requests: None
        self.spoil: Callable[[Answers], Answers] = lambda answers: answers
        self._busy = threading.Lock()

    def identity(self) -> CardIdentity:
        return CardIdentity(build_hash=self.hash)

    def exchange(self, requests: np.ndarray) -> Answers:
        assert self._busy.acquire(blocking=False), "two exchanges at once"
        try:
            assert requests.dtype == np.uint32 and requests.ndim == 2 and requests.shape[1] == 10
            assert len(requests) and requests.flags.c_contiguous
            self.threads.add(threading.get_ident())
            self.sizes.append(len(requests))
            self.calls.append("exchange")
            self.hook(requests)
            words = requests.view(np.float32)
            tau, scaled = expected(words[:, 0:2], words[:, 2:4], words[:, 4:10])
            out = np.ascontiguousarray(np.concatenate([tau, scaled], axis=1)).view(np.uint32)
            return self.spoil(Answers(words=out, flagged=words[:, 0] > BIG, cycles=self.cycles))
        finally:
            self._busy.release()

    def reset(self) -> None:
        self.calls.append("reset")

    def close(self) -> None:
        self.calls.append("close")


def states(count: int, *, seed: int) -> dict[str, np.ndarray]:
    """Random request arrays of the made-up function, float32."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    shapes = {"q": (count, 2), "qd": (count, 2), "weight": (count, 2, 3)}
    return {name: rng.normal(size=s).astype(np.float32) for name, s in shapes.items()}
