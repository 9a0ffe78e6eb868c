"""Links between pages lead to files and headings, and every page is in the menu of the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.page_links import LINK, broken

ROOT = Path(__file__).resolve().parents[2]
# `benchmarks` has templates of pages, whose links are those of the generated page.
IGNORED = {".venv", "build", "dist", ".git", "benchmarks"}

# Pages that are generated when the site is built; there is no file for them.
GENERATED = re.compile(r"^(reference/.*|project/.*|adr/.*|notebook\.md)$")


def _pages() -> dict[str, str]:
    paths = [p for p in ROOT.rglob("*.md") if not IGNORED & set(p.relative_to(ROOT).parts)]
    return {p.relative_to(ROOT).as_posix(): p.read_text("utf-8") for p in sorted(paths)}


PAGES = _pages()


def test_links_and_anchors_lead_somewhere() -> None:
    assert len(PAGES) > 60
    wrong = broken(ROOT, PAGES)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("link", "needle"),
    [
        ("[x](nowhere.md)", "no such file"),
        ("[x](docs/graph.md#no-such-heading)", "no heading"),
        ("[x](#not-here)", "no heading"),
        ("![x](docs/nothing.svg)", "no such file"),
        ("[x]: nowhere.md", "no such file"),
    ],
)
def test_a_broken_link_is_noticed(link: str, needle: str) -> None:
    (fault,) = broken(ROOT, {"page.md": f"# A page\n\n{link}\n"})
    assert needle in fault


def _folders(pages: dict[str, str]) -> list[str]:
    """Return links from pages to folders of ``docs``, for which the site has no page."""
    return [
        f"{name}: {target}"
        for name, text in pages.items()
        for target in LINK.findall(text)
        if name.startswith("docs/") and (place := (ROOT / name).parent / target).is_dir()
        if place.resolve().is_relative_to(ROOT / "docs") and place.resolve() != ROOT / "docs/adr"
    ]


def test_pages_of_the_site_link_to_no_folder_of_it() -> None:
    assert _folders(PAGES) == []
    page = "[a](results) [b](adr) [c](../examples/c)\n"
    assert _folders({"docs/page.md": page}) == ["docs/page.md: results"]


def test_a_clone_has_what_the_site_is_made_with() -> None:
    """Git keeps no empty folders, so each named one must hold a file."""
    settings = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[0]
    named = re.findall(r"\b(docs/[\w./-]+)", settings)
    assert "docs/site/hooks.py" in named
    for name in named:
        place = ROOT / name
        assert place.is_file() or any(p.is_file() for p in place.rglob("*")), f"{name} is empty"


def test_every_page_is_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    named = set(re.findall(r"([\w./-]+\.md)$", menu, re.MULTILINE))
    pages = {n.removeprefix("docs/") for n in PAGES if n.startswith("docs/")}
    pages = {n for n in pages if not n.startswith("adr/")}
    assert pages <= named, f"mkdocs.yml has no place for {sorted(pages - named)}"
    missing = {n for n in named - pages if not GENERATED.match(n)}
    assert not missing, f"mkdocs.yml names {sorted(missing)}, which are not there"
