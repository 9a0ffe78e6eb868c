"""Concept pages have their parts: equations, order, source, picture, cost, code, place."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

LARGEST_PICTURE = 24_000  # bytes

# What a converter to MathML understands; there are no macros.
LATEX = frozenset(
    re.findall(
        r"\w+",
        "alpha cdot cdots circ ddot delta dot frac ge hat in lambda lceil ldots le left leftarrow"
        " Lambda lfloor log mathrm max min mu omega Omega partial pi Pi psi quad rceil rfloor right"
        " sum tau times top",
    )
)

COUNTS = ("mul", "mul_const", "reciprocal", "trig")
"""Of a row of counts what the records of `pinion bench functions` have too. Additions differ: of
a core they are counted when its sums have been gathered."""


def section(text: str, title: str) -> str:
    """Return the text under a second-level heading, or an empty text."""
    match = re.search(rf"^## {title}[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return match[1].strip() if match else ""


def blocks(text: str, language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for spoken, block in fenced if spoken == language]


def pictures(text: str) -> list[str]:
    return re.findall(r"!\[[^\]]{10,}\]\(([\w-]+\.svg)\)", text)


def formulas(text: str) -> list[str]:
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    displayed = re.findall(r"^\$\$(.+)\$\$$", prose, re.MULTILINE)
    return displayed + re.findall(r"(?<!\$)\$([^$\n]+)\$(?!\$)", prose)


def checked_by_itself(block: str) -> bool:
    """Return whether a block parses as Python, and asserts or prints something."""
    tree = ast.parse(block)
    return any(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Call) and ast.unparse(node.func) == "print")
        for node in ast.walk(tree)
    )


PARTS: Mapping[str, Callable[[str], bool]] = {
    "equations": lambda text: (
        re.search(r"^\$\$.+\$\$$", section(text, "Equations"), re.M) is not None
    ),
    "order": lambda text: (
        len(re.findall(r"^\d\. ", section(text, "Steps of the implementation"), re.M)) >= 3
    ),
    "source": lambda text: (
        re.search(r"\b(?:19|20)\d\d\b|\.\./adr/", section(text, "Source")) is not None
    ),
    "picture": lambda text: len(pictures(text)) > 0,
    "cost": lambda text: section(text, "What it costs") != "",
    "command": lambda text: any(re.search(r"^pinion \w", b, re.M) for b in blocks(text, "")),
    "code": lambda text: any(checked_by_itself(block) for block in blocks(text, "python")),
    "core": lambda text: section(text, "As a core") != "",
    "place": lambda text: (
        re.search(r"`(?:sw|hw|sim)/pinion/", section(text, "Where it is")) is not None
    ),
}


def lacking(text: str) -> list[str]:
    """Return the missing parts of a page."""
    return [name for name, has_part in PARTS.items() if not has_part(text)]


def unknown_latex(text: str) -> set[str]:
    """Return LaTeX commands that a converter to MathML may not know."""
    used = {name for formula in formulas(text) for name in re.findall(r"\\([A-Za-z]+)", formula)}
    return used - LATEX


def picture_faults(text: str) -> list[str]:
    """Return the faults of a picture, which must be small, self-contained and legible."""
    faults = []
    if len(text.encode()) > LARGEST_PICTURE:
        faults.append("too large")
    root = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    if root.find(f"{space}title") is None:
        faults.append("no title")
    ground = root.find(f"{space}rect")
    if ground is None or not (ground.get("fill") or "").startswith("#f"):
        faults.append("no light ground of its own")
    if re.search(r"<script|<image|<foreignObject|href=|@import|url\((?!#)", text):
        faults.append("not alone")
    return faults


def count_rows(text: str) -> list[tuple[str, dict[str, int]]]:
    """Return function and operations of each row of counts on a page."""
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+(?: \| [\d,]+){4}) \|$", text, re.MULTILINE)
    names = ("mul", "mul_const", "add", "reciprocal", "trig")
    return [
        (
            function,
            dict(zip(names, (int(n.replace(",", "")) for n in cells.split(" | ")), strict=True)),
        )
        for function, cells in rows
    ]


def wrong_counts(text: str, records: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return functions whose counts on a page differ from the records."""
    return [
        function
        for function, ops in count_rows(text)
        if any(ops[name] != records[function][name] for name in COUNTS)
    ]


@pytest.fixture(scope="module")
def folder(root: Path) -> Path:
    return root / "docs/concepts"


@pytest.fixture(scope="module")
def pages(folder: Path) -> dict[str, str]:
    texts = {p.name: p.read_text() for p in sorted(folder.glob("*.md")) if p.name != "index.md"}
    assert len(texts) >= 11
    return texts


@pytest.fixture(scope="module")
def records(root: Path) -> dict[str, dict[str, int]]:
    """Return the operations of each iiwa14 function, without the column form."""
    rows = json.loads((root / "benchmarks/records/functions.json").read_text())["figures"][
        "functions"
    ]
    return {row["function"]: row["ops"] for row in rows if row["derivatives"] != "column"}


def test_pages_have_their_parts(pages: dict[str, str]) -> None:
    assert {name: lacking(text) for name, text in pages.items() if lacking(text)} == {}


def test_the_index_has_every_page(folder: Path, pages: dict[str, str]) -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", (folder / "index.md").read_text()))
    assert linked == pages.keys()


def test_equations_are_of_known_commands(folder: Path) -> None:
    texts = {p.name: p.read_text() for p in folder.glob("*.md")}
    assert {name: unknown_latex(text) for name, text in texts.items() if unknown_latex(text)} == {}
    assert unknown_latex("$$a = \\mymacro{b}$$\n and $\\vec{q}$") == {"mymacro", "vec"}


def test_pictures_are_small_alone_and_legible(folder: Path, pages: dict[str, str]) -> None:
    svgs = {p.name: p.read_text() for p in folder.glob("*.svg")}
    linked = {
        name
        for text in [*pages.values(), (folder / "index.md").read_text()]
        for name in pictures(text)
    }
    assert linked == svgs.keys()
    assert {name: picture_faults(text) for name, text in svgs.items() if picture_faults(text)} == {}


def test_counts_are_those_of_the_records(
    pages: dict[str, str], records: dict[str, dict[str, int]]
) -> None:
    counted = {function for text in pages.values() for function, _ in count_rows(text)}
    assert counted == {
        "rnea",
        "rnea_derivatives",
        "crba",
        "minv",
        "aba",
        "fd_derivatives",
        "fd_derivatives_from_minv",
        "forward_kinematics",
        "frame_jacobian",
        "operational_space_inertia",
        "inverse_operational_space_inertia",
        "rnea_second_derivatives",
        "fd_second_derivatives",
        "euler_step",
    }
    assert [wrong for text in pages.values() for wrong in wrong_counts(text, records)] == []
    assert wrong_counts("| `rnea` | 113 | 87 | 180 | 0 | 12 |", records) == ["rnea"]
