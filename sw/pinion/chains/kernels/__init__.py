"""Dynamics of long chains on this machine's CPU, by programs that read the chain as data."""

from __future__ import annotations

from .kernel import FUNCTIONS, ChainKernel, compile

__all__ = ["FUNCTIONS", "ChainKernel", "compile"]
