"""The page of errors and exit codes, from the classes themselves."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

import pinion

from . import messages

# What the command line turns into a sentence (`pinion.console.errors.sentence`).
SPOKEN = (ValueError, RuntimeError, OSError)

HEAD = """\
# Errors and exit codes

| code | meaning |
| --- | --- |
| 0 | good |
| 1 | a check ran and failed: a wrong bit, an error beyond its budget, a missed clock |
| 2 | the input or the environment is wrong; one sentence on standard error says what to do |
| 130, 143 | ended by Ctrl-C, by SIGTERM |

The message of each error below is one sentence with the offending value and what to do about it. On
the command line it is printed and the code is 2; an exception of any other class is a defect of
Pinion and keeps its traceback. In Python, `except ValueError` catches what the caller can correct,
`except RuntimeError` what failed in the middle of work: a card, a tool, a simulation.

A `TraceError` is a `TypeError` and a `CheckError` an `AssertionError`: the one speaks to whoever
writes a function (with file and line), the other says that Pinion contradicted itself.
"""

OFTEN = """
## What is said most

Each message is what the code said when this page was made, by doing what leads to it.
"""


def page() -> str:
    """Every class of errors that Pinion defines, by package, with its first sentence."""
    parts = [HEAD, OFTEN, messages.tables(), "\n## All classes\n"]
    for package, classes in _classes().items():
        parts.append(f"\n### `{package}`\n\n| error | is a | exit code | what it says |\n")
        parts.append("| --- | --- | --- | --- |\n")
        for found in classes:
            bases = ", ".join(f"`{base.__name__}`" for base in found.__bases__)
            code = "2" if issubclass(found, SPOKEN) else "-"
            doc = " ".join((inspect.getdoc(found) or "").partition("\n\n")[0].split())
            parts.append(f"| `{found.__name__}` | {bases} | {code} | {doc} |\n")
    return "".join(parts)


def _classes() -> dict[str, list[type[Exception]]]:
    """Classes of errors by package, in the order of their lines."""
    made: dict[str, dict[str, type[Exception]]] = {}
    for name in _modules():
        module = import_module(name)
        for found in vars(module).values():
            if not inspect.isclass(found) or not issubclass(found, Exception):
                continue
            if found.__module__ != name or not found.__name__.endswith("Error"):
                continue
            if not found.__name__.startswith("_") and not issubclass(found, Warning):
                package = ".".join(name.split(".")[:2])
                made.setdefault(package, {})[found.__qualname__] = found
    return {package: list(made[package].values()) for package in sorted(made)}


def _modules() -> list[str]:
    """Modules that define errors, found by their text, so that no other is imported."""
    found = []
    for info in pkgutil.walk_packages(pinion.__path__, "pinion."):
        spec = info.module_finder.find_spec(info.name, None)
        origin = spec.origin if spec else None
        if origin and origin.endswith(".py"):
            with open(origin, encoding="utf-8") as source:
                if any(line.startswith("class ") and "Error(" in line for line in source):
                    found.append(info.name)
    return found
