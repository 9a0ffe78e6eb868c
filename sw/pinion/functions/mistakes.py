"""Errors in a user's code: where they happened, and what to write instead.

A user's function can fail while it is loaded, traced or computed. Any exception becomes one
sentence with the user's file and line, not Pinion's, and with the code there; if something cannot
be traced, it says what to write instead.
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
    """A mistake in a user's code; the message has file, line and what to write instead."""


@dataclass(frozen=True)
class CodePosition:
    """A position in a user's code: a line, and the expression computed there.

    Members
    -------
    path, line : of the file.
    code : the expression computed there, "" if unknown.
    column : its first byte, -1 if unknown.
    """

    path: str
    line: int
    code: str = ""
    column: int = -1

    def __str__(self) -> str:
        # Without quotes: terminals and editors open path:line.
        where = f"{shown_path(self.path)}:{self.line}"
        if not self.code:
            return where
        code = one_line(self.code)
        short = code if len(code) <= LONGEST else f"{code[:LONGEST]}..."
        return f"{where}: `{short}`"


def shown_path(path: str) -> str:
    """Return a path for a message, relative to the current folder if it is inside that."""
    with suppress(ValueError, OSError):
        path = str(Path(path).resolve().relative_to(Path.cwd()))
    return one_line(path)


def caller() -> CodePosition:
    """Return the innermost line on the call stack that is in neither Pinion nor a library."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_users(frame.f_code):
        frame = frame.f_back
    if frame is None:
        return CodePosition("<input>", 1)
    return CodePosition(frame.f_code.co_filename, frame.f_lineno)


def place_of(function: Callable[..., Any]) -> CodePosition:
    """Return where a function is defined: the line of its ``def``, not of a decorator above it."""
    code = getattr(function, "__code__", None)
    if code is None:
        return caller()
    node = _definition(code)
    return CodePosition(code.co_filename, code.co_firstlineno if node is None else node.lineno)


def return_of(function: Callable[..., Any]) -> CodePosition:
    """Return the line of a function's ``return`` if it has exactly one, else of its ``def``.

    After a call, it is unknown which of several was taken.
    """
    code = getattr(function, "__code__", None)
    node = None if code is None else _definition(code)
    if code is None or node is None:
        return place_of(function)
    returns: list[ast.Return] = []
    inside: list[ast.AST] = [*node.body]
    while inside:
        part = inside.pop()
        if isinstance(part, ast.Return):
            returns.append(part)
        # Returns of nested functions and classes do not count.
        if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            inside += ast.iter_child_nodes(part)
    if len(returns) != 1:
        return place_of(function)
    return CodePosition(code.co_filename, returns[0].lineno)


def _definition(code: CodeType) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return the ``def`` of a code object, if its source is available; a lambda has none."""
    for node in ast.walk(_parsed(code.co_filename)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name:
            first = node.decorator_list[0] if node.decorator_list else node
            if first.lineno == code.co_firstlineno:
                return node
    return None


def _parsed(path: str) -> ast.Module:
    """Return a file's syntax tree, empty if it is unavailable."""
    linecache.checkcache(path)
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])


@contextmanager
def said(name: str, default: CodePosition) -> Iterator[None]:
    """Turn any exception that user code raises in this context into a :class:`UserError`.

    Parameters
    ----------
    name : what fails, as the subject of the sentence about other errors.
    default : position if the error has none.

    Raises
    ------
    UserError : in place of any error.
    KeyboardInterrupt : on Ctrl-C, with a message that has the position in the user's code.
    """
    try:
        yield
    except UserError:
        raise
    except KeyboardInterrupt as error:
        # The only hint where an endless loop is.
        place = _deepest(error.__traceback__) or default
        raise KeyboardInterrupt(f"{place}: interrupted in {name[0].lower()}{name[1:]}.") from None
    except (Exception, SystemExit) as error:
        if type(error) is not SystemExit and isinstance(error, SystemExit):
            raise  # from a signal handler, not from the user's code
        raise UserError(sentence(error, name, default)) from error


def sentence(error: BaseException, name: str, default: CodePosition) -> str:
    """Describe an error in a user's code in one sentence with file, line and code."""
    place = _deepest(error.__traceback__) or default
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        line = (error.text or "").strip()
        return (
            f"{CodePosition(error.filename, error.lineno, line)}: {error.msg}; not valid as Python."
        )
    text = _advice(error, place)
    if text is None:
        text = f"{name} raises {type(error).__name__}"
        message = one_line(error).rstrip(".")
        text += f" ({message})." if message else "."
    if text.startswith(("A ", "The ", "Tracing ")):
        text = text[0].lower() + text[1:]
    return f"{place}: {text}"


def _advice(error: BaseException, place: CodePosition) -> str | None:
    """Return what is wrong, and what to write instead, if code misuses traced values, or None."""
    text = one_line(error)
    if isinstance(error, RecursionError):
        return (
            "Python's recursion limit was reached: end the recursion sooner, after a number of "
            "steps that does not depend on a traced value."
        )
    if isinstance(error, TraceError):
        return f"{error.wrong}: {_instead(error, place)}."
    if match := _NO_RULE.search(text):
        better = _VALUES.get(_called(place)) or (
            "write it out in sums, products and quotients" if "linalg" in place.code else _TABLE
        )
        name = next(filter(None, match.groups()))
        return f"NumPy's {name} has no rule for traced values: {better}."
    if isinstance(error, IndexError) and "integer" in text and "indices" in text:
        return (
            "The index must be an integer, not a traced scalar: index with Python's own integers, "
            "choose with select() among a few values, or use look_up() with a table."
        )
    if isinstance(error, TypeError) and text.startswith("function() takes 0 positional"):
        return "@function needs arguments: write @function(inputs=..., outputs=...)."
    if isinstance(error, TypeError) and "Symbol" in text:
        return (
            f"A traced scalar is one number ({text}): it has sums, products, quotients, whole "
            "powers and the functions of pinion.api."
        )
    if isinstance(error, ValueError | RuntimeError) and _is_pinions(type(error)):
        return text if text.endswith(".") else f"{text}."
    return None


def _instead(error: TraceError, place: CodePosition) -> str:
    """Return what to write instead, given the call at a place and the syntax around it."""
    choice = error.query == TraceError.HOLDS
    advice = _CHOICES if choice else _VALUES if error.query in _NUMBERS else {}
    if better := advice.get(_called(place)):
        return better
    if error.query in _NUMBERS and re.match(r"(math|np|numpy)\.\w+\(", place.code):
        return _TABLE
    kinds = (_kind(node) for node in ast.walk(_parsed(place.path)) if _covers(node, place))
    # The innermost first, without repetitions.
    around = [_SYNTAX[kind] for kind in reversed(dict.fromkeys(filter(None, kinds)))]
    return "; ".join(around if choice and around else [error.instead, *around])


def _called(place: CodePosition) -> str:
    """Return the unqualified name of the function called at a place; "" without a call."""
    try:
        tree = ast.parse(place.code.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return ""
    match tree.body:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
    return ""


_NUMBERS = ("float value", "whole part")
_TABLE = "write look_up() with a table"
_LARGER, _SMALLER = "write maximum(a, b), two at a time", "write minimum(a, b), two at a time"
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
"""What to write for a choice, by the name of the function called."""

_VALUES: Mapping[str, str] = MappingProxyType(
    {
        **{name: f"write {name}(x) from pinion.api" for name in ("sin", "cos", "sqrt")},
        **dict.fromkeys(("atan2", "arctan2"), "write arctan2(y, x) from pinion.api"),
        **dict.fromkeys(("atan", "arctan"), "write arctan2(x, 1.0) from pinion.api"),
        **dict.fromkeys(("asin", "arcsin"), "write arctan2(x, sqrt(1.0 - x * x))"),
        **dict.fromkeys(("acos", "arccos"), "write arctan2(sqrt(1.0 - x * x), x)"),
        **dict.fromkeys(("radians", "deg2rad"), "write x * (math.pi / 180.0)"),
        **dict.fromkeys(("degrees", "rad2deg"), "write x * (180.0 / math.pi)"),
        **dict.fromkeys(("floor", "ceil", "trunc", "rint"), "write steps as sums of select()"),
        **dict.fromkeys(("pow", "power"), "write x ** 3, with a whole number as exponent"),
        **dict.fromkeys(("float", "float64", "float32"), "leave it out"),
        **dict.fromkeys(("array", "asarray"), "give it dtype=object"),
        "tan": "write sin(x) / cos(x)",
        "fabs": "write abs(x)",
        "hypot": "write sqrt(x * x + y * y)",
        "astype": "leave it out",
    }
)
"""What to write for a value, by the name of the function called."""

_SYNTAX: Mapping[str, str] = MappingProxyType(
    {
        "while": "instead of `while`, write a `for` over a fixed range, as `for _ in range(8):`, "
        "with select() in it",
        "bool": "instead of `and`, `or`, `not` and a < b < c, write &, | and ~ of conditions, as "
        "in (a < b) & (b < c)",
        "assert": "leave the assertion out, because a core cannot report it",
        "if": "instead of `if`, write select(condition, a, b), with both values computed",
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


def _covers(node: ast.AST, place: CodePosition) -> bool:
    """Return whether a node, or its condition if it is conditional, contains a place."""
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


def _deepest(trace: TracebackType | None) -> CodePosition | None:
    """Return the innermost line of the user's code that an error passed through."""
    steps: list[TracebackType] = []
    while trace is not None:
        if _is_users(trace.tb_frame.f_code):
            steps.append(trace)
        trace = trace.tb_next
    # The user's call of another package says more than the package's own lines.
    near = [step for step in steps if "site-packages" not in step.tb_frame.f_code.co_filename]
    if not steps:
        return None
    step = (near or steps)[-1]
    code, line = step.tb_frame.f_code, step.tb_lineno
    positions = list(code.co_positions())[step.tb_lasti // 2]
    first, last, left, right = positions
    if first is None or first != last or left is None or right is None:
        return CodePosition(code.co_filename, line)
    linecache.checkcache(code.co_filename)
    text = linecache.getline(code.co_filename, line).encode()[left:right].decode(errors="replace")
    return CodePosition(code.co_filename, line, text, left)


def _is_pinions(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "pinion"


def _is_users(code: CodeType) -> bool:
    """Return whether code is the user's: not Pinion's, NumPy's or Python's own."""
    path = code.co_filename
    if path.startswith("<frozen") or path == "<string>":  # generated by dataclasses
        return False
    ours = (*pinion.__path__, str(Path(np.__file__).parent))
    if any(path.startswith(f"{folder}/") or path.startswith(f"{folder}\\") for folder in ours):
        return False
    library = sysconfig.get_paths()["stdlib"]
    return "site-packages" in path or not path.startswith(library)
