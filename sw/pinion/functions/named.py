"""Functions by name: a row of the table, a function of an installed package or of a user's file.

``rnea`` is a row of the table; other names are looked up among the entry points of the group
``pinion.functions``; ``module:function`` is imported, and ``file.py:function`` is run. Code runs
only for a name that somebody wrote: names read from a build folder are never looked up here.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from hashlib import sha256
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Unpack

from . import table
from .errors import FunctionError
from .mistakes import CodePosition, UserError, place_of, said, shown_path
from .options import RowOptions, with_options
from .own.decorator import OwnFunction
from .row import Function
from .table import DERIVATIVES, FUNCTIONS

_WORD = 4
"""Letters of a word that counts in a function's name."""

FILE_MODULE = "_pinion_"
"""Prefix of the names of modules made by running a file."""

GROUP = "pinion.functions"
"""Entry points that are functions: ``name = "module:function"``."""


def named_function(name: str, **options: Unpack[RowOptions]) -> Function:
    """Find a function by its name: in the table, in an installed package or in a file.

    Parameters
    ----------
    name : name of a row of the table, of an entry point of the group ``pinion.functions``, or
        ``module:function`` or ``file.py:function``, whose code is run.
    options : of the row.

    Raises
    ------
    FunctionError
        If there is no such function, variant or file, or the file's code is wrong; the message says
        where.
    """
    if name in FUNCTIONS:
        return table.table_function(name, **options)
    row = _from_code(name) if ":" in name else _installed(name)
    derivatives = options.get("derivatives", DERIVATIVES[0])
    if derivatives != DERIVATIVES[0]:
        row = row.formulated(derivatives)
    return with_options(row, **options)


def row_of(source: str | Function, **options: Unpack[RowOptions]) -> Function:
    """Return a function, given by name or as a row, with options applied.

    Parameters
    ----------
    source : a name, as in :func:`named_function`, or a row, which keeps its formulation.
    options : as in :func:`named_function`; ``derivatives`` only with a name.

    Raises
    ------
    FunctionError
        As :func:`named_function`.
    """
    unchecked: Any = source
    if isinstance(unchecked, str):
        return named_function(unchecked, **options)
    if not isinstance(unchecked, Function):
        text = getattr(unchecked, "__name__", repr(unchecked))
        raise FunctionError(
            f"{text:.60} is not a function for hardware: give the name of one, or a Python "
            "function decorated with @pinion.api.function(...)."
        )
    return with_options(unchecked, **options)


def installed() -> dict[str, str]:
    """Return the names of functions of installed packages, with their locations.

    Names that several packages have, or that the table has, are left out.
    """
    points = _points()
    names = [point.name for point in points]
    return {
        point.name: f"{point.value} of {_package(point)}"
        for point in points
        if names.count(point.name) == 1 and point.name not in FUNCTIONS
    }


def _points() -> list[EntryPoint]:
    """Return the group's entry points, each once even if its package is found on two paths."""
    points = {(p.name, p.value): p for p in entry_points(group=GROUP)}
    return sorted(points.values(), key=lambda point: (point.name, point.value))


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unknown package"


def _installed(name: str) -> Function:
    points = _points()
    matches = [point for point in points if point.name == name]
    if not matches:
        raise FunctionError(_unknown(name, points))
    if len(matches) > 1:
        listed = ", ".join(f"{p.value} of {_package(p)}" for p in matches)
        raise FunctionError(
            f"The function '{name}' exists {len(matches)} times in installed packages ({listed}): "
            "write the intended one as MODULE:FUNCTION, or uninstall the others."
        )
    point = matches[0]
    where = f"The entry point '{name}' of {_package(point)} ({point.value})"
    with said(where, CodePosition(point.value, 1)):
        try:
            loaded = point.load()
        except (ModuleNotFoundError, AttributeError) as error:
            raise UserError(
                f"{where} cannot be loaded ({error}): reinstall the package, or update it."
            ) from error
    if not isinstance(loaded, Function):
        raise FunctionError(
            f"{where} is of type {type(loaded).__name__}, not a function for hardware: its package "
            "must put @pinion.api.function above it."
        )
    if loaded.name in FUNCTIONS:
        raise FunctionError(
            f"{where} is called '{loaded.name}', the name of one of Pinion's functions: its "
            "package must give it another name."
        )
    return loaded


def _unknown(name: str, points: Sequence[EntryPoint]) -> str:
    names = list(dict.fromkeys((*FUNCTIONS, *(point.name for point in points))))
    hidden = [f"{p.name} of {_package(p)}" for p in points if p.name in FUNCTIONS]
    more = ""
    if hidden:
        more = f" ({', '.join(hidden)} cannot be used by name: Pinion's functions come first)"
    if name.endswith(".py"):
        return f"'{name}' names a file but none of its functions: write {name}:FUNCTION."
    near = list(dict.fromkeys((*_of_its_words(name), *get_close_matches(name, names, n=3))))[:3]
    choice = f"choose one of {', '.join(names)}"
    if near and not more:
        choice = (
            f"the nearest {'is' if len(near) == 1 else 'are'} {', '.join(near)} "
            "(pinion.functions.FUNCTIONS, or 'pinion build --help', lists all)"
        )
    return (
        f"There is no function '{name}'; {choice}{more}. For your own function, write "
        "MODULE:FUNCTION or FILE.py:FUNCTION."
    )


def _of_its_words(name: str) -> list[str]:
    """Return rows whose names and descriptions share the most words with a name."""
    words = {word for word in re.split(r"[^a-z0-9]+", name.lower()) if len(word) >= _WORD}
    texts = {row.name: f"{row.name} {row.doc}".lower() for row in FUNCTIONS.values()}
    counts = {row: sum(word in text for word in words) for row, text in texts.items()}
    most = max(counts.values())
    return [row for row, count in counts.items() if count == most] if most else []


def _from_code(text: str) -> Function:
    """Load the function named by ``module:function`` or ``file.py:function``."""
    source, _, name = text.rpartition(":")
    if not source or not name.isidentifier():
        raise FunctionError(
            f"The function '{text}' has an invalid name: write MODULE:FUNCTION or "
            "FILE.py:FUNCTION, as in tip.py:tip."
        )
    module = _run_file(source) if _is_file(source) else _imported(source, text)
    value = getattr(module, name, None)
    of = getattr(module, "__file__", None) or source
    _check_twice(module, of, name)
    if isinstance(value, Function):
        return value
    names = [key for key, item in vars(module).items() if isinstance(item, Function)]
    listed = f"functions for hardware there: {', '.join(names) or 'none'}"
    if value is None:
        raise FunctionError(f"'{shown_path(of)}' has no '{name}'; {listed}.")
    where = place_of(value) if hasattr(value, "__code__") else f"'{shown_path(of)}'"
    raise FunctionError(
        f"{where}: '{name}' is a plain {type(value).__name__}, not a function for hardware; "
        f"put @pinion.api.function(...) above it ({listed})."
    )


def _is_file(source: str) -> bool:
    return source.endswith(".py") or "/" in source or "\\" in source


def _run_file(source: str) -> ModuleType:
    """Run a file as a separate module, which can import files next to it."""
    path = Path(source)
    if not path.is_file():
        raise FunctionError(
            f"There is no file '{source}': give the path of the Python file that has the function."
        )
    path = path.resolve()
    called = f"{FILE_MODULE}{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(called, path)
    if spec is None or spec.loader is None:
        raise FunctionError(
            f"'{source}' cannot be run as Python: give the path of a file that ends in .py."
        )
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up their module while it runs.
    sys.modules[called] = module
    with (
        _importable(str(path.parent)),
        said(f"'{shown_path(str(path))}'", CodePosition(str(path), 1)),
    ):
        spec.loader.exec_module(module)
    return module


def _imported(name: str, text: str) -> ModuleType:
    """Import a module by its name, including from the current folder."""
    with _importable(str(Path.cwd())), said(f"The module '{name}'", CodePosition(name, 1)):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise UserError(
                f"There is no module '{name}', which '{text}' names: write one that can be "
                "imported, or the path of a file, ./FILE.py:FUNCTION."
            ) from None


@contextmanager
def _importable(folder: str) -> Iterator[None]:
    """Make the modules in a folder importable within a ``with`` block."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def _check_twice(module: ModuleType, path: str, name: str) -> None:
    """Raise `UserError` if two functions for hardware in a file share a name."""
    by_name: dict[str, OwnFunction] = {}
    for value in vars(module).values():
        if isinstance(value, OwnFunction) and by_name.setdefault(value.name, value) is not value:
            raise UserError(_twice(place_of(value.python), value.name))
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return
    lines = [node.lineno for node in tree.body if _is_decorated(node, name)]
    if len(lines) > 1:
        raise UserError(_twice(CodePosition(path, lines[1]), name))


def _is_decorated(node: ast.AST, name: str) -> bool:
    if not isinstance(node, ast.FunctionDef) or node.name != name:
        return False
    called: list[Any] = [d.func for d in node.decorator_list if isinstance(d, ast.Call)]
    return any(getattr(f, "attr", getattr(f, "id", "")) == "function" for f in called)


def _twice(place: CodePosition, name: str) -> str:
    return (
        f"{place}: two functions for hardware are called '{name}' here: give one of them another "
        "name."
    )
