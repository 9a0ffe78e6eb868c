"""The graph's own rules and its text form."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings

from pinion.formats import lower
from pinion.graph import Graph, GraphError, Node, Region, format_graph, parse_graph
from pinion.graph.check import verify
from pinion.hls.sums import gather_dots
from tests.graph.helpers import Q16, TIMING, designed, folded, graphs, traced
from tests.support.fuzz import Mutator

X, Y = Node("input", (), ("x",)), Node("input", (), ("y",))


@pytest.mark.parametrize(
    ("nodes", "outputs", "message"),
    [
        ((X, Node("div", (0, 0))), (), r"Node %1 has the unknown operation 'div'; the operations"),
        ((X, Node("add", (0,))), (), r"Node %1 \(add, no line\): add takes 2 operands, not 1\."),
        (
            (X, Node("mul", (0, 0), (2,), None, "f.py:3")),
            (),
            r"Node %1 \(mul, f\.py:3\): mul takes 0 parameters, not 1\.",
        ),
        ((Node("const"),), (), r"const takes 1 or 3 parameters, not 0\."),
        ((X, Node("sin", (0,), (16,))), (), r"sin takes 0 or 2 parameters, not 1\."),
        ((X, Node("quantize", (0,))), (), r"quantize takes 4 parameters, not 0\."),
        ((X, Node("dot", (0, 0, 0), (1,))), (), r"dot has 3 operands and 1 sign; it needs two"),
        ((X, Node("dot", (), ())), (), r"dot has 0 operands and 0 signs"),
        ((X, Node("dot", (0,), (1,))), (), r"dot has 1 operand and 1 sign"),
        ((X, Node("dot", (0, 0, 0), (1, 1, 1))), (), r"dot has 3 operands and 3 signs; .* addend"),
        ((X, Node("dot", (0, 0, 0, 0), (1, 1, 1))), (), r"dot has 4 operands and 3 signs"),
        ((X, Node("dot", (0, 0, 0), (1, -1))), (), r"must be 1 or -1, an addend's 1, not"),
        ((X, Node("dot", (0, 0, 0), (0, 1))), (), r"must be 1 or -1, an addend's 1, not"),
        ((X, Node("dot", (0, 0, 0), (True, 1))), (), r"must be 1 or -1, an addend's 1, "),
        ((X, Node("dot", (0, 0), (-1,))), (), r"must be 1 or -1, the first one 1, not"),
        ((X, Node("dot", (0, 0, 0, 0), (1, 2))), (), r"signs must be 1 or -1"),
        (
            (X, Node("add", (0, 1))),
            (),
            r"Node %1 \(add\) uses %1, which does not precede it: put operands",
        ),
        ((X, Node("add", (0, 5))), (), r"uses %5, which does not precede it"),
        ((X, Node("neg", (-1,))), (), r"uses %-1, which does not precede it"),
        ((X, X), (), r"Node %1 repeats the input 'x': use its first"),
        ((X, Y), (("a", 2),), r"The output 'a' is node %2, which does not exist: .* %0 to %1\."),
        ((X, Y), (("a", -1),), r"The output 'a' is node %-1, which does not exist: "),
        ((X, Y), (("a", 0), ("a", 1)), r"The output 'a' is listed twice: keep one\."),
    ],
)
def test_every_rule_of_the_form_is_checked(
    nodes: tuple[Node, ...], outputs: tuple[tuple[str, int], ...], message: str
) -> None:
    with pytest.raises(GraphError, match=message) as error:
        verify(Graph(nodes, outputs))
    assert str(error.value).endswith(".") or "the operations are" in str(error.value)


def test_a_good_graph_verifies_to_itself_and_answers_about_itself() -> None:
    graph = Graph((X, Y, Node("mul", (0, 1)), Node("add", (2, 2))), (("s", 3), ("p", 2)))
    assert verify(graph) is graph
    assert graph.inputs == ("x", "y")
    assert graph.count("mul", "add") == 2
    assert graph.uses() == [1, 1, 3, 1]
    assert graph.users() == [[2], [2], [3], []]
    assert list(graph.operands(2)) == [X, Y]


def test_the_documented_line_reads_as_documented() -> None:
    graph = Graph(
        (X, Y, Node("dot", (0, 1, 1, 1), (1, -1), Region("forward", 3), "rnea.py:57")),
        (("tau[0]", 2),),
    )
    text = format_graph(graph)
    assert text.splitlines() == [
        '%0 = input ["x"]',
        '%1 = input ["y"]',
        "%2 = dot %0 %1 %1 %1 [1, -1] @forward[3] #rnea.py:57",
        "out tau[0] = %2",
    ]
    assert parse_graph("; a comment\n\n  " + text) == graph


def test_a_dot_with_an_addend_reads_back() -> None:
    graph = verify(Graph((X, Y, Node("dot", (0, 1, 1), (-1, 1))), (("z", 2),)))
    text = format_graph(graph)
    assert text.splitlines()[2] == "%2 = dot %0 %1 %1 [-1, 1]"
    assert parse_graph(text) == graph


def real(robot: str) -> Graph:
    return gather_dots(folded(robot), TIMING, widths=(4, 3, 2), ii=8)


@pytest.mark.parametrize(
    "make",
    [traced, folded, real, lambda r: lower(real(r), Q16), lambda r: designed(r, 8).fixed],
    ids=["traced", "folded", "real", "lowered", "fixed"],
)
@pytest.mark.parametrize("robot", ["pendulum", "iiwa14"])
def test_the_text_form_of_a_robot_reads_back_equal(robot: str, make) -> None:  # type: ignore[no-untyped-def]
    graph = make(robot)
    text = format_graph(graph)
    reread = parse_graph(text)
    assert reread == graph
    assert format_graph(reread) == text
    # Equality of numbers ignores their types: 1 == 1.0.
    for a, b in zip(reread.nodes, graph.nodes, strict=True):
        assert [type(p) for p in a.params] == [type(p) for p in b.params]


@settings(max_examples=60)
@given(graph=graphs(dots=True))
def test_the_text_form_of_any_graph_reads_back_equal(graph: Graph) -> None:
    reread = parse_graph(format_graph(graph))
    assert reread == graph
    assert [repr(n) for n in reread.nodes] == [repr(n) for n in graph.nodes]  # -0.0 as well


GOOD = '%0 = input ["x"]\n%1 = add %0 %0 @a #f.py:1\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "%3 = neg %1\n", r"Line 3 is neither '%2 = \.\.\.', 'out NAME = .*: '%3 = neg"),
        (GOOD + "nonsense\n", r"Line 3 is neither"),
        (GOOD + "\n; note\n%2 : neg %1\n", r"Line 5 is neither"),
        (GOOD + "out y %1\n", r"Line 3 is neither"),
        (GOOD + "%2 = neg 1\n", r"Line 3 is neither"),
        (GOOD + "%2 = const [1.0.0]\n", r"Line 3 has unreadable parameters"),
        (GOOD + "%2 = const [nope]\n", r"Line 3 has unreadable parameters"),
    ],
)
def test_the_parser_names_the_line(text: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        parse_graph(text)


def test_the_parser_verifies_what_it_read() -> None:
    with pytest.raises(GraphError, match=r"Node %2 has the unknown operation 'div'"):
        parse_graph(GOOD + "%2 = div %0 %1\n")
    with pytest.raises(GraphError, match=r"The output 'y' is node %9, which does not exist"):
        parse_graph(GOOD + "out y = %9\n")


def test_no_mutation_of_a_text_raises_anything_else() -> None:
    seed, read = 17, 0
    print(f"seed {seed}")
    mutator, whole = Mutator(random=Random(seed)), format_graph(designed("two_link", 8).fixed)
    for _ in range(1200):
        text = mutator.text(whole).decode(errors="replace")
        try:
            graph = parse_graph(text)
        except GraphError:
            continue
        assert parse_graph(format_graph(graph)) == graph
        read += 1
    assert 100 < read < 800


@pytest.mark.parametrize(
    "line",
    [
        "%2 = const " + "[" * 100_000,
        "%2 = const [" + "9" * 5000 + "]",
        "%2 = neg %" + "9" * 5000,
        "%" + "9" * 5000 + " = neg %0",
        "%2 = neg %1 @a[" + "9" * 5000 + "]",
        "out y[" + "9" * 5000 + "] = %0",
        "out y = %" + "9" * 5000,
        "%2 = const [NaN]",
        '%2 = const ["1"]',
        "%2 = const [[1]]",
        "%2 = input [[1]]",
    ],
    ids=range(11),
)
def test_what_a_file_may_hold_is_read_or_refused(line: str) -> None:
    with pytest.raises(GraphError):
        parse_graph(GOOD + line + "\n")
