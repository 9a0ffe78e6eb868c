"""A stand-in for a card behind the Xilinx DMA driver: its device files with all their traps.

``with StandIn(folder=build, faults=plan) as card: driver.open(build, device=card.device)`` serves
them from a mounted folder; :class:`StandInNodes` does the same within this process.
"""

from __future__ import annotations

from .axi_card import AxiCard, CompiledAxiCard, PacketAxiCard, Step
from .faults import KINDS, Fault, FaultPlan, FaultPlanError, Record
from .mount import StandIn, StandInError, why_no_fuse
from .nodes import MountedNodes, StandInNodes
from .xdma import XdmaModel

__all__ = [
    "KINDS",
    "AxiCard",
    "CompiledAxiCard",
    "Fault",
    "FaultPlan",
    "FaultPlanError",
    "MountedNodes",
    "PacketAxiCard",
    "Record",
    "StandIn",
    "StandInError",
    "StandInNodes",
    "Step",
    "XdmaModel",
    "why_no_fuse",
]
