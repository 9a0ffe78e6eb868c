"""The link between host and card, defined once for RTL, driver, simulated card and documentation.

Records and registers are tables (:mod:`.protocol`, :mod:`.registers`) that both ends read. Nothing
here depends on a transport, a simulator or a hardware description.
"""

from __future__ import annotations

from .checksum import crc32
from .frames import (
    AbortedError,
    FrameError,
    Layout,
    ResponseHead,
    layout_of,
    read_response,
    seal_request,
)
from .manifest import MASK_UNIT, Array, Manifest, ManifestError
from .protocol import (
    BEAT,
    CRC_FIELD,
    FLAGS_PER_BEAT,
    HEADER,
    MAX_COUNT,
    PROTOCOL_VERSION,
    TRAILER,
    WORDS_PER_BEAT,
    Cause,
    Magic,
    Status,
    function_id,
)
from .registers import REGISTERS, Register, register

__all__ = [
    "BEAT",
    "CRC_FIELD",
    "FLAGS_PER_BEAT",
    "HEADER",
    "MASK_UNIT",
    "MAX_COUNT",
    "PROTOCOL_VERSION",
    "REGISTERS",
    "TRAILER",
    "WORDS_PER_BEAT",
    "AbortedError",
    "Array",
    "Cause",
    "FrameError",
    "Layout",
    "Magic",
    "Manifest",
    "ManifestError",
    "Register",
    "ResponseHead",
    "Status",
    "crc32",
    "function_id",
    "layout_of",
    "read_response",
    "register",
    "seal_request",
]
