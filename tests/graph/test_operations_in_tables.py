"""Operations are looked up in tables: only one module spells their names.

A file that asks ``node.op == "mul"`` has to be found and changed when an operation is added or
split; one that asks the table for its family or its unit does not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinion.graph import OPS

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("sw/pinion/graph", "sw/pinion/functions", "hw/pinion", "sim/pinion")
TABLES = {"sw/pinion/graph/names.py", "sw/pinion/graph/ops.py"}

# Calls that take an operation's name.
CALLS = {"emit", "Node", "count", "latency", "price"}


def _is_op(node: ast.AST) -> bool:
    """``op``, ``node.op``, ``self.nodes[i].op``."""
    return (isinstance(node, ast.Name) and node.id == "op") or (
        isinstance(node, ast.Attribute) and node.attr == "op"
    )


def _spelled(*parts: ast.AST | None) -> set[str]:
    """Names of operations that are spelled in expressions or patterns, but not in their calls."""
    names = set()
    todo = [part for part in parts if part is not None]
    while todo:
        part = todo.pop()
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value in OPS:
            names.add(part.value)
        if not isinstance(part, ast.Call):
            todo += ast.iter_child_nodes(part)
    return names


def spelled(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of each operation that code spells in comparisons, emissions and look-ups."""
    for node in ast.walk(tree):
        names: set[str] = set()
        match node:
            case ast.Compare() if any(map(_is_op, (node.left, *node.comparators))):
                names = _spelled(node.left, *node.comparators)
            case ast.Match() if _is_op(node.subject):
                names = _spelled(*(case.pattern for case in node.cases))
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in CALLS:
                names = _spelled(*node.args, *(keyword.value for keyword in node.keywords))
            case ast.Subscript(value=ast.Name(id="OPS"), slice=which):
                names = _spelled(which)
            case ast.Subscript(value=ast.Dict(keys=keys), slice=which) if _is_op(which):
                names = _spelled(*keys)
            case ast.Call(func=ast.Attribute(value=ast.Dict(keys=keys), attr="get"), args=args):
                names = _spelled(*keys) if any(map(_is_op, args)) else set()
        yield from ((node.lineno, name) for name in sorted(names))


def files() -> list[Path]:
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(paths) > 80
    return [path for path in paths if path.relative_to(ROOT).as_posix() not in TABLES]


def test_no_file_beside_the_tables_spells_an_operation() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: '{name}'"
        for path in files()
        for line, name in spelled(ast.parse(path.read_text()))
    ]
    assert not wrong, "take it from pinion.graph.names, or ask the table:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("x.op == 'mul'", ["mul"]),
        ("'mul' != node.op", ["mul"]),
        ("graph.nodes[i].op in ('sin', 'cos')", ["cos", "sin"]),
        ("op not in {'input', names.CONST}", ["input"]),
        ("match node.op:\n    case 'add' | 'sub':\n        pass", ["add", "sub"]),
        ("match node.op, 1:\n    case names.ADD, 1:\n        pass", []),
        ("to.emit('neg', (x,), like=node)", ["neg"]),
        ("emit(op='neg')", ["neg"]),
        ("Node('const', (), (1.0,))", ["const"]),
        ("graph.count('mul', 'dot')", ["dot", "mul"]),
        ("costs.price('add') + timing.latency('add')", ["add", "add"]),
        ("OPS['quantize']", ["quantize"]),
        ("{'sum': 1, 'other': 2}[node.op]", ["sum"]),
        ("{'sum': 1}.get(node.op, 0)", ["sum"]),
        # Hardware units and keys of figures share these names.
        ("kind.name == 'dot'", []),
        ("counts['mul'] + counts['add']", []),
        ("node.op == names.MUL", []),
        ("node.op == 'dot4'", []),
    ],
)
def test_the_check_bites(code: str, names: list[str]) -> None:
    assert [name for _, name in spelled(ast.parse(code))] == names


def test_a_mutant_of_each_pass_is_noticed() -> None:
    """A name that is spelled out, instead of `names.MUL` and its like."""
    mutants = 0
    for path in files():
        text = path.read_text()
        for row in OPS:
            changed = text.replace(f"names.{row.upper()}", f'"{row}"')
            if changed != text and (spellings := list(spelled(ast.parse(changed)))):
                assert {name for _, name in spellings} == {row}
                mutants += 1
    assert mutants > 30
