"""Mistakes in a user-defined function give one sentence with file and line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pinion.functions import OwnFunction

from .conftest import Pinion

HEAD = """\
import math
import numpy as np
from pinion.api import POSITION, arctan2, array, clamp, cos, function, minimum, sin, state, uniform

X = array(sampling=uniform(-1, 1))
V = array(3, sampling=uniform(-1, 1))
ONE = {"inputs": {"x": X}, "outputs": {"y": array()}}
VECTOR = {"inputs": {"v": V}, "outputs": {"y": array()}}
HEAD = True
keep = lambda f: f
"""


def of(body: str, *, head: str = "@function(**ONE)\ndef f(x):\n") -> str:
    """Return a file whose function has this body."""
    return HEAD + head + "".join(f"    {line}\n" for line in body.split("\n"))


def vector(body: str) -> str:
    return of(body, head="@function(**VECTOR)\ndef f(v):\n")


def described(inputs: str, outputs: str = '{"y": array()}', parameters: str = "x") -> str:
    """Return a file with this description."""
    return (
        HEAD
        + f"@function(inputs={inputs}, outputs={outputs})  #!\ndef f({parameters}):\n"
        + ("    return 2.0 * x\n")
    )


def taking(parameters: str, inputs: str = '{"x": X}') -> str:
    """Return a file whose function has other parameters than described."""
    text = described(inputs, parameters=parameters).replace("  #!", "")
    return text.replace(f"({parameters}):", f"({parameters}):  #!")


# Name, the file with a mark behind the wrong line, needles of the sentence.
MISTAKES: dict[str, tuple[str, tuple[str, ...]]] = {
    # Mistakes in tracing.
    "if": (
        of("if x > 0.5:  #!\n    return x\nreturn -x"),
        ("neither true nor false yet: instead of `if`", "select(condition, a, b)"),
    ),
    "if and": (
        of("if x > 0.1 and x < 0.5:  #!\n    return x\nreturn -x"),
        ("(a < b) & (b < c); instead of `if`",),
    ),
    "where": (of("return np.where(x > 0.5, x, 0.0)  #!"), ("yet: write select(condition, a, b)",)),
    "clip": (vector("return np.clip(v, -1, 1)[0]  #!"), ("yet: write clamp(x, low, high)",)),
    "sign": (of("return np.sign(x)  #!"), ("yet: write select(x < 0.0, -1.0, 1.0)",)),
    "interp": (of("return np.interp(x, [0, 1], [0, 2])  #!"), ("value: write look_up() with a",)),
    "no number": (of("return np.isnan(x)  #!"), ("NumPy's isnan has no rule",)),
    "ternary": (of("return x if x > 0.5 else -x  #!"), ("select(condition, a, b)",)),
    "while": (of("while x < 1.0:  #!\n    x = x + x\nreturn x"), ("`for` over a fixed range",)),
    "and": (
        of("y = x and x > 0.1  #!\nreturn y * 1.0"),
        ("instead of `and`", "(a < b) & (b < c)"),
    ),
    "not": (of("return 1.0 * (not x)  #!"), ("instead of `and`, `or`, `not`",)),
    "chain": (of("y = 0.1 < x < 0.9  #!\nreturn y"), ("instead of `and`", "a < b < c")),
    "max": (of("return max(x, 0.0)  #!"), ("neither true nor false", "write maximum(a, b)")),
    "assert": (of("assert x  #!\nreturn x"), ("leave the assertion out",)),
    "float": (of("return float(x)  #!"), ("`float(x)`", "value: leave it out")),
    "int": (of("return int(x)  #!"), ("`int(x)`", "select()")),
    "round": (of("return round(x)  #!"), ("`round(x)`", "rounds only to its formats")),
    "floor": (of("return math.floor(x)  #!"), ("steps as sums of select()",)),
    "remainder": (of("return x % 0.5  #!"), ("remainder", "in range")),
    "floor division": (of("return x // 2  #!"), ("`x // 2`", "whole part")),
    "condition as a number": (
        of("return x + (x > 0.5)  #!"),
        ("condition is not a number", "select(condition, 1.0, 0.0)"),
    ),
    "condition returned": (
        of("return x > 0.5  #!"),
        ("an object of type Condition", "select(condition, 1.0, 0.0)"),
    ),
    "index": (of("return [1.0, 2.0][x]  #!"), ("with Python's own numbers", "look_up()")),
    "index of an array": (
        vector("return v[v[0]]  #!"),
        ("with Python's own integers", "select()"),
    ),
    "range": (
        of("y = x\nfor k in range(x):  #!\n    y = y + x\nreturn y"),
        ("index and count with Python's own numbers",),
    ),
    "loop": (of("y = 0.0\nfor k in x:  #!\n    y = y + k\nreturn y"), ("no elements",)),
    "length": (of("return len(x) * x  #!"), ("one number", "has no len()")),
    "math": (of("return math.sin(x)  #!"), ("`math.sin(x)`", "value: write sin(x) from pinion")),
    "tangent": (of("return np.tan(x)  #!"), ("rule for traced values: write sin(x) / cos(x)",)),
    "degrees": (of("return math.radians(x)  #!"), ("value: write x * (math.pi / 180.0)",)),
    "hyperbolic": (of("return math.tanh(x)  #!"), ("value: write look_up() with a table",)),
    "no brackets": (
        HEAD + "@function  #!\ndef f(x):\n    return x\n",
        ("@function needs arguments", "inputs=..., outputs=..."),
    ),
    "state that stays": (
        HEAD + '@function(inputs={"x": X}, outputs={"y": array()}, states={"s": state()})\n'
        "def f(x, s):\n    return x + s, s  #!\n",
        ("the state 's' of 'f' never changes",),
    ),
    "state without a parameter": (
        HEAD + '@function(inputs={"x": X}, outputs={"y": array()}, states={"s": state()})\n'
        "def f(x):  #!\n    return x, x\n",
        ("no parameter for its state 's'", "leave the state out"),
    ),
    "state that is not returned": (
        HEAD + '@function(inputs={"x": X}, outputs={"y": array()}, states={"s": state()})\n'
        'def f(x, s):\n    return {"y": x + s}  #!\n',
        ("returns no 's', the next value of a state: return y, s",),
    ),
    "begins with nan": (
        HEAD + "S = state(initial=math.nan)  #!\n",
        ("a state's initial value contains nan",),
    ),
    "NumPy": (of("return np.exp(x)  #!"), ("NumPy's exp has no rule", "look_up()")),
    "linear algebra": (
        vector("return np.linalg.det(np.diag(v))  #!"),
        ("NumPy's det has no rule", "write it out in sums"),
    ),
    "equality": (of("y = x == 0.5  #!\nreturn y"), ("no equality", "abs(a - b) < 0.001")),
    "exponent": (of("return x ** x  #!"), ("write a whole number",)),
    "base": (of("return 2 ** x  #!"), ("write a whole number",)),
    "root": (of("return x ** 0.3  #!"), ("raised to the power 0.3", "sqrt(x)")),
    "key": (of("return {x: 1.0}[x]  #!"), ("one number", "unhashable")),
    "text": (of("return x + '1'  #!"), ("one number", "unsupported operand")),
    "endless loop": (
        of("while True:\n    x = x + 1.0  #!"),
        ("stopped at 1,000 operations", "own.py", "use fewer"),
    ),
    "recursion": (
        HEAD
        + "def g(x):\n    return g(x + 1.0)  #!\n@function(**ONE)\ndef f(x):\n    return g(x)\n",
        ("stopped at 1,000 operations",),
    ),
    "recursion without operations": (
        HEAD + "def g(x):\n    return g(x)  #!\n@function(**ONE)\ndef f(x):\n    return g(x)\n",
        ("Python's recursion limit was reached",),
    ),
    "exception": (of("y = [1.0]\nreturn x + y[1]  #!"), ("raises IndexError", "out of range")),
    "exit": (of("raise SystemExit(3)  #!"), ("'f' raises SystemExit (3)",)),
    "infinite constant": (of("return minimum(x, np.inf)  #!"), ("constant inf", "finite")),
    "infinite in a call": (
        of("return arctan2(x, np.inf)  #!"),
        ("constant inf is not finite", "only with finite numbers"),
    ),
    "infinite in NumPy": (of("return np.multiply(x, np.inf)  #!"), ("constant inf is not finite",)),
    "constant nan": (of("return x * math.nan  #!"), ("constant nan", "finite")),
    "ends of a clamp": (of("return clamp(x, 1, -1)  #!"), ("lower one first", "not 1 and -1")),
    "computed ends": (
        vector("return clamp(v[0], v[1], v[2])  #!"),
        ("two finite numbers", "<v[1]>", "minimum(maximum(x, low), high)"),
    ),
    "array of floats": (
        vector("w = np.zeros(3)\nw[0] = v[0]  #!\nreturn w[0]"),
        ("no float value", "dtype=object"),
    ),
    # Mistakes in results.
    "asymmetric": (
        HEAD + '@function(inputs={"v": V}, outputs={"y": array(2, 2, symmetric=True)})\n'
        "def f(v):\n    return [[v[0], v[1]], [v[2], v[0]]]  #!\n",
        ("'y' of 'f' is described as symmetric", "differs from its transpose"),
    ),
    "nothing": (
        HEAD + "@function(**ONE)\ndef f(x):  #!\n    y = x\n",
        ("returns nothing", "return of its values, y"),
    ),
    "word": (
        HEAD + "@function(**ONE)\ndef f(x):\n    return 'y'  #!\n",
        ("contains 'y' (str)", "return numbers"),
    ),
    "shape": (
        HEAD + "@function(**ONE)\ndef f(x):\n    return [x, x]  #!\n",
        ("shape ()", "has shape (2,)"),
    ),
    "shape, behind functions that return": (
        of("def g(y):\n    return y\nw = list(map(lambda y: y, [x]))\nreturn [g(w[0]), x]  #!"),
        ("has shape (2,)",),
    ),
    "shape in one of several places": (
        HEAD + "@function(**ONE)\n@keep\ndef f(x):  #!\n    if HEAD:\n        return [x, x]\n"
        "    return x\n",
        ("has shape (2,)",),
    ),
    "shape over lines": (
        of("return [  #!\n    x,\n    x,\n]"),
        ("has shape (2,)",),
    ),
    "shape of a lambda": (
        HEAD + "f = function(**ONE, name='f')(lambda x: [x, x])  #!\n",
        ("has shape (2,)",),
    ),
    "unequal rows": (
        HEAD + "@function(**ONE)\ndef f(x):\n    return [[x, x], [x]]  #!\n",
        ("rows of unequal lengths",),
    ),
    "unknown output": (
        HEAD + "@function(**ONE)\ndef f(x):\n    return {'y': x, 'z': x}  #!\n",
        ("'z'", "not among its outputs"),
    ),
    "missing output": (
        HEAD + "@function(**ONE)\ndef f(x):\n    return {}  #!\n",
        ("returns no 'y'",),
    ),
    "too few": (
        HEAD + '@function(inputs={"x": X}, outputs={"y": array(), "z": array()})\n'
        "def f(x):\n    return (x,)  #!\n",
        ("returns 1 value in place of", "2 (y, z)"),
    ),
    "constant output": (
        HEAD + '@function(inputs={"x": X}, outputs={"y": array(), "z": array()})\n'
        "def f(x):\n    return x, 3.0  #!\n",
        ("'z' of 'f' is constant",),
    ),
    "input without effect": (
        HEAD + '@function(inputs={"x": X, "z": X}, outputs={"y": array()})\n'
        "def f(x, z):  #!\n    z = z * 2.0\n    return x * 2.0\n",
        ("'z' of 'f' changes no output",),
    ),
    "division by zero": (
        of("return 1.0 / (x - x)  #!"),
        ("'y' of 'f' is inf", "clamp()"),
    ),
    "memory": (
        HEAD + "seen = []\n@function(**ONE)\ndef f(x):\n    seen.append(x)\n"
        "    return x * len(seen)  #!\n",
        ("between its trace and a call with numbers", "earlier calls"),
    ),
    # Mistakes in descriptions.
    "times zero": (
        taking("x, z", '{"x": X, "z": X}').replace("2.0 * x", "2.0 * x + 0.0 * z"),
        ("input 'z' of 'f' changes no output",),
    ),
    "cancels by regrouping": (
        taking("x, z", '{"x": X, "z": X}').replace("2.0 * x", "(2.0 * x + z) - z * z / z"),
        ("input 'z' of 'f' changes no output",),
    ),
    "name of an input": (
        described('{"x": X}', outputs='{"x": array()}'),
        ("the output 'x' of 'f' has the name of an input", "x_next"),
    ),
    "unused input": (taking("x", '{"x": X, "z": X}'), ("no parameter for its input 'z'",)),
    "unknown input": (taking("x, gain"), ("'gain' of 'f' is not an input",)),
    "starred": (taking("x, *rest"), ("'rest'", "by its name")),
    "no sampling": (described('{"x": array()}'), ("'x' of 'f' has no sampling",)),
    "no inputs": (described("{}", parameters=""), ("'f' has no input",)),
    "no outputs": (described('{"x": X}', "{}"), ("'f' has no output",)),
    "dimension": (
        described('{"x": array("m", sampling=uniform(0, 1))}'),
        ("dimension 'm'", "dims="),
    ),
    "identifier": (described('{"x y": X}'), ("'x y' of 'f' has a name that is not an identifier",)),
    "word of Python": (described('{"lambda": X}'), ("not an identifier",)),
    "taken name": (described('{"x": X}', '{"saturated": array()}'), ("has a reserved name",)),
    "name twice": (described('[("x", X), ("x", X)]'), ("two inputs 'x'",)),
    "no description": (described('{"x": 3}'), ("'x' of 'f' is described by 3", "array()")),
    "ends left out": (
        HEAD + "Z = array(sampling=uniform)  #!\n",
        ("uniform itself is not a sampling", "write uniform(low, high)"),
    ),
    "initial values": (
        HEAD + '@function(inputs={"x": X}, outputs={"y": array()},  #!\n'
        '    states={"s": state("m", initial=[1, 2])}, dims={"m": 3})\n'
        "def f(x, s):\n    return x + s[0], s\n",
        ("'s' of 'f' has size 3, but its initial value has size 2",),
    ),
    "growing state": (
        HEAD + '@function(inputs={"x": X}, outputs={"y": array()},\n'
        '    states={"s": state(initial=2)})\ndef f(x, s):\n    return x + s, s * s + x * x  #!\n',
        ("'y' of 'f' is inf", "a state that grows without end"),
    ),
    "drawn output": (described('{"x": X}', '{"y": X}'), ("outputs are computed",)),
    "ends": (HEAD + "Z = uniform(2, 1)  #!\n", ("between 2.0 and 1.0", "the lower one first")),
    "axis": (HEAD + "Z = array(0)  #!\n", ("the axis 0 is invalid",)),
    "sampling": (HEAD + "Z = array(sampling=3)  #!\n", ("sampling 3", "uniform(low, high)")),
    "symmetry": (HEAD + "Z = array(3, symmetric=True)  #!\n", ("two equal axes", "(3)")),
    "Pinion's name": (
        HEAD + "@function(**ONE, name='rnea')  #!\ndef f(x):\n    return x\n",
        ("already has a function 'rnea'",),
    ),
    "two of a name": (
        of("return x") + "@function(**ONE)\ndef f(x):  #!\n    return -x\n",
        ("two functions for hardware are called 'f'",),
    ),
    "drawn shape": (
        HEAD + "def draw(rng, count):\n    return rng.uniform(size=(count, 2))  #!\n"
        '@function(inputs={"x": array(3, sampling=draw)}, outputs={"y": array()})\n'
        "def f(x):\n    return x[0]\n",
        ("sampling of 'x' returns an array", ", 2)", "must return"),
    ),
    "sampling raises": (
        HEAD + "def draw(rng, count):\n    return rng.uniform(count, missing)  #!\n"
        '@function(inputs={"x": array(3, sampling=draw)}, outputs={"y": array()})\n'
        "def f(x):\n    return x[0]\n",
        ("sampling of 'x' raises NameError",),
    ),
    "reference": (
        HEAD + "def r(x):\n    return x + 1.0  #!\n@function(**ONE, reference=r)\n"
        "def f(x):\n    return x * 2.0\n",
        ("between its trace and its reference",),
    ),
    # The file.
    "syntax": (HEAD + "def f(x:  #!\n    return x\n", ("not valid as Python",)),
    "import": (HEAD + "import no_such_module_at_all  #!\n", ("ModuleNotFoundError",)),
    "raises": (HEAD + "1 / 0  #!\n", ("raises ZeroDivisionError (division by zero)",)),
    "plain": (HEAD + "def f(x):  #!\n    return x\n", ("plain function", "@pinion.api.function")),
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda name: name.replace(" ", "-"))
def test_a_mistake_is_a_sentence_with_file_and_line(
    mistake: str, pinion: Pinion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OwnFunction, "most_nodes", 1000)
    monkeypatch.chdir(tmp_path)
    text, needles = MISTAKES[mistake]
    lines = [k for k, line in enumerate(text.splitlines(), start=1) if "#!" in line]
    assert len(lines) == 1, lines
    Path("own.py").write_text(text)
    completed = pinion("info", "none", "--function", "own.py:f")
    completed.refused(*needles)
    # Without quotes, so that terminals can open it.
    assert re.match(rf"own\.py:{lines[0]}: ", completed.err), completed.err


ROBOTS = {
    "drawn as joints are": (
        '{"v": array(2, sampling=VELOCITY)}',
        "def f(v):  #!\n    return v[0] + v[1]\n",
        ("'v' of 'f' has shape (2,), but VELOCITY has (7,)",),
    ),
    "joint space": (
        '{"q": array("nq", sampling=POSITION)}',
        "def f(model, q):\n    return frame_placement_scalars(model, q, model.tips[0])[1][0]  #!\n",
        (
            "differs between its trace and one for a robot that moves",
            "leave joint_space=True out",
        ),
    ),
}


@pytest.mark.parametrize("mistake", ROBOTS, ids=lambda name: name.replace(" ", "-"))
def test_a_mistake_with_a_robot_is_a_sentence_too(
    mistake: str, pinion: Pinion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inputs, body, needles = ROBOTS[mistake]
    head = (
        "from pinion.api import VELOCITY\nfrom pinion.dynamics import frame_placement_scalars\n"
        f'@function(inputs={inputs}, outputs={{"y": array()}}, joint_space=True)\n'
    )
    text = HEAD + head + body
    line = next(k for k, line in enumerate(text.splitlines(), start=1) if "#!" in line)
    Path("own.py").write_text(text)
    completed = pinion("info", "iiwa14", "--function", "own.py:f")
    completed.refused(*needles)
    assert completed.err.startswith(f"own.py:{line}: "), completed.err


def test_a_state_may_grow_without_end(
    pinion: Pinion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    head = '@function(inputs={"x": X}, outputs={"y": array()}, states={"s": state()})\n'
    Path("own.py").write_text(HEAD + head + "def f(x, s):\n    s = 1.5 * s + x\n    return s, s\n")
    completed = pinion("info", "none", "--function", "own.py:f", "--json")
    assert completed.code == 0 and completed.json["savings"][-1]["mul_const"] == 1
    assert completed.json["savings"][-1]["add"] == 1


def test_an_endless_loop_is_named_where_it_is_interrupted(
    pinion: Pinion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # Like Ctrl-C: in the main thread, whatever runs there.
    ring = "from signal import raise_signal, SIGINT\n"
    text = of("k = 0\nwhile k < 9:\n    raise_signal(SIGINT)\nreturn x")
    Path("own.py").write_text(ring + text)
    line = (ring + text).splitlines().index("        raise_signal(SIGINT)") + 1
    completed = pinion("build", "none", "own.py:f", "-o", "made")
    assert completed.code == 130 and not Path("made").exists()
    expected = f"own.py:{line}: `raise_signal(SIGINT)`: interrupted in the function 'f'.\n"
    assert completed.err == expected


def test_a_file_elsewhere_is_named_so_that_it_can_be_opened(
    pinion: Pinion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.py").write_text(described('{"x": array()}'))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    completed = pinion("info", "none", "--function", "../own.py:f")
    completed.refused("has no sampling")
    assert Path(completed.err.partition(":")[0]).is_file()
