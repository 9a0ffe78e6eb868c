"""Gateware of the dynamics processor: lanes and teams that run programs, between streams of words.

It has no link yet: a test bench stores the programs (:mod:`.processor`).
"""

from __future__ import annotations

from .lane import Lane
from .processor import Processor
from .team import Team

__all__ = ["Lane", "Processor", "Team"]
