"""What a picture has to be."""

from __future__ import annotations

from pathlib import Path

from matplotlib.image import imread


def is_a_picture(path: Path) -> bool:
    """Large enough to read, and neither blank nor one colour."""
    pixels = imread(path)
    return pixels.shape[0] > 300 and pixels.shape[1] > 600 and float(pixels.std()) > 0.02
