"""The exact evaluation of a graph: right at the widest values, refused beyond them."""

from __future__ import annotations

import numpy as np
import pytest

from pinion.fixedpoint import Wide
from pinion.graph import Graph, GraphError, Node, evaluate_integers, node_integers
from pinion.graph.check import verify
from pinion.graph.evaluate import WIDEST, WIDEST_FACTOR, formats

QUANTIZE = (32, 0, "nearest", "saturate")


def products(width: int, count: int) -> Graph:
    """A dot of `count` products of two words of a width, quantized."""
    nodes = [Node("input", (), (f"x[{k}]", width, 0)) for k in range(2)]
    nodes.append(Node("dot", (0, 1) * count, (1,) * count))
    nodes.append(Node("quantize", (2,), QUANTIZE))
    return verify(Graph(tuple(nodes), (("y", 3),)))


def ends(width: int) -> np.ndarray:
    return np.array([-(1 << width - 1), (1 << width - 1) - 1, -1, 0, 1, 12345])


@pytest.mark.parametrize(("width", "count"), [(31, 1), (32, 4), (36, 64), (39, 1), (39, 200)])
def test_the_widest_sums_of_products_are_exact(width: int, count: int) -> None:
    graph = products(width, count)
    assert formats(graph)[2].width == 2 * width + (count - 1).bit_length() <= WIDEST
    a, b = (grid.ravel() for grid in np.meshgrid(ends(width), ends(width)))
    exact = node_integers(graph, {"x[0]": a, "x[1]": b}).nodes[2]
    integers = exact.to_objects() if isinstance(exact, Wide) else exact.astype(object)
    assert list(integers) == [count * int(x) * int(y) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize(("width", "added"), [(30, 62), (39, 39), (39, 62), (36, 1)])
def test_the_widest_sums_with_addends_are_exact(width: int, added: int) -> None:
    """The limit of factors applies to factors only, not to the addend."""
    nodes = [Node("input", (), (f"x[{k}]", width, 10)) for k in range(2)]
    nodes += [Node("input", (), ("c", added, 4)), Node("dot", (0, 1, 2), (-1, 1))]
    graph = verify(Graph((*nodes, Node("quantize", (3,), QUANTIZE)), (("y", 4),)))
    assert formats(graph)[3].width == max(2 * width, added + 16) + 1 <= WIDEST
    a, b, c = (grid.ravel() for grid in np.meshgrid(ends(width), ends(width), ends(added)))
    c = np.clip(c, -(1 << added - 1), (1 << added - 1) - 1)
    exact = node_integers(graph, {"x[0]": a, "x[1]": b, "c": c}).nodes[3]
    assert isinstance(exact, Wide)
    want = [-int(x) * int(y) + (int(z) << 16) for x, y, z in zip(a, b, c, strict=True)]
    assert list(exact.to_objects()) == want


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (products(WIDEST_FACTOR + 1, 1), r"Node %2 \(dot\) has a factor of 40 bits; .* is 39"),
        (products(WIDEST_FACTOR, 65537), r"Node %2 \(dot\) has 95 bits; .* exact up to 94"),
        (products(63, 1), r"Node %0 \(input\) has 63 bits; .* exact up to 62"),
    ],
    ids=["factor", "sum", "input"],
)
def test_wider_values_are_refused(graph: Graph, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        evaluate_integers(graph, {"x[0]": np.zeros(1, np.int64), "x[1]": np.zeros(1, np.int64)})


def test_beyond_the_limit_two_limbs_are_wrong() -> None:
    """The reason of the limit: beyond it the product of the extremes is wrong."""
    wrong = 0
    for width in range(WIDEST_FACTOR + 1, 60):
        x = np.array([(1 << width - 1) - 1])
        wrong += int(Wide.product(x, x).to_objects()[0]) != int(x[0]) ** 2
    assert wrong


def test_real_graphs_have_no_integers() -> None:
    graph = verify(Graph((Node("input", (), ("x",)),), (("y", 0),)))
    with pytest.raises(GraphError, match=r"Node %0 \(input\) does not fit the fixed dialect"):
        evaluate_integers(graph, {"x": np.zeros(1, np.int64)})
