"""Checks of pictures."""

from __future__ import annotations

from pathlib import Path

from matplotlib.image import imread


def is_a_picture(path: Path) -> bool:
    """Check that a picture is large enough to read, and neither blank nor of one colour."""
    pixels = imread(path)
    return pixels.shape[0] > 300 and pixels.shape[1] > 600 and float(pixels.std()) > 0.02
