"""Construction of the card that a stand-in serves, from a build folder."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

from pinion.link import Layout, Manifest, layout_of
from pinion.link.digests import check_digests

from .axi_card import AxiCard, CompiledAxiCard, PacketAxiCard

MODELS = ("packet", "rtl")

Factory = Callable[[Path], tuple[AxiCard, Layout]]


def make_card(folder: Path, *, model: str = "packet") -> tuple[AxiCard, Layout]:
    """Create a card for a build folder; return it and the layout of its packets.

    Parameters
    ----------
    folder : the build folder.
    model : ``packet`` for the compiled core in a model of the top, ``rtl`` for the compiled top,
        or ``file.py:function`` for a user-defined `Factory`.

    Raises
    ------
    ValueError
        If there is no such model, or a file of the folder changed since it was built.
    """
    if ":" in model:
        path, _, name = model.rpartition(":")
        # A factory's exceptions are not wrapped: its author can read tracebacks.
        factory: Factory = runpy.run_path(path)[name]
        return factory(folder)
    if model not in MODELS:
        raise ValueError(
            f"There is no card model '{model}': give 'packet', 'rtl' or 'FILE.py:FUNCTION'."
        )
    manifest = Manifest.read(folder)
    check_digests(folder)
    if model == "packet":
        from pinion.card.transport import SimulatedCard

        card = SimulatedCard(folder=folder, manifest=manifest).card
        return PacketAxiCard(card=card), layout_of(manifest)
    from pinion.boards import write_top
    from pinion.cosim.top import CompiledTop

    top = CompiledTop.build(rtlil=write_top(folder))
    return CompiledAxiCard(top=top), layout_of(manifest)
