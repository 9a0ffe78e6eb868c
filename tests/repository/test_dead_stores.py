"""The check of dead stores finds overwritten values, and nothing else."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest

from tests.support.dead_stores import dead_stores, main

# The verdict of a demonstration, as it once was: two flags by one name.
TWO_FLAGS = """
exact = all(f["mismatches"] == 0 for f in figures.values())
inside = all(f["budget_held"] for f in figures.values())
exact = all(f["accuracy_held"] for f in figures.values())
say(exact, inside)
"""

X1, X2 = ("x", 1), ("x", 2)


def found(body: str, arguments: str = "f, xs, figures, say") -> list[tuple[str, int]]:
    """Return names and lines, counted from the body's first, of a function's dead stores."""
    source = f"def function({arguments}):\n" + indent(dedent(body).strip("\n"), "    ") + "\n"
    return [(store.name, store.line - 1) for store in dead_stores(source)]


@pytest.mark.parametrize(
    ("body", "dead"),
    [
        (TWO_FLAGS, ("exact", 1)),
        ("x = f()\nx = 2\nreturn x", X1),
        ("x: int = 1\nx = 2\nreturn x", X1),
        ("x, y = f()\nx = 2\nreturn x, y", X1),
        ("x = 1\nif f:\n    x = 2\nelse:\n    x = 3\nreturn x", X1),
        ("for k in xs:\n    x = k\n    x = f(k)\n    say(x)", X2),
        ("x = 0\nfor x in xs:\n    say(x)", X1),
        ("while f():\n    x = 1\n    if xs:\n        x = 2\n        break\n    x = 3\nsay(x)", X2),
        ("x = 1\ntry:\n    x = f()\nexcept ValueError:\n    x = 2\nreturn x", X1),
        ("x = 1\nwith f() as x:\n    return x", X1),
        ("x = 1\nmatch f:\n    case 1:\n        x = 2\n    case _:\n        x = 3\nsay(x)", X1),
        ("if (x := f()):\n    x = 2\n    return x", X1),
        ("x = 1\n(say(x := 2), say(x))", X1),
        ("x = [x for x in xs]\nx = 1\nreturn x", X1),
        ("x = 1\nx = 2\nreturn [x for y in xs]", X1),
    ],
)  # fmt: skip
def test_what_is_overwritten_is_found(body: str, dead: tuple[str, int]) -> None:
    assert found(body) == [dead]


@pytest.mark.parametrize(
    "body",
    [
        "x = f()\nx = x + 1\nreturn x",
        "x = 1\nif f:\n    x = 2\nreturn x",
        "x = 1\nwhile f(x):\n    x = 2",
        "x = None\nfor k in xs:\n    if x:\n        return x\n    x = k",
        "x = None\nfor k in xs:\n    x = k\nreturn x",
        "x = 1\nfor k in xs:\n    if k:\n        continue\n    x = 2\nreturn x",
        "x = 1\ntry:\n    x = f()\nexcept ValueError:\n    pass\nreturn x",
        "x = 1\ntry:\n    say()\n    x = f()\nfinally:\n    say(x)",
        "try:\n    x = 1\n    f()\n    x = 2\n    f()\nexcept ValueError:\n    say(x)",
        "x = 1\nwith f():\n    x = say()\nreturn x",
        "x = 1\ny = x if f else 2\nx = 3\nreturn x, y",
        "x = 1\nmatch f:\n    case 1:\n        x = 2\n    case _ if xs:\n        x = 3\nsay(x)",
        "x = 1\nmatch f:\n    case 1:\n        x = 2\n    case [y]:\n        x = y\nsay(x)",
        "x = 1\nf and (x := 2)\nreturn x",
        "y = {k: x for k in xs if (x := f(k))}\nfor x in y:\n    say(x)",
        "x = 1\ny = [x for y in xs]\nx = 2\nreturn x, y",
        "x = xs[0]\nx += [1]\nx = xs[1]\nreturn x",
        "x = 1\ndef inner():\n    return x\ninner()\nx = 2\ninner()",
        "x = 1\nsay(lambda: x)\nx = 2",
        "global x\nx = 1\nf()\nx = 2",
        "_x = 1\n_x = 2\nreturn _x",
        "x = 1\ndel x\nx = 2\nreturn x",
        "xs[0] = 1\nxs[0] = 2",
        "x = f()\nif x:\n    raise ValueError\nx = 2\nreturn x",
        "x = f()\nassert x\nx = 2\nreturn x",
        "x: int\nx = 2\nreturn x",
    ],
)
def test_what_may_be_read_is_not(body: str) -> None:
    assert found(body) == []


def test_methods_and_inner_functions_are_looked_at() -> None:
    inner = "def g():\n    x = 1\n    x = 2\n    return x\n"
    source = "class A:\n    def f(self):\n" + indent(inner, "        ")
    assert [(s.name, s.line, s.overwritten) for s in dead_stores(source)] == [("x", 4, (5,))]


def test_a_dead_store_is_said_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "good.py").write_text("def f():\n    return 1\n")
    assert main([str(folder)]) == 0 and not capsys.readouterr().err
    bad = folder / "bad.py"
    bad.write_text("def f():\n    x = 1\n    x = 2\n    return x\n")
    assert main([str(folder)]) == 1
    message = f"{bad}:2: 'x' is overwritten in line 3 before it is read\n"
    assert capsys.readouterr().err == message
    assert main([str(bad)]) == 1 and main([str(folder / "good.py")]) == 0
