"""``pinion bench link``: a card and the driver alone, measured; the real link, modelled.

The three are kept apart. What a simulated card takes is wall time of a simulation and says nothing
of a card; what the driver takes by itself is measured on a transport that answers at once; and what
a real link would take is computed (:mod:`.bench_link_model`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import bench_link_model
from .errors import UsageError
from .terminal import counted, out, put_json, say, steps, table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pinion.driver import Device, Profile
    from pinion.link import Manifest

FOLDER = Path("build") / "bench" / "link"
DEFAULT = ("iiwa14", "fd_derivatives")
II, FORMATS = 8, "auto"

LARGEST = 100_000
BUDGET_S = 2.0
"""Time for repeating a batch; one that takes longer runs once."""

REPEATS = 300
SEED = 0


def run(
    target: Sequence[str], *, device: str, standin: bool, largest: int, seconds: float, json: bool
) -> None:
    """Measure and print.

    Parameters
    ----------
    target : nothing, a build folder, or a robot and a function to build.
    device : as of :func:`pinion.driver.open`.
    standin : measure through the device files of a stand-in card instead.
    largest : requests of the largest batch.
    seconds : for the repetitions of each batch.

    Raises
    ------
    UsageError : the target is none of these, or both a device and the stand-in are asked for.
    """
    from pinion.driver.card import layout_of
    from pinion.link import Manifest

    if standin and device != "sim":
        raise UsageError(f"Give either --standin or --device {device}: they are two cards.")
    folder = find_build(target)
    manifest = Manifest.read(folder)
    sizes = [size for size in (10**k for k in range(10)) if size <= largest]
    with _device(folder, device, standin) as card, counted("Batches", total=len(sizes)) as advance:
        measured = measure(card, sizes, seconds=seconds, done=lambda: advance(1))
    with counted("Driver alone", total=len(sizes)) as advance:
        alone = driver_alone(manifest, sizes, seconds=seconds, done=lambda: advance(1))
    name = "standin" if standin else device
    data = {
        "bench": "link",
        **{"robot": manifest.robot, "function": manifest.function, "formats": manifest.formats},
        **{"ii": manifest.ii, "words_in": manifest.words_in, "words_out": manifest.words_out},
        **{"folder": str(folder), "device": name},
        "simulated": not name.startswith("xdma"),
        "batches": measured,
        "driver": alone,
        "model": bench_link_model.model(manifest, layout_of(manifest)),
    }
    if json:
        put_json(data)
        return
    show(data)


def find_build(target: Sequence[str], folder: Path = FOLDER) -> Path:
    """The build to measure, made now where it is named by robot and function and not there yet."""
    from pinion.link.manifest import MANIFEST

    if len(target) == 1:
        return Path(target[0])
    if len(target) > 2:
        raise UsageError(
            f"The link is measured with one build, not with '{' '.join(target)}': give a build "
            "folder, or a robot and a function."
        )
    robot, function = target or DEFAULT
    path = folder / f"{Path(robot).stem}_{function}"
    if not (path / MANIFEST).is_file():
        from pinion.flow.build import build

        with steps() as report:
            build(robot, function, path, ii=II, formats=FORMATS, report=report)
    return path


@contextmanager
def _device(folder: Path, device: str, standin: bool) -> Iterator[Device]:
    import math

    from pinion import driver

    with steps() as report:
        report("Opening the card")
        if not standin:
            card = driver.open(folder, device=device)
        else:
            from pinion.card.stand_in.mount import StandIn

            # Patient: a simulation works at a large batch for longer than a card ever would.
            files = StandIn(folder=folder, timeout=600.0)
            try:
                card = driver.open(folder, device=files.device, timeout=math.inf)
            except BaseException:
                files.close()
                raise
    try:
        with card:
            yield card
    finally:
        if standin:
            files.close()


def arrays(manifest: Manifest, count: int) -> dict[str, NDArray[Any]]:
    """Request arrays (count, ...) between -1 and 1: the time does not depend on what they hold."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    return {
        a.name: rng.uniform(-1.0, 1.0, (count, *a.shape)).astype(np.float32)
        for a in manifest.inputs
    }


def measure(
    card: Device, sizes: Sequence[int], *, seconds: float, done: Callable[[], None]
) -> list[dict[str, Any]]:
    """Batches of each size through a device, one after the other, as `Device.run` does them.

    Returns
    -------
    A row a size: ``requests, repeats, median_s, p99_s, results_per_second`` and, summed over the
    repeats and divided by them, ``pack_s, flight_s, device_s, link_s, unpack_s, device_cycles``:
    ``device_s`` are the card's cycles at the link's clock, ``link_s`` what is left of the flight.
    """
    rows = []
    for size in sizes:
        batch = arrays(card.manifest, size)
        card.reset_profile()
        spent = [_timed(card, batch)]
        if spent[0] < seconds:  # that was the warming up; else once is all there is time for
            card.reset_profile()
            spent = []
            while len(spent) < REPEATS and (not spent or sum(spent) < seconds):
                spent.append(_timed(card, batch))
        rows.append(_row(size, spent, card.profile))
        done()
    return rows


def _timed(card: Device, batch: Mapping[str, Any]) -> float:
    began = time.perf_counter()
    card.run(**batch)
    return time.perf_counter() - began


def _row(size: int, spent: Sequence[float], profile: Profile) -> dict[str, Any]:
    import numpy as np

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


def driver_alone(
    manifest: Manifest, sizes: Sequence[int], *, seconds: float, done: Callable[[], None]
) -> list[dict[str, Any]]:
    """The driver by itself: a transport that answers at once, its own time taken off.

    Returns
    -------
    A row a size: ``requests, repeats, median_s, p99_s`` of the round trip without what the made-up
    card took, ``card_s`` that time; ``pack_gb_per_s, unpack_gb_per_s, both_gb_per_s``: bytes of the
    packets over the wall time that packing and unpacking took; ``core_gb_per_s``: bytes over all
    the processor's time that the driver took, which other programs do not touch.
    """
    import numpy as np

    from pinion.card.instant import InstantCard
    from pinion.driver import Device
    from pinion.driver.card import layout_of

    card = InstantCard(layout=layout_of(manifest))
    rows = []
    with Device(manifest=manifest, transport=card) as device:
        for size in sizes:
            batch = arrays(manifest, size)
            _timed(device, batch)
            device.reset_profile()
            spent: list[float] = []
            own: list[float] = []
            card.worked, worked = 0.0, time.process_time()
            while len(spent) < REPEATS and (len(spent) < 3 or sum(spent) < seconds):
                card.spent = 0.0
                taken = _timed(device, batch)
                own.append(card.spent)
                spent.append(max(0.0, taken - card.spent))
            worked = time.process_time() - worked - card.worked
            profile = device.profile
            moved = profile.bytes_in + profile.bytes_out
            rows.append(
                {
                    "requests": size,
                    "repeats": len(spent),
                    "median_s": float(np.median(spent)),
                    "p99_s": float(np.quantile(spent, 0.99)),
                    "card_s": float(np.median(own)),
                    "pack_gb_per_s": _rate(profile.bytes_in, profile.pack_seconds),
                    "unpack_gb_per_s": _rate(profile.bytes_out, profile.unpack_seconds),
                    "both_gb_per_s": _rate(moved, profile.pack_seconds + profile.unpack_seconds),
                    "core_gb_per_s": _rate(moved, worked),
                }
            )
            done()
    return rows


def _rate(moved: int, seconds: float) -> float | None:
    return moved / seconds / 1e9 if seconds > 0 else None


def show(data: Mapping[str, Any]) -> None:
    """The three tables, each with what its figures are worth."""
    console = out()
    what = f"{data['robot']} {data['function']} {data['formats']}, ii {data['ii']}"
    console.print(_batch_table(data["batches"], f"{what}, on {data['device']}"))
    say(
        "Milliseconds a batch: pack and unpack are the host's, in threads beside the flight; "
        "flight is from a request's leaving to its response's coming. Of it, card is what the "
        "card counted, at the link's clock, and link the rest. "
        + (
            "The card is simulated: flight, link, latency and results a second are wall time of "
            "a simulation and say nothing of a card; card is what one would take, if it ran at "
            "its clock."
            if data["simulated"]
            else "A card behind device files, which a stand-in may serve."
        )
    )
    console.print(_driver_table(data["driver"]))
    say(
        "Measured here: the driver's own cost, on a transport that answers at once and whose time "
        "is taken off. GB/s are bytes of packets over the wall time of packing and unpacking, "
        "checks included; 'one core' is bytes over all the processor's time that the driver took, "
        "checksums and threads included, which is the figure to trust on a machine that is busy."
    )
    bench_link_model.show(data["model"])


def _batch_table(rows: Sequence[Mapping[str, Any]], title: str) -> Any:
    return table(
        *("requests", "repeats", "results/s", "median", "p99"),
        *("pack", "flight", "of it link", "card", "unpack", "cycles a result"),
        rows=[
            (
                *(r["requests"], r["repeats"], round(r["results_per_second"])),
                *(_ms(r[key]) for key in ("median_s", "p99_s", "pack_s", "flight_s", "link_s")),
                *(_ms(r[key]) for key in ("device_s", "unpack_s")),
                f"{r['device_cycles'] / r['requests']:.1f}",
            )
            for r in rows
        ],
        title=title,
    )


def _driver_table(rows: Sequence[Mapping[str, Any]]) -> Any:
    return table(
        *("requests", "repeats", "median, us", "p99, us", "us a request"),
        *("pack, GB/s", "unpack, GB/s", "both, GB/s", "one core, GB/s"),
        rows=[
            (
                *(r["requests"], r["repeats"], *(_us(r[key]) for key in ("median_s", "p99_s"))),
                f"{1e6 * r['median_s'] / r['requests']:.3g}",
                *(_gb(r[f"{key}_gb_per_s"]) for key in ("pack", "unpack", "both", "core")),
            )
            for r in rows
        ],
        title="The driver alone",
    )


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}"


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:.0f}"


def _gb(rate: float | None) -> str | None:
    return None if rate is None else f"{rate:.2f}"
