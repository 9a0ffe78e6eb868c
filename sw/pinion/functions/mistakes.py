"""Errors in a user's own code: where they happened, and what to write instead.

A user's function fails while it is loaded, while it is traced or while it is computed. Whatever it
raises becomes one sentence with the user's own file and line, not Pinion's, and with the code that
stands there; what cannot be traced says what to write instead.
"""

from __future__ import annotations

import ast
import linecache
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, MappingProxyType, TracebackType
from typing import Any

import numpy as np

import pinion
from pinion.base.escaping import one_line
from pinion.graph import TraceError

from .errors import FunctionError

LONGEST = 60
"""Characters of the user's code that a sentence quotes."""

_NO_RULE = re.compile(
    r"loop of ufunc does not support argument \d+ of type Symbol which has no callable (\w+) method"
    r"|[Cc]annot cast ufunc '(\w+)' input (?:\d+ )?from dtype\('O'\)"
    r"|ufunc '(\w+)' not supported for the input types"
)


class UserError(FunctionError):
    """A mistake in a user's own code; the message has file, line and what to write instead."""


@dataclass(frozen=True)
class Place:
    """Where a user's code was.

    Members
    -------
    path, line : of the file.
    code : what was being computed there, "" where that is not known.
    column : where that begins, in bytes, -1 where it is not known.
    """

    path: str
    line: int
    code: str = ""
    column: int = -1

    def __str__(self) -> str:
        # Without quotes: terminals and editors open what is written as path:line.
        where = f"{shown_path(self.path)}:{self.line}"
        if not self.code:
            return where
        code = one_line(self.code)
        short = code if len(code) <= LONGEST else f"{code[:LONGEST]}..."
        return f"{where}: `{short}`"


def shown_path(path: str) -> str:
    """A path as a reader can open it: from the present folder, where it lies below; on one line."""
    with suppress(ValueError, OSError):
        path = str(Path(path).resolve().relative_to(Path.cwd()))
    return one_line(path)


def caller() -> Place:
    """The user's line that is being executed: the innermost that is not of Pinion or a library."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_users(frame.f_code):
        frame = frame.f_back
    if frame is None:
        return Place("<input>", 1)
    return Place(frame.f_code.co_filename, frame.f_lineno)


def place_of(function: Callable[..., Any]) -> Place:
    """Where a function is defined: the line of its ``def``, not that of a decorator above it."""
    code = getattr(function, "__code__", None)
    if code is None:
        return caller()
    node = _definition(code)
    return Place(code.co_filename, code.co_firstlineno if node is None else node.lineno)


def return_of(function: Callable[..., Any]) -> Place:
    """Where a function's results come from: its ``return``, or its ``def`` if it has not just one.

    Which of several a call went through is not known when it is over.
    """
    code = getattr(function, "__code__", None)
    node = None if code is None else _definition(code)
    if code is None or node is None:
        return place_of(function)
    found: list[ast.Return] = []
    inside: list[ast.AST] = [*node.body]
    while inside:
        part = inside.pop()
        if isinstance(part, ast.Return):
            found.append(part)
        # What functions and classes in it return is not returned by it.
        if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            inside += ast.iter_child_nodes(part)
    if len(found) != 1:
        return place_of(function)
    return Place(code.co_filename, found[0].lineno)


def _definition(code: CodeType) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The ``def`` that code was made of, where its source is at hand: a lambda has none."""
    for node in ast.walk(_parsed(code.co_filename)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name:
            first = node.decorator_list[0] if node.decorator_list else node
            if first.lineno == code.co_firstlineno:
                return node
    return None


def _parsed(path: str) -> ast.Module:
    """A file's syntax, empty where it is not at hand."""
    linecache.checkcache(path)
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])


@contextmanager
def said(name: str, default: Place) -> Iterator[None]:
    """Turn whatever a user's code raises inside into a :class:`UserError`.

    Parameters
    ----------
    name : what fails, for errors that are no mistake of the language, as the subject of a sentence.
    default : where it is, if the error does not tell.

    Raises
    ------
    UserError : in place of any error.
    KeyboardInterrupt : on Ctrl-C, with a sentence that says where in the user's code that was.
    """
    try:
        yield
    except UserError:
        raise
    except KeyboardInterrupt as error:
        # Of a loop that does not end nothing else tells where it is.
        place = _deepest(error.__traceback__) or default
        raise KeyboardInterrupt(f"{place}: interrupted in {name[0].lower()}{name[1:]}.") from None
    except (Exception, SystemExit) as error:
        if type(error) is not SystemExit and isinstance(error, SystemExit):
            raise  # a signal's, which is not the user's code's
        raise UserError(sentence(error, name, default)) from error


def sentence(error: BaseException, name: str, default: Place) -> str:
    """An error of a user's code as one sentence with file, line and code."""
    place = _deepest(error.__traceback__) or default
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        line = (error.text or "").strip()
        return f"{Place(error.filename, error.lineno, line)}: {error.msg}, which is no Python."
    text = _advice(error, place)
    if text is None:
        text = f"{name} raises {type(error).__name__}"
        message = one_line(error).rstrip(".")
        text += f" ({message})." if message else "."
    if text.startswith(("A ", "The ", "Tracing ")):
        text = text[0].lower() + text[1:]
    return f"{place}: {text}"


def _advice(error: BaseException, place: Place) -> str | None:
    """What is wrong, where the language is what was misunderstood."""
    text = one_line(error)
    if isinstance(error, RecursionError):
        return (
            "A function that calls itself did not come to an end: let it stop after a number of "
            "steps that no traced value decides."
        )
    if isinstance(error, TraceError):
        return f"{error.wrong}: {_instead(error, place)}."
    if found := _NO_RULE.search(text):
        better = _VALUES.get(_called(place)) or (
            "write it out in sums, products and quotients" if "linalg" in place.code else _TABLE
        )
        name = next(filter(None, found.groups()))
        return f"NumPy's {name} has no rule for traced values: {better}."
    if isinstance(error, IndexError) and "integer" in text and "indices" in text:
        return (
            "A traced scalar cannot be an index: index with numbers of Python's own, or take "
            "select() among few values, or look_up() in a table."
        )
    if isinstance(error, TypeError) and text.startswith("function() takes 0 positional"):
        return "@function stands without brackets: write @function(inputs=..., outputs=...)."
    if isinstance(error, TypeError) and "Symbol" in text:
        return (
            f"A traced scalar is one number ({text}): it has sums, products, quotients, whole "
            "powers and the functions of pinion.api."
        )
    if isinstance(error, ValueError | RuntimeError) and _is_pinions(type(error)):
        return text if text.endswith(".") else f"{text}."
    return None


def _instead(error: TraceError, place: Place) -> str:
    """What to write, by what is called at a place and by the syntax around it."""
    choice = error.query == TraceError.HOLDS
    known = _CHOICES if choice else _VALUES if error.query in _NUMBERS else {}
    if better := known.get(_called(place)):
        return better
    if error.query in _NUMBERS and re.match(r"(math|np|numpy)\.\w+\(", place.code):
        return _TABLE
    kinds = (_kind(node) for node in ast.walk(_parsed(place.path)) if _covers(node, place))
    # The innermost first; each once.
    around = [_SYNTAX[kind] for kind in reversed(dict.fromkeys(filter(None, kinds)))]
    return "; ".join(around if choice and around else [error.instead, *around])


def _called(place: Place) -> str:
    """The last name of what a place calls, "" where it calls nothing."""
    try:
        tree = ast.parse(place.code.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return ""
    match tree.body:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
    return ""


_NUMBERS = ("float value", "whole part")
_TABLE = "write look_up() in a table"
_LARGER, _SMALLER = "write maximum(a, b), of two at a time", "write minimum(a, b), of two at a time"
_CHOICES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("max", "amax", "maximum", "fmax"), _LARGER),
        **dict.fromkeys(("min", "amin", "minimum", "fmin"), _SMALLER),
        **dict.fromkeys(("sort", "sorted"), "write minimum(a, b) and maximum(a, b), pair by pair"),
        "where": "write select(condition, a, b), element by element",
        "clip": "write clamp(x, low, high), element by element",
        "sign": "write select(x < 0.0, -1.0, 1.0)",
        "any": "join conditions with |, and write select(condition, a, b)",
        "all": "join conditions with &, and write select(condition, a, b)",
    }
)
"""What to write for a choice, by the name of what is called."""

_VALUES: Mapping[str, str] = MappingProxyType(
    {
        **{name: f"write {name}(x), of pinion.api" for name in ("sin", "cos", "sqrt")},
        **dict.fromkeys(("atan2", "arctan2"), "write arctan2(y, x), of pinion.api"),
        **dict.fromkeys(("atan", "arctan"), "write arctan2(x, 1.0), of pinion.api"),
        **dict.fromkeys(("asin", "arcsin"), "write arctan2(x, sqrt(1.0 - x * x))"),
        **dict.fromkeys(("acos", "arccos"), "write arctan2(sqrt(1.0 - x * x), x)"),
        **dict.fromkeys(("radians", "deg2rad"), "write x * (math.pi / 180.0)"),
        **dict.fromkeys(("degrees", "rad2deg"), "write x * (180.0 / math.pi)"),
        **dict.fromkeys(("floor", "ceil", "trunc", "rint"), "write steps as sums of select()"),
        **dict.fromkeys(("pow", "power"), "write x ** 3, with a whole number"),
        **dict.fromkeys(("float", "float64", "float32"), "leave it out"),
        **dict.fromkeys(("array", "asarray"), "give it dtype=object"),
        "tan": "write sin(x) / cos(x)",
        "fabs": "write abs(x)",
        "hypot": "write sqrt(x * x + y * y)",
        "astype": "leave it out",
    }
)
"""What to write for a value, by the name of what is called."""

_SYNTAX: Mapping[str, str] = MappingProxyType(
    {
        "while": "in place of `while`, write a `for` over a fixed range, as `for _ in range(8):`, "
        "with select() in it",
        "bool": "in place of `and`, `or`, `not` and a < b < c, write &, | and ~ of conditions, as "
        "in (a < b) & (b < c)",
        "assert": "leave the assertion out, as a core has nobody to tell",
        "if": "in place of `if`, write select(condition, a, b), with both values computed",
    }
)


def _kind(node: ast.AST) -> str:
    match node:
        case ast.While():
            return "while"
        case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return "bool"
        case ast.Compare() if len(node.ops) > 1:
            return "bool"
        case ast.Assert():
            return "assert"
        case ast.If() | ast.IfExp() | ast.comprehension():
            return "if"
    return ""


def _covers(node: ast.AST, place: Place) -> bool:
    """Whether what decides in a node stands around a place."""
    part: ast.AST = node
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        part = node.test
    first, last = getattr(part, "lineno", None), getattr(part, "end_lineno", None)
    if first is None or last is None or not first <= place.line <= last:
        return False
    if place.column < 0 or first != last:
        return True
    left, right = getattr(part, "col_offset", 0), getattr(part, "end_col_offset", 0)
    return bool(left <= place.column < right)


def _deepest(trace: TracebackType | None) -> Place | None:
    """The innermost line of the user's code that an error went through."""
    steps: list[TracebackType] = []
    while trace is not None:
        if _is_users(trace.tb_frame.f_code):
            steps.append(trace)
        trace = trace.tb_next
    # What the user calls of other packages is less telling than where it is called.
    near = [step for step in steps if "site-packages" not in step.tb_frame.f_code.co_filename]
    if not steps:
        return None
    found = (near or steps)[-1]
    code, line = found.tb_frame.f_code, found.tb_lineno
    positions = list(code.co_positions())[found.tb_lasti // 2]
    first, last, left, right = positions
    if first is None or first != last or left is None or right is None:
        return Place(code.co_filename, line)
    linecache.checkcache(code.co_filename)
    text = linecache.getline(code.co_filename, line).encode()[left:right].decode(errors="replace")
    return Place(code.co_filename, line, text, left)


def _is_pinions(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "pinion"


def _is_users(code: CodeType) -> bool:
    """Whether code is the user's: not Pinion's, NumPy's or Python's own."""
    path = code.co_filename
    if path.startswith("<frozen") or path == "<string>":  # what dataclasses are made of
        return False
    ours = (*pinion.__path__, str(Path(np.__file__).parent))
    if any(path.startswith(f"{folder}/") or path.startswith(f"{folder}\\") for folder in ours):
        return False
    library = sysconfig.get_paths()["stdlib"]
    return "site-packages" in path or not path.startswith(library)
