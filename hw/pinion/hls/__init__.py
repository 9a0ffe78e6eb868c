"""Scheduling and binding of a fixed-point graph, and an independent checker of both.

The arithmetic is in :mod:`pinion.graph` and :mod:`pinion.formats`.
"""

from __future__ import annotations

from .design import Design, DesignSettings, design
from .operations import Operand, Operation, UnitKind, operations
from .schedule.binding import Binding, OutputLane, Read, bind
from .schedule.check import CheckError, check_binding, check_schedule
from .schedule.modulo import Schedule, ScheduleError, schedule
from .timing import Timing

__all__ = [
    "Binding",
    "CheckError",
    "Design",
    "DesignSettings",
    "Operand",
    "Operation",
    "OutputLane",
    "Read",
    "Schedule",
    "ScheduleError",
    "Timing",
    "UnitKind",
    "bind",
    "check_binding",
    "check_schedule",
    "design",
    "operations",
    "schedule",
]
