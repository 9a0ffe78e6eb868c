"""The host driver: open a card and call it as a function on arrays.

``with driver.open("build/iiwa14") as device: result = device.run(q=q, qd=qd, qdd=qdd)``
"""

from __future__ import annotations

from pinion.batch import Result

from .buffers import Buffers
from .device import PACKET_BYTES, Device
from .errors import (
    AccessError,
    BusyError,
    CardFaultError,
    CardTimeoutError,
    DmaBufferError,
    DriverError,
    LinkError,
    MissingCardError,
    StateLostError,
    TornStreamError,
    TransportError,
    WrongBuildError,
    WrongCardError,
)
from .opening import open
from .profile import Profile
from .records import pack, record_dtype, request_dtype, result_dtype, unpack
from .registers import Registers
from .transport import Transport, find_transport, open_transport, split_device, transports

__all__ = [
    "PACKET_BYTES",
    "AccessError",
    "Buffers",
    "BusyError",
    "CardFaultError",
    "CardTimeoutError",
    "Device",
    "DmaBufferError",
    "DriverError",
    "LinkError",
    "MissingCardError",
    "Profile",
    "Registers",
    "Result",
    "StateLostError",
    "TornStreamError",
    "Transport",
    "TransportError",
    "WrongBuildError",
    "WrongCardError",
    "find_transport",
    "open",
    "open_transport",
    "pack",
    "record_dtype",
    "request_dtype",
    "result_dtype",
    "split_device",
    "transports",
    "unpack",
]
