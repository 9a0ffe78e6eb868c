"""Contacts of the built-in robots, for functions that require contacts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CONTACTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "two_link": ("tip",),
        "iiwa14": ("iiwa_link_7",),
        "hyq": tuple(f"{leg}_lowerleg@0.33,0,0" for leg in ("lf", "rf", "lh", "rh")),
    }
)
"""By robot."""
