"""The public interface: ``import pinion.api as pinion``.

Robots (:func:`load`), functions (:func:`row_of`, and the decorator :func:`function` for your own),
backends that compute them (:func:`backend`), and cores (:func:`build`, :func:`open_build`); also
the descriptions of arrays and the scalar functions for your own functions. The import needs only
NumPy; a call that needs more says so.
"""

from __future__ import annotations

from pinion.base import installation
from pinion.base.progress import Progress
from pinion.batch import Backend, InputError, Result
from pinion.dynamics.scalar import (
    absolute,
    arctan2,
    clamp,
    cos,
    hypot2,
    less,
    look_up,
    maximum,
    minimum,
    reciprocal,
    select,
    sin,
    sqrt,
)
from pinion.fixedpoint.piecewise import Piecewise
from pinion.functions import (
    Block,
    Function,
    FunctionError,
    OwnFunction,
    Quantity,
    RowOptions,
    State,
    Uniform,
    array,
    row_of,
    sample,
    state,
    uniform,
)
from pinion.functions.own.decorator import function
from pinion.robot import Model, RobotError, RobotOptions, builtin_names, load, load_text

from .backends import BackendOptions, CardBackend, CardOptions, FloatBackend, backend, open_float
from .builds import BuildNotes, BuiltCore, build, open_build
from .figures import (
    Bitstream,
    BuildReport,
    ExportedFolder,
    NetlistCheck,
    PromiseCheck,
    Synthesis,
    Verification,
)
from .pages import ReportPage, write_report

__all__ = [
    "ACCELERATION",
    "EFFORT",
    "POSITION",
    "VELOCITY",
    "Backend",
    "BackendOptions",
    "Bitstream",
    "Block",
    "BuildNotes",
    "BuildReport",
    "BuiltCore",
    "CardBackend",
    "CardOptions",
    "ExportedFolder",
    "FloatBackend",
    "Function",
    "FunctionError",
    "InputError",
    "Model",
    "NetlistCheck",
    "OwnFunction",
    "Piecewise",
    "Progress",
    "PromiseCheck",
    "Quantity",
    "ReportPage",
    "Result",
    "RobotError",
    "RobotOptions",
    "RowOptions",
    "State",
    "Synthesis",
    "Uniform",
    "Verification",
    "__version__",
    "absolute",
    "arctan2",
    "array",
    "backend",
    "build",
    "builtin_names",
    "clamp",
    "cos",
    "function",
    "hypot2",
    "less",
    "load",
    "load_text",
    "look_up",
    "maximum",
    "minimum",
    "open_build",
    "open_float",
    "reciprocal",
    "row_of",
    "sample",
    "select",
    "sin",
    "sqrt",
    "state",
    "uniform",
    "write_report",
]

POSITION = Quantity.POSITION
VELOCITY = Quantity.VELOCITY
ACCELERATION = Quantity.ACCELERATION
EFFORT = Quantity.EFFORT

__version__: str = installation.version()
"""The version of the installed distribution."""
