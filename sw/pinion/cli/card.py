"""``pinion card``: a simulated card, for programs that open device files."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from pinion.base.installation import require
from pinion.console.errors import UsageError
from pinion.console.terminal import out, put_json, steps

from .options import Folder, Json


def command(
    folder: Folder,
    *,
    faults: Annotated[
        Path | None,
        typer.Option(
            metavar="PLAN.toml", help="Faults to inject, and their times; see docs/driver.md."
        ),
    ] = None,
    at: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder of the device files; a temporary one by default."
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(metavar="S", help="How long a transfer may stall, in seconds.")
    ] = 10.0,
    model: Annotated[
        str, typer.Option(help="packet: the core's RTL in a model of the top; rtl: all of it.")
    ] = "packet",
    json: Json = False,
) -> None:
    """Serve a simulated card's device files until Ctrl-C.

    A stand-in behaves like the Xilinx DMA driver with a card behind it. Another program opens it
    as the device that is printed.
    """
    require("hw", "sim")
    from pinion.card.stand_in import FaultPlan, StandIn

    if not timeout > 0:
        raise UsageError(f"The timeout (--timeout) must be positive, not {timeout:g} s.")
    if model not in ("packet", "rtl"):
        raise UsageError(f"There is no card model '{model}': give 'packet' or 'rtl'.")
    plan = FaultPlan() if faults is None else FaultPlan.read(faults)
    with steps() as progress:
        progress.step("Preparing the card")
        card = StandIn(folder=folder, faults=plan, timeout=timeout, model=model, at=at)
    # From here on: a reader of the ready message may end the card at once.
    with _asked() as end, card:
        if json:
            put_json({"device": card.device, "prefix": card.prefix, "build": str(folder)})
        else:
            out().print(f"The card is ready: open it as the device {card.device}; Ctrl-C ends it.")
        # Otherwise a pipe would buffer it until the end while its reader waits.
        sys.stdout.flush()
        # Waits end, since a signal just before one would be missed.
        while not end.wait(_LOOK):
            pass
    if not json:
        out().print("The device files are gone.")


_LOOK = 0.1


@contextmanager
def _asked() -> Iterator[Event]:
    """Yield an event that SIGINT and SIGTERM set, so that neither leaves a mount behind."""
    end = Event()
    handlers = {
        number: signal.signal(number, lambda *_: end.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield end
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
