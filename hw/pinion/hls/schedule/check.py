"""Independent checker of schedules and bindings.

It recomputes every rule from the graph and the numbers of the schedule, and shares no code with the
scheduler.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pinion.base.amounts import amount
from pinion.fixedpoint import Format
from pinion.graph import OPS, Graph, Node, names
from pinion.graph.evaluate import formats
from pinion.graph.op import OperandPoint
from pinion.graph.ops import constant_integer
from pinion.hls.operations import Operation
from pinion.hls.timing import Timing

from .binding import Binding
from .modulo import Schedule

# Operations whose exact value exists only inside a unit.
_EXACT = (names.ADD, names.SUB, names.SUM, names.NEG, names.MUL, names.DOT)


class CheckError(AssertionError):
    """Error for an illegal schedule or binding; the message names the operations."""


def check_operation(
    graph: Graph, fmts: Sequence[Format], operation: Operation, timing: Timing
) -> None:
    """Check an operation's operands, ports, kind, control bits and latency against its node."""
    op, args = graph.nodes[operation.node].op, graph.nodes[operation.node].args
    if op == names.QUANTIZE:  # the same unit does the exact operation in front of it
        exact = graph.nodes[args[0]]
        if exact.op in _EXACT:
            op, args = exact.op, exact.args
    reads = tuple(operand.node for operand in operation.operands if operand.node >= 0)
    _check_offsets(operation, timing)
    _check_ports(graph, fmts, operation, args)
    _check_kind(graph, fmts, operation)
    args = tuple(_value_behind(graph, arg) for arg in args)
    if reads != args:
        raise CheckError(
            f"%{operation.node} reads {reads} in the schedule, but {args} in the graph."
        )
    for operand in operation.operands:
        if operand.unused and operation.kind.adds:
            continue
        node = graph.nodes[operand.node] if operand.node >= 0 else None
        expected = 0 if node is None else constant_integer(node) if node.op == names.CONST else None
        if operand.constant != expected:
            raise CheckError(
                f"%{operation.node} reads %{operand.node} as {_named(operand.constant)}; in the "
                f"graph it is {_named(expected)}."
            )
    signs = graph.nodes[operation.node].params
    if graph.nodes[operation.node].op == names.QUANTIZE:
        signs = graph.nodes[graph.nodes[operation.node].args[0]].params
    control = {
        names.ADD: (0,),
        names.SUB: (1,),
        names.NEG: (1,),
        names.SIN: (0,),
        names.COS: (1,),
        names.DOT: tuple(int(sign == -1) for sign in signs[1:]),
        names.SUM: tuple(int(sign == -1) for sign in signs[1:]),
    }.get(op, OPS[op].control)
    if operation.kind.adds:
        added = len(args) % 2
        products = [int(sign == -1) for sign in signs[: len(args) // 2]] or [0]
        control = (*products, added)
    if operation.control != control:
        raise CheckError(
            f"%{operation.node} ({op}) has the control bits {operation.control}, not {control}."
        )
    takes = timing.latency(op, len(args))
    if op in (names.MUL, names.DOT) and operation.kind.widths[0] == operation.kind.widths[1]:
        takes += timing.wide
    if operation.latency != takes:
        raise CheckError(
            f"%{operation.node} is scheduled with a latency of "
            f"{amount(operation.latency, 'cycle')}, but its unit takes {takes}."
        )


def _named(constant: int | None) -> str:
    return "no constant" if constant is None else f"the constant {constant}"


def _check_offsets(operation: Operation, timing: Timing) -> None:
    """Check that a unit reads the factors of product k in cycle k, and an addend as it adds it."""
    count = len(operation.operands)
    for k, operand in enumerate(operation.operands):
        late = 0
        if operation.kind.name == "dot":
            addend = operation.kind.adds and k == count - 1
            wide = timing.wide if operation.kind.widths[0] == operation.kind.widths[1] else 0
            late = timing.multiplier_stages + wide - 1 if addend else k // 2
        if operand.offset != late:
            raise CheckError(
                f"Operand {k} of %{operation.node} is read {amount(operand.offset, 'cycle')} "
                f"after the operation starts; the unit expects it after {late}."
            )


def _value_behind(graph: Graph, node: int) -> int:
    """Return the value behind a chain of wrapping quantize nodes, or the node itself."""
    value = node
    while (
        graph.nodes[value].op == names.QUANTIZE
        and graph.nodes[value].params[3] == "wrap"
        and graph.nodes[graph.nodes[value].args[0]].op not in _EXACT
    ):
        value = graph.nodes[value].args[0]
    return value


def _check_ports(
    graph: Graph, fmts: Sequence[Format], operation: Operation, args: tuple[int, ...]
) -> None:
    """Check that each port shifts by the difference of binary points, and has the right width."""
    operands = [operand for operand in operation.operands if operand.node >= 0]
    for operand, arg in zip(operands, args, strict=False):
        value = _value_behind(graph, arg)
        shift = fmts[value].frac - fmts[arg].frac
        narrows = fmts[value].width - fmts[value].frac > fmts[arg].width - fmts[arg].frac
        if operand.shift != shift or (narrows and not operand.narrows):
            raise CheckError(
                f"%{operation.node} reads %{value} shifted by {operand.shift}"
                f"{'' if operand.narrows else ' without an overflow check'}; the graph requires "
                f"{shift}{' with an overflow check' if narrows else ''}."
            )
    kind = operation.kind
    if kind.name in ("dot", "add") and len(kind.widths) - kind.adds <= len(operands):
        widths = tuple(fmts[arg].width for arg in args)
        if widths != kind.widths[: len(operands)]:
            raise CheckError(
                f"%{operation.node} reads words of {widths} bits, but its unit's ports have "
                f"{kind.widths}."
            )
    if kind.adds and len(args) % 2:
        added, result = fmts[args[-1]].frac, fmts[operation.node].frac
        if added != result:
            raise CheckError(
                f"%{operation.node} adds a word with {amount(added, 'fraction bit')}, but its "
                f"unit adds at the binary point of its result, which has {result}."
            )


def _check_kind(graph: Graph, fmts: Sequence[Format], operation: Operation) -> None:
    """Check that the unit's format, rounding and overflow match the node's."""
    node, kind = graph.nodes[operation.node], operation.kind
    target, source = fmts[operation.node], fmts[node.args[0]]
    want: tuple[object, ...]
    have: tuple[object, ...]
    if node.op == names.QUANTIZE:
        _, _, rounding, overflow = node.params
        want = (target.width, source.frac - target.frac, rounding, overflow)
        have = (kind.width, kind.shift, kind.rounding, kind.overflow)
    else:
        sources = [fmts[a] for a in node.args]
        want = (OPS[node.op].unit, target.width, tuple(f.width for f in sources))
        want += (_unit_parameters(node, sources, target), "", "", 0)
        have = (kind.name, kind.width, kind.widths)
        have += (kind.parameters, kind.rounding, kind.overflow, kind.shift)
    if have != want:
        raise CheckError(
            f"%{operation.node} ({node.op}) is on a unit of the kind {kind.label} with "
            f"{have}; the graph requires {want}."
        )


def _unit_parameters(node: Node, sources: Sequence[Format], target: Format) -> tuple[float, ...]:
    """Return the unit parameters that docs/graph.md or a function's row in the table requires.

    Raises
    ------
    CheckError
        If operands do not have the binary point that the row requires.
    """
    source, row = sources[0], OPS[node.op]
    shared = {f.frac for f, p in zip(sources, row.points, strict=True) if p is OperandPoint.SHARED}
    at_result = {
        f.frac for f, p in zip(sources, row.points, strict=True) if p is OperandPoint.RESULT
    }
    if len(shared) > 1 or at_result - {target.frac}:
        fracs = ", ".join(str(f.frac) for f in sources)
        raise CheckError(
            f"The operands of a unit of {node.op} have {fracs} fraction bits and its result has "
            f"{target.frac}; their binary points must be: {', '.join(p.value for p in row.points)}."
        )
    if node.op == names.RECIPROCAL:
        smallest = float(node.params[2]) if len(node.params) == 3 else 0.0
        return source.frac + target.frac, smallest * 2.0**source.frac
    if node.op == names.CLAMP:
        ends = (math.floor(float(end) * 2.0**source.frac + 0.5) for end in node.params[:2])
        return tuple(min(max(end, source.min_int), source.max_int) for end in ends)
    if node.op in names.TRIG:
        return source.frac, target.frac
    return row.unit_parameters(node, sources, target)


def check_schedule(graph: Graph, plan: Schedule) -> None:
    """Check that every operation runs once, after its operands, on enough units."""
    ready: dict[int, int] = {}
    fmts = formats(graph)
    for i, node in enumerate(graph.nodes):
        if node.op in names.LEAVES:
            ready[i] = 0
    for state in graph.states:
        word = _word_of(graph, state.word)
        arrives = plan.arrivals.get(word, 0)
        if arrives < 1:
            raise CheckError(
                f"The state '{state.word}' arrives in cycle {arrives}, but cannot before cycle 1."
            )
        ready[word] = arrives
    used: dict[tuple[object, int], int] = {}
    for operation, start in zip(plan.operations, plan.start, strict=True):
        check_operation(graph, fmts, operation, plan.timing)
        for operand in operation.operands:
            if operand.constant is not None or (operand.unused and operation.kind.adds):
                continue
            if start + operand.offset < ready.get(operand.node, 1 << 60):
                raise CheckError(
                    f"%{operation.node} starts in cycle {start}, before its operand "
                    f"%{operand.node} is ready."
                )
        if operation.node in ready:
            raise CheckError(f"%{operation.node} is scheduled twice.")
        ready[operation.node] = start + operation.latency
        slot = (operation.kind, start % plan.ii)
        used[slot] = used.get(slot, 0) + 1
        if used[slot] > plan.units[operation.kind]:
            raise CheckError(
                f"Slot {start % plan.ii} holds {amount(used[slot], 'operation')} of kind "
                f"{operation.kind.label}, which has "
                f"{amount(plan.units[operation.kind], 'unit')}."
            )
    for name, result in graph.outputs:
        if result not in ready and not (
            graph.nodes[result].op == names.NEG and graph.nodes[result].args[0] in ready
        ):
            raise CheckError(f"The output '{name}' (%{result}) is never computed.")
    words = {_word_of(graph, state.word) for state in graph.states}
    ends = [cycle for node, cycle in ready.items() if node not in words]
    if ends and max(ends) != plan.length:
        raise CheckError(f"The schedule ends in cycle {max(ends)}, not {plan.length}.")
    for state in graph.states:
        word = _word_of(graph, state.word)
        if state.node not in ready:
            raise CheckError(f"The next value of '{state.word}' (%{state.node}) is never computed.")
        if fmts[state.node] != fmts[word]:
            raise CheckError(
                f"The next value of '{state.word}' has the format {fmts[state.node].name}, but the "
                f"word has {fmts[word].name}."
            )
        # The previous request began an interval earlier, and the register takes a cycle.
        if ready[state.node] - plan.ii + 1 > ready[word]:
            raise CheckError(
                f"The next value of '{state.word}' (%{state.node}) is ready in cycle "
                f"{ready[state.node]}, too late for the next request, which begins "
                f"{amount(plan.ii, 'cycle')} later and reads it from its cycle {ready[word]}."
            )


def _word_of(graph: Graph, word: str) -> int:
    """Return the input node that reads a word."""
    return next(i for i, n in enumerate(graph.nodes) if n.op == names.INPUT and n.params[0] == word)


def _check_states(graph: Graph, binding: Binding) -> None:
    """Check that every word of state has a register that loads the right value in time."""
    plan = binding.schedule
    if len(binding.states) != len(graph.states):
        raise CheckError(
            f"The graph has {amount(len(graph.states), 'state')}, but the binding "
            f"has {len(binding.states)}."
        )
    bound = {state_register.node: state_register for state_register in binding.states}
    for state in graph.states:
        word = _word_of(graph, state.word)
        register = bound.get(word)
        fmt = formats(graph)[word]
        first = math.floor(state.initial * 2.0**fmt.frac + 0.5)
        want = (str(state.word), word, state.node, plan.arrivals.get(word), first)
        if register is None or want != (
            register.name, register.node, register.following, register.arrival, register.initial,
        ):  # fmt: skip
            raise CheckError(f"The state '{state.word}' is bound as {register}, not as {want}.")
        if word in binding.inputs:
            raise CheckError(f"The state '{state.word}' is also listed as a word of the request.")
        if (stages := binding.stages.get(word, 0)) < 1:
            raise CheckError(
                f"The state '{state.word}' has {amount(stages, 'register stage')}: it needs at "
                "least 1."
            )
        if graph.nodes[state.node].op == names.CONST:
            continue
        cycle = register.arrival - 1 + plan.ii
        if not any(r.node == state.node and r.cycle == cycle for r in binding.reads()):
            raise CheckError(f"Nothing reads the next value of '{state.word}' in cycle {cycle}.")


def check_binding(graph: Graph, binding: Binding) -> None:
    """Check that units do one operation per slot and that every read finds its value.

    A result is in its unit's output for one cycle and in stage k of its registers for ``ii`` cycles
    from cycle ``ready + 1 + k ii``, with a new request every ``ii`` cycles; every read of the
    binding must fall into the time in which its place holds the node.
    """
    plan = binding.schedule
    users: dict[tuple[object, int, int], int] = {}
    for i, unit in enumerate(binding.unit):
        key = (plan.operations[i].kind, unit, plan.start[i] % plan.ii)
        if key in users:
            raise CheckError(
                f"%{plan.operations[i].node} and %{users[key]} share unit "
                f"{plan.operations[i].kind.label}[{unit}] in slot {key[2]}."
            )
        if not 0 <= unit < plan.units[plan.operations[i].kind]:
            raise CheckError(f"%{plan.operations[i].node} is bound to a unit that does not exist.")
        users[key] = plan.operations[i].node
    first = binding.outputs[0].cycle if binding.outputs else 0
    for w, (out, result) in enumerate(zip(binding.outputs, graph.outputs, strict=True)):
        beat, lane = divmod(w, binding.lanes_out)
        name, node = result
        # The converter negates, so the lane reads the operand.
        turned = graph.nodes[node].op == names.NEG
        if turned:
            node = graph.nodes[node].args[0]
        want = (name, node, lane, beat, turned)
        if (out.name, out.node, out.lane, out.beat, out.negated) != want:
            raise CheckError(
                f"Word {w} of the result, '{result[0]}', is bound as {out}, not as {want}."
            )
        if out.cycle != first + beat:
            raise CheckError(f"'{out.name}' leaves in cycle {out.cycle}, not {first + beat}.")
    born = {op.node: plan.ready(i) for i, op in enumerate(plan.operations)}
    inputs = {i: 0 for i, node in enumerate(graph.nodes) if node.op == names.INPUT}
    inputs |= plan.arrivals
    _check_states(graph, binding)
    for read in binding.reads():
        if read.node in inputs:
            # Loaded into stage 0 in the cycle before it is available, and moved every ii cycles.
            holds = (read.cycle - inputs[read.node]) // plan.ii
            if read.stage != holds:
                raise CheckError(
                    f"%{read.node} is read from stage {read.stage} in cycle {read.cycle}, when "
                    f"stage {holds} holds it."
                )
            if read.stage >= binding.stages.get(read.node, 0):
                raise CheckError(f"%{read.node} has no register stage {read.stage}.")
        elif read.stage < 0:
            if read.cycle != born[read.node]:
                raise CheckError(
                    f"%{read.node} is read from its unit's output in cycle {read.cycle}, but it "
                    f"is there only in cycle {born[read.node]}."
                )
        else:
            first = born[read.node] + 1 + read.stage * plan.ii
            if not first <= read.cycle < first + plan.ii:
                raise CheckError(
                    f"%{read.node} is read from stage {read.stage} in cycle {read.cycle}; it "
                    f"is there from cycle {first} to {first + plan.ii - 1}."
                )
            if read.stage >= binding.stages.get(read.node, 0):
                raise CheckError(f"%{read.node} has no register stage {read.stage}.")
