"""Error sentences name parameters of Python calls, with command options in brackets.

An error of `pinion.build(...)` that only says `--max-error` leaves a reader of Python to guess.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

# The command line itself, and files that are written by commands.
COMMANDS = (
    "sw/pinion/__main__.py",
    "sw/pinion/bench/",
    "sw/pinion/cli/",
    "sw/pinion/console/",
    "sw/pinion/compute/export.py",
    "sw/pinion/compute/cuda/export_texts.py",
)

# Programs of others, and Pinion's own commands where they are named.
COMMAND_LINES = re.compile(
    r"`[^`]*`|'pinion [^']*'|pinion [a-z]+( DIR)?( --[\w-]+)+|--resources '.*"
)
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
BRACKETS = re.compile(r"\([^()]*\)")


def bare_options(sentence: str) -> list[str]:
    """Return options that are neither in brackets nor in a command."""
    return OPTION.findall(BRACKETS.sub("", COMMAND_LINES.sub("", sentence)))


def sentences(tree: ast.AST) -> Iterator[str]:
    """Yield a module's texts of several words, without docstrings, with values as `{}`."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    skipped = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            text = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if id(node) not in skipped and len(text.split()) > 2:
            yield text


def test_sentences_name_parameters(root: Path) -> None:
    wrong, with_options = [], 0
    for folder in ("fixedpoint", "hw", "sim", "sw"):
        for path in sorted((root / folder).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if name.startswith(COMMANDS):
                continue
            for text in sentences(ast.parse(path.read_text())):
                with_options += bool(OPTION.search(text))
                wrong += [f"{name}: {option} in {text!r}" for option in bare_options(text)]
    assert with_options > 10, "options are looked for where there are none"
    assert not wrong, "name the parameter, and the option in brackets: " + "; ".join(wrong)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ask for --ii 4 or more.", ["--ii"]),
        ("Ask for ii=4 (--ii) or more.", []),
        ("run `pinion verify --netlist` again", []),
        ("Leave seed (--seed) and --vivado out.", ["--vivado"]),
    ],
)
def test_bare_options_are_found(text: str, expected: list[str]) -> None:
    assert bare_options(text) == expected
