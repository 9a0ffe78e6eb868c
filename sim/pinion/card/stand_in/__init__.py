"""Stand-in for a card behind the Xilinx DMA driver: its device files, pitfalls included.

``with StandIn(folder=build, faults=plan) as card: driver.open(build, device=card.device)`` serves
them from a mounted folder; :class:`StandInNodes` does the same within this process.
"""

from __future__ import annotations

from .axi_card import AxiCard, CardStep, CompiledAxiCard, PacketAxiCard
from .faults import KINDS, Fault, FaultPlan, FaultPlanError, FaultRecord
from .mount import StandIn, StandInError, why_no_fuse
from .nodes import MountedNodes, StandInNodes
from .xdma import XdmaModel

__all__ = [
    "KINDS",
    "AxiCard",
    "CardStep",
    "CompiledAxiCard",
    "Fault",
    "FaultPlan",
    "FaultPlanError",
    "FaultRecord",
    "MountedNodes",
    "PacketAxiCard",
    "StandIn",
    "StandInError",
    "StandInNodes",
    "XdmaModel",
    "why_no_fuse",
]
