"""RTLIL of a dynamics processor's top-level module."""

from __future__ import annotations

from amaranth.back import rtlil

from pinion.gateware.link.top import TOP
from pinion.gateware.processor.path import ProcessorParameters
from pinion.gateware.processor.top import ProcessorTop
from pinion.processor import Machine


def processor_rtlil(machine: Machine, *, link_khz: int, teams: int = 1) -> str:
    """Return the RTLIL of module ``pinion_top`` and of everything in it, for the widest bus."""
    parameters = ProcessorParameters(machine=machine, teams=teams, link_khz=link_khz)
    top = ProcessorTop(parameters=parameters)
    text: str = rtlil.convert(top, name=TOP, emit_src=False)
    return text
