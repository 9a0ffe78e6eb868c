"""``docs/graph.md``: its tables match the code, its graphs can be read, its numbers are right."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import numpy as np

from pinion.base.pages import rewritten
from pinion.fixedpoint import Format, Overflow, Rounding
from pinion.fixedpoint.sincos import SinCos
from pinion.formats import lower
from pinion.graph import OPS, evaluate_floats, evaluate_integers, format_graph, parse_graph
from pinion.graph.describe import TABLES, column_texts
from pinion.graph.evaluate import WIDEST, WIDEST_FACTOR
from pinion.graph.interchange import FORMAT, KEYS, VERSION, dumps, graph_from_json, graph_to_json
from pinion.graph.ops import Op
from pinion.graph.rules import MOST_BITS, NARROW
from pinion.hls.sums import gather_dots
from tests.graph.helpers import Q16, TIMING

PAGE = Path(__file__).parents[2] / "docs" / "graph.md"


def block(language: str) -> str:
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 1, language
    return str(blocks[0])


def table(head: str) -> list[list[str]]:
    """Rows of the table whose first column has this head."""
    lines = PAGE.read_text().splitlines()
    (start,) = (k for k, line in enumerate(lines) if line.startswith(f"| {head} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.split("|")[1:-1]])
    return rows


def text() -> str:
    """The page in one line."""
    return " ".join(PAGE.read_text().split())


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    assert PAGE.read_text() == rewritten(PAGE.read_text(), TABLES), (
        "run: python -m pinion.graph.describe docs/graph.md"
    )


def test_every_operation_and_every_column_has_its_row() -> None:
    assert TABLES["operations"]().count("\n") == 2 + len(OPS)
    assert set(column_texts()) == {field.name for field in fields(Op)}
    for render in TABLES.values():
        rows = [line.split("|") for line in render().splitlines()]
        assert len({len(row) for row in rows}) == 1, "a cell holds a bar"
        assert all(cell.strip() for row in rows for cell in row[1:-1]), rows


def test_every_operation_has_its_integer_rule_on_the_page() -> None:
    rules = [row for row in table("operation | integer result") if row]
    named = [name for row in rules for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(named) == sorted(OPS)


def test_the_example_in_json_reads_back_as_it_stands() -> None:
    data = json.loads(block("json"))
    graph = graph_from_json(data)
    assert graph_to_json(graph) == data
    assert json.loads(dumps(graph)) == data
    assert (data["format"], data["version"]) == (FORMAT, VERSION)
    assert [row[0].strip("`") for row in table("key")] == list(data) == ["format", "version", *KEYS]


def test_the_example_in_text_is_the_same_graph() -> None:
    graph = graph_from_json(json.loads(block("json")))
    assert format_graph(graph) == block("graph")
    assert parse_graph(block("graph")) == graph


def test_the_example_is_lowered_to_the_fixed_graph() -> None:
    real = gather_dots(parse_graph(block("graph")), TIMING, widths=(4, 3, 2), ii=1)
    assert format_graph(lower(real, Q16)) == block("fixed")


def test_the_results_of_the_example() -> None:
    real, fixed = parse_graph(block("graph")), parse_graph(block("fixed"))
    (value,) = evaluate_floats(real, {"q[0]": 0.5, "qdd[0]": 2.0}).values()
    value_on_page = re.search(r"`tau\[0\]` = (\d\.\d+)\.\.\.", text())
    assert value_on_page and str(float(value)).startswith(value_on_page[1])
    request = {"q[0]": np.array([32768]), "qdd[0]": np.array([131072])}
    results, flags = evaluate_integers(fixed, request)
    integers_on_page = re.search(
        r"gives (\d+) for the integers 32768 and 131072, which is (\d\.\d+)", text()
    )
    assert (
        integers_on_page
        and results["tau[0]"].tolist() == [int(integers_on_page[1])]
        and not flags.any()
    )
    assert f"{int(integers_on_page[1]) / 65536:.6f}" == integers_on_page[2]


def test_the_numbers_of_the_rules_are_those_of_the_code() -> None:
    assert f"*w* from 1 to {MOST_BITS} and *f* from -{MOST_BITS} to {MOST_BITS}" in text()
    limits = f"may have up to {WIDEST} bits and other values up to {NARROW}; the factors of a "
    assert f"{limits}product wider than {NARROW} bits may have up to {WIDEST_FACTOR};" in text()
    for mode in (*Rounding, *Overflow):
        assert f"`{mode.value}`" in text()
    q16 = Format.parse("q16.16")
    bound = SinCos(source=q16, target=q16).error_bound / q16.lsb
    stated = re.search(r"within (0\.\d+) LSB for q16\.16", text())
    assert stated and bound <= float(stated[1]) < bound + 0.001
