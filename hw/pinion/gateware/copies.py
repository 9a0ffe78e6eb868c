"""Duplicated registers, so that none drives more loads than timing allows.

Tools merge registers that are always equal unless they are marked. Vivado reads the mark from the
Verilog; Yosys needs `KEEP` before it optimises.
"""

from __future__ import annotations

from types import MappingProxyType

from amaranth.hdl import Module, Signal, Value

LOADS = 64
"""Loads of a copy: more cost an estimated 0.2 ns, and a quarter of them would save as much."""

MARK = MappingProxyType({"keep": "true"})
"""Attributes of a signal whose register must not be merged with another."""

KEEP = "setattr -set keep 1 a:keep %ci1:+[Q] t:$dff %i"
"""Command that makes Yosys keep the registers of marked signals; run it right after reading."""


class Copies:
    """One-bit register with as many copies as its loads need.

    Parameters
    ----------
    m : module that contains the copies.
    value : their input at every clock edge.
    name : prefix of the copies' names, before their number.
    """

    def __init__(self, m: Module, value: Value, *, name: str) -> None:
        self._m = m
        self._value = value
        self._name = name
        self._count = 0
        self._room = 0
        self._copy = Signal()

    def to(self, loads: int) -> Signal:
        """Return a copy that can drive `loads` more loads, a new one if the latest cannot."""
        if self._room < loads:
            self._copy = Signal(
                name=f"{self._name}{self._count}", reset_less=True, attrs=dict(MARK)
            )
            self._m.d.sync += self._copy.eq(self._value)
            self._count += 1
            self._room = LOADS
        self._room -= loads
        return self._copy
