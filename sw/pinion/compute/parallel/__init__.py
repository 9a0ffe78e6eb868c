"""Dynamics of long chains on this machine's processor: the chain is data, the code is one for all."""

from __future__ import annotations

from .kernel import FUNCTIONS, ChainKernel, compile

__all__ = ["FUNCTIONS", "ChainKernel", "compile"]
