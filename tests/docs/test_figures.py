"""Figures on pages can be repeated: their section names a real command or source."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.figures import Section, bare, complaint, figures, programs

ROOT = Path(__file__).resolve().parents[2]

# Pages written by one command, which the page names.
MADE = {
    "docs/mpc/tracking.md": "bench mpc -o docs/mpc",
    "docs/robots.md": "python -m benchmarks.robots DIR",
    "docs/scaling/scaling.md": "bench scaling -o docs/scaling",
}

# Numbers that were not measured or counted, by page and section.
CONSTANTS = {
    ("docs/architecture.md", "Two comparisons"): "the limit that the tests set for budgets",
    ("docs/campaigns.md", "What it prints"): "the width of a bin follows from its bits",
    ("docs/driver.md", "When something is wrong"): "a default of the vendor's kernel module",
    ("docs/link.md", "An example, byte for byte"): "a number in the packet that is shown",
    ("docs/vcu118.md", "Several dies"): "the share from which on the script takes several dies",
}


def _pages() -> dict[str, str]:
    """Return all pages but decision records, and the text between the cells of notebooks."""
    named = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    named += [p for p in (ROOT / "docs").rglob("*.md") if "adr" not in p.parts]
    texts = {p.relative_to(ROOT).as_posix(): p.read_text("utf-8") for p in sorted(named)}
    for path in sorted((ROOT / "docs").rglob("*.ipynb")):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        texts[path.relative_to(ROOT).as_posix()] = text
    return texts


PAGES = _pages()


def _bare() -> dict[tuple[str, str], Section]:
    return {
        (name, section.title): section
        for name, page in PAGES.items()
        if name not in MADE
        for section in bare(page)
    }


def test_every_figure_stands_beside_its_command_or_source() -> None:
    wrong = [
        f"{name}:{section.line}: '{section.title}' has {', '.join(figures(section.text)[:3])}, "
        "and neither a command that prints it (`pinion ...`, `python -m benchmarks...`, "
        "`make ...`) nor a source: name one, or take the figure out; a constant goes into "
        "CONSTANTS, with a reason"
        for (name, title), section in _bare().items()
        if (name, title) not in CONSTANTS
    ]
    assert not wrong, "\n".join(wrong)


def test_exceptions_are_still_needed() -> None:
    assert set(CONSTANTS) <= set(_bare())
    for name, command in MADE.items():
        assert bare(PAGES[name]) and command in PAGES[name], name


@pytest.mark.parametrize(
    "figure",
    [
        "A call takes 12 us.",
        "It is 3.5 times as fast,\nand 1,024 samples take 58.5us.",
        "The core has 28,888 LUTs and 189 DSP blocks.",
        "96.0 % of all mutants",
        "| robot | largest error |\n| --- | --- |\n| iiwa14 | 3.5e-4 |\n| hyq | 9.2e-5 |",
    ],
)
def test_a_bare_figure_is_noticed(figure: str) -> None:
    page = f"# A page\n\n`pinion robots` lists them.\n\n## Fast\n\n{figure}\n"
    (section,) = bare(page)
    assert (section.title, section.line) == ("Fast", 5) and figures(section.text)
    for source in (
        "`pinion bench cpu`",
        "    pinion bench cpu",
        "```\npython benchmarks/driver.py\n```",
        "`make soak`",
        "Plancher et al. 2021",
        "at commit 924d050",
        "[record](../adr/0017-compile.md)",
    ):
        assert bare(f"{page}\n{source}\n") == [], source


@pytest.mark.parametrize(
    "text",
    [
        "Words of 27 bits, 64 bytes a beat, a tolerance of 1e-10, 2^-24 and 5 functions.",
        "| step | command |\n| --- | --- |\n| 1 | build |\n| 2 | verify |",
        "```\n  12 us\n| a | b |\n| - | - |\n| x | 7 |\n| y | 8 |\n```",
        "<!-- table: x -->\n| a | b |\n| --- | --- |\n| x | 7 |\n| y | 8 |\n<!-- end -->",
        "`clock 250 MHz`",
    ],
)
def test_constants_are_left_alone(text: str) -> None:
    assert figures(f"## A section\n\n{text}\n") == []


# ---- the commands are real (those of `pinion` and `make`: test_snippets.py, test_pages.py) -------

PACKAGES = [p.parent for p in ROOT.glob("*/pinion/*/__init__.py")]


def test_programs_on_pages_are_there_and_have_their_options() -> None:
    listed = [(name, program) for name, page in PAGES.items() for program in programs(page)]
    wrong = [f"{n}: {fault}" for n, p in listed if (fault := complaint(ROOT, PACKAGES, p))]
    assert len(listed) > 30
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("line", "needle"),
    [
        ("`python -m benchmarks.nowhere`", "no program benchmarks.nowhere"),
        ("```\npython benchmarks/nowhere.py   # a word\n```", "no program benchmarks/nowhere.py"),
        ("    python -m benchmarks.promises --no-such", "no option --no-such"),
        ("`python -m pinion.graph.nowhere docs/graph.md`", "no program pinion.graph.nowhere"),
        ("`python -m examples.law_on_chip\nbuild/law --at x`", "no option --at"),
    ],
)
def test_a_program_that_is_not_there_is_noticed(line: str, needle: str) -> None:
    (program,) = programs(f"Text.\n\n{line}\n")
    assert needle in complaint(ROOT, PACKAGES, program)


def test_folders_and_files_that_make_is_told_to_test_are_there() -> None:
    named_paths = [
        (name, path)
        for name, page in PAGES.items()
        for arguments in re.findall(r"\bmake test[\w-]* ARGS=('[^']*'|\S+)", page)
        for path in re.findall(r"tests/[\w/.-]*\w", arguments)
    ]
    assert len(named_paths) > 3
    assert [(name, path) for name, path in named_paths if not (ROOT / path).exists()] == []
