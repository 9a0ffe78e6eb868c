"""Contacts of built-in robots, for rows that need some."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CONTACTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "two_link": ("link_2@0,0,0.5",),
        "iiwa14": ("iiwa_link_7",),
        "hyq": tuple(f"{leg}_lowerleg@0,0,-0.33" for leg in ("lf", "rf", "lh", "rh")),
    }
)
"""By robot."""
