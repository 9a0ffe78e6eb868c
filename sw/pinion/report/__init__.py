"""Tables and pictures of builds, made only from the files in build folders.

Showing a build needs neither the tools that made it nor those that measured it. Tables are data
(`FigureTable`); a terminal, a page in Markdown or a program shows them.
"""

from __future__ import annotations

from .builds import build_figures, builds_table
from .errors import bound_table, budget_table, promise_table, relative_error_table
from .pictures import ReportError, draw_build
from .resources import resource_tables, resource_totals
from .table import FigureTable, cell, markdown

__all__ = [
    "FigureTable",
    "ReportError",
    "bound_table",
    "budget_table",
    "build_figures",
    "builds_table",
    "cell",
    "draw_build",
    "markdown",
    "promise_table",
    "relative_error_table",
    "resource_tables",
    "resource_totals",
]
