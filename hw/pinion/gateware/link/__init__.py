"""Streams between the link and the core: buffers, the clock crossing, the two gearboxes.

Every stream follows :mod:`amaranth.lib.stream`: an offered payload stays offered, unchanged, until
it is accepted.
"""

from __future__ import annotations

from .crossing import Crossing
from .elastic import ElasticBuffer
from .holding import HoldingStage
from .packer import Packer
from .unpacker import Unpacker

__all__ = ["Crossing", "ElasticBuffer", "HoldingStage", "Packer", "Unpacker"]
