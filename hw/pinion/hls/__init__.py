"""From a function to a schedule: trace, simplify, choose formats, schedule, bind."""

from __future__ import annotations

from .binding import Binding, OutputLane, Read, bind
from .budget import error_budget, state_budgets
from .check import CheckError, check_binding, check_schedule
from .design import Design, design
from .evaluate import evaluate_floats, evaluate_integers, node_integers
from .graph import Graph, GraphError, Node
from .lower import FormatPlan, lower
from .manifest import Array, Manifest, ManifestError
from .operations import Operand, Operation, UnitKind, op_counts, operations
from .ops import OPS, Op
from .schedule import Schedule, ScheduleError, schedule
from .text import format_graph, parse_graph
from .timing import Timing
from .trace import Symbol, TraceError, Tracer

__all__ = [
    "OPS",
    "Array",
    "Binding",
    "CheckError",
    "Design",
    "FormatPlan",
    "Graph",
    "GraphError",
    "Manifest",
    "ManifestError",
    "Node",
    "Op",
    "Operand",
    "Operation",
    "OutputLane",
    "Read",
    "Schedule",
    "ScheduleError",
    "Symbol",
    "Timing",
    "TraceError",
    "Tracer",
    "UnitKind",
    "bind",
    "check_binding",
    "check_schedule",
    "design",
    "error_budget",
    "evaluate_floats",
    "evaluate_integers",
    "format_graph",
    "lower",
    "node_integers",
    "op_counts",
    "operations",
    "parse_graph",
    "schedule",
    "state_budgets",
]
