"""Control on top of dynamics: motions found by optimisation, on every backend.

A :class:`Plant` steps a robot and makes its steps linear; a :class:`Problem` says where motions
start and what they cost; :func:`solve` finds them, and :func:`solve_compiled` many at a time with
every step compiled. :class:`Stage` is dynamics, gradient and cost in one call, for solvers of one's
own.
"""

from __future__ import annotations

from .backward import PASSES
from .compiled import Kernels, solve_compiled
from .cost import Cost, CostModel, Target, Weights
from .errors import ControlError
from .ilqr import Options, solve
from .plant import METHODS, Plant
from .problem import Problem, Solution
from .stage import Expanded, Stage

__all__ = [
    "METHODS",
    "PASSES",
    "ControlError",
    "Cost",
    "CostModel",
    "Expanded",
    "Kernels",
    "Options",
    "Plant",
    "Problem",
    "Solution",
    "Stage",
    "Target",
    "Weights",
    "solve",
    "solve_compiled",
]
