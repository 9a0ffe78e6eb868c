"""Colours that the pictures share."""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps

Colour = tuple[float, float, float, float]

INK, FAINT, OTHERS, ALARM = "#222222", "#8a8a8a", "#e4e4e7", "#c1272d"
NO_LINK: Colour = (0.45, 0.45, 0.45, 1.0)
DPI = 150


def link_colours(count: int) -> list[Colour]:
    """Return a colour for each link, from the base (dark) to the tip (light), in equal steps."""
    shades = np.linspace(0.05, 0.88, max(count, 1))
    return [tuple(colour) for colour in colormaps["viridis"](shades)]
