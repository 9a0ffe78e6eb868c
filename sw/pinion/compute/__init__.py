"""Compiled code from graphs: batches of dynamics on a CPU."""

from __future__ import annotations
