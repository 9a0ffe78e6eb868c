"""Broken variants of a component: its source with one expression replaced."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tests.gateware.link.streams import StreamError


def mutant(component: type, old: str, new: str) -> Any:
    """Return the class of a component whose module's source has ``new`` in the place of ``old``.

    Raises
    ------
    ValueError
        When ``old`` does not stand in the source exactly once: the mutant would be another one.
    """
    module = inspect.getmodule(component)
    assert module is not None
    source = inspect.getsource(module)
    if source.count(old) != 1:
        raise ValueError(
            f"{old!r} stands {source.count(old)} times in {module.__name__}: name it exactly."
        )
    broken = ModuleType(module.__name__)
    broken.__package__ = module.__package__
    exec(compile(source.replace(old, new), f"mutant of {module.__file__}", "exec"), vars(broken))
    return getattr(broken, component.__name__)


def noticed(check: Callable[[], str]) -> bool:
    """Whether a comparison finds a difference, or the bench a breach of the stream's contract."""
    try:
        return bool(check())
    except StreamError:
        return True
