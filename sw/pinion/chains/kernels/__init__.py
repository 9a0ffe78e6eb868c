"""Dynamics of long chains on this machine's CPU by one program, with chains as its data."""

from __future__ import annotations

from .kernel import FUNCTIONS, ChainKernel, compile

__all__ = ["FUNCTIONS", "ChainKernel", "compile"]
