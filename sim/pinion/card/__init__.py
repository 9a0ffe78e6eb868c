"""Simulated cards for the host driver.

A packet-level model in Python, the emitted RTL behind the driver's transports, and, in
:mod:`.stand_in`, the device files of the vendor's driver with all their traps.
"""

from __future__ import annotations

from .transport import open_transport

__all__ = ["open_transport"]
