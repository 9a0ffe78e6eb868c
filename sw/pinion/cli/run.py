"""``pinion run``: send requests from a file through a device, and write the results."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from .options import Json

if TYPE_CHECKING:
    from pinion.base.progress import Progress
    from pinion.batch import Backend
    from pinion.link import Array


def command(
    place: Annotated[
        str,
        typer.Argument(
            metavar="DIR|ROBOT",
            help="A folder of `pinion build` or `pinion program`, or a robot.",
        ),
    ],
    function: Annotated[
        str | None,
        typer.Argument(metavar="FUNCTION", help="For a robot: the function to compute."),
    ] = None,
    *,
    source: Annotated[
        Path | None,
        typer.Option(
            "--input", metavar="IN.npz", help="File of request arrays by name.  [required]"
        ),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="OUT.npz", help="File of the results.  [required]"),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of a build: sim, the quick card [default]; sim:top, the whole top, which takes "
            "a minute or more to compile the first time; xdma:0; serial:/dev/ttyUSB0. Of a "
            "program: processor, the model [default]; processor:sim; processor:serial:PORT. Of a "
            "robot and a function: cpu [default], cuda, float or processor, compiled for this run.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Send requests from a file to a core, a program or a compiled function.

    Arrays have the names of the function's inputs and outputs; the results also hold
    `saturated`. Nothing is written if anything fails.
    """
    from pinion.batch import check_arrays

    work = _of_folder(Path(place), device) if function is None else _of(place, function, device)
    if source is None or target is None:
        raise UsageError(_missing(work, source, target))
    check_target(target)
    arrays = read_arrays(source)
    # The device checks again; here it happens before opening it may take minutes, and for every
    # name that a file can hold, such as "self".
    check_arrays(work.inputs, arrays)
    device = work.device
    with steps() as progress:
        progress.step(f"Opening {device}")
        with work.open(progress) as backend:
            progress.step("Running")
            began = time.perf_counter()
            result = backend.run(**arrays)
            seconds = time.perf_counter() - began
    results = dict(result)
    replaced = target.exists()
    write_arrays(target, results)
    count = result.saturated.size
    flagged = int(result.saturated.sum())
    if json:
        put_json(
            {
                "robot": work.robot,
                "function": work.function,
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
    console.print(f"{work.function} for {work.robot} on {device}: {amount(count, 'request')}.")
    if flagged:
        console.print(f"Saturated results, whose values must not be used: {flagged:,}.")
    instead = ", replacing the earlier file" if replaced else ""
    console.print(f"Written to {target}{instead}: {names}.")


@dataclass(frozen=True, kw_only=True)
class _Work:
    """The function and the device that compute a run's requests.

    Members
    -------
    robot, function : their names.
    device : where the function is computed.
    inputs : arrays of the requests.
    open : function that opens the device.
    """

    robot: str
    function: str
    device: str
    inputs: Sequence[Array]
    open: Callable[[Progress], Backend]


def _of_folder(folder: Path, device: str | None) -> _Work:
    """Return the work for a build folder or a program folder."""
    from pinion.link import Manifest
    from pinion.processor.folder import PROGRAM, ProgramFolder, open_program_folder

    # Before anything else, so that a missing extra is told before a wrong folder.
    if not (folder / PROGRAM.name).exists() and (device or "sim").partition(":")[0] == "sim":
        require("hw")
    manifest = Manifest.read(folder)
    if manifest.is_program:
        program = ProgramFolder.read(folder)
        name = device or "processor"

        def on_processor(progress: Progress) -> Backend:
            return open_program_folder(program, name, progress=progress)

        opener = on_processor
    else:
        from pinion import driver

        name = device or "sim"

        def on_card(progress: Progress) -> Backend:
            def advance(finished: int, total: int) -> None:
                progress.advance(finished / total if total else 1.0)

            tell_of_compiling(folder, name)
            return driver.open(folder, device=name, on_packet=advance, progress=progress)

        opener = on_card
    return _Work(
        robot=manifest.robot,
        function=manifest.function,
        device=name,
        inputs=manifest.inputs,
        open=opener,
    )


def _of(robot: str, function: str, device: str | None) -> _Work:
    """Return the work for a function that is compiled for this run."""
    from pinion import api
    from pinion.functions import arrays_of, row_of
    from pinion.robot import asked_robot

    name = device or "cpu"
    if name.partition(":")[0] == "sim":
        require("hw")
    row, model = row_of(function), asked_robot(robot)
    row.check(model)
    return _Work(
        robot=model.name,
        function=row.name,
        device=name,
        inputs=arrays_of(row.inputs, model),
        open=lambda progress: api.backend(model, row, device=name, progress=progress),
    )


def _missing(work: _Work, source: Path | None, target: Path | None) -> str:
    """Return a message on the missing options, and on the arrays that the requests need."""
    arrays = ", ".join(f"{a.name} ({', '.join(map(str, ('n', *a.shape)))})" for a in work.inputs)
    missing = []
    if source is None:
        missing.append(f"--input IN.npz, written with numpy.savez, with {arrays}")
    if target is None:
        missing.append("--output OUT.npz, for the results")
    lacks = "requests" if source is None else "a file for its results"
    return f"A run of {work.function} needs {lacks}: give {'; and '.join(missing)}."


def tell_of_compiling(folder: Path, device: str) -> None:
    """Announce that a device takes minutes to open, and name a faster one."""
    from pinion.driver import split_device

    name, address = split_device(device)
    if name != "sim" or not address:  # every other device is quick
        return
    from pinion.card.transport import seconds_to_open

    seconds = seconds_to_open(folder, address)
    if seconds:
        notice(
            f"The whole top is compiled for {device}, which takes {about(seconds)} on this machine "
            "at its present load (an estimate), and is kept for the next time; --device sim "
            "compiles only the core and is faster."
        )


def check_target(path: Path) -> None:
    """Refuse a file to which results cannot be written, before any work is done."""
    if path.is_dir():
        raise UsageError(f"'{path}' is a folder: give a file for the results.")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder '{path.parent}' for '{path.name}': create it first.")
    check_place(path, "result", UsageError)
