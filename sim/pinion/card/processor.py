"""Simulated card of the dynamics processor: the device ``processor:sim``."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pinion.base.arrays import Flags
from pinion.base.progress import SILENT, Progress
from pinion.cosim.engines import CompileError
from pinion.driver import DriverError, TransportError
from pinion.gateware import YosysError
from pinion.link import Layout
from pinion.processor import Machine
from pinion.processor.machine import TEAMS

from .transport import WAIT, TopTransport

LINK_KHZ = 100_000
"""Clock that the simulated card states."""


class SimulatedProcessor(TopTransport):
    """Compiled top of a processor as a transport; it is compiled on first use of a machine.

    Parameters
    ----------
    machine, teams : of the processor.
    idle, stall, wait : as for `TopTransport`.
    progress : as for :func:`pinion.cosim.engines.library_of`.

    Raises
    ------
    TransportError
        If the top cannot be compiled.
    """

    where = "processor:sim"

    def __init__(
        self,
        *,
        machine: Machine,
        teams: int = 1,
        idle: Flags | None = None,
        stall: Flags | None = None,
        wait: float = WAIT,
        progress: Progress = SILENT,
    ) -> None:
        # Imported here because only a top needs Verilator.
        from pinion.boards.processor import processor_rtlil
        from pinion.cosim.top import CompiledTop

        progress.step("Writing the processor's top")
        try:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "top.il"
                path.write_text(processor_rtlil(machine, teams=teams, link_khz=LINK_KHZ))
                top = CompiledTop.build(rtlil=path, progress=progress)
        except (FileNotFoundError, CompileError, YosysError) as error:
            raise TransportError(f"The simulated processor cannot be built: {error}") from error
        super().__init__(top=top, idle=idle, stall=stall, wait=wait)


def open_processor(
    machine: Machine, layout: Layout, address: str, *, progress: Progress = SILENT
) -> SimulatedProcessor:
    """Open the simulated processor card (the entry point ``sim`` of ``pinion.processors``).

    Raises
    ------
    pinion.driver.DriverError
        If an address is given.
    TransportError
        If the top cannot be compiled.
    """
    del layout
    if address:
        raise DriverError(f"The device 'processor:sim' has no address: leave ':{address}' out.")
    return SimulatedProcessor(machine=machine, teams=TEAMS, progress=progress)
