"""``pinion run``: send requests from a file through a core, and write the results."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pinion.base.amounts import amount
from pinion.base.installation import require
from pinion.base.places import check_place
from pinion.console.errors import UsageError
from pinion.console.progress import about, notice
from pinion.console.terminal import out, put_json, steps

from .arrays import read_arrays, write_arrays
from .options import Folder, Json

if TYPE_CHECKING:
    from pinion.link import Manifest


def command(
    folder: Folder,
    *,
    source: Annotated[
        Path | None,
        typer.Option("--input", metavar="IN.npz", help="Request arrays, by name.  [required]"),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="OUT.npz", help="File of the results.  [required]"),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The card: sim, the quick one; sim:top, the whole top, which first compiles for a "
            "minute or more; xdma:0; or serial:/dev/ttyUSB0.",
        ),
    ] = "sim",
    json: Json = False,
) -> None:
    """Send requests from a file to a core.

    Arrays have the names of the function's inputs and outputs; the results also hold
    `saturated`. Nothing is written if anything fails.
    """
    if device.partition(":")[0] == "sim":
        require("hw")
    from pinion import driver
    from pinion.batch import check_arrays
    from pinion.link import Manifest

    manifest = Manifest.read(folder)
    if source is None or target is None:
        raise UsageError(_missing(manifest, source, target))
    check_target(target)
    arrays = read_arrays(source)
    # The driver checks again; here it happens before opening the device may take minutes, and for
    # every name that a file can hold, such as "self".
    check_arrays(manifest.inputs, arrays)
    with steps() as progress:

        def advance(finished: int, total: int) -> None:
            progress.advance(finished / total if total else 1.0)

        progress.step(f"Opening {device}")
        tell_of_compiling(folder, device)
        with driver.open(folder, device=device, on_packet=advance, progress=progress) as card:
            progress.step("Running")
            began = time.perf_counter()
            result = card.run(**arrays)
            seconds = time.perf_counter() - began
    results = dict(result)
    replaced = target.exists()
    write_arrays(target, results)
    count = result.saturated.size
    flagged = int(result.saturated.sum())
    if json:
        put_json(
            {
                "robot": manifest.robot,
                "function": manifest.function,
                "device": device,
                "requests": count,
                "saturated": flagged,
                "cycles": result.cycles,
                "seconds": seconds,
                "outputs": {name: list(values.shape) for name, values in results.items()},
                "output": str(target),
            }
        )
        return
    names = ", ".join(f"{name} {values.shape}" for name, values in results.items())
    console = out()
    console.print(
        f"{manifest.function} for {manifest.robot} on {device}: {amount(count, 'request')}."
    )
    if flagged:
        console.print(f"Saturated, do not use their values: {flagged:,} of the results.")
    instead = ", replacing the earlier file" if replaced else ""
    console.print(f"Written to {target}{instead}: {names}.")


def _missing(manifest: Manifest, source: Path | None, target: Path | None) -> str:
    """Return everything that a call lacks, with the arrays of the requests."""
    arrays = ", ".join(
        f"{a.name} ({', '.join(map(str, ('n', *a.shape)))})" for a in manifest.inputs
    )
    missing = []
    if source is None:
        missing.append(f"--input IN.npz, written with numpy.savez, of {arrays}")
    if target is None:
        missing.append("--output OUT.npz, where the results go")
    lacks = "requests" if source is None else "a file for its results"
    return f"A run of {manifest.function} needs {lacks}: give {'; and '.join(missing)}."


def tell_of_compiling(folder: Path, device: str) -> None:
    """Announce that a device takes minutes to open, and name a quick one."""
    from pinion.driver import split_device

    name, address = split_device(device)
    if name != "sim" or not address:  # every other device is quick
        return
    from pinion.card.transport import seconds_to_open

    seconds = seconds_to_open(folder, address)
    if seconds:
        notice(
            f"The whole top is compiled for {device}, which takes {about(seconds)} on this machine "
            "at its present load (an estimate) and is kept for the next time; --device sim "
            "compiles only the core and is quick."
        )


def check_target(path: Path) -> None:
    """Refuse an impossible file for the results before the work."""
    if path.is_dir():
        raise UsageError(f"'{path}' is a folder: give the name of a file for the results.")
    if not path.parent.is_dir():
        raise UsageError(
            f"There is no folder '{path.parent}' to write '{path.name}' into: make it first."
        )
    check_place(path, "result", UsageError)
