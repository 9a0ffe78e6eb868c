"""Plans of per-signal formats: written, built from again, edited by hand, refused."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pinion.cosim.verify import verify
from pinion.flow.build import GRAPH, RTLIL
from pinion.flow.objective import OBJECTIVES, ObjectiveError
from pinion.formats.planfile import PLAN, PlanError, SavedPlan, read_plan
from pinion.functions import FunctionError
from pinion.link import Manifest
from tests.support.breadth import some
from tests.support.builds import build

II = 4


@pytest.fixture(scope="module")
def auto_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """rnea for the two-link arm, formats chosen."""
    folder = tmp_path_factory.mktemp("plan") / "auto"
    build("two_link", "rnea", folder, ii=II, formats="auto")
    return folder


def again(plan: Path, folder: Path, **options: Any) -> Manifest:
    return build("two_link", "rnea", folder, **{"ii": II, "formats": str(plan), **options})


def refused(error: type[ValueError], match: str, folder: Path, do: Callable[[], object]) -> None:
    """Check for one or two sentences on one line, and for no files left behind."""
    with pytest.raises(error, match=match) as raised:
        do()
    text = str(raised.value)
    assert text[0].isupper() or text[0] == "'"
    assert text.endswith(".") and "\n" not in text and len(text) < 400
    assert not folder.exists()
    assert not list(folder.parent.glob(f".{folder.name}-*")), "a scratch folder was left"


# -- the file


def test_an_auto_build_writes_its_plan(auto_build: Path) -> None:
    plan = read_plan(auto_build / PLAN)
    assert plan.distribution == "reference" and plan.max_error == 1e-3
    values, ports = plan.signals.values, plan.signals.ports
    assert {fmt.width for fmt in values.values()} <= {22, 27}
    assert {fmt.width for row in ports.values() for fmt in row} == {18, 27}
    assert set(ports) < set(values)
    text = (auto_build / PLAN).read_text()
    for i, fmt in values.items():
        section = text.partition(f"[signal.{i}]")[2].partition("[signal.")[0]
        # The largest magnitude is beside each format, which holds it.
        ends = section.partition("# holds ")[2].splitlines()[0].split("; seen ")
        assert float(ends[0]) == pytest.approx(fmt.max, rel=1e-3)
        assert 0 < float(ends[1]) <= fmt.max
    assert "tau[0]" in text and "rnea.py:" in text


def test_a_uniform_build_writes_none(tmp_path: Path) -> None:
    build("pendulum", "rnea", tmp_path / "b", ii=II)
    assert not (tmp_path / "b" / PLAN).exists()


def test_a_plan_makes_the_same_core_again(auto_build: Path, tmp_path: Path) -> None:
    second = again(auto_build / PLAN, tmp_path / "b")
    first = Manifest.read(auto_build)
    assert (first.formats, second.formats) == ("auto", PLAN)
    assert first.hash != second.hash  # the name of the formats is part of it
    same = replace(second, formats="auto", request=first.request)
    assert same == first and same.hash == first.hash
    for name in (GRAPH, PLAN, "schedule.json", "model.json"):
        assert (tmp_path / "b" / name).read_bytes() == (auto_build / name).read_bytes(), name

    def without_hash(folder: Path) -> list[str]:
        return [x for x in (folder / RTLIL).read_text().splitlines() if "\\build_hash 64'" not in x]

    assert without_hash(tmp_path / "b") == without_hash(auto_build)


def test_a_plan_is_known_by_its_content_not_its_name(auto_build: Path, tmp_path: Path) -> None:
    copy = tmp_path / "mine.toml"
    copy.write_text((auto_build / PLAN).read_text())
    manifest = again(copy, tmp_path / "b", objective="throughput")
    assert manifest.formats == "mine.toml"  # without the folder: builds are the same anywhere
    assert manifest.objective == "throughput"
    assert manifest.schedule_cycles > Manifest.read(auto_build).schedule_cycles
    # The same formats; each schedule orders swappable operands for its selectors.
    ours, theirs = (
        [sorted(line.split()) for line in (folder / GRAPH).read_text().splitlines()]
        for folder in (tmp_path / "b", auto_build)
    )
    assert ours == theirs


# -- edits


def section(text: str, *ops: str) -> tuple[int, str]:
    """Return number and text of the last signal of one of these operations."""
    parts = text.split("\n[signal.")
    line = next(part for part in reversed(parts[1:]) if part.split()[3] in ops)
    return int(line.partition("]")[0]), line


def coarser(text: str, *ops: str) -> tuple[str, int]:
    """The plan with one signal a bit coarser, as its header says that it may be."""
    number, old = section(text, *ops)
    entry = tomllib.loads(text)["signal"][str(number)]
    width, frac = entry["value"]
    ports = [list(port) for port in entry["ports"]]
    for k in range(len(ports)):
        # The wide port of a product; all ports of a sum and of addends.
        alone = ops == ("add", "sub") or (len(ports) % 2 and k == len(ports) - 1)
        partner = None if alone else ports[k ^ 1]
        if partner is None or (ports[k][0], k % 2) > (partner[0], (k ^ 1) % 2):
            ports[k][1] -= 1
    head = old.partition("\n")[0]
    new = f"{head}\nvalue = [{width}, {frac - 1}]\nports = {ports}\n"
    return text.replace(old, new + "\n" if old.endswith("\n\n") else new), number


@pytest.mark.parametrize(
    "edits", some([[("add", "sub")], [("dot",)], [("add", "sub"), ("dot",)]], 2)
)
def test_an_edited_plan_makes_another_core_that_is_as_good(
    auto_build: Path, tmp_path: Path, edits: list[tuple[str, ...]]
) -> None:
    before = read_plan(auto_build / PLAN)
    text, numbers = (auto_build / PLAN).read_text(), set()
    for ops in edits:
        text, number = coarser(text, *ops)
        numbers.add(number)
    mine = tmp_path / "mine.toml"
    mine.write_text(text)
    signals = read_plan(mine).signals
    changed = {i for i, fmt in signals.values.items() if before.signals.values[i] != fmt}
    assert changed == numbers
    assert {i for i, row in signals.ports.items() if before.signals.ports[i] != row} == numbers
    folder = tmp_path / "b"
    manifest = again(mine, folder)
    # The requested formats, not the chosen ones, and they can be read back.
    assert read_plan(folder / PLAN).signals == signals
    assert (folder / GRAPH).read_text() != (auto_build / GRAPH).read_text()
    assert manifest.content != Manifest.read(auto_build).content
    assert manifest.schedule_cycles == Manifest.read(auto_build).schedule_cycles
    fine, coarse = Manifest.read(auto_build).budget, manifest.budget
    assert all(coarse[word] >= fine[word] for word in fine) and coarse != fine
    if len(edits) == 1:
        return  # a simulation compiles for seconds: one has both edits
    figures = verify(folder, samples=500, seed=2)
    assert figures["ok"] and figures["mismatches"] == 0 and figures["flagged"] == 0
    assert figures["budget_held"] and figures["wrong_unflagged"] == 0


# -- plans that do not fit


@pytest.mark.parametrize(
    ("robot", "function", "ii"),
    [("two_link", "aba", II), ("pendulum", "rnea", II), ("two_link", "rnea", 3)],
)
def test_a_plan_of_another_core_is_refused(
    auto_build: Path, tmp_path: Path, robot: str, function: str, ii: int
) -> None:
    folder = tmp_path / "deep" / "b"
    refused(
        PlanError,
        r"belongs to another core: .*formats 'auto'",
        folder,
        lambda: build(robot, function, folder, ii=ii, formats=str(auto_build / PLAN)),
    )
    assert not folder.parent.exists()


def swap(old: str, new: str) -> Callable[[str], str]:
    def edit(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return edit


def first_value(new: str) -> Callable[[str], str]:
    """Return the plan with another format of the first signal."""
    return lambda text: re.sub(r"value = [^#]*", f"value = {new}  ", text, count=1)


def without(key: str) -> Callable[[str], str]:
    return lambda text: "\n".join(x for x in text.splitlines() if not x.startswith(f"{key} = "))


BROKEN: dict[str, tuple[Callable[[str], str], str]] = {
    "no TOML": (swap("ports = [[", "ports = [("), "cannot be read: .*line"),
    "twice": (swap("[signal.11]", "[signal.5]"), "cannot be read: .*twice"),
    "empty": (lambda text: "", "is incomplete .*distribution, max_error"),
    "later": (
        lambda text: text.replace("version = 1", "version = 2"),
        "has version 2, but this Pinion reads version 1",
    ),
    "unversioned": (lambda text: text.replace("version = 1", ""), "has version None"),
    **{
        f"without {key}": (without(key), f"is incomplete .*'{key}'")
        for key in ("distribution", "max_error", "angle", "together", "dot_widths", "graph")
    },
    "without values": (without("value"), "is incomplete .*'value'"),
    "without signals": (lambda text: text.partition("[signal.")[0], "is incomplete .*'signal'"),
    "signal name": (swap("[signal.0]", "[signal.tau]"), "is incomplete .*'tau'"),
    "max_error text": (
        swap("max_error = 0.001", "max_error = 'x'"),
        "The max_error of the plan '.*' is 'x': give a number",
    ),
    "one number": (first_value("[27]"), r"Signal 0 of .* has the format \[27\]; write"),
    "three numbers": (first_value("[27, 1, 2]"), r"has the format \[27, 1, 2\]; write"),
    "a fraction": (first_value("[27, 1.5]"), r"has the format \[27, 1\.5\]; write"),
    "a truth": (first_value("[true, 1]"), r"has the format \[True, 1\]; write"),
    "a name": (first_value("'q5.22'"), r"has the format q5\.22; write"),
    "too narrow": (first_value("[1, 0]"), r"has the format \[1, 0\]; write .* 2 to 36"),
    "too wide": (first_value("[37, 24]"), r"has the format \[37, 24\]; write .* 2 to 36"),
    "too fine": (first_value("[27, 101]"), r"has the format \[27, 101\]; write .* 60"),
    "angle": (swap("angle = [27,", "angle = [99,"), r"The angle of .* \[99, \d+\]; write"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plan_is_refused(auto_build: Path, tmp_path: Path, case: str) -> None:
    edit, match = BROKEN[case]
    text = (auto_build / PLAN).read_text()
    broken = tmp_path / "broken.toml"
    broken.write_text(edit(text))
    assert broken.read_text() != text
    refused(PlanError, match, tmp_path / "b", lambda: again(broken, tmp_path / "b"))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    missing, binary, folder = (tmp_path / f"{name}.toml" for name in ("none", "noise", "dir"))
    binary.write_bytes(bytes(range(256)))
    folder.mkdir()
    for path in (missing, binary, folder):
        match = f"{path.name}' cannot be read: "
        refused(PlanError, match, tmp_path / "b", lambda path=path: again(path, tmp_path / "b"))


def test_a_plan_checks_its_graph_by_digest(auto_build: Path) -> None:
    from pinion.flow.build import Build
    from pinion.formats.planfile import graph_digest

    plan: SavedPlan = read_plan(auto_build / PLAN)
    graph = Build.read(auto_build).graph
    with pytest.raises(PlanError, match="another core"):
        plan.check(graph)  # the fixed graph is not the one that the plan was made for
    # With its digest the signals are compared, and they differ.
    with pytest.raises(PlanError, match="The plan has"):
        replace(plan, digest=graph_digest(graph)).check(graph)


# -- options that do not go together


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"formats": "auto", "max_error": 0.0}, ObjectiveError, "max_error .* of 0 is not between"),
        ({"formats": "auto", "max_error": 1.0}, ObjectiveError, "max_error .* of 1 is not between"),
        ({"formats": "auto", "max_error": 2}, ObjectiveError, "between 0 and 1: give one that is"),
        ({"formats": "auto", "max_error": -1e-3}, ObjectiveError, "max_error .* of -0.001 is"),
        ({"formats": "auto", "max_error": math.nan}, ObjectiveError, "max_error .* of nan is"),
        ({"formats": "auto", "max_error": math.inf}, ObjectiveError, "max_error .* of inf is"),
        ({"formats": "auto", "ranges": "moon"}, FunctionError, "'moon'; choose .* stress"),
        ({"formats": "auto", "objective": "speed"}, ObjectiveError, "'speed'; choose one of"),
        ({"objective": "Area"}, ObjectiveError, "'Area'; choose one of " + ", ".join(OBJECTIVES)),
        ({"max_error": 1.5}, ObjectiveError, "max_error .* of 1.5 is"),
        ({"ranges": "stress"}, ObjectiveError, r"q16\.16 is .*ranges.*'stress'.*'auto'"),
    ],
    ids=str,
)
def test_what_cannot_be_had_is_refused(
    tmp_path: Path, options: dict[str, Any], error: type[ValueError], match: str
) -> None:
    folder = tmp_path / "b"
    refused(error, match, folder, lambda: build("pendulum", "rnea", folder, ii=II, **options))


@pytest.mark.parametrize("options", [{"max_error": 1e-3}, {"ranges": "reference"}], ids=str)
def test_a_plan_has_its_error_and_its_states(
    auto_build: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    match = r"plan\.toml' already states its ranges and its largest error"
    folder = tmp_path / "b"
    refused(ObjectiveError, match, folder, lambda: again(auto_build / PLAN, folder, **options))
