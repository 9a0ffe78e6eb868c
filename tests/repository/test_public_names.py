"""Every public name is documented."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

# The command line is a command, not a library; its help pages have tests of their own.
COMMANDS = {"pinion.bench", "pinion.cli", "pinion.console"}


def _documentation(value: object) -> str:
    """Return the docstring of a class or function, without inherited and generated ones."""
    text = (vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__) or ""
    made_up = inspect.isclass(value) and text.startswith(f"{value.__name__}(")
    return "" if made_up else text.strip()


def test_every_package_lists_its_public_names(packages: dict[str, Path]) -> None:
    for name in packages.keys() - COMMANDS:
        package = import_module(name)
        assert (package.__doc__ or "").strip(), f"{name} has no docstring"
        listed = getattr(package, "__all__", [])
        assert listed, f"{name} has no __all__"
        missing = [n for n in listed if not hasattr(package, n)]
        assert not missing, f"{name} lists {missing}, which it does not have"


def test_every_public_name_has_a_docstring(packages: dict[str, Path]) -> None:
    bare = []
    for name in packages.keys() - COMMANDS:
        package = import_module(name)
        for public in getattr(package, "__all__", []):
            value = getattr(package, public)
            documented = inspect.isclass(value) or inspect.isroutine(value)
            if documented and len(_documentation(value).split()) < 3:
                bare.append(f"{name}.{public}")
    assert not bare, f"no docstring, or hardly one: {sorted(bare)}"
