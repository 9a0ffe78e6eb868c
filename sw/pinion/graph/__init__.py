"""The intermediate representation: a function of a robot as a sequence of scalar operations.

Tracing builds it, arithmetic passes reduce it, and every backend reads it: float and exact integer
evaluation here, hardware in :mod:`pinion.hls`. docs/graph.md is its specification.
"""

from __future__ import annotations

from .counts import op_counts
from .evaluate import evaluate_floats, evaluate_integers, node_floats, node_integers
from .graph import Feedback, Graph, GraphError, Node, Output, Region
from .ops import OPS, Op
from .stream import Stream, looped, sticky, stream_floats, stream_integers
from .text import format_graph, parse_graph
from .trace import Symbol, TraceError, Tracer
from .words import Word

__all__ = [
    "OPS",
    "Feedback",
    "Graph",
    "GraphError",
    "Node",
    "Op",
    "Output",
    "Region",
    "Stream",
    "Symbol",
    "TraceError",
    "Tracer",
    "Word",
    "evaluate_floats",
    "evaluate_integers",
    "format_graph",
    "looped",
    "node_floats",
    "node_integers",
    "op_counts",
    "parse_graph",
    "sticky",
    "stream_floats",
    "stream_integers",
]
