"""From a build folder to a card that a stand-in serves."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

from pinion.driver.card import layout_of
from pinion.link import Layout, Manifest
from pinion.link.digests import check_digests

from .axi_card import AxiCard, CompiledAxiCard, PacketAxiCard

MODELS = ("packet", "rtl")

Factory = Callable[[Path], tuple[AxiCard, Layout]]


def make_card(folder: Path, *, model: str = "packet") -> tuple[AxiCard, Layout]:
    """A card for a build folder, and the layout of its packets.

    Parameters
    ----------
    folder : of ``pinion build``.
    model : ``packet`` for the compiled core in a model of the top, ``rtl`` for the compiled top,
        or ``file.py:function`` for a `Factory` of one's own.

    Raises
    ------
    ValueError
        When there is no such model, or a file of the folder is not the one that was built.
    """
    if ":" in model:
        path, _, name = model.rpartition(":")
        # What a factory raises goes through: who names one reads tracebacks.
        factory: Factory = runpy.run_path(path)[name]
        return factory(folder)
    if model not in MODELS:
        raise ValueError(
            f"There is no model '{model}' of a card: give packet, rtl, or file.py:function."
        )
    manifest = Manifest.read(folder)
    check_digests(folder)
    if model == "packet":
        from ..transport import SimulatedCard

        card = SimulatedCard(folder=folder, manifest=manifest).card
        return PacketAxiCard(card=card), layout_of(manifest)
    from pinion.boards.top import write_top
    from pinion.cosim.top import CompiledTop

    top = CompiledTop.build(rtlil=write_top(folder))
    return CompiledAxiCard(top=top), layout_of(manifest)
