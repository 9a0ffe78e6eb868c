"""From a graph to hardware: formats, schedule, binding.

What is only arithmetic is one floor down, in :mod:`pinion.graph`.
"""

from __future__ import annotations

from .binding import Binding, OutputLane, Read, bind
from .budget import error_budget, state_budgets
from .check import CheckError, check_binding, check_schedule
from .design import Design, design
from .lower import FormatPlan, lower
from .operations import Operand, Operation, UnitKind, operations
from .schedule import Schedule, ScheduleError, schedule
from .timing import Timing

__all__ = [
    "Binding",
    "CheckError",
    "Design",
    "FormatPlan",
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
    "error_budget",
    "lower",
    "operations",
    "schedule",
    "state_budgets",
]
