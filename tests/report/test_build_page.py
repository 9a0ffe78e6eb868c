"""The page of builds: its figures are the build's, and texts from files are harmless."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pinion.dynamics
from pinion.flow import facts as found_anew
from pinion.flow.build import Build
from pinion.flow.facts import build_facts, histogram
from pinion.graph import Graph, Node
from pinion.graph.evaluate import formats, node_floats
from pinion.graph.names import INPUT
from pinion.link import ManifestError
from pinion.link.accuracy import BlockErrors, ErrorDistribution, Verdict
from pinion.report import ReportError, html
from pinion.report.build_data import build_data, link_budget, utilisation
from pinion.report.build_page import build_page, write_page
from pinion.report.builds import build_figures, builds_columns
from pinion.report.expressions import LONGEST, named_expression
from pinion.report.sections import SECTIONS
from pinion.report.table import FigureTable, cell, short_error
from pinion.robot import load
from tests.support.builds import build

STATES = 60
EVIL = "</script><script>alert(1)</script> & \"'<img src=x onerror=alert(1)>"


class Page(HTMLParser):
    """Tags with their attributes, visible text, and contents of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            self.scripts.append(data)
        elif inside != "style":
            self.words.append(data)
            if inside in ("td", "th"):
                self.rows[-1][-1] += data

    @property
    def data(self) -> Any:
        return json.loads(self.scripts[0])["builds"]


@pytest.fixture(scope="module", name="build")
def two_link_build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    folder = tmp_path_factory.mktemp("build_page") / "two"
    build("two_link", "rnea", folder, ii=4, formats="auto")
    return Build.read(folder)


@pytest.fixture(scope="module")
def facts(build: Build) -> dict[str, Any]:
    return build_facts(build, states=STATES)


@pytest.fixture(scope="module")
def page(build: Build, facts: dict[str, Any]) -> Page:
    return Page(build_page([build_data(build.folder, facts)]))


def check_figures(build: Build, page: Page) -> None:
    """Compare the page's data with the build, counted by other code."""
    (data,) = page.data
    assert data["ops"] == build.manifest.ops
    fmts = formats(build.graph)
    nodes = [row["node"] for row in build.schedule["operations"]]
    nodes += [i for i, node in enumerate(build.graph.nodes) if node.op == INPUT]
    assert dict(data["widths"]) == Counter(fmts[i].width for i in nodes)
    total = len(build.schedule["operations"])
    assert sum(data["shares"]) * build.manifest.ii == pytest.approx(total)
    assert len(data["shares"]) == sum(build.manifest.units.values())
    schedule = data["schedule"]
    for operation, row in zip(schedule["operations"], build.schedule["operations"], strict=True):
        kind, unit, start, latency, region, line, node, width, frac, name, expression = operation
        assert schedule["kinds"][kind] == row["kind"] and schedule["lines"][line] == row["line"]
        assert schedule["regions"][region] == row["region"]
        assert [unit, start, latency, node] == [
            row[key] for key in ("unit", "start", "latency", "node")
        ]
        assert (width, frac) == (fmts[node].width, fmts[node].frac)
        stored = {row["node"] for row in build.schedule["operations"]}
        assert (schedule["names"][name], expression) == named_expression(build.graph, node, stored)
    words = [node for node in build.graph.nodes if node.op == INPUT]
    assert schedule["inputs"] == [list(node.params) for node in words]


def test_figures_are_the_builds_own(build: Build, page: Page) -> None:
    check_figures(build, page)


def test_a_wrong_figure_is_found(build: Build, facts: dict[str, Any]) -> None:
    data = build_data(build.folder, facts)

    def lost(data: Any) -> None:
        data["utilisation"][0]["share"] += 1 / build.manifest.ii

    def widened(data: Any) -> None:
        data["formats"]["of"][0][0] += 1

    def late(data: Any) -> None:
        data["schedule"]["operations"][0]["start"] += 1

    def more(data: Any) -> None:
        data["manifest"]["ops"]["mul"] += 1

    def exchanged(data: Any) -> None:
        data["formats"]["named"].reverse()

    mutants: list[Callable[[Any], None]] = [lost, widened, late, more, exchanged]
    for mutant in mutants:
        wrong = json.loads(json.dumps(data))
        mutant(wrong)
        with pytest.raises(AssertionError):
            check_figures(build, Page(build_page([wrong])))


def test_every_part_is_on_the_page(build: Build, page: Page) -> None:
    places = {attrs.get("id") for _, attrs in page.tags}
    assert {f"b0-{name}" for name, *_ in SECTIONS} <= places
    words = " ".join(page.words)
    assert "Nothing on this page ran on hardware." in words
    assert "pinion synth DIR" in words and "pinion verify DIR" in words, (
        "how to get what is missing"
    )
    for array in (*build.manifest.inputs, *build.manifest.outputs):
        assert [array.name, cell(array.words)] in [[row[0], row[-1]] for row in page.rows if row]
    for row in ("traced", "folded", "resubstituted", "built"):
        assert any(cells[:1] == [row] for cells in page.rows), row
    joints = {cells[1] for cells in page.rows if len(cells) > 2 and cells[2] == "revolute"}
    assert {body.joint.name for body in build.model.bodies} <= joints
    for _, attrs in page.tags:
        assert not any(key.startswith("on") for key in attrs)
        assert attrs.get("src") is None and (attrs.get("href") or "#").startswith("#")
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_passes_begin_with_the_folders_trace_and_end_with_its_graph(
    build: Build, facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pinion.graph import op_counts

    steps = facts["passes"]["steps"]
    assert facts["passes"]["whole"] and len(steps) == 8
    first, last = op_counts(build.function.graph), build.manifest.ops
    assert {key: steps[0][key] for key in first} == first
    assert {key: steps[-1][key] for key in last} == last
    # A function outside the table has no passes between.
    other = replace(build, function=replace(build.function, name="anything"))
    alone = found_anew.passes(other)
    assert not alone["whole"] and [s["step"] for s in alone["steps"]] == [
        *("traced", "folded", "built")
    ]
    # Neither has another function of the same name.
    other = replace(build, function=replace(build.function, name="crba"))
    assert not found_anew.passes(other)["whole"]


def test_errors_are_of_the_integers_and_keep_the_promises(
    build: Build, facts: dict[str, Any]
) -> None:
    errors = facts["errors"]
    assert errors == found_anew.errors(build, states=STATES), "the same states each time"
    assert errors != found_anew.errors(build, states=STATES, seed=1)
    for name, distribution in errors["distributions"].items():
        for block in distribution["blocks"].values():
            judged = sum(block["counts"]) + block["below"] + block["above"]
            assert judged == STATES - distribution["flagged"] - distribution["undecided"]
            assert block["max"] is None or block["max"] <= build.manifest.promises[name]
    block = histogram(np.array([0.0, 1e-12, 3e-3, np.nan, 1e9]), np.array([-4.0, -2.0, 0.0]))
    assert (block["below"], block["counts"], block["above"]) == (2, [1, 0], 2)
    broken = json.loads(json.dumps(facts))
    broken["errors"]["distributions"]["reference"]["blocks"]["tau"]["max"] = 1.0
    words = [row for row in Page(build_page([build_data(build.folder, broken)])).rows]
    assert any("BROKEN" in row for row in words)
    # A row of charts for each result, a chart for each distribution, each with its promise.
    page = build_page([build_data(build.folder, facts)])
    count = len(errors["distributions"])
    assert page.count(f'class="histograms n{count}"') == len(build.manifest.outputs)
    promised = re.findall(r'<text class="promised"[^>]*>([^<]*)</text>', page)
    assert promised == [short_error(p) for p in build.manifest.promises.values()]


def verified(build: Build, folder: Path, verdict: Verdict | None, valid: int = 400) -> str:
    """Return the page of a copy of a build with a verification's file."""
    copy = shutil.copytree(build.folder, folder / f"v{len(list(folder.iterdir()))}")
    error = np.full((valid, 2), 1e-6)
    block = BlockErrors.of(
        name="tau", unit="N m", lsb=2.0**-16, words=["tau[0]", "tau[1]"], error=error,
        budget=np.array([1e-3, 1e-5]),
    )  # fmt: skip
    made_of = ErrorDistribution(
        build=f"{build.manifest.hash:016x}", distribution="reference", requests=400, seed=3,
        flagged=400 - valid, simulator="compiled", blocks=(block,), verdict=Verdict(mismatches=0),
    )  # fmt: skip
    replace(made_of, verdict=verdict or made_of.verdict).write(copy)
    data = build_data(copy)
    if verdict is None:
        data["verified"] |= {"mismatches": None, "failed": None}
        data["row"]["verified"] = "not kept"
    return build_page([data, data])


def test_how_many_requests_were_wrong_is_said(build: Build, tmp_path: Path) -> None:
    right = verified(build, tmp_path, Verdict(mismatches=0))
    assert "<strong>0 of 400 requests wrong</strong>" in right and "FAILED" not in right
    assert right.count('<div class="tile good"><strong>0 of 400</strong>') == 2
    words = Page(right)
    assert ["requests wrong, of those verified", "0 of 400", "0 of 400"] in words.rows
    assert ["tau", "N m", "tau[1]", "1.00e-06", "1.00e-05", "10%", "0"] in words.rows
    wrong = verified(build, tmp_path, Verdict(mismatches=7, failed=("bits", "rate")))
    assert "<strong>FAILED</strong>, 7 of 400 requests wrong: a result word or a flag" in wrong
    assert "results are slower than the interval." in wrong
    assert wrong.count('<div class="tile bad"><strong>FAILED</strong>') == 2
    assert "0 of 400" not in wrong and "every bit agrees" not in wrong
    assert ["requests wrong, of those verified", *2 * ["FAILED, 7 of 400"]] in Page(wrong).rows
    # Matching bits are not everything.
    budget = verified(build, tmp_path, Verdict(mismatches=0, failed=("budget",)))
    assert "<strong>FAILED</strong>, 0 of 400 requests wrong: an error is outside" in budget
    none = verified(build, tmp_path, Verdict(mismatches=0, failed=("valid",)), valid=0)
    assert "FAILED</strong>, 0 of 400 requests wrong: every request is flagged or" in none
    assert ["tau", "N m", "none valid", "-", "-", "-", "0"] in Page(none).rows
    unknown = verified(build, tmp_path, None)
    assert (
        "kept no verdict" in unknown
        and "0 of 400" not in unknown
        and "good" not in [attrs.get("class") for _, attrs in Page(unknown).tags]
    )


def evaluated(expression: str, values: list[Any], inputs: dict[str, float]) -> float:
    """Evaluate an expression of the page."""
    code = re.sub(r"%(\d+)", r"v(\1)", expression)
    arrays = {name.partition("[")[0]: {} for name in inputs}
    for name, value in inputs.items():
        array, _, place = name.partition("[")
        arrays[array][int(place[:-1])] = value
    space = {"v": lambda k: float(values[k]), "cos": math.cos, "sin": math.sin, **arrays}
    return float(eval(code, {"__builtins__": {}}, space))


def check_expressions(build: Build) -> None:
    words = [str(n.params[0]) for n in build.graph.nodes if n.op == INPUT]
    inputs = dict(zip(words, np.random.default_rng(4).uniform(-1, 1, len(words)), strict=True))
    values = node_floats(build.graph, inputs)
    stored = {row["node"] for row in build.schedule["operations"]}
    for node in stored:
        _, expression = named_expression(build.graph, node, stored)
        assert evaluated(expression, values, inputs) == pytest.approx(
            values[node], rel=1e-4, abs=1e-6
        )


def test_an_operation_is_named_by_what_it_computes(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_expressions(build)
    monkeypatch.setattr("pinion.report.expressions._sum", lambda terms: terms[-1][1])
    with pytest.raises(AssertionError):
        check_expressions(build)


def test_expressions_keep_what_belongs_together() -> None:
    nodes = [Node("input", (), ("a",)), Node("input", (), ("b",)), Node("add", (0, 1))]
    nodes += [Node("neg", (2,)), Node("mul", (3, 0)), Node("reciprocal", (2,))]
    nodes += [Node("dot", (2, 0, 1, 1, 0), (1, -1, 1)), Node("sum", (0, 1, 2), (1, -1, 1))]
    graph = Graph(tuple(nodes), ())
    expressions = [named_expression(graph, k, ())[1] for k in range(2, len(nodes))]
    assert expressions == [
        *("a + b", "-(a + b)", "(-(a + b)) * a", "reciprocal(a + b)"),
        *("(a + b) * a - b * b + a", "a - b + a + b"),
    ]
    assert named_expression(graph, 6, {2})[1] == "%2 * a - b * b + a"
    long = Graph((nodes[0], Node("sum", (0,) * 200, (1,) * 200)), ())
    assert len(named_expression(long, 1, ())[1]) == LONGEST


def test_source_lines_are_those_that_made_the_operations(
    build: Build, facts: dict[str, Any], page: Page
) -> None:
    sources = facts["sources"]
    (data,) = page.data
    texts = dict(zip(data["schedule"]["lines"], data["schedule"]["texts"], strict=True))
    assert texts == {line: sources.get(line, "") for line in texts}
    folder = Path(pinion.dynamics.__file__).parent
    rnea_lines = {line: text for line, text in texts.items() if line.startswith("rnea.py:")}
    assert rnea_lines
    for line, text in rnea_lines.items():
        number = int(line.partition(":")[2])
        assert text == (folder / "rnea.py").read_text().splitlines()[number - 1].strip()
    # Lines of changed code are not shown, since they would be others.
    graph = build.function.graph
    moved = tuple(replace(n, line=n.line.replace("rnea.py:", "rnea.py:1")) for n in graph.nodes)
    other = replace(build.function, graph=replace(graph, nodes=moved))
    assert found_anew.operation_sources(replace(build, function=other)) == {}
    other = replace(build.function, name="anything")
    assert found_anew.operation_sources(replace(build, function=other)) == {}


def test_formats_are_counted_in_every_way(build: Build) -> None:
    format_data, fmts = build_data(build.folder)["formats"], formats(build.graph)
    assert sum(count for *_, count in format_data["kinds"]) == format_data["signals"]
    for width, width_count in format_data["widths"]:
        assert width_count == sum(count for w, _, count in format_data["kinds"] if w == width)
    products = Counter(
        tuple(sorted((fmts[a].width, fmts[b].width), reverse=True))
        for node in build.graph.nodes
        if node.op in ("mul", "dot")
        for a, b in zip(node.args[::2], node.args[1::2], strict=False)
    )
    assert {(w, n): count for w, n, count, _ in format_data["products"]} == products
    assert sum(c for *_, c in format_data["products"]) == build.manifest.ops["mul_const"]
    for row in format_data["regions"]:
        assert row["widths"][0] <= row["integer"][1] + row["frac"][1]


def test_a_budget_of_pcie_is_for_a_card(build: Build, facts: dict[str, Any]) -> None:
    def budget(target: str) -> str:
        data = build_data(build.folder, facts)
        return build_page([{**data, "manifest": {**data["manifest"], "target": target}}])

    folded = "<summary>On a card with PCIe</summary>"
    assert folded in budget("sim") and "The target sim has no PCIe" in budget("sim")
    assert folded in budget("ulx3s") and folded not in budget("vcu118")


def test_tools_are_named(build: Build, page: Page) -> None:
    tool = re.match(r"/\* Generated by (Yosys \S+)", (build.folder / "core.v").read_text())
    assert tool is not None and ["Verilog written by", tool[1]] in page.rows


def test_figures_of_a_column_have_the_same_decimals() -> None:
    def column(*values: object) -> list[str]:
        table = FigureTable(columns=("a",), rows=[[v] for v in values])
        return [row[0] for row in Page(html.page_table(table)).rows[1:]]

    assert column(2.791, 0.7, 12.0) == ["2.79", "0.70", "12.00"]
    assert column(29.0, None, 3) == ["29.00", "-", "3"]
    assert column(1e-5, 250.0) == ["1e-05", "250"], "too far apart for that"
    assert column(0.0, 2e-4) == ["0", "0.0002"]
    titled = html.page_table(FigureTable(columns=("a",), rows=[["b"]], title="MODEL, not measured"))
    assert titled.index("MODEL") < titled.index('<div class="scroll"'), "it does not scroll away"


def test_selectors_and_shares_fit_the_schedule(build: Build, facts: dict[str, Any]) -> None:
    text = (build.folder / "core.il").read_text()
    assert len(facts["selectors"]) == len(re.findall(r"cell \\pinion_mux", text)) > 0
    assert {row["kind"] for row in facts["selectors"]} <= {*build.manifest.units, "lanes"}
    slots = Counter((r["kind"], r["unit"], r["start"] % 4) for r in build.schedule["operations"])
    assert max(slots.values()) == 1, "one operation a place, or shares would say nothing"
    assert all(0 <= row["share"] <= 1 for row in utilisation(build.schedule))


def test_what_bounds_the_link_is_the_longest(build: Build) -> None:
    assert link_budget(replace(build.manifest, ii=100))["bound"] == "the core's interval"
    wide = replace(build.manifest.outputs[0], shape=(4000,), sent=None)
    assert link_budget(replace(build.manifest, outputs=(wide,)))["bound"] == "results on the link"


def hostile(build: Build, data: dict[str, Any]) -> dict[str, Any]:
    """Return a build's data with every text replaced by the hostile one."""

    def evil(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {k: evil(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [evil(v, key) for v in value]
        unchanged = ("state", "step", "target", "kinds", "kind", "sha256", "budget_distribution")
        return EVIL if isinstance(value, str) and key not in unchanged else value

    texts = evil(data)
    texts["link"] = data["link"]
    return texts


def test_no_text_becomes_markup(
    build: Build, facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = build_data(build.folder, facts)
    usual = Page(build_page([data]))
    evil = hostile(build, data)
    evil["facts"]["sources"] = {EVIL: EVIL}
    page = Page(build_page([evil, evil]))
    assert Counter(tag for tag, _ in page.tags)["script"] == 2
    assert {tag for tag, _ in page.tags} - {tag for tag, _ in usual.tags} <= {"button"}
    schedule = page.data[0]["schedule"]
    assert schedule["lines"] == schedule["texts"] == schedule["names"] == [EVIL]
    assert {operation[-1] for operation in schedule["operations"]} == {EVIL}
    monkeypatch.setattr("pinion.report.build_page.script_json", lambda data: json.dumps(data))
    assert Counter(tag for tag, _ in Page(build_page([evil])).tags)["script"] > 2
    monkeypatch.undo()
    monkeypatch.setattr("pinion.report.sections.text", str)
    assert any(tag == "img" for tag, _ in Page(build_page([evil])).tags)


def test_a_hostile_robot_is_drawn(tmp_path: Path) -> None:
    model = load("pendulum")
    body = replace(model.bodies[0], joint=replace(model.bodies[0].joint, name=EVIL))
    model = replace(model, name=EVIL, bodies=(body,))
    build(model, "rnea", tmp_path / "b", ii=8)
    page = Page(build_page([build_data(tmp_path / "b")]))
    assert Counter(tag for tag, _ in page.tags)["script"] == 2
    assert not any(tag == "img" for tag, _ in page.tags)
    assert any(EVIL in row for row in page.rows)
    # Uniform formats are one line.
    assert any("q16.16: one uniform format" in words for words in page.words)


def test_the_same_folder_gives_the_same_page(build: Build, facts: dict[str, Any]) -> None:
    first, second = (build_page([build_data(build.folder, facts)]) for _ in range(2))
    assert first == second and len(first) < 200_000


def test_builds_side_by_side(build: Build, facts: dict[str, Any], tmp_path: Path) -> None:
    copy = shutil.copytree(build.folder, tmp_path / "other")
    page = Page(build_page([build_data(build.folder, facts), build_data(copy)]))
    tabs = [attrs for tag, attrs in page.tags if attrs.get("role") == "tab"]
    panels = {attrs["id"] for _, attrs in page.tags if attrs.get("role") == "tabpanel"}
    assert {tab["aria-controls"] for tab in tabs} == panels and len(panels) == 2
    assert ["", "two", "other"] in page.rows
    assert ["latency, cycles", *2 * [str(build.manifest.latency_cycles)]] in page.rows
    assert ["multipliers in the core", *2 * [str(build.manifest.multipliers)]] in page.rows
    counted = build_data(copy)
    counted["resources"] = {
        **{"dsp": 11, "lut": 22, "ff": 33, "bram": 4.5, "srl": 0, "lutram": 0},
        **{"by_kind": {}, "capacity": dict.fromkeys(("dsp", "lut"), 100)},
        "timing": {"mhz": {"typical": 123.4, "short": 1, "long": 1}, "paths": [], "table": "",
                   "note": "", "ns": {"typical": 1.0}},
        **{"part": "a part", "note": "", "tool": "a tool", "dies": 3, "dsp_note": "Why so many."},
    }  # fmt: skip
    counted["resources"]["capacity"] |= dict.fromkeys(("ff", "bram"), 100)
    resources = {name: counted["resources"][name] for name in ("dsp", "lut", "ff", "bram")}
    counted["row"] = {**counted["row"], "counted": {**resources, "levels": 9, "mhz": 123.4}}
    page = Page(build_page([build_data(build.folder, facts), counted]))
    for name, value in (("DSP", "11"), ("LUT as logic", "22"), ("FF", "33"), ("RAM", "4.5")):
        assert [f"{name}, counted by Yosys", "-", value] in page.rows
    assert ["MHz, estimated", "-", "123.4"] in page.rows
    assert ["levels, critical path", "-", "9"] in page.rows
    words = " ".join(page.words)
    assert "Why so many." in words and "Of one of its 3 dies (SLRs)" in words
    assert "11 DSP blocks of UltraScale+, counted by Yosys" in words
    assert words.count("DSP blocks of UltraScale+") == 1  # and not of the build without counts
    assert "11 of 100: 11.00 %" in words and "11 of 33: 33.33 %" in words


def test_a_changed_file_makes_no_page(build: Build, tmp_path: Path) -> None:
    copy = shutil.copytree(build.folder, tmp_path / "b")
    with (copy / "core.v").open("a") as file:
        file.write("\n")
    with pytest.raises(ManifestError, match=r"core\.v' is not the file that was built"):
        build_data(copy)


def test_a_page_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "page.html"
    write_page(path, "one")
    with pytest.raises(ReportError, match="force=True"):
        write_page(path, "two")
    assert path.read_text() == "one"

    def fails(*_: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr("os.replace", fails)
    with pytest.raises(OSError, match="no room"):
        write_page(path, "two", force=True)
    monkeypatch.undo()
    assert path.read_text() == "one" and list(tmp_path.iterdir()) == [path]
    write_page(path, "two", force=True)
    assert path.read_text() == "two"
    for wrong in (tmp_path, tmp_path / "none" / "page.html"):
        with pytest.raises(ReportError, match="folder"):
            write_page(wrong, "two", force=True)


@pytest.mark.parametrize("width", [80, 60])
def test_tables_fit_a_terminal(build: Build, width: int) -> None:
    from rich.console import Console

    from pinion.console.terminal import table

    of = dict.fromkeys(("dsp", "lut", "ff", "bram"), 123.456)
    counts: dict[str, Any] = {
        "dsp": 1234,
        "lut": 456_789,
        "ff": 1_234_567,
        "bram": 1000.5,
        "levels": 99,
        "mhz": 0.1,
        "share": {"part": of, "die": of},
    }
    rows = [build_figures(build.folder) | {"counted": counts}] * 5
    tables = builds_columns(rows, width=width)
    console = Console(width=width, record=True, file=None, highlight=False)
    with console.capture() as captured:
        for entry in tables:
            console.print(table(*entry.columns, rows=entry.rows, left=entry.left))
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert text.count("two_link") == 5 and text.count("MHz, estimated") == len(tables)
    for name, value in (rows[0] | counts).items():
        assert value is None or name in ("folder", "counted", "share") or cell(value) in text
    assert text.count("123.46 (123.46)") == 4 * 5
    # A table that assumes twice the width would have to fold its words.
    assert len(builds_columns(rows, width=10)) == 5


def test_json_in_a_script_ends_no_script() -> None:
    assert "<" not in html.script_json({"a": EVIL})
    assert json.loads(html.script_json({"a": EVIL})) == {"a": EVIL}
    assert html.number(-0.001) == "0" and html.number(1.5) == "1.5"
