"""Programs on a card with a dynamics processor."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points

import numpy as np

from pinion.base.progress import SILENT, Progress
from pinion.driver import Device, DriverError, Transport, TransportError, WrongBuildError
from pinion.driver.connection import Connection
from pinion.driver.programs import load_records
from pinion.link import Manifest, function_id

from .image import Image, Name, Store
from .machine import Machine
from .manifest import loading
from .program import Program

GROUP = "pinion.processors"
"""Entry points: for the name of a transport, the function that opens it for a processor."""

ATTEMPTS = 4
"""Number of attempts after which a load has failed."""


def open_programs(
    programs: Sequence[tuple[Manifest, Program]],
    device: str,
    *,
    progress: Progress = SILENT,
) -> tuple[Device, ...]:
    """Load programs into the processor of a card, replacing those that it holds.

    Parameters
    ----------
    programs : manifest and program of each, for one machine.
    device : name of a transport and its address, such as ``sim``.

    Returns
    -------
    A device for each program. They share the card, which the last one to be closed closes.

    Raises
    ------
    ProgramError
        If the programs do not fit together.
    DriverError
        If there is no such card, it is in use, or it holds another machine.
    TransportError
        If the card does not work.
    """
    manifests = [manifest for manifest, _ in programs]
    image = Image.of(
        [program for _, program in programs],
        [Name(build=m.hash, function=function_id(m.function)) for m in manifests],
    )
    transport = _transport(device, image.machine, progress)
    return load(transport, image, manifests, progress=progress)


def load(
    transport: Transport,
    image: Image,
    manifests: Sequence[Manifest],
    *,
    progress: Progress = SILENT,
) -> tuple[Device, ...]:
    """Load programs through a transport, and return a device for each."""
    progress.step("loading programs")
    try:
        connection = Connection(transport=transport, card=loading(image.machine))
    except WrongBuildError as error:
        raise WrongBuildError(
            f"The card at {transport.where} does not hold the processor that the programs were "
            f"compiled for, which has {image.machine.title}: compile for the card's "
            "machine (`pinion program --machine`), or load the bitstream of that processor."
        ) from error
    try:
        _load(connection, image)
    except BaseException:
        connection.leave(wait=False)
        raise
    return tuple(Device(manifest=manifest, transport=connection) for manifest in manifests)


def _load(connection: Connection, image: Image) -> None:
    """Write programs to a card's memories, and start again after a fault.

    Names come last and alone, so that a program is resident only if all of it arrived.

    Raises
    ------
    DriverError, TransportError
        If a load fails :data:`ATTEMPTS` times.
    """
    layout = loading(image.machine)
    records = image.records()
    names = len(image.words[Store.NAMES])
    parts = np.split(records, [len(records) - names])
    for attempt in range(ATTEMPTS):
        try:
            for part in parts:
                load_records(connection, layout, part)
        except TransportError:
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return


def _transport(device: str, machine: Machine, progress: Progress) -> Transport:
    name, _, address = device.partition(":")
    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        raise DriverError(
            f"There is no processor '{device}': give 'processor:' followed by one of "
            f"{', '.join(sorted(points))}, with an address after a colon if it needs one."
        )
    opener = points[name].load()
    transport: Transport = opener(machine, loading(machine), address, progress=progress)
    return transport
