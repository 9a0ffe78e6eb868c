"""Orders of instructions that keep few values live.

A CPU core has 16 or 32 vector registers; other live values are spilled to the stack. Three orders
are tried. As traced: pass by pass over the robot. Depth first: each result with everything that
only it still needs, the operand that takes more registers first (Sethi and Ullman 1970, "The
Generation of Optimal Code for Arithmetic Expressions", applied to a graph as if it were a tree). By
parts: groups of results that share only inputs, constants and functions of the angles, such as a
walking robot's legs, one after the other, each depth first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from .allocate import Allocation, allocate
from .instructions import GIVEN, TRIG, KernelProgram


def live_values(program: KernelProgram) -> int:
    """Return the largest number of values that are live at once.

    Inputs, constants, sines and cosines are in memory and do not count.
    """
    occupies = [it.kind in (*GIVEN, *TRIG) for it in program.instructions]
    last = [-1] * len(program.instructions)
    for i, it in enumerate(program.instructions):
        for a in it.args:
            last[a] = i
    live = most = 0
    for i, it in enumerate(program.instructions):
        # A value may reuse the register of an operand that is not read again.
        live -= sum(not occupies[a] and last[a] == i for a in dict.fromkeys(it.args))
        if not occupies[i] and last[i] >= 0:
            live += 1
            most = max(most, live)
    return most


Order = Callable[[KernelProgram], list[int]]


def as_traced(program: KernelProgram) -> list[int]:
    """Return the order in which the program was traced."""
    return list(range(len(program.instructions)))


def depth_first(program: KernelProgram) -> list[int]:
    """Order depth first from each result, the operands that need most registers first."""
    return _walk(program, [at for _, at in program.outputs])


def by_parts(program: KernelProgram) -> list[int]:
    """Order as `depth_first` does, but group results that share computed values."""
    part = _parts(program)
    first: dict[int, int] = {}
    for k, (_, at) in enumerate(program.outputs):
        first.setdefault(part[at], k)
    roots = sorted((at for _, at in program.outputs), key=lambda at: first[part[at]])
    return _walk(program, roots)


ORDERS: Mapping[str, Order] = MappingProxyType(
    {"traced": as_traced, "depth first": depth_first, "parts": by_parts}
)


def arrange(program: KernelProgram, *, registers: int) -> tuple[KernelProgram, Allocation]:
    """Return the program in the cheapest of the `ORDERS`, with its allocation."""
    candidates = []
    for order in ORDERS.values():
        ordered = program.ordered(order(program))
        candidates.append((ordered, allocate(ordered, registers=registers)))
    return min(candidates, key=lambda pair: pair[1].cost)


def _needs(program: KernelProgram) -> list[int]:
    """Return the registers each value needs, as if the graph were a tree (Sethi and Ullman)."""
    needs = []
    for it in program.instructions:
        if it.kind in (*GIVEN, *TRIG):
            needs.append(0)
            continue
        operands = sorted((needs[a] for a in dict.fromkeys(it.args)), reverse=True)
        needs.append(max([1, *(need + k for k, need in enumerate(operands))]))
    return needs


def _walk(program: KernelProgram, roots: Sequence[int]) -> list[int]:
    needs = _needs(program)
    order: list[int] = []
    placed = [False] * len(program.instructions)
    for root in roots:
        todo = [root]
        while todo:
            i = todo[-1]
            args = program.instructions[i].args
            waiting = [] if placed[i] else [a for a in dict.fromkeys(args) if not placed[a]]
            if waiting:
                # The top of the stack goes first.
                todo += sorted(waiting, key=lambda a: needs[a])
                continue
            todo.pop()
            if not placed[i]:
                placed[i] = True
                order.append(i)
    # Unread instructions go last: words of the request that the function does not need.
    return order + [i for i, is_placed in enumerate(placed) if not is_placed]


def _parts(program: KernelProgram) -> list[int]:
    """Return the number of each instruction's connected component."""
    parent = list(range(len(program.instructions)))

    def find(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for i, it in enumerate(program.instructions):
        if it.kind in (*GIVEN, *TRIG):
            continue
        for a in it.args:
            if program.instructions[a].kind not in (*GIVEN, *TRIG):
                parent[find(i)] = find(a)
    return [find(i) for i in range(len(parent))]
