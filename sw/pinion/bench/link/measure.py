"""``pinion bench link``: a card and the driver alone, measured; the real link, modelled.

The three are kept apart: times of a card and of the driver alone are measured (:mod:`.rates`), and
those of a real link are computed (:mod:`pinion.link.transfer`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pinion.base.installation import require
from pinion.bench.published import published_times
from pinion.console.errors import UsageError
from pinion.console.terminal import counted, out, put_json, say, show, steps, table

from .table import link_times_table

if TYPE_CHECKING:
    from pinion.driver import Device

FOLDER = Path("build") / "bench" / "link"
DEFAULT = ("iiwa14", "fd_derivatives")
II, FORMATS = 8, "auto"

LARGEST = 100_000
BUDGET_S = 2.0
"""Time for repeating a batch; a batch that takes longer runs once."""


def run(
    target: Sequence[str], *, device: str, standin: bool, largest: int, seconds: float, json: bool
) -> None:
    """Measure a card and the driver alone, model the real link, and print the tables.

    Parameters
    ----------
    target : nothing, a build folder, or a robot and a function to build.
    device : as for :func:`pinion.driver.open`.
    standin : whether to measure through the device files of a stand-in card instead.
    largest : size of the largest batch.
    seconds : time for the repetitions of each batch.

    Raises
    ------
    UsageError : if the target is invalid, or both a device and the stand-in are requested.
    """
    require("hw", *(("sim",) if standin else ()))
    from pinion.link import Manifest, layout_of
    from pinion.link.transfer import model

    from .rates import card_rates, driver_rates

    if standin and device != "sim":
        raise UsageError(f"Give either --standin or --device {device}, not both.")
    folder = find_build(target)
    manifest = Manifest.read(folder)
    sizes = [size for size in (10**k for k in range(10)) if size <= largest]
    with _device(folder, device, standin) as card, counted("Batches", total=len(sizes)) as advance:
        measured = card_rates(card, sizes, seconds=seconds, progress=lambda: advance(1))
    with counted("Driver alone", total=len(sizes)) as advance:
        alone = driver_rates(manifest, sizes, seconds=seconds, progress=lambda: advance(1))
    name = "standin" if standin else device
    data = {
        "bench": "link",
        **{"robot": manifest.robot, "function": manifest.function, "formats": manifest.formats},
        **{"ii": manifest.ii, "words_in": manifest.words_in, "words_out": manifest.words_out},
        **{"folder": str(folder), "device": name},
        "simulated": not name.startswith("xdma"),
        "batches": measured,
        "driver": alone,
        "model": {**model(manifest, layout_of(manifest)), "published": published_times()},
    }
    if json:
        put_json(data)
        return
    _show(data)


def find_build(target: Sequence[str], folder: Path = FOLDER) -> Path:
    """Return the folder of the build to measure, after building it if it is missing."""
    from pinion.link.manifest import MANIFEST

    if len(target) == 1:
        return Path(target[0])
    if len(target) > 2:
        raise UsageError(
            f"The link is measured with one build, not '{' '.join(target)}': give a build "
            "folder, or a robot and a function."
        )
    robot, function = target or DEFAULT
    path = folder / f"{Path(robot).stem}_{function}"
    if not (path / MANIFEST).is_file():
        from pinion.flow import build
        from pinion.request import BuildRequest

        request = BuildRequest(ii=II, formats=FORMATS)
        with steps() as progress:
            row, (model, as_read) = request.row.row(function), request.robot.read(robot)
            build(model, row, path, request, as_read=as_read, progress=progress)
    return path


@contextmanager
def _device(folder: Path, device: str, standin: bool) -> Iterator[Device]:
    import math

    from pinion import driver

    with steps() as progress:
        progress.step("Opening the card")
        if not standin:
            card = driver.open(folder, device=device)
        else:
            from pinion.card.stand_in.mount import StandIn

            # A long timeout: a simulation takes longer for a large batch than any card.
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


def _show(data: Mapping[str, Any]) -> None:
    """Print the three tables, each with a note on the quality of its figures."""
    console = out()
    title = f"{data['robot']} {data['function']} {data['formats']}, ii {data['ii']}"
    console.print(_batch_table(data["batches"], f"{title}, on {data['device']}"))
    say(
        "Milliseconds per batch: pack and unpack are the host's, in threads during the flight; "
        "flight is from sending a request to receiving its response. Of the flight, card is the "
        "card's count at the link's clock, and link the remainder. "
        + (
            "The card is simulated: everything else, including results per second, is wall time "
            "of a simulation and says nothing about a card; card is the time of a real one at "
            "its clock."
            if data["simulated"]
            else "A card behind device files, possibly a stand-in."
        )
    )
    console.print(_driver_table(data["driver"]))
    say(
        "Measured here: the driver's own cost, on a transport that answers at once and whose time "
        "is subtracted. GB/s are bytes of packets over the wall time of packing and unpacking, "
        "checks included; 'one core' is bytes over all CPU time of the driver, checksums and "
        "threads included, the most reliable figure on a busy machine."
    )
    show(link_times_table(data["model"]))


def _batch_table(rows: Sequence[Mapping[str, Any]], title: str) -> Any:
    return table(
        *("requests", "repeats", "results/s", "median", "p99"),
        *("pack", "flight", "link's part", "card", "unpack", "cycles per result"),
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
        *("requests", "repeats", "median, us", "p99, us", "us per request"),
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
