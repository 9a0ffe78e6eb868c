"""Optimal control on every backend.

A :class:`Plant` steps and linearises a robot; a :class:`Problem` defines start states and costs;
:func:`solve` optimises the motions, and :func:`solve_compiled` does so with every step compiled.
:class:`Stage` is dynamics, gradient and cost in one call, for your own solver.
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
