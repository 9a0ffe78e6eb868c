"""Functions by name: a row of the table, one of an installed package, or one of a user's file.

``rnea`` is the table's, a name that is not there is looked for among the entry points of the group
``pinion.functions``, ``module:function`` is imported, and ``file.py:function`` is run. Code runs
only for a name that somebody wrote: nothing that is read from a build folder comes here.
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

from pinion.dynamics.joint_terms import FRICTION_WIDTH
from pinion.functions.own.decorator import OwnFunction

from . import table
from .errors import FunctionError
from .mistakes import Place, UserError, place_of, said, shown_path
from .options import RowOptions
from .row import Function
from .table import DERIVATIVES, FUNCTIONS

_WORD = 4
"""Letters of a word that says something of a function."""

FILE_MODULE = "_pinion_"
"""How the names of modules begin that are files which were run."""

GROUP = "pinion.functions"
"""Entry points that are functions: ``name = "module:function"``."""


def function(
    name: str,
    *,
    derivatives: str = DERIVATIVES[0],
    outputs: Sequence[str] = (),
    joint_terms: bool | Sequence[str] = (),
    friction_width: float = FRICTION_WIDTH,
) -> Function:
    """A function by name.

    Parameters
    ----------
    name : of a row of the table, of an entry point of the group ``pinion.functions``, or
        ``module:function`` or ``file.py:function``, whose code is run.
    derivatives, outputs, joint_terms, friction_width : as of :func:`.table.function`.

    Raises
    ------
    FunctionError
        When there is no such function, variant or file, or the file's code is wrong; the message
        says where.
    """
    if name in FUNCTIONS:
        return table.function(
            name,
            derivatives=derivatives,
            outputs=outputs,
            joint_terms=joint_terms,
            friction_width=friction_width,
        )
    found = _from_code(name) if ":" in name else _installed(name)
    if derivatives != DERIVATIVES[0]:
        found = found.formulated(derivatives)
    found = found.asked(outputs) if outputs else found
    return found.with_terms(joint_terms, friction_width) if joint_terms else found


def row_of(wanted: str | Function, **options: Unpack[RowOptions]) -> Function:
    """A function by its name, or a row as it is.

    Parameters
    ----------
    wanted : a name, as of :func:`function`, or a row, whose formulation is its own.
    options : as of :func:`function`; ``derivatives`` of a row by its name alone.

    Raises
    ------
    FunctionError
        As :func:`function`.
    """
    given: Any = wanted
    if strange := sorted(options.keys() - RowOptions.__annotations__.keys()):
        # As Python says it where the names stand in a signature.
        raise TypeError(f"A function has no option '{strange[0]}'.")
    if isinstance(given, str):
        return function(given, **options)
    if not isinstance(given, Function):
        shown = getattr(given, "__name__", repr(given))
        raise FunctionError(
            f"{shown:.60} is no function for hardware: give the name of one, or put "
            "@pinion.api.function above it."
        )
    outputs, terms = options.get("outputs"), options.get("joint_terms")
    row = given.asked(outputs) if outputs else given
    return row.with_terms(terms, options.get("friction_width", FRICTION_WIDTH)) if terms else row


def installed() -> dict[str, str]:
    """Names of functions of installed packages, and where each is.

    A name that several packages have, or that is a row's of the table, is not among the names.
    """
    points = _points()
    names = [point.name for point in points]
    return {
        point.name: f"{point.value} of {_package(point)}"
        for point in points
        if names.count(point.name) == 1 and point.name not in FUNCTIONS
    }


def _points() -> list[EntryPoint]:
    """The entry points of the group, each once: a package may be found by two paths."""
    found = {(p.name, p.value): p for p in entry_points(group=GROUP)}
    return sorted(found.values(), key=lambda point: (point.name, point.value))


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unknown package"


def _installed(name: str) -> Function:
    points = _points()
    found = [point for point in points if point.name == name]
    if not found:
        raise FunctionError(_unknown(name, points))
    if len(found) > 1:
        listed = ", ".join(f"{p.value} of {_package(p)}" for p in found)
        raise FunctionError(
            f"The function '{name}' is there {len(found)} times, in installed packages ({listed}): "
            "write the one that is meant as MODULE:FUNCTION, or uninstall the other."
        )
    point = found[0]
    where = f"The entry point '{name}' of {_package(point)} ({point.value})"
    with said(where, Place(point.value, 1)):
        try:
            loaded = point.load()
        except (ModuleNotFoundError, AttributeError) as error:
            raise UserError(
                f"{where} cannot be loaded ({error}): install that package again, or one that fits."
            ) from error
    if not isinstance(loaded, Function):
        raise FunctionError(
            f"{where} is a {type(loaded).__name__} and no function for hardware: its package "
            "must put @pinion.api.function above it."
        )
    if loaded.name in FUNCTIONS:
        raise FunctionError(
            f"{where} is called '{loaded.name}', as a row of Pinion's own table is: its package "
            "must give it another name."
        )
    return loaded


def _unknown(name: str, points: Sequence[EntryPoint]) -> str:
    known = list(dict.fromkeys((*FUNCTIONS, *(point.name for point in points))))
    hidden = [f"{p.name} of {_package(p)}" for p in points if p.name in FUNCTIONS]
    more = ""
    if hidden:
        more = f" ({', '.join(hidden)} cannot be had by name, which is the table's)"
    if name.endswith(".py"):
        return f"'{name}' names a file and none of its functions: write {name}:FUNCTION."
    near = list(dict.fromkeys((*_of_its_words(name), *get_close_matches(name, known, n=3))))[:3]
    choice = f"choose one of {', '.join(known)}"
    if near and not more:
        choice = (
            f"the nearest {'is' if len(near) == 1 else 'are'} {', '.join(near)} "
            "(pinion.functions.FUNCTIONS, or 'pinion build --help', lists all)"
        )
    return (
        f"There is no function '{name}'; {choice}{more}, or write MODULE:FUNCTION or "
        "FILE.py:FUNCTION for one of your own."
    )


def _of_its_words(name: str) -> list[str]:
    """Rows whose names and descriptions have most of the words of a name: gradient, inverse."""
    words = {word for word in re.split(r"[^a-z0-9]+", name.lower()) if len(word) >= _WORD}
    texts = {row.name: f"{row.name} {row.doc}".lower() for row in FUNCTIONS.values()}
    found = {row: sum(word in text for word in words) for row, text in texts.items()}
    most = max(found.values())
    return [row for row, count in found.items() if count == most] if most else []


def _from_code(text: str) -> Function:
    """The function of ``module:function`` or ``file.py:function``."""
    source, _, name = text.rpartition(":")
    if not source or not name.isidentifier():
        raise FunctionError(
            f"The function '{text}' is not named as one is: write MODULE:FUNCTION or "
            "FILE.py:FUNCTION, as in tip.py:tip."
        )
    module = _run_file(source) if _is_file(source) else _imported(source, text)
    found = getattr(module, name, None)
    of = getattr(module, "__file__", None) or source
    _check_twice(module, of, name)
    if isinstance(found, Function):
        return found
    there = _functions(module)
    listed = f"its functions for hardware are {', '.join(there)}" if there else "it has none"
    if found is None:
        raise FunctionError(f"'{shown_path(of)}' has no '{name}': {listed}.")
    where = place_of(found) if hasattr(found, "__code__") else f"'{shown_path(of)}'"
    raise FunctionError(
        f"{where}: '{name}' is a plain {type(found).__name__} and no function for hardware; "
        f"put @pinion.api.function(...) above it ({listed})."
    )


def _functions(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if isinstance(value, Function)]


def _is_file(source: str) -> bool:
    return source.endswith(".py") or "/" in source or "\\" in source


def _run_file(source: str) -> ModuleType:
    """Run a file as a module of its own; what lies beside it can be imported."""
    path = Path(source)
    if not path.is_file():
        raise FunctionError(
            f"There is no file '{source}': give the path of a Python file with the function in it."
        )
    path = path.resolve()
    called = f"{FILE_MODULE}{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(called, path)
    if spec is None or spec.loader is None:
        raise FunctionError(
            f"'{source}' cannot be run as Python: give the path of a file that ends in .py."
        )
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up while it runs.
    sys.modules[called] = module
    with _importable(str(path.parent)), said(f"'{shown_path(str(path))}'", Place(str(path), 1)):
        spec.loader.exec_module(module)
    return module


def _imported(name: str, text: str) -> ModuleType:
    """A module by its name, from the present folder too."""
    with _importable(str(Path.cwd())), said(f"The module '{name}'", Place(name, 1)):
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
    """What lies in a folder can be imported meanwhile."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def _check_twice(module: ModuleType, path: str, name: str) -> None:
    """Refuse a file in which two functions for hardware have one name."""
    seen: dict[str, OwnFunction] = {}
    for value in vars(module).values():
        if isinstance(value, OwnFunction) and seen.setdefault(value.name, value) is not value:
            raise UserError(_twice(place_of(value.python), value.name))
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return
    lines = [node.lineno for node in tree.body if _is_decorated(node, name)]
    if len(lines) > 1:
        raise UserError(_twice(Place(path, lines[1]), name))


def _is_decorated(node: ast.AST, name: str) -> bool:
    if not isinstance(node, ast.FunctionDef) or node.name != name:
        return False
    called: list[Any] = [d.func for d in node.decorator_list if isinstance(d, ast.Call)]
    return any(getattr(f, "attr", getattr(f, "id", "")) == "function" for f in called)


def _twice(place: Place, name: str) -> str:
    return (
        f"{place}: two functions for hardware are called '{name}' here: give one of them another "
        "name."
    )
