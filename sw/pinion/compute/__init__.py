"""Compilation of graphs for CPUs (:mod:`pinion.compute.cpu`) and GPUs (:mod:`pinion.compute.cuda`).

A graph is lowered to instructions (:mod:`.instructions`), ordered (:mod:`.order`), given registers
(:mod:`.allocate`), printed as C++ (:mod:`.printer`, :mod:`.source`) and compiled to a library
(:mod:`pinion.native`), which the runtime (:mod:`.native`, ``runtime/``) calls.
"""

from __future__ import annotations

from pinion.native import ComputeError

from .layouts import LAYOUTS, from_blocks, to_blocks

__all__ = ["LAYOUTS", "ComputeError", "from_blocks", "to_blocks"]
