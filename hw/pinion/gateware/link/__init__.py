"""Streams between the link and the core: buffers, the clock crossing, the two gearboxes.

Every stream is one of :mod:`amaranth.lib.stream`: a payload on offer stays on offer, unchanged,
until it is taken.
"""

from __future__ import annotations

from .crossing import Crossing
from .elastic import ElasticBuffer
from .holding import HoldingStage
from .packer import Packer
from .unpacker import Unpacker

__all__ = ["Crossing", "ElasticBuffer", "HoldingStage", "Packer", "Unpacker"]
