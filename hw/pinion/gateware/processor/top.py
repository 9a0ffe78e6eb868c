"""The top of a processor: packets and registers around it, as around a core."""

from __future__ import annotations

from amaranth.hdl import DomainRenamer, Module, Signal

from pinion.gateware.link.path import LinkPath
from pinion.gateware.link.sequencer import ResetSequencer
from pinion.gateware.link.top import LinkTop

from .path import ProcessorParameters, ProcessorPath


class ProcessorTop(LinkTop):
    """Top with a processor in the link's clock domain; a soft reset keeps resident programs.

    Parameters
    ----------
    parameters : of the top.
    """

    parameters: ProcessorParameters

    def __init__(self, *, parameters: ProcessorParameters) -> None:
        self.parameters = parameters
        super().__init__()

    def _inside(self, m: Module, sequencer: ResetSequencer, state_reset: Signal) -> LinkPath:
        path = ProcessorPath(parameters=self.parameters)
        m.submodules.path = DomainRenamer("stream")(path)
        m.d.sync += sequencer.core_down.eq(sequencer.core_clear)
        return path
