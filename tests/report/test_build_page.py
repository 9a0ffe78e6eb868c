"""The page of builds: its figures are the build's own, and no text of a file does anything."""

from __future__ import annotations

import json
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

from pinion.flow import facts as found_anew
from pinion.flow.build import Build, build
from pinion.flow.facts import build_facts, histogram
from pinion.graph.evaluate import formats
from pinion.graph.names import INPUT
from pinion.link import ManifestError
from pinion.report import ReportError, html
from pinion.report.build_data import build_data, link_budget, utilisation
from pinion.report.build_page import build_page, write_page
from pinion.report.builds import build_figures, builds_columns
from pinion.report.sections import SECTIONS
from pinion.report.table import cell
from pinion.robot import load

STATES = 60
EVIL = "</script><script>alert(1)</script> & \"'<img src=x onerror=alert(1)>"


class Page(HTMLParser):
    """Tags with their attributes, visible text, and what scripts hold."""

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


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Build:
    folder = tmp_path_factory.mktemp("build_page") / "two"
    build("two_link", "rnea", folder, ii=4, formats="auto")
    return Build.read(folder)


@pytest.fixture(scope="module")
def facts(made: Build) -> dict[str, Any]:
    return build_facts(made, states=STATES)


@pytest.fixture(scope="module")
def page(made: Build, facts: dict[str, Any]) -> Page:
    return Page(build_page([build_data(made.folder, facts)]))


def check_figures(made: Build, page: Page) -> None:
    """The page's data, counted from the build by other code."""
    (own,) = page.data
    assert own["ops"] == made.manifest.ops
    fmts = formats(made.graph)
    nodes = [row["node"] for row in made.schedule["operations"]]
    nodes += [i for i, node in enumerate(made.graph.nodes) if node.op == INPUT]
    assert dict(own["widths"]) == Counter(fmts[i].width for i in nodes)
    total = len(made.schedule["operations"])
    assert sum(own["shares"]) * made.manifest.ii == pytest.approx(total)
    assert len(own["shares"]) == sum(made.manifest.units.values())
    said = own["schedule"]
    for shown, row in zip(said["operations"], made.schedule["operations"], strict=True):
        kind, unit, start, latency, region, line, node, width, frac = shown
        assert said["kinds"][kind] == row["kind"] and said["lines"][line] == row["line"]
        assert said["regions"][region] == row["region"]
        assert [unit, start, latency, node] == [
            row[key] for key in ("unit", "start", "latency", "node")
        ]
        assert (width, frac) == (fmts[node].width, fmts[node].frac)


def test_figures_are_the_builds_own(made: Build, page: Page) -> None:
    check_figures(made, page)


def test_a_wrong_figure_is_found(made: Build, facts: dict[str, Any]) -> None:
    data = build_data(made.folder, facts)

    def lost(data: Any) -> None:
        data["utilisation"][0]["share"] += 1 / made.manifest.ii

    def widened(data: Any) -> None:
        data["formats"]["of"][0][0] += 1

    def late(data: Any) -> None:
        data["schedule"]["operations"][0]["start"] += 1

    def more(data: Any) -> None:
        data["manifest"]["ops"]["mul"] += 1

    mutants: list[Callable[[Any], None]] = [lost, widened, late, more]
    for mutant in mutants:
        wrong = json.loads(json.dumps(data))
        mutant(wrong)
        with pytest.raises(AssertionError):
            check_figures(made, Page(build_page([wrong])))


def test_every_part_is_on_the_page(made: Build, page: Page) -> None:
    places = {attrs.get("id") for _, attrs in page.tags}
    assert {f"b0-{name}" for name, *_ in SECTIONS} <= places
    words = " ".join(page.words)
    assert "Nothing on this page ran on hardware." in words
    assert "pinion synth DIR" in words and "pinion verify DIR" in words, (
        "how to get what is missing"
    )
    for array in (*made.manifest.inputs, *made.manifest.outputs):
        assert [array.name, cell(array.words)] in [[row[0], row[-1]] for row in page.rows if row]
    for row in ("traced", "folded", "resubstituted", "built"):
        assert any(cells[:1] == [row] for cells in page.rows), row
    joints = {cells[1] for cells in page.rows if len(cells) == 6}
    assert {body.joint.name for body in made.model.bodies} <= joints
    for _, attrs in page.tags:
        assert not any(key.startswith("on") for key in attrs)
        assert attrs.get("src") is None and (attrs.get("href") or "#").startswith("#")
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_passes_begin_with_the_folders_trace_and_end_with_its_graph(
    made: Build, facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pinion.graph import op_counts

    steps = facts["passes"]["steps"]
    assert facts["passes"]["whole"] and len(steps) == 8
    first, last = op_counts(made.function.graph), made.manifest.ops
    assert {key: steps[0][key] for key in first} == first
    assert {key: steps[-1][key] for key in last} == last
    # A function that is not of the table has no passes between, and nobody looks for it.
    other = replace(made, function=replace(made.function, name="anything"))
    alone = found_anew.passes(other)
    assert not alone["whole"] and [s["step"] for s in alone["steps"]] == [
        *("traced", "folded", "built"),
    ]
    # Nor has one of the same name that is another function.
    other = replace(made, function=replace(made.function, name="crba"))
    assert not found_anew.passes(other)["whole"]


def test_errors_are_of_the_integers_and_keep_the_promises(
    made: Build, facts: dict[str, Any]
) -> None:
    errors = facts["errors"]
    assert errors == found_anew.errors(made, states=STATES), "the same states each time"
    assert errors != found_anew.errors(made, states=STATES, seed=1)
    for name, own in errors["distributions"].items():
        for seen in own["blocks"].values():
            judged = sum(seen["counts"]) + seen["below"] + seen["above"]
            assert judged == STATES - own["flagged"] - own["undecided"]
            assert seen["max"] is None or seen["max"] <= made.manifest.promises[name]
    seen = histogram(np.array([0.0, 1e-12, 3e-3, np.nan, 1e9]), np.array([-4.0, -2.0, 0.0]))
    assert (seen["below"], seen["counts"], seen["above"]) == (2, [1, 0], 2)
    broken = json.loads(json.dumps(facts))
    broken["errors"]["distributions"]["reference"]["blocks"]["tau"]["max"] = 1.0
    words = [row for row in Page(build_page([build_data(made.folder, broken)])).rows]
    assert any("BROKEN" in row for row in words)


def test_selectors_and_shares_fit_the_schedule(made: Build, facts: dict[str, Any]) -> None:
    text = (made.folder / "core.il").read_text()
    assert len(facts["selectors"]) == len(re.findall(r"cell \\pinion_mux", text)) > 0
    assert {row["kind"] for row in facts["selectors"]} <= {*made.manifest.units, "lanes"}
    slots = Counter((r["kind"], r["unit"], r["start"] % 4) for r in made.schedule["operations"])
    assert max(slots.values()) == 1, "one operation a place, or shares would say nothing"
    assert all(0 <= row["share"] <= 1 for row in utilisation(made.schedule))


def test_what_bounds_the_link_is_the_longest(made: Build) -> None:
    assert link_budget(replace(made.manifest, ii=100))["bound"] == "the core's interval"
    wide = replace(made.manifest.outputs[0], shape=(4000,), sent=None)
    assert link_budget(replace(made.manifest, outputs=(wide,)))["bound"] == "results on the link"


def hostile(made: Build, data: dict[str, Any]) -> dict[str, Any]:
    """Every text in a build's data is the hostile one."""

    def evil(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {k: evil(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [evil(v, key) for v in value]
        known = ("state", "step", "target", "kinds", "kind", "sha256", "budget_distribution")
        return EVIL if isinstance(value, str) and key not in known else value

    texts = evil(data)
    texts["link"] = data["link"]
    return texts


def test_no_text_becomes_markup(
    made: Build, facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = build_data(made.folder, facts)
    usual = Page(build_page([data]))
    evil = hostile(made, data)
    page = Page(build_page([evil, evil]))
    assert Counter(tag for tag, _ in page.tags)["script"] == 2
    assert {tag for tag, _ in page.tags} - {tag for tag, _ in usual.tags} <= {"button"}
    assert page.data[0]["schedule"]["lines"] == [EVIL]
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


def test_the_same_folder_gives_the_same_page(made: Build, facts: dict[str, Any]) -> None:
    one, other = (build_page([build_data(made.folder, facts)]) for _ in range(2))
    assert one == other and len(one) < 200_000


def test_builds_side_by_side(made: Build, facts: dict[str, Any], tmp_path: Path) -> None:
    copy = shutil.copytree(made.folder, tmp_path / "other")
    page = Page(build_page([build_data(made.folder, facts), build_data(copy)]))
    tabs = [attrs for tag, attrs in page.tags if attrs.get("role") == "tab"]
    panels = {attrs["id"] for _, attrs in page.tags if attrs.get("role") == "tabpanel"}
    assert {tab["aria-controls"] for tab in tabs} == panels and len(panels) == 2
    assert ["", "two", "other"] in page.rows
    assert ["latency", *2 * [str(made.manifest.latency_cycles)]] in page.rows


def test_a_changed_file_makes_no_page(made: Build, tmp_path: Path) -> None:
    copy = shutil.copytree(made.folder, tmp_path / "b")
    with (copy / "core.v").open("a") as file:
        file.write("\n")
    with pytest.raises(ManifestError, match=r"core\.v' is not the file that was built"):
        build_data(copy)


def test_a_page_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "page.html"
    write_page(path, "one")
    with pytest.raises(ReportError, match="--force"):
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
def test_tables_fit_a_terminal(made: Build, width: int) -> None:
    from rich.console import Console

    from pinion.cli.terminal import table

    counts = {
        "dsp": 1234,
        "lut": 456_789,
        "ff": 1_234_567,
        "bram": 1000.5,
        "levels": 99,
        "mhz": 0.1,
    }
    rows = [build_figures(made.folder) | {"counted": counts}] * 5
    tables = builds_columns(rows, width=width)
    console = Console(width=width, record=True, file=None, highlight=False)
    with console.capture() as captured:
        for one in tables:
            console.print(table(*one.columns, rows=one.rows, left=one.left))
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert text.count("two_link") == 5 and text.count("MHz, estimated") == len(tables)
    for name, value in (rows[0] | counts).items():
        assert value is None or name in ("folder", "counted") or cell(value) in text
    # A table that believes in twice the width would have to fold its words.
    assert len(builds_columns(rows, width=10)) == 5


def test_json_in_a_script_ends_no_script() -> None:
    assert "<" not in html.script_json({"a": EVIL})
    assert json.loads(html.script_json({"a": EVIL})) == {"a": EVIL}
    assert html.number(-0.001) == "0" and html.number(1.5) == "1.5"
