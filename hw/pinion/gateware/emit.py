"""RTLIL of a core: one design that contains each distinct unit once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from amaranth.back import rtlil

from .core import Core

TOP = "pinion_core"

RTLIL = "core.il"
"""Name of the file in a build folder."""


def core_rtlil(core: Core) -> str:
    """Return the RTLIL of module ``pinion_core`` and of every module it instantiates.

    The text depends only on the core's parameters, not on source positions or paths. A core can be
    converted only once, because Amaranth elaborates an object once.
    """
    with _no_collections():
        text: str = rtlil.convert(core, name=TOP, emit_src=False)
    modules = {**core.datapath.modules, **core.modules}
    return text + "\n".join(text for _, text in sorted(modules.items()))


@contextmanager
def _no_collections() -> Iterator[None]:
    """Disable garbage collection in the block.

    Nearly all of a netlist's millions of objects stay alive, and searching them repeatedly takes
    half of the time.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
