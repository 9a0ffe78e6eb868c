"""Waveforms (VCD) of traced signals, with expected values next to outputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from vcd import VCDWriter

EXPECTED = "_expected"
MISMATCH = "mismatch"
_ROOT = "core"
_PERIOD_NS = 10


def mismatches(cycles: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
    """Return in which cycles (n,) any signal ``name`` differs from its ``name_expected``.

    Raises
    ------
    ValueError : If signals differ in length, or an expected signal has no partner.
    """
    lengths = {name: len(values) for name, values in cycles.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"The signals differ in length: {lengths}.")
    total = np.zeros(next(iter(lengths.values()), 0), dtype=np.bool_)
    for name, values in cycles.items():
        if not name.endswith(EXPECTED):
            continue
        partner = name.removesuffix(EXPECTED)
        if partner not in cycles:
            raise ValueError(f"The signal {name!r} has no {partner!r} to compare with.")
        total |= np.asarray(cycles[partner] != values, dtype=np.bool_)
    return total


def write_vcd(
    path: Path, *, cycles: Mapping[str, NDArray[Any]], widths: Mapping[str, int]
) -> NDArray[np.bool_]:
    """Write a VCD file with a clock, the signals, and ``mismatch`` where expected values differ.

    Dots in a name are scopes: ``unit.o`` is signal ``o`` in scope ``core.unit``. A cycle is 10 ns,
    the value of cycle k begins at 10 k ns, and the clock rises in the middle.

    Parameters
    ----------
    path : the file.
    cycles : name -> (n,) integers, signed or not; ``tau[0]`` is compared with ``tau[0]_expected``.
    widths : name -> bits; values are truncated to them in two's complement.

    Returns
    -------
    (n,) bool, the ``mismatch`` signal.

    Raises
    ------
    ValueError : If lengths differ, a width is missing, or an expected signal has no partner.
    """
    bad = mismatches(cycles)
    for name in cycles:
        if widths.get(name, 0) < 1:
            raise ValueError(f"The signal {name!r} needs a width of at least 1 bit in `widths`.")
        if name in (MISMATCH, "clk"):
            raise ValueError(f"The signal {name!r} is always written: leave it out.")
    with path.open("w") as file, VCDWriter(file, timescale="1 ns", comment="pinion") as writer:
        clock = writer.register_var(_ROOT, "clk", "wire", size=1, init=0)
        flag = writer.register_var(_ROOT, MISMATCH, "wire", size=1, init=0)
        variables = []
        for name, values in cycles.items():
            scope, _, leaf = f"{_ROOT}.{name}".rpartition(".")
            width = widths[name]
            variable = writer.register_var(scope, leaf, "wire", size=width, init="x")
            variables.append((variable, [int(value) & ((1 << width) - 1) for value in values]))
        for cycle in range(len(bad)):
            start = cycle * _PERIOD_NS
            writer.change(clock, start, 0)
            writer.change(flag, start, int(bad[cycle]))
            for variable, numbers in variables:
                writer.change(variable, start, numbers[cycle])
            writer.change(clock, start + _PERIOD_NS // 2, 1)
        writer.close(len(bad) * _PERIOD_NS)
    return bad
