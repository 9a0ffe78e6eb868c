"""Measured rates of batches through a card, and of the driver alone.

The time of a simulated card is wall time of a simulation and says nothing about a card; the driver
alone is measured on a transport that answers at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.card.instant import InstantCard
from pinion.driver import Device, Profile
from pinion.link import Manifest, layout_of

REPEATS = 300
"""Largest number of repetitions of a batch."""

SEED = 0


def arrays(manifest: Manifest, count: int) -> dict[str, NDArray[Any]]:
    """Return request arrays (count, ...) with values in [-1, 1], which do not affect the time."""
    rng = np.random.default_rng(SEED)
    return {
        a.name: rng.uniform(-1.0, 1.0, (count, *a.shape)).astype(np.float32)
        for a in manifest.inputs
    }


def card_rates(
    card: Device, sizes: Sequence[int], *, seconds: float, progress: Callable[[], None]
) -> list[dict[str, Any]]:
    """Measure batches of each size through a card, one `Device.run` after another.

    Returns
    -------
    A row per size: ``requests, repeats, median_s, p99_s, results_per_second`` and, averaged over
    the repeats, ``pack_s, flight_s, device_s, link_s, unpack_s, device_cycles``: ``device_s`` is
    the card's cycles at the link's clock, ``link_s`` the remaining time of the flight.
    """
    rows = []
    for size in sizes:
        batch = arrays(card.manifest, size)
        card.reset_profile()
        spent = [_timed(card, batch)]
        if spent[0] < seconds:  # the first run was a warm-up; otherwise there is time for one only
            card.reset_profile()
            spent = []
            while len(spent) < REPEATS and (not spent or sum(spent) < seconds):
                spent.append(_timed(card, batch))
        rows.append(_row(size, spent, card.profile))
        progress()
    return rows


def _timed(card: Device, batch: Mapping[str, Any]) -> float:
    began = time.perf_counter()
    card.run(**batch)
    return time.perf_counter() - began


def _row(size: int, spent: Sequence[float], profile: Profile) -> dict[str, Any]:
    repeats, median = len(spent), float(np.median(spent))
    return {
        "requests": size,
        "repeats": repeats,
        "median_s": median,
        "p99_s": float(np.quantile(spent, 0.99)),
        "results_per_second": size / median,
        "pack_s": profile.pack_seconds / repeats,
        "flight_s": profile.flight_seconds / repeats,
        "device_s": profile.device_seconds / repeats,
        "link_s": profile.link_seconds / repeats,
        "unpack_s": profile.unpack_seconds / repeats,
        "device_cycles": profile.device_cycles / repeats,
    }


def driver_rates(
    manifest: Manifest, sizes: Sequence[int], *, seconds: float, progress: Callable[[], None]
) -> list[dict[str, Any]]:
    """Measure the driver alone, with a stand-in for the card whose time is subtracted.

    Returns
    -------
    A row per size: ``requests, repeats, median_s, p99_s`` of the round trip without the simulated
    card's time, ``card_s`` that time; ``pack_gb_per_s, unpack_gb_per_s, both_gb_per_s``: bytes of
    the packets over the wall time of packing and unpacking; ``core_gb_per_s``: bytes over all CPU
    time of the driver, which other programs do not affect.
    """
    card = InstantCard(layout=layout_of(manifest))
    rows = []
    with Device(manifest=manifest, transport=card) as device:
        for size in sizes:
            batch = arrays(manifest, size)
            _timed(device, batch)
            device.reset_profile()
            spent: list[float] = []
            device_seconds: list[float] = []
            card.worked, worked = 0.0, time.process_time()
            while len(spent) < REPEATS and (len(spent) < 3 or sum(spent) < seconds):
                card.spent = 0.0
                seconds_taken = _timed(device, batch)
                device_seconds.append(card.spent)
                spent.append(max(0.0, seconds_taken - card.spent))
            worked = time.process_time() - worked - card.worked
            profile = device.profile
            moved = profile.bytes_in + profile.bytes_out
            rows.append(
                {
                    "requests": size,
                    "repeats": len(spent),
                    "median_s": float(np.median(spent)),
                    "p99_s": float(np.quantile(spent, 0.99)),
                    "card_s": float(np.median(device_seconds)),
                    "pack_gb_per_s": _rate(profile.bytes_in, profile.pack_seconds),
                    "unpack_gb_per_s": _rate(profile.bytes_out, profile.unpack_seconds),
                    "both_gb_per_s": _rate(moved, profile.pack_seconds + profile.unpack_seconds),
                    "core_gb_per_s": _rate(moved, worked),
                }
            )
            progress()
    return rows


def _rate(moved: int, seconds: float) -> float | None:
    return moved / seconds / 1e9 if seconds > 0 else None
