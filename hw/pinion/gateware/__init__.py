"""Gateware in Amaranth: arithmetic units, the datapath of a bound schedule, and the core."""

from __future__ import annotations

from .add import AddUnit
from .align import AlignUnit
from .core import Core
from .datapath import Datapath
from .dot import DotUnit
from .emit import core_rtlil
from .float32 import FixedToFloat, FloatToFixed
from .library import Selector, make_unit, multiplier_count, timing_for
from .sincos import SinCosUnit
from .unit import Unit
from .verilog import emit_verilog
from .yosys import YosysError, run_yosys

__all__ = [
    "AddUnit",
    "AlignUnit",
    "Core",
    "Datapath",
    "DotUnit",
    "FixedToFloat",
    "FloatToFixed",
    "Selector",
    "SinCosUnit",
    "Unit",
    "YosysError",
    "core_rtlil",
    "emit_verilog",
    "make_unit",
    "multiplier_count",
    "run_yosys",
    "timing_for",
]
