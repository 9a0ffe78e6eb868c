"""Boards: platforms, tops and what vendor and open tools need to make a bitstream.

A board reads a build folder and its manifest; what a build is made of stands one floor up, in
:mod:`pinion.flow`.
"""

from __future__ import annotations

from .top import top_parameters, top_rtlil, write_top

__all__ = ["top_parameters", "top_rtlil", "write_top"]
