"""Board support: platforms, top-level modules, and inputs for vendor and open-source tools.

A board reads a build folder and its manifest; :mod:`pinion.flow`, one layer up, creates them.
"""

from __future__ import annotations

from .top import top_parameters, top_rtlil, write_top

__all__ = ["top_parameters", "top_rtlil", "write_top"]
