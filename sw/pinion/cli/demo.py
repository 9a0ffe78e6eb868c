"""stub"""
from __future__ import annotations
from .options import Json
def command(*, json: Json = False) -> None:
    """Demo."""
