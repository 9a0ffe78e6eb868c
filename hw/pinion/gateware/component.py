"""Base class of all components."""

from __future__ import annotations

from amaranth.lib import wiring


class Component(wiring.Component):
    """Component that may also be created just to read its ports and parameters."""

    # Silences Amaranth's warning about unused components.
    _MustUse__silence = True
