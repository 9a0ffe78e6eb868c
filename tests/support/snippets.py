"""Code on pages: blocks of Python, and uses of the command line.

Blocks of a page become one program whose lines have the numbers that they have on the page,
so that a traceback names the place to mend.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>[\w+-]*)[^`\n]*$")
COMMAND = re.compile(r"^\s*(?:\$ )?(?:\.venv/bin/|\.\./)?pinion (?P<rest>[a-z].*)$")
INLINE = re.compile(r"`pinion ([a-z][^`]*)`")


@dataclass(frozen=True)
class Block:
    """Fenced code block of a page.

    Members
    -------
    language : the text after the fence; may be empty.
    line : of the page, of the block's first line of code, from 1.
    text : the code, without the indentation of the fence.
    """

    language: str
    line: int
    text: str


@dataclass(frozen=True)
class Command:
    """Use of the command ``pinion`` on a page.

    Members
    -------
    line : of the page, from 1.
    arguments : the words after ``pinion``.
    whole : False within a sentence, which may leave arguments out.
    """

    line: int
    arguments: tuple[str, ...]
    whole: bool


def blocks(page: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page, in order."""
    lines = page.splitlines()
    number = 0
    while number < len(lines):
        opened = FENCE.match(lines[number])
        number += 1
        if opened is None:
            continue
        start = number
        closing = re.compile(rf"^ *{opened['fence']}`*\s*$")
        while number < len(lines) and not closing.match(lines[number]):
            number += 1
        text = textwrap.dedent("\n".join(lines[start:number])) + "\n"
        yield Block(language=opened["language"], line=start + 1, text=text)
        number += 1


def program(page: Sequence[Block], before: str = "") -> str:
    """Join blocks to one program in which each line has the number that it has on the page.

    Parameters
    ----------
    page : blocks in order.
    before : statements that run first, on the first line.
    """
    lines = [before.replace("\n", "; ")]
    for block in page:
        lines += [""] * (block.line - 1 - len(lines))
        lines += block.text.splitlines()
    return "\n".join(lines) + "\n"


def run(text: str, *, name: str, folder: Path, limit: float = 1800.0) -> str:
    """Run a program in a separate process; return its error output, or "" if it succeeds.

    Parameters
    ----------
    name : of the file, which a traceback shows.
    folder : to run in.
    limit : seconds that only end a program that hangs.
    """
    place = folder / name
    place.write_text(text, encoding="utf-8")
    environment = {**os.environ, "MPLBACKEND": "agg"}
    command = [sys.executable, place.name]
    process = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=limit
    )
    return "" if process.returncode == 0 else process.stderr or f"exit code {process.returncode}"


def imports(block: Block) -> list[str]:
    """Return all import statements in a block, at any level.

    Raises
    ------
    SyntaxError : the block is no Python.
    """
    tree = ast.parse(block.text)
    return [ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]


def commands(page: str) -> Iterator[Command]:
    """Yield every use of the command ``pinion`` on a page."""
    inside = False
    joined, start = "", 0
    for number, line in enumerate(page.splitlines(), start=1):
        if FENCE.match(line):
            inside = not inside
            continue
        if joined:
            line, joined = f"{joined} {line.strip()}", ""
        else:
            start = number
        if line.endswith("\\") and COMMAND.match(line):
            joined = line[:-1].rstrip()
            continue
        match = COMMAND.match(line)
        if match and (inside or line.startswith("    ")):
            # A second command, or an explanation, follows after some space.
            for part in re.split(r"\s{2,}(?=pinion )", match["rest"]):
                yield _command(start, part.removeprefix("pinion "), whole=True)
        elif not inside:
            for rest in INLINE.findall(line):
                yield _command(start, rest, whole=False)


def _command(line: int, rest: str, *, whole: bool) -> Command:
    rest = re.split(r"\s{2,}|\s#", rest)[0]
    # Alternatives: any of them.
    rest = re.sub(r"(?<=[\w.])\|[\w.|-]+", "", rest)
    return Command(line=line, arguments=tuple(shlex.split(rest)), whole=whole)


def complaint(verbs: Mapping[str, Any], command: Command) -> str:
    """Parse a command without running it; return the command line's error message, or ""."""
    verb, *rest = command.arguments
    if verb not in verbs:
        return f"there is no verb '{verb}'"
    if "--help" in rest:
        return ""
    try:
        verbs[verb].make_context(f"pinion {verb}", list(rest))
    except Exception as error:  # the command line's own classes moved between versions of Typer
        format_message = getattr(error, "format_message", None)
        message = str(error if format_message is None else format_message())
        left_out = type(error).__name__ == "MissingParameter" or "requires an argument" in message
        return "" if left_out and not command.whole else message
    return ""
