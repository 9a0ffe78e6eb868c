"""Links in Markdown pages, and the anchors that code hosts and the site give to headings."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path

LINK = re.compile(r"\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
DEFINED = re.compile(r"^\[[^\]]+\]:\s+(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6} +(.+?)(?: +#+)?$", re.MULTILINE)
EXPLICIT = re.compile(r"(?:id|name)=\"([^\"]+)\"|\{ *#([\w-]+)[^}]*\}")
CODE = re.compile(r"^(?P<fence>`{3,}|~{3,}).*?^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL)


def anchors(page: str) -> set[str]:
    """Return the anchors of a page: one for each heading, numbered if two are alike."""
    plain = CODE.sub("", page)
    slugs: set[str] = set()
    for heading in HEADING.findall(plain):
        slug = slug_of(re.sub(r"\{ *[#.][^}]*\}$", "", heading))
        name, count = slug, 0
        while name in slugs:
            count += 1
            name = f"{slug}-{count}"
        slugs.add(name)
    return slugs | {a or b for a, b in EXPLICIT.findall(plain)}


def slug_of(heading: str) -> str:
    """Return the anchor of a heading: lower case, no punctuation, a hyphen for each space."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = unicodedata.normalize("NFC", re.sub(r"[`*]", "", text)).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def broken(root: Path, pages: Mapping[str, str]) -> list[str]:
    """Return the links in pages to files or headings that do not exist.

    Parameters
    ----------
    root : of the repository.
    pages : their texts by their paths from the root.
    """
    wrong = []
    for name, text in pages.items():
        # A code span shows a link, it does not make one.
        plain = re.sub(r"`[^`\n]*`", "x", CODE.sub("", text))
        for target in [*LINK.findall(plain), *DEFINED.findall(plain)]:
            if "://" in target or target.startswith("mailto:"):
                continue
            path, _, anchor = target.partition("#")
            place = (root / name).parent / path if path else root / name
            targets = anchors(text) if not path else None
            if path and not place.exists():
                wrong.append(f"{name}: {target}: there is no such file")
            elif anchor and place.suffix == ".md":
                if targets is None:
                    targets = anchors(place.read_text("utf-8"))
                if anchor in targets:
                    continue
                wrong.append(f"{name}: {target}: no heading has this anchor")
    return wrong
