"""The host's side: open a card, pass arrays, get arrays.

``with driver.open("build/iiwa14") as device: result = device.run(q=q, qd=qd, qdd=qdd)``
"""

from __future__ import annotations

from .device import CHUNK, Device, open
from .errors import DriverError, TransportError
from .records import pack, record_dtype, request_dtype, result_dtype, unpack
from .requests import Batch, check_arrays
from .result import Result
from .transport import (
    Answers,
    CardIdentity,
    Transport,
    find_transport,
    open_transport,
    split_device,
    transports,
)

__all__ = [
    "CHUNK",
    "Answers",
    "Batch",
    "CardIdentity",
    "Device",
    "DriverError",
    "Result",
    "Transport",
    "TransportError",
    "check_arrays",
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
