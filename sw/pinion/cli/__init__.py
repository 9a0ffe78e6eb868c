"""The ``pinion`` command, with one module per subcommand."""

from __future__ import annotations

from .app import app, main

__all__ = ["app", "main"]
