"""Interpreter of programs and allocations, one value at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pinion.compute.program.allocate import GIVEN_IN_MEMORY, IN_REGISTER, Allocation
from pinion.compute.program.instructions import GIVEN, TRIG, Instruction, KernelProgram, Kind
from pinion.graph import Node, Op

RULES: Mapping[Kind, Any] = {
    Kind.SIN: np.sin,
    Kind.COS: np.cos,
    Kind.ADD: lambda a, b: a + b,
    Kind.SUB: lambda a, b: a - b,
    Kind.MUL: lambda a, b: a * b,
    Kind.FMA: lambda a, b, c: a * b + c,
    Kind.FMS: lambda a, b, c: a * b - c,
    Kind.FNMA: lambda a, b, c: c - a * b,
    Kind.FNMS: lambda a, b, c: -(a * b) - c,
    Kind.NEG: lambda a: -a,
}


def computed(it: Instruction, operands: Sequence[Any]) -> Any:
    """Compute an instruction; a function's parameters follow its operands."""
    if isinstance(it.value, Op):
        count = it.value.arity or 0
        node = Node(it.value.name, tuple(range(count)), tuple(operands[count:]))
        return it.value.floats(node, operands[:count])
    return RULES[it.kind](*operands)


def values(program: KernelProgram, inputs: Mapping[str, Any]) -> list[Any]:
    """Return the value of every instruction."""
    computed_values: list[Any] = []
    for it in program.instructions:
        if it.kind is Kind.INPUT:
            computed_values.append(inputs[str(it.value)])
        elif it.kind is Kind.CONST:
            computed_values.append(it.value)
        else:
            computed_values.append(computed(it, [computed_values[a] for a in it.args]))
    return computed_values


def results(program: KernelProgram, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results by word."""
    node_values = values(program, inputs)
    return {str(word): node_values[at] for word, at in program.outputs}


def allocated_results(
    program: KernelProgram, allocation: Allocation, inputs: Mapping[str, Any], *, registers: int
) -> dict[str, Any]:
    """Return the results if every value is only where the allocation puts it.

    Slots and registers hold pairs of a value's number and the value, so that reading a wrong one
    fails.
    """
    node_values = values(program, inputs)
    early = program.early_angles
    given_values = {
        i: node_values[i]
        for i, it in enumerate(program.instructions)
        if it.kind in GIVEN or (it.kind in TRIG and it.args[0] in early)
    }
    memory: dict[int, tuple[int, Any]] = {}
    inside: dict[int, Any] = {}
    results = dict(given_values)
    last = {a: k for k, step in enumerate(allocation.steps) for a in _reads(program, step.compute)}

    def read(i: int, slot: int) -> Any:
        if slot == IN_REGISTER:
            return inside[i]
        if slot == GIVEN_IN_MEMORY:
            return given_values[i]
        assert memory[slot][0] == i, f"slot {slot} holds {memory[slot][0]}, not {i}"
        return memory[slot][1]

    for k, step in enumerate(allocation.steps):
        # A spilled value may be an operand, which is read from its register before the result.
        operand = set(program.instructions[step.compute].args)
        given_up = [i for i, _ in step.stores if i in operand]
        for i, slot in step.stores:
            assert slot < allocation.slots
            memory[slot] = (i, inside[i] if i in operand else inside.pop(i))
        for i, slot in step.loads:
            # A value that was loaded and dropped since is loaded again.
            inside[i] = read(i, slot)
        it = program.instructions[step.compute]
        operands = [read(a, slot) for a, slot in zip(it.args, step.operands, strict=True)]
        outside = {a for a, slot in zip(it.args, step.operands, strict=True) if slot != IN_REGISTER}
        assert len(outside) <= 1, "an instruction reads memory once"
        value = computed(it, operands)
        results[step.compute] = value
        for i in given_up:
            del inside[i]
        for a in list(inside):
            if last.get(a, -1) <= k:
                del inside[a]
        if it.kind in TRIG:
            given_values[step.compute] = value
        elif step.compute in last:
            inside[step.compute] = value
        # Values dropped without a store are still in `inside`: they are in memory too.
        in_registers = [
            a
            for a in inside
            if a not in given_values and not any(a == i for i, _ in memory.values())
        ]
        assert len(in_registers) <= registers
    return {str(word): results[at] for word, at in program.outputs}


def _reads(program: KernelProgram, i: int) -> tuple[int, ...]:
    return program.instructions[i].args
