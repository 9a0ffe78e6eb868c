"""Links between pages and files: unchanged within ``docs``, otherwise to a page with the file.

On a code host the link of a page to ``../examples/c`` opens that folder. The site has no such
folder, so each file that a page links to becomes a page, `files/PATH.md`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from pathlib import Path

# Pages at the top of the repository, and their places in the site.
TOP = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changelog.md",
    "docs/start.ipynb": "notebook.md",
    "docs/adr": "adr/index.md",
}

FENCED = re.compile(r"^(?P<fence>`{3,}|~{3,}).*?^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?P<before>\]\()(?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?(?P<after>\))")

LANGUAGES = {".py": "python", ".c": "c", ".h": "c", ".cpp": "cpp", ".hpp": "cpp", ".urdf": "xml"}
LANGUAGES |= {".toml": "toml", ".md": "markdown", ".json": "json", ".v": "verilog", ".tcl": "tcl"}


def outside(root: Path, pages: Mapping[str, str]) -> dict[str, str]:
    """Return pages that show the files outside ``docs`` that pages link to, by their names.

    Parameters
    ----------
    root : the root of the repository.
    pages : the text of each page under ``docs``, by its path there.
    """
    top_pages = {
        name: (root / source).read_text("utf-8")
        for source, name in TOP.items()
        if source.endswith(".md") and name.startswith("project/")
    }
    for page, text in {**pages, **top_pages}.items():
        for match in LINK.finditer(FENCED.sub("", text)):
            path = _in_repository(page, match["target"])
            if path is not None and path not in TOP and not path.startswith("docs/"):
                top_pages |= _shown(root, path)
    return top_pages


def inside(root: Path, page: str, markdown: str) -> str:
    """Return the text of a page with its links as the site needs them.

    Parameters
    ----------
    root : the root of the repository.
    page : the page's path in the site's source.
    markdown : its text.
    """

    def one(match: re.Match[str]) -> str:
        path = _in_repository(page, match["target"])
        if path is None:
            return match[0]
        if path in TOP:
            target = TOP[path]
        elif path.startswith("docs/"):
            target = path.removeprefix("docs/")
        else:
            target = _page_of(root, path)
        target = posixpath.relpath(target, posixpath.dirname(page) or ".")
        return f"{match['before']}{target}{match['anchor'] or ''}{match['after']}"

    return _outside_code(markdown, lambda text: LINK.sub(one, text))


def _in_repository(page: str, target: str) -> str | None:
    """Return the path of a link's target from the root, or None for another site."""
    if "://" in target or target.startswith(("mailto:", "/")):
        return None
    origins = {name: source for source, name in TOP.items() if name.startswith("project/")}
    folder = posixpath.dirname(origins.get(page, f"docs/{page}"))
    path = posixpath.normpath(posixpath.join(folder, target))
    return None if path.startswith("..") else path


def _page_of(root: Path, path: str) -> str:
    return f"files/{path}/index.md" if (root / path).is_dir() else f"files/{path}.md"


def _shown(root: Path, path: str) -> dict[str, str]:
    place = root / path
    if place.is_dir():
        within = sorted(p for p in place.iterdir() if p.is_file() and _is_text(p))
        folder_pages = {
            f"files/{path}/{p.name}.md": _file_page(p, f"{path}/{p.name}") for p in within
        }
        lines = [f"- [{p.name}]({p.name}.md)" for p in within]
        folder_pages[_page_of(root, path)] = _head(path) + "\n".join(lines) + "\n"
        return folder_pages
    # MkDocs reports broken links.
    return {_page_of(root, path): _file_page(place, path)} if place.is_file() else {}


def _file_page(place: Path, path: str) -> str:
    text = place.read_text("utf-8")
    fence = "`" * (3 + max((len(run) for run in re.findall(r"`{3,}", text)), default=0))
    return f"{_head(path)}{fence}{LANGUAGES.get(place.suffix, 'text')}\n{text}\n{fence}\n"


def _head(path: str) -> str:
    return f"---\nsearch:\n  exclude: true\nhide:\n  - navigation\n---\n\n# `{path}`\n\n"


def _is_text(place: Path) -> bool:
    return b"\0" not in place.read_bytes()[:4096] and place.stat().st_size < 200_000


def _outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """Change a text outside its fenced blocks."""
    parts, place = [], 0
    for fenced in FENCED.finditer(markdown):
        parts += [change(markdown[place : fenced.start()]), fenced[0]]
        place = fenced.end()
    return "".join([*parts, change(markdown[place:])])
