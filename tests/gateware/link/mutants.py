"""Broken variants of a component: its source with one expression replaced."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from tests.gateware.link.streams import StreamError


def mutant(component: type, old: str, new: str) -> Any:
    """Return a component's class from its module's source with ``old`` replaced by ``new``.

    Raises
    ------
    ValueError
        If ``old`` is not in the source exactly once.
    """
    return mutant_of_all(component, {old: new})


def mutant_of_all(component: type, changes: Mapping[str, str], **names: object) -> Any:
    """Return a mutant with several changes, whose new texts may use additional global names.

    Raises
    ------
    ValueError
        If one of the old texts is not in the source exactly once.
    """
    module = inspect.getmodule(component)
    assert module is not None
    source = inspect.getsource(module)
    for old, new in changes.items():
        if source.count(old) != 1:
            raise ValueError(
                f"{old!r} is {source.count(old)} times in {module.__name__}, not once."
            )
        source = source.replace(old, new)
    broken = ModuleType(module.__name__)
    broken.__package__ = module.__package__
    vars(broken).update(names)
    exec(compile(source, f"mutant of {module.__file__}", "exec"), vars(broken))
    return getattr(broken, component.__name__)


def noticed(check: Callable[[], str]) -> bool:
    """Return whether a check finds a difference or a violation of the stream's contract."""
    try:
        return bool(check())
    except StreamError:
        return True
