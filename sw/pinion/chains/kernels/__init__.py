"""Dynamics of long chains on this machine's CPU, with chains as the data of one program."""

from __future__ import annotations

from .kernel import FUNCTIONS, ChainKernel, compile

__all__ = ["FUNCTIONS", "ChainKernel", "compile"]
