"""Memories whose read data is not used if the same word is written in the same cycle.

Amaranth's memories return the old word then. Block RAM of the ECP5 does not, so Yosys adds a
comparator, a register and a multiplexer for each bit, behind the slowest output of the part.
"""

from __future__ import annotations

from amaranth.lib.memory import ReadPort

UNCHECKED = "setparam -set COLLISION_X_MASK 1'1 a:no_rw_check %ci1:+[DATA] t:$memrd_v2 %i"
"""Command that makes Yosys leave that out for marked ports; run it right after reading."""


def unchecked(port: ReadPort.Signature) -> ReadPort.Signature:
    """Mark a read port whose data is not used if its word is written in that cycle; return it."""
    port.data.attrs["no_rw_check"] = "true"
    return port
