"""Dynamics of long chains by parallel algorithms, as readable float models."""

from __future__ import annotations

from .chain import Chain
from .random import RandomState, random_chain, random_state
from .recursion import aba, rnea

__all__ = ["Chain", "RandomState", "aba", "random_chain", "random_state", "rnea"]
