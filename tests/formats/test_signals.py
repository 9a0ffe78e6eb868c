"""Formats chosen per signal: the three rules, ports that overflow, errors within their bounds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from pinion.fixedpoint import Format, FormatError
from pinion.formats.budget import MARGIN, introduced_errors, state_budgets
from pinion.formats.multiplier import DSP48E2
from pinion.formats.signals import SignalPlan, lower_signals, tight
from pinion.gateware.library import make_unit
from pinion.graph import Graph, GraphError, Tracer, evaluate_floats, evaluate_integers, node_floats
from pinion.graph.evaluate import formats
from pinion.hls import operations
from tests.graph.helpers import (
    TIMING,
    Arrays,
    auto_formats,
    auto_robot,
    graphs,
    random_inputs,
    real_graph,
    states,
    word_integers,
)
from tests.support.breadth import some_rows

STORED, NARROW = DSP48E2.wide, DSP48E2.narrow

SEED = 61
AUTO_TIMING = replace(TIMING, rounding=0)
CASES = [("iiwa14", "minv"), ("two_link", "rnea_derivatives"), ("iiwa14", "rnea")]


# -- words that just hold their ranges -----------------------------------------------------------


@pytest.mark.parametrize("width", [18, 27])
def test_tight_words_hold_their_reach_and_no_finer_word_does(width: int) -> None:
    rng = np.random.default_rng(SEED)
    for reach in 2.0 ** rng.uniform(-40, 40, 500):
        frac = tight(reach, width)
        # Beyond the last word but below the next power of two, the margin covers it.
        assert reach < 2.0 ** (width - 1 - frac), f"seed {SEED}"
        assert Format(width, frac + 1).max < reach, f"seed {SEED}"


@pytest.mark.parametrize("exponent", [-30, -1, 0, 1, 9])
def test_a_power_of_two_takes_a_bit_more(exponent: int) -> None:
    reach = 2.0**exponent
    assert Format(27, tight(reach, 27)).max > reach
    assert Format(27, tight(reach, 27) + 1).max < reach
    below = math.nextafter(reach, 0.0)
    assert tight(reach * 0.99, 27) == tight(reach, 27) + 1
    assert tight(below, 27) in (tight(reach, 27), tight(reach, 27) + 1)


def test_a_value_that_is_always_zero_is_a_fraction() -> None:
    assert tight(0.0, 27) == 26
    assert tight(float("nan"), 18) == 17


# -- the three rules -----------------------------------------------------------------------------


def broken_rules(fixed: Graph) -> list[str]:
    """Return every place at which a lowered graph breaks a rule of per-signal formats."""
    fmts = formats(fixed)
    rules: list[str] = []
    outputs = {node for _, node in fixed.outputs}
    for i, node in enumerate(fixed.nodes):
        if node.op == "neg" and i in outputs:
            continue  # the converter changes a result's sign
        if node.op in ("add", "sub", "sum", "neg"):
            result = next(q for q in fixed.nodes[i + 1 :] if q.args == (i,))
            target = Format(int(result.params[0]), int(result.params[1]))
            if any(fmts[a] != target for a in node.args):
                rules.append(f"%{i}: an adder's operands are not read at its result's point")
        if node.op == "mul":
            rules.append(f"%{i}: a product whose operands have no order")
        if node.op == "dot":
            result = next(q for q in fixed.nodes[i + 1 :] if q.args == (i,))
            products = node.args[: len(node.args) // 2 * 2]
            pairs = list(zip(products[::2], products[1::2], strict=True))
            target = Format(int(result.params[0]), int(result.params[1]))
            if len(node.args) % 2 and fmts[node.args[-1]] != target:
                rules.append(f"%{i}: an addend is not read at its result's point")
            if len({fmts[a].frac + fmts[b].frac for a, b in pairs}) > 1:
                rules.append(f"%{i}: products of different last bits")
            widths = {(fmts[a].width, fmts[b].width) for a, b in pairs}
            if widths not in ({(STORED, NARROW)}, {(STORED, STORED)}):
                rules.append(f"%{i}: ports of {widths}")
            dropped = fmts[i].frac - int(result.params[1])
            if dropped != fmts[node.args[1]].width - 1:
                rules.append(f"%{i}: drops {dropped} bits")
    for operation in operations(fixed, AUTO_TIMING):
        shifts = [operand.shift for operand in operation.operands]
        if operation.kind.name == "add" and min(shifts) < 0:
            rules.append(f"%{operation.node}: an adder's port shifts to the left")
        if operation.kind.adds and shifts[-1] < 0:
            rules.append(f"%{operation.node}: an addend's port shifts to the left")
        if operation.kind.name in ("add", "dot") and operation.kind.width != STORED:
            rules.append(f"%{operation.node}: a result of {operation.kind.width} bits")
    return rules


@pytest.mark.parametrize(
    ("robot", "name"), some_rows(CASES, lambda robot, name: (robot, name) != ("iiwa14", "minv"))
)
@pytest.mark.parametrize("wide", [0.0, 0.3, 1.0])
def test_every_unit_shares_shifts_and_last_bits(robot: str, name: str, wide: float) -> None:
    real, auto = auto_robot(robot, name)
    products = [i for i, node in enumerate(real.nodes) if node.op in ("mul", "dot")]
    selection = np.random.default_rng(SEED).random(len(products)) < wide
    precise = frozenset(int(i) for i in np.asarray(products)[selection])
    plan = auto.plan(real, precise)
    fixed, place = lower_signals(real, plan)
    assert broken_rules(fixed) == []
    # One kind of unit for each shape: operations with as many products and ports as wide share it.
    kinds = {operation.kind for operation in operations(fixed, AUTO_TIMING)}
    shapes = [(kind.name, kind.products, kind.widths[1:2]) for kind in kinds]
    assert len(shapes) == len(set(shapes)), shapes
    for kind in kinds:
        if kind.name in ("dot", "add"):
            make_unit(kind, AUTO_TIMING)
    for i in products:
        exact = fixed.nodes[place[i]].args[0]
        width = formats(fixed)[fixed.nodes[exact].args[1]].width
        assert width == (STORED if i in precise else NARROW), real.nodes[i]
    # Ports must differ from stored words, or nothing is tested.
    shifts = {o.shift for op in operations(fixed, AUTO_TIMING) for o in op.operands}
    assert len(shifts) > 3, shifts


@pytest.mark.parametrize(("robot", "name"), CASES[1:])
def test_the_port_that_loses_less_is_the_narrow_one(robot: str, name: str) -> None:
    real, auto = auto_robot(robot, name)
    plan = auto.plan(real)
    rms = [float(np.sqrt(np.mean(np.square(v)))) for v in node_floats(real, auto.states)]
    fits = []
    for i, ports in plan.ports.items():
        if real.nodes[i].op not in ("mul", "dot"):
            continue
        args = real.nodes[i].args[: len(ports) // 2 * 2]
        pairs = zip(args[::2], args[1::2], strict=True)
        for (a, b), k in zip(pairs, range(0, len(args), 2), strict=True):
            loss = {a: rms[b], b: rms[a]}
            lost = [loss[x] * tightest(plan, real, auto.margin, rms, x) for x in (a, b)]
            narrow = 0 if ports[k].width == NARROW else 1
            fits.append(lost[narrow] <= 2.0 * min(lost))
    # Ranges have moved slightly between the choice and this estimate: few exceptions.
    assert np.mean(fits) > 0.95, np.mean(fits)


def tightest(plan: SignalPlan, real: Graph, margin: float, rms: list[float], node: int) -> float:
    """Last bit of the narrow port that holds a value, from its stored word or constant."""
    if real.nodes[node].op == "const":
        return 2.0 ** -tight(rms[node] * margin, NARROW)
    word = plan.values[node]
    return 2.0 ** -(word.frac - (word.width - NARROW))


def damaged(plan: SignalPlan, node: int, port: int, bits: int) -> SignalPlan:
    ports = list(plan.ports[node])
    ports[port] = replace(ports[port], frac=ports[port].frac + bits)
    return replace(plan, ports={**plan.ports, node: tuple(ports)})


@pytest.mark.parametrize("ops", [("dot",), ("add", "sub")])
def test_a_plan_that_breaks_a_rule_is_refused(ops: tuple[str, ...]) -> None:
    real, auto = auto_robot("iiwa14", "rnea")
    plan = auto.plan(real)
    plans = 0
    for i, node in enumerate(real.nodes):
        # One product has any binary point, and so has an addend as far as the graph is concerned.
        ports = len(node.args) // 2 * 2
        if node.op in ops and (ports > 2 or node.op != "dot") and plans < 40:
            for port in range(ports):
                with pytest.raises(GraphError, match="have the same LSB"):
                    lower_signals(real, damaged(plan, i, port, -1))
                plans += 1
    assert plans > 20


@pytest.mark.parametrize("bits", [-1, 1, 100])
def test_an_addend_away_from_its_results_point_is_found(bits: int) -> None:
    """A coarser one is exact in the graph; only the unit, which adds at the point, reveals it."""
    real, auto = auto_robot("iiwa14", "rnea")
    plan = auto.plan(real)
    plans = 0
    for i, node in enumerate(real.nodes):
        if node.op != "dot" or len(node.args) % 2 == 0 or plans >= 10:
            continue
        assert plan.ports[i][-1] == plan.values[i]
        wrong = damaged(plan, i, len(node.args) - 1, bits)
        if bits == 100:  # finer than the products
            with pytest.raises(GraphError, match="quantize the addend to as many or fewer"):
                lower_signals(real, wrong)
        else:
            assert len(broken_rules(lower_signals(real, wrong)[0])) >= 1
        plans += 1
    assert plans == 10


@pytest.mark.parametrize("damage", ["drop", "point"])
def test_the_rules_of_this_file_bite(damage: str) -> None:
    real, auto = auto_robot("two_link", "minv")
    plan = auto.plan(real)
    ops = ("mul", "dot") if damage == "drop" else ("add", "sub")
    i = next(i for i, node in enumerate(real.nodes) if node.op in ops)
    coarser = replace(plan.values[i], frac=plan.values[i].frac - 1)
    fixed, _ = lower_signals(real, replace(plan, values={**plan.values, i: coarser}))
    assert len(broken_rules(fixed)) >= 1


# -- ports that see fewer high bits ---------------------------------------------------------------


def one_product(narrow: Format, wide: Format, stored: Format) -> Graph:
    """x * y: x is read at the narrow port."""
    tracer = Tracer()
    tracer.output("z", tracer.input("x") * tracer.input("y"))
    graph = tracer.finish()
    value = Format(STORED, narrow.frac + wide.frac - narrow.width + 1)
    plan = SignalPlan(values={0: stored, 1: stored, 2: value}, ports={2: (narrow, wide)})
    return lower_signals(graph, plan)[0]


@pytest.mark.parametrize("shift", [-3, -1, 0, 1, 2, 5, 9])
@pytest.mark.parametrize("width", [NARROW, STORED])
def test_a_port_flags_what_it_cannot_hold(width: int, shift: int) -> None:
    """Flags and values by hand, at the limits of the word, of the port, and of its rounding."""
    stored = Format(STORED, 20)
    fixed = one_product(Format(width, 20 - shift), Format(STORED, 20), stored)
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    edges = [stored.min_int, stored.max_int, 0, -1, 1]
    for end in (low, high + 1):
        for near in range(-3, 4):
            edges += [(end << shift if shift > 0 else end >> -shift) + near]
            edges += [(end << shift if shift > 0 else end >> -shift) + near * (1 << max(shift, 0))]
            half = (1 << shift) >> 1 if shift > 0 else 0
            edges += [(end << shift if shift > 0 else end >> -shift) - half + near]
    x = np.unique(np.clip(edges, stored.min_int, stored.max_int))
    unity = np.full_like(x, 1 << 20)
    out, flags = evaluate_integers(fixed, {"x": x, "y": unity})
    want, want_flags = [], []
    for value in x.tolist():
        if width == STORED or shift <= 0:
            word = value >> shift if shift >= 0 else value << -shift
            flag = not low <= word <= high
        else:
            doubled = value >> (shift - 1)  # one bit more, the highest of the dropped ones
            word = (doubled + 1) >> 1
            # A word that rounds up to the lowest one was outside the port before rounding.
            flag = not low <= word <= high or doubled < 2 * low
        word = (word - low) % (1 << width) + low
        product = (word << 20) >> (width - 1)
        wrapped = (product + (1 << 26)) % (1 << 27) - (1 << 26)
        want.append(wrapped)
        want_flags.append(flag or wrapped != product)
    assert out["z"].tolist() == want
    assert flags.tolist() == want_flags
    assert set(want_flags) == {False, True} or STORED - max(shift, 0) <= width


def test_a_word_just_below_the_port_is_flagged_before_it_is_rounded() -> None:
    fixed = one_product(Format(NARROW, 15), Format(STORED, 20), Format(STORED, 20))
    low = -(1 << 17) << 5
    x = np.array([low - 17, low - 16, low - 1, low, low + 15, -low - 17, -low - 16, -low])
    _, flags = evaluate_integers(fixed, {"x": x, "y": np.ones(8, dtype=np.int64)})
    # -2**17 - 1/2 rounds to -2**17, which fits but is flagged; 2**17 - 1/2 rounds beyond.
    assert flags.tolist() == [True, True, True, False, False, False, True, True]


# -- errors --------------------------------------------------------------------------------------


def bounds(real: Graph, fixed: Graph, place: dict[int, int], inputs: Arrays) -> list[np.ndarray]:
    """Largest error of each fixed node against the real one, all orders, (n,).

    Introduced errors as in the budget are propagated through the operations; unlike the budget,
    errors that reach a result on two paths do not cancel.
    """
    introduced = introduced_errors(fixed)
    exact = node_floats(fixed, inputs)
    errors: list[np.ndarray] = []
    for i, node in enumerate(fixed.nodes):
        x = [np.abs(exact[a]) for a in node.args]
        e = [errors[a] for a in node.args]
        match node.op:
            case "add" | "sub" | "sum":
                error = sum(e)
            case "dot":
                products = range(0, len(x) - 1, 2)
                error = sum(
                    x[k] * e[k + 1] + x[k + 1] * e[k] + e[k] * e[k + 1] for k in products
                ) + (e[-1] if len(x) % 2 else 0.0)
            case "reciprocal":
                error = e[0] / (x[0] * np.maximum(x[0] - e[0], 1e-9))
            case "input" | "const":
                error = np.zeros(1)
            case _:
                error = e[0]
        errors.append(np.asarray(error) + introduced[i])
    return errors


@settings(max_examples=24)
@given(graph=graphs(), seed=st.integers(0, 10**6), wide=st.booleans())
def test_random_graphs_stay_within_the_errors_that_they_list(
    graph: Graph, seed: int, wide: bool
) -> None:
    real = real_graph(graph)
    inputs = random_inputs(real, 64, seed=seed)
    inputs = {name: x.astype(np.float32).astype(np.float64) for name, x in inputs.items()}
    products = [i for i, node in enumerate(real.nodes) if node.op in ("mul", "dot")]
    auto = auto_formats(real, inputs)
    try:
        plan = auto.plan(real, frozenset(products if wide else ()))
        fixed, place = lower_signals(real, plan)
    except FormatError:
        reject()  # a sum's constant beyond its word, or the sine of an angle beyond all tables
    assert broken_rules(fixed) == []
    results, flags = evaluate_integers(fixed, word_integers(fixed, inputs))
    fmts, want = formats(fixed), evaluate_floats(real, inputs)
    bound = bounds(real, fixed, place, inputs)
    clear = ~flags
    for name, node in fixed.outputs:
        error = np.abs(results[name] * fmts[node].lsb - want[name])
        limit = np.broadcast_to(bound[node], error.shape) * (1 + 1e-9) + 1e-13
        assert np.all((error <= limit)[clear]), (name, float(np.max(error / limit)))
    # Only every eighth state is evaluated with roundings; those at least have their ranges.
    assert not flags[::8].any()


@pytest.mark.parametrize(
    ("robot", "name"),
    some_rows(
        [
            *[("two_link", name) for name in ("rnea", "crba", "minv", "fd_derivatives_from_minv")],
            *[
                ("iiwa14", name)
                for name in ("rnea", "crba", "aba", "minv", "fd_derivatives_from_minv")
            ],
        ],
        lambda robot, name: robot == "two_link" or name in ("rnea", "minv"),
    ),
)
def test_a_robots_states_stay_inside_their_budgets(robot: str, name: str) -> None:
    count = 400 if name in ("aba", "fd_derivatives_from_minv") else 1600  # the large graphs
    real, auto = auto_robot(robot, name, 4, count)
    fixed = auto.lower(real)
    fresh = states(robot, 300, seed=SEED, name=name)
    results, flags = evaluate_integers(fixed, word_integers(fixed, fresh))
    assert flags.mean() <= 0.01, (flags.mean(), f"seed {SEED}")
    fmts, want = formats(fixed), evaluate_floats(real, fresh)
    budgets = state_budgets(fixed, fresh)
    for word, node in fixed.outputs:
        value = (results[word] * fmts[node].lsb).astype(np.float32).astype(np.float64)
        error = np.abs(value - want[word])
        assert np.all((error <= MARGIN * budgets[word])[~flags]), f"{word}, seed {SEED}"
    # A budget that a hundred-fold error would not break is useless.
    tightness = max(
        float(np.max(np.abs(results[w] * fmts[n].lsb - want[w])[~flags] / budgets[w][~flags]))
        for w, n in fixed.outputs
    )
    assert tightness > 0.02, tightness


def test_a_constant_may_be_larger_than_the_sum_that_it_is_in() -> None:
    tracer = Tracer()
    tracer.output("y", 1.0 - tracer.input("x"))
    graph = tracer.finish()
    inputs = {"x": np.linspace(0.45, 0.6, 100)}  # neither x nor 1 - x comes near 1
    fixed = auto_formats(graph, inputs).lower(graph)
    out, flags = evaluate_integers(fixed, word_integers(fixed, inputs))
    assert not flags.any()
    y = out["y"] * formats(fixed)[fixed.outputs[0][1]].lsb
    assert np.max(np.abs(y - (1.0 - inputs["x"]))) < 2.0**-24


@pytest.mark.parametrize("reach", [0.999995, 127.9999])
def test_a_tight_narrow_word_holds_its_reach_itself(reach: float) -> None:
    assert Format(NARROW, tight(reach, NARROW)).max >= reach
