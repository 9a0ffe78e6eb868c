"""Figures on pages, and whether a reader can reproduce them by a command or from a source.

A *figure* is a number with a unit of something measured or counted (times, rates, cells, shares),
or a table of numbers. It is *repeatable* where its section names a command, a test, a commit or a
publication; whether that prints the figure is for the reader of a change to see. Numbers without
such a unit (bits, bytes, tolerances) are mostly constants of a format, and are left alone, as is
code.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.snippets import FENCE, blocks

_UNITS = (
    r"ns|us|ms|s|seconds?|minutes?|hours?|MHz|[kMG]B(?:/s)?|%|mm|mrad|times|mismatches"
    r"|requests a second|cycles|products|multipliers|multiplications|arcs|mutants"
    r"|LUT4?s?|lookup tables|DSP48E2|DSP blocks|flip-flops"
)
_FIGURE = re.compile(rf"(?<![\w.`^-])\d[\d,.]*(?:e[+-]?\d+)? ?(?:{_UNITS})(?!\w)")

_COMMAND = re.compile(
    r"(?:`|^ *(?:\$ )?)(?:\.venv/bin/)?"
    r"(?:pinion [a-z]|make [a-z]|python (?:-m )?(?:benchmarks|examples|tests|pinion|pytest)\b)",
    re.MULTILINE,
)
_SOURCE = re.compile(
    r"\b(?:19|20)\d\d\b|\bissue \d+|\bcommit [0-9a-f]{7,}|`tests/[\w/]+(?:\.py)?`"
    r"|\]\([^)\s]*(?:adr/\d{4}[\w.-]*|results\.md|robots\.md|scaling\.md)[^)]*\)"
)
# A table that is made from code, which a test compares with the page.
_FROM_CODE = re.compile(r"<!-- table: .*?<!-- end -->", re.DOTALL)
_NUMBER = re.compile(r"[-+~]?\*{0,2}\d")
_TITLE = re.compile(r"^#{1,3} ")


@dataclass(frozen=True)
class Section:
    """Section of a page under a heading of level 1 to 3.

    Members
    -------
    title : of the heading, without its signs; empty where a page begins without one.
    line : of the page, of the heading, from 1.
    text : the heading, and the text up to the next heading.
    """

    title: str
    line: int
    text: str


def sections(page: str) -> Iterator[Section]:
    """Yield the sections of a page, in order."""
    title, start, lines, fence = "", 1, list[str](), ""
    for number, line in enumerate(page.splitlines(), start=1):
        opened = FENCE.match(line)
        if opened and not fence:
            fence = opened["fence"]
        elif fence and line.strip() == fence:
            fence = ""
        if not fence and _TITLE.match(line):
            yield Section(title=title, line=start, text="\n".join(lines))
            title, start, lines = line.lstrip("# "), number, []
        lines.append(line)
    yield Section(title=title, line=start, text="\n".join(lines))


def figures(text: str) -> list[str]:
    """Return the figures in a section's prose, and the header of each table of numbers."""
    prose = re.sub(r"`[^`\n]*`", "``", _FROM_CODE.sub("", _without_code(text)))
    return [*_FIGURE.findall(prose), *tables_of_numbers(prose)]


def tables_of_numbers(text: str) -> list[str]:
    """Return headers of tables in which half of the cells after the first column are numbers."""
    heads = []
    for table in re.findall(r"(?:^ *\|.*\|$\n?){3,}", text, re.MULTILINE):
        head, _, *rows = table.strip().splitlines()
        cells = [cell.strip() for row in rows for cell in row.strip().strip("|").split("|")[1:]]
        if len(cells) > 1 and 2 * sum(bool(_NUMBER.match(cell)) for cell in cells) >= len(cells):
            heads.append(head.strip())
    return heads


def is_repeatable(text: str) -> bool:
    """Return whether a section names a command or a source for its figures."""
    return bool(_COMMAND.search(text) or _SOURCE.search(text))


def bare(page: str) -> list[Section]:
    """Return the sections that have figures, but name neither a command nor a source."""
    return [s for s in sections(page) if figures(s.text) and not is_repeatable(s.text)]


def _without_code(text: str) -> str:
    return re.sub(r"^ *(`{3,})[^`\n]*$.*?^ *\1 *$", "", text, flags=re.MULTILINE | re.DOTALL)


# ---- programs besides the command line -----------------------------------------------------------

_OURS = r"python (?:-m )?(?:benchmarks|examples|tests|pinion)[./][^`\n]*"
_INLINE = re.compile(rf"`(?:\.venv/bin/)?({_OURS}(?:\n[^`\n]+)?)`")
_LINE = re.compile(rf"^ *(?:\$ )?(?:\.venv/bin/)?({_OURS})$", re.MULTILINE)
_INDENTED = re.compile(rf"^    (?:\$ )?(?:\.venv/bin/)?({_OURS})$", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """Command on a page that runs one of the repository's programs with Python.

    Members
    -------
    name : a module, or a file by its path.
    arguments : the words after it.
    """

    name: str
    arguments: tuple[str, ...]


def programs(page: str) -> Iterator[Program]:
    """Yield every program that a page runs, in sentences and in code blocks."""
    prose = _without_code(page)
    lines = [" ".join(command.split("\n")) for command in _INLINE.findall(prose)]
    lines += _INDENTED.findall(prose)
    for block in blocks(page):
        if block.language in ("", "sh"):
            lines += _LINE.findall(block.text)
    for line in lines:
        # An explanation or a redirection follows after some space or a sign.
        name, *rest = shlex.split(re.split(r"\s{2,}|\s#|\s>", line)[0].removeprefix("python "))
        name, *rest = rest if name == "-m" else (name, *rest)
        yield Program(name=name, arguments=tuple(rest))


def complaint(root: Path, packages: Sequence[Path], program: Program) -> str:
    """Return what is wrong with a program's command, or "".

    Parameters
    ----------
    root : of the repository.
    packages : folders of packages of the name ``pinion``.
    """
    place = _file_of(root, packages, program.name)
    if place is None:
        return f"there is no program {program.name}"
    options = _options(place)
    for word in program.arguments:
        option = word.partition("=")[0]
        if option.startswith("-") and option != "--" and option not in options:
            return f"{program.name} has no option {option}"
    return ""


def _file_of(root: Path, packages: Sequence[Path], name: str) -> Path | None:
    if name.endswith(".py"):
        return root / name if (root / name).is_file() else None
    first, *rest = name.split(".")
    tops = [p.parent for p in packages] if first == "pinion" else [root / first]
    for top in tops:
        place = top.joinpath(*rest)
        for file in (place.with_suffix(".py"), place / "__main__.py"):
            if file.is_file():
                return file
    return None


def _options(place: Path) -> set[str]:
    """Return the option strings that a program's source passes to `add_argument`."""
    return {
        word.value
        for node in ast.walk(ast.parse(place.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("add_argument")
        for word in node.args
        if isinstance(word, ast.Constant) and isinstance(word.value, str)
    } | {"--help", "-h"}
