"""Gateware of the dynamics processor: lanes and teams that run programs.

It has no link yet: a test bench stores program, constants and inputs (:mod:`.team`).
"""

from __future__ import annotations

from .lane import Lane
from .team import Team

__all__ = ["Lane", "Team"]
