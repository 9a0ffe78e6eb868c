"""Instruction selection: a graph as fused multiply-adds with signs folded into them.

CPUs and GPUs compute ``a b + c``, ``a b - c``, ``c - a b`` and ``-a b - c`` in one instruction
each. So a product read only by sums is free if each of those sums can fuse it, and a negation is
free except for some results. Which sum fuses which product is chosen here; the compiler is told not
to fuse any others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from pinion.graph import OPS, Graph, Node, Op, Word, names
from pinion.graph.ops import Family
from pinion.graph.rules import addend, pairs
from pinion.native import ComputeError


class Kind(Enum):
    """Kind of an instruction; its value is the result for operands ``a``, ``b`` and ``c``."""

    INPUT = "a word of the request"
    CONST = "a constant"
    SIN = "sin(a)"
    COS = "cos(a)"
    ADD = "a + b"
    SUB = "a - b"
    MUL = "a * b"
    FMA = "a * b + c"
    FMS = "a * b - c"
    FNMA = "c - a * b"
    FNMS = "-a * b - c"
    NEG = "-a"
    FUNCTION = "a function of the operation table, parameters after its operands"


GIVEN = (Kind.INPUT, Kind.CONST)
"""Kinds that are read, not computed."""

TRIG = (Kind.SIN, Kind.COS)
"""Functions of an angle, which are computed before the rest."""

EARLY = 8
"""Largest number of instructions that compute an angle whose sine and cosine come first."""

_ANGLES = {names.SIN: Kind.SIN, names.COS: Kind.COS}

_FUSED = {(1, 1): Kind.FMA, (1, -1): Kind.FMS, (-1, 1): Kind.FNMA, (-1, -1): Kind.FNMS}


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a kernel.

    Members
    -------
    kind : the operation.
    args : positions of its operands in the program.
    value : word of an input, number of a constant, row of a function, otherwise None.
    node : the graph's node that has this value, up to its sign.
    """

    kind: Kind
    args: tuple[int, ...]
    value: Word | float | Op | None
    node: int


@dataclass(frozen=True, slots=True)
class KernelProgram:
    """Instructions in the order in which they are computed.

    Members
    -------
    instructions : each after its operands.
    outputs : word and position of each result, in the order of the result record.
    """

    instructions: tuple[Instruction, ...]
    outputs: tuple[tuple[Word, int], ...]

    @property
    def arithmetic(self) -> int:
        """Number of vector instructions, not counting sines and cosines."""
        return sum(i.kind not in (*GIVEN, *TRIG) for i in self.instructions)

    @property
    def early_angles(self) -> frozenset[int]:
        """Operands of sines and cosines that take at most `EARLY` instructions to compute."""
        size: list[float] = []
        for it in self.instructions:
            if it.kind in GIVEN:
                size.append(0)
            elif it.kind in TRIG:
                size.append(float("inf"))
            else:
                size.append(1 + sum(size[a] for a in it.args))
        angles = {it.args[0] for it in self.instructions if it.kind in TRIG}
        return frozenset(a for a in angles if size[a] <= EARLY)

    @property
    def needed(self) -> list[bool]:
        """Whether each instruction is needed if sines and cosines of early angles are given."""
        early = self.early_angles
        needed = [False] * len(self.instructions)
        for _, at in self.outputs:
            needed[at] = True
        for i in range(len(needed) - 1, -1, -1):
            it = self.instructions[i]
            if needed[i] and not (it.kind in TRIG and it.args[0] in early):
                for a in it.args:
                    needed[a] = True
        return needed

    def cone(self, roots: Iterable[int], stop: Iterable[int] = ()) -> list[int]:
        """Return the roots and all instructions on which they depend, not looking beyond `stop`."""
        ends, visited, todo = set(stop), set(), list(roots)
        while todo:
            i = todo.pop()
            if i not in visited:
                visited.add(i)
                if i not in ends:
                    todo += self.instructions[i].args
        return sorted(visited)

    def ordered(self, order: Sequence[int]) -> KernelProgram:
        """Return the program with its instructions permuted to another order."""
        place = {old: new for new, old in enumerate(order)}
        moved = []
        for old in order:
            it = self.instructions[old]
            args = tuple(place[a] for a in it.args)
            moved.append(Instruction(it.kind, args, it.value, it.node))
        return KernelProgram(tuple(moved), tuple((word, place[at]) for word, at in self.outputs))


Signed = tuple[int, int]
"""A sign, 1 or -1, and the number of a value."""


@dataclass(slots=True)
class _Value:
    """A value before selection of its instruction; sums have two signed operands."""

    kind: Kind
    args: tuple[Signed, ...]
    operand: Word | float | Node | None
    node: int
    product: int | None = None  # which operand of a sum is fused into it


def select(graph: Graph) -> KernelProgram:
    """Select the instructions for a graph, in the graph's order.

    Parameters
    ----------
    graph : of the real dialect; roundings of the fixed dialect are ignored, as in its float value.

    Raises
    ------
    ComputeError
        If the graph has an unknown operation.
    """
    values, refs = _values(graph)
    alive = _alive(values, [refs[node] for _, node in graph.outputs])
    _fuse(values, alive, {refs[node][1] for _, node in graph.outputs})
    return _emit(graph, values, refs)


def _values(graph: Graph) -> tuple[list[_Value], list[Signed]]:
    """Return values of at most two operands, and each node as a signed reference to one."""
    values: list[_Value] = []
    refs: list[Signed] = []

    def make(kind: Kind, *args: Signed, node: int, value: Word | float | Node | None = None) -> int:
        values.append(_Value(kind, args, value, node))
        return len(values) - 1

    for i, node in enumerate(graph.nodes):
        x = [refs[a] for a in node.args]
        family = OPS[node.op].family if node.op in OPS else None
        if family is Family.INPUT:
            refs.append((1, make(Kind.INPUT, node=i, value=Word.of(str(node.params[0])))))
        elif family is Family.CONSTANT:
            refs.append((1, make(Kind.CONST, node=i, value=float(node.params[0]))))
        elif family is Family.NEGATION:
            refs.append((-x[0][0], x[0][1]))
        elif family is Family.ROUNDING:
            refs.append(x[0])
        elif family is Family.FUNCTION:
            refs.append((1, make(_ANGLES.get(node.op, Kind.FUNCTION), *x, node=i, value=node)))
        elif family in (Family.SUM, Family.PRODUCT):
            terms = x
            if family is Family.PRODUCT:
                # Signs of factors move to the product.
                terms = [
                    (a[0] * b[0], make(Kind.MUL, (1, a[1]), (1, b[1]), node=i)) for a, b in pairs(x)
                ]
                terms += [] if (other := addend(x)) is None else [other]
            signed = [(s * n, at) for s, (n, at) in zip(_signs(node, terms), terms, strict=True)]
            total = signed[0]
            for term in signed[1:]:
                total = (1, make(Kind.ADD, total, term, node=i))
            refs.append(total)
        else:
            raise ComputeError(
                f"The operation '{node.op}' has no instruction: Pinion compiles only "
                f"{', '.join(OPS)}."
            )
    return values, refs


def _signs(node: Node, terms: Sequence[Signed]) -> list[int]:
    if node.op == names.SUB:
        return [1, -1]
    return [int(sign) for sign in node.params] if node.params else [1] * len(terms)


def _alive(values: list[_Value], roots: Sequence[Signed]) -> list[bool]:
    alive = [False] * len(values)
    for _, root in roots:
        alive[root] = True
    for i in range(len(values) - 1, -1, -1):
        if alive[i]:
            for _, a in values[i].args:
                alive[a] = True
    return alive


def _fuse(values: list[_Value], alive: list[bool], results: set[int]) -> None:
    """Fuse products into sums, those with the fewest readers first.

    A product disappears only if every reader fuses it, and each saves one instruction whatever its
    number of readers.
    """
    readers: dict[int, list[int]] = {}
    for i, value in enumerate(values):
        if alive[i]:
            for _, a in value.args:
                readers.setdefault(a, []).append(i)
    products = [
        i
        for i, value in enumerate(values)
        if alive[i] and value.kind is Kind.MUL and i not in results
    ]
    products.sort(key=lambda i: (len(readers[i]), i))
    for i in products:
        sums = readers[i]
        if len(set(sums)) == len(sums) and all(
            values[s].kind is Kind.ADD and values[s].product is None for s in sums
        ):
            for s in sums:
                values[s].product = [a for _, a in values[s].args].index(i)


def _emit(graph: Graph, values: list[_Value], refs: list[Signed]) -> KernelProgram:
    """Return the instructions that are still needed, with the signs that cost least."""
    roots = [(word, refs[node]) for word, node in graph.outputs]
    needed = [False] * len(values)
    signs: dict[int, set[int]] = {}
    for _, (sign, root) in roots:
        needed[root] = True
        signs.setdefault(root, set()).add(sign)
    for i in range(len(values) - 1, -1, -1):
        if needed[i]:
            for a in _operands(values, i):
                needed[a] = True

    instructions: list[Instruction] = []
    place: list[Signed] = [(1, -1)] * len(values)  # sign and position of the instruction

    def put(kind: Kind, args: tuple[int, ...], value: Word | float | Op | None, node: int) -> int:
        instructions.append(Instruction(kind, args, value, node))
        return len(instructions) - 1

    for i, value in enumerate(values):
        # The record has all inputs, read or not.
        if not needed[i] and value.kind is not Kind.INPUT:
            continue
        # A negated result is computed negated if that is free.
        wish = -1 if signs.get(i) == {-1} else 1
        if value.kind is Kind.ADD:
            place[i] = _sum(values, value, place, wish, put)
        elif value.kind is Kind.MUL:
            (sa, a), (sb, b) = (place[a] for _, a in value.args)
            if sa * sb != wish and wish < 0:
                constant = [values[x].kind is Kind.CONST for _, x in value.args]
                if any(constant):
                    at = constant.index(True)
                    number = values[value.args[at][1]].operand
                    assert isinstance(number, float)
                    flipped = put(Kind.CONST, (), -number, value.node)
                    a, b = (flipped, b) if at == 0 else (a, flipped)
                    sa = -sa
            place[i] = sa * sb, put(Kind.MUL, (a, b), None, value.node)
        elif isinstance(value.operand, Node):
            args = [(sign * place[a][0], place[a][1]) for sign, a in value.args]
            place[i] = _function(value.kind, value.operand, args, instructions, put, value.node)
        else:
            assert not isinstance(value.operand, Node)
            place[i] = 1, put(value.kind, (), value.operand, value.node)

    outputs = []
    negated: dict[int, int] = {}
    for word, (sign, root) in roots:
        root_sign, at = place[root]
        if root_sign * sign < 0:
            if instructions[at].kind is Kind.CONST:
                scalar = instructions[at].value
                assert isinstance(scalar, float)
                negated.setdefault(at, put(Kind.CONST, (), 0.0 - scalar, instructions[at].node))
            elif at not in negated:
                negated[at] = put(Kind.NEG, (at,), None, instructions[at].node)
            at = negated[at]
        outputs.append((word, at))
    return _without_unread(KernelProgram(tuple(instructions), tuple(outputs)))


def _operands(values: list[_Value], i: int) -> list[int]:
    """Return a value's operands: the factors of a fused product instead of the product."""
    value = values[i]
    if value.product is None:
        return [a for _, a in value.args]
    product = value.args[value.product][1]
    other = value.args[1 - value.product][1]
    return [*(a for _, a in values[product].args), other]


def _sum(
    values: list[_Value],
    value: _Value,
    place: list[Signed],
    wish: int,
    put: object,
) -> Signed:
    assert callable(put)
    if value.product is not None:
        sign, product = value.args[value.product]
        (sa, a), (sb, b) = (place[x] for _, x in values[product].args)
        other_sign, other = value.args[1 - value.product]
        so, c = place[other]
        kind = _FUSED[wish * sign * sa * sb, wish * other_sign * so]
        return wish, put(kind, (a, b, c), None, value.node)
    (s, x), (t, y) = ((sign * place[a][0], place[a][1]) for sign, a in value.args)
    s, t = wish * s, wish * t
    if s == t:
        return wish * s, put(Kind.ADD, (x, y), None, value.node)
    first, second = (x, y) if s > 0 else (y, x)
    return wish, put(Kind.SUB, (first, second), None, value.node)


def _function(
    kind: Kind,
    like: Node,
    x: Sequence[Signed],
    instructions: Sequence[Instruction],
    put: Callable[[Kind, tuple[int, ...], Word | float | Op | None, int], int],
    node: int,
) -> Signed:
    """Emit a function of signed values, with negations where the function does not absorb signs."""

    def negated(at: int) -> int:
        number = instructions[at].value
        if isinstance(number, float):
            return put(Kind.CONST, (), 0.0 - number, node)
        return put(Kind.NEG, (at,), None, node)

    row = OPS[like.op]
    plain = Node(like.op, tuple(at for _, at in x), row.real_params(like))
    turned = row.without_signs(plain, [sign for sign, _ in x])
    if turned is None:
        turned = 1, replace(plain, args=tuple(at if s > 0 else negated(at) for s, at in x))
    sign, plain = turned
    if kind is not Kind.FUNCTION:
        return sign, put(kind, plain.args, None, node)
    numbers = [float(p) for p in plain.params if not isinstance(p, str)]
    constants = tuple(put(Kind.CONST, (), number, node) for number in numbers)
    return sign, put(kind, (*plain.args, *constants), OPS[plain.op].bound(plain), node)


def _without_unread(program: KernelProgram) -> KernelProgram:
    """Drop constants that nothing reads because every reader uses their negation."""
    used = {a for it in program.instructions for a in it.args}
    used |= {at for _, at in program.outputs}
    keep = [i for i, it in enumerate(program.instructions) if i in used or it.kind is Kind.INPUT]
    place = {old: new for new, old in enumerate(keep)}
    remaining = tuple(
        Instruction(it.kind, tuple(place[a] for a in it.args), it.value, it.node)
        for it in (program.instructions[i] for i in keep)
    )
    return KernelProgram(remaining, tuple((word, place[at]) for word, at in program.outputs))
