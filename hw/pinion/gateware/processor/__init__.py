"""Gateware of the dynamics processor: lanes and teams that run programs, and the link's top.

Programs are loaded and named by packets (:mod:`.path`), as docs/link.md describes.
"""

from __future__ import annotations

from .lane import Lane
from .path import ProcessorParameters
from .processor import Processor
from .sequencer import ProgramSequencer
from .team import Team
from .top import ProcessorTop

__all__ = ["Lane", "Processor", "ProcessorParameters", "ProcessorTop", "ProgramSequencer", "Team"]
