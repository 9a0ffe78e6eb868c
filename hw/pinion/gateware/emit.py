"""From a core to text: one RTLIL design with each distinct unit once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from amaranth.back import rtlil

from .core import Core

TOP = "pinion_core"

RTLIL = "core.il"
"""Its file in a build folder."""


def core_rtlil(core: Core) -> str:
    """RTLIL of a core: module ``pinion_core`` and every module it instantiates.

    The text depends on the core's parameters alone: no source positions, no paths. A core can be
    converted once, because Amaranth elaborates an object once.
    """
    with _no_collections():
        text: str = rtlil.convert(core, name=TOP, emit_src=False)
    modules = {**core.datapath.modules, **core.modules}
    return text + "\n".join(text for _, text in sorted(modules.items()))


@contextmanager
def _no_collections() -> Iterator[None]:
    """No search for garbage inside: of a netlist's millions of objects nearly all stay.

    Searching them again and again takes half of the time.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
