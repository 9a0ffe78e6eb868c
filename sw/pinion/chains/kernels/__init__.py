"""Dynamics of long chains on this machine's processor; chains are data, one code serves all."""

from __future__ import annotations

from .kernel import FUNCTIONS, ChainKernel, compile

__all__ = ["FUNCTIONS", "ChainKernel", "compile"]
