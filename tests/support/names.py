"""Check of names in sources: ``python -m tests.support.names [PATH ...]``.

A name says what its value is, not how it came about or that it is there, and a public class has a
name that no other module of the product gives to another one.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PRODUCT = ("fixedpoint", "sw", "hw", "sim")

FOLDERS = (*PRODUCT, "tests", "benchmarks", "examples", "docs", ".ci")

VAGUE = frozenset(
    [
        "asked",
        "came",
        "chosen",
        "done",
        "drawn",
        "found",
        "given",
        "got",
        "held",
        "here",
        "kept",
        "known",
        "made",
        "one",
        "own",
        "said",
        "seen",
        "shown",
        "taken",
        "there",
        "told",
        "tried",
        "wanted",
        "what",
    ]
)
"""Participles and pronouns that say nothing about a value."""

KEYS = {Path("sim/pinion/campaign/plan.py"): ("what",)}
"""Names that are keys of stored files, by module."""


def vague_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of every variable and parameter with a vague name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE:
            yield node.lineno, node.id
        elif isinstance(node, ast.arg) and node.arg in VAGUE:
            yield node.lineno, node.arg


def repeated_classes(sources: Mapping[Path, str]) -> Iterator[tuple[Path, int, str]]:
    """Yield file, line and name of every public class whose name an earlier file has used."""
    first: dict[str, Path] = {}
    for file, source in sources.items():
        classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
        for node in classes:
            if not node.name.startswith("_") and first.setdefault(node.name, file) != file:
                yield file, node.lineno, node.name


def main(arguments: Sequence[str] | None = None) -> int:
    """Print vague and repeated names; return 1 if there are any, and 2 if no file was read."""
    roots = list(sys.argv[1:] if arguments is None else arguments) or list(FOLDERS)
    files = sorted(f for r in map(Path, roots) for f in ([r] if r.is_file() else r.rglob("*.py")))
    names = [
        (f, *name)
        for f in files
        for name in sorted(set(vague_names(f.read_text())))
        if name[1] not in KEYS.get(f, ())
    ]
    for file, line, name in names:
        print(f"{file}:{line}: name '{name}' does not say what it holds")
    product = {f: f.read_text() for f in files if f.parts[0] in PRODUCT}
    classes = list(repeated_classes(product))
    for file, line, name in classes:
        print(f"{file}:{line}: another module has a class '{name}'")
    if not files:
        print(f"no Python files under {', '.join(roots)}", file=sys.stderr)
        return 2
    return 1 if names or classes else 0


if __name__ == "__main__":
    raise SystemExit(main())
