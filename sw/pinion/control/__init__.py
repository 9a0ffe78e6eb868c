"""Optimal control on every backend.

A :class:`Plant` steps and linearises a robot; a :class:`Problem` defines start states and costs;
:func:`solve` optimises the motions, and :func:`solve_compiled` does so with every step compiled.
:class:`Stage` is dynamics, gradient and cost in one call, for your own solver.
"""

from __future__ import annotations

from .errors import ControlError
from .limits import effort_limits, joint_limits, rated_rates
from .plant import METHODS, Plant
from .solve.backward import PASSES
from .solve.compiled import Kernels, solve_compiled
from .solve.cost import CostModel, KnotTarget
from .solve.ilqr import Options, solve
from .solve.problem import Problem, Solution
from .solve.stage import Expanded, Stage
from .solve.weights import Cost, Weights

__all__ = [
    "METHODS",
    "PASSES",
    "ControlError",
    "Cost",
    "CostModel",
    "Expanded",
    "Kernels",
    "KnotTarget",
    "Options",
    "Plant",
    "Problem",
    "Solution",
    "Stage",
    "Weights",
    "effort_limits",
    "joint_limits",
    "rated_rates",
    "solve",
    "solve_compiled",
]
