"""Base class of all components."""

from __future__ import annotations

from amaranth.lib import wiring


class Component(wiring.Component):
    """Component without Amaranth's warning if it is created but never elaborated."""

    # Silences Amaranth's warning about unused components.
    _MustUse__silence = True
