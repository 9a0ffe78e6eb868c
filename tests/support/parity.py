"""Proof of the checksum by linear algebra, for every beat and every state at a width.

A solver does not get through parities of hundreds of bits, but they need none. Each bit of a
circuit of exclusive ors is an affine form over GF(2): a set of variables, and perhaps a one. Two
forms are the same function exactly if they are the same set. What is no exclusive or depends on a
few bits of control here, and is gone once each of these has a value: all their values are tried.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amaranth.back import rtlil

from pinion.gateware.yosys import run_yosys

WIDTHS = (64, 128, 256, 512)
"""Numbers of bits of a beat for which the checksum is proved: those of every bus."""

WIDTH = 32
POLYNOMIAL = 0xEDB88320
"""CRC-32's polynomial, with the lowest power in the highest bit, as zlib and Ethernet shift it."""

CONTROL = 8
"""Largest number of control bits; more would be data at gates that are not exclusive ors."""

ONE = 1
"""The form that is 1 whatever the variables are; variable n has bit n + 1."""


class NotAffineError(Exception):
    """Error for a gate other than XOR that depends on a variable; fix `variable` to a value."""

    def __init__(self, variable: int | None) -> None:
        super().__init__("The circuit is not an exclusive or of its inputs.")
        self.variable = variable


@dataclass(frozen=True, kw_only=True)
class Netlist:
    """Netlist of two-input gates and registers; bits are numbered.

    Members
    -------
    gates : from a bit to the gate that makes it: its kind and its inputs.
    registers : from a register's output to its input.
    ports : by name, bits from the lowest up.
    """

    gates: Mapping[int, tuple[str, tuple[int | str, ...]]]
    registers: Mapping[int, int | str]
    ports: Mapping[str, tuple[int, ...]]

    @property
    def variables(self) -> list[int]:
        """Bits that no gate drives: inputs and register outputs."""
        driven = self.gates.keys() | self.registers.keys()
        inputs = [bit for bits in self.ports.values() for bit in bits if bit not in driven]
        return [*inputs, *self.registers]


def netlist(component: Any, folder: Path) -> Netlist:
    """Map a component to gates with Yosys, and return its netlist."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "component.il").write_text(rtlil.convert(component, name="top"))
    run_yosys(
        [
            "read_rtlil component.il",
            "proc",
            "flatten",
            "simplemap",
            "dffunmap",
            "simplemap",
            "opt_clean",
            "write_json component.json",
        ],
        folder=folder,
    )
    module = json.loads((folder / "component.json").read_text())["modules"]["top"]
    gates, registers = {}, {}
    for cell in module["cells"].values():
        pins, kind = cell["connections"], cell["type"]
        if kind == "$_DFF_P_":
            registers[pins["Q"][0]] = pins["D"][0]
        else:
            gates[pins["Y"][0]] = kind, tuple(pins[pin][0] for pin in "ABS" if pin in pins)
    ports = {name: tuple(port["bits"]) for name, port in module["ports"].items()}
    return Netlist(gates=gates, registers=registers, ports=ports)


def forms(net: Netlist, bits: Sequence[int | str], variables: Mapping[int, int]) -> list[int]:
    """Return each bit as an affine form of the variables over GF(2).

    Parameters
    ----------
    variables : the forms of the variables.

    Raises
    ------
    NotAffineError
        When a choice depends on a variable.
    """
    known_forms: dict[int | str, int] = {"0": 0, "1": ONE}
    for variable, form in variables.items():
        known_forms[variable] = form

    def operands(bit: int | str) -> list[int | str]:
        kind, inputs = net.gates[bit]  # type: ignore[index] # a constant is known
        if kind == "$_MUX_" and inputs[2] in known_forms:  # the other side may be anything
            return [inputs[1] if known_forms[inputs[2]] == ONE else inputs[0]]
        return list(inputs[2:] if kind == "$_MUX_" else inputs)

    for target in bits:
        waiting = [target]
        while waiting:
            bit = waiting[-1]
            if bit in known_forms:
                waiting.pop()
                continue
            missing = [other for other in operands(bit) if other not in known_forms]
            kind, inputs = net.gates[bit]  # type: ignore[index] # a constant is known
            if not missing and kind == "$_MUX_":
                _constant(known_forms[inputs[2]])
                missing = [other for other in operands(bit) if other not in known_forms]
            if missing:
                waiting.extend(missing)
                continue
            known_forms[bit] = _gate(kind, [known_forms[other] for other in operands(bit)])
            waiting.pop()
    return [known_forms[bit] for bit in bits]


def _constant(form: int) -> int:
    if form > ONE:
        single = form & -2
        raise NotAffineError(single.bit_length() - 2 if single & (single - 1) == 0 else None)
    return form


def _gate(kind: str, inputs: Sequence[int]) -> int:
    match kind, inputs:
        case "$_MUX_", (chosen,):
            return chosen
        case "$_NOT_", (a,):
            return a ^ ONE
        case "$_XOR_", (a, b):
            return a ^ b
        case "$_XNOR_", (a, b):
            return a ^ b ^ ONE
        case "$_AND_", (a, b):
            return min(a, b) if min(a, b) == 0 else b if _constant(a) else 0
        case "$_OR_", (a, b):
            return _gate("$_AND_", (a ^ ONE, b ^ ONE)) ^ ONE
        case _:
            raise NotAffineError(None)


def crc32_of(crc: Sequence[int], data: Sequence[int]) -> list[int]:
    """Update the CRC-32 ``crc`` with the bits ``data``, all of them affine forms.

    The definition (ISO/IEC 3309, as in zlib): the register begins inverted and ends inverted, and a
    one that falls out of it adds the polynomial.
    """
    register = [bit ^ ONE for bit in crc]
    for bit in data:
        out = register[0] ^ bit
        register = [*register[1:], 0]
        register = [
            now ^ (out if POLYNOMIAL >> place & 1 else 0) for place, now in enumerate(register)
        ]
    return [bit ^ ONE for bit in register]


def prove_checksum(checksum: Any, folder: Path) -> int:
    """Prove a checksum for any number of beats; return the number of control-bit cases.

    What it shows is a function of its registers. Whatever they hold: after a cycle with a beat it
    shows the CRC-32 of what it showed before (of nothing, with ``start``) and this beat; after one
    without, what it showed before, or nothing's. And a reset leaves it at nothing's.

    Raises
    ------
    AssertionError
        When there is a case in which it does not.
    NotAffineError
        When it does something else than exclusive ors with its beats.
    """
    net = netlist(checksum, folder)
    cases = 0
    for values in _cases(net, {}):
        cases += 1
        variable_forms = {
            bit: values.get(number, 2 << number) for number, bit in enumerate(net.variables)
        }
        (valid,), (start,), (rst,) = (
            _port(net, variable_forms, name) for name in ("valid", "start", "rst")
        )
        current, then = _step(net, variable_forms)
        fresh = [0] * WIDTH if start or rst else current
        data = _port(net, variable_forms, "data")
        expected = crc32_of(fresh, data) if valid and not rst else fresh
        assert then == expected, f"The checksum is wrong with {values}."
    return cases


def _port(net: Netlist, variable_forms: Mapping[int, int], name: str) -> list[int]:
    return [variable_forms[bit] for bit in net.ports[name]]


def _step(net: Netlist, variable_forms: Mapping[int, int]) -> tuple[list[int], list[int]]:
    """Return the checksum's output in this cycle and in the next one, as affine forms."""
    current = forms(net, net.ports["crc"], variable_forms)
    after = forms(net, list(net.registers.values()), variable_forms)
    return current, forms(net, net.ports["crc"], dict(zip(net.registers, after, strict=True)))


def _cases(net: Netlist, values: dict[int, int]) -> Iterator[dict[int, int]]:
    """Yield all values of the control bits, which are those with a nonlinear effect."""
    variables = net.variables
    variable_forms = {bit: values.get(number, 2 << number) for number, bit in enumerate(variables)}
    control = [variables.index(net.ports[name][0]) for name in ("valid", "start", "rst")]
    undecided = next((number for number in control if number not in values), None)
    if undecided is None:
        try:
            _step(net, variable_forms)
        except NotAffineError as refused:
            if refused.variable is None or len(values) == CONTROL:
                raise
            undecided = refused.variable
    if undecided is None:
        yield values
        return
    for value in (0, ONE):
        yield from _cases(net, values | {undecided: value})
