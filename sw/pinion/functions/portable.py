"""Pickling of functions: by name and options where they have a name.

Python pickles functions by their names, and the algorithms of the table's rows have none. A row is
pickled as its name, a user-defined function as its module and name, or its file if it is a script,
because "__main__" is another module in each process. A function without a name, such as one in a
notebook, is pickled itself: cloudpickle, which Ray and joblib use, accepts it, and the standard
library's pickle refuses it.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pinion.dynamics.joint_terms import FRICTION_WIDTH

from . import named, table
from .errors import FunctionError
from .options import RowOptions, options_from_text
from .own.decorator import OwnFunction
from .row import Function


@dataclass(frozen=True)
class PortableFunction:
    """The object that is pickled in place of a function.

    Members
    -------
    source : the name of a row of the table; a path and a name in it, as
        :func:`pinion.functions.named_function` takes them; a module and a name in it; or the
        function itself.
    options : options of the function.
    """

    source: str | tuple[str, str] | Function
    options: RowOptions

    def function(self) -> Function:
        """Look up the function in this process.

        Raises
        ------
        FunctionError
            If there is no such module, file or function here.
        """
        if isinstance(self.source, tuple):
            return named.row_of(_of_module(*self.source), **self.options)
        if isinstance(self.source, str):
            path, _, name = self.source.rpartition(":")
            # The script of this process is not run again.
            if path and path == _script():
                current: Any = getattr(sys.modules["__main__"], name, None)
                if isinstance(current, OwnFunction):
                    return named.row_of(current, **self.options)
        return named.row_of(self.source, **self.options)


def portable(row: Function) -> PortableFunction:
    """Return the object to pickle in place of a function."""
    options = _options_of(row)
    if in_table(row):
        return PortableFunction(row.name, options)
    options.pop("derivatives", None)
    as_it_is = PortableFunction(row, {})
    if isinstance(row, OwnFunction):
        module, name = row.python.__module__, row.python.__qualname__
        imported: Any = getattr(sys.modules.get(module), name, None)
        if isinstance(imported, OwnFunction) and named.row_of(imported, **options) == row:
            if module == "__main__":
                script = _script()
                return PortableFunction(f"{script}:{name}", options) if script else as_it_is
            if module.startswith(named.FILE_MODULE):
                return PortableFunction(f"{sys.modules[module].__file__}:{name}", options)
            return PortableFunction((module, name), options)
    return as_it_is


def in_table(row: Function) -> bool:
    """Return whether a row is in the table, so that its name and options suffice."""
    try:
        return row == table.table_function(row.name, **_options_of(row))
    except FunctionError:
        return False


def _options_of(row: Function) -> RowOptions:
    """Return the options of a row, including the friction width, which its text omits."""
    options = options_from_text(row.options)
    if row.friction_width != FRICTION_WIDTH:
        options["friction_width"] = row.friction_width
    return options


def _script() -> str | None:
    """Return the path of this process's script; None in a notebook and at the prompt."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if path is None or not str(path).endswith(".py") or not Path(path).is_file():
        return None
    return str(Path(path).resolve())


def _of_module(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise FunctionError(
            f"The function '{module}.{name}' cannot be loaded in this process ({error}): define it "
            "in a module that this process can import."
        ) from None
