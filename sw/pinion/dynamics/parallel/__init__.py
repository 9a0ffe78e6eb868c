"""Dynamics of long chains by parallel algorithms, as readable float models."""

from __future__ import annotations

from .chain import Chain
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
    "Count",
    "Operator",
    "RandomState",
    "aba",
    "diagonalise",
    "hybrid_aba",
    "jsiia",
    "random_chain",
    "random_state",
    "rnea",
    "rnea_scan",
    "scan",
    "solve_tridiagonal",
]
