"""The JSON form of a graph: read back without loss, or refused with a sentence."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinion.formats import lower
from pinion.graph import Graph, GraphError, Node, Region, Word, evaluate_floats
from pinion.graph import interchange as form
from pinion.graph.check import verify
from pinion.graph.interchange import dumps, graph_from_json, graph_to_json, loads
from pinion.graph.text import format_graph, parse_graph
from tests.graph.helpers import Q16, auto_robot, designed, folded, gathered, graphs, states, traced
from tests.support.fuzz import Mutator


def same(reread: Graph, graph: Graph) -> None:
    """Equal to the last sign and type: 1 and 1.0 differ, and so do 0.0 and -0.0."""
    assert reread == graph
    for a, b in zip(reread.nodes, graph.nodes, strict=True):
        assert repr(a) == repr(b)
        # A word may have been written as a plain name.
        kinds = [[str if isinstance(p, str) else type(p) for p in n.params] for n in (a, b)]
        assert kinds[0] == kinds[1]
    for x, y in zip(reread.outputs, graph.outputs, strict=True):
        assert (x.word.block, x.word.indices, x.node) == (y.word.block, y.word.indices, y.node)
    assert [w.block for w in reread.inputs] == [w.block for w in graph.inputs]


GRAPHS: dict[str, Callable[[], Graph]] = {
    "traced": lambda: traced("iiwa14"),
    "traced derivatives": lambda: traced("two_link", "fd_derivatives"),
    "traced minv": lambda: traced("hyq", "minv"),
    "folded": lambda: folded("iiwa14"),
    "folded aba": lambda: folded("hyq", "aba"),
    "dots": lambda: gathered("iiwa14", "rnea", 8),
    "lowered": lambda: lower(gathered("pendulum", "rnea", 2), Q16),
    "designed": lambda: designed("two_link", 8).fixed,
    "reciprocals": lambda: designed("two_link", 4, name="aba").fixed,
    "formats by signal": lambda: auto_robot("two_link", "aba")[1].refine(
        auto_robot("two_link", "aba")[0], 4
    )[0],
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_of_a_robot_reads_back_equal(name: str) -> None:
    graph = GRAPHS[name]()
    text = dumps(graph)
    same(loads(text), graph)
    assert dumps(loads(text)) == text
    # The text form holds the same.
    same(parse_graph(format_graph(loads(text))), graph)


def test_what_was_read_computes_the_same_bits() -> None:
    graph = traced("iiwa14")
    inputs = states("iiwa14", 5, seed=6)
    before, after = (evaluate_floats(g, inputs) for g in (graph, loads(dumps(graph))))
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[word], after[word]) for word in before)


@settings(max_examples=60, deadline=None)
@given(graph=graphs(dots=True))
def test_any_graph_reads_back_equal(graph: Graph) -> None:
    same(loads(dumps(graph)), graph)


@settings(max_examples=80, deadline=None)
@given(value=st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70))
def test_a_constant_keeps_its_bits_and_its_type(value: float) -> None:
    graph = verify(Graph((Node("const", (), (value,)),), (("y", 0),)))
    same(loads(dumps(graph)), graph)


@settings(max_examples=40, deadline=None)
@given(
    block=st.from_regex(r"[^\s\[\]]{1,8}", fullmatch=True).filter(str.isprintable),
    indices=st.lists(st.integers(0, 10**9 - 1), max_size=3),
    line=st.text(min_size=1).filter(lambda s: s.isprintable() and s == s.strip()),
)
def test_words_regions_and_lines_in_any_alphabet(block: str, indices: list[int], line: str) -> None:
    word = Word(block, indices)
    node = Node("input", (), (word,), Region(block, len(indices)), line)
    graph = verify(Graph((node,), ((word, 0),)))
    same(loads(dumps(graph)), graph)
    same(parse_graph(format_graph(graph)), graph)


def test_a_source_file_may_have_spaces_in_its_name() -> None:
    graph = Graph((Node("input", (), ("x",), None, "my robot #2.py:12"),), (("y", 0),))
    same(loads(dumps(verify(graph))), graph)
    same(parse_graph(format_graph(graph)), graph)


# -- What is refused -----------------------------------------------------------------------------

# Every kind of node, and every kind of reference.
WHOLE: dict[str, Any] = {
    "format": "pinion.graph",
    "version": 1,
    "regions": [["forward", 1], ["whole", None]],
    "lines": ["rnea.py:57"],
    "nodes": [
        ["input", [], [["q", [0]], 32, 16], -1, -1],
        ["const", [], [0.5, 32, 16], 0, 0],
        ["mul", [0, 1], [], 0, 0],
        ["quantize", [2], [32, 16, "nearest", "saturate"], 0, 0],
        ["cos", [0], [32, 16], 1, -1],
        ["dot", [0, 1, 3, 4], [1, -1], 1, -1],
        ["quantize", [5], [32, 16, "floor", "wrap"], 1, -1],
        ["reciprocal", [6], [32, 16, 0.25], 1, -1],
        ["sum", [3, 4, 6], [1, 1, -1], -1, 0],
        ["dot", [0, 1, 3], [-1, 1], -1, -1],
    ],
    "outputs": [["tau", [0], 7], ["e", [], 8]],
}


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The graph with one place set; a path that ends with ``...`` removes the place."""
    data: Any = copy.deepcopy(WHOLE)
    at = data
    *way, last = path[:-1] if path[-1] is ... else path
    for key in way:
        at = at[key]
    if path[-1] is ...:
        del at[last]
    elif isinstance(at, list) and last == len(at):
        at.append(value)
    else:
        at[last] = value
    assert isinstance(data, dict)
    return data


def nested(depth: int) -> list[Any]:
    """Brackets within brackets."""
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner


HUGE = 10**5000  # more digits than Python prints

BROKEN: list[tuple[tuple[Any, ...], Any, str]] = [
    # The frame.
    (("format",), "pinion.function", r"not a graph of Pinion: its format is 'pinion.function', "),
    (("format", ...), None, r"its format is None"),
    (("format",), HUGE, r"a very long int"),
    (("format",), nested(5000), r"not a graph of Pinion"),
    (
        ("version",),
        3,
        r"has version 3, but this Pinion reads versions 1 and 2: use the Pinion version that",
    ),
    (("version",), 2, r"The graph's 'states' should be a list"),
    (("version",), 0, r"has version 0"),
    (("version",), True, r"has version True"),
    (("version",), 1.0, r"has version 1\.0"),
    (("version",), "1", r"has version '1'"),
    (("version",), HUGE, r"has version a very long int"),
    (("version", ...), None, r"has version None"),
    (("nodes", ...), None, r"lacks nodes: write all of regions, lines, nodes, outputs"),
    (("regions", ...), None, r"lacks regions"),
    (("lines", ...), None, r"lacks lines"),
    (("outputs", ...), None, r"lacks outputs"),
    (("nodes",), {}, r"'nodes' should be a list, not \{\}"),
    (("nodes",), "abcde", r"'nodes' should be a list, not 'abcde'"),
    (("lines",), "abc", r"'lines' should be a list"),
    (("lines",), None, r"'lines' should be a list, not None"),
    (("regions",), {"ab": 1}, r"'regions' should be a list"),
    (("outputs",), 3, r"'outputs' should be a list, not 3"),
    # Regions and lines.
    (("regions", 0), "ab", r"Region 0 should be a list"),
    (("regions", 0), ["forward"], r"Region 0 has 1 field: write \[name of a pass, body or null\]"),
    (("regions", 0), [None, 1], r"The name of Region 0 should be a string, not None"),
    (("regions", 0), ["", 1], r"is not a region: give the name of a pass"),
    (("regions", 0), ["forward[3]", None], r"is not a region: give the name of a pass"),
    (("regions", 0), ["for ward", 1], r"'for ward' with the body 1 is not a region"),
    (("regions", 0), ["a\ud800", 1], r"is not a region: give the name of a pass"),
    (("regions", 0), ["forward", -1], r"The body of Region 0 should be an integer from 0"),
    (("regions", 0), ["forward", 1.0], r"an integer from 0 to 999999999, not 1\.0"),
    (("regions", 0), ["forward", True], r"an integer from 0 to 999999999, not True"),
    (("regions", 0), ["forward", HUGE], r"an integer from 0 to 999999999, not a very long int"),
    (("lines", 0), 7, r"Line 0 should be a string, not 7"),
    (("lines", 0), "a\nb", r"Node %1 \(const\) has the source line 'a\\nb'"),
    (("lines", 0), " a.py:1", r"without leading or trailing spaces"),
    (("lines", 0), "a\u2028b", r"has the source line"),
    (("lines", 0), "\ud800", r"has the source line"),
    # A node's frame.
    (("nodes", 2), "mul__", r"Node %2 should be a list, not 'mul__'"),
    (("nodes", 2), {"op": "mul"}, r"Node %2 should be a list"),
    (("nodes", 2), ["mul", [0, 1], []], r"Node %2 has 3 fields: write \[operation, operands, "),
    (("nodes", 2, 0), "div", r"Node %2 has the unknown operation 'div'; the operations are "),
    (("nodes", 2, 0), None, r"The operation of Node %2 should be a string, not None"),
    (("nodes", 2, 0), ["mul"], r"The operation of Node %2 should be a string"),
    (("nodes", 2, 0), "x" * 10**5, r"unknown operation 'x{80}'"),
    (("nodes", 2, 1), "01", r"The operands of Node %2 should be a list, not '01'"),
    (("nodes", 2, 1), {"0": 1}, r"The operands of Node %2 should be a list"),
    (("nodes", 2, 1), [0, 2], r"Node %2 \(mul\) uses %2, which does not precede it"),
    (("nodes", 2, 1), [0, 99], r"uses %99, which does not precede it"),
    (("nodes", 2, 1), [0, -1], r"An operand of Node %2 should be an integer from 0 to .*, not -1"),
    (("nodes", 2, 1), [0, False], r"not False"),
    (("nodes", 2, 1), [0, 1.0], r"not 1\.0"),
    (("nodes", 2, 1), [0, "1"], r"not '1'"),
    (("nodes", 2, 1), [0, HUGE], r"not a very long int"),
    (("nodes", 2, 1), [0], r"mul takes 2 operands, not 1"),
    (("nodes", 2, 3), 2, r"The region of Node %2 is 2: write -1 or an index .* 2 elements"),
    (("nodes", 2, 3), -2, r"The region of Node %2 is -2"),
    (("nodes", 2, 3), -1.0, r"The region of Node %2 is -1\.0"),
    (("nodes", 2, 3), True, r"The region of Node %2 is True"),
    (("nodes", 2, 3), None, r"The region of Node %2 is None"),
    (("nodes", 2, 4), 1, r"The line of Node %2 is 1: write -1 or an index .* 1 element"),
    (("nodes", 2, 4), False, r"The line of Node %2 is False"),
    (("nodes", 2, 4), HUGE, r"The line of Node %2 is a very long int"),
    # Parameters.
    (("nodes", 2, 2), "", r"The parameters of Node %2 should be a list, not ''"),
    (("nodes", 2, 2), [1], r"mul takes 0 parameters, not 1"),
    (("nodes", 1, 2), [], r"const takes 1 or 3 parameters, not 0"),
    (("nodes", 1, 2, 0), None, r"Node %1 has a parameter that is neither a finite number nor"),
    (("nodes", 1, 2, 0), True, r"nor a string\. A finite number is needed, not True"),
    (("nodes", 1, 2, 0), [0.5], r"neither a finite number nor a string"),
    (("nodes", 1, 2, 0), float("nan"), r"A finite number is needed, not nan"),
    (("nodes", 1, 2, 0), float("-inf"), r"A finite number is needed, not -inf"),
    (("nodes", 1, 2, 0), 10**400, r"A finite number is needed, not 1000"),
    (("nodes", 1, 2, 0), HUGE, r"A finite number is needed, not a very long int"),
    (("nodes", 1, 2, 0), "0.5", r"Node %1 \(const, rnea\.py:57\): A finite number is needed"),
    (("nodes", 1, 2, 0), nested(5000), r"neither a finite number nor a string"),
    (("nodes", 1, 2, 1), 32.0, r"have a width of 32\.0 and 16 fraction bits: .* from 1 to 1000"),
    (("nodes", 1, 2, 1), 0, r"A format cannot have a width of 0 and 16 fraction"),
    (("nodes", 1, 2, 1), 10**8, r"A format cannot have a width of 100000000 and 16 fraction"),
    (("nodes", 1, 2, 2), "16", r"A format cannot have a width of 32 and '16' fraction"),
    (("nodes", 1, 2, 2), -1001, r"A format cannot have a width of 32 and -1001 fraction"),
    (("nodes", 0, 2, 0), "q[0]", r"The word of Node %0 should be a list, not 'q\[0\]'"),
    (("nodes", 0, 2, 0), ["q"], r"The word of Node %0 has 1 field: write \[block, indices\]"),
    (("nodes", 0, 2, 0), [7, [0]], r"The word of Node %0: its block should be a string, not 7"),
    (("nodes", 0, 2, 0), ["q", 0], r"should be a list, not 0"),
    (("nodes", 0, 2, 0), ["q", [-1]], r"an index should be an integer from 0 to 999999999, not -1"),
    (("nodes", 0, 2, 0), ["q", [True]], r"not True"),
    (("nodes", 0, 2, 0), ["q", [10**9]], r"not 1000000000"),
    (("nodes", 0, 2, 0), ["q[0]", []], r"'q\[0\]' is not a word"),
    (("nodes", 0, 2, 0), ["", []], r"'' is not a word"),
    (("nodes", 0, 2, 0), ["q q", []], r"'q q' is not a word"),
    (("nodes", 0, 2, 0), ["q\x00", []], r"is not a word"),
    (("nodes", 0, 2, 1), True, r"neither a finite number nor a string"),
    (("nodes", 0, 2), [], r"input takes 1 or 3 parameters, not 0"),
    (("nodes", 3, 2, 2), "up", r"quantize takes one of nearest, floor, not 'up'"),
    (("nodes", 3, 2, 3), 1, r"quantize takes one of saturate, wrap, not 1"),
    (("nodes", 3, 2, 0), 0, r"A format cannot have a width of 0 "),
    (("nodes", 4, 2), [32], r"cos takes 0 or 2 parameters, not 1"),
    (("nodes", 4, 2), ["a", "b"], r"A format cannot have a width of 'a' and 'b' fraction"),
    (("nodes", 5, 2), [1, 0], r"dot's signs must be 1 or -1"),
    (("nodes", 5, 2), [1.0, 1], r"dot's signs must be 1 or -1"),
    (("nodes", 5, 2), [-1, 1], r"the first one 1"),
    (("nodes", 5, 2), [1], r"dot has 4 operands and 1 sign"),
    (("nodes", 7, 2, 2), -0.25, r"The smallest operand is -0\.25: it must not be negative"),
    (("nodes", 7, 2, 2), "0.25", r"A finite number is needed, not '0\.25'"),
    (("nodes", 8, 2), [1, 1], r"sum has 3 terms but 2 signs"),
    (("nodes", 9, 2), [-1, -1], r"dot's signs must be 1 or -1, an addend's 1"),
    (("nodes", 9, 2), [1, 1.0], r"dot's signs must be 1 or -1, an addend's 1"),
    (("nodes", 9, 2), [1], r"dot has 3 operands and 1 sign"),
    (("nodes", 9, 1), [0], r"dot has 1 operand and 2 signs"),
    (("nodes", 10), ["input", [], [["q", [0]]], -1, -1], r"Node %10 repeats the input 'q\[0\]'"),
    # Results.
    (("outputs", 0), ["tau", 7], r"Output 0 has 2 fields: write \[block, indices, node\]"),
    (("outputs", 0, 0), None, r"Output 0: its block should be a string, not None"),
    (("outputs", 0, 0), "a b", r"An output has an invalid name: 'a b\[0\]' is not a word"),
    (("outputs", 0, 1), None, r"should be a list, not None"),
    (("outputs", 0, 2), 10, r"The output 'tau\[0\]' is node %10, which does not exist"),
    (("outputs", 0, 2), -1, r"The node of Output 0 should be an integer from 0 to .*, not -1"),
    (("outputs", 0, 2), True, r"not True"),
    (("outputs", 1), ["tau", [0], 8], r"The output 'tau\[0\]' is listed twice"),
]


def test_the_whole_one_is_read() -> None:
    graph = graph_from_json(WHOLE)
    assert graph_to_json(graph) == WHOLE
    assert graph.nodes[5] == Node("dot", (0, 1, 3, 4), (1, -1), Region("whole"))
    assert graph.nodes[9] == Node("dot", (0, 1, 3), (-1, 1))


@pytest.mark.parametrize(
    ("path", "value", "message"), BROKEN, ids=["/".join(map(str, path)) for path, _, _ in BROKEN]
)
def test_what_is_broken_is_refused_in_a_sentence(
    path: tuple[Any, ...], value: Any, message: str
) -> None:
    with pytest.raises(GraphError, match=message) as error:
        graph_from_json(changed(path, value))
    text = str(error.value)
    assert text.endswith(".") or "the operations are" in text
    assert len(text) < 400


@pytest.mark.parametrize("data", [None, 1, "pinion.graph", [], [WHOLE], {}, True, {"version": 1}])
def test_what_is_no_object_of_the_form_is_refused(data: Any) -> None:
    with pytest.raises(GraphError, match="This is not a graph of Pinion: its format is None, not"):
        graph_from_json(data)


@pytest.mark.parametrize(
    "text", ["", "{", "nope", "[" * 100_000, '{"format": "pinion.graph"', "9" * 5000, "\x00"]
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(GraphError, match="The graph is not JSON"):
        loads(text)


def test_words_of_json_that_python_adds_are_refused() -> None:
    for word in ("NaN", "Infinity", "-Infinity", "1e999"):
        with pytest.raises(GraphError, match="A finite number is needed"):
            loads(json.dumps(WHOLE).replace("0.5", word))


def test_other_keys_are_passed_over() -> None:
    assert graph_from_json({**WHOLE, "made by": ["somebody", {}]}) == graph_from_json(WHOLE)


def test_no_graph_is_written_that_nobody_could_read() -> None:
    whole = graph_from_json(WHOLE)
    for node in (
        Node("const", (), (float("inf"),)),
        Node("const", (), (True,)),
        Node("neg", (99,)),
        Node("div", (0, 0)),
        Node("input", (), ("a b",)),
        Node("input", (), ("x[01]",)),
        Node("input", (), (Word("x[0]"),)),
        replace(whole.nodes[2], line="two\nlines"),
    ):
        with pytest.raises(GraphError):
            graph_to_json(Graph((*whole.nodes, node), whole.outputs))


def survives(data: Any) -> bool:
    """Whether broken data is read: it may be a graph by chance; otherwise it is refused."""
    try:
        graph = graph_from_json(data)
    except GraphError as error:
        if not 20 < len(str(error)) < 1000:
            raise AssertionError(f"this is no sentence: {error}") from error
        return False
    same(loads(dumps(graph)), graph)
    same(parse_graph(format_graph(graph)), graph)
    return True


def test_no_mutation_raises_anything_else() -> None:
    seed, cases = 15, 2400
    print(f"seed {seed}")
    mutator = Mutator(random=Random(seed))
    bases = [WHOLE, graph_to_json(traced("pendulum")), graph_to_json(designed("two_link", 8).fixed)]
    read = sum(survives(mutator.json(copy.deepcopy(bases[k % 3]))) for k in range(cases))
    assert 100 < read < cases / 2, "the mutations are too mild or too rough to show anything"


def test_no_mutation_of_the_text_raises_anything_else() -> None:
    seed = 16
    print(f"seed {seed}")
    mutator, whole = Mutator(random=Random(seed)), json.dumps(WHOLE)
    read = 0
    for _ in range(2000):
        try:
            read += survives(json.loads(mutator.text(whole)))
        except (ValueError, RecursionError):  # no JSON at all
            continue
    assert read > 20


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["input", "const", "add", "dot", "quantize", -1, 0, 1, [], [0], [["x", []]]]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


@settings(max_examples=120, deadline=None)
@given(parts=st.fixed_dictionaries(dict.fromkeys(form.KEYS, _JSON)))
def test_no_garbage_in_the_frame_raises_anything_else(parts: dict[str, Any]) -> None:
    survives({"format": "pinion.graph", "version": 1, **parts})


@settings(max_examples=120, deadline=None)
@given(
    rows=st.lists(st.tuples(_JSON, _JSON, _JSON, _JSON, _JSON).map(list), max_size=3),
    path=st.sampled_from([("nodes", k, f) for k in range(10) for f in range(5)]),
    value=_JSON,
)
def test_no_garbage_in_nodes_raises_anything_else(
    rows: list[Any], path: tuple[Any, ...], value: Any
) -> None:
    survives(changed(path, value))
    survives({**WHOLE, "nodes": [*WHOLE["nodes"], *rows]})
