"""Convert sections of docstrings to lists before mkdocstrings sees them.

Docstrings here say ``name : meaning, with shape and unit``, and list members of a class under
"Members". Parsers of NumPy's style would take the text after the colon for a type.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

SECTION = re.compile(r"^(?P<title>[A-Z]\w+)\n-{3,}\n", re.MULTILINE)
ENTRY = re.compile(r"^(?P<names>[\w*`][\w.*`, ]*?) : (?P<text>.*)$")
# An error class alone on its line, with its reason below.
ALONE = re.compile(r"^[\w.]+(?:, [\w.]+)*$")


class Sections(Extension):
    """Rewrite the docstring of each loaded object."""

    def on_object(self, *, obj: Object, **parameters: Any) -> None:
        """Rewrite one docstring."""
        del parameters
        if obj.docstring is not None:
            obj.docstring.value = listed(obj.docstring.value)


def listed(text: str) -> str:
    """Return a docstring with its sections as bold headings and Markdown lists."""
    parts = SECTION.split(text)
    sections = [parts[0].rstrip()]
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        sections.append(f"**{title}**\n\n{_body(body.rstrip())}")
    return "\n\n".join(sections)


def _body(text: str) -> str:
    formatted: list[str] = []
    lines = text.splitlines()
    items = False
    for number, line in enumerate(lines):
        below = lines[number + 1] if number + 1 < len(lines) else ""
        entry = ENTRY.match(line)
        if entry:
            formatted.append(f"- `{entry['names'].replace('`', '')}`: {entry['text']}")
            items = True
        elif ALONE.match(line) and below.startswith("    "):
            formatted.append(f"- `{line}`:")
            items = True
        elif items and line.startswith(" "):
            formatted.append(f"    {line.strip()}")
        else:
            # Text after a list begins a new paragraph.
            if items and line.strip() and formatted and formatted[-1].strip():
                formatted.append("")
            items = items and not line.strip()
            formatted.append(line)
    return "\n".join(formatted)
