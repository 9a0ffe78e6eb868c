"""Check for functions with too many parameters: ``python -m tests.support.parameters``.

A function with more than eight asks for an object. One that stays has a comment above it that
begins with ``Many parameters:`` and says why. The options of a verb are its parameters, because
Typer reads them there.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

MOST = 8
REASON = "# Many parameters: "
FOLDERS = ("fixedpoint", "sw", "hw", "sim", "benchmarks")
VERBS = "sw/pinion/cli/"


def count(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of a function's parameters, not counting ``self`` and ``cls``."""
    args = function.args
    names = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    return sum(name not in ("self", "cls") for name in names)


def long_lists(source: str) -> Iterator[tuple[int, str, int, bool]]:
    """Yield functions with more than `MOST` parameters: line, name, number, has a reason."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and count(node) > MOST:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            above = lines[: first - 1]
            while above and above[-1].lstrip().startswith("#"):
                if above[-1].lstrip().startswith(REASON):
                    break
                above.pop()
            reason = bool(above) and above[-1].lstrip().startswith(REASON)
            yield node.lineno, node.name, count(node), reason


def main(root: Path = Path()) -> int:
    """Print functions with too many parameters and no stated reason; return 0 if there are none."""
    checked, wrong = 0, []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            for line, function, parameters, reason in long_lists(path.read_text()):
                checked += 1
                if not reason and not (name.startswith(VERBS) and function == "command"):
                    wrong.append(f"{name}:{line}: '{function}' has {parameters} parameters")
    if not checked:
        wrong.append(f"no function has more than {MOST} parameters: was anything read?")
    for text in wrong:
        print(f"parameters: {text}; make an object, or say why above it", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
