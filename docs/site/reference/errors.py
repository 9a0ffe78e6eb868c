"""The page of errors and exit codes, from the classes themselves."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

import pinion

from . import messages

# Errors that the command line prints as a sentence (`pinion.console.errors.sentence`).
SPOKEN = (ValueError, RuntimeError, OSError)

HEAD = """\
# Errors and exit codes

| code | meaning |
| --- | --- |
| 0 | success |
| 1 | a check ran and failed: a wrong bit, an error beyond its budget, a missed clock |
| 2 | the input or the environment is wrong; one sentence on standard error says what to do |
| 130, 143 | interrupted by Ctrl-C, by SIGTERM |

The message of each error below is one sentence with the offending value and what to do about it.
The command line prints it and exits with code 2; an exception of any other class is a defect of
Pinion and keeps its traceback. In Python, `except ValueError` catches errors that the caller can
correct, `except RuntimeError` failures during work: of a card, a tool, a simulation.

A `TraceError` is a `TypeError` for authors of functions (with file and line); a `CheckError` is an
`AssertionError` and means that Pinion contradicted itself.
"""

OFTEN = """
## Frequent messages

Each message was produced by its situation when this page was generated.
"""


def page() -> str:
    """Return every error class of Pinion, by package, with its first sentence."""
    parts = [HEAD, OFTEN, messages.tables(), "\n## All classes\n"]
    for package, classes in _classes().items():
        parts.append(f"\n### `{package}`\n\n| error | is a | exit code | meaning |\n")
        parts.append("| --- | --- | --- | --- |\n")
        for error_class in classes:
            bases = ", ".join(f"`{base.__name__}`" for base in error_class.__bases__)
            code = "2" if issubclass(error_class, SPOKEN) else "-"
            doc = " ".join((inspect.getdoc(error_class) or "").partition("\n\n")[0].split())
            parts.append(f"| `{error_class.__name__}` | {bases} | {code} | {doc} |\n")
    return "".join(parts)


def _classes() -> dict[str, list[type[Exception]]]:
    """Return the error classes by package, in source order."""
    by_package: dict[str, dict[str, type[Exception]]] = {}
    for name in _modules():
        module = import_module(name)
        for value in vars(module).values():
            if not inspect.isclass(value) or not issubclass(value, Exception):
                continue
            if value.__module__ != name or not value.__name__.endswith("Error"):
                continue
            if not value.__name__.startswith("_") and not issubclass(value, Warning):
                package = ".".join(name.split(".")[:2])
                by_package.setdefault(package, {})[value.__qualname__] = value
    return {package: list(by_package[package].values()) for package in sorted(by_package)}


def _modules() -> list[str]:
    """Return modules that define errors, found by their text, so that no other is imported."""
    names = []
    for info in pkgutil.walk_packages(pinion.__path__, "pinion."):
        spec = info.module_finder.find_spec(info.name, None)
        origin = spec.origin if spec else None
        if origin and origin.endswith(".py"):
            with open(origin, encoding="utf-8") as source:
                if any(line.startswith("class ") and "Error(" in line for line in source):
                    names.append(info.name)
    return names
