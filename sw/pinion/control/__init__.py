"""Control on top of dynamics: motions found by optimisation, on every backend.

A :class:`Plant` steps a robot and makes its steps linear; a :class:`Problem` says where motions
start and what they cost; :func:`solve` finds them, and :func:`solve_compiled` many at a time with
every step compiled. :class:`Stage` is dynamics, gradient and cost in one call, for solvers of one's
own.
"""

from __future__ import annotations

from pinion.control.solve.backward import PASSES
from pinion.control.solve.compiled import Kernels, solve_compiled
from pinion.control.solve.cost import Cost, CostModel, Target, Weights
from pinion.control.solve.ilqr import Options, solve
from pinion.control.solve.problem import Problem, Solution
from pinion.control.solve.stage import Expanded, Stage

from .errors import ControlError
from .plant import METHODS, Plant

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
