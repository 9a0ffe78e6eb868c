"""Operand selectors for UltraScale+ slices: lookup tables joined by MUXF7 and MUXF8.

Yosys' abc does not use these multiplexers: it takes three lookup tables for a selector of eight
inputs where a slice, and Vivado, takes two and a MUXF7. Yosys' passes for wide multiplexers also
change the logic around them, for 12 % more tables. So only the selectors' modules
(:class:`pinion.gateware.library.Selector`) are replaced by netlists written here:

- up to 4 inputs: one table per bit; with 2 inputs two bits share one (LUT6_2), since both read only
  five signals. No other tables are paired, though a placer may do so.
- up to 8: two tables and a MUXF7; up to 16: four, two MUXF7 and a MUXF8 (three tables for 9, 10).
- more: selectors of 16 and one of their outputs. MUXF9 is not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# Inputs that one table, tables with a MUXF7 and tables with a MUXF8 select from.
_TABLE, _F7, _F8 = 4, 8, 16

_MODULE = re.compile(r"^module \\(pinion_mux(\d+)x(\d+))$", re.MULTILINE)


def selectors_of(rtlil: str) -> list[tuple[str, int, int]]:
    """Return name, inputs and width of every selector module in a design's RTLIL."""
    return [(name, int(inputs), int(width)) for name, inputs, width in _MODULE.findall(rtlil)]


def selectors_verilog(selectors: Iterable[tuple[str, int, int]]) -> str:
    """Return Verilog modules of selectors, built from UltraScale+ primitives.

    Parameters
    ----------
    selectors : name, number of inputs (at least 2) and width in bits of each.
    """
    return "\n".join(_Selector(*selector).text() for selector in selectors)


class _Selector:
    """Writer of one selector's Verilog module, in arrays of cells with one cell per bit."""

    def __init__(self, name: str, inputs: int, width: int) -> None:
        self.name = name
        self.inputs = inputs
        self.width = width
        self.lines: list[str] = []

    def text(self) -> str:
        bits = (self.inputs - 1).bit_length()
        data = [f"i{k}" for k in range(self.inputs)]
        if self.inputs == 2:
            self._pairs()
        else:
            self.lines.append(f"  assign o = {self._select(data, 0)};")
        ports = "".join(f"  input [{self.width - 1}:0] {name},\n" for name in data)
        return (
            f"module {self.name} (\n{ports}  input [{bits - 1}:0] sel,\n"
            f"  output [{self.width - 1}:0] o\n);\n" + "\n".join(self.lines) + "\nendmodule\n"
        )

    def _pairs(self) -> None:
        """Add LUTs of two bits each: O5 is the first bit, O6 (with I5 set) the second."""
        first, second = _init([0, 1], 4), _init([2, 3], 4)
        for k in range(0, self.width - 1, 2):
            self.lines.append(
                f"  LUT6_2 #(.INIT(64'h{second << 32 | first:x})) bits{k} (.O5(o[{k}]), "
                f".O6(o[{k + 1}]), .I0(i0[{k}]), .I1(i1[{k}]), .I2(i0[{k + 1}]), "
                f".I3(i1[{k + 1}]), .I4(sel[0]), .I5(1'b1));"
            )
        if self.width % 2:
            top = self.width - 1
            self.lines.append(
                f"  LUT3 #(.INIT(8'h{_init([0, 1], 2):x})) last "
                f"(.O(o[{top}]), .I0(i0[{top}]), .I1(i1[{top}]), .I2(sel[0]));"
            )

    def _cell(self, kind: str, init: str, inputs: Sequence[tuple[str, str]]) -> str:
        n = len(self.lines) // 2
        wires = ", ".join(f".{port}({net})" for port, net in (("O", f"n{n}"), *inputs))
        self.lines += [
            f"  wire [{self.width - 1}:0] n{n};",
            f"  {kind} {init}c{n} [{self.width - 1}:0] ({wires});",
        ]
        return f"n{n}"

    def _lut(self, data: Sequence[str], select: Sequence[int], choice: Sequence[int]) -> str:
        """Add a LUT per bit that selects ``data[choice[code]]`` by the code in ``sel``."""
        nets = [*data, *(f"sel[{bit}]" for bit in select)]
        size = 1 << len(nets)
        init = f"#(.INIT({size}'h{_init(choice, len(data)):x})) "
        return self._cell(f"LUT{len(nets)}", init, [(f"I{k}", net) for k, net in enumerate(nets)])

    def _table(self, data: Sequence[str], bit: int) -> str:
        """Add a LUT per bit, even if it only passes a single input to a MUXF7; return its net."""
        count = len(data)
        return self._lut(data, range(bit, bit + (count - 1).bit_length()), range(count))

    def _join(self, kind: str, low: str, high: str, bit: int) -> str:
        return self._cell(kind, "", [("I0", low), ("I1", high), ("S", f"sel[{bit}]")])

    def _select(self, data: Sequence[str], bit: int) -> str:
        """Add cells that select an input by ``sel`` from ``bit`` up, and return their net."""
        count = len(data)
        if count == 1:
            return data[0]
        if count <= _TABLE:
            return self._table(data, bit)
        if count <= _F7:
            low, high = self._table(data[:_TABLE], bit), self._table(data[_TABLE:], bit)
            return self._join("MUXF7", low, high, bit + 2)
        if count <= _F8:
            low, rest = self._select(data[:_F7], bit), data[_F7:]
            if len(rest) <= 2:
                return self._lut([low, *rest], (bit, bit + 3), (0, 0, 1, len(rest)))
            if len(rest) <= _TABLE:
                parts = self._table(rest[:2], bit), self._table(rest[2:], bit)
                high = self._join("MUXF7", *parts, bit + 1)
            else:
                high = self._select(rest, bit)
            return self._join("MUXF8", low, high, bit + 3)
        groups = [self._select(data[k : k + _F8], bit) for k in range(0, count, _F8)]
        return self._select(groups, bit + 4)


def _init(choice: Sequence[int], data: int) -> int:
    """Return a LUT's INIT value for data inputs, then select inputs that pick ``choice[code]``.

    Codes after the last choice never occur and pick the last.
    """
    select = (len(choice) - 1).bit_length()
    return sum(
        (index >> choice[min(index >> data, len(choice) - 1)] & 1) << index
        for index in range(1 << (data + select))
    )
