"""The main call paths are typed: mypy knows the callee of each call on them.

A copy of a module, in which every callee of a function is revealed, replaces it while mypy runs. A
callee of type `Any` is a call that neither a checker nor a reader can follow.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

WAYS: dict[str, dict[str, tuple[str, ...]]] = {
    "from pinion.api.build to gateware": {
        "sw/pinion/api/builds.py": ("build", "build_requested"),
        "hw/pinion/flow/build.py": ("build", "_judge", "_measure", "_elaborate", "_write"),
        "hw/pinion/flow/design.py": ("make_design", "schedule"),
        "hw/pinion/hls/design.py": ("design",),
        "hw/pinion/gateware/emit.py": ("core_rtlil",),
    },
    "from backend to the compiled call": {
        "sw/pinion/api/backends.py": ("backend",),
        "sw/pinion/compute/backend.py": ("open_backend", "run", "__call__"),
        "sw/pinion/compute/cpu.py": ("compile", "__call__", "_compute"),
    },
    "from Device.run to the transport": {
        "sw/pinion/driver/device.py": ("run", "submit", "_submit"),
        "sw/pinion/driver/session.py": ("submit", "run", "_accept"),
    },
}

UNTYPED = {"rtlil.convert"}
"""Callees, as written, of a package without types: Amaranth."""


class _Revealed(ast.NodeTransformer):
    """Wraps callees in ``reveal_type``, in some functions of a module."""

    def __init__(self, functions: tuple[str, ...]) -> None:
        self.functions = functions
        self.callees: dict[int, str] = {}
        self._inside = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        named = node.name in self.functions
        self._inside += named
        node.body = [self.visit(statement) for statement in node.body]
        self._inside -= named
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        text = ast.unparse(node.func)
        self.generic_visit(node)
        if not self._inside or text == "super" or text in UNTYPED:
            return node
        wrapped = ast.Call(ast.Name("reveal_type", ast.Load()), [node.func], [])
        node.func = ast.copy_location(wrapped, node.func)
        return node


def revealed(source: str, functions: tuple[str, ...]) -> str:
    """Return a module's text with every callee of these functions revealed."""
    tree = _Revealed(functions).visit(ast.parse(source))
    return ast.unparse(ast.fix_missing_locations(tree))


def callees(root: Path, folder: Path, shadows: dict[str, str]) -> list[tuple[str, str]]:
    """Return place and type of each revealed callee, with these texts replacing files."""
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(folder / "cache")]
    for number, (name, text) in enumerate(shadows.items()):
        shadow = folder / f"{number}.py"
        shadow.write_text(text)
        command += ["--shadow-file", name, str(shadow)]
    process = subprocess.run(
        [*command, *shadows], cwd=root, capture_output=True, text=True, check=False
    )
    return re.findall(r'^(\S+: \w+: )Revealed type is "(.*)"', process.stdout, re.MULTILINE)


def test_every_call_on_the_ways_is_resolved(root: Path, tmp_path: Path) -> None:
    shadows = {
        name: revealed((root / name).read_text(), functions)
        for way in WAYS.values()
        for name, functions in way.items()
    }
    for way in WAYS.values():
        for name, functions in way.items():
            defined = {
                n.name
                for n in ast.walk(ast.parse((root / name).read_text()))
                if isinstance(n, ast.FunctionDef)
            }
            assert defined >= set(functions), f"{name} has no {set(functions) - defined}"
    types = callees(root, tmp_path, shadows)
    assert len(types) > 100
    unknown = [f"{where}{kind}" for where, kind in types if kind == "Any"]
    assert not unknown, "mypy does not know what is called: " + "; ".join(unknown)


@pytest.mark.slow
def test_a_look_up_by_name_is_noticed(root: Path, tmp_path: Path) -> None:
    text = revealed(
        "from importlib import import_module\n"
        "def build() -> object:\n"
        '    return getattr(import_module("pinion.flow.build"), "build")(1)\n',
        ("build",),
    )
    types = callees(root, tmp_path, {"sw/pinion/api/builds.py": text})
    assert "Any" in [kind for _, kind in types]
