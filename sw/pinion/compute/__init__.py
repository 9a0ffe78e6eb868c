"""Compiled code from graphs: batches of dynamics on a processor (:mod:`pinion.compute.cpu`).

A graph becomes instructions (:mod:`.instructions`), in an order (:mod:`.order`) and with registers
(:mod:`.allocate`) that suit a machine, then C++ (:mod:`.printer`, :mod:`.source`), then a library
(:mod:`pinion.native`), which the runtime (:mod:`.native`, ``runtime/``) calls.
"""

from __future__ import annotations

from pinion.native.errors import ComputeError

from .layouts import LAYOUTS, from_blocks, to_blocks

__all__ = ["LAYOUTS", "ComputeError", "from_blocks", "to_blocks"]
