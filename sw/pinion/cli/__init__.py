"""The ``pinion`` command, with one module per verb."""

from __future__ import annotations

from .app import app, main

__all__ = ["app", "main"]
