"""The ``pinion`` command: thin, one module a verb."""

from __future__ import annotations

from .app import app, main

__all__ = ["app", "main"]
