"""Parallel algorithms for the dynamics of long chains, as readable float models."""

from __future__ import annotations

from .cfa import ConditionWarning, cfa, condition
from .chain import Chain
from .closed import Closed, Lathrop, TypeI, TypeII, closed_chain, operational_inertia_inverse
from .counting import Count
from .hybrid import hybrid_aba
from .inverse import rnea_scan
from .jsiia import jsiia
from .random import RandomState, random_chain, random_state
from .recursion import aba, rnea
from .scan import Operator, scan
from .tridiagonal import diagonalise, solve_tridiagonal

__all__ = [
    "Chain",
    "Closed",
    "ConditionWarning",
    "Count",
    "Lathrop",
    "Operator",
    "RandomState",
    "TypeI",
    "TypeII",
    "aba",
    "cfa",
    "closed_chain",
    "condition",
    "diagonalise",
    "hybrid_aba",
    "jsiia",
    "operational_inertia_inverse",
    "random_chain",
    "random_state",
    "rnea",
    "rnea_scan",
    "scan",
    "solve_tridiagonal",
]
