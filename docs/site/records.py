"""The list of decision records: its page and its menu."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = "docs/adr"


def pages(root: Path) -> dict[str, str]:
    """Return the page that lists the records with their titles."""
    lines = [f"- [{title}]({path.name})" for path, title in _records(root)]
    text = "# Decisions\n\nWhat is expensive to reverse, with reasons and alternatives.\n\n"
    return {"adr/index.md": text + "\n".join(lines) + "\n"}


def menu(root: Path) -> list[str]:
    """Return the pages of the section, the list first."""
    return ["adr/index.md", *(f"adr/{path.name}" for path, _ in _records(root))]


def _records(root: Path) -> list[tuple[Path, str]]:
    listed = []
    for path in sorted((root / FOLDER).glob("*.md")):
        heading = re.search(r"^# (.+)$", path.read_text("utf-8"), re.MULTILINE)
        listed.append((path, heading[1] if heading else path.stem))
    return listed
