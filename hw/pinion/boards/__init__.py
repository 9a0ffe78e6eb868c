"""Boards: platforms, tops, and the inputs from which vendor and open tools make bitstreams.

A board reads a build folder and its manifest; :mod:`pinion.flow`, one layer up, creates them.
"""

from __future__ import annotations

from .top import top_parameters, top_rtlil, write_top

__all__ = ["top_parameters", "top_rtlil", "write_top"]
